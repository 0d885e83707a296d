"""The recorder keeps runs in a database: what they say a tenth of a second late at most, their end before it is told.

Nothing is done for an event but to note that its run grew. Every so often what the runs have said since is written, a
row for each run; a run's end is written at once, with all that end meanwhile. One write is under way at a time.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from palaver.core.events import Event
from palaver.core.records import Batch, EndedRun, NewRun
from palaver.engine.store import Kept
from palaver.errors import Overloaded, PalaverError
from palaver.storage.database import Database
from palaver.storage.recording import interrupt, record

log = logging.getLogger("palaver.run")

DELAY = 0.1
"""Seconds after which what a run said is written."""
PATIENCE = 1.0
"""Seconds until a database that failed is tried again."""
_MANY, _MOMENT = 16, 0.005
"""With so many runs alive an end waits so many seconds for others: a commit costs more than what it commits."""
_MOST_LATE = 10_000
"""So many ends at most wait for a database that is gone."""


class _State:
    """How far a run is recorded."""

    __slots__ = ("fault", "is_new", "keeps_content", "written")

    def __init__(self, run: Kept) -> None:
        self.is_new = not run.origin.waited
        self.written = 0
        self.fault: Exception | None = None  # What is wrong with this one: it cannot be kept.
        self.keeps_content = run.call.record == "full" or run.origin.is_needed


class _End(NamedTuple):
    run: Kept
    state: _State
    last: Sequence[Event]
    durable: "asyncio.Future[None] | None"
    """Whoever waits until it is written."""


class Recorder:
    """A store of runs in a database. One per engine."""

    def __init__(self, database: Database, *, process: str, now: Callable[[], datetime], delay: float = DELAY) -> None:
        self._database = database
        self._process = process
        self._now = now
        self._delay = delay
        self._states: dict[Kept, _State] = {}
        self._touched: set[Kept] = set()
        self._ends: list[_End] = []
        self._late: list[_End] = []  # Of which nobody waits for the end: it was told before it could be kept.
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: list[asyncio.Future[None]] = []  # Those who wait for all that is known.
        self._gathering: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._fault: PalaverError | None = None
        self.grew: Callable[[Kept], None] = self._touched.add
        self.followed: set[str] = set()
        """The runs of which other processes want to hear whenever they grow."""

    def check(self) -> None:
        """Raise while nothing can be kept: a run that would be lost is not begun."""
        if self._fault is not None:
            raise type(self._fault)(self._fault.message)  # A new one each time: an error remembers where it was raised.

    def opened(self, run: Kept) -> None:
        """A run has started."""
        if run.call.record != "off" or run.origin.is_needed:
            self._states[run] = _State(run)
            self._touched.add(run)
            self._wait()

    async def closed(self, run: Kept, last: Sequence[Event]) -> None:
        """Make `last` durable."""
        state = self._states.get(run)
        if state is None:
            self._touched.discard(run)
            return
        if state.fault is not None:
            raise state.fault
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ends.append(_End(run, state, last, durable))
        if self._writing is None and self._gathering is None:
            self._gather()
        await durable
        self._forget(run)

    def lost(self, run: Kept, last: Sequence[Event]) -> None:
        """Keep this end when that is possible again: it was told to readers, and the run must not seem to go on."""
        state = self._states.get(run)
        self._forget(run)
        if state is not None and state.fault is None and len(self._late) < _MOST_LATE:
            self._late.append(_End(run, state, last, None))
            self._wait(PATIENCE)

    async def flushed(self) -> None:
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

    def _forget(self, run: Kept) -> None:
        self._touched.discard(run)
        self._states.pop(run, None)
        self.followed.discard(run.id)

    # Writing

    def _gather(self) -> None:
        """Write the ends that wait: at once, or where many runs are alive with those that end in the next moment."""
        if len(self._states) < _MANY:
            self._write(due=False)
        else:
            self._gathering = asyncio.get_running_loop().call_later(_MOMENT, self._gathered)

    def _gathered(self) -> None:
        self._gathering = None
        if self._writing is None and self._ends:
            self._write(due=False)

    def _wait(self, seconds: float | None = None) -> None:
        if self._timer is None:
            after = self._delay if seconds is None else seconds
            self._timer = asyncio.get_running_loop().call_later(after, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._touched.intersection_update(self._states)  # Runs that have ended since may have told their end.
        if self._writing is not None:
            self._wait(self._delay / 10)  # Soon after the write that is under way.
        elif self._touched or self._late:
            self._write(due=True)
        elif self._states:
            self._wait()

    def _write(self, *, due: bool) -> None:
        """Write the ends that wait and, where it is due, what the others said."""
        ends, self._ends = self._ends, []
        flushing: list[asyncio.Future[None]] = []
        grown: list[tuple[Kept, _State]] = []
        if due:
            ends, self._late = ends + self._late, []
            ending = {end.run for end in ends}
            alive = self._touched & self._states.keys()
            grown = [(run, state) for run in alive - ending if (state := self._states[run]).fault is None]
            self._touched.clear()
            flushing, self._flushing = self._flushing, []
        self._writing = asyncio.get_running_loop().create_task(self._written(ends, grown, flushing))

    async def _written(
        self,
        ends: Sequence[_End],
        grown: Sequence[tuple[Kept, _State]],
        flushing: Sequence["asyncio.Future[None]"],
    ) -> None:
        await self._try(ends, grown)
        self._writing = None
        for waiter in flushing:
            if not waiter.done():
                waiter.set_result(None)
        if self._flushing:
            self._write(due=True)
        elif self._ends and self._gathering is None:
            self._gather()
        if self._states or self._touched or self._late:
            self._wait(PATIENCE if self._fault else None)

    async def _try(self, ends: Sequence[_End], grown: Sequence[tuple[Kept, _State]]) -> None:
        """Write it. Where that fails for something in it, each run is written by itself: none fails for another."""
        said = [(run, state, run.log[state.written :]) for run, state in grown]
        said += [(end.run, end.state, [*end.run.log[end.state.written : end.last[0].seq], *end.last]) for end in ends]
        new = [self._new(run) for run, state, _ in said if state.is_new]
        batches = [
            Batch(run.origin.project, run.id, events) for run, state, events in said if events and state.keeps_content
        ]
        # Telling costs every other write of the database a little, so only what somebody waits for is told.
        told = [run.id for run, _, _ in said if run.id in self.followed or run.origin.waited]
        try:
            ended = [_ended(end) for end in ends]
            await self._database.write(record, new, batches, ended, self._now(), told, self._process)
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
            for end in ends:
                if end.durable is not None and not end.durable.done():
                    end.durable.set_result(None)

    def _failed(self, error: PalaverError, ends: Sequence[_End], grown: Sequence[tuple[Kept, _State]]) -> None:
        """Nothing was written: those that end learn of it, what the others said is written later."""
        if self._fault is None:
            log.error("Runs cannot be recorded: %s", error)
        self._fault = error
        self._touched.update(run for run, _ in grown)
        self._late += [end for end in ends if end.durable is None]
        for end in ends:
            if end.durable is not None and not end.durable.done():
                end.durable.set_exception(error)

    async def _give_up(self, error: Exception, run: Kept, state: _State, ends: Sequence[_End]) -> None:
        """What the database does not take of one run it will not take later. What it has of it stays."""
        log.error("The run %s cannot be recorded.", run.id, exc_info=error)
        self._fault = None
        state.fault = Overloaded("The run cannot be recorded.")
        with suppress(Exception):
            await self._database.write(interrupt, run.origin.project, run.id, self._now())
        for end in ends:
            if end.durable is not None and not end.durable.done():
                end.durable.set_exception(state.fault)

    def _new(self, run: Kept) -> NewRun:
        return NewRun(started=run.started, workflow=run.name, call=run.call, origin=run.origin, process=self._process)


def _ended(end: _End) -> EndedRun:
    run = end.run
    events = [*run.log[: end.last[0].seq], *end.last]
    return EndedRun(started=run.started, origin=run.origin, events=events, has_content=end.state.keeps_content)
