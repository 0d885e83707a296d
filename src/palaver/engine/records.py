"""The runs of every process on one database: read, followed and cancelled, wherever they are.

One that is alive here is read from its own log. Any other is read from the database, and looked at again until it ends.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing, suppress
from datetime import datetime
from math import inf
from typing import TypeVar

from sqlalchemy import Connection

from palaver.core.events import Event, RunStarted
from palaver.core.ids import moment
from palaver.engine.engine import Engine
from palaver.engine.orphans import Orphans
from palaver.engine.recorder import PATIENCE, Recorder
from palaver.engine.run import Run
from palaver.engine.watching import LOOK, Watching
from palaver.errors import DiskFull, Overloaded, RunNotFound
from palaver.storage import events, notices, recording, runs
from palaver.storage.database import Database
from palaver.storage.runs import RunRow, Whole

T = TypeVar("T")

_CANCEL_SECONDS = 30
_YOUNG_SECONDS, _SKEW_SECONDS = 2.0, 1.0
"""How long a run may be at work without being in the database, and how far the clocks of two machines may differ."""


class Records:
    """All runs of a database."""

    def __init__(
        self,
        engine: Engine,
        recorder: Recorder,
        database: Database,
        *,
        now: Callable[[], datetime],
        orphans: Orphans | None = None,
    ) -> None:
        self.orphans = orphans or Orphans(database, seconds=inf)
        self._engine = engine
        self._recorder = recorder
        self._database = database
        self._now = now
        self.watching = Watching(database)

    def alive(self, project: str, run: str) -> Run | None:
        """A run of this process that has not ended."""
        found = self._engine.find(run)
        return found if found is not None and found.origin.project == project else None

    async def row(self, project: str, run: str) -> RunRow:
        """One run; RunNotFound for an unknown one, or another project's."""
        return _given(await self._sought(runs.get, project, run), run)

    async def whole(self, project: str, run: str) -> Whole:
        """One run, with all that is kept of it."""
        return _given(await self._sought(runs.whole, project, run), run)

    async def log(self, project: str, run: str) -> Sequence[Event]:
        """All its events so far."""
        alive = self.alive(project, run)
        return alive.log.copy() if alive else await self._database.read(events.after, project, run)

    async def first(self, row: RunRow) -> RunStarted:
        """What a run said first; of one that has not begun, or whose log was not kept, what is known of it."""
        log = await self.log(row.project, row.id)
        return log[0] if log and isinstance(log[0], RunStarted) else started(row)

    async def log_of(self, row: RunRow) -> Sequence[Event]:
        """The same of a run as it was found: if it had ended, to its end, though readers here may not know yet."""
        if row.ended_at is None:
            return await self.log(row.project, row.id)
        return await self._database.read(events.after, row.project, row.id)

    async def follow(self, project: str, run: str, after: int = -1) -> AsyncGenerator[Sequence[Event]]:
        """Every event after that `seq`, in batches as they come, until the last."""
        if self.alive(project, run) is None and (told := self._recorder.remembered(project, run)):
            if batch := told[after + 1 :]:
                yield batch
            return
        if self.alive(project, run) is None:
            async with aclosing(self._follow_elsewhere(project, run, after)) as batches:
                async for batch in batches:
                    after = batch[-1].seq
                    yield batch
        if (alive := self.alive(project, run)) is not None:  # From the start, or because it waited and begins here.
            with self.orphans.reading(run):
                async for batch in alive.follow(after):
                    yield batch

    async def _follow_elsewhere(self, project: str, run: str, after: int) -> AsyncGenerator[Sequence[Event]]:
        """The same of a run of another process, until it ends, or turns out to be ours."""
        with self.watching.of(run) as news:
            note_at, known = -inf, False
            while True:
                try:
                    row, batch = await self._database.read(_since, project, run, after)
                except Overloaded:
                    if not known:
                        raise
                    await asyncio.sleep(PATIENCE)  # Whoever follows already is told the rest when the database is back.
                    continue
                known = True
                if batch:
                    after = batch[-1].seq
                    yield batch
                if _given(row, run).ended_at is not None or self.alive(project, run) is not None:
                    return
                if time.monotonic() >= note_at:
                    note_at = time.monotonic() + self.orphans.note_every
                    with suppress(Overloaded, DiskFull):
                        await self._database.write(runs.note_read, project, run, self._now())
                await news.come()

    async def cancel(self, project: str, run: str) -> RunRow:
        """Stop a run and wait until that is recorded; one that has ended stays as it is."""
        if (alive := self.alive(project, run)) is not None:
            alive.cancel()
            await alive.recorded()
            return await self.row(project, run)
        row = await self.row(project, run)
        if row.status == "queued" and await self._database.write(recording.cancel_waiting, project, run, self._now()):
            return await self.row(project, run)
        if row.is_alive:
            with self.watching.of(run) as news:
                await self._database.write(runs.ask_to_cancel, project, run, self._now())
                async with asyncio.timeout(_CANCEL_SECONDS):
                    while (row := await self.row(project, run)).is_alive:
                        await news.come()
        return row

    async def followed(self, names: Collection[str]) -> None:
        """Other processes follow these runs: if they are ours, tell whenever they grow; and tell that, from now on."""
        new = [name for name in names if self._engine.find(name) is not None and name not in self._recorder.followed]
        self._recorder.followed.update(new)
        if new:
            await self._database.write(notices.tell, "grew", new)

    async def written(self) -> None:
        """Wait until all that is known of runs here is in the database."""
        await self._recorder.flushed()

    async def _sought(self, ask: Callable[[Connection, str, str], T | None], project: str, run: str) -> T | None:
        """What the database says of a run; also of one that has only just begun, and is not there yet."""
        if self.alive(project, run) is not None:
            await self._recorder.flushed()
        found = await self._database.read(ask, project, run)
        if found is None and self._database.kind == "postgresql" and self._is_young(run):  # Another process has it.
            for _ in range(round(_YOUNG_SECONDS / LOOK)):
                await asyncio.sleep(LOOK)
                if (found := await self._database.read(ask, project, run)) is not None:
                    break
        return found

    def _is_young(self, run: str) -> bool:
        began, now = moment(run), self._now().timestamp()
        return began is not None and abs(now - began / 1000) < _YOUNG_SECONDS + _SKEW_SECONDS


def _since(db: Connection, project: str, run: str, after: int) -> tuple[RunRow | None, Sequence[Event]]:
    """How a run stands and what it said after that; in this order, so that of one that has ended nothing is missing."""
    return runs.get(db, project, run), events.after(db, project, run, after)


def started(row: RunRow) -> RunStarted:
    """What a run said first, or will say, but for what only its log knows."""
    return RunStarted(0, row.id, row.session, row.created_at, row.trace_id or "")


def _given(found: T | None, run: str) -> T:
    if found is None:
        raise RunNotFound(f"No run {run!r} is known here.")
    return found
