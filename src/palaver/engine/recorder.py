"""The recorder keeps runs in a database: what they say a tenth of a second late at most, their end before it is told.

Nothing is done for an event but to note that its run grew. Every so often what the runs have said since is written, a
row for each run; a run's end is written at once, with all that end meanwhile. One write is under way at a time. What is
said while it is counts from when that write began: so nothing waits longer than `DELAY` and the writes themselves.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from palaver.core.events import (
    Event,
    ReasoningEnded,
    ReasoningStarted,
    RunFinished,
    TextEnded,
    TextStarted,
    ToolEnded,
    ToolStarted,
)
from palaver.core.runs import EventBatch, FinishedRun, NewRun
from palaver.engine.store import RecordableRun, RunHandedOver
from palaver.errors import Overloaded, PalaverError
from palaver.storage import queue
from palaver.storage.database import Database
from palaver.storage.run_log import interrupt_run, record_runs

if TYPE_CHECKING:
    from palaver.traces.redaction.run_redactor import RunRedactor

log = logging.getLogger("palaver.run")

RedactorLookup = Callable[[str, str], "RunRedactor | None"]
"""What takes out of a run what is not to be kept of it, by project and workflow; None: all is kept."""

WRITE_DELAY_S = 0.05
"""Seconds after which what a run said is written; the other half of a tenth is for the writing."""
RETRY_DELAY_S = 1.0
"""Seconds until a database that failed is tried again."""
_GATHER_MIN_RUNS, _GATHER_DELAY_S = 16, 0.005
"""With so many runs alive an end waits so many seconds for others: a commit costs more than what it commits."""
_MAX_LATE_ENDS = 10_000
"""So many ends at most wait for a database that is gone."""
_REMEMBER_S, _MAX_REMEMBERED = 10, 100
"""How long, and of how many runs, all is remembered that was said, where less of it was kept."""


class _RunState:
    """How far a run is recorded."""

    __slots__ = ("fault", "has_output", "is_new", "keeps_content", "redactor", "written")

    def __init__(self, run: RecordableRun, redactor: "RunRedactor | None") -> None:
        self.redactor = redactor
        self.is_new = not run.origin.waited
        self.written = 0
        self.has_output = False  # Is it kept when it first said something?
        self.fault: Exception | None = None  # What is wrong with this one: it cannot be kept.
        self.keeps_content = (run.call.record == "full" and not run.origin.is_cell) or run.origin.is_needed


class _RunEnd(NamedTuple):
    run: RecordableRun
    state: _RunState
    last: Sequence[Event]
    durable: "asyncio.Future[None] | None"
    """Whoever waits until it is written."""


class Recorder:
    """A store of runs in a database. One per engine."""

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
        self._touched: set[RecordableRun] = set()
        self._ends: list[_RunEnd] = []
        self._ended: dict[str, tuple[str, Sequence[Event]]] = {}
        self._late: list[_RunEnd] = []  # Of which nobody waits for the end: it was told before it could be kept.
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = False  # What runs said has waited long enough: it is next, when what is being written is.
        self._is_leaving = False
        self._flushing: list[asyncio.Future[None]] = []  # Those who wait for all that is known.
        self._gathering: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._fault: PalaverError | None = None
        self.on_events: Callable[[RecordableRun], None] = self._touched.add
        self.followed_runs: set[str] = set()
        """The runs of which other processes want to hear whenever they grow."""

    def check(self) -> None:
        """Raise while nothing can be kept: a run that would be lost is not begun."""
        if self._fault is not None:
            raise type(self._fault)(self._fault.message)  # A new one each time: an error remembers where it was raised.

    def on_start(self, run: RecordableRun) -> None:
        """A run has started."""
        if run.call.record != "off" or run.origin.is_needed:
            redactor = None if self._redact is None else self._redact(run.origin.project, run.name)
            self._states[run] = _RunState(run, redactor)
            self._touched.add(run)
            self._wait()

    async def record_end(self, run: RecordableRun, last: Sequence[Event]) -> None:
        """Make `last` durable."""
        state = self._states.get(run)
        if state is None:
            self._touched.discard(run)
            return
        if state.fault is not None:
            raise state.fault
        if self._is_leaving and run.origin.waited and _is_interrupted(last) and await self._hand_over(run):
            raise RunHandedOver
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ends.append(_RunEnd(run, state, last, durable))
        if self._writing is None and self._gathering is None:
            self._gather()
        await durable
        self._forget(run)
        if state.redactor is not None:
            self._remember(run, last)

    def recent_events(self, project: str, run: str) -> Sequence[Event]:
        """All that a run said which ended a moment ago, if less of it was kept: for readers who were on their way."""
        found = self._ended.get(run)
        return () if found is None or found[0] != project else found[1]

    def _remember(self, run: RecordableRun, last: Sequence[Event]) -> None:
        while len(self._ended) >= _MAX_REMEMBERED:
            del self._ended[next(iter(self._ended))]
        self._ended[run.id] = (run.origin.project, [*run.log[: last[0].seq], *last])
        asyncio.get_running_loop().call_later(_REMEMBER_S, self._ended.pop, run.id, None)

    def begin_handover(self) -> None:
        """This process has to go: what waited in the background and is interrupted now may begin anew in another."""
        self._is_leaving = True

    async def _hand_over(self, run: RecordableRun) -> bool:
        """Let another process begin it anew, if it may."""
        self._touched.discard(run)
        if self._writing is not None:
            await asyncio.wait([self._writing])  # What it said may be among that, and is to be forgotten.
        try:
            handed_over = await self._database.write(queue.hand_over_run, run.origin.project, run.id, self._process)
        except PalaverError:
            handed_over = True  # Whoever notices that we are gone does the same.
        if handed_over:
            self._forget(run)
        return handed_over

    def record_later(self, run: RecordableRun, last: Sequence[Event]) -> None:
        """Keep this end when that is possible again: it was told to readers, and the run must not seem to go on."""
        state = self._states.get(run)
        self._forget(run)
        if state is not None and state.fault is None and len(self._late) < _MAX_LATE_ENDS:
            self._late.append(_RunEnd(run, state, last, None))
            self._wait(RETRY_DELAY_S)

    async def flush(self) -> None:
        """Write all that is known by now, and wait for it: not for what comes meanwhile."""
        if not (self._touched or self._ends or self._late):
            if self._writing is not None:
                await asyncio.wait([self._writing])
            return
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flushing.append(written)
        if self._writing is None:
            self._write(due=True)
        await written

    def _forget(self, run: RecordableRun) -> None:
        self._touched.discard(run)
        self._states.pop(run, None)
        self.followed_runs.discard(run.id)

    # Writing

    def _gather(self) -> None:
        """Write the ends that wait: at once, or where many runs are alive with those that end in the next moment."""
        if len(self._states) < _GATHER_MIN_RUNS:
            self._write(due=False)
        else:
            self._gathering = asyncio.get_running_loop().call_later(_GATHER_DELAY_S, self._gathered)

    def _gathered(self) -> None:
        self._gathering = None
        if self._writing is None and self._ends:
            self._write(due=False)

    def _wait(self, seconds: float | None = None) -> None:
        if self._timer is None:
            after = self._delay if seconds is None else seconds
            self._timer = asyncio.get_running_loop().call_later(after, self._tick)

    def _pause(self) -> None:
        """Leave a database that failed alone for a while."""
        self._is_due = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._wait(RETRY_DELAY_S)

    def _tick(self) -> None:
        self._timer = None
        self._look()

    def _look(self) -> None:
        """Write what runs have said, or soon, or look again later."""
        self._touched.intersection_update(self._states)  # Runs that have ended since may have told their end.
        if self._writing is not None:
            self._is_due = True
        elif self._touched or self._late:
            self._write(due=True)
        elif self._states:
            self._wait()

    def _write(self, *, due: bool) -> None:
        """Write the ends that wait and, where it is due, what the others said."""
        ends, self._ends = self._ends, []
        flushing: list[asyncio.Future[None]] = []
        grown: list[tuple[RecordableRun, _RunState]] = []
        if due:
            ends, self._late = ends + self._late, []
            ending = {end.run for end in ends}
            alive = self._touched & self._states.keys()
            grown = [(run, state) for run in alive - ending if (state := self._states[run]).fault is None]
            self._touched.clear()
            flushing, self._flushing = self._flushing, []
            self._is_due = False
            self._wait()
        self._writing = asyncio.get_running_loop().create_task(self._written(ends, grown, flushing))

    async def _written(
        self,
        ends: Sequence[_RunEnd],
        grown: Sequence[tuple[RecordableRun, _RunState]],
        flushing: Sequence["asyncio.Future[None]"],
    ) -> None:
        await self._try(ends, grown)
        self._writing = None
        for waiter in flushing:
            if not waiter.done():
                waiter.set_result(None)
        if self._fault is not None:
            self._pause()
        if self._flushing:
            self._write(due=True)
        elif self._is_due:
            self._is_due = False
            self._look()
        if self._writing is None and self._ends and self._gathering is None:
            self._gather()

    async def _try(self, ends: Sequence[_RunEnd], grown: Sequence[tuple[RecordableRun, _RunState]]) -> None:
        """Write it. Where that fails for something in it, each run is written by itself: none fails for another."""
        said = [(run, state, _complete_items(run.log[state.written :], state)) for run, state in grown]
        said += [(end.run, end.state, [*end.run.log[end.state.written : end.last[0].seq], *end.last]) for end in ends]
        new = [self._new(run) for run, state, _ in said if state.is_new]
        batches = [
            EventBatch(run.origin.project, run.id, events, None if state.has_output else run.first_output_at)
            for run, state, events in said
            if events and state.keeps_content
        ]
        # Telling costs every other write of the database a little, so only what somebody waits for is told.
        told = [run.id for run, _, _ in said if run.id in self.followed_runs or run.origin.waited]
        try:
            ended = [_ended_run(end) for end in ends]
            if any(state.redactor is not None for _, state, _ in said):
                states = {run.id: (run, state) for run, state, _ in said}
                new, batches, ended = await asyncio.to_thread(_redact_batch, states, new, batches, ended)
            await self._database.write(record_runs, new, batches, ended, self._now(), told, self._process)
        except PalaverError as error:
            self._failed(error, ends, grown)
        except Exception as error:
            if len(said) == 1:
                await self._give_up(error, said[0][0], said[0][1], ends)
                return
            for end in ends:
                await self._try([end], [])
            for one in grown:
                await self._try([], [one])
        else:
            self._fault = None
            for _, state, events in said:
                state.is_new, state.written = False, state.written + len(events)
                state.has_output = state.written > 1
            for end in ends:
                if end.durable is not None and not end.durable.done():
                    end.durable.set_result(None)

    def _failed(
        self, error: PalaverError, ends: Sequence[_RunEnd], grown: Sequence[tuple[RecordableRun, _RunState]]
    ) -> None:
        """Nothing was written: those that end learn of it, what the others said is written later."""
        if self._fault is None:
            log.error("Runs cannot be recorded: %s", error)
        self._fault = error
        self._touched.update(run for run, _ in grown)
        self._late += [end for end in ends if end.durable is None]
        for end in ends:
            if end.durable is not None and not end.durable.done():
                end.durable.set_exception(error)

    async def _give_up(self, error: Exception, run: RecordableRun, state: _RunState, ends: Sequence[_RunEnd]) -> None:
        """What the database does not take of one run it will not take later. What it has of it stays."""
        log.error("The run %s cannot be recorded.", run.id, exc_info=error)
        self._fault = None
        state.fault = Overloaded("The run cannot be recorded.")
        with suppress(Exception):
            await self._database.write(interrupt_run, run.origin.project, run.id, self._now())
        for end in ends:
            if end.durable is not None and not end.durable.done():
                end.durable.set_exception(state.fault)

    def _new(self, run: RecordableRun) -> NewRun:
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


def _complete_items(said: Sequence[Event], state: _RunState) -> Sequence[Event]:
    """What can be written of it. Where something may have to be removed, an item waits until it is whole."""
    if state.redactor is None:
        return said
    waiting: dict[str, int] = {}
    for place, event in enumerate(said):
        if isinstance(event, _ITEM_STARTS):
            waiting[event.item] = place
        elif isinstance(event, _ITEM_ENDS):
            waiting.pop(event.item, None)
    return said[: min(waiting.values(), default=len(said))]


def _redact_batch(
    states: Mapping[str, tuple[RecordableRun, _RunState]],
    new: Sequence[NewRun],
    batches: Sequence[EventBatch],
    ended: Sequence[FinishedRun],
) -> tuple[list[NewRun], list[EventBatch], list[FinishedRun]]:
    """In a thread: what is to be written, without what may not be kept. Readers are told all of it."""

    def redactor(name: str) -> "RunRedactor | None":
        run, state = states[name]
        if state.redactor is not None and not state.redactor.has_asked:
            state.redactor.call(run.call)  # What is removed from there is removed from what is said as well.
        return state.redactor

    return (
        [one if (r := states[one.started.run_id][1].redactor) is None else r.new(one) for one in new],
        [one if (r := redactor(one.run)) is None else replace(one, events=r.events(one.events)) for one in batches],
        [
            one if (r := redactor(one.started.run_id)) is None else replace(one, events=r.events(one.events))
            for one in ended
        ],
    )


def _is_interrupted(last: Sequence[Event]) -> bool:
    return isinstance(last[-1], RunFinished) and last[-1].finish == "interrupted"


def _ended_run(end: _RunEnd) -> FinishedRun:
    run = end.run
    events = [*run.log[: end.last[0].seq], *end.last]
    return FinishedRun(
        started=run.started,
        origin=run.origin,
        events=events,
        has_content=end.state.keeps_content,
        first_output_at=run.first_output_at,
    )
