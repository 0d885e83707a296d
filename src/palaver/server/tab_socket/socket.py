"""The WebSocket of a tab. Each request on it becomes a request to the application, with the credential of the socket.

That one is routed, authorized, counted and logged like any other. Its response goes through the outbox.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, MutableMapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from palaver.errors import NotFound, PalaverError, RateLimited, ShuttingDown
from palaver.protocols.base import HttpResponse
from palaver.server import security
from palaver.server.auth import Authenticator, Caller
from palaver.server.notifications import ChangeFeed
from palaver.server.rate_limit import RateLimits
from palaver.server.request import Asgi, Exchange, Receive, Scope, Send
from palaver.server.routing import resolve_path
from palaver.server.scopes import require_scope, required_scope
from palaver.server.settings import Settings
from palaver.server.tab_socket import envelopes
from palaver.server.tab_socket.envelopes import MalformedRequest, SocketRequest
from palaver.server.tab_socket.outbox import Outbox, ResponseQueue

log = logging.getLogger("palaver.server")

SOCKET_PATH = "/api/socket"
MAX_OPEN_REQUESTS = 64
"""Open requests per socket."""
CONNECTION_EXTENSION = "palaver.connection"
"""ASGI extension: the WebSocketConnection."""
_CLOSE_TIMEOUT_S = 2.0
_POLICY_VIOLATION, _PROTOCOL_ERROR, _SERVICE_RESTART = 1008, 1002, 1012


@dataclass(frozen=True, eq=False, repr=False)
class TabSockets:
    """Accepts the sockets of tabs; their requests go to `app`."""

    app: Asgi
    settings: Settings
    authenticator: Authenticator
    change_feed: ChangeFeed
    rate_limits: RateLimits
    encode_error: Callable[[PalaverError, None], HttpResponse]
    log_request: Callable[[Exchange, str], None]

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a WebSocket until it is closed. Its handshake is checked and refused like any request."""
        await receive()
        exchange = Exchange({**scope, "method": "GET", "scheme": envelopes.http_scheme(scope)}, receive, send)
        try:
            caller = await self._admit(exchange)
        except PalaverError as error:
            await refuse_handshake(exchange, self.encode_error(error, None))
            self.log_request(exchange, "socket")
            return
        exchange.status = 101
        socket = TabSocket(self, scope, receive, send, caller)
        try:
            await socket.serve()
        finally:
            self.rate_limits.sockets.release(caller)
            self.log_request(exchange, "socket")
        await socket.wait_ended()

    async def _admit(self, exchange: Exchange) -> Caller:
        """Check the handshake, count the socket and return its caller. Raises PalaverError."""
        settings = self.settings
        resolved = resolve_path(settings.root_path, exchange.path, exchange.scope.get("raw_path") or b"")
        security.check_request(exchange, settings)
        security.check_origin(exchange, settings)  # Any page can open a WebSocket, and do more on it than read.
        caller = await self.authenticator.resolve(exchange)
        if resolved.is_unnormalized or resolved.path.rstrip("/") != SOCKET_PATH:
            raise NotFound(f"No WebSocket at {resolved.path[:80]}.")
        require_scope(required_scope(resolved.route, exchange.method, resolved.path), caller)
        self.rate_limits.count_request(caller)
        await self.change_feed.start()
        self.rate_limits.sockets.acquire(caller)
        return caller


async def refuse_handshake(exchange: Exchange, response: HttpResponse) -> None:
    """Answer a handshake with an HTTP response; where the ASGI server cannot, close it."""
    exchange.status = response.status
    if "websocket.http.response" not in (exchange.scope.get("extensions") or {}):
        await exchange.send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        return
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in response.headers]
    headers.append((b"x-request-id", exchange.id.encode()))
    await exchange.send({"type": "websocket.http.response.start", "status": response.status, "headers": headers})
    await exchange.send({"type": "websocket.http.response.body", "body": response.body})


class TabSocket:
    def __init__(self, sockets: TabSockets, scope: Scope, receive: Receive, send: Send, caller: Caller) -> None:
        self._sockets = sockets
        self._scope = scope
        self._receive = receive
        self._send = send
        self._caller = caller
        self._outbox = Outbox(self._wake)
        self._open: dict[int, _OpenRequest] = {}
        self._tasks: set[asyncio.Task[None]] = set()  # Including tasks of aborted requests.
        self._write_task: asyncio.Task[None] | None = None
        self._read_task: asyncio.Task[None] | None = None
        self._has_ended = self._is_shutting_down = self._is_closing = False
        extensions: dict[str, Any] = scope.get("extensions") or {}
        self._connection: Any = extensions.get(CONNECTION_EXTENSION)

    async def serve(self) -> None:
        """Serve until either side closes the socket. Its requests see that as a disconnect."""
        await self._send({"type": "websocket.accept"})
        if self._connection is not None:
            self._connection.on_shutdown = self._on_shutdown
        self._read_task = asyncio.get_running_loop().create_task(self._read_loop())
        watch = self._sockets.authenticator.watch(self._caller, self._on_credential_ended)
        subscription = self._sockets.change_feed.subscribe(self._caller.project, self._outbox.put_change)
        try:
            with watch, subscription:
                await asyncio.wait([self._read_task])
        finally:
            self._has_ended = True
            self._read_task.cancel()
            for request in list(self._open.values()):
                request.abort()
            self._open.clear()
            if self._write_task is not None:
                self._write_task.cancel()
            if self._connection is not None:
                self._connection.on_shutdown = None
        if not self._read_task.cancelled():
            self._read_task.result()

    async def wait_ended(self) -> None:
        """Wait for requests that continue after the disconnect."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    # Requests

    async def _read_loop(self) -> None:
        while (message := await self._receive())["type"] != "websocket.disconnect":
            text = message.get("text")
            try:
                request = envelopes.decode_request(text if text is not None else "")
            except MalformedRequest as problem:
                await self._send_error(problem.id, problem.error)
                continue
            if request.abort:
                self._abort(request.id)
            else:
                await self._start_request(request)

    async def _start_request(self, message: SocketRequest) -> None:
        if message.id in self._open:
            self._close(_PROTOCOL_ERROR, f"request {message.id} is already open")  # Its response would be ambiguous.
            return
        body = None if message.body is None else message.body.encode()
        try:
            if self._is_shutting_down:
                raise ShuttingDown("The server is shutting down. Try again shortly.")
            if len(self._open) >= MAX_OPEN_REQUESTS:
                raise RateLimited(
                    f"Too many open requests on this socket (limit: {MAX_OPEN_REQUESTS}). Try again shortly."
                )
            scope = envelopes.http_scope(message, body, self._scope, root_path=self._sockets.settings.root_path)
        except PalaverError as error:
            await self._send_error(message.id, error)
            return
        request = _OpenRequest(
            ResponseQueue(message.id, self._outbox, partial(self._on_request_ended, message.id)), body or b""
        )
        self._open[message.id] = request
        self._start_task(self._answer(request, scope))

    async def _answer(self, request: "_OpenRequest", scope: Scope) -> None:
        try:
            await self._sockets.app(scope, request.receive, request.send)
        except Exception as error:
            # Already logged by the application. The headers are sent, so the response can only be cut off.
            log.debug("A response on a socket was interrupted: %r", error)
        if not request.ended.is_set():
            request.fail("interrupted", "The response was interrupted.")

    def _abort(self, number: int) -> None:
        """Abort a request; it may have ended before the message arrived."""
        request = self._open.pop(number, None)
        if request is not None:
            request.abort()
            self._close_if_done()

    def _on_request_ended(self, number: int) -> None:
        self._open.pop(number, None)
        self._close_if_done()

    async def _send_error(self, number: int | None, error: PalaverError) -> None:
        await self._outbox.put_message(envelopes.encode_error(number, error.code, error.message))

    # Messages to the page

    def _wake(self) -> None:
        if self._write_task is None and not self._has_ended:
            self._write_task = asyncio.get_running_loop().create_task(self._write_loop())

    async def _write_loop(self) -> None:
        try:
            while (message := self._outbox.next_message()) is not None:
                async with asyncio.timeout(self._sockets.settings.stream_stall):
                    await self._send({"type": "websocket.send", "text": message.decode()})
            self._write_task = None
        except TimeoutError:
            self._abort_connection()  # The client reads nothing.
        except (OSError, RuntimeError):
            pass  # Disconnected: the read loop ends, too.

    # Closing

    def _on_credential_ended(self) -> None:
        self._close(_POLICY_VIOLATION, "unauthorized")

    def _on_shutdown(self) -> None:
        """Let open requests end and start no others: the server stops."""
        self._is_shutting_down = True
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._is_shutting_down and not self._open:
            self._close(_SERVICE_RESTART, "server shutting down")

    def _close(self, code: int, reason: str) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        self._start_task(self._send_close(code, reason))

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_close(self, code: int, reason: str) -> None:
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._send({"type": "websocket.close", "code": code, "reason": reason})
        except TimeoutError:
            pass
        except (OSError, RuntimeError):
            return  # Already closed.
        self._abort_connection(delay_s=_CLOSE_TIMEOUT_S)

    def _abort_connection(self, delay_s: float = 0) -> None:
        if self._connection is not None:
            asyncio.get_running_loop().call_later(delay_s, self._connection.abort)
        if self._read_task is not None:
            self._read_task.cancel()


class RequestOnSocket:
    """The `receive` of a request that arrived on a socket."""

    __slots__ = ("_body", "ended")

    def __init__(self, body: bytes) -> None:
        self.ended = asyncio.Event()
        """Set when the response is complete or aborted."""
        self._body: bytes | None = body

    async def receive(self) -> MutableMapping[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.ended.wait()
        return {"type": "http.disconnect"}


class _OpenRequest(RequestOnSocket):
    """The `receive` and `send` of a request."""

    __slots__ = ("_queue",)

    def __init__(self, queue: ResponseQueue, body: bytes) -> None:
        super().__init__(body)
        self._queue = queue

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if self.ended.is_set():
            return
        if message["type"] == "http.response.start":
            self._queue.open(message["status"], message["headers"])
            return
        if body := message.get("body"):
            await self._queue.put(body)
        if not message.get("more_body", False) and not self.ended.is_set():
            self.ended.set()
            self._queue.end()

    def abort(self) -> None:
        self.ended.set()
        self._queue.drop()

    def fail(self, code: str, message: str) -> None:
        """End an incomplete response with an error."""
        self.ended.set()
        self._queue.fail(code, message)
