"""The HTTP and WebSocket protocol classes for uvicorn.

uvicorn waits forever for the end of a request's head and buffers it without a size limit. When it responds before all
of the body has arrived, it waits forever for the rest, or closes the connection, which resets it under a client that
is still sending. `HttpConnection` limits both, and closes so that the client can read the response.

`SocketWriter` bypasses uvicorn's `send` and writes to the socket: `send` takes a dictionary per chunk and validates
each header, a third of the cost of sending (docs/decisions/0014). It handles the common case; for all others `send` is
used. Complete responses made in one turn of the event loop are written together at its end: waking a sleeping client
costs more than sending to one that is awake.
"""

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
"""Responses to be written at the end of this turn of the loop, each with its completion callback."""


def socket_writer(receive: Any) -> "SocketWriter | None":
    """Return the writer for a request, from its `receive`; None under another server."""
    cycle = getattr(receive, "__self__", None)
    if type(cycle) is not RequestResponseCycle:
        return None
    connection: Any = cycle.transport.get_protocol()
    return SocketWriter(cycle, connection) if connection is not None else None  # The connection was lost.


class SocketWriter:
    """Writes the response of one request to its socket."""

    __slots__ = ("_connection", "_cycle", "_flow", "_transport")

    def __init__(self, cycle: RequestResponseCycle, connection: Any) -> None:
        self._connection = connection  # Kept here: a closed transport has no protocol.
        self._cycle = cycle
        self._flow = cycle.flow
        self._transport = cycle.transport

    def watch(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the client disconnects; at once if it has."""
        if self._cycle.disconnected:
            callback()
        else:
            self._connection.on_disconnect = callback

    def unwatch(self, callback: Callable[[], None]) -> None:
        """Remove the callback, unless the next request on this connection has set its own."""
        if self._connection.on_disconnect == callback:
            self._connection.on_disconnect = None

    def take_body(self) -> bytes | None:
        """Return the body if it has arrived completely, even if the client has disconnected since; else None."""
        cycle = self._cycle
        if cycle.more_body or cycle.waiting_for_100_continue or cycle.response_complete:
            return None
        body, cycle.body = bytes(cycle.body), bytearray()
        self._flow.resume_reading()
        return body

    @property
    def unread_bytes(self) -> int:
        """Bytes that the client has not read yet."""
        return self._transport.get_write_buffer_size()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def write_chunk(self, chunk: bytes) -> bool:
        """Write a chunk that is not the last. Return False if the caller must use `send`, which may wait."""
        cycle = self._cycle
        if self._flow.write_paused or cycle.disconnected or not cycle.chunked_encoding:
            return False
        self._transport.write(b"".join((b"%x\r\n" % len(chunk), chunk, b"\r\n")))
        return True

    def write_response(self, status: int, headers: Headers, body: bytes) -> bool:
        """Write a complete response. Return False if the caller must use `send`, which may wait."""
        cycle = self._cycle
        if self._flow.write_paused or cycle.disconnected or cycle.response_started or not cycle.keep_alive:
            return False
        if status in (204, 304) or cycle.waiting_for_100_continue or cycle.scope["method"] == "HEAD":
            return False
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers])
        if lines.count("\n") != len(headers) or lines.count("\r") != len(headers):
            return False  # A line break in a value: uvicorn raises.
        server_headers = _encode_server_headers(cycle.default_headers)
        length = b"content-length: %d\r\n\r\n" % len(body)
        cycle.response_started = cycle.response_complete = True
        if not _pending:
            asyncio.get_running_loop().call_soon(flush_pending)
        response = b"".join((STATUS_LINE[status], server_headers, lines.encode("latin-1"), length, body))
        _pending.append((self, response, cycle.on_response))
        return True

    def linger(self) -> None:
        """Let a client that is still sending its body read the response before the connection is closed."""
        cycle = self._cycle
        if cycle.more_body and not cycle.keep_alive:
            cycle.keep_alive = True  # We close it, not uvicorn; the headers already say so.
            self._connection.discard_remaining_body()

    def write(self, response: bytes, on_complete: Callable[[], None]) -> None:
        """Write a pending response, unless its client has disconnected."""
        if self._transport.is_closing():
            return
        self._transport.write(response)
        # Unless the next request has started: then the connection is not idle.
        if self._connection.cycle is self._cycle or self._connection.pipeline:
            on_complete()


def flush_pending() -> None:
    pending = _pending.copy()
    _pending.clear()
    for writer, data, on_complete in pending:
        writer.write(data, on_complete)


class _ServerHeadersCache:
    """Caches the encoded default headers of uvicorn, such as the date. uvicorn makes a new list once a second."""

    headers: list[tuple[bytes, bytes]] | None = None
    lines = b""


def _encode_server_headers(headers: list[tuple[bytes, bytes]]) -> bytes:
    if headers is not _ServerHeadersCache.headers:
        _ServerHeadersCache.headers = headers
        _ServerHeadersCache.lines = b"".join([b"%b: %b\r\n" % pair for pair in headers])
    return _ServerHeadersCache.lines


LINGER_TIMEOUT_S = 5.0
"""How long a client may take to read the last response."""


def bare_response(status: bytes) -> bytes:
    """Encode a response to an invalid request."""
    return b"HTTP/1.1 %b\r\nconnection: close\r\ncontent-length: 0\r\n\r\n" % status


def close_lingering(
    loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, data: bytes = b""
) -> asyncio.TimerHandle:
    """Send `data` and end of file; the client may read it until it closes, or until the returned timer fires."""
    transport.write(data)
    transport.write_eof()
    return loop.call_later(LINGER_TIMEOUT_S, transport.abort)


_EXTENSIONS = {SOCKET_WRITER_EXTENSION: socket_writer}
_HEAD_SLACK_BYTES = 1024  # For the request line and separators.


class HttpConnection(HttpToolsProtocol):
    """An HTTP connection with limits on the size of a request's head, and the time it takes."""

    # Without slots the 31st attribute would give each connection a dictionary of 1.4 KiB.
    __slots__ = ("_head_bytes", "_is_discarding", "_is_reading_head", "_timer", "on_disconnect")

    head_timeout_s: float
    max_head_bytes: int

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._is_reading_head, self._head_bytes = True, 0
        self._is_discarding = False  # Drop what still arrives.
        self._timer: asyncio.TimerHandle | None = None  # Times out a slow head, or a lingering close.
        self.on_disconnect: Callable[[], None] | None = None  # Called when the client disconnects.
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when the connection is closed by either side."""
        self._stop_timer()
        super().connection_lost(exc)
        if self.on_disconnect is not None:
            self.on_disconnect()

    def shutdown(self) -> None:
        """Called when the server stops: write pending responses before closing."""
        flush_pending()
        super().shutdown()

    def data_received(self, data: bytes) -> None:
        if self._is_discarding:
            return
        if self._is_reading_head:
            self._head_bytes += len(data)
            # A small head and a large body may arrive together.
            if self._head_bytes > self.max_head_bytes and b"\r\n\r\n" not in data:
                self._refuse(b"431 Request Header Fields Too Large")
                return
        super().data_received(data)
        if self._is_reading_head:
            if self._timer is None:
                self._start_head_timer()  # Only a part of it has arrived.
        elif self.timeout_keep_alive_task is None and self._was_answered_early():
            # uvicorn cancelled its keep-alive timer for bytes that do not start a request.
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = _EXTENSIONS  # pyright: ignore[reportGeneralTypeIssues]  # a function
        if not self._is_reading_head:
            self._is_reading_head, self._head_bytes = True, 0  # The next request.

    def on_headers_complete(self) -> None:
        self._is_reading_head = False
        if self._timer is not None:
            self._stop_timer()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_discarding and not self.transport.is_closing():
            self._timer = close_lingering(self.loop, self.transport)

    def discard_remaining_body(self) -> None:
        """Drop what still arrives of a body that was answered early."""
        self._is_discarding = True

    def _was_answered_early(self) -> bool:
        """Whether the last request was answered before its body was complete, and was not upgraded to a WebSocket."""
        cycle: Any = self.cycle
        is_early = cycle is not None and cycle.response_complete and cycle.more_body
        return is_early and self.transport.get_protocol() is self

    def _start_head_timer(self) -> None:
        self._timer = self.loop.call_later(self.head_timeout_s, self._refuse, b"408 Request Timeout")

    def _stop_timer(self) -> None:
        self._is_reading_head = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: bytes) -> None:
        self._stop_timer()
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_complete:
            self.transport.close()  # In the middle of another response nothing can be sent.
        elif not self.transport.is_closing():
            self._is_discarding = True
            self._timer = close_lingering(self.loop, self.transport, bare_response(status))


def http_protocol(settings: Settings) -> type[HttpConnection]:
    """Create the protocol class for uvicorn, with these settings."""

    class ConfiguredHttpConnection(HttpConnection):
        __slots__ = ()

        head_timeout_s = settings.header_seconds
        max_head_bytes = settings.max_headers + settings.max_url + _HEAD_SLACK_BYTES

    return ConfiguredHttpConnection


_BAD_REQUEST = bare_response(b"400 Bad Request")
_ABORT_DELAY_S = 2.0


class WebSocketConnection(WebSocketsSansIOProtocol):
    """A WebSocket that can be aborted, and lets responses end when the server stops."""

    settings = Settings()
    on_shutdown: Callable[[], None] | None = None
    """Called when the server stops; it closes the socket once its responses have ended."""

    def data_received(self, data: bytes) -> None:
        """Answer a malformed handshake with 400; uvicorn sends nothing."""
        super().data_received(data)
        if not self.handshake_initiated and self.conn.handshake_exc is not None and not self.close_sent:
            self._close_with(_BAD_REQUEST)

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if self.response.status_code == 101:
            scope: Any = self.scope
            scope["extensions"][CONNECTION_EXTENSION] = self
            if services.is_service_socket(self.settings, scope):
                self.conn.max_message_size = services.max_message_bytes(self.settings)

    def handle_parser_exception(self) -> None:
        """Close after a message that is too large or malformed, so that a client that is still sending can read why."""
        if self.close_sent:
            self.transport.write_eof()  # Its close frame cannot be read any more: don't wait for it.
            return
        close_frame = self.conn.close_sent  # None before the handshake is complete.
        code, reason = (close_frame.code, close_frame.reason) if close_frame else (1006, "")
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.handshake_complete = self.disconnected = True
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self._close_with(b"".join(self.conn.data_to_send()) if close_frame else _BAD_REQUEST)

    def keepalive_timeout(self) -> None:
        """Abort soon after a missed pong: the client reads nothing."""
        super().keepalive_timeout()
        self.loop.call_later(_ABORT_DELAY_S, self.abort)

    def shutdown(self) -> None:
        if self.on_shutdown is not None and not self.close_sent:
            self.on_shutdown()
        else:
            super().shutdown()

    def abort(self) -> None:
        """Close the connection at once."""
        self.transport.abort()

    def _close_with(self, data: bytes) -> None:
        self.close_sent = True
        self.close_timer = close_lingering(self.loop, self.transport, data)


def websocket_protocol(config: Settings) -> type[WebSocketConnection]:
    """Create the protocol class for uvicorn, with these settings."""

    class ConfiguredWebSocketConnection(WebSocketConnection):
        settings = config

    return ConfiguredWebSocketConnection
