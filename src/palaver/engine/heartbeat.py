"""Report this process as alive in the database, and notice processes that died.

A process counts as dead when its heartbeat has not changed for a while by the monotonic clock of this process; its own
timestamps are only compared for change, so clocks need not agree.
"""

import asyncio
import logging
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from math import inf

from palaver.engine.crash_recovery import CrashRecovery
from palaver.engine.engine import Engine
from palaver.engine.poller import log_errors, wait_for_event
from palaver.engine.tracing import RunTracer
from palaver.errors import PalaverError
from palaver.storage import background_runs, runs
from palaver.storage.background_runs import Process, ProcessKind
from palaver.storage.database import Database

log = logging.getLogger("palaver.run")

HEARTBEAT_INTERVAL_S = 5.0
DEAD_AFTER_BEATS = 5
"""Missed heartbeats after which a process counts as dead."""
_STALE_AFTER_BEATS = 3
"""After as many heartbeats without reading the database, the silence of other processes means nothing."""
CANCEL_POLL_S, NOTIFIED_CANCEL_POLL_S = 0.25, 2.0
"""Seconds between checks for cancel requests; longer where notifications arrive."""


def new_process_id() -> str:
    """Return an id that no other process ever has."""
    return f"{socket.gethostname()[:24]}-{os.getpid()}-{secrets.token_hex(6)}"


class Heartbeat:
    """The heartbeat of this process, from `start` to `stop`."""

    def __init__(
        self,
        process_id: str,
        database: Database,
        engine: Engine,
        *,
        kind: ProcessKind,
        version: str,
        now: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
        interval: float = HEARTBEAT_INTERVAL_S,
        tracer: RunTracer | None = None,
        on_dead: Callable[[Sequence[str]], Awaitable[None]] | None = None,
    ) -> None:
        started_at = now()
        self._process = Process(
            id=process_id,
            kind=kind,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=version,
            started_at=started_at,
            seen_at=started_at,
        )
        self._database = database
        self._engine = engine
        self._now = now
        self._monotonic = monotonic
        self._interval = interval
        self._recovery = CrashRecovery(database, now=now, monotonic=monotonic, tracer=tracer, on_dead=on_dead)
        self._last_read_at = -inf
        """When the heartbeats of other processes were last read."""
        self._heartbeats: dict[str, tuple[datetime, float]] = {}
        """For each process its last heartbeat, and when this process first saw it."""
        self._wakeup = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, *, only_server: bool) -> None:
        """Register this process. The only server of a database treats all other servers as dead."""
        await self._database.write(background_runs.register_process, self._process)
        if only_server:
            processes = [process for process in await self._list_processes() if process.kind == "server"]
            await self._recovery.end_runs([process.id for process in processes if process.id != self._process.id])
            await self._recovery.release_threads(min_age_s=0)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._beat_loop()), loop.create_task(self._cancel_loop())]

    async def stop(self) -> None:
        """Unregister this process."""
        if not self._tasks:
            return
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        with suppress(PalaverError):
            await self._database.write(background_runs.remove_processes, [self._process.id])

    async def beat(self) -> None:
        """Write a heartbeat, and handle processes that died."""
        await self._database.write(background_runs.record_heartbeat, self._process, self._now())
        others = [process for process in await self._list_processes() if process.id != self._process.id]
        now = self._monotonic()
        if now - self._last_read_at > _STALE_AFTER_BEATS * self._interval:
            self._heartbeats = {}  # The database was unreachable, or this process was suspended.
            self._recovery.forget_claims()
        self._last_read_at = now
        previous = {other.id: self._heartbeats.get(other.id, (other.seen_at, now)) for other in others}
        self._heartbeats = {
            other.id: (other.seen_at, now) if previous[other.id][0] != other.seen_at else previous[other.id]
            for other in others
        }
        max_silence_s = DEAD_AFTER_BEATS * self._interval
        await self._recovery.end_runs(
            [process_id for process_id, (_, since) in self._heartbeats.items() if now - since >= max_silence_s]
        )
        await self._recovery.release_threads(min_age_s=max_silence_s)

    async def apply_cancel_requests(self) -> None:
        """Cancel runs of this process for which another process requested it."""
        if self._engine.active_count:
            for run_id in await self._database.read(runs.list_cancel_requests, self._process.id):
                if (run := self._engine.find(run_id)) is not None:
                    run.cancel()

    def wake(self) -> None:
        """Check for cancel requests now."""
        self._wakeup.set()

    async def _list_processes(self) -> list[Process]:
        return await self._database.read(background_runs.list_processes)

    async def _beat_loop(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            with self._log_errors():
                await self.beat()

    async def _cancel_loop(self) -> None:
        while True:
            interval_s = NOTIFIED_CANCEL_POLL_S if self._database.receives_notifications else CANCEL_POLL_S
            await wait_for_event(self._wakeup, interval_s)
            self._wakeup.clear()
            with self._log_errors():
                await self.apply_cancel_requests()

    def _log_errors(self) -> AbstractContextManager[None]:
        return log_errors(log, "Failed to record a heartbeat", "Failed to monitor runs")
