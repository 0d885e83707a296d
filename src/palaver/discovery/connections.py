"""Services somewhere else, as workflows of ours: `connect(url)` in code, and the steps of it for who cannot wait."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from palaver.core.descriptions import RESERVED_NAMES, Description, Schemas, check_workflow_name
from palaver.discovery.evidence import Dialect, Discovery, public_report
from palaver.discovery.probe import discover, require_callable
from palaver.errors import DeclarationError, InvalidOption
from palaver.frameworks.remote import CLIENTS, RemoteService, RemoteWorkflow
from palaver.outbound import check_url

if TYPE_CHECKING:
    import httpx

_T = TypeVar("_T")

log = logging.getLogger("palaver.discovery")


@dataclass(frozen=True, kw_only=True)
class ConnectionConfig:
    """A service, and what whoever wants it says about it."""

    url: str
    is_chat: bool | None = None
    dialect: Dialect | None = None
    model: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    timeout: float = 60
    transport: "Callable[[], httpx.AsyncBaseTransport | None]" = lambda: None
    """What makes the connections, of discovery and of calls, where not everybody may be connected to."""

    @property
    def place(self) -> str:
        """The URL as it may be shown and kept: people put keys into queries."""
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
    """Wrap the service at a URL: `weather = connect("http://localhost:9000/weather", headers={"authorization": "…"})`.

    It is asked what it is, at once and for 15 seconds at most. One that cannot be reached is kept and asked again when
    it is called; one that does not say what it is raises NotDiscovered, unless `dialect` and `is_chat` tell. `headers`
    go to that service only and are shown nowhere.
    """
    check_url(url)
    own = check_workflow_name(name if name is not None else default_name(url))
    wanted = ConnectionConfig(
        url=url, is_chat=is_chat, dialect=dialect, model=model, headers=dict(headers or {}), timeout=timeout
    )
    check_dialect(dialect)
    return remote_workflow(wanted, own, _run_sync(_find_service(wanted, own)))


def remote_workflow(wanted: ConnectionConfig, name: str, service: RemoteService | None = None) -> RemoteWorkflow:
    """The service as a workflow. Nobody is asked: what is not known yet is found out when it is called or refreshed."""
    return RemoteWorkflow(
        service,
        unknown=Description(
            name=name,
            description="A remote service that could not be reached.",
            flags={"is_chat": bool(wanted.is_chat)},
            is_chat_source="derived" if wanted.is_chat is None else "declared",
            remote=True,
        ),
        url=wanted.place,
        look=lambda: _find_service(wanted, name),
        headers=wanted.headers,
        timeout=wanted.timeout,
        transport=wanted.transport,
    )


async def discover_service(wanted: ConnectionConfig) -> Discovery:
    """What stands there, with what is said about it put over it; raises where that is not enough to call it."""
    return _require_callable(wanted, await _discover(wanted))


def check_dialect(dialect: str | None) -> None:
    """Refuse a dialect that we do not speak."""
    if dialect is not None and dialect not in CLIENTS:
        raise InvalidOption(f"No dialect {dialect!r}. Spoken here: {', '.join(CLIENTS)}.")


async def _find_service(wanted: ConnectionConfig, name: str) -> RemoteService | None:
    found = await _discover(wanted)
    if found.unreachable and (wanted.dialect is None or wanted.is_chat is None):
        return None
    found = _require_callable(wanted, found)
    for warning in found.warnings:
        log.warning("%s: %s", name, warning)
    return to_remote_service(name, found)


async def _discover(wanted: ConnectionConfig) -> Discovery:
    return await discover(wanted.url, headers=wanted.headers, model=wanted.model, transport=wanted.transport())


def _require_callable(wanted: ConnectionConfig, found: Discovery) -> Discovery:
    return require_callable(found, is_chat=wanted.is_chat, dialect=wanted.dialect, model=wanted.model)


def to_remote_service(name: str, found: Discovery) -> RemoteService:
    """What was found, as it is called."""
    assert found.dialect is not None  # insist() made sure of
    assert found.call is not None  # both.
    schemas: dict[str, Any] = {key: found.schemas[key] for key in Schemas.__struct_fields__ if key in found.schemas}
    description = Description(
        name=name,
        description=found.description,
        flags={"is_chat": bool(found.is_chat)},
        is_chat_source="declared" if found.confidence == "declared" else "derived",
        schemas=Schemas(**schemas),
        parameters=found.parameters,
        # The OpenAI family is asked by a field, and who cannot stream answers whole.
        streams=found.dialect in ("responses", "chat-completions") or bool(found.streams),
        remote=True,
    )
    where = found.call.partition(" ")[2]
    return RemoteService(
        url=where, dialect=found.dialect, description=description, model=found.model, evidence=public_report(found)
    )


def default_name(url: str, said: str = "") -> str:
    """What people would call it: the last part of the path that is no endpoint, what it `said`, or else the host."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    named = [part for part in path.split("/") if part and part not in RESERVED_NAMES]
    return named[-1] if named else said if _is_name(said) else parts.hostname or ""


def _is_name(text: str) -> bool:
    try:
        check_workflow_name(text)
    except DeclarationError:
        return False
    return True


def _run_sync(asking: Coroutine[Any, Any, _T]) -> _T:
    """Wait for an async answer from sync code, whether or not a loop is running here."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(asking)
    with ThreadPoolExecutor(1) as one:
        return one.submit(asyncio.run, asking).result()
