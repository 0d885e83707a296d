"""The outermost function: one request in, guarded, routed and answered. Protocols and the REST API stand behind it."""

import asyncio
import logging
import time
from functools import lru_cache
from importlib.metadata import version
from typing import Any, NamedTuple

from palaver.core import jsons
from palaver.discovery.registry import Registry
from palaver.engine.engine import Engine
from palaver.errors import MethodNotAllowed, Overloaded, PalaverError
from palaver.protocols import agenta
from palaver.protocols.base import Answer, Request
from palaver.server import guards, logs, routes
from palaver.server.exchange import Exchange, Gone, Receive, Scope, Send
from palaver.server.heads import NO_HEAD
from palaver.server.metrics import CONTENT_TYPE, Metrics
from palaver.server.pulse import Pulse
from palaver.server.questions import Served
from palaver.server.routes import Match
from palaver.server.settings import Settings
from palaver.server.status import RETRY_AFTER, status_of
from palaver.server.stream import Stream
from palaver.workflows.threads import Threads

log = logging.getLogger("palaver.server")
VERSION = version("palaver")
_SHORT = 200  # What strangers send us may not fill our memory.


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
        self._bounds = self.settings.json_bounds
        self._served = Served(
            find=registry.find,
            descriptions=registry.descriptions,
            routes=self._routes,
            default=lambda: registry.default,
            version=VERSION,
            since=int(time.time()),
        )
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
            place = _place(self.settings.root_path, exchange.path, scope.get("raw_path") or b"")
            found = place.found
            guards.check(exchange, self.settings)  # Before "not found" is told; after we know how to say it.
            if found is None:
                raise guards.not_normal(exchange.path) if place.bad else routes.nothing(place.path)
            routes.check_method(found.endpoint, exchange.method, place.path)
            match found.endpoint.kind:
                case "call":
                    await self._call(exchange, found)
                case "question":
                    await self._question(exchange, found)
                case "stop":
                    await self._stop(exchange, found)
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
            named, picks = found.workflow, found.endpoint.picks
            if (named is None and not picks) or (named is not None and named not in self.registry):
                self.registry.find(named)  # Said before the body is read.
            if self.engine.alive >= self.settings.max_streams_total:
                raise Overloaded("This server answers as many calls as it can: try again in a moment.")
            request = await self._read(exchange, found)
            call, reading = adapter.decode(request, self.registry.find)
            stream = Stream(exchange, adapter, reading, column=found.endpoint.column, cancels=found.endpoint.cancels)
            del request, reading
            if found.endpoint.interrupts:
                await self._interrupt(call.workflow, call.session)
            workflow = self.registry.workflow(call.workflow)
            answering = stream.answer(self.engine, workflow, call, self._pulse)
            # A stream may be open for hours and there may be thousands: let go of what nobody needs any more.
            exchange.headers = NO_HEAD
            del call
            await answering
        except PalaverError as error:
            reading = stream.reading if stream is not None else None
            answer = adapter.failure(error, reading, status=status_of(error, found.endpoint.column))
            await exchange.answer(_with_retry(answer, error))

    async def _question(self, exchange: Exchange, found: Match) -> None:
        ask = found.endpoint.ask
        assert ask is not None
        await exchange.answer(ask(await self._read(exchange, found), self._served))

    async def _stop(self, exchange: Exchange, found: Match) -> None:
        """End the runs of a chat; it is not an error when there are none."""
        workflow = self.registry.find(found.workflow).name
        await self._interrupt(workflow, found.parameters["id"])
        await exchange.answer(Answer(status=204))

    async def _interrupt(self, workflow: str, session: str | None) -> None:
        """End what is still going of a session, and wait until that is recorded; a slow reader is not waited for."""
        going = self.engine.of_session(workflow, session) if session else []
        for run in going:
            run.cancel()
        for run in going:
            await run.recorded()

    def _routes(self, workflow: str) -> dict[str, str]:
        return {name: self.settings.root_path + path for name, path in routes.of(workflow).items()}

    async def _read(self, exchange: Exchange, found: Match) -> Request:
        guards.check_json(exchange)
        return Request(
            method=exchange.method,
            route=found.name,
            workflow=found.workflow,
            parameters=found.parameters,
            query=exchange.query if exchange.scope["query_string"] else {},
            headers=exchange.headers,
            body=await exchange.body(self.settings),
            bounds=self._bounds,
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
        status = status_of(error, found.endpoint.column if found else "a")
        if found is not None and found.endpoint.fails is not None:
            answer = found.endpoint.fails(error, None, status=status)
        else:
            answer = _problem(status, {"code": error.code, "message": error.message})
        if isinstance(error, MethodNotAllowed):
            answer = _and_headers(answer, ("allow", ", ".join(error.allowed)))
        return _with_retry(answer, error)

    def _note(self, exchange: Exchange, route: str) -> None:
        seconds = time.perf_counter() - exchange.since
        self.metrics.count(route, exchange.status, seconds)
        if logs.access.isEnabledFor(logging.INFO):
            path, run_id = exchange.path[:200], exchange.run_id
            request_id = run_id or exchange.id
            logs.note_access((time.time(), request_id, exchange.method, path, exchange.status, seconds, run_id))

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


class _Place(NamedTuple):
    """What a path means, if anything."""

    path: str
    """Without the prefix that a proxy may have left on it."""
    bad: bool
    """Is it anything but one plain spelling?"""
    found: Match | None


def _place(prefix: str, path: str, raw_path: bytes) -> _Place:
    return (_known_place if len(path) <= _SHORT else _known_place.__wrapped__)(prefix, path, raw_path)


@lru_cache(1024)
def _known_place(prefix: str, path: str, raw_path: bytes) -> _Place:
    bad = guards.is_bad(path, raw_path)
    path = routes.below(prefix, path)
    return _Place(path, bad, None if bad else routes.match(path))


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
