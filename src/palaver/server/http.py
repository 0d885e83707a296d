"""Our connections: uvicorn's, with limits on how slowly and how largely a request's head may come.

uvicorn itself waits for ever for the end of a request's headers and keeps them whatever their size. When it answers
before all of a body has come, it waits for ever for what follows, or closes under a client that is still sending.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from palaver.server.exchange import WIRE
from palaver.server.farewell import last_words, refusal
from palaver.server.settings import Settings
from palaver.server.wire import wire_of, write_all

_EXTENSIONS = {WIRE: wire_of}
_SLACK = 1024  # For the request line and the bytes between headers; beyond it guards.py need not be asked.


class Connection(HttpToolsProtocol):
    """One connection."""

    # Without slots a thirty-first attribute would cost each connection a dictionary of its own, 1.4 KiB.
    __slots__ = ("_deaf", "_head_bytes", "_patience", "_reading_head", "gone")

    header_seconds: float
    largest_head: int

    def connection_made(self, transport: Any) -> None:
        """Somebody is there."""
        super().connection_made(transport)
        self._reading_head, self._head_bytes = True, 0
        self._deaf = False  # What still comes is dropped.
        self._patience: asyncio.TimerHandle | None = None  # With the rest of a head, or with who is to leave.
        self.gone: Callable[[], None] | None = None  # Who wants to know that the client has left.
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has left, or was."""
        self._await_no_more()
        super().connection_lost(exc)
        if self.gone is not None:
            self.gone()

    def shutdown(self) -> None:
        """The server is to stop: what is answered is sent before the connection is closed."""
        write_all()
        super().shutdown()

    def data_received(self, data: bytes) -> None:
        """Bytes came: of a head, within its limits, or of a body."""
        if self._deaf:
            return
        if self._reading_head:
            self._head_bytes += len(data)
            if self._head_bytes > self.largest_head and not _ends_head(data):
                self._refuse(b"431 Request Header Fields Too Large")
                return
        super().data_received(data)
        if self._reading_head:
            if self._patience is None:
                self._await_head()  # Only the beginning of one has come.
        elif self.timeout_keep_alive_task is None and self._was_answered_early():
            # uvicorn has let go of its keep-alive for bytes that are no request.
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self.scope["extensions"] = _EXTENSIONS  # pyright: ignore[reportGeneralTypeIssues]  # a function, for exchange.py
        if not self._reading_head:
            self._reading_head, self._head_bytes = True, 0  # The next request on this connection.

    def on_headers_complete(self) -> None:
        """Its head is here."""
        self._reading_head = False
        if self._patience is not None:
            self._await_no_more()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Its answer is given."""
        super().on_response_complete()
        if self._deaf and not self.transport.is_closing():
            self._patience = last_words(self.loop, self.transport)

    def drop_rest(self) -> None:
        """It closes after an answer that comes before all of the body has: what still comes is not wanted."""
        self._deaf = True

    def _was_answered_early(self) -> bool:
        """Was the last request answered before all of its body had come, and is this no socket since?"""
        last: Any = self.cycle
        return last is not None and last.response_complete and last.more_body and self.transport.get_protocol() is self

    def _await_head(self) -> None:
        self._patience = self.loop.call_later(self.header_seconds, self._refuse, b"408 Request Timeout")

    def _await_no_more(self) -> None:
        self._reading_head = False
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _refuse(self, status: bytes) -> None:
        self._await_no_more()
        answering: Any = self.cycle
        if answering is not None and not answering.response_complete:
            self.transport.close()  # Another answer is under way, and nothing can be said in the middle of it.
        elif not self.transport.is_closing():
            self._deaf = True
            self._patience = last_words(self.loop, self.transport, refusal(status))


def connections(settings: Settings) -> type[Connection]:
    """The protocol class for uvicorn, with these settings."""

    class Limited(Connection):
        __slots__ = ()

        header_seconds = settings.header_seconds
        largest_head = settings.max_headers + settings.max_url + _SLACK

    return Limited


def _ends_head(data: bytes) -> bool:
    # A head and a large body may come in one piece; then the head alone was not too large.
    return b"\r\n\r\n" in data
