"""Health of the database and of the workflows, for GET /status.

A workflow declares its check with `@chat(health=…)`. A check has two seconds, runs once at a time, in a thread if it is
sync, and its result is cached.
"""

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple, cast

from sqlalchemy import Connection, select

from palaver.core import json, secret_mask
from palaver.discovery.registry import Registry
from palaver.errors import PalaverError
from palaver.outbound import printable
from palaver.protocols.base import HttpResponse
from palaver.storage.database import Database
from palaver.workflows.signature import underlying_callable
from palaver.workflows.thread_pool import ThreadPool
from palaver.workflows.workflow import Workflow

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
            log.warning("The health check of %s failed: %s", name, reason)
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
        future: Future[object] = Future()
        future.set_running_or_notify_cancel()  # From now on it cannot be cancelled.

        def work() -> None:
            try:
                future.set_result(check())
            except BaseException as error:  # Also sys.exit().
                future.set_exception(RuntimeError(type(error).__name__))

        await self._threads.start(work)
        return await asyncio.wrap_future(future)


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
