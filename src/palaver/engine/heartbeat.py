"""This process, among those at work on one database: it says that it is alive, and ends the runs of those that died.

Whether another one is alive is told by this process's own clock, which nobody can set: what counts is for how long the
other has not been heard of here, not what it says the time is.
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

from palaver.engine.engine import Engine
from palaver.engine.tracing import RunTracer, load_interrupted_run
from palaver.errors import PalaverError
from palaver.storage import processes, queue, run_log, runs
from palaver.storage.database import Database
from palaver.storage.processes import Process, ProcessKind
from palaver.storage.threads import repository as threads

log = logging.getLogger("palaver.run")

HEARTBEAT_INTERVAL_S = 5.0
"""Seconds after which a process says again that it is alive."""
DEAD_AFTER_BEATS = 5
"""Beats of silence after which it is taken for dead."""
_DEAF_AFTER_BEATS = 3
"""Beats for which we heard nobody, after which silence says nothing of the others."""
CANCEL_POLL_S, NOTIFIED_CANCEL_POLL_S = 0.25, 2.0
"""Seconds after which it looks again whether somebody wants one of its runs to end; rarely, if it would be told."""


def new_process_id() -> str:
    """A name that no other process has, now or later."""
    return f"{socket.gethostname()[:24]}-{os.getpid()}-{secrets.token_hex(6)}"


class Heartbeat:
    """This process's own, from `begin` to `end`."""

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
        tracing: RunTracer | None = None,
        on_dead: Callable[[Sequence[str]], Awaitable[None]] | None = None,
    ) -> None:
        at = now()
        self._me = Process(
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
        self._tracing = tracing
        self._died = on_dead  # Told of those that died, before they are forgotten: others may have to do with them.
        self._now = now
        self._monotonic = monotonic
        self._every = interval
        self._listened = -inf
        """When we last heard what others say."""
        self._heard: dict[str, tuple[datetime, float]] = {}
        """Of each process what it said last, and when that was new here."""
        self._asked = asyncio.Event()
        self._taken: dict[tuple[str, str, str], float] = {}
        """Threads that are taken for a run that is not there, and since when."""
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, *, only_server: bool) -> None:
        """Say that we are here. The only server of a database knows that all others have died."""
        await self._database.write(processes.register_process, self._me)
        if only_server:
            others = [one.id for one in await self._known() if one.kind == "server" and one.id != self._me.id]
            await self._bury(others)
            await self._release(after=0)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._beat_on()), loop.create_task(self._listen_on())]

    async def stop(self) -> None:
        """Say that we are gone."""
        if not self._tasks:
            return
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        with suppress(PalaverError):
            await self._database.write(processes.remove_processes, [self._me.id])

    async def beat(self) -> None:
        """Say that we are alive, and see who is not."""
        await self._database.write(processes.record_heartbeat, self._me, self._now())
        known = [one for one in await self._known() if one.id != self._me.id]
        now = self._monotonic()
        if now - self._listened > _DEAF_AFTER_BEATS * self._every:
            self._heard, self._taken = {}, {}  # The database was away, or we were.
        self._listened = now
        heard = {one.id: self._heard.get(one.id, (one.seen_at, now)) for one in known}
        self._heard = {
            one.id: (one.seen_at, now) if heard[one.id][0] != one.seen_at else heard[one.id] for one in known
        }
        await self._bury(
            [name for name, (_, since) in self._heard.items() if now - since >= DEAD_AFTER_BEATS * self._every]
        )
        await self._release(after=DEAD_AFTER_BEATS * self._every)

    async def apply_cancel_requests(self) -> None:
        """End those of our runs that somebody asked another process to end."""
        if self._engine.active_count:
            for run in await self._database.read(runs.list_cancel_requests, self._me.id):
                if (alive := self._engine.find(run)) is not None:
                    alive.cancel()

    def wake(self) -> None:
        """Somebody asked for the end of a run of ours, as we were told: see to it at once."""
        self._asked.set()

    async def _bury(self, dead: list[str]) -> None:
        """End the runs of processes that died, and forget those. Where others do the same, each run is ended once."""
        left = await self._database.read(runs.list_unfinished_of, dead) if dead else []
        left += await self._database.read(runs.list_unfinished_of_unknown)
        for row in left:
            if await self._database.write(queue.requeue_run, row):
                log.warning("The process of run %s died; it begins anew.", row.id)
            elif await self._database.write(run_log.interrupt_run, row.project, row.id, self._now()):
                log.warning("The process of run %s died; what it had said is kept.", row.id)
                if self._tracing is not None and (
                    facts := await self._database.read(load_interrupted_run, row.project, row.id)
                ):
                    self._tracing.add_run(facts)
        if self._died is not None:
            await self._died(dead)
        if dead:
            await self._database.write(processes.remove_processes, dead)

    async def _release(self, *, after: float) -> None:
        """Let others answer in threads that were taken for a run which never began: whoever took them has died."""
        now = self._monotonic()
        taken = await self._database.read(threads.list_stale_claims)
        self._taken = {one: self._taken.get(one, now) for one in taken}
        for project, thread, run in [one for one, since in self._taken.items() if now - since >= after]:
            await self._database.write(threads.release_thread, project, thread, run)

    async def _known(self) -> list[Process]:
        return await self._database.read(processes.list_processes)

    async def _beat_on(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            await self._carefully(self.beat)

    async def _listen_on(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(
                    NOTIFIED_CANCEL_POLL_S if self._database.receives_notifications else CANCEL_POLL_S
                ):
                    await self._asked.wait()
            self._asked.clear()
            await self._carefully(self.apply_cancel_requests)

    async def _carefully(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except PalaverError as error:
            log.debug("This process could not say that it is alive: %s", error.message)
        except Exception:
            log.exception("Looking after runs failed")
