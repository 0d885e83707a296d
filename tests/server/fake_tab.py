"""A tab's end of the socket, in process: what it sends, what it is sent, and how fast it reads."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from palaver.server.app import Server
from palaver.server.tab_socket.socket import CONNECTION_EXTENSION


@dataclass
class FakeTab:
    """One socket."""

    said: list[Any] = field(default_factory=list[Any])
    """All messages that came, notices apart."""
    changed: list[Any] = field(default_factory=list[Any])
    closed: tuple[int, str] | None = None
    refused: tuple[int, Any] | None = None
    reads: asyncio.Event = field(default_factory=asyncio.Event)
    """Cleared, it takes nothing."""
    sizes: list[int] = field(default_factory=list[int])
    fault: Exception | None = None
    """What comes of sending to it."""
    _incoming: "asyncio.Queue[dict[str, Any]]" = field(default_factory=asyncio.Queue[dict[str, Any]])
    _status: int = 0

    def __post_init__(self) -> None:
        self.reads.set()
        self._incoming.put_nowait({"type": "websocket.connect"})

    def send(self, number: int, path: str, body: Any = None, *, method: str | None = None, **headers: str) -> None:
        """Ask for something; a body is sent as JSON."""
        message: dict[str, Any] = {"id": number, "path": path, "method": method or ("GET" if body is None else "POST")}
        message["headers"] = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            message["body"] = msgspec.json.encode(body).decode()
            message["headers"] |= {"content-type": "application/json"}
        self.say(message)

    def abort(self, number: int) -> None:
        self.say({"id": number, "abort": True})

    def say(self, message: Any) -> None:
        text = message if isinstance(message, str) else msgspec.json.encode(message).decode()
        self._incoming.put_nowait({"type": "websocket.receive", "text": text})

    def leave(self, code: int = 1001) -> None:
        self._incoming.put_nowait({"type": "websocket.disconnect", "code": code})

    def of(self, number: int | None) -> list[Any]:
        """What came for one request."""
        return [message for message in self.said if message["id"] == number]

    def text(self, number: int) -> str:
        return "".join(message.get("data", "") for message in self.of(number))

    def is_over(self, number: int | None) -> bool:
        return any("end" in message or "error" in message for message in self.of(number))

    async def over(self, number: int | None, seconds: float = 20) -> list[Any]:
        """What came for one request, once all has."""
        await until(lambda: self.is_over(number), seconds)
        return self.of(number)

    # ASGI's side

    async def receive(self) -> dict[str, Any]:
        return await self._incoming.get()

    async def take(self, message: dict[str, Any]) -> None:
        if self.fault is not None:
            raise self.fault
        match message["type"]:
            case "websocket.accept":
                return
            case "websocket.send":
                await self.reads.wait()
                self.sizes.append(len(message["text"]))
                told = msgspec.json.decode(message["text"])
                (self.changed if "changed" in told else self.said).append(told)
            case "websocket.close":
                await self.reads.wait()
                self.closed = message["code"], message.get("reason", "")
                self.leave(message["code"])
            case "websocket.http.response.start":
                self._status = message["status"]
            case _:
                self.refused = self._status, msgspec.json.decode(message["body"])


class FakeConnection:
    """What our own server has to say beside ASGI."""

    def __init__(self) -> None:
        self.tab: FakeTab
        self.on_shutdown: Callable[[], None] | None = None
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True
        self.tab.reads.set()


async def until(is_so: Callable[[], object], seconds: float = 20) -> None:
    """Wait for something that tells nobody when it comes."""
    async with asyncio.timeout(seconds):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@asynccontextmanager
async def open_tab(
    server: Server,
    headers: Mapping[str, str] | None = None,
    *,
    path: str = "/api/socket",
    can_refuse: bool = True,
    connection: "FakeConnection | None" = None,
) -> AsyncIterator[FakeTab]:
    """A socket of that server, until the block is over."""
    tab = FakeTab()
    given = {"host": "localhost", **(headers or {})}
    scope: dict[str, Any] = {
        "type": "websocket",
        "asgi": {"version": "3.0"},
        "scheme": "ws",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "server": ("localhost", 80),
        "client": ("127.0.0.1", 1),
        "subprotocols": [],
    }
    if can_refuse:
        scope["extensions"] = {"websocket.http.response": {}}
    if connection is not None:
        connection.tab = tab
        scope["extensions"] = {**scope["extensions"], CONNECTION_EXTENSION: connection}
    serving = asyncio.create_task(server(scope, tab.receive, tab.take))  # type: ignore[arg-type]
    try:
        yield tab
    finally:
        tab.reads.set()
        tab.leave()
        async with asyncio.timeout(30):
            await serving
