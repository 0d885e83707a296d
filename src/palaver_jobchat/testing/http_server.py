"""A small HTTP/1.1 server: one request after another on each connection, and word of a client that has left.

It is no server for strangers: it reads any body whole and knows no limits.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import cast

import httptools
import msgspec

Answer = Callable[["HttpExchange"], Awaitable[None]]


class HttpExchange:
    """One request, and the way to answer it."""

    def __init__(self, connection: "Connection", method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        self.method, self.path, self.headers, self.body = method, path, headers, body
        self.is_left = False
        """Whether the client went away before the answer was whole."""
        self._connection = connection

    def whole(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        """An answer in one piece, as JSON."""
        content = msgspec.json.encode(body)
        head = {"content-type": "application/json", "content-length": str(len(content)), **(headers or {})}
        self._connection.write(_head(status, head) + content)

    def begin(self, headers: Mapping[str, str]) -> None:
        """The head of a stream of events."""
        head = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache", **headers}
        self._connection.write(_head(200, {**head, "transfer-encoding": "chunked"}))

    def write(self, content: bytes) -> None:
        """A piece of the stream."""
        self._connection.write(b"%x\r\n%b\r\n" % (len(content), content))

    def end(self) -> None:
        """The end of the stream."""
        self._connection.write(b"0\r\n\r\n")

    def drop(self) -> None:
        """Lose the connection."""
        self._connection.close()


class Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, answer: Answer, open_ones: "set[Connection]") -> None:
        self._answer = answer
        self._open = open_ones
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._url, self._body = b"", b""
        self._headers: dict[str, str] = {}
        self._exchange: HttpExchange | None = None
        self._task: asyncio.Future[None] | None = None
        self._lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name.
        self._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is not any more: whoever answers it stops."""
        del exc
        self._open.discard(self)
        self._lost.set()
        if self._exchange is not None and self._transport is not None:
            self._exchange.is_left = True
        self._transport = None
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.close()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._url, self._body, self._headers = b"", b"", {}

    def on_url(self, url: bytes) -> None:
        """A piece of its address."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One of its headers."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """All of them; a client that asks whether to send the body is told to."""
        if self._headers.get("expect", "").lower() == "100-continue":
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """A piece of its body."""
        self._body += body

    def on_message_complete(self) -> None:
        """The request is whole."""
        method, path = self._parser.get_method().decode(), self._url.partition(b"?")[0].decode("latin-1")
        self._exchange = HttpExchange(self, method, path, self._headers, self._body)
        self._task = asyncio.ensure_future(self._answered(self._exchange))

    async def _answered(self, exchange: HttpExchange) -> None:
        await self._answer(exchange)
        self._exchange = None

    def write(self, content: bytes) -> None:
        """Send bytes, if anybody is there."""
        if self._transport is not None:
            self._transport.write(content)

    def close(self) -> None:
        """Leave; this is not the client's doing."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()

    async def closed(self) -> None:
        """Leave, and wait until that is done."""
        self.close()
        await self._lost.wait()


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    phrase = HTTPStatus(status).phrase if status in HTTPStatus.__members__.values() else "Unknown"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
