"""`connect(url)`: a service somewhere else, as a workflow of ours."""

import asyncio
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from palaver.core.descriptions import Description, Schemas, check_name
from palaver.discovery.evidence import Dialect, Found
from palaver.discovery.strangers import discover, insist
from palaver.errors import DiscoveryError, NotDiscovered
from palaver.frameworks.remote import CLIENTS, RemoteWorkflow, Service

_T = TypeVar("_T")


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

    It is asked what it is, at once and for 15 seconds at most. One that cannot be reached is kept and asked again when it
    is called; one that does not say what it is raises NotDiscovered, unless `dialect` and `is_chat` tell. `headers` go to
    that service only and are shown nowhere.
    """
    own = check_name(name if name is not None else _name_in(url))

    async def look() -> Service | None:
        found = await discover(url, headers=headers, model=model)
        if found.unreachable and not (dialect and is_chat is not None):
            return None
        return _service(own, insist(found, is_chat=is_chat, dialect=dialect, model=model))

    return RemoteWorkflow(
        _at_once(look()),
        unknown=Description(
            name=own,
            description="A remote service that could not be reached.",
            flags={"is_chat": bool(is_chat)},
            is_chat_source="derived",
            remote=True,
        ),
        url=url,
        look=look,
        headers=dict(headers or {}),
        timeout=timeout,
    )


def _service(name: str, found: Found) -> Service:
    if found.dialect not in CLIENTS or found.call is None:
        spoken = ", ".join(CLIENTS)
        raise NotDiscovered(f"{found.url} speaks {found.dialect}, which cannot be called yet. Spoken here: {spoken}.")
    schemas = found.schemas
    description = Description(
        name=name,
        description=found.description or "",
        flags={"is_chat": bool(found.is_chat)},
        is_chat_source="declared" if found.confidence == "declared" else "derived",
        schemas=Schemas(**{key: schemas[key] for key in ("inputs", "parameters", "outputs") if key in schemas}),
        parameters=found.parameters,
        streams=bool(found.streams),
        remote=True,
    )
    return Service(url=found.call.partition(" ")[2], dialect=found.dialect, description=description)


def _name_in(url: str) -> str:
    """The last part of the path, else of the host: what people would call it."""
    path = [part for part in url.partition("://")[2].partition("?")[0].split("/") if part]
    endpoints = {"invoke", "inspect", "run", "test"}
    while len(path) > 1 and path[-1] in endpoints:
        path.pop()
    if not path:
        raise DiscoveryError(f"{url!r} is not a URL: write http://host/path.")
    return path[-1].partition(":")[0]


def _at_once(asking: Coroutine[Any, Any, _T]) -> _T:
    """Wait for an async answer from sync code, whether or not a loop is running here."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(asking)
    with ThreadPoolExecutor(1) as one:
        return one.submit(asyncio.run, asking).result()
