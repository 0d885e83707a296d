"""The engine: starts runs, tracks the active ones, and creates ids that sort by time."""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from math import inf
from typing import Protocol

import msgspec

from palaver.core.events import RunFailed, RunFinished, RunStarted
from palaver.core.history_validation import DEFAULT_HISTORY_LIMITS, HistoryLimits, validate_history
from palaver.core.ids import sortable_id
from palaver.core.runs import LOCAL_ORIGIN, Call, Origin, RecordMode, RunLimits
from palaver.engine.failures import FailureDisclosure
from palaver.engine.files import FileFetch, FileFetcher
from palaver.engine.recorder import MemoryRunStore, RunStore
from palaver.engine.run import EventConsumer, Run, RunServices
from palaver.engine.tracing import RunTracer
from palaver.errors import ShuttingDown
from palaver.protocols.history_merge import PendingApprovals
from palaver.workflows.thread_pool import ThreadPool
from palaver.workflows.workflow import FunctionWorkflow, Limits, Producer, Workflow

_REFILL_BYTES = 2048


class RandomHex:
    """Random hex digits, read from the operating system in bulk: each read is a system call.

    The supply is discarded after a fork, so that parent and child never share digits.
    """

    def __init__(self) -> None:
        self._digits = ""
        self._position = 0
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._discard)

    def hex(self, digits: int) -> str:
        start = self._position
        self._position = end = start + digits
        if end > len(self._digits):
            self._digits, self._position, start, end = os.urandom(_REFILL_BYTES).hex(), digits, 0, digits
        return self._digits[start:end]

    def _discard(self) -> None:
        self._digits, self._position = "", 0


random_hex = RandomHex().hex


def new_id(prefix: str) -> str:
    """Return the prefix and 26 characters: ten that sort by time and sixteen random hex digits."""
    return f"{prefix}_{sortable_id(time.time_ns() // 1_000_000, 0)[:10]}{random_hex(16)}"


def new_run_id() -> str:
    """Return `run_` and 26 characters, as `new_id` does."""
    return _run_id_prefix(time.time_ns() // 1_000_000) + random_hex(16)


@lru_cache(4)  # Under load many runs start in one millisecond.
def _run_id_prefix(milliseconds: int) -> str:
    return "run_" + sortable_id(milliseconds, 0)[:10]


log = logging.getLogger("palaver.run")

_NO_LIMITS = Limits()
_RECORD_LEVELS: Sequence[RecordMode] = ("off", "metadata", "full")
SHUTDOWN_FAILURE = RunFailed(code=ShuttingDown.code, message="The server is shutting down.")
_INTERRUPTED = RunFinished(finish="interrupted")
CANCEL_TIMEOUT_S = 5.0
"""How long the code of a run that is cancelled at shutdown may take to end."""
_END_TIMEOUT_S = 0.5


def utc_now() -> datetime:
    return datetime.now(UTC)


@cache
def _strictest(*modes: RecordMode) -> RecordMode:
    return min(modes, key=_RECORD_LEVELS.index)


class Admission(Protocol):
    """Limits the number of concurrent runs per caller."""

    def acquire(self, owner: Origin) -> None:
        """Count a run of this caller. Raises when the limit is reached."""
        ...

    def release(self, owner: Origin) -> None: ...


class Engine:
    """Runs workflows and records them. One per process and event loop."""

    def __init__(
        self,
        *,
        store: RunStore | None = None,
        fetch: FileFetch | None = None,
        admission: Admission | None = None,
        thread_pool: ThreadPool | None = None,
        tracer: RunTracer | None = None,
        limits: RunLimits | None = None,
        history_limits: HistoryLimits = DEFAULT_HISTORY_LIMITS,
        record: RecordMode = "full",
        now: Callable[[], datetime] = utc_now,
        new_id: Callable[[], str] = new_run_id,
        debug: bool = False,
    ) -> None:
        self.thread_pool = thread_pool or ThreadPool()
        self.is_draining = False
        self.disclosure = FailureDisclosure(debug)
        self._services = RunServices(
            store or MemoryRunStore(),
            self.thread_pool,
            now,
            self.disclosure,
            self._on_end,
            fetch or FileFetcher(),
            tracer,
        )
        self._admission = admission
        self._limits = limits or RunLimits()
        self._history_limits = history_limits
        self._record_mode: RecordMode = record
        self._new_id = new_id
        self._active: dict[str, Run] = {}
        self._next_deadline = inf  # The earliest deadline of an active run.
        self._timer: asyncio.TimerHandle | None = None

    @property
    def active_count(self) -> int:
        return len(self._active)

    def start(
        self,
        workflow: Workflow,
        call: Call,
        *,
        consumer: EventConsumer | None = None,
        origin: Origin = LOCAL_ORIGIN,
        run_id: str | None = None,
    ) -> Run:
        """Start a run. Raises when the workflow cannot take the call or the engine is shutting down."""
        run, producer = self.open(workflow, call, consumer=consumer, origin=origin, run_id=run_id)
        run.start(producer)
        return run

    def open(
        self,
        workflow: Workflow,
        call: Call,
        *,
        consumer: EventConsumer | None = None,
        origin: Origin = LOCAL_ORIGIN,
        run_id: str | None = None,
    ) -> tuple[Run, Producer]:
        """Create a run without starting it: the caller must `start` or `drive` it with the returned producer."""
        call, warnings = self._validate_call(workflow, call)
        producer = workflow.bind(call)
        if self._admission is not None and not origin.background:
            self._admission.acquire(origin)
        started = self._started_event(call, run_id or self._new_id())
        run = Run(self._services, workflow, call, origin, started, self._effective_limits(workflow), consumer)
        for warning in warnings:
            log.info("run %s: %s", run.id, warning)
        self._services.store.on_start(run)
        self._active[run.id] = run
        self._schedule_expiry(run)
        return run, producer

    def prepare(self, workflow: Workflow, call: Call, run_id: str | None = None) -> tuple[Call, RunStarted]:
        """Validate a run that starts later; return its final call and its first event. Raises as `open` would."""
        call, _ = self._validate_call(workflow, call)
        workflow.bind(call)
        return call, self._started_event(call, run_id or self._new_id())

    def new_run_ids(self, count: int) -> list[str]:
        """Return new run ids in ascending order."""
        return sorted(self._new_id() for _ in range(count))

    def promise_run(self, call: Call, run_id: str) -> RunStarted:
        """Return the first event of a run that starts later, without validating its call."""
        self._check_available()
        return self._started_event(call, run_id)

    def _check_available(self) -> None:
        if self.is_draining:
            raise ShuttingDown
        self._services.store.check()

    def _validate_call(self, workflow: Workflow, call: Call) -> tuple[Call, Sequence[str]]:
        """Return the call with a valid history, and warnings about omitted messages."""
        self._check_available()
        system, limits = workflow.options.system, self._history_limits
        messages, warnings = validate_history(call.messages, system=system, limits=limits)
        if isinstance(workflow, FunctionWorkflow) and not workflow.resumes:
            PendingApprovals.check_history(call.messages)
        if messages is not call.messages:
            preface = 0 if system == "drop" else call.preface
            call = msgspec.structs.replace(call, messages=messages, preface=preface)
        record = _strictest(self._record_mode, workflow.options.record, call.record)
        return call if record == call.record else msgspec.structs.replace(call, record=record), warnings

    def find(self, run_id: str) -> Run | None:
        return self._active.get(run_id)

    def list_session_runs(self, workflow: str, session: str) -> list[Run]:
        return [run for run in self._active.values() if run.name == workflow and run.started.session == session]

    async def drain(self, seconds: float, *, cancel_timeout_s: float = CANCEL_TIMEOUT_S) -> None:
        """Accept no more runs, wait up to `seconds` for the active ones, then end them with a terminal event.

        Code that has not ended `cancel_timeout_s` after it was cancelled is left behind. Background runs are
        interrupted, or handed over to another process.
        """
        self.is_draining = True
        await self._wait_ended(seconds)
        self._services.store.begin_handover()
        for run in list(self._active.values()):
            run.cancel(_INTERRUPTED if run.origin.background else SHUTDOWN_FAILURE)
        await self._wait_ended(cancel_timeout_s)
        for run in list(self._active.values()):
            run.leave_code()
        await self._wait_ended(_END_TIMEOUT_S)

    async def _wait_ended(self, seconds: float) -> None:
        if waiters := [asyncio.ensure_future(run.wait_ended()) for run in self._active.values()]:
            _, pending = await asyncio.wait(waiters, timeout=seconds)
            for waiter in pending:
                waiter.cancel()

    def _schedule_expiry(self, run: Run) -> None:
        """Set the timer for the time limits of all runs to the earliest deadline."""
        if run.expires_at < self._next_deadline:
            if self._timer is not None:
                self._timer.cancel()
            self._next_deadline = run.expires_at
            self._timer = asyncio.get_running_loop().call_at(self._next_deadline, self._expire)

    def _expire(self) -> None:
        now = asyncio.get_running_loop().time()
        for run in list(self._active.values()):
            if run.expires_at <= now:
                run.expire()
        deadlines = [run.expires_at for run in self._active.values() if run.expires_at > now]
        self._next_deadline = min(deadlines, default=inf)
        self._timer = asyncio.get_running_loop().call_at(self._next_deadline, self._expire) if deadlines else None

    def _on_end(self, run: Run) -> None:
        for warning in run.warnings:
            log.info("run %s: %s", run.id, warning)
        del self._active[run.id]
        if self._admission is not None and not run.origin.background:
            self._admission.release(run.origin)
        if self._services.tracer is not None:
            self._services.tracer.on_end(run)

    def _effective_limits(self, workflow: Workflow) -> RunLimits:
        limits, defaults = workflow.options.limits, self._limits
        if limits == _NO_LIMITS:
            return defaults
        return RunLimits(
            seconds=defaults.seconds if limits.seconds is None else limits.seconds,
            events=defaults.events if limits.events is None else limits.events,
            bytes=defaults.bytes if limits.bytes is None else limits.bytes,
        )

    def _started_event(self, call: Call, run_id: str) -> RunStarted:
        random = random_hex(48)
        trace = call.trace_parent.split("-")[1] if call.trace_parent else random[:32]
        return RunStarted(0, run_id, call.session or random[:32], self._services.now(), trace, random[32:])
