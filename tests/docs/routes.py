"""The tables of docs/routes.md: every route of a server, read from the router's tables and from OpenAPI.

Protocol routes are described here; a route without a description raises KeyError.
"""

import asyncio
import re
from collections.abc import Iterable
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

from palaver.server.routing import (
    _PATTERNS,
    OTLP_ROUTES,
    PAGE_SEGMENTS,
    SERVER_ROUTES,
    SERVICE_ROUTES,
    WORKFLOW_ROUTES,
    match_path,
)
from palaver.server.scopes import SERVER_RULES, required_scope
from palaver.testing import client, echo

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")  # HEAD is allowed wherever GET is.

CALLS = "Protocols, under `/{workflow}` and at the root for the default workflow"
STORED = "What was answered: also under `/{workflow}`, and where they begin with `/v1`, also without it"
SERVICES = "Services, at the root"
SERVER = "The server itself"
REST_API = "The platform's own REST API"

DESCRIPTIONS = {
    "inspect": ("what it is, what it takes", "discovery.md"),
    "invoke": ("a call", "calling.md"),
    "run": ("a call, as Agenta's older clients make it", "calling.md"),
    "test": ("the same", "calling.md"),
    "invocations": ("a call: OpenAI Responses, as MLflow's clients want it", "protocols.md"),
    "responses": ("the same", "protocols.md"),
    "v1/responses": ("a call: OpenAI Responses", "protocols.md"),
    "v1/chat/completions": ("a call: Chat Completions", "protocols.md"),
    "api/chat": ("a call: the AI SDK's UI message stream", "protocols.md"),
    "v1/models": ("the workflows, as models", "discovery.md"),
    "agent/info": ("the default workflow, as MLflow's clients ask", "discovery.md"),
    "v1/models/{model}": ("one of them", "discovery.md"),
    "api/chat/{id}/stream": ("a chat's run that still goes on, from its start", "protocols.md"),
    "api/chat/{id}/stop": ("end it", "protocols.md"),
    "v1/responses/{id}": ("a stored response; erase it", "protocols.md"),
    "v1/responses/{id}/cancel": ("end it", "protocols.md"),
    "v1/responses/{id}/input_items": ("what it saw", "protocols.md"),
    "v1/conversations": ("a new conversation", "protocols.md"),
    "v1/conversations/{id}": ("one; its metadata; erase it", "protocols.md"),
    "v1/conversations/{id}/items": ("what was said; add to it", "protocols.md"),
    "v1/conversations/{id}/items/{item}": ("one item; erase it", "protocols.md"),
    "services": ("what there is", "services.md"),
    "services/{w}": ("what one is; a call of it", "services.md"),
    "services/{w}/stream": ("a call, streamed", "services.md"),
    "services/{w}/README.md": ("what its author says of it", "services.md"),
    "v1/traces": ("spans, over OTLP", "traces.md"),
    "health": ("it is alive", "deploy.md"),
    "ready": ("it can answer", "deploy.md"),
    "livez": ("it is alive, and which version it is", "services.md"),
    "version": ("which version it is", "deploy.md"),
    "status": ("what works: the database, and what workflows say of themselves", "services.md"),
    "metrics": ("figures for Prometheus", "deploy.md"),
    "openapi.json": ("all of this, for programs", "discovery.md"),
}
API_PAGES = {
    "about": "settings.md",
    "boards": "boards.md",
    "bootstrap": "socket.md",
    "connections": "connections.md",
    "erase": "backup.md",
    "evaluations": "evaluation.md",
    "evaluators": "evaluation.md",
    "extract": "extraction.md",
    "feedback": "threads.md",
    "files": "files.md",
    "keys": "keys.md",
    "online": "evaluation.md",
    "projects": "keys.md",
    "reviews": "evaluation.md",
    "runs": "runs.md",
    "session": "keys.md",
    "sessions": "traces.md",
    "settings": "settings.md",
    "spans": "traces.md",
    "testsets": "testsets.md",
    "threads": "threads.md",
    "traces": "traces.md",
    "variants": "variants.md",
    "views": "traces.md",
    "workflows": "discovery.md",
}
SOCKETS = {
    "/api/socket": ("the page's own, for everything", "socket.md"),
    "/services/{w}": ("a service", "services.md"),
}


class Route(NamedTuple):
    group: str
    methods: tuple[str, ...]
    path: str
    need: str
    what: str
    page: str

    @property
    def pattern(self) -> re.Pattern[str]:
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(self.path))
        return re.compile(re.sub("^/v1/", "/(?:v1/)?", pattern) if self.group == STORED else pattern)


def every_route() -> list[Route]:
    """Return all routes, in the order of the page."""
    return [*_calls(), *_services(), *_server_routes(), *_api_routes()]


def is_route(method: str, path: str) -> bool:
    """Whether a route has this method and path. The path may start with a workflow's name."""
    path_in_workflow, full_path = re.sub(r"^/[^/]+(?=/)", "", path), path.rstrip("/") or "/"
    candidates = [route for route in every_route() if method in route.methods]
    return any(
        route.pattern.fullmatch(full_path)
        or (route.group in (CALLS, STORED) and route.pattern.fullmatch(path_in_workflow))
        for route in candidates
    )


def _calls() -> Iterable[Route]:
    for name, endpoint in WORKFLOW_ROUTES.items():
        yield _route(CALLS, endpoint.methods, name, "invoke")
    for name, _, endpoint in _PATTERNS:
        group = CALLS if name.startswith("v1/models") else STORED
        yield _route(group, endpoint.methods, name.replace("(v1/)?", "v1/"), "invoke")


def _services() -> Iterable[Route]:
    for name, endpoint in SERVICE_ROUTES.items():
        yield _route(SERVICES, endpoint.methods, name, "invoke")


def _server_routes() -> Iterable[Route]:
    for first in ("", *sorted(PAGE_SEGMENTS)):
        yield Route(SERVER, ("GET",), f"/{first}", "nothing", "the page, and every path below", "socket.md")
    yield Route(SERVER, ("GET",), "/assets/{file}", "nothing", "what the page loads", "socket.md")
    for name, endpoint in SERVER_ROUTES.items():
        yield _route(SERVER, endpoint.methods, name, SERVER_RULES[name])
    for name, endpoint in OTLP_ROUTES.items():
        yield _route(SERVER, endpoint.methods, name, "invoke")


def _api_routes() -> Iterable[Route]:
    for path, operations in sorted(_document()["paths"].items()):
        match = match_path(path)
        if match is None or match.endpoint.kind != "api":
            continue
        page = API_PAGES[path.split("/")[2]]
        for method in (method for method in _METHODS if method.lower() in operations):
            what = operations[method.lower()]["summary"]
            yield Route(REST_API, (method,), path, required_scope(match, method, path), what, page)


def _route(group: str, methods: Iterable[str], name: str, need: str) -> Route:
    what, page = DESCRIPTIONS[name]
    return Route(group, tuple(method for method in _METHODS if method in set(methods)), f"/{name}", need, what, page)


@cache
def _document() -> Any:
    async def fetch() -> Any:
        async with client(echo) as http:
            return (await http.get("/openapi.json")).json()

    return asyncio.run(fetch())


def table() -> str:
    """Return the generated tables of docs/routes.md."""
    parts: list[str] = []
    for group, routes in groupby(every_route(), lambda route: route.group):
        lines = groupby(routes, lambda route: (route.methods, route.need, route.what, route.page))
        rows = [
            f"| {', '.join(methods)} {_paths(equal_routes)} | {need} | {what} | [{page}]({page}) |"
            for (methods, need, what, page), equal_routes in lines
        ]
        parts.append("\n".join([f"## {group}", "", "| route | scope | | more |", "|---|---|---|---|", *rows]))
    rows = [f"| `{path}` | {what} | [{page}]({page}) |" for path, (what, page) in SOCKETS.items()]
    parts.append("\n".join(["## WebSockets", "", "| path | | more |", "|---|---|---|", *rows]))
    return "\n\n".join(parts)


def _paths(equal_routes: Iterable[Route]) -> str:
    return ", ".join(f"`{route.path}`" for route in equal_routes)
