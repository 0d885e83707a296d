"""Endpoints that run no workflow: health, readiness, version, status, metrics, models, inspect.

GET /status calls the function that a workflow declares with `@chat(health=…)`. It gets two seconds, runs once at a
time, in a thread if it is sync, and its result is cached.
"""

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

from sqlalchemy import Connection, select

from palaver.core import json, secret_mask
from palaver.core.descriptions import Description
from palaver.discovery.registry import Registry
from palaver.engine.engine import Engine
from palaver.errors import PalaverError
from palaver.outbound import printable
from palaver.protocols.agenta import inspect as inspection
from palaver.protocols.base import HttpRequest, HttpResponse, WorkflowLookup
from palaver.protocols.chat_completions.models import model_response, models_response
from palaver.server.error_responses import add_headers, json_response
from palaver.server.metrics import METRICS_CONTENT_TYPE, Metrics
from palaver.server.settings import VERSION
from palaver.storage.database import Database
from palaver.workflows.signature import underlying_callable
from palaver.workflows.thread_pool import ThreadPool
from palaver.workflows.workflow import Workflow

_VERSION_HEADER = ("x-api-version", VERSION)


class LazyApi:
    """The REST API, loaded in a thread: importing Litestar takes half a second."""

    def __init__(self, load: Callable[[], Any]) -> None:
        self._load = load
        self._app: Any = None
        self._loading: asyncio.Task[None] | None = None

    @property
    def is_loaded(self) -> bool:
        return self._app is not None

    def start_loading(self) -> "asyncio.Task[None]":
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load_in_thread())
        return self._loading

    async def get(self) -> Any:
        """Return the Litestar application, once it is loaded."""
        if self._app is None:
            await asyncio.shield(self.start_loading())
        return self._app

    async def _load_in_thread(self) -> None:
        self._app = await asyncio.to_thread(self._load)


class ServerEndpoints:
    """Health, readiness, version, status, metrics and the OpenAPI document."""

    def __init__(
        self, registry: Registry, engine: Engine, health: "HealthChecks", metrics: Metrics, api: LazyApi
    ) -> None:
        self._registry = registry
        self._engine = engine
        self._health = health
        self._metrics = metrics
        self._api = api

    async def response(self, route: str) -> HttpResponse:
        """Answer a GET of one of `routing.SERVER_ROUTES`."""
        match route:
            case "health":
                return json_response(200, {"status": "ok"})
            case "ready":
                return self._ready()
            case "version" | "livez":
                return add_headers(json_response(200, {"version": VERSION}), _VERSION_HEADER)
            case "status":
                return await self._health.response()
            case "metrics":
                return HttpResponse(
                    status=200, headers=(("content-type", METRICS_CONTENT_TYPE),), body=self._metrics.text()
                )
            case _:
                api = await self._api.get()
                from palaver.server.openapi import openapi_document

                document = openapi_document(self._registry.descriptions(), self._registry.default, api, VERSION)
                return json_response(200, document)

    def _ready(self) -> HttpResponse:
        if self._engine.is_draining:
            return json_response(503, {"status": "not ready", "waiting": ["shutdown"]})
        if not self._api.is_loaded:
            return json_response(503, {"status": "not ready", "waiting": ["api"]})
        return json_response(200, {"status": "ready"})


_JSON = (("content-type", "application/json"),)


class ServedWorkflows(NamedTuple):
    """The workflows that these endpoints describe."""

    find: WorkflowLookup
    descriptions: Callable[[], Sequence[Description]]
    routes: Callable[[str], Mapping[str, str]]
    default: Callable[[], str | None]
    version: str
    started_at: int
    """When the server started, in Unix seconds."""


def inspect_workflow(request: HttpRequest, served: ServedWorkflows) -> HttpResponse:
    description = served.find(request.workflow)
    inspection.check_inspect_body(request)
    return inspection.inspect_response(description, routes=served.routes(description.name), version=served.version)


def list_models(request: HttpRequest, served: ServedWorkflows) -> HttpResponse:
    """List all chats; below `/{w}`, only that workflow."""
    descriptions = served.descriptions() if request.workflow is None else [served.find(request.workflow)]
    return models_response(descriptions, served.started_at)


def get_model(request: HttpRequest, served: ServedWorkflows) -> HttpResponse:
    if request.workflow is not None:
        served.find(request.workflow)
    return model_response(served.find(request.parameters["model"]), served.started_at)


def agent_info(request: HttpRequest, served: ServedWorkflows) -> HttpResponse:
    """Answer GET /agent/info, which MLflow's clients call."""
    name = served.default() if request.workflow is None else served.find(request.workflow).name
    document = {"name": name or "palaver", "use_case": "agent", "agent_api": "responses"}
    return HttpResponse(status=200, headers=_JSON, body=json.encode(document))


WORKING, NOT_WORKING = "working", "not working"
CHECK_TIMEOUT_S = 2.0
"""After this time a check counts as failed; if it still returns, the next request gets its result."""
STATUS_CACHE_S = 5.0
_MAX_CONCURRENT_CHECKS = 8
_MAX_STATUS_CHARS = 80
_MAX_COMPONENTS = 20

log = logging.getLogger("palaver.server")
ComponentStatus = Mapping[str, str]


class _CachedStatus(NamedTuple):
    status: ComponentStatus
    checked_at: float


class HealthChecks:
    """The health of the database and of all workflows."""

    def __init__(self, registry: Registry, database: Database, *, version: str) -> None:
        self._registry = registry
        self._database = database
        self._version = version
        self._threads = ThreadPool(_MAX_CONCURRENT_CHECKS)
        self._running: dict[str, asyncio.Task[ComponentStatus]] = {}
        self._cached: dict[str, _CachedStatus] = {}

    async def document(self) -> dict[str, str]:
        """Return the status of each component."""
        workflows = sorted(self._registry, key=lambda workflow: workflow.description.name)
        results = await asyncio.gather(self._check_database(), *map(self._check, workflows))
        document: dict[str, str] = {}
        for status in results:  # A workflow cannot override the database's status.
            document = {**status, **document}
        return {**document, "version": self._version}

    async def response(self) -> HttpResponse:
        body = json.encode(await self.document())
        headers = (("content-type", "application/json"), ("x-api-version", self._version))
        return HttpResponse(status=200, headers=(*headers, ("cache-control", "no-store")), body=body)

    async def _check_database(self) -> ComponentStatus:
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_S):
                await self._database.read(_ping)
        except (PalaverError, TimeoutError):
            return {"database": NOT_WORKING}
        return {"database": WORKING}

    async def _check(self, workflow: Workflow) -> ComponentStatus:
        name, check = workflow.description.name, workflow.options.health
        if check is None:
            return {}
        cached = self._cached.get(name)
        if cached is not None and time.monotonic() - cached.checked_at < STATUS_CACHE_S:
            return cached.status
        task = self._running.get(name)
        if task is None:  # A check that hangs is not called twice.
            task = self._running[name] = asyncio.create_task(self._run_check(name, check))
        await asyncio.wait([task], timeout=CHECK_TIMEOUT_S)
        return task.result() if task.done() else {name: NOT_WORKING}

    async def _run_check(self, name: str, check: Callable[[], Any]) -> ComponentStatus:
        try:
            result = await self._call_check(check)
            status = _component_status(name, result)
        except Exception as error:  # Any exception means that it is not working.
            reason = printable(secret_mask.mask_secrets(f"{type(error).__name__}: {error}"))
            log.warning("The health of %s could not be told: %s", name, reason)
            status = {name: NOT_WORKING}
        self._cached[name] = _CachedStatus(status, time.monotonic())
        del self._running[name]
        return status

    async def _call_check(self, check: Callable[[], Any]) -> object:
        if inspect.iscoroutinefunction(underlying_callable(check)):
            return await check()
        result: object = await self._in_thread(check)
        return await cast("Any", result) if inspect.isawaitable(result) else result

    async def _in_thread(self, check: Callable[[], Any]) -> object:
        loop = asyncio.get_running_loop()
        result_future: asyncio.Future[object] = loop.create_future()

        def settle(error: BaseException | None, result: object) -> None:
            if result_future.done():
                return
            if error is not None:
                result_future.set_exception(error)
            else:
                result_future.set_result(result)

        def work() -> None:
            try:
                callback = partial(settle, None, check())
            except BaseException as error:  # Also sys.exit().
                callback = partial(settle, RuntimeError(type(error).__name__), None)
            loop.call_soon_threadsafe(callback)

        await self._threads.start(work)
        return await result_future


def _component_status(name: str, result: object) -> ComponentStatus:
    """Return the status from the result of a check: a boolean or a text, or a mapping of these."""
    if isinstance(result, Mapping):
        components = list(cast("Mapping[object, object]", result).items())[:_MAX_COMPONENTS]
        return {printable(str(component), _MAX_STATUS_CHARS): _status_text(value) for component, value in components}
    return {name: _status_text(result)}


def _status_text(value: object) -> str:
    match value:
        case True | None:
            return WORKING
        case str() if value.strip():
            return printable(value, _MAX_STATUS_CHARS)
        case _:
            return NOT_WORKING


def _ping(db: Connection) -> None:
    db.execute(select(1))
