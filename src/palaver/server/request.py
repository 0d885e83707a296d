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
    from palaver.server.auth import Authenticator, Caller
    from palaver.server.uvicorn_protocols import SocketWriter


_Pairs = Sequence[tuple[bytes, bytes]]


class RequestHeaders(Mapping[str, str]):
    """Headers as text. What was sent in several lines is one list, as RFC 9110 says."""

    __slots__ = ("raw", "repeats")

    def __init__(self, headers: _Pairs) -> None:
        self.raw: dict[bytes, bytes] = dict(headers)  # ASGI gives the names in lower case.
        """As they came, for those who look at every request."""
        self.repeats = len(self.raw) != len(headers)
        """Was any header sent twice?"""
        if self.repeats:
            self.raw = _join_repeated(headers)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of that header."""
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
"""For a request whose headers nobody needs any more."""


def _join_repeated(headers: _Pairs) -> dict[bytes, bytes]:
    joined: dict[bytes, bytes] = {}
    for name, value in headers:
        joined[name] = joined[name] + b", " + value if name in joined else value
    return joined


Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]


SOCKET_WRITER_EXTENSION = "palaver.wire"
"""Where our own connections say how the socket is reached, past `send`."""
_NO_EXTENSIONS: dict[str, Any] = {}


class ClientDisconnected(Exception):
    """Nobody is there to answer."""


class Exchange:
    """One HTTP request, as ASGI gives it."""

    __slots__ = (
        "_id",
        "caller",
        "callers",
        "headers",
        "method",
        "path",
        "receive",
        "run_id",
        "scope",
        "send",
        "since",
        "status",
        "taken",
        "wire",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        wire_of = scope.get("extensions", _NO_EXTENSIONS).get(SOCKET_WRITER_EXTENSION)
        self.wire: SocketWriter | None = wire_of(receive) if wire_of is not None else None
        self.headers = RequestHeaders(scope["headers"])
        self._id: str | None = None
        self.since = time.perf_counter()
        self.status = 0
        self.run_id: str | None = None
        self.taken: bytes | None = None  # The body, where it was read to learn who asks.
        self.callers: Authenticator | None = None  # Who can tell when the caller's credential is no longer good.
        self.caller: Caller  # Set before anything is answered that belongs to somebody.

    @property
    def id(self) -> str:
        """What the answer and the log call this request: its run, where it has one."""
        if self.run_id is not None:
            return self.run_id
        if self._id is None:
            self._id = sortable_id(time.time_ns() // 1_000_000, secrets.randbits(80))
        return self._id

    @property
    def query(self) -> dict[str, str]:
        """The query's parameters; of a repeated one the last."""
        return dict(parse_qsl(self.scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=100))

    async def body(self, settings: Settings) -> bytes:
        """The whole body, or TooLarge as soon as it is."""
        if self.taken is not None:
            taken, self.taken = self.taken, None
            return taken
        declared = self.headers.raw.get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > settings.max_body:
            raise _too_large(settings)
        whole = self.wire.take_body() if self.wire is not None else None
        if whole is not None:
            if len(whole) > settings.max_body:
                raise _too_large(settings)
            return whole
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await self._received(settings.body_seconds)
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            piece = message.get("body", b"")
            size += len(piece)
            if size > settings.max_body:
                raise _too_large(settings)
            pieces.append(piece)
            if not message.get("more_body", False):
                return b"".join(pieces)

    async def _received(self, seconds: float) -> MutableMapping[str, Any]:
        try:
            async with asyncio.timeout(seconds):
                return await self.receive()
        except TimeoutError:
            raise RequestTimeout(f"The body stopped coming for {seconds:g} seconds.") from None

    async def open(self, status: int, headers: Headers) -> None:
        """Send the status line and the headers."""
        self.status = status
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        encoded.append((b"x-request-id", self.id.encode()))
        await self.send({"type": "http.response.start", "status": status, "headers": encoded})

    def answer_now(self, answer: HttpResponse) -> Awaitable[None] | None:
        """Write a whole answer at once, if that can be done; else what is to be awaited."""
        if self.wire is not None:
            headers = (*answer.headers, ("x-request-id", self.id))
            if self.wire.answer(answer.status, headers, answer.body):
                self.status = answer.status
                return None
        return self._send_answer(answer)

    async def answer(self, answer: HttpResponse) -> None:
        """Send a whole answer."""
        if (sending := self.answer_now(answer)) is not None:
            await sending

    async def _send_answer(self, answer: HttpResponse) -> None:
        # A 304 has the length of what it stands for, or none.
        length = () if answer.status == 304 else (("content-length", str(len(answer.body))),)
        await self.open(answer.status, (*answer.headers, *length))
        if self.wire is not None:
            self.wire.let_it_read()
        await self.send({"type": "http.response.body", "body": b"" if self.method == "HEAD" else answer.body})


def _too_large(settings: Settings) -> TooLarge:
    return TooLarge(f"The body is larger than {settings.max_body} bytes.")
