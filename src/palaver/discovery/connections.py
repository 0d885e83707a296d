"""Remote services as workflows: `connect(url)` for synchronous code, and its steps for the server."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from palaver.core.descriptions import Description, Schemas, check_workflow_name
from palaver.discovery.evidence import Dialect, Discovery, public_report
from palaver.discovery.probe import discover, require_callable
from palaver.discovery.workflow_loader import is_loading_targets
from palaver.errors import DeclarationError, DiscoveryRefused, InvalidOption, NotDiscovered
from palaver.frameworks.remote import CLIENTS, RemoteService, RemoteWorkflow
from palaver.outbound import check_url

if TYPE_CHECKING:
    import httpx

_T = TypeVar("_T")
_COMPOSITION_KEYWORDS = {"$ref", "allOf", "anyOf", "oneOf"}

log = logging.getLogger("palaver.discovery")


@dataclass(frozen=True, kw_only=True)
class ConnectionConfig:
    """The URL of a service, and declared facts about it."""

    url: str
    is_chat: bool | None = None
    dialect: Dialect | None = None
    model: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    timeout: float = 60
    transport: "Callable[[], httpx.AsyncBaseTransport | None]" = lambda: None
    """Creates the transport of discovery and calls, if not all addresses are allowed."""

    @property
    def place(self) -> str:
        """The URL without its query, which may contain keys."""
        return urlsplit(self.url)._replace(query="", fragment="").geturl()


def connect(
    url: str,
    *,
    name: str | None = None,
    is_chat: bool | None = None,
    dialect: Dialect | None = None,
    model: str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = 60,
) -> RemoteWorkflow:
    """Wrap the service at a URL as a workflow, which clients can call over every protocol.

    Discovers in at most 15 seconds whether the service is a chat and which protocol it uses. If the service is
    unreachable, discovery is repeated later. The same applies to a service that is not recognised, if the module is
    loaded by `palaver serve` or `palaver worker`: the other workflows are served.

    Args:
        url: URL of the service or of one of its endpoints.
        name: Name of the workflow. By default, the last part of the path, or the host.
        is_chat: Whether it is a chat, if you know.
        dialect: Its protocol, if you know.
        model: Model to request from a service that has several.
        headers: Headers for every request, such as an API key. They are sent to this service only, and never shown.
        timeout: Seconds without data after which a call fails.

    Raises:
        NotDiscovered: The service responds, but its protocol is not recognised, and `dialect` and `is_chat` are not
            both passed.
        DiscoveryRefused: The service requires credentials.
        UrlRefused: The URL is neither HTTP nor HTTPS.
        DeclarationError: The name or the dialect is invalid.

    Example:
        from palaver import connect

        weather = connect("http://localhost:9000/weather", is_chat=True, dialect="chat-completions", model="small")
        assert weather.description.name == "weather"
    """
    check_url(url)
    workflow_name = check_workflow_name(name if name is not None else default_name(url))
    config = ConnectionConfig(
        url=url, is_chat=is_chat, dialect=dialect, model=model, headers=dict(headers or {}), timeout=timeout
    )
    check_dialect(dialect)
    try:
        service, problem = _run_sync(_find_service(config, workflow_name)), None
    except (NotDiscovered, DiscoveryRefused) as error:
        if not is_loading_targets.get():
            raise
        service, problem = None, error.message
    workflow = remote_workflow(config, workflow_name, service)
    workflow.problem = problem
    return workflow


def remote_workflow(config: ConnectionConfig, name: str, service: RemoteService | None = None) -> RemoteWorkflow:
    """Return the service as a workflow without contacting it; it is discovered on the first call."""
    return RemoteWorkflow(
        service,
        placeholder=Description(
            name=name,
            description="A remote service that is not available.",
            flags={"is_chat": bool(config.is_chat)},
            is_chat_source="derived" if config.is_chat is None else "declared",
            remote=True,
        ),
        url=config.place,
        discover=lambda: _find_service(config, name),
        headers=config.headers,
        timeout=config.timeout,
        transport=config.transport,
    )


async def discover_service(config: ConnectionConfig) -> Discovery:
    """Discover a service and apply the declared values. Raises NotDiscovered if it cannot be called."""
    return _require_callable(config, await _discover(config))


def check_dialect(dialect: str | None) -> None:
    """Raises InvalidOption."""
    if dialect is not None and dialect not in CLIENTS:
        raise InvalidOption(f"Unknown dialect {dialect!r}. Available: {', '.join(CLIENTS)}.")


async def _find_service(config: ConnectionConfig, name: str) -> RemoteService | None:
    discovery = await _discover(config)
    if discovery.unreachable and (config.dialect is None or config.is_chat is None):
        return None
    discovery = _require_callable(config, discovery)
    for warning in discovery.warnings:
        log.warning("%s: %s", name, warning)
    return to_remote_service(name, discovery)


async def _discover(config: ConnectionConfig) -> Discovery:
    return await discover(config.url, headers=config.headers, model=config.model, transport=config.transport())


def _require_callable(config: ConnectionConfig, discovery: Discovery) -> Discovery:
    return require_callable(discovery, is_chat=config.is_chat, dialect=config.dialect, model=config.model)


def to_remote_service(name: str, discovery: Discovery) -> RemoteService:
    assert discovery.dialect is not None  # Ensured by `require_callable`, like `call`.
    assert discovery.call is not None
    schemas: dict[str, Any] = {
        key: discovery.schemas[key] for key in Schemas.__struct_fields__ if key in discovery.schemas
    }
    inputs = schemas.get("inputs", {})
    if discovery.dialect in ("invoke", "run") and not inputs.keys() & _COMPOSITION_KEYWORDS:
        # Such a service gets all inputs, also those that its schema does not name. Forms rely on this being explicit.
        schemas["inputs"] = {"type": "object", "additionalProperties": True, **inputs}
    description = Description(
        name=name,
        description=discovery.description,
        flags={"is_chat": bool(discovery.is_chat)},
        is_chat_source="declared" if discovery.confidence == "declared" else "derived",
        schemas=Schemas(**schemas),
        parameters=discovery.parameters,
        # The OpenAI protocols have a field for streaming; servers that cannot stream ignore it.
        streams=discovery.dialect in ("responses", "chat-completions") or bool(discovery.streams),
        remote=True,
    )
    url = discovery.call.partition(" ")[2]
    return RemoteService(
        url=url,
        dialect=discovery.dialect,
        description=description,
        model=discovery.model,
        evidence=public_report(discovery),
    )


_ENDPOINT_NAMES = frozenset(
    "api v1 services agent inspect invoke run test invocations responses conversations openapi.json mcp".split()
)
"""Names of endpoints, not of services."""


def default_name(url: str, document_name: str = "") -> str:
    """Return the last part of the path that is not an endpoint, else the name in its document, else the host."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    segments = [part for part in path.split("/") if part and part not in _ENDPOINT_NAMES]
    return segments[-1] if segments else document_name if _is_name(document_name) else parts.hostname or ""


def _is_name(text: str) -> bool:
    """Whether a service may name itself so: not like one of our endpoints, though an operator may choose that."""
    try:
        return check_workflow_name(text) not in _ENDPOINT_NAMES
    except DeclarationError:
        return False


def _run_sync(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine from synchronous code, whether or not a loop is running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(asyncio.run, coroutine).result()
