"""A service's WebSocket: the same calls as on …/stream, their events as messages (contract: job-chat, 1.5).

It is always accepted, unless a page of another origin opens it: the `openfn` command never notices that it was refused.
Each start enters the application by the same door as any request, with the socket's own headers: it is routed, its key
is checked, it is counted and logged.
"""

import asyncio
import logging
from collections.abc import MutableMapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from palaver.core import jsons
from palaver.errors import PalaverError, ShuttingDown, StillRunning
from palaver.protocols import service_errors, service_socket
from palaver.protocols.services import VERSION
from palaver.server import envelopes, guards, routes
from palaver.server.envelopes import Asked
from palaver.server.exchange import Exchange, Receive, Scope, Send
from palaver.server.settings import KIB, Settings
from palaver.server.socket import CONNECTION, refuse
from palaver.server.status import status_of

if TYPE_CHECKING:
    from palaver.server.app import Server  # It opens sockets.

log = logging.getLogger("palaver.server")

_FIRST = 60.0
"""Seconds until a call must have been let in: whoever may call nothing need not be waited for."""
_MISUSED, _RESTARTING = 1008, 1012
_NOT_LET_IN = (401, 403, 429)
_JSON = {"content-type": "application/json"}
_ACCEPTED = [(b"x-api-version", VERSION.encode())]


def is_at(settings: Settings, scope: Scope) -> bool:
    """Is this the opening of such a socket?"""
    found = routes.place(settings.root_path, scope["path"], scope.get("raw_path") or b"").found
    return found is not None and found.name == "services/{w}"


def largest(settings: Settings) -> int:
    """Bytes of one message: of a start, whose payload may have what a body may."""
    return max(settings.max_body + KIB, settings.ws_max)


async def door(server: "Server", scope: Scope, receive: Receive, send: Send) -> None:
    """A socket that somebody wants to open."""
    await receive()
    exchange = Exchange({**scope, "method": "GET", "scheme": envelopes.http_scheme(scope)}, receive, send)
    try:
        guards.check(exchange, server.settings)
        guards.check_origin(exchange, server.settings)  # Anybody's page can open one.
    except PalaverError as error:
        await refuse(exchange, server.refusal(error, routes.match("/services")))
        server.note(exchange, "services socket")
        return
    exchange.status = 101
    socket = ServiceSocket(server, scope, receive, send, exchange.query.get("api_key", ""))
    try:
        await socket.serve()
    finally:
        server.note(exchange, "services socket")


class ServiceSocket:
    """A socket that is open."""

    def __init__(self, server: "Server", scope: Scope, receive: Receive, send: Send, key: str) -> None:
        self._server = server
        self._scope = scope
        self._receive = receive
        self._send = send
        self._key = key.strip()
        self._path = routes.below(server.settings.root_path, scope["path"]).rstrip("/") + "/stream"
        self._call: _Call | None = None
        self._task: asyncio.Task[None] | None = None
        self._let_in = self._is_leaving = False
        # A frame has no headers: all calls stand where the socket was opened.
        traces = [value.decode("latin-1") for name, value in scope["headers"] if name == b"traceparent"]
        self._traced = {"traceparent": traces[0]} if traces else {}
        extensions: dict[str, Any] = scope.get("extensions") or {}
        self._connection: Any = extensions.get(CONNECTION)

    async def serve(self) -> None:
        """Until it is closed, by either side; then nobody waits for its call, which ends as its route says."""
        await self._send({"type": "websocket.accept", "headers": _ACCEPTED})
        if self._connection is not None:
            self._connection.leaving = self._leave
        try:
            while (message := await self._heard())["type"] != "websocket.disconnect":
                try:
                    await self._take(message.get("text") or "")
                except PalaverError as error:
                    await self.tell(service_socket.problem(error, status=status_of(error)))
        except TimeoutError:
            await self._close(_MISUSED, "nothing was started")
        finally:
            if self._connection is not None:
                self._connection.leaving = None
            if self._call is not None:
                self._call.left.set()
            if self._task is not None:
                await asyncio.wait([self._task])

    async def _heard(self) -> MutableMapping[str, Any]:
        while not self._let_in:
            try:
                async with asyncio.timeout(_FIRST):
                    return await self._receive()
            except TimeoutError:
                if self._call is None and not self._let_in:
                    raise
        return await self._receive()

    async def _take(self, text: str) -> None:
        heard = service_socket.read(text)
        if heard.event == "cancel":
            if self._call is not None:
                self._call.cancel()
            return
        if self._call is not None:
            raise StillRunning("A call runs on this socket: cancel it, or wait until it is complete.")
        if self._is_leaving:
            raise ShuttingDown("The server is stopping: call again in a moment.")
        payload = service_socket.with_key(heard.payload, self._key) if self._key else heard.payload
        asked = Asked(0, "POST", self._path, {**_JSON, **self._traced})
        scope = envelopes.scope_of(asked, payload, self._scope)
        self._call = _Call(self, payload)
        self._task = asyncio.get_running_loop().create_task(self._answer(self._call, scope))

    async def _answer(self, call: "_Call", scope: Scope) -> None:
        try:
            await self._server(scope, call.receive, call.send)
        except Exception as error:
            log.debug("A call on a socket broke off: %r", error)  # The application has logged it.
        self._let_in = self._let_in or call.status not in _NOT_LET_IN
        self._call = None  # Before the last message is told: whoever reads it may start the next call at once.
        await self.tell(call.last or service_socket.complete(jsons.encode(call.unended)))
        if self._is_leaving:
            await self._close(_RESTARTING, "the server stops")

    async def tell(self, message: str) -> None:
        """Send a message; one that takes nothing is left."""
        try:
            async with asyncio.timeout(self._server.settings.stream_stall):
                await self._send({"type": "websocket.send", "text": message})
        except TimeoutError:
            if self._connection is not None:
                self._connection.abort()
        except (OSError, RuntimeError):
            pass  # It has left, as reading will tell.

    def stop(self, run: str) -> bool:
        """End a run of ours, whatever its author says of clients that leave; False where it is not known yet."""
        going = self._server.engine.find(run)
        if going is not None:
            going.cancel()
        return going is not None

    def _leave(self) -> None:
        """The server is to stop: what runs may end, nothing more begins."""
        self._is_leaving = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._close(_RESTARTING, "the server stops"))

    async def _close(self, code: int, reason: str) -> None:
        with suppress(OSError, RuntimeError):  # It is closed already.
            await self._send({"type": "websocket.close", "code": code, "reason": reason})


class _Call:
    """One call, as ASGI sees it."""

    def __init__(self, socket: ServiceSocket, payload: bytes) -> None:
        self.left = asyncio.Event()
        """Nobody waits for more of it."""
        self.status = 0
        self.last: str | None = None
        """Its last message, once it has come."""
        self.unended: dict[str, Any] = {
            "code": 500,
            "type": service_errors.INTERNAL,
            "message": "The answer broke off.",
        }
        """What is said if the answer does not come to its end."""
        self._socket = socket
        self._payload: bytes | None = payload
        self._run = ""
        self._frames: service_socket.Frames | None = None
        self._body = b""

    async def receive(self) -> MutableMapping[str, Any]:
        if self._payload is not None:
            body, self._payload = self._payload, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = dict(message["headers"])
            self.status, self._run = message["status"], headers.get(b"x-request-id", b"").decode()
            if headers.get(b"content-type") == b"text/event-stream":
                self._frames = service_socket.Frames()
            return
        body: bytes = message.get("body", b"")
        if self._frames is not None:
            told = self._frames.feed(body)
            if self._frames.ended and self.last is None:
                self.last = told.pop()
            for text in told:
                await self._socket.tell(text)
        else:
            self._body += body
        if not message.get("more_body", False):
            if self._frames is None:
                self.last = service_socket.complete(self._body)
            self.left.set()

    def cancel(self) -> None:
        """Stop it. Its stream says so itself; where there is none yet, we do."""
        if not self._socket.stop(self._run):
            self.unended = service_errors.CANCELLED
            self.left.set()
