"""The wire: bytes straight to the socket, where uvicorn's own `send` would only look at them again.

uvicorn takes a dictionary for every piece, checks each header with two patterns, asks again what it already knows. For
answers whose headers we made and whose order a run keeps, that is a third of what sending costs. This is for uvicorn's
httptools connections and the common case alone: where anything is unusual, `send` is told as ever.

Whole answers that are made in one turn of the loop go out together at its end. A client that sleeps must be woken, and
that costs the sender more than sending does; one that was woken a moment ago is awake. (Pieces of streams are made fast
enough for that as it is.)
"""

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from palaver.protocols.base import Headers

_waiting: "list[tuple[Wire, bytes, Callable[[], None]]]" = []
"""Answers, and what is to be called when they are complete."""


def wire_of(receive: Any) -> "Wire | None":
    """The wire under a request's `receive`."""
    cycle = getattr(receive, "__self__", None)
    if type(cycle) is not RequestResponseCycle:
        return None
    connection: Any = cycle.transport.get_protocol()
    return Wire(cycle, connection) if connection is not None else None  # It was lost before we began.


class Wire:
    """One request's way to the socket."""

    __slots__ = ("_connection", "_cycle", "_flow", "_transport")

    def __init__(self, cycle: RequestResponseCycle, connection: Any) -> None:
        self._connection = connection  # Asked for now: a transport that was closed has forgotten it.
        self._cycle = cycle
        self._flow = cycle.flow
        self._transport = cycle.transport

    def watch(self, gone: Callable[[], None]) -> None:
        """Call this when the client leaves: at once, if it has."""
        if self._cycle.disconnected:
            gone()
        else:
            self._connection.gone = gone

    def unwatch(self, gone: Callable[[], None]) -> None:
        """Call it no more. The connection may be serving the next request by now."""
        if self._connection.gone == gone:
            self._connection.gone = None

    def take_body(self) -> bytes | None:
        """The body, if all of it has come, also from a client that has left since: what it asked for, it asked for."""
        cycle = self._cycle
        if cycle.more_body or cycle.waiting_for_100_continue or cycle.response_complete:
            return None
        body, cycle.body = bytes(cycle.body), bytearray()
        self._flow.resume_reading()
        return body

    @property
    def unread(self) -> int:
        """Bytes that the client has not taken yet."""
        return self._transport.get_write_buffer_size()

    def abort(self) -> None:
        """End the connection, whatever is under way."""
        self._transport.abort()

    def piece(self, piece: bytes) -> bool:
        """Write a piece of a streamed body that is not the last; False where it must wait, or go another way."""
        cycle = self._cycle
        if self._flow.write_paused or cycle.disconnected or not cycle.chunked_encoding:
            return False
        self._transport.write(b"".join((b"%x\r\n" % len(piece), piece, b"\r\n")))
        return True

    def answer(self, status: int, headers: Headers, body: bytes) -> bool:
        """Write a whole answer; False where it must wait, or go another way."""
        cycle = self._cycle
        if self._flow.write_paused or cycle.disconnected or cycle.response_started or not cycle.keep_alive:
            return False
        if status in (204, 304) or cycle.waiting_for_100_continue or cycle.scope["method"] == "HEAD":
            return False
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers])
        if lines.count("\n") != len(headers) or lines.count("\r") != len(headers):
            return False  # A value with the end of a line in it: uvicorn says what is wrong.
        own = _lines(cycle.default_headers)
        length = b"content-length: %d\r\n\r\n" % len(body)
        cycle.response_started = cycle.response_complete = True
        if not _waiting:
            asyncio.get_running_loop().call_soon(write_all)
        whole = b"".join((STATUS_LINE[status], own, lines.encode("latin-1"), length, body))
        _waiting.append((self, whole, cycle.on_response))
        return True

    def let_it_read(self) -> None:
        """Where the connection closes after an answer, and the body is still coming: not before that can be read."""
        cycle = self._cycle
        if cycle.more_body and not cycle.keep_alive:
            cycle.keep_alive = True  # The headers have told the client that it closes; uvicorn is not to do it.
            self._connection.drop_rest()

    def put(self, answer: bytes, complete: Callable[[], None]) -> None:
        """Write an answer that waited, unless its client has left since."""
        if self._transport.is_closing():
            return
        self._transport.write(answer)
        # A request that came meanwhile has been started, and the connection is no longer idle.
        if self._connection.cycle is self._cycle or self._connection.pipeline:
            complete()


def write_all() -> None:
    """Write what waits."""
    written = _waiting.copy()
    _waiting.clear()
    for wire, data, complete in written:
        wire.put(data, complete)


class _Own:
    """uvicorn's own headers (the date), as they were last: it makes the list anew once a second."""

    headers: list[tuple[bytes, bytes]] | None = None
    lines = b""


def _lines(headers: list[tuple[bytes, bytes]]) -> bytes:
    if headers is not _Own.headers:
        _Own.headers, _Own.lines = headers, b"".join([b"%b: %b\r\n" % pair for pair in headers])
    return _Own.lines
