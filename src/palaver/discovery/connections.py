"""`connect(url)`: a service somewhere else, as a workflow of ours."""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import urlsplit

from palaver.core.descriptions import RESERVED, Description, Schemas, check_name
from palaver.discovery.evidence import Dialect, Found, report
from palaver.discovery.strangers import discover, insist
from palaver.errors import InvalidOption
from palaver.frameworks.remote import CLIENTS, RemoteWorkflow, Service
from palaver.outbound import check_url

_T = TypeVar("_T")

log = logging.getLogger("palaver.discovery")


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
    own = check_name(name if name is not None else _name_in(url))
    if dialect is not None and dialect not in CLIENTS:
        raise InvalidOption(f"No dialect {dialect!r}. Spoken here: {', '.join(CLIENTS)}.")

    async def look() -> Service | None:
        found = await discover(url, headers=headers, model=model)
        if found.unreachable and (dialect is None or is_chat is None):
            return None
        found = insist(found, is_chat=is_chat, dialect=dialect, model=model)
        for warning in found.warnings:
            log.warning("%s: %s", own, warning)
        return _service(own, found)

    return RemoteWorkflow(
        _at_once(look()),
        unknown=Description(
            name=own,
            description="A remote service that could not be reached.",
            flags={"is_chat": bool(is_chat)},
            is_chat_source="derived" if is_chat is None else "declared",
            remote=True,
        ),
        url=urlsplit(url)._replace(query="", fragment="").geturl(),  # People put keys into queries.
        look=look,
        headers=dict(headers or {}),
        timeout=timeout,
    )


def _service(name: str, found: Found) -> Service:
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
    return Service(url=where, dialect=found.dialect, description=description, model=found.model, evidence=report(found))


def _name_in(url: str) -> str:
    """The last part of the path that is no endpoint, else the host: what people would call it."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    named = [part for part in path.split("/") if part and part not in RESERVED]
    return named[-1] if named else parts.hostname or ""


def _at_once(asking: Coroutine[Any, Any, _T]) -> _T:
    """Wait for an async answer from sync code, whether or not a loop is running here."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(asking)
    with ThreadPoolExecutor(1) as one:
        return one.submit(asyncio.run, asking).result()
