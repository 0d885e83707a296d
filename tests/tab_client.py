"""A client of the page's WebSocket."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from websockets.sync.client import connect
from websockets.sync.connection import Connection


def handshake_request(path: str = "/api/socket", host: str = "localhost", more: str = "") -> bytes:
    """Return the request of a WebSocket handshake."""
    lines = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    return f"{lines}Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n".encode()


@dataclass
class TabClient:
    """A connected socket and the messages received."""

    connection: Connection
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    changed: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def send(self, number: int, path: str, body: Any = None, *, method: str | None = None) -> None:
        message: dict[str, Any] = {"id": number, "path": path, "method": method or ("GET" if body is None else "POST")}
        if body is not None:
            message |= {"headers": {"content-type": "application/json"}, "body": json.dumps(body)}
        self.connection.send(json.dumps(message))

    def next(self, seconds: float = 30) -> dict[str, Any]:
        message = json.loads(self.connection.recv(seconds))
        (self.changed if "changed" in message else self.messages).append(message)
        return message

    def read_until(self, number: int, text: str = "", seconds: float = 30) -> list[dict[str, Any]]:
        """Return the messages of a request, up to `text` or to the end."""
        while True:
            received = [message for message in self.messages if message["id"] == number]
            if any("end" in message or "error" in message for message in received):
                return received
            if text and text in "".join(message.get("data", "") for message in received):
                return received
            self.next(seconds)

    def wait_for_change(self, change: dict[str, Any], seconds: float = 30) -> None:
        """Wait for a notice of this change."""
        while change not in self.changed:
            self.next(seconds)


@contextmanager
def tab_client(url: str, headers: Mapping[str, str] | None = None, **more: Any) -> Iterator[TabClient]:
    """Connect a socket for the duration of the block."""
    socket_url = url.replace("http", "ws", 1) + "/api/socket"
    with connect(
        socket_url, additional_headers=headers, proxy=None, open_timeout=30, max_size=None, **more
    ) as connection:
        yield TabClient(connection)


def joined_text(messages: list[dict[str, Any]]) -> str:
    return "".join(message.get("data", "") for message in messages)
