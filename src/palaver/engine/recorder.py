"""Record runs in a database: events at most a tenth of a second late, the end before readers see it.

An event only marks its run as grown. Periodically the new events of all runs are written, one row per run; the end of a
run is written at once, together with others that end in the meantime. One write is in progress at a time. Events that
arrive during a write are due `WRITE_DELAY_S` after that write began, so nothing waits longer than that and the write.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec.structs import replace

from palaver.core.events import (
    Event,
    ReasoningEnded,
    ReasoningStarted,
    RunFinished,
    RunStarted,
    TextEnded,
    TextStarted,
    ToolEnded,
    ToolStarted,
)
from palaver.core.runs import Call, EventBatch, FinishedRun, NewRun, Origin
from palaver.errors import Overloaded, PalaverError
from palaver.storage import background_runs
from palaver.storage.database import Database
from palaver.storage.run_log import interrupt_run, record_runs

if TYPE_CHECKING:
    from palaver.traces.redaction.redactor import RunRedactor


class RunHandedOver(Exception):
    """The run was requeued for another process; do not emit a terminal event here."""


class RecordableRun(Protocol):
    """What a store needs to know about a run."""

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str:
        """The name of the workflow."""
        ...

    @property
    def call(self) -> Call: ...

    @property
    def origin(self) -> Origin: ...

    @property
    def started(self) -> RunStarted: ...

    @property
    def log(self) -> Sequence[Event]:
        """All events so far; `seq` is the index."""
        ...

    @property
    def first_output_at(self) -> datetime | None: ...


class RunStore(Protocol):
    """Records runs."""

    @property
    def on_events(self) -> Callable[[RecordableRun], None] | None:
        """Called after every event except the last ones, which go to `record_end`. Must be cheap."""
        ...

    def check(self) -> None:
        """Raise while nothing can be recorded, so that no run is started that would be lost."""
        ...

    def on_start(self, run: RecordableRun) -> None: ...

    async def record_end(self, run: RecordableRun, last: Sequence[Event]) -> None:
        """Make `last`, which ends with the terminal event, durable before readers see it.

        Raises RunHandedOver for a run that another process repeats.
        """
        ...

    def begin_handover(self) -> None:
        """The process is shutting down: runs interrupted from now on may be handed over."""
        ...

    def record_later(self, run: RecordableRun, last: Sequence[Event]) -> None:
        """`record_end` failed and readers saw `last` instead: record it as soon as possible."""
        ...


class MemoryRunStore:
    """Records nothing: a run's log lives as long as the run."""

    on_events = None

    def check(self) -> None:
        pass

    def on_start(self, run: RecordableRun) -> None:
        pass

    async def record_end(self, run: RecordableRun, last: Sequence[Event]) -> None:
        pass

    def begin_handover(self) -> None:
        pass

    def record_later(self, run: RecordableRun, last: Sequence[Event]) -> None:
        pass


log = logging.getLogger("palaver.run")

RedactorLookup = Callable[[str, str], "RunRedactor | None"]
"""Returns the redactor for a project and workflow, or None if everything is recorded."""

WRITE_DELAY_S = 0.05
"""Delay until events are written; the other half of a tenth of a second is for the write itself."""
RETRY_DELAY_S = 1.0
"""Delay until a failed database is tried again."""
_GATHER_MIN_RUNS, _GATHER_DELAY_S = 16, 0.005
"""With this many active runs, an end waits this long for others: a commit costs more than its content."""
_MAX_LATE_ENDS = 10_000
"""Maximum number of finished runs buffered while the database is down."""
_RECENT_LOG_TTL_S, _MAX_RECENT_LOGS = 10, 100
"""How long, and for how many runs, the unredacted events of ended runs are held for readers."""


class _RunState:
    """How much of a run is recorded."""

    __slots__ = ("fault", "has_output", "is_new", "redactor", "stores_content", "written_count")

    def __init__(self, run: RecordableRun, redactor: "RunRedactor | None") -> None:
        self.redactor = redactor
        self.is_new = not run.origin.was_queued
        self.written_count = 0
        self.has_output = False  # Whether first_output_at is recorded.
        self.fault: Exception | None = None  # Why this run cannot be recorded.
        self.stores_content = (
            run.call.record == "full" and not run.origin.is_evaluation_cell
        ) or run.origin.must_be_stored


class _RunEnd(NamedTuple):
    run: RecordableRun
    state: _RunState
    last: Sequence[Event]
    waiter: "asyncio.Future[None] | None"
    """Resolved when the end is written; None if readers have seen it before."""


class Recorder:
    """Stores runs in a database. One per engine."""

    def __init__(
        self,
        database: Database,
        *,
        process: str,
        now: Callable[[], datetime],
        delay: float = WRITE_DELAY_S,
        redact: RedactorLookup | None = None,
    ) -> None:
        self._database = database
        self._redact = redact
        self._process = process
        self._now = now
        self._delay = delay
        self._states: dict[RecordableRun, _RunState] = {}
        self._grown_runs: set[RecordableRun] = set()
        self._ends: list[_RunEnd] = []
        self._recent_logs: dict[str, tuple[str, Sequence[Event]]] = {}
        self._late_ends: list[_RunEnd] = []  # Ends that readers saw before they could be recorded.
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = False  # Events are due as soon as the current write is done.
        self._is_handing_over = False
        self._flush_waiters: list[asyncio.Future[None]] = []  # Resolved by the next full write.
        self._gather_timer: asyncio.TimerHandle | None = None
        self._write_task: asyncio.Task[None] | None = None
        self._fault: PalaverError | None = None
        self.on_events: Callable[[RecordableRun], None] = self._grown_runs.add
        self.followed_runs: set[str] = set()
        """Runs whose growth other processes are notified of."""

    def check(self) -> None:
        """Raise while the database cannot be written, so that no run is started that would be lost."""
        if self._fault is not None:
            raise type(self._fault)(self._fault.message)  # A new one each time: an exception keeps its traceback.

    def on_start(self, run: RecordableRun) -> None:
        if run.call.record != "off" or run.origin.must_be_stored:
            redactor = None if self._redact is None else self._redact(run.origin.project, run.name)
            self._states[run] = _RunState(run, redactor)
            self._grown_runs.add(run)
            self._schedule()

    async def record_end(self, run: RecordableRun, last: Sequence[Event]) -> None:
        """Make `last`, the end of a run, durable. Raises RunHandedOver if another process repeats the run."""
        state = self._states.get(run)
        if state is None:
            self._grown_runs.discard(run)
            return
        if state.fault is not None:
            raise state.fault
        if self._is_handing_over and run.origin.was_queued and _is_interrupted(last) and await self._hand_over(run):
            raise RunHandedOver
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ends.append(_RunEnd(run, state, last, waiter))
        if self._write_task is None and self._gather_timer is None:
            self._gather()
        await waiter
        self._forget(run)
        if state.redactor is not None:
            self._add_recent_log(run, last)

    def recent_events(self, project: str, run: str) -> Sequence[Event]:
        """Return the unredacted events of a run that has just ended, if its recorded events are redacted."""
        owner_project, events = self._recent_logs.get(run, (None, ()))
        return events if owner_project == project else ()

    def _add_recent_log(self, run: RecordableRun, last: Sequence[Event]) -> None:
        while len(self._recent_logs) >= _MAX_RECENT_LOGS:
            del self._recent_logs[next(iter(self._recent_logs))]
        self._recent_logs[run.id] = (run.origin.project, [*run.log[: last[0].seq], *last])
        asyncio.get_running_loop().call_later(_RECENT_LOG_TTL_S, self._recent_logs.pop, run.id, None)

    def begin_handover(self) -> None:
        """Hand over background runs that are interrupted from now on to other processes."""
        self._is_handing_over = True

    async def _hand_over(self, run: RecordableRun) -> bool:
        """Requeue a run for another process, if it may be repeated."""
        self._grown_runs.discard(run)
        if self._write_task is not None:
            await asyncio.wait([self._write_task])  # It may contain events of the run, which are deleted next.
        try:
            is_handed_over = await self._database.write(
                background_runs.hand_over_run, run.origin.project, run.id, self._process
            )
        except PalaverError:
            is_handed_over = True  # The process that finds this one dead does the same.
        if is_handed_over:
            self._forget(run)
        return is_handed_over

    def record_later(self, run: RecordableRun, last: Sequence[Event]) -> None:
        """Record this end, which readers have seen, as soon as the database can be written again."""
        state = self._states.get(run)
        self._forget(run)
        if state is not None and state.fault is None and len(self._late_ends) < _MAX_LATE_ENDS:
            self._late_ends.append(_RunEnd(run, state, last, None))
            self._schedule(RETRY_DELAY_S)

    async def flush(self) -> None:
        """Write everything known so far and wait for it."""
        if not (self._grown_runs or self._ends or self._late_ends):
            if self._write_task is not None:
                await asyncio.wait([self._write_task])
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flush_waiters.append(waiter)
        if self._write_task is None:
            self._write(include_events=True)
        await waiter

    def _forget(self, run: RecordableRun) -> None:
        self._grown_runs.discard(run)
        self._states.pop(run, None)
        self.followed_runs.discard(run.id)

    # Writing

    def _gather(self) -> None:
        """Write waiting ends: at once, or after a short delay where many runs are active."""
        if len(self._states) < _GATHER_MIN_RUNS:
            self._write(include_events=False)
        else:
            self._gather_timer = asyncio.get_running_loop().call_later(_GATHER_DELAY_S, self._write_gathered)

    def _write_gathered(self) -> None:
        self._gather_timer = None
        if self._write_task is None and self._ends:
            self._write(include_events=False)

    def _schedule(self, seconds: float | None = None) -> None:
        if self._timer is None:
            delay = self._delay if seconds is None else seconds
            self._timer = asyncio.get_running_loop().call_later(delay, self._tick)

    def _back_off(self) -> None:
        """Delay the next write after a failure."""
        self._is_due = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._schedule(RETRY_DELAY_S)

    def _tick(self) -> None:
        self._timer = None
        self._write_if_due()

    def _write_if_due(self) -> None:
        """Write new events now, after the current write, or at the next tick."""
        self._grown_runs.intersection_update(self._states)  # Runs may have ended since.
        if self._write_task is not None:
            self._is_due = True
        elif self._grown_runs or self._late_ends:
            self._write(include_events=True)
        elif self._states:
            self._schedule()

    def _write(self, *, include_events: bool) -> None:
        """Start writing the waiting ends and, with `include_events`, new events of other runs."""
        ends, self._ends = self._ends, []
        flush_waiters: list[asyncio.Future[None]] = []
        grown: list[tuple[RecordableRun, _RunState]] = []
        if include_events:
            ends, self._late_ends = ends + self._late_ends, []
            ending_runs = {end.run for end in ends}
            recorded = self._grown_runs & self._states.keys()
            grown = [(run, state) for run in recorded - ending_runs if (state := self._states[run]).fault is None]
            self._grown_runs.clear()
            flush_waiters, self._flush_waiters = self._flush_waiters, []
            self._is_due = False
            self._schedule()
        self._write_task = asyncio.get_running_loop().create_task(self._run_write(ends, grown, flush_waiters))

    async def _run_write(
        self,
        ends: Sequence[_RunEnd],
        grown: Sequence[tuple[RecordableRun, _RunState]],
        flush_waiters: Sequence["asyncio.Future[None]"],
    ) -> None:
        await self._write_batch(ends, grown)
        self._write_task = None
        for waiter in flush_waiters:
            if not waiter.done():
                waiter.set_result(None)
        if self._fault is not None:
            self._back_off()
        if self._flush_waiters:
            self._write(include_events=True)
        elif self._is_due:
            self._is_due = False
            self._write_if_due()
        if self._write_task is None and self._ends and self._gather_timer is None:
            self._gather()

    async def _write_batch(self, ends: Sequence[_RunEnd], grown: Sequence[tuple[RecordableRun, _RunState]]) -> None:
        """Write a batch. If its content is refused, each run is written separately, so that it fails alone."""
        grown_events = [(run, state, _complete_items(run.log[state.written_count :], state)) for run, state in grown]
        pending = grown_events + [
            (end.run, end.state, [*end.run.log[end.state.written_count : end.last[0].seq], *end.last]) for end in ends
        ]
        new_runs = [self._new_run(run) for run, state, _ in pending if state.is_new]
        batches = [
            EventBatch(run.origin.project, run.id, events, None if state.has_output else run.first_output_at)
            for run, state, events in pending
            if events and state.stores_content
        ]
        # A notification makes every other write slower, so only runs with followers are announced.
        announced = [run.id for run, _, _ in pending if run.id in self.followed_runs or run.origin.was_queued]
        try:
            finished = [_finished_run(end) for end in ends]
            if any(state.redactor is not None for _, state, _ in pending):
                states = {run.id: (run, state) for run, state, _ in pending}
                redacted = await asyncio.to_thread(_redact_batch, states, new_runs, batches, finished)
                new_runs, batches, finished = redacted
            await self._database.write(record_runs, new_runs, batches, finished, self._now(), announced, self._process)
        except PalaverError as error:
            self._handle_failure(error, ends, grown)
        except Exception as error:
            if len(pending) == 1:
                await self._give_up(error, pending[0][0], pending[0][1], ends)
                return
            for end in ends:
                await self._write_batch([end], [])
            for grown_run in grown:
                await self._write_batch([], [grown_run])
        else:
            self._fault = None
            for _, state, events in pending:
                state.is_new, state.written_count = False, state.written_count + len(events)
                state.has_output = state.written_count > 1
            for end in ends:
                if end.waiter is not None and not end.waiter.done():
                    end.waiter.set_result(None)

    def _handle_failure(
        self, error: PalaverError, ends: Sequence[_RunEnd], grown: Sequence[tuple[RecordableRun, _RunState]]
    ) -> None:
        """Handle a failed write: ends are reported as failed, events are written later."""
        if self._fault is None:
            log.error("Failed to record runs: %s", error)
        self._fault = error
        self._grown_runs.update(run for run, _ in grown)
        self._late_ends += [end for end in ends if end.waiter is None]
        for end in ends:
            if end.waiter is not None and not end.waiter.done():
                end.waiter.set_exception(error)

    async def _give_up(self, error: Exception, run: RecordableRun, state: _RunState, ends: Sequence[_RunEnd]) -> None:
        """Stop recording a run whose content the database refuses. What was recorded before stays."""
        log.error("Failed to record run %s.", run.id, exc_info=error)
        self._fault = None
        state.fault = Overloaded("The run could not be recorded.")
        with suppress(Exception):
            await self._database.write(interrupt_run, run.origin.project, run.id, self._now())
        for end in ends:
            if end.waiter is not None and not end.waiter.done():
                end.waiter.set_exception(state.fault)

    def _new_run(self, run: RecordableRun) -> NewRun:
        return NewRun(
            started=run.started,
            workflow=run.name,
            call=run.call,
            origin=run.origin,
            process=self._process,
            first_output_at=run.first_output_at,
        )


_ITEM_STARTS = (TextStarted, ReasoningStarted, ToolStarted)
_ITEM_ENDS = (TextEnded, ReasoningEnded, ToolEnded)


def _complete_items(events: Sequence[Event], state: _RunState) -> Sequence[Event]:
    """Return the events that can be written: a redactor needs complete items."""
    if state.redactor is None:
        return events
    open_items: dict[str, int] = {}
    for index, event in enumerate(events):
        if isinstance(event, _ITEM_STARTS):
            open_items[event.item] = index
        elif isinstance(event, _ITEM_ENDS):
            open_items.pop(event.item, None)
    return events[: min(open_items.values(), default=len(events))]


def _redact_batch(
    states: Mapping[str, tuple[RecordableRun, _RunState]],
    new_runs: Sequence[NewRun],
    batches: Sequence[EventBatch],
    finished_runs: Sequence[FinishedRun],
) -> tuple[list[NewRun], list[EventBatch], list[FinishedRun]]:
    """Redact a batch before it is written; runs in a thread. Readers still see everything."""

    def redactor_of(run_id: str) -> "RunRedactor | None":
        run, state = states[run_id]
        if state.redactor is not None and not state.redactor.has_seen_request:
            state.redactor.redact_call(run.call)  # What is redacted in the call is redacted in the reply as well.
        return state.redactor

    return (
        [new if (r := states[new.started.run_id][1].redactor) is None else r.redact_new_run(new) for new in new_runs],
        [
            batch if (r := redactor_of(batch.run)) is None else replace(batch, events=r.redact_events(batch.events))
            for batch in batches
        ],
        [
            run if (r := redactor_of(run.started.run_id)) is None else replace(run, events=r.redact_events(run.events))
            for run in finished_runs
        ],
    )


def _is_interrupted(last: Sequence[Event]) -> bool:
    return isinstance(last[-1], RunFinished) and last[-1].finish == "interrupted"


def _finished_run(end: _RunEnd) -> FinishedRun:
    run = end.run
    events = [*run.log[: end.last[0].seq], *end.last]
    return FinishedRun(
        started=run.started,
        origin=run.origin,
        events=events,
        has_content=end.state.stores_content,
        first_output_at=run.first_output_at,
    )
