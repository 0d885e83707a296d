"""The HTTP and WebSocket protocol classes for uvicorn, with limits on slow and large requests."""

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from palaver.protocols.base import Headers
from palaver.server import services
from palaver.server.request import SOCKET_WRITER_EXTENSION
from palaver.server.settings import Settings
from palaver.server.tab_socket.socket import CONNECTION_EXTENSION

_pending: "list[tuple[SocketWriter, bytes, Callable[[], None]]]" = []
"""Answers, and what is to be called when they are complete."""


def socket_writer(receive: Any) -> "SocketWriter | None":
    """The wire under a request's `receive`."""
    cycle = getattr(receive, "__self__", None)
    if type(cycle) is not RequestResponseCycle:
        return None
    connection: Any = cycle.transport.get_protocol()
    return SocketWriter(cycle, connection) if connection is not None else None  # It was lost before we began.


class SocketWriter:
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
        own = _encode_server_headers(cycle.default_headers)
        length = b"content-length: %d\r\n\r\n" % len(body)
        cycle.response_started = cycle.response_complete = True
        if not _pending:
            asyncio.get_running_loop().call_soon(flush_pending)
        whole = b"".join((STATUS_LINE[status], own, lines.encode("latin-1"), length, body))
        _pending.append((self, whole, cycle.on_response))
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


def flush_pending() -> None:
    """Write what waits."""
    written = _pending.copy()
    _pending.clear()
    for wire, data, complete in written:
        wire.put(data, complete)


class _ServerHeaders:
    """uvicorn's own headers (the date), as they were last: it makes the list anew once a second."""

    headers: list[tuple[bytes, bytes]] | None = None
    lines = b""


def _encode_server_headers(headers: list[tuple[bytes, bytes]]) -> bytes:
    if headers is not _ServerHeaders.headers:
        _ServerHeaders.headers, _ServerHeaders.lines = headers, b"".join([b"%b: %b\r\n" % pair for pair in headers])
    return _ServerHeaders.lines


LINGER_TIMEOUT_S = 5.0
"""How long a client may take over it."""


def bare_response(status: bytes) -> bytes:
    """An answer to what is not even a request."""
    return b"HTTP/1.1 %b\r\nconnection: close\r\ncontent-length: 0\r\n\r\n" % status


def close_lingering(
    loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, words: bytes = b""
) -> asyncio.TimerHandle:
    """Say that and nothing more. The connection ends when the client leaves, or with the timer that is returned."""
    transport.write(words)
    transport.write_eof()
    return loop.call_later(LINGER_TIMEOUT_S, transport.abort)


_EXTENSIONS = {SOCKET_WRITER_EXTENSION: socket_writer}
_HEAD_SLACK_BYTES = 1024  # For the request line and the bytes between headers; beyond it guards.py need not be asked.


class HttpConnection(HttpToolsProtocol):
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
        flush_pending()
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
            self._patience = close_lingering(self.loop, self.transport)

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
            self._patience = close_lingering(self.loop, self.transport, bare_response(status))


def http_protocol(settings: Settings) -> type[HttpConnection]:
    """The protocol class for uvicorn, with these settings."""

    class Limited(HttpConnection):
        __slots__ = ()

        header_seconds = settings.header_seconds
        largest_head = settings.max_headers + settings.max_url + _HEAD_SLACK_BYTES

    return Limited


def _ends_head(data: bytes) -> bool:
    # A head and a large body may come in one piece; then the head alone was not too large.
    return b"\r\n\r\n" in data


_BAD_REQUEST = bare_response(b"400 Bad Request")
_ABORT_DELAY_S = 2.0


class WebSocketConnection(WebSocketsSansIOProtocol):
    """One connection."""

    settings = Settings()
    leaving: Callable[[], None] | None = None
    """Who is told that the server is to stop, and closes the socket when its answers have ended."""

    def data_received(self, data: bytes) -> None:
        """Bytes came; those of an opening that is none are answered, for uvicorn says nothing to them."""
        super().data_received(data)
        if not self.handshake_initiated and self.conn.handshake_exc is not None and not self.close_sent:
            self._leave_with(_BAD_REQUEST)

    def handle_connect(self, event: Any) -> None:
        """Somebody wants to open it."""
        super().handle_connect(event)
        if self.response.status_code == 101:
            scope: Any = self.scope
            scope["extensions"][CONNECTION_EXTENSION] = self
            if services.is_service_socket(self.settings, scope):
                self.conn.max_message_size = services.max_message_bytes(self.settings)

    def handle_parser_exception(self) -> None:
        """What came is too large, or no message: it is told so while it may still be sending."""
        if self.close_sent:
            self.transport.write_eof()  # Its own farewell will not be seen among what cannot be read: we need not wait.
            return
        told = self.conn.close_sent  # Nothing, where it did not wait until the socket was open.
        code, reason = (told.code, told.reason) if told else (1006, "")
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.handshake_complete = self.disconnected = True
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self._leave_with(b"".join(self.conn.data_to_send()) if told else _BAD_REQUEST)

    def keepalive_timeout(self) -> None:
        """It does not answer: what it has not taken in a moment, it will not take."""
        super().keepalive_timeout()
        self.loop.call_later(_ABORT_DELAY_S, self.abort)

    def shutdown(self) -> None:
        """The server is to stop."""
        if self.leaving is not None and not self.close_sent:
            self.leaving()
        else:
            super().shutdown()

    def abort(self) -> None:
        """End the connection, whatever is under way."""
        self.transport.abort()

    def _leave_with(self, words: bytes) -> None:
        self.close_sent = True
        self.close_timer = close_lingering(self.loop, self.transport, words)


def websocket_protocol(its: Settings) -> type[WebSocketConnection]:
    """The protocol class for uvicorn, with these settings."""

    class Socket(WebSocketConnection):
        settings = its

    return Socket
