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
from contextlib import suppress
from datetime import datetime
from math import inf

from palaver.engine.crash_recovery import CrashRecovery
from palaver.engine.engine import Engine
from palaver.engine.tracing import RunTracer
from palaver.errors import PalaverError
from palaver.storage import background_runs, runs
from palaver.storage.background_runs import Process, ProcessKind
from palaver.storage.database import Database

log = logging.getLogger("palaver.run")

HEARTBEAT_INTERVAL_S = 5.0
DEAD_AFTER_BEATS = 5
"""Missed heartbeats after which a process counts as dead."""
_DEAF_AFTER_BEATS = 3
"""Heartbeats for which this process could not read the database; then the silence of others means nothing."""
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
        at = now()
        self._process = Process(
            id=process_id,
            kind=kind,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=version,
            started_at=at,
            seen_at=at,
        )
        self._database = database
        self._engine = engine
        self._now = now
        self._monotonic = monotonic
        self._interval = interval
        self._recovery = CrashRecovery(database, now=now, monotonic=monotonic, tracer=tracer, on_dead=on_dead)
        self._last_read = -inf
        """When the heartbeats of other processes were last read."""
        self._heartbeats: dict[str, tuple[datetime, float]] = {}
        """For each process its last heartbeat, and when this process first saw it."""
        self._wakeup = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, *, only_server: bool) -> None:
        """Register this process. The only server of a database treats all other servers as dead."""
        await self._database.write(background_runs.register_process, self._process)
        if only_server:
            others = [
                one.id for one in await self._list_processes() if one.kind == "server" and one.id != self._process.id
            ]
            await self._recovery.end_runs(others)
            await self._recovery.release_threads(after=0)
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
        others = [one for one in await self._list_processes() if one.id != self._process.id]
        now = self._monotonic()
        if now - self._last_read > _DEAF_AFTER_BEATS * self._interval:
            self._heartbeats = {}  # The database was unreachable, or this process was suspended.
            self._recovery.forget_claims()
        self._last_read = now
        previous = {one.id: self._heartbeats.get(one.id, (one.seen_at, now)) for one in others}
        self._heartbeats = {
            one.id: (one.seen_at, now) if previous[one.id][0] != one.seen_at else previous[one.id] for one in others
        }
        await self._recovery.end_runs(
            [name for name, (_, since) in self._heartbeats.items() if now - since >= DEAD_AFTER_BEATS * self._interval]
        )
        await self._recovery.release_threads(after=DEAD_AFTER_BEATS * self._interval)

    async def apply_cancel_requests(self) -> None:
        """Cancel runs of this process for which another process requested it."""
        if self._engine.active_count:
            for run in await self._database.read(runs.list_cancel_requests, self._process.id):
                if (alive := self._engine.find(run)) is not None:
                    alive.cancel()

    def wake(self) -> None:
        """Check for cancel requests now."""
        self._wakeup.set()

    async def _list_processes(self) -> list[Process]:
        return await self._database.read(background_runs.list_processes)

    async def _beat_loop(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            await self._log_errors(self.beat)

    async def _cancel_loop(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(
                    NOTIFIED_CANCEL_POLL_S if self._database.receives_notifications else CANCEL_POLL_S
                ):
                    await self._wakeup.wait()
            self._wakeup.clear()
            await self._log_errors(self.apply_cancel_requests)

    async def _log_errors(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except PalaverError as error:
            log.debug("This process could not say that it is alive: %s", error.message)
        except Exception:
            log.exception("Looking after runs failed")
