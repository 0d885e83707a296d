"""The table of routes, and the matching of paths to them.

A new protocol is one line in `WORKFLOW_ROUTES`. The scope that each route needs is in `scopes`: a route without a rule
there needs `admin`, and fails a test.
"""

import re
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from functools import lru_cache, partial
from types import ModuleType, SimpleNamespace
from typing import Literal, NamedTuple, Protocol, cast

from palaver.errors import (
    InvalidValue,
    MethodNotAllowed,
    NotFound,
    PalaverError,
    RequestError,
)
from palaver.protocols import openai
from palaver.protocols.agenta import invoke, run
from palaver.protocols.agenta import response as agenta
from palaver.protocols.base import Adapter, HttpRequest, HttpResponse
from palaver.protocols.chat_completions import adapter as chat_completions
from palaver.protocols.responses import adapter as responses
from palaver.protocols.services import adapter as services
from palaver.protocols.ui_stream import adapter as ui_stream
from palaver.server import endpoints
from palaver.server.endpoints import ServedWorkflows
from palaver.server.error_responses import StatusColumn, final_status
from palaver.server.request import Exchange
from palaver.server.stored_responses import StoredResponses

_UNNORMALIZED = re.compile(r"//|[\\;\0]|\.(?:/|$)")
"""`//`, `\\`, `;params`, NUL, and segments that end with a dot, such as `..`."""


def is_unnormalized(path: str, raw_path: bytes) -> bool:
    """Whether a path has escapes, `//`, `..` or `;`. None of our routes needs them, so each route has one spelling."""
    return b"%" in raw_path or _UNNORMALIZED.search(path) is not None


def unnormalized_path(path: str) -> RequestError:
    return InvalidValue(
        f"The path {path[:80]!r} is not normalised. Remove '//', '..', ';', backslashes and percent-escapes."
    )


EndpointKind = Literal[
    "call", "metadata", "stored", "resume", "stop", "service", "traces", "server", "api", "files", "page"
]
MetadataHandler = Callable[[HttpRequest, ServedWorkflows], HttpResponse]
StoredHandler = Callable[[StoredResponses, Exchange, HttpRequest], Awaitable[HttpResponse | None]]
_READ = ("GET", "HEAD")
_MAX_CACHED_PATH_CHARS = 200  # Longer paths are not cached.


class ErrorEncoder(Protocol):
    """Encodes an error in the format of a route."""

    def __call__(self, error: PalaverError, request: None, *, status: int) -> HttpResponse: ...


class Endpoint(NamedTuple):
    """How a path is answered."""

    kind: EndpointKind
    methods: tuple[str, ...]
    encode_error: ErrorEncoder | None = None
    adapter: Adapter | None = None
    """Set for a call."""
    metadata_handler: MetadataHandler | None = None
    stored_handler: StoredHandler | None = None
    cancels_on_disconnect: bool = True
    """For a call: whether a disconnect cancels the run, unless the workflow says otherwise."""
    interrupts_session: bool = False
    """For a call: whether it cancels a run of the same session."""
    workflow_in_body: bool = False
    """For a call: whether its body may name the workflow."""
    stores_request: bool = True
    """For a call: whether the decoded request is stored with the run."""
    status_column: StatusColumn = "a"
    protocol: str = ""


class RouteMatch(NamedTuple):
    """An endpoint, the workflow in the path (None: the default one), and other parameters of the path."""

    endpoint: Endpoint
    workflow: str | None
    name: str
    parameters: Mapping[str, str] = {}


def call_endpoint(protocol: ModuleType, *, column: StatusColumn = "b") -> Endpoint:
    adapter = cast("Adapter", protocol)
    encode_error = cast("ErrorEncoder", adapter.encode_error)
    name = protocol.__name__.removesuffix(".adapter").rpartition(".")[2]
    return Endpoint("call", ("POST",), encode_error, adapter, status_column=column, protocol=name)


def _metadata_endpoint(
    handler: MetadataHandler,
    encode_error: Callable[..., HttpResponse],
    methods: tuple[str, ...] = _READ,
    *,
    column: StatusColumn = "b",
) -> Endpoint:
    return Endpoint(
        "metadata", methods, cast("ErrorEncoder", encode_error), metadata_handler=handler, status_column=column
    )


def _openai_error(error: PalaverError, request: None, *, status: int) -> HttpResponse:  # noqa: ARG001 - an ErrorEncoder
    return openai.error_response(error, status=status)


_RESPONSES = call_endpoint(responses)._replace(workflow_in_body=True)
WORKFLOW_ROUTES: dict[str, Endpoint] = {
    "inspect": _metadata_endpoint(endpoints.inspect_workflow, agenta.error_response, ("GET", "POST"), column="a"),
    "invoke": call_endpoint(invoke, column="a"),
    "run": call_endpoint(run, column="a"),
    "test": call_endpoint(run, column="a"),
    "invocations": _RESPONSES,
    "responses": _RESPONSES,
    "v1/responses": _RESPONSES,
    "v1/chat/completions": call_endpoint(chat_completions)._replace(workflow_in_body=True),
    "api/chat": call_endpoint(ui_stream)._replace(cancels_on_disconnect=False, interrupts_session=True),
    "v1/models": _metadata_endpoint(endpoints.list_models, _openai_error),
    "agent/info": _metadata_endpoint(endpoints.agent_info, _openai_error),
}
"""Routes of a workflow: below `/{w}`, and at the root for the default workflow."""


def _stored_endpoint(handler: StoredHandler, *methods: str) -> Endpoint:
    return Endpoint("stored", methods, _openai_error, stored_handler=handler, status_column="b")


_UNSUPPORTED = _metadata_endpoint(endpoints.unsupported_response_route, _openai_error, (*_READ, "POST", "DELETE"))
_ui_stream_error = cast("ErrorEncoder", ui_stream.encode_error)
_PATTERNS: Sequence[tuple[str, re.Pattern[str], Endpoint]] = [
    (name, re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", name)), endpoint)
    for name, endpoint in {
        "v1/models/{model}": _metadata_endpoint(endpoints.get_model, _openai_error),
        "api/chat/{id}/stream": Endpoint("resume", _READ, _ui_stream_error, status_column="b"),
        "api/chat/{id}/stop": Endpoint("stop", ("POST",), _ui_stream_error, status_column="b"),
        "(v1/)?responses/input_tokens": _UNSUPPORTED,
        "(v1/)?responses/compact": _UNSUPPORTED,
        "(v1/)?responses/{id}": _stored_endpoint(StoredResponses.response, "GET", "HEAD", "DELETE"),
        "(v1/)?responses/{id}/cancel": _stored_endpoint(StoredResponses.cancel, "POST"),
        "(v1/)?responses/{id}/input_items": _stored_endpoint(StoredResponses.input_items, "GET", "HEAD"),
        "(v1/)?conversations": _stored_endpoint(StoredResponses.conversations, "POST"),
        "(v1/)?conversations/{id}": _stored_endpoint(StoredResponses.conversation, "GET", "HEAD", "POST", "DELETE"),
        "(v1/)?conversations/{id}/items": _stored_endpoint(StoredResponses.items, "GET", "HEAD", "POST"),
        "(v1/)?conversations/{id}/items/{item}": _stored_endpoint(StoredResponses.item, "GET", "HEAD", "DELETE"),
        "v1/files": Endpoint("files", ("GET", "POST"), _openai_error, status_column="b"),
        "v1/files/{id}": Endpoint("files", ("GET", "DELETE"), _openai_error, status_column="b"),
        "v1/files/{id}/content": Endpoint("files", ("GET",), _openai_error, status_column="b"),
    }.items()
]
"""Name, pattern and endpoint of the workflow routes that are not in `WORKFLOW_ROUTES`; the first match counts."""


def _service_endpoint() -> Endpoint:
    """The endpoint of services, whose streams contain the HTTP status of errors."""
    adapter = SimpleNamespace(**vars(services))
    adapter.stream_encoder = partial(services.stream_encoder, status=partial(final_status, column="b"))
    return call_endpoint(cast("ModuleType", adapter))._replace(kind="service", stores_request=False)


_SERVICE = _service_endpoint()
SERVICE_ROUTES: Mapping[str, Endpoint] = {
    "services": _SERVICE._replace(methods=_READ),
    "services/{w}": _SERVICE._replace(methods=(*_READ, "POST")),
    services.STREAM_ROUTE: _SERVICE,
    "services/{w}/README.md": _SERVICE._replace(methods=_READ),
}
_UNKNOWN_SERVICE = _SERVICE._replace(methods=(*_READ, "POST", "PUT", "PATCH", "DELETE"))

SERVER_ROUTES: Mapping[str, Endpoint] = {
    path: Endpoint("server", _READ)
    for path in ("health", "ready", "livez", "version", "status", "metrics", "openapi.json")
}
OTLP_ROUTES: Mapping[str, Endpoint] = dict.fromkeys(
    ("v1/traces", "v1/logs", "api/public/otel/v1/traces", "api/otlp/v1/traces"),
    Endpoint("traces", ("POST",), status_column="b"),
)
"""OTLP spans and log records; spans also on the paths to which the SDKs of Langfuse and Agenta send them."""
_OTLP_SUFFIXES = tuple(f"/{path}" for path in OTLP_ROUTES)
_API = Endpoint("api", ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"))
_PAGE = Endpoint("page", _READ)
PAGE_SEGMENTS = frozenset("play workflows traces sessions testsets evaluations reviews settings login".split())
"""First segments of the paths of the web page, all of which get the same document."""


def match_path(path: str) -> RouteMatch | None:
    """Match a path, with or without a slash at its end. If a route at the root and one of a workflow match, the former.

    The server decides between them, as it knows the names of its workflows (see `match_workflow_path`).
    """
    return _match_root(path.strip("/")) or match_workflow_path(path)


def match_workflow_path(path: str) -> RouteMatch | None:
    """Match the path `/{workflow}/…`."""
    workflow, _, subpath = path.strip("/").partition("/")
    endpoint = WORKFLOW_ROUTES.get(subpath)
    return RouteMatch(endpoint, workflow, subpath) if endpoint is not None else _match_pattern(subpath, workflow)


def _match_root(path: str) -> RouteMatch | None:
    if endpoint := WORKFLOW_ROUTES.get(path) or OTLP_ROUTES.get(path):
        return RouteMatch(endpoint, None, path)
    first, _, subpath = path.partition("/")
    if not first or first in PAGE_SEGMENTS:
        return RouteMatch(_PAGE, None, "page")
    if first == "assets":
        return RouteMatch(_PAGE, None, "asset", {"file": subpath})
    if first == "docs":
        return RouteMatch(_PAGE, None, "docs")
    if first == "services":
        return _match_service(subpath)
    if path in SERVER_ROUTES:
        return RouteMatch(SERVER_ROUTES[path], None, path)
    return _match_pattern(path, None) or (RouteMatch(_API, None, "api") if first == "api" else None)


def _match_service(subpath: str) -> RouteMatch:
    """Match a path below /services. An unknown one matches too, as services have their own error format."""
    workflow, _, action = subpath.partition("/")
    name = "/".join(["services", *(["{w}"] if workflow else []), *([action] if action else [])])
    if name not in SERVICE_ROUTES:
        return RouteMatch(_UNKNOWN_SERVICE, workflow, "services/{w}/other")
    return RouteMatch(SERVICE_ROUTES[name], workflow or None, name)


def exporter_path(method: str, path: str) -> str:
    """Return an exporter's path without its double slash: many append `/v1/traces` to a URL that ends with one."""
    return path.replace("//", "/", 1) if method == "POST" and path.endswith(_OTLP_SUFFIXES) else path


class ResolvedPath(NamedTuple):
    """A path without the proxy's prefix, and its route."""

    path: str
    is_unnormalized: bool = False
    route: RouteMatch | None = None
    workflow_route: RouteMatch | None = None
    """Also matches, if a workflow has the name of the first segment: `POST /docs/invoke` calls the workflow `docs`."""

    def choose_route(self, method: str, workflows: Container[str]) -> RouteMatch | None:
        """Return the route: that of a workflow, if there is one with this name."""
        other = self.workflow_route
        if other is None or method not in other.endpoint.methods or (other.workflow or "") not in workflows:
            return self.route
        return other


def resolve_path(prefix: str, path: str, raw_path: bytes) -> ResolvedPath:
    return (_resolve_cached if len(path) <= _MAX_CACHED_PATH_CHARS else _resolve_cached.__wrapped__)(
        prefix, path, raw_path
    )


@lru_cache(1024)
def _resolve_cached(prefix: str, path: str, raw_path: bytes) -> ResolvedPath:
    unnormalized = is_unnormalized(path, raw_path)
    path = strip_prefix(prefix, path)
    if unnormalized:
        return ResolvedPath(path, is_unnormalized=True)
    route, workflow_route = _match_root(path.strip("/")), match_workflow_path(path)
    if route is None:
        return ResolvedPath(path, route=workflow_route)
    # OpenAI's clients use /v1 at the root: a workflow `v1` has /v1/v1/responses and /v1/invocations.
    is_exact = path.startswith("/v1/") or (route.name in SERVICE_ROUTES and route.name != "services/{w}")
    return ResolvedPath(path, route=route, workflow_route=None if is_exact else workflow_route)


def _match_pattern(path: str, workflow: str | None) -> RouteMatch | None:
    for name, pattern, endpoint in _PATTERNS:
        if match := pattern.fullmatch(path):
            return RouteMatch(
                endpoint, workflow, name, {key: value for key, value in match.groupdict().items() if value}
            )
    return None


def path_not_found(path: str) -> NotFound:
    return NotFound(f"Not found: {path[:80]}")


def strip_prefix(prefix: str, path: str) -> str:
    return path[len(prefix) :] or "/" if path == prefix or path.startswith(f"{prefix}/") else path


def require_method(endpoint: Endpoint, method: str, path: str) -> None:
    if method not in endpoint.methods:
        raise MethodNotAllowed(method, path, allowed=endpoint.methods)


def workflow_paths(workflow: str) -> dict[str, str]:
    """Return the paths under which a workflow can be called, by protocol."""
    return {
        "invoke": f"/{workflow}/invoke",
        "responses": f"/{workflow}/v1/responses",
        "invocations": f"/{workflow}/invocations",
        "chat_completions": f"/{workflow}/v1/chat/completions",
        "ui_stream": f"/{workflow}/api/chat",
        "services": f"/services/{workflow}",
    }
