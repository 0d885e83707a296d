"""One HTTP request and its response: headers, body within its limits, sending."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from palaver.core.ids import sortable_id
from palaver.errors import RequestTimeout, TooLarge
from palaver.protocols.base import Headers, HttpResponse
from palaver.server.settings import Settings

if TYPE_CHECKING:
    from palaver.server.auth import Caller
    from palaver.server.response_ends import ResponseEnds
    from palaver.server.uvicorn_protocols import SocketWriter


_HeaderPairs = Sequence[tuple[bytes, bytes]]


class RequestHeaders(Mapping[str, str]):
    """Headers by name, decoded on access. Repeated headers are joined with commas (RFC 9110)."""

    __slots__ = ("has_repeats", "raw")

    def __init__(self, headers: _HeaderPairs) -> None:
        self.raw: dict[bytes, bytes] = dict(headers)  # ASGI gives the names in lower case.
        self.has_repeats = len(self.raw) != len(headers)
        if self.has_repeats:
            self.raw = _join_repeated(headers)

    def get(self, key: str, default: Any = None) -> Any:
        value = self.raw.get(key.encode("latin-1"))
        return default if value is None else value.decode("latin-1")

    def __getitem__(self, key: str) -> str:
        return self.raw[key.encode("latin-1")].decode("latin-1")

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key.encode("latin-1") in self.raw

    def __iter__(self) -> Iterator[str]:
        return (name.decode("latin-1") for name in self.raw)

    def __len__(self) -> int:
        return len(self.raw)


NO_HEADERS = RequestHeaders([])
"""Replaces the headers of an open stream, to free their memory."""


def _join_repeated(headers: _HeaderPairs) -> dict[bytes, bytes]:
    joined: dict[bytes, bytes] = {}
    for name, value in headers:
        joined[name] = joined[name] + b", " + value if name in joined else value
    return joined


Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]


SOCKET_WRITER_EXTENSION = "palaver.wire"
"""ASGI extension of our own connections: a function from `receive` to a SocketWriter."""
_NO_EXTENSIONS: dict[str, Any] = {}


class ClientDisconnected(Exception):
    """The client disconnected before its body was complete."""


class Exchange:
    __slots__ = (
        "_id",
        "cached_body",
        "caller",
        "headers",
        "method",
        "path",
        "receive",
        "response_ends",
        "run_id",
        "scope",
        "send",
        "started_at",
        "status",
        "writer",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        new_writer = scope.get("extensions", _NO_EXTENSIONS).get(SOCKET_WRITER_EXTENSION)
        self.writer: SocketWriter | None = new_writer(receive) if new_writer is not None else None
        self.headers = RequestHeaders(scope["headers"])
        self._id: str | None = None
        self.started_at = time.perf_counter()
        self.status = 0
        self.run_id: str | None = None
        self.cached_body: bytes | None = None  # The body, if it was read for authentication.
        self.response_ends: ResponseEnds | None = None  # To end long streams early.
        self.caller: Caller  # Set once the request is authenticated.

    @property
    def id(self) -> str:
        """The request id in the response and the log: the id of its run, if it has one."""
        if self.run_id is not None:
            return self.run_id
        if self._id is None:
            self._id = sortable_id(time.time_ns() // 1_000_000, secrets.randbits(80))
        return self._id

    @property
    def query(self) -> dict[str, str]:
        """Query parameters; of a repeated one, the last value."""
        return dict(parse_qsl(self.scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=100))

    async def body(self, settings: Settings) -> bytes:
        """Read the whole body. Raises TooLarge as soon as it exceeds `max_body`."""
        if self.cached_body is not None:
            body, self.cached_body = self.cached_body, None
            return body
        declared_length = self.headers.raw.get(b"content-length", b"0")
        if declared_length.isdigit():
            _check_body_size(int(declared_length), settings)
        body = self.writer.take_body() if self.writer is not None else None
        if body is not None:
            _check_body_size(len(body), settings)
            return body
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await self._receive_message(settings.body_seconds)
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            chunk = message.get("body", b"")
            size += len(chunk)
            _check_body_size(size, settings)
            chunks.append(chunk)
            if not message.get("more_body", False):
                return b"".join(chunks)

    async def _receive_message(self, seconds: float) -> MutableMapping[str, Any]:
        try:
            async with asyncio.timeout(seconds):
                return await self.receive()
        except TimeoutError:
            raise RequestTimeout(f"Request body timed out after {seconds:g} seconds without data.") from None

    async def start_response(self, status: int, headers: Headers) -> None:
        self.status = status
        encoded_headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        encoded_headers.append((b"x-request-id", self.id.encode()))
        await self.send({"type": "http.response.start", "status": status, "headers": encoded_headers})

    async def send_chunk(self, body: bytes, stall: float, *, more_body: bool = True) -> None:
        """Send a part of the body. Raises TimeoutError, and aborts, if the client reads nothing for `stall` seconds."""
        if not body and more_body:
            return
        try:
            async with asyncio.timeout(stall):
                await self.send({"type": "http.response.body", "body": body, "more_body": more_body})
        except TimeoutError:
            if self.writer is not None:
                self.writer.abort()
            raise

    def respond_now(self, response: HttpResponse) -> Awaitable[None] | None:
        """Write a complete response to the socket; where that is not possible, return an awaitable that sends it."""
        if self.writer is not None:
            headers = (*response.headers, ("x-request-id", self.id))
            if self.writer.write_response(response.status, headers, response.body):
                self.status = response.status
                return None
        return self._send_response(response)

    async def respond(self, response: HttpResponse) -> None:
        if (pending := self.respond_now(response)) is not None:
            await pending

    async def _send_response(self, response: HttpResponse) -> None:
        # The length of a 304 would be that of the representation.
        length = () if response.status == 304 else (("content-length", str(len(response.body))),)
        await self.start_response(response.status, (*response.headers, *length))
        if self.writer is not None:
            self.writer.linger()
        await self.send({"type": "http.response.body", "body": b"" if self.method == "HEAD" else response.body})


def _check_body_size(size: int, settings: Settings) -> None:
    if size > settings.max_body:
        raise TooLarge(f"The request body exceeds the limit of {settings.max_body:,} bytes.")
