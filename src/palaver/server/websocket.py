"""Our WebSockets: uvicorn's, with a way to end one that takes nothing, and to let answers end when the server stops.

How large a message may be depends on what stands at the path: a service takes there what it takes in a body.
"""

from collections.abc import Callable
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from palaver.server import service_socket
from palaver.server.farewell import last_words, refusal
from palaver.server.settings import Settings
from palaver.server.socket import CONNECTION

_BAD = refusal(b"400 Bad Request")
_MOMENT = 2.0


class WebSocket(WebSocketsSansIOProtocol):
    """One connection."""

    settings = Settings()
    leaving: Callable[[], None] | None = None
    """Who is told that the server is to stop, and closes the socket when its answers have ended."""

    def data_received(self, data: bytes) -> None:
        """Bytes came; those of an opening that is none are answered, for uvicorn says nothing to them."""
        super().data_received(data)
        if not self.handshake_initiated and self.conn.handshake_exc is not None and not self.close_sent:
            self._leave_with(_BAD)

    def handle_connect(self, event: Any) -> None:
        """Somebody wants to open it."""
        super().handle_connect(event)
        if self.response.status_code == 101:
            scope: Any = self.scope
            scope["extensions"][CONNECTION] = self
            if service_socket.is_at(self.settings, scope):
                self.conn.max_message_size = service_socket.largest(self.settings)

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
        self._leave_with(b"".join(self.conn.data_to_send()) if told else _BAD)

    def keepalive_timeout(self) -> None:
        """It does not answer: what it has not taken in a moment, it will not take."""
        super().keepalive_timeout()
        self.loop.call_later(_MOMENT, self.abort)

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
        self.close_timer = last_words(self.loop, self.transport, words)


def sockets(its: Settings) -> type[WebSocket]:
    """The protocol class for uvicorn, with these settings."""

    class Socket(WebSocket):
        settings = its

    return Socket
