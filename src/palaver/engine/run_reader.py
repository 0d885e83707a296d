"""Read, follow and cancel runs, whichever process they run in.

A run that is active in this process is read from its own log; any other from the database, repeatedly until it ends. A
process announces new events of a run only when a follower asks for it, since every notification slows down other
writes; the follower polls often until the first notification arrives.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Sequence
from contextlib import aclosing, contextmanager, suppress
from datetime import datetime
from math import inf
from typing import TypeVar

from sqlalchemy import Connection

from palaver.core.events import Event, RunStarted
from palaver.core.ids import id_timestamp_ms
from palaver.engine.engine import Engine
from palaver.engine.poller import wait_for_event
from palaver.engine.recorder import RETRY_DELAY_S, Recorder
from palaver.engine.run import Run
from palaver.engine.unread_runs import UnreadRuns
from palaver.errors import DiskFull, Overloaded, RunNotFound
from palaver.storage import notifications, run_log, runs
from palaver.storage.database import Database
from palaver.storage.runs import RunRow, StoredRun

log = logging.getLogger("palaver.run")


POLL_INTERVAL_S, NOTIFIED_POLL_INTERVAL_S = 0.1, 1.0
"""Seconds between reads of a run of another process; longer once that process sends notifications."""


class RunWaiter:
    """Wakes one follower of a run."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._is_notified = False  # Whether the other process has sent a notification.
        self._event = asyncio.Event()

    def wake(self) -> None:
        self._is_notified = True
        self._event.set()

    async def wait(self) -> None:
        """Wait for a notification, or until it is time to poll."""
        is_notified = self._is_notified and self._database.receives_notifications
        await wait_for_event(self._event, NOTIFIED_POLL_INTERVAL_S if is_notified else POLL_INTERVAL_S)
        self._event.clear()


class RunWaiters:
    """Followers in this process of runs in other processes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiters: dict[str, set[RunWaiter]] = {}

    @contextmanager
    def waiter(self, run: str) -> Generator[RunWaiter]:
        """Register a follower of a run."""
        waiter = RunWaiter(self._database)
        self._waiters.setdefault(run, set()).add(waiter)
        try:
            yield waiter
        finally:
            self._waiters[run].discard(waiter)
            if not self._waiters[run]:
                del self._waiters[run]

    def wake(self, run_ids: Collection[str]) -> None:
        """Wake the followers of runs that grew or ended in other processes."""
        for run_id in self._waiters.keys() & run_ids:
            for waiter in self._waiters[run_id]:
                waiter.wake()

    def wake_all(self) -> None:
        """Wake all followers: notifications may have been lost."""
        self.wake(self._waiters.keys())


T = TypeVar("T")

_CANCEL_TIMEOUT_S = 30
_START_GRACE_S, _CLOCK_SKEW_S = 2.0, 1.0
"""How long a new run may be missing from the database, and the tolerated difference between clocks."""


class RunReader:
    """Reads, follows and cancels the runs of a database."""

    def __init__(
        self,
        engine: Engine,
        recorder: Recorder,
        database: Database,
        *,
        now: Callable[[], datetime],
        unread_runs: UnreadRuns | None = None,
    ) -> None:
        self.unread_runs = unread_runs or UnreadRuns(database, seconds=inf)
        self._engine = engine
        self._recorder = recorder
        self._database = database
        self._now = now
        self.waiters = RunWaiters(database)

    def find_active(self, project: str, run: str) -> Run | None:
        """Return a run of this process that has not ended."""
        active = self._engine.find(run)
        return active if active is not None and active.origin.project == project else None

    async def get_row(self, project: str, run: str) -> RunRow:
        """Return the row of a run. Raises RunNotFound for an unknown run, or one of another project."""
        return _require_run(await self._query(runs.get_run, project, run), run)

    async def get_run(self, project: str, run: str) -> StoredRun:
        """Return a run with its call and reply. Raises RunNotFound."""
        return _require_run(await self._query(runs.get_stored_run, project, run), run)

    async def read_log(self, project: str, run: str) -> Sequence[Event]:
        """Return all events so far."""
        active = self.find_active(project, run)
        return active.log.copy() if active else await self._database.read(runs.read_events, project, run)

    async def get_started_event(self, row: RunRow) -> RunStarted:
        """Return the first event; rebuilt from the row if the run has not started or its log was not recorded."""
        log = await self.read_log(row.project, row.id)
        return log[0] if log and isinstance(log[0], RunStarted) else started_event(row)

    async def read_log_of(self, row: RunRow) -> Sequence[Event]:
        """Return the events of `row`; of a finished run from the database, so that the terminal event is included."""
        if row.ended_at is None:
            return await self.read_log(row.project, row.id)
        return await self._database.read(runs.read_events, row.project, row.id)

    async def follow(self, project: str, run: str, after: int = -1) -> AsyncGenerator[Sequence[Event]]:
        """Yield the events after seq `after`, in batches as they arrive, up to the last."""
        if self.find_active(project, run) is None and (events := self._recorder.recent_events(project, run)):
            if batch := events[after + 1 :]:
                yield batch
            return
        if self.find_active(project, run) is None:
            async with aclosing(self._follow_elsewhere(project, run, after)) as batches:
                async for batch in batches:
                    after = batch[-1].seq
                    yield batch
        # Active here from the start, or because it was queued and has started here.
        if (active := self.find_active(project, run)) is not None:
            with self.unread_runs.reader(run):
                async for batch in active.follow(after):
                    yield batch

    async def _follow_elsewhere(self, project: str, run: str, after: int) -> AsyncGenerator[Sequence[Event]]:
        """Follow a run of another process until it ends or starts in this one."""
        with self.waiters.waiter(run) as waiter:
            next_note_at, was_read = -inf, False
            while True:
                try:
                    row, batch = await self._database.read(_read_row_and_events, project, run, after)
                except Overloaded:
                    if not was_read:
                        raise
                    await asyncio.sleep(RETRY_DELAY_S)  # Continue when the database is back.
                    continue
                was_read = True
                if batch:
                    after = batch[-1].seq
                    yield batch
                if _require_run(row, run).ended_at is not None or self.find_active(project, run) is not None:
                    return
                if time.monotonic() >= next_note_at:
                    next_note_at = time.monotonic() + self.unread_runs.read_note_interval
                    with suppress(Overloaded, DiskFull):
                        await self._database.write(runs.set_read_at, project, run, self._now())
                await waiter.wait()

    async def cancel(self, project: str, run: str) -> RunRow:
        """Cancel a run and wait until its end is recorded. A run that has ended is not changed."""
        if (active := self.find_active(project, run)) is not None:
            active.cancel()
            await active.wait_recorded()
            return await self.get_row(project, run)
        row = await self.get_row(project, run)
        if row.status == "queued" and await self._database.write(run_log.cancel_queued_run, project, run, self._now()):
            return await self.get_row(project, run)
        if row.is_alive:
            with self.waiters.waiter(run) as waiter:
                await self._database.write(runs.request_cancel, project, run, self._now())
                async with asyncio.timeout(_CANCEL_TIMEOUT_S):
                    while (row := await self.get_row(project, run)).is_alive:
                        await waiter.wait()
        return row

    async def announce_growth(self, run_ids: Collection[str]) -> None:
        """Start announcing the growth of these runs, as far as they are active in this process."""
        followed = self._recorder.followed_runs
        new_ids = [run_id for run_id in run_ids if self._engine.find(run_id) is not None and run_id not in followed]
        followed.update(new_ids)
        if new_ids:
            await self._database.write(notifications.notify, "grew", new_ids)

    async def flush(self) -> None:
        """Write everything known about runs of this process to the database."""
        await self._recorder.flush()

    async def _query(self, query: Callable[[Connection, str, str], T | None], project: str, run: str) -> T | None:
        """Query a run, waiting for one that has just started and is not in the database yet."""
        if self.find_active(project, run) is not None:
            await self._recorder.flush()
        result = await self._database.read(query, project, run)
        # Another process may have started it.
        if result is None and self._database.kind == "postgresql" and self._is_recent(run):
            for _ in range(round(_START_GRACE_S / POLL_INTERVAL_S)):
                await asyncio.sleep(POLL_INTERVAL_S)
                if (result := await self._database.read(query, project, run)) is not None:
                    break
        return result

    def _is_recent(self, run: str) -> bool:
        created_ms, now = id_timestamp_ms(run), self._now().timestamp()
        return created_ms is not None and abs(now - created_ms / 1000) < _START_GRACE_S + _CLOCK_SKEW_S


def _read_row_and_events(db: Connection, project: str, run: str, after: int) -> tuple[RunRow | None, Sequence[Event]]:
    """Read the row and then the events, in this order, so that the log of an ended run is complete."""
    return runs.get_run(db, project, run), runs.read_events(db, project, run, after)


def started_event(row: RunRow) -> RunStarted:
    """Build the first event of a run from its row."""
    return RunStarted(0, row.id, row.session, row.created_at, row.trace_id or "")


def _require_run(row: T | None, run: str) -> T:
    if row is None:
        raise RunNotFound(f"Run {run!r} not found.")
    return row
