"""The wire: bytes straight to the socket, where uvicorn's own `send` would only look at them again.

uvicorn takes a dictionary for every piece, checks each header with two patterns, asks again what it already knows. For
answers whose headers we made and whose order a run keeps, that is a third of what sending costs. This is for uvicorn's
httptools connections and the common case alone: where anything is unusual, `send` is told as ever.
"""

from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from palaver.protocols.base import Headers


def wire_of(receive: Any) -> "Wire | None":
    """The wire under a request's `receive`."""
    cycle = getattr(receive, "__self__", None)
    return Wire(cycle) if type(cycle) is RequestResponseCycle else None


class Wire:
    """One request's way to the socket."""

    __slots__ = ("_cycle", "_flow", "_transport")

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._flow = cycle.flow
        self._transport = cycle.transport

    @property
    def is_read(self) -> bool:
        """Has the whole request come? Then `receive` returns at once."""
        return not self._cycle.more_body

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
        own = b"".join([b"%b: %b\r\n" % pair for pair in cycle.default_headers])
        length = b"content-length: %d\r\n\r\n" % len(body)
        cycle.response_started = cycle.response_complete = True
        self._transport.write(b"".join((STATUS_LINE[status], own, lines.encode("latin-1"), length, body)))
        cycle.message_event.set()
        cycle.on_response()
        return True
