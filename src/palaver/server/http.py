"""Our connections: uvicorn's, with limits on how slowly and how largely a request's head may come.

uvicorn itself waits for ever for the end of a request's headers and keeps them whatever their size.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from palaver.server.exchange import WIRE
from palaver.server.farewell import last_words
from palaver.server.settings import Settings
from palaver.server.wire import wire_of, write_all

_EXTENSIONS = {WIRE: wire_of}
_SLACK = 1024  # For the request line and the bytes between headers; beyond it guards.py need not be asked.


def connections(settings: Settings) -> type[asyncio.Protocol]:
    """The protocol class for uvicorn, with these settings."""
    most = settings.max_headers + settings.max_url + _SLACK

    class Connection(HttpToolsProtocol):
        # Without slots a thirty-first attribute would cost each connection a dictionary of its own, 1.4 KiB.
        __slots__ = ("_deaf", "_head_bytes", "_reading_head", "_too_slow", "gone")

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._reading_head, self._head_bytes = True, 0
            self._deaf = False  # What still comes is dropped.
            self._too_slow: asyncio.TimerHandle | None = None
            self.gone: Callable[[], None] | None = None  # Who wants to know that the client has left.
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._head_is_here()
            super().connection_lost(exc)
            if self.gone is not None:
                self.gone()

        def shutdown(self) -> None:
            write_all()  # What is answered is sent before the connection is closed.
            super().shutdown()

        def data_received(self, data: bytes) -> None:
            if self._deaf:
                return
            if self._reading_head:
                self._head_bytes += len(data)
                if self._head_bytes > most and not _ends_head(data):
                    self._refuse(b"431 Request Header Fields Too Large")
                    return
            super().data_received(data)
            if self._reading_head:
                if self._too_slow is None:
                    self._watch()  # Only the beginning of a head has come.
            elif (
                self.timeout_keep_alive_task is None and self._was_answered() and self.transport.get_protocol() is self
            ):
                # The rest of a body came after its answer; uvicorn would wait for ever for what follows.
                self.timeout_keep_alive_task = self.loop.call_later(
                    self.timeout_keep_alive, self.timeout_keep_alive_handler
                )

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self.scope["extensions"] = _EXTENSIONS  # pyright: ignore[reportGeneralTypeIssues]  # a function, for exchange.py
            if not self._reading_head:
                self._reading_head, self._head_bytes = True, 0  # The next request on this connection.

        def on_headers_complete(self) -> None:
            self._reading_head = False
            if self._too_slow is not None:
                self._head_is_here()
            super().on_headers_complete()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self._deaf and not self.transport.is_closing():
                self._too_slow = last_words(self.loop, self.transport)

        def drop_rest(self) -> None:
            """It closes after an answer that comes before all of the body has: what still comes is not wanted."""
            self._deaf = True

        def _was_answered(self) -> bool:
            """Was the last request answered before all of its body had come?"""
            last: Any = self.cycle
            return last is not None and last.response_complete and last.more_body

        def _watch(self) -> None:
            self._too_slow = self.loop.call_later(settings.header_seconds, self._refuse, b"408 Request Timeout")

        def _head_is_here(self) -> None:
            self._reading_head = False
            if self._too_slow is not None:
                self._too_slow.cancel()
                self._too_slow = None

        def _refuse(self, status: bytes) -> None:
            self._head_is_here()
            answering: Any = self.cycle
            if answering is not None and not answering.response_complete:
                self.transport.close()  # Another answer is under way, and nothing can be said in the middle of it.
            elif not self.transport.is_closing():
                self._deaf = True
                words = b"HTTP/1.1 %b\r\nconnection: close\r\ncontent-length: 0\r\n\r\n" % status
                self._too_slow = last_words(self.loop, self.transport, words)

    return Connection


def _ends_head(data: bytes) -> bool:
    # A head and a large body may come in one piece; then the head alone was not too large.
    return b"\r\n\r\n" in data
