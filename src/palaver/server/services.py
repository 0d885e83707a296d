"""/services: every workflow as a service, over HTTP and WebSocket.

Calls are handled as in any protocol, but the key may be in the body, where the clients of services write it.

A WebSocket is always accepted, unless from a page of another origin: the `openfn` command does not notice a refused
one. Each `start` message becomes a request to the application, with the headers of the socket.
"""

import asyncio
import logging
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from palaver.core import json
from palaver.core.descriptions import Description, Schemas
from palaver.discovery.registry import Registry
from palaver.engine.engine import Engine
from palaver.errors import ConflictingFields, InvalidBody, PalaverError, ShuttingDown, StillRunning, Unauthorized
from palaver.protocols.base import HttpResponse
from palaver.protocols.services import adapter, response
from palaver.protocols.services.adapter import STREAM_ROUTE, VERSION, document_response, encode_error, markdown_response
from palaver.protocols.services.request import (
    CONTROL_FIELDS,
    ServiceRequest,
    find_palaver_key,
    parse_payload_object,
    payload_api_key,
    session_label,
)
from palaver.protocols.services.socket import (
    SocketMessageEncoder,
    complete_message,
    error_message,
    parse_message,
    with_api_key,
)
from palaver.server import routing, security
from palaver.server.auth import Authenticator, Caller, read_credential
from palaver.server.calls import CallHandler
from palaver.server.error_responses import error_status
from palaver.server.health import HealthChecks
from palaver.server.request import Asgi, Exchange, Receive, Scope, Send
from palaver.server.routing import RouteMatch
from palaver.server.settings import KIB, Settings
from palaver.server.tab_socket import envelopes
from palaver.server.tab_socket.envelopes import SocketRequest
from palaver.server.tab_socket.socket import CONNECTION_EXTENSION, RequestOnSocket, refuse_handshake

_ANY_OBJECT = Schemas(inputs={"type": "object", "additionalProperties": True})
BUILT_IN_SERVICES = {
    "echo": Description(name="echo", description="Returns its payload.", flags={"is_chat": False}, schemas=_ANY_OBJECT),
    "status": Description(
        name="status",
        description="Reports the health of the database and the workflows.",
        flags={"is_chat": False},
        schemas=_ANY_OBJECT,
    ),
}
"""Services of every server, unless a workflow has the name."""


@dataclass(frozen=True, eq=False, repr=False)
class ServiceEndpoints:
    registry: Registry
    settings: Settings
    authenticator: Authenticator
    calls: CallHandler
    health: HealthChecks
    version: str

    async def resolve_caller(self, exchange: Exchange, route: RouteMatch) -> Caller:
        """Return the caller, by the headers or by the key in the body. The body is read within its limit."""
        if (
            exchange.method != "POST"
            or route.name not in routing.SERVICE_ROUTES
            or "POST" not in route.endpoint.methods
        ):
            return await self.authenticator.resolve(exchange)
        credential = read_credential(exchange.headers, self.authenticator.cookie)
        caller = None if credential is None else await self.authenticator.resolve(exchange)
        security.check_json(exchange)
        exchange.cached_body = await exchange.body(self.settings)
        key_text = find_palaver_key(exchange.cached_body, self.settings.json_limits)
        if key_text is None:
            return caller or await self.authenticator.resolve(exchange)
        if credential is not None and (credential.kind, credential.text) != ("key", key_text):
            raise ConflictingFields("The request contains two different credentials. Send only one.")
        caller = await self.authenticator.caller_of_key(key_text)
        if caller is None:
            raise Unauthorized("Invalid or expired api_key.")
        return caller

    async def handle(self, exchange: Exchange, route: RouteMatch) -> None:
        if route.name not in routing.SERVICE_ROUTES:
            raise routing.path_not_found(exchange.path)
        if route.endpoint.adapter is not None and exchange.method == "POST":
            await self._call(exchange, route)
        elif route.workflow is None:
            entries = [self._entry(name) for name in sorted({*BUILT_IN_SERVICES, *self.registry.names()})]
            await exchange.respond(document_response({"services": entries}, stream=False))
        elif route.name.endswith("README.md"):
            service, readme = self._describe(route.workflow)
            await exchange.respond(markdown_response(readme or adapter.default_readme(service)))
        else:
            service, _ = self._describe(route.workflow)
            entry = {**self._entry(route.workflow), "inputs": service.schemas.inputs}
            await exchange.respond(document_response({} if exchange.method == "HEAD" else entry, stream=False))

    def _describe(self, name: str) -> tuple[Description, str]:
        if name in BUILT_IN_SERVICES and name not in self.registry:
            return BUILT_IN_SERVICES[name], ""
        workflow = self.registry.workflow(name)
        return workflow.description, workflow.options.readme

    def _entry(self, name: str) -> dict[str, object]:
        return adapter.catalog_entry(*self._describe(name), self.version)

    # Calls

    async def _call(self, exchange: Exchange, route: RouteMatch) -> None:
        name = route.workflow
        assert name is not None
        if name in BUILT_IN_SERVICES and name not in self.registry:
            await exchange.respond(await self._call_built_in(exchange, route, name))
        else:
            await self.calls.handle(exchange, route)

    async def _call_built_in(self, exchange: Exchange, route: RouteMatch, name: str) -> HttpResponse:
        stream = route.name == STREAM_ROUTE
        if name == "status":
            return document_response(await self.health.document(), stream=stream)
        request = await self.calls.read_request(exchange, route)
        payload = parse_payload_object(request) if request.body else {}
        inputs = {key: value for key, value in payload.items() if key not in CONTROL_FIELDS}
        try:
            payload_api_key(payload)
            if not inputs:
                raise InvalidBody("payload is required")
        except PalaverError as error:
            service_request = ServiceRequest(workflow=name, is_chat=False, stream=stream)
            return encode_error(error, service_request, status=400)
        return document_response({**inputs, "session_id": session_label(payload, request.new_id)}, stream=stream)


log = logging.getLogger("palaver.server")

_FIRST_CALL_TIMEOUT_S = 60.0
"""Close a socket on which no call was accepted within this time."""
_POLICY_VIOLATION, _SERVICE_RESTART = 1008, 1012
_REJECTED_STATUSES = (401, 403, 429)
_JSON = {"content-type": "application/json"}
_ACCEPT_HEADERS = [(b"x-api-version", VERSION.encode())]


def is_service_socket(settings: Settings, scope: Scope) -> bool:
    route = routing.resolve_path(settings.root_path, scope["path"], scope.get("raw_path") or b"").route
    return route is not None and route.name == "services/{w}"


def max_message_bytes(settings: Settings) -> int:
    """Return the size limit of a message: the payload of a `start` may be as large as a body."""
    return max(settings.max_body + KIB, settings.ws_max)


@dataclass(frozen=True, eq=False, repr=False)
class ServiceSockets:
    """Accepts the sockets of services; their calls go to `app`."""

    app: Asgi
    settings: Settings
    engine: Engine
    encode_error: Callable[[PalaverError, RouteMatch | None], HttpResponse]
    log_request: Callable[[Exchange, str], None]

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a WebSocket until it is closed."""
        await receive()
        exchange = Exchange({**scope, "method": "GET", "scheme": envelopes.http_scheme(scope)}, receive, send)
        try:
            security.check_request(exchange, self.settings)
            security.check_origin(exchange, self.settings)  # Any page can open a WebSocket.
        except PalaverError as error:
            await refuse_handshake(exchange, self.encode_error(error, routing.match_path("/services")))
            self.log_request(exchange, "services socket")
            return
        exchange.status = 101
        socket = ServiceSocket(self, scope, receive, send, exchange.query.get("api_key", ""))
        try:
            await socket.serve()
        finally:
            self.log_request(exchange, "services socket")


class ServiceSocket:
    def __init__(self, sockets: ServiceSockets, scope: Scope, receive: Receive, send: Send, key: str) -> None:
        self._sockets = sockets
        self._scope = scope
        self._receive = receive
        self._send = send
        self._key = key.strip()
        self._path = routing.strip_prefix(sockets.settings.root_path, scope["path"]).rstrip("/") + "/stream"
        self._call: _ServiceCall | None = None
        self._task: asyncio.Task[None] | None = None
        self._has_accepted_call = self._is_shutting_down = False
        # Messages have no headers: all calls belong to the trace of the handshake.
        traces = [value.decode("latin-1") for name, value in scope["headers"] if name == b"traceparent"]
        self._trace_headers = {"traceparent": traces[0]} if traces else {}
        extensions: dict[str, Any] = scope.get("extensions") or {}
        self._connection: Any = extensions.get(CONNECTION_EXTENSION)

    async def serve(self) -> None:
        """Serve until either side closes the socket. Its call sees that as a disconnect."""
        await self._send({"type": "websocket.accept", "headers": _ACCEPT_HEADERS})
        if self._connection is not None:
            self._connection.on_shutdown = self._on_shutdown
        try:
            while (message := await self._receive_message())["type"] != "websocket.disconnect":
                try:
                    await self._handle_message(message.get("text") or "")
                except PalaverError as error:
                    await self.send(error_message(error, status=error_status(error)))
        except TimeoutError:
            await self._close(_POLICY_VIOLATION, "no call was started in time")
        finally:
            if self._connection is not None:
                self._connection.on_shutdown = None
            if self._call is not None:
                self._call.ended.set()
            if self._task is not None:
                await asyncio.wait([self._task])

    async def _receive_message(self) -> MutableMapping[str, Any]:
        while not self._has_accepted_call:
            try:
                async with asyncio.timeout(_FIRST_CALL_TIMEOUT_S):
                    return await self._receive()
            except TimeoutError:
                if self._call is None and not self._has_accepted_call:
                    raise
        return await self._receive()

    async def _handle_message(self, text: str) -> None:
        message = parse_message(text)
        if message.event == "cancel":
            if self._call is not None:
                self._call.cancel()
            return
        if self._call is not None:
            raise StillRunning("A call is already running on this socket. Cancel it, or wait until it is complete.")
        if self._is_shutting_down:
            raise ShuttingDown("The server is shutting down. Try again shortly.")
        payload = with_api_key(message.payload, self._key) if self._key else message.payload
        request = SocketRequest(0, "POST", self._path, {**_JSON, **self._trace_headers})
        scope = envelopes.http_scope(request, payload, self._scope)
        self._call = _ServiceCall(self, payload)
        self._task = asyncio.get_running_loop().create_task(self._answer(self._call, scope))

    async def _answer(self, call: "_ServiceCall", scope: Scope) -> None:
        try:
            await self._sockets.app(scope, call.receive, call.send)
        except Exception as error:
            log.debug("A call on a socket was interrupted: %r", error)  # The application has logged it.
        self._has_accepted_call = self._has_accepted_call or call.status not in _REJECTED_STATUSES
        self._call = None  # Before the last message: the client may start the next call at once.
        await self.send(call.last_message or complete_message(json.encode(call.interruption)))
        if self._is_shutting_down:
            await self._close(_SERVICE_RESTART, "server shutting down")

    async def send(self, message: str) -> None:
        """Send a message; abort a connection that reads nothing."""
        try:
            async with asyncio.timeout(self._sockets.settings.stream_stall):
                await self._send({"type": "websocket.send", "text": message})
        except TimeoutError:
            if self._connection is not None:
                self._connection.abort()
        except (OSError, RuntimeError):
            pass  # Disconnected: receive() returns that.

    def cancel_run(self, run_id: str) -> bool:
        """Cancel a run, even if its workflow continues after a disconnect. Return False if it is not active."""
        run = self._sockets.engine.find(run_id)
        if run is not None:
            run.cancel()
        return run is not None

    def _on_shutdown(self) -> None:
        """Let the call end and start no other: the server stops."""
        self._is_shutting_down = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._close(_SERVICE_RESTART, "server shutting down"))

    async def _close(self, code: int, reason: str) -> None:
        with suppress(OSError, RuntimeError):  # Already closed.
            await self._send({"type": "websocket.close", "code": code, "reason": reason})


class _ServiceCall(RequestOnSocket):
    """The `receive` and `send` of a call."""

    def __init__(self, socket: ServiceSocket, payload: bytes) -> None:
        super().__init__(payload)
        self.status = 0
        self.last_message: str | None = None
        self.interruption: dict[str, Any] = {
            "code": 500,
            "type": response.INTERNAL,
            "message": "The response was interrupted.",
        }
        """The error to send if the response ends early."""
        self._socket = socket
        self._run_id = ""
        self._encoder: SocketMessageEncoder | None = None
        self._response_body = b""

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = dict(message["headers"])
            self.status, self._run_id = message["status"], headers.get(b"x-request-id", b"").decode()
            if headers.get(b"content-type") == b"text/event-stream":
                self._encoder = SocketMessageEncoder()
            return
        body: bytes = message.get("body", b"")
        if self._encoder is not None:
            messages = self._encoder.feed(body)
            if self._encoder.has_ended and self.last_message is None:
                self.last_message = messages.pop()
            for text in messages:
                await self._socket.send(text)
        else:
            self._response_body += body
        if not message.get("more_body", False):
            if self._encoder is None:
                self.last_message = complete_message(self._response_body)
            self.ended.set()

    def cancel(self) -> None:
        """Cancel the call; if its run has not started, end the call here."""
        if not self._socket.cancel_run(self._run_id):
            self.interruption = response.CANCELLED
            self.ended.set()
