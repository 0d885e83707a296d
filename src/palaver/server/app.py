"""The ASGI application: checks a request, routes it and answers it. Protocols and the REST API are behind it."""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from palaver.discovery.config import declared_workflows
from palaver.discovery.registry import Registry
from palaver.discovery.workflow_loader import DeclaredEvaluator
from palaver.engine.engine import CANCEL_TIMEOUT_S, utc_now
from palaver.errors import MethodNotAllowed, PalaverError, ShuttingDown
from palaver.protocols.base import HttpResponse
from palaver.server import logging_setup
from palaver.server.auth import ANONYMOUS, Caller
from palaver.server.calls import CallHandler
from palaver.server.chat_streams import ChatStreams
from palaver.server.conversation_history import HistoryResolver
from palaver.server.docs_site import DocsSite
from palaver.server.endpoints import LazyApi, ServedWorkflows, ServerEndpoints
from palaver.server.error_responses import add_headers, error_status, json_response, with_error_headers
from palaver.server.health import HealthChecks
from palaver.server.metrics import Metrics
from palaver.server.otlp_receiver import otlp_error, preload_decoder
from palaver.server.rate_limit import RateLimits
from palaver.server.request import ClientDisconnected, Exchange, Receive, Scope, Send
from palaver.server.response_ends import ResponseEnds
from palaver.server.routing import (
    RouteMatch,
    exporter_path,
    path_not_found,
    require_method,
    resolve_path,
    unnormalized_path,
    workflow_paths,
)
from palaver.server.runtime import ProcessRuntime
from palaver.server.scopes import require_scope, required_scope
from palaver.server.security import TrustedProxies, check_request
from palaver.server.services import ServiceEndpoints, ServiceSockets, is_service_socket
from palaver.server.settings import VERSION, Settings, Source
from palaver.server.stored_responses import StoredResponses
from palaver.server.tab_socket.socket import TabSockets
from palaver.server.thread_runner import ThreadRunner
from palaver.server.turn_lock import TurnLock
from palaver.server.web import WebPages
from palaver.storage.database import Database
from palaver.workflows.workflow import Workflow

log = logging.getLogger("palaver.server")

_FOLLOWER_DELAY_S = 0.5
"""At shutdown, how long after the runs were cancelled the streams end that follow something."""


class Server:
    """An ASGI application of the workflows in a registry."""

    def __init__(
        self,
        registry: Registry,
        settings: Settings | None = None,
        *,
        database: Database | None = None,
        only_server: bool = False,
        sources: Mapping[str, Source] | None = None,
        web: Path | None = None,
    ) -> None:
        self.registry = registry
        self.settings = settings = settings or Settings()
        self.rate_limits = RateLimits(settings)
        self.runtime = runtime = ProcessRuntime(
            registry, settings, database, only_server=only_server, admission=self.rate_limits.runs
        )
        database, engine, run_reader = runtime.database, runtime.engine, runtime.run_reader
        self.engine = engine
        self.authenticator = authenticator = runtime.authenticator
        self.response_ends = ResponseEnds(authenticator)
        self.pages = WebPages(web, registry, root_path=settings.root_path)
        self.docs_site = DocsSite(root_path=settings.root_path)
        self.metrics = Metrics(engine)
        runtime.telemetry.register_metrics(self.metrics)
        self._proxies = TrustedProxies(settings.trusted_proxies)
        turn_lock = TurnLock(database, run_reader, max_queued=settings.max_queued, timeout_s=settings.run_seconds)
        resolver = HistoryResolver(database, run_reader, turn_lock, history_limits=settings.history_limits, now=utc_now)
        self.thread_runner = ThreadRunner(registry, settings, engine, run_reader, resolver, runtime.run_queue)
        limits, queue = self.rate_limits, runtime.run_queue
        self.calls = CallHandler(
            registry, settings, engine, run_reader, resolver, database, limits, authenticator, queue
        )
        health = HealthChecks(registry, database, version=VERSION)
        self.services = ServiceEndpoints(registry, settings, authenticator, self.calls, health, VERSION)
        self._chat_streams = ChatStreams(registry, settings, self.calls, run_reader)
        self._stored_responses = StoredResponses(settings, database, run_reader, now=utc_now)
        self.rest_api = LazyApi(partial(self._load_api, sources or {}))
        self._endpoints = ServerEndpoints(registry, engine, health, self.metrics, self.rest_api)
        self._service_sockets = ServiceSockets(self, settings, engine, self.error_response, self.record_request)
        self._tab_sockets = TabSockets(
            self, settings, authenticator, runtime.change_feed, limits, self.error_response, self.record_request
        )
        self._served_workflows = ServedWorkflows(registry, routes=self._routes, started_at=int(time.time()))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an ASGI connection. All in one coroutine, to save memory: thousands of requests may be open."""
        if scope["type"] != "http":
            await self._handle_other(scope, receive, send)
            return
        if not self.runtime.is_started:
            await self.runtime.start()
        exchange = Exchange(self._proxies.resolve(scope), receive, send)
        route: RouteMatch | None = None
        try:
            path = exporter_path(exchange.method, exchange.path)
            resolved = resolve_path(self.settings.root_path, path, scope.get("raw_path") or b"")
            route = resolved.choose_route(exchange.method, self.registry)
            check_request(exchange, self.settings)  # After routing, which knows the format of errors; before 404.
            required = required_scope(route, exchange.method, resolved.path, web=self.pages.are_built)
            exchange.response_ends = self.response_ends
            exchange.caller = caller = ANONYMOUS if required == "nothing" else await self._authenticate(exchange, route)
            require_scope(required, caller)
            self.rate_limits.count_request(caller)
            if route is None:
                raise (unnormalized_path(exchange.path) if resolved.is_unnormalized else path_not_found(resolved.path))
            require_method(route.endpoint, exchange.method, resolved.path)
            match route.endpoint.kind:
                case "call":
                    await self.calls.handle(exchange, route)
                case "metadata":
                    await self._handle_metadata(exchange, route)
                case "stored":
                    await self._handle_stored(exchange, route)
                case "resume":
                    await self._chat_streams.resume(exchange, route)
                case "stop":
                    await self._chat_streams.stop(exchange, route)
                case "service":
                    await self.services.handle(exchange, route)
                case "api" | "files":
                    await self._handle_api(exchange, route, resolved.path)
                case "server" | "page" | "traces":
                    await exchange.respond(await self._document_response(exchange, route, resolved.path))
        except PalaverError as error:
            await exchange.respond(self.error_response(error, route, exchange))
        except (ClientDisconnected, asyncio.CancelledError) as interruption:
            await self._end_interrupted(exchange, route, interruption)
        except Exception:
            log.exception("%s %s failed", exchange.method, exchange.path)
            if exchange.status:
                raise  # The headers are sent: the server closes the connection.
            await exchange.respond(
                self.error_response(PalaverError(f"Internal server error (request {exchange.id})."), route, exchange)
            )
        finally:
            self.record_request(exchange, route.name if route else "none")

    def _authenticate(self, exchange: Exchange, route: RouteMatch | None) -> Awaitable[Caller]:
        if route is not None and route.endpoint.kind == "service":
            return self.services.resolve_caller(exchange, route)  # The key may be in the body.
        # Exporters of Langfuse use Basic authentication.
        return self.authenticator.resolve(exchange, basic=route is not None and route.endpoint.kind == "traces")

    async def _handle_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await self.runtime.start()
            scope = self._proxies.resolve(scope)
            sockets = self._service_sockets if is_service_socket(self.settings, scope) else self._tab_sockets
            await sockets.handle(scope, receive, send)

    # Kinds of endpoints

    def _document_response(self, exchange: Exchange, route: RouteMatch, path: str) -> Awaitable[HttpResponse]:
        if route.name == "docs":
            return self.docs_site.response(exchange, path)
        if route.endpoint.kind == "page":
            return self.pages.response(exchange, route, path)
        if route.endpoint.kind == "traces":
            return self.runtime.telemetry.receiver.response(exchange, route.name)
        return self._endpoints.response(route.name)

    async def _handle_metadata(self, exchange: Exchange, route: RouteMatch) -> None:
        handler = route.endpoint.metadata_handler
        assert handler is not None
        await exchange.respond(handler(await self.calls.read_request(exchange, route), self._served_workflows))

    async def _handle_stored(self, exchange: Exchange, route: RouteMatch) -> None:
        handler = route.endpoint.stored_handler
        assert handler is not None
        if route.workflow is not None:
            self.registry.find(route.workflow)
        response = await handler(self._stored_responses, exchange, await self.calls.read_request(exchange, route))
        if response is not None:
            await exchange.respond(response)

    async def _handle_api(self, exchange: Exchange, route: RouteMatch, path: str) -> None:
        if route.workflow is not None:
            path = path.removeprefix(f"/{self.registry.find(route.workflow).name}")  # Files belong to the project.
        api, scope = await self.rest_api.get(), exchange.scope
        scope["palaver.caller"], scope["palaver.response_ends"] = exchange.caller, self.response_ends
        scope["path"] = path  # Without the prefix of a proxy.
        await api(scope, exchange.receive, _recording_send(exchange))

    def _routes(self, workflow: str) -> dict[str, str]:
        return {name: self.settings.root_path + path for name, path in workflow_paths(workflow).items()}

    def error_response(
        self, error: PalaverError, route: RouteMatch | None, exchange: Exchange | None = None
    ) -> HttpResponse:
        """Encode an error outside of a run in the format of its route."""
        status = error_status(error, route.endpoint.status_column if route else "a")
        if route is not None and route.endpoint.kind == "traces" and exchange is not None:
            response = otlp_error(error, exchange, status=status)
        elif route is not None and route.endpoint.encode_error is not None:
            response = route.endpoint.encode_error(error, None, status=status)
        else:
            response = json_response(status, {"error": {"code": error.code, "message": error.message}})
        if isinstance(error, MethodNotAllowed):
            response = add_headers(response, ("allow", ", ".join(error.allowed)))
        return with_error_headers(response, error)

    async def _end_interrupted(
        self, exchange: Exchange, route: RouteMatch | None, interruption: ClientDisconnected | asyncio.CancelledError
    ) -> None:
        """End a response whose client has disconnected, or that the process cannot wait for any longer."""
        if isinstance(interruption, ClientDisconnected):
            exchange.status = 499
        elif not self.engine.is_draining:
            raise interruption
        elif not exchange.status:
            await exchange.respond(self.error_response(ShuttingDown(), route, exchange))
        elif exchange.writer is not None:
            exchange.writer.abort()  # The client sees that the response is incomplete.
            await asyncio.sleep(0)  # Until the connection knows.

    def record_request(self, exchange: Exchange, route: str) -> None:
        """Count and log a request that was answered."""
        seconds = time.perf_counter() - exchange.started_at
        self.metrics.count(route, exchange.status, seconds)
        if logging_setup.access_logger.isEnabledFor(logging.INFO):
            path, run_id = exchange.path[:200], exchange.run_id
            request_id = run_id or exchange.id
            logging_setup.log_access((time.time(), request_id, exchange.method, path, exchange.status, seconds, run_id))

    # Start and stop

    def disclose_failures(self, url: str) -> None:
        """Show exceptions of workflows, with links to their traces, while no key is needed; `url` is our address.

        Only for a process that has opened the port itself: behind another server, callers may be anywhere.
        """
        if not self.settings.is_proxied:
            disclosure = self.engine.disclosure
            disclosure.server_url, disclosure.is_local = url, lambda: self.authenticator.is_keyless

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self.rest_api.start_loading()
                await self.runtime.start()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.drain(0)
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def drain(self, seconds: float, *, cancel_timeout_s: float = CANCEL_TIMEOUT_S) -> None:
        """Accept no more runs; end the active ones after `seconds`, and then the streams that follow something."""
        # Not only after the runs: one whose client reads nothing may take a while.
        stop = asyncio.get_running_loop().call_later(seconds + _FOLLOWER_DELAY_S, self.response_ends.stop)
        try:
            await self.engine.drain(seconds, cancel_timeout_s=cancel_timeout_s)
        finally:
            stop.cancel()
        self.response_ends.stop()

    async def close(self) -> None:
        """Stop the runtime and close the database. No run may be active."""
        await self.runtime.stop()

    def _load_api(self, sources: Mapping[str, Source]) -> Any:
        from palaver.server.api.app import ApiDependencies, create_api

        preload_decoder()
        self.runtime.redaction.preload()
        return create_api(
            ApiDependencies(
                runtime=self.runtime,
                rate_limits=self.rate_limits,
                thread_runner=self.thread_runner,
                sources=sources,
                version=VERSION,
            )
        )


def _recording_send(exchange: Exchange) -> Send:
    """Return a `send` for the REST API that records the status and adds X-Request-Id."""

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            exchange.status = message["status"]
            headers = [pair for pair in message["headers"] if pair[0] != b"x-request-id"]
            message["headers"] = [*headers, (b"x-request-id", exchange.id.encode())]
        await exchange.send(message)

    return send


def app(
    *workflows: Workflow,
    default: str | None = None,
    evaluators: Iterable[DeclaredEvaluator] = (),
    **settings: Any,
) -> Server:
    """Return an ASGI application that serves these workflows.

    Run it with an ASGI server, or mount it in another application. If clients call it under a host name other than
    localhost, allow it: `allowed_hosts=("api.example.org",)`. The application reads neither palaver.toml nor
    `PALAVER_…` variables. Without `db=…`, it keeps everything in memory.

    Args:
        *workflows: The workflows to serve.
        default: Name of the workflow that is also served at the root path. If there is only one, it is the default.
        evaluators: Your own evaluators, in addition to the built-in ones.
        **settings: Settings, named as in palaver.toml: `max_body=1_000_000`.

    Raises:
        DuplicateName: Two workflows have the same name.
        WorkflowNotFound: No workflow is named `default`.

    Example:
        from palaver import Message, app, chat


        @chat
        def parrot(messages: list[Message]):
            return messages[-1].text


        application = app(parrot, db="parrot.db")
    """
    config = Settings(default=default, **settings)
    connections = declared_workflows(config.connections, os.environ)
    return Server(Registry(workflows, connections=connections, default=default, evaluators=evaluators), config)
