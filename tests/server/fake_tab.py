"""The browser's end of a tab socket, in process: sends requests, collects messages, reads as slowly as a test wants."""

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
    messages: list[Any] = field(default_factory=list[Any])
    """All messages except change notices."""
    changed: list[Any] = field(default_factory=list[Any])
    closed: tuple[int, str] | None = None
    refused: tuple[int, Any] | None = None
    can_read: asyncio.Event = field(default_factory=asyncio.Event)
    """While cleared, the tab reads nothing."""
    sizes: list[int] = field(default_factory=list[int])
    fault: Exception | None = None
    """Raised when the server sends."""
    _incoming: "asyncio.Queue[dict[str, Any]]" = field(default_factory=asyncio.Queue[dict[str, Any]])
    _status: int = 0

    def __post_init__(self) -> None:
        self.can_read.set()
        self._incoming.put_nowait({"type": "websocket.connect"})

    def send(self, number: int, path: str, body: Any = None, *, method: str | None = None, **headers: str) -> None:
        """Send a request; the body is encoded as JSON."""
        message: dict[str, Any] = {"id": number, "path": path, "method": method or ("GET" if body is None else "POST")}
        message["headers"] = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            message["body"] = msgspec.json.encode(body).decode()
            message["headers"] |= {"content-type": "application/json"}
        self.send_text(message)

    def abort(self, number: int) -> None:
        self.send_text({"id": number, "abort": True})

    def send_text(self, message: Any) -> None:
        text = message if isinstance(message, str) else msgspec.json.encode(message).decode()
        self._incoming.put_nowait({"type": "websocket.receive", "text": text})

    def disconnect(self, code: int = 1001) -> None:
        self._incoming.put_nowait({"type": "websocket.disconnect", "code": code})

    def messages_of(self, number: int | None) -> list[Any]:
        """The messages of one request."""
        return [message for message in self.messages if message["id"] == number]

    def text(self, number: int) -> str:
        return "".join(message.get("data", "") for message in self.messages_of(number))

    def is_ended(self, number: int | None) -> bool:
        return any("end" in message or "error" in message for message in self.messages_of(number))

    async def wait_ended(self, number: int | None, seconds: float = 20) -> list[Any]:
        """Wait for the end of a request and return its messages."""
        await wait_until(lambda: self.is_ended(number), seconds)
        return self.messages_of(number)

    # Called by the application

    async def receive(self) -> dict[str, Any]:
        return await self._incoming.get()

    async def deliver(self, message: dict[str, Any]) -> None:
        if self.fault is not None:
            raise self.fault
        match message["type"]:
            case "websocket.accept":
                return
            case "websocket.send":
                await self.can_read.wait()
                self.sizes.append(len(message["text"]))
                content = msgspec.json.decode(message["text"])
                (self.changed if "changed" in content else self.messages).append(content)
            case "websocket.close":
                await self.can_read.wait()
                self.closed = message["code"], message.get("reason", "")
                self.disconnect(message["code"])
            case "websocket.http.response.start":
                self._status = message["status"]
            case _:
                self.refused = self._status, msgspec.json.decode(message["body"])


class FakeConnection:
    """Stands in for WebSocketConnection."""

    def __init__(self) -> None:
        self.tab: FakeTab
        self.on_shutdown: Callable[[], None] | None = None
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True
        self.tab.can_read.set()


async def wait_until(condition: Callable[[], object], seconds: float = 20) -> None:
    """Poll until the condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
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
    """Open a tab socket for the duration of the block."""
    tab = FakeTab()
    all_headers = {"host": "localhost", **(headers or {})}
    scope: dict[str, Any] = {
        "type": "websocket",
        "asgi": {"version": "3.0"},
        "scheme": "ws",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in all_headers.items()],
        "server": ("localhost", 80),
        "client": ("127.0.0.1", 1),
        "subprotocols": [],
    }
    if can_refuse:
        scope["extensions"] = {"websocket.http.response": {}}
    if connection is not None:
        connection.tab = tab
        scope["extensions"] = {**scope["extensions"], CONNECTION_EXTENSION: connection}
    task = asyncio.create_task(server(scope, tab.receive, tab.deliver))  # type: ignore[arg-type]
    try:
        yield tab
    finally:
        tab.can_read.set()
        tab.disconnect()
        async with asyncio.timeout(60):
            await task
