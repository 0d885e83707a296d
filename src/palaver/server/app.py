"""The outermost function: one request in, guarded, routed and answered. Protocols and the REST API stand behind it."""

import asyncio
import logging
import time
from importlib.metadata import version
from typing import Any

from palaver.core import jsons
from palaver.discovery.registry import Registry
from palaver.engine.engine import Engine
from palaver.errors import MethodNotAllowed, Overloaded, PalaverError
from palaver.protocols import agenta, inspect
from palaver.protocols.base import Answer, Request
from palaver.server import guards, logs, routes
from palaver.server.exchange import Exchange, Gone, Receive, Scope, Send
from palaver.server.metrics import CONTENT_TYPE, Metrics
from palaver.server.pulse import Pulse
from palaver.server.routes import Match
from palaver.server.settings import Settings
from palaver.server.status import RETRY_AFTER, status_of
from palaver.server.stream import Stream
from palaver.workflows.threads import Threads

log = logging.getLogger("palaver.server")
VERSION = version("palaver")


class Server:
    """An ASGI application of the workflows in a registry."""

    def __init__(self, registry: Registry, settings: Settings | None = None) -> None:
        self.registry = registry
        self.settings = settings or Settings()
        self.engine = Engine(
            threads=Threads(self.settings.threads),
            bounds=self.settings.run_bounds,
            history=self.settings.history_bounds,
            debug=self.settings.debug,
        )
        self.metrics = Metrics(self.engine)
        self._pulse = Pulse(stall=self.settings.stream_stall)
        self._api: Any = None
        self._loading: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI. A request is guarded, routed and answered here, in one frame: thousands may be open."""
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        exchange = Exchange(scope, receive, send)
        found: Match | None = None
        try:
            bad = guards.is_bad(exchange.path, scope.get("raw_path") or b"")
            path = routes.below(self.settings.root_path, exchange.path)
            found = None if bad else routes.match(path)
            guards.check(exchange, self.settings)  # Before "not found" is told; after we know how to say it.
            if found is None:
                raise guards.not_normal(exchange.path) if bad else routes.nothing(path)
            routes.check_method(found.endpoint, exchange.method, path)
            match found.endpoint.kind:
                case "call":
                    await self._call(exchange, found)
                case "inspect":
                    await self._inspect(exchange, found)
                case "api":
                    await self._loaded()
                    await self._api(scope, receive, _noted(exchange))
                case "own" | "page":
                    await exchange.answer(await self._own(found.name, exchange.headers["host"]))
        except PalaverError as error:
            await exchange.answer(self._refusal(error, found))
        except Gone:
            exchange.status = 499
        except Exception:
            log.exception("%s %s failed", exchange.method, exchange.path)
            if exchange.status:
                raise  # Headers are out: the server underneath closes the connection.
            await exchange.answer(_problem(500, {"code": "internal", "message": f"Something broke ({exchange.id})."}))
        finally:
            self._note(exchange, found.name if found else "none")

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1008})  # No route of ours is a socket yet.

    @property
    def waiting_for(self) -> list[str]:
        """What still has to be loaded before we are ready."""
        return [] if self._api is not None else ["api"]

    # One request

    async def _call(self, exchange: Exchange, found: Match) -> None:
        adapter, stream = found.endpoint.adapter, None
        assert adapter is not None
        try:
            self.registry.find(found.workflow)
            if len(self._pulse.streams) >= self.settings.max_streams_total:
                raise Overloaded("This server answers as many calls as it can: try again in a moment.")
            request = await self._read(exchange, found)
            call, reading = adapter.decode(request, self.registry.find)
            stream = Stream(exchange, adapter, reading, found.endpoint.column)
            del request, reading
            self._pulse.add(stream)
            try:
                workflow = self.registry.workflow(call.workflow)
                answering = stream.answer(self.engine, workflow, call, cancels=found.endpoint.cancels)
                # A stream may be open for hours and there may be thousands: let go of what nobody needs any more.
                exchange.headers = {}
                del call
                await answering
            finally:
                self._pulse.streams.discard(stream)
        except PalaverError as error:
            reading = stream.reading if stream is not None else None
            answer = adapter.failure(error, reading, status=status_of(error, found.endpoint.column))
            await exchange.answer(_with_retry(answer, error))

    async def _inspect(self, exchange: Exchange, found: Match) -> None:
        description = self.registry.find(found.workflow)
        inspect.check(await self._read(exchange, found))
        base = self.settings.root_path
        paths = {name: base + path for name, path in routes.of(description.name).items()}
        await exchange.answer(inspect.answer(description, routes=paths, version=VERSION))

    async def _read(self, exchange: Exchange, found: Match) -> Request:
        guards.check_json(exchange)
        return Request(
            method=exchange.method,
            workflow=found.workflow,
            query=exchange.query if exchange.scope["query_string"] else {},
            headers=exchange.headers,
            body=await exchange.body(self.settings),
            bounds=self.settings.json_bounds,
        )

    async def _own(self, name: str, host: str) -> Answer:
        match name:
            case "health":
                return _json(200, {"status": "ok"})
            case "ready":
                if self.engine.draining:
                    return _json(503, {"status": "not ready", "waiting": ["shutdown"]})
                waiting = self.waiting_for
                return (
                    _json(503, {"status": "not ready", "waiting": waiting})
                    if waiting
                    else _json(200, {"status": "ready"})
                )
            case "version":
                return _json(200, {"version": VERSION})
            case "page":
                from palaver.server import home

                return home.page(self.registry, host, self.settings.root_path)
            case "metrics":
                return Answer(status=200, headers=(("content-type", CONTENT_TYPE),), body=self.metrics.text())
            case _:
                await self._loaded()
                from palaver.server import openapi

                descriptions = self.registry.descriptions()
                return _json(200, openapi.document(descriptions, self.registry.default, self._api, VERSION))

    def _refusal(self, error: PalaverError, found: Match | None) -> Answer:
        """An error outside of a run, in the shape of the route it was meant for."""
        status = status_of(error)
        if found is not None and found.endpoint.adapter is not None:
            answer = found.endpoint.adapter.failure(error, None, status=status)
        elif found is not None and found.endpoint.kind == "inspect":
            answer = agenta.failure(error, None, status=status)
        else:
            answer = _problem(status, {"code": error.code, "message": error.message})
        if isinstance(error, MethodNotAllowed):
            answer = _and_headers(answer, ("allow", ", ".join(error.allowed)))
        return _with_retry(answer, error)

    def _note(self, exchange: Exchange, route: str) -> None:
        seconds = time.perf_counter() - exchange.since
        self.metrics.count(route, exchange.status, seconds)
        if logs.access.isEnabledFor(logging.INFO):
            milliseconds = round(seconds * 1000, 1)
            fields = {
                "request_id": exchange.id,
                "method": exchange.method,
                "path": exchange.path[:200],
                "status": exchange.status,
                "milliseconds": milliseconds,
            }
            if exchange.run_id:
                fields["run_id"] = exchange.run_id
            said = (exchange.method, exchange.path[:200], exchange.status, milliseconds)
            logs.note_access("%s %s  %s  %s ms", said, fields)

    # Starting and stopping

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._load()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.engine.drain(0)
                await send({"type": "lifespan.shutdown.complete"})
                return

    def _load(self) -> asyncio.Task[None]:
        """Load the REST API in a thread: importing its framework takes half a second that nobody should wait for."""
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load_api())
        return self._loading

    async def _load_api(self) -> None:
        def load() -> Any:
            from palaver.server.api.app import make

            return make(self.registry, self.settings, VERSION)

        self._api = await asyncio.to_thread(load)

    async def _loaded(self) -> None:
        if self._api is None:
            await asyncio.shield(self._load())


def _json(status: int, document: Any) -> Answer:
    return Answer(status=status, headers=(("content-type", agenta.JSON),), body=jsons.encode(document))


def _problem(status: int, error: dict[str, Any]) -> Answer:
    return _json(status, {"error": error})


def _and_headers(answer: Answer, *more: tuple[str, str]) -> Answer:
    headers = (*answer.headers, *more)
    return Answer(status=answer.status, headers=headers, body=answer.body, keep_alive=answer.keep_alive)


def _with_retry(answer: Answer, error: PalaverError) -> Answer:
    return _and_headers(answer, ("retry-after", "1")) if error.code in RETRY_AFTER else answer


def _noted(exchange: Exchange) -> Send:
    """A `send` that notes the status and adds our own header, for the REST API's short answers."""

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            exchange.status = message["status"]
            message["headers"] = [*message["headers"], (b"x-request-id", exchange.id.encode())]
        await exchange.send(message)

    return send
