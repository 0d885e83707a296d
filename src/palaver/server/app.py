"""The outermost function: one request in, guarded, routed and answered. Protocols and the REST API stand behind it."""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Iterable, Mapping
from pathlib import Path
from typing import Any

from palaver.discovery.config import declared_workflows
from palaver.discovery.registry import Registry
from palaver.discovery.targets import DeclaredEvaluator
from palaver.engine.abandoned_runs import AbandonedRuns
from palaver.engine.engine import Engine, utc_now
from palaver.engine.files import FileFetcher
from palaver.engine.heartbeat import Heartbeat, new_process_id
from palaver.engine.queue import RunQueue
from palaver.engine.recorder import Recorder
from palaver.engine.retention import RetentionTask
from palaver.engine.run_reader import RunReader, started_event
from palaver.errors import MethodNotAllowed, PalaverError
from palaver.protocols.base import HttpResponse
from palaver.protocols.ui_stream import adapter as ui_stream
from palaver.protocols.ui_stream.request import restore_ui_request
from palaver.server import logging_setup, routing, scopes, security, services
from palaver.server.auth import ANONYMOUS, Authenticator, Caller
from palaver.server.calls import CallHandler, ThreadRunner
from palaver.server.connection_sync import ConnectionSync
from palaver.server.conversations import ConversationResolver, TurnLock, with_message_id
from palaver.server.endpoints import VERSION, HealthChecks, ServedWorkflows, answer_server_route
from palaver.server.error_responses import add_headers, error_status, json_answer, with_error_headers
from palaver.server.evaluation import create_live_scorer, create_runner
from palaver.server.metrics import Metrics
from palaver.server.notifications import ChangeFeed, NotificationRouter
from palaver.server.otlp_receiver import otlp_error as not_taken
from palaver.server.otlp_receiver import preload_decoder
from palaver.server.rate_limit import RateLimits
from palaver.server.redaction import RedactionPolicy
from palaver.server.replay import replay_events
from palaver.server.request import ClientDisconnected, Exchange, Receive, Scope, Send
from palaver.server.routing import RouteMatch
from palaver.server.runtime import Telemetry
from palaver.server.security import TrustedProxies
from palaver.server.services import ServiceEndpoints
from palaver.server.settings import Settings, Source
from palaver.server.stored_responses import StoredResponses
from palaver.server.tab_socket import socket
from palaver.server.web import BUILT_WEB, WebPages
from palaver.storage.database import MEMORY_URL, Database, LazyDatabase
from palaver.storage.processes import ProcessKind
from palaver.workflows.thread_pool import ThreadPool
from palaver.workflows.workflow import Workflow

log = logging.getLogger("palaver.server")


class Server:
    """An ASGI application of the workflows in a registry."""

    def __init__(
        self,
        registry: Registry,
        settings: Settings | None = None,
        *,
        database: Database | None = None,
        only_server: bool = False,
        kind: ProcessKind = "server",
        sources: Mapping[str, Source] | None = None,
        web: Path | None = None,
    ) -> None:
        self._sources = sources or {}  # Where each setting was written.
        self.registry = registry
        self.settings = settings or Settings()
        self.database = database or LazyDatabase(self.settings.db or MEMORY_URL)
        self.pages = WebPages(web or BUILT_WEB, registry, root_path=self.settings.root_path)
        self.rates = RateLimits(self.settings)
        self._proxies = TrustedProxies(self.settings.trusted_proxies)
        self._only_server = only_server  # Of its database: then the runs of all others have died.
        process = new_process_id()
        self.redacting = RedactionPolicy(self.settings, registry)
        redact = self.redacting.run if self.redacting.cleans else None
        if redact is not None:
            self.database.set_redactor(self.redacting)
        self.recorder = Recorder(self.database, process=process, now=utc_now, redact=redact)
        self.telemetry = Telemetry(self.settings, self.database, self.redacting)
        self.engine = Engine(
            store=self.recorder,
            tracing=self.telemetry.tracing,
            fetch=FileFetcher(self.database, allow_private=self.settings.allow_private_urls),
            admission=self.rates.runs,
            threads=ThreadPool(self.settings.threads),
            bounds=self.settings.run_bounds,
            history=self.settings.history_bounds,
            record=self.settings.record,
            debug=self.settings.debug,
        )
        self.runner = create_runner(self.engine, self.database, registry, self.settings, self.redacting, process)
        self.online = create_live_scorer(self.engine, self.database, registry, self.settings, process)
        self.presence = Heartbeat(
            process,
            self.database,
            self.engine,
            kind=kind,
            version=VERSION,
            now=utc_now,
            interval=self.settings.heartbeat_seconds,
            tracing=self.telemetry.tracing,
            on_dead=self.runner.release_slices_of,
        )
        orphans = AbandonedRuns(self.database, seconds=self.settings.orphan_seconds)
        self.records = RunReader(self.engine, self.recorder, self.database, now=utc_now, orphans=orphans)
        self.callers = Authenticator(self.database, self.settings)
        kept = self.settings
        self.housekeeping = RetentionTask(self.database, run_days=kept.run_days, spans=kept.spans_kept, now=utc_now)
        self.backlog = RunQueue(
            self.engine,
            self.database,
            process=process,
            find_workflow=registry.workflow,
            workflow_names=registry.names,
            max_runs=self.settings.background_runs,
            now=utc_now,
        )
        self.connected = ConnectionSync(registry, self.database, self.settings, alone=only_server, now=utc_now)
        self.changes = ChangeFeed(self.database)
        others = (self.callers, self.connected, self.changes, self.runner)
        self._hearing = NotificationRouter(self.engine, self.records, self.presence, self.backlog, *others)
        self.metrics = Metrics(self.engine)
        self.health = HealthChecks(registry, self.database, version=VERSION)
        turns = TurnLock(
            self.database, self.records, most_queued=self.settings.max_queued, seconds=self.settings.run_seconds
        )
        self.stored = StoredResponses(self.settings, self.database, self.records, now=utc_now)
        joining = ConversationResolver(
            self.database, self.records, turns, bounds=self.settings.history_bounds, now=utc_now
        )
        self.turning = ThreadRunner(registry, self.settings, self.engine, self.records, joining, self.backlog)
        self.calling = CallHandler(
            registry,
            self.settings,
            self.engine,
            self.records,
            joining,
            self.database,
            self.rates,
            self.callers,
            self.backlog,
        )
        self.services = ServiceEndpoints(registry, self.settings, self.callers, self.calling, self.health, VERSION)
        self.telemetry.follow(self.metrics)
        self._served = ServedWorkflows(
            find=registry.find,
            descriptions=registry.descriptions,
            routes=self._routes,
            default=lambda: registry.default,
            version=VERSION,
            since=int(time.time()),
        )
        self._arrived = False
        self._api: Any = None
        self._loading: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI. A request is guarded, routed and answered here, in one frame: thousands may be open."""
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        if not self._arrived:
            await self.arrive()
        exchange = Exchange(self._proxies.seen(scope), receive, send)
        found: RouteMatch | None = None
        try:
            place = routing.resolve_path(self.settings.root_path, exchange.path, scope.get("raw_path") or b"")
            found = place.found
            security.check_request(exchange, self.settings)  # Before "not found" is told; after we know how to say it.
            need = scopes.required_scope(found, exchange.method, place.path, web=self.pages.are_built)
            exchange.callers = self.callers
            exchange.caller = caller = ANONYMOUS if need == "nothing" else await self._caller(exchange, found)
            scopes.require_scope(need, caller)
            self.rates.request(caller)
            if found is None:
                raise security.unnormalized_path(exchange.path) if place.bad else routing.path_not_found(place.path)
            routing.require_method(found.endpoint, exchange.method, place.path)
            match found.endpoint.kind:
                case "call":
                    await self.calling.answer(exchange, found)
                case "question":
                    await self._question(exchange, found)
                case "stored":
                    await self._stored(exchange, found)
                case "resume":
                    await self._resume(exchange, found)
                case "stop":
                    await self._stop(exchange, found)
                case "service":
                    await self.services.answer(exchange, found)
                case "api":
                    await self._rest(exchange, place.path)
                case "own" | "page" | "traces":
                    await exchange.answer(await answer_server_route(self, exchange, found, place.path))
        except PalaverError as error:
            await exchange.answer(self.refusal(error, found, exchange))
        except ClientDisconnected:
            exchange.status = 499
        except Exception:
            log.exception("%s %s failed", exchange.method, exchange.path)
            if exchange.status:
                raise  # Headers are out: the server underneath closes the connection.
            await exchange.answer(self.refusal(PalaverError(f"Something broke ({exchange.id})."), found, exchange))
        finally:
            self.note(exchange, found.name if found else "none")

    def _caller(self, exchange: Exchange, found: RouteMatch | None) -> Awaitable[Caller]:
        if found is not None and found.endpoint.kind == "service":
            return self.services.caller(exchange, found)  # Where a body may say who asks.
        return self.callers.resolve(exchange)

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await self.arrive()
            seen = self._proxies.seen(scope)
            door = (
                services.handle_service_socket
                if services.is_service_socket(self.settings, seen)
                else socket.handle_tab_socket
            )
            await door(self, seen, receive, send)

    @property
    def waiting_for(self) -> list[str]:
        """What still has to be loaded before we are ready."""
        return [] if self._api is not None else ["api"]

    # One request

    async def _question(self, exchange: Exchange, found: RouteMatch) -> None:
        ask = found.endpoint.ask
        assert ask is not None
        await exchange.answer(ask(await self.calling.read(exchange, found), self._served))

    async def _stored(self, exchange: Exchange, found: RouteMatch) -> None:
        asks = found.endpoint.asks
        assert asks is not None
        if found.workflow is not None:
            self.registry.find(found.workflow)
        answer = await asks(self.stored, exchange, await self.calling.read(exchange, found))
        if answer is not None:
            await exchange.answer(answer)

    async def _rest(self, exchange: Exchange, path: str) -> None:
        api, scope = await self.api(), exchange.scope
        scope["palaver.caller"], scope["palaver.callers"] = exchange.caller, self.callers
        scope["path"] = path  # A proxy may have left its prefix on it.
        await api(scope, exchange.receive, _record_status(exchange))

    async def _resume(self, exchange: Exchange, found: RouteMatch) -> None:
        """The stream of a chat's run that is still going, from its start; 204 is how the AI SDK is told of none."""
        project, workflow = exchange.caller.project, self.registry.find(found.workflow).name
        row = await self.calling.going(project, workflow, found.parameters["id"])
        if row is None:
            await exchange.answer(HttpResponse(status=204))
            return
        whole = await self.records.get_run(project, row)
        reading = restore_ui_request(whole.reading)
        if whole.row.thread is not None:
            reading = with_message_id(reading, row)
        head = ui_stream.response_head(started_event(whole.row), reading)
        assert head is not None
        following = self.records.follow(project, row)
        stall = self.settings.stream_stall
        await replay_events(exchange, head, ui_stream.stream_encoder(reading), following, stall=stall)

    async def _stop(self, exchange: Exchange, found: RouteMatch) -> None:
        """End the runs of a chat; it is not an error when there are none."""
        workflow = self.registry.find(found.workflow).name
        await self.calling.interrupt(exchange.caller.project, workflow, found.parameters["id"])
        await exchange.answer(HttpResponse(status=204))

    def _routes(self, workflow: str) -> dict[str, str]:
        return {name: self.settings.root_path + path for name, path in routing.workflow_paths(workflow).items()}

    def refusal(self, error: PalaverError, found: RouteMatch | None, exchange: Exchange | None = None) -> HttpResponse:
        """An error outside of a run, in the shape of the route it was meant for."""
        status = error_status(error, found.endpoint.column if found else "a")
        if found is not None and found.endpoint.kind == "traces" and exchange is not None:
            answer = not_taken(error, exchange, status=status)
        elif found is not None and found.endpoint.fails is not None:
            answer = found.endpoint.fails(error, None, status=status)
        else:
            answer = json_answer(status, {"error": {"code": error.code, "message": error.message}})
        if isinstance(error, MethodNotAllowed):
            answer = add_headers(answer, ("allow", ", ".join(error.allowed)))
        return with_error_headers(answer, error)

    def note(self, exchange: Exchange, route: str) -> None:
        """Count a request that was answered, and log it."""
        seconds = time.perf_counter() - exchange.since
        self.metrics.count(route, exchange.status, seconds)
        if logging_setup.access_logger.isEnabledFor(logging.INFO):
            path, run_id = exchange.path[:200], exchange.run_id
            request_id = run_id or exchange.id
            logging_setup.log_access((time.time(), request_id, exchange.method, path, exchange.status, seconds, run_id))

    # Starting and stopping

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._load()
                await self.arrive()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.engine.drain(0)
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def arrive(self) -> None:
        """Say that we are at work, once; under a server that tells nobody when it starts, at the first request."""
        if not self._arrived:
            self._arrived = True
            await self.redacting.begin(self.database, utc_now)
            is_shared = not isinstance(self.database, LazyDatabase) or bool(self.settings.db)  # Else nobody's but ours.
            if is_shared:
                await self.presence.start(only_server=self._only_server)
                await self.database.listen(self._hearing.heard)
                if self.changes.has_others:
                    await self.changes.begin()
            await self.connected.begin(stored=is_shared)
            if is_shared:
                self.backlog.start()
            self.runner.begin(polls=is_shared)
            self.online.begin(polls=is_shared)
            self.housekeeping.start()

    async def close(self) -> None:
        """Write what is left to write, and let go of the database. Nothing may be running."""
        await self.housekeeping.stop()
        await self.connected.end()
        await self.backlog.stop()
        await self.runner.end()
        await self.online.end()
        await self.presence.stop()
        await self._hearing.end()
        await self.changes.end()
        await self.callers.close()
        await self.recorder.flush()
        await self.telemetry.close()
        await self.database.close()

    def _load(self) -> asyncio.Task[None]:
        """Load the REST API in a thread: importing its framework takes half a second that nobody should wait for."""
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load_api())
        return self._loading

    async def _load_api(self) -> None:
        def load() -> Any:
            from palaver.server.api.app import House, make

            house = House(
                self.registry,
                self.settings,
                VERSION,
                self.database,
                self.callers,
                self.rates,
                self.records,
                self.calling,
                self.turning,
                self._sources,
                self.connected,
                self.runner,
                self.redacting,
                self.online,
            )
            preload_decoder()
            self.redacting.warm()
            return make(house)

        self._api = await asyncio.to_thread(load)

    async def api(self) -> Any:
        """The REST API, once it is loaded."""
        if self._api is None:
            await asyncio.shield(self._load())
        return self._api


def _record_status(exchange: Exchange) -> Send:
    """A `send` that notes the status and adds our own header, for the REST API's short answers."""

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
    """An ASGI application that serves these workflows: `application = app(tutor, headline)`.

    Settings by keyword, as in palaver.toml (`max_body=…`). Mounted in another application, say under which host others
    call it: `allowed_hosts=("api.example.org",)`. Evaluators of your own are given by name: `evaluators=[polite]`.
    """
    made = Settings(default=default, **settings)
    connections = declared_workflows(made.connections, os.environ)
    return Server(Registry(workflows, connections=connections, default=default, evaluators=evaluators), made)
