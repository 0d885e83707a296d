"""Read, follow and cancel runs, whichever process they run in."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Sequence
from contextlib import aclosing, contextmanager, suppress
from datetime import datetime
from math import inf
from typing import TypeVar

from sqlalchemy import Connection

from palaver.core.events import Event, RunStarted
from palaver.core.ids import id_timestamp_ms
from palaver.engine.abandoned_runs import AbandonedRuns
from palaver.engine.engine import Engine
from palaver.engine.recorder import RETRY_DELAY_S, Recorder
from palaver.engine.run import Run
from palaver.errors import DiskFull, Overloaded, RunNotFound
from palaver.storage import notifications, run_log, runs
from palaver.storage.database import Database
from palaver.storage.runs import RunRow, StoredRun

POLL_INTERVAL_S, NOTIFIED_POLL_INTERVAL_S = 0.1, 1.0
"""Seconds until a run of another process is looked at again; rarely, if that one tells us when it grows."""


class RunWaiter:
    """Wakes one who waits for a run."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._is_told = False  # Did its process answer? Until then it may not know that we listen.
        self._event = asyncio.Event()

    def wake(self) -> None:
        """There is something to look at."""
        self._is_told = True
        self._event.set()

    async def wait(self) -> None:
        """Wait until there is something to look at, or it is time to look anyway."""
        with suppress(TimeoutError):
            async with asyncio.timeout(
                NOTIFIED_POLL_INTERVAL_S if self._is_told and self._database.receives_notifications else POLL_INTERVAL_S
            ):
                await self._event.wait()
        self._event.clear()


class RunWaiters:
    """The runs of other processes that somebody here waits for."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._watched: dict[str, set[RunWaiter]] = {}

    @contextmanager
    def waiting_for(self, run: str) -> Generator[RunWaiter]:
        """What is told of a run, from now on."""
        news = RunWaiter(self._database)
        self._watched.setdefault(run, set()).add(news)
        try:
            yield news
        finally:
            self._watched[run].discard(news)
            if not self._watched[run]:
                del self._watched[run]

    def wake(self, names: Collection[str]) -> None:
        """Other processes say that these runs of theirs grew, or ended."""
        for name in self._watched.keys() & names:
            for news in self._watched[name]:
                news.wake()

    def wake_all(self) -> None:
        """Anything may have happened: look at all of them."""
        self.wake(self._watched.keys())


T = TypeVar("T")

_CANCEL_TIMEOUT_S = 30
_START_GRACE_S, _CLOCK_SKEW_S = 2.0, 1.0
"""How long a run may be at work without being in the database, and how far the clocks of two machines may differ."""


class RunReader:
    """All runs of a database."""

    def __init__(
        self,
        engine: Engine,
        recorder: Recorder,
        database: Database,
        *,
        now: Callable[[], datetime],
        orphans: AbandonedRuns | None = None,
    ) -> None:
        self.abandoned = orphans or AbandonedRuns(database, seconds=inf)
        self._engine = engine
        self._recorder = recorder
        self._database = database
        self._now = now
        self.waiters = RunWaiters(database)

    def find_active(self, project: str, run: str) -> Run | None:
        """A run of this process that has not ended."""
        found = self._engine.find(run)
        return found if found is not None and found.origin.project == project else None

    async def get_row(self, project: str, run: str) -> RunRow:
        """One run; RunNotFound for an unknown one, or another project's."""
        return _require_run(await self._sought(runs.get_run, project, run), run)

    async def get_run(self, project: str, run: str) -> StoredRun:
        """One run, with all that is kept of it."""
        return _require_run(await self._sought(runs.get_stored_run, project, run), run)

    async def read_log(self, project: str, run: str) -> Sequence[Event]:
        """All its events so far."""
        alive = self.find_active(project, run)
        return alive.log.copy() if alive else await self._database.read(runs.read_events, project, run)

    async def get_started_event(self, row: RunRow) -> RunStarted:
        """What a run said first; of one that has not begun, or whose log was not kept, what is known of it."""
        log = await self.read_log(row.project, row.id)
        return log[0] if log and isinstance(log[0], RunStarted) else started_event(row)

    async def read_log_of(self, row: RunRow) -> Sequence[Event]:
        """The same of a run as it was found: if it had ended, to its end, though readers here may not know yet."""
        if row.ended_at is None:
            return await self.read_log(row.project, row.id)
        return await self._database.read(runs.read_events, row.project, row.id)

    async def follow(self, project: str, run: str, after: int = -1) -> AsyncGenerator[Sequence[Event]]:
        """Every event after that `seq`, in batches as they come, until the last."""
        if self.find_active(project, run) is None and (told := self._recorder.recent_events(project, run)):
            if batch := told[after + 1 :]:
                yield batch
            return
        if self.find_active(project, run) is None:
            async with aclosing(self._follow_elsewhere(project, run, after)) as batches:
                async for batch in batches:
                    after = batch[-1].seq
                    yield batch
        if (
            alive := self.find_active(project, run)
        ) is not None:  # From the start, or because it waited and begins here.
            with self.abandoned.reader(run):
                async for batch in alive.follow(after):
                    yield batch

    async def _follow_elsewhere(self, project: str, run: str, after: int) -> AsyncGenerator[Sequence[Event]]:
        """The same of a run of another process, until it ends, or turns out to be ours."""
        with self.waiters.waiting_for(run) as news:
            note_at, known = -inf, False
            while True:
                try:
                    row, batch = await self._database.read(_read_since, project, run, after)
                except Overloaded:
                    if not known:
                        raise
                    await asyncio.sleep(
                        RETRY_DELAY_S
                    )  # Whoever follows already is told the rest when the database is back.
                    continue
                known = True
                if batch:
                    after = batch[-1].seq
                    yield batch
                if _require_run(row, run).ended_at is not None or self.find_active(project, run) is not None:
                    return
                if time.monotonic() >= note_at:
                    note_at = time.monotonic() + self.abandoned.read_note_interval
                    with suppress(Overloaded, DiskFull):
                        await self._database.write(runs.set_read_at, project, run, self._now())
                await news.wait()

    async def cancel(self, project: str, run: str) -> RunRow:
        """Stop a run and wait until that is recorded; one that has ended stays as it is."""
        if (alive := self.find_active(project, run)) is not None:
            alive.cancel()
            await alive.wait_recorded()
            return await self.get_row(project, run)
        row = await self.get_row(project, run)
        if row.status == "queued" and await self._database.write(run_log.cancel_queued_run, project, run, self._now()):
            return await self.get_row(project, run)
        if row.is_alive:
            with self.waiters.waiting_for(run) as news:
                await self._database.write(runs.request_cancel, project, run, self._now())
                async with asyncio.timeout(_CANCEL_TIMEOUT_S):
                    while (row := await self.get_row(project, run)).is_alive:
                        await news.wait()
        return row

    async def report_growth(self, names: Collection[str]) -> None:
        """Other processes follow these runs: if they are ours, tell whenever they grow; and tell that, from now on."""
        new = [
            name for name in names if self._engine.find(name) is not None and name not in self._recorder.followed_runs
        ]
        self._recorder.followed_runs.update(new)
        if new:
            await self._database.write(notifications.notify, "grew", new)

    async def flush(self) -> None:
        """Wait until all that is known of runs here is in the database."""
        await self._recorder.flush()

    async def _sought(self, ask: Callable[[Connection, str, str], T | None], project: str, run: str) -> T | None:
        """What the database says of a run; also of one that has only just begun, and is not there yet."""
        if self.find_active(project, run) is not None:
            await self._recorder.flush()
        found = await self._database.read(ask, project, run)
        if found is None and self._database.kind == "postgresql" and self._is_young(run):  # Another process has it.
            for _ in range(round(_START_GRACE_S / POLL_INTERVAL_S)):
                await asyncio.sleep(POLL_INTERVAL_S)
                if (found := await self._database.read(ask, project, run)) is not None:
                    break
        return found

    def _is_young(self, run: str) -> bool:
        began, now = id_timestamp_ms(run), self._now().timestamp()
        return began is not None and abs(now - began / 1000) < _START_GRACE_S + _CLOCK_SKEW_S


def _read_since(db: Connection, project: str, run: str, after: int) -> tuple[RunRow | None, Sequence[Event]]:
    """How a run stands and what it said after that; in this order, so that of one that has ended nothing is missing."""
    return runs.get_run(db, project, run), runs.read_events(db, project, run, after)


def started_event(row: RunRow) -> RunStarted:
    """What a run said first, or will say, but for what only its log knows."""
    return RunStarted(0, row.id, row.session, row.created_at, row.trace_id or "")


def _require_run(found: T | None, run: str) -> T:
    if found is None:
        raise RunNotFound(f"No run {run!r} is known here.")
    return found
