"""The evaluation worker of a process: takes waiting slices, and returns those that it cannot finish.

All state is in the database: a slice runs only cells that have no result yet, whoever had it before.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from palaver.engine.engine import Engine
from palaver.engine.poller import Poller
from palaver.storage.database import Database
from palaver.storage.evaluations import slices
from palaver.storage.evaluations.slices import Slice

if TYPE_CHECKING:
    from palaver.evaluation.runner.slice_runner import SliceRun, SliceRunner

log = logging.getLogger("palaver.evaluation")

POLL_INTERVAL_S, BUSY_POLL_INTERVAL_S, RUNNING_POLL_INTERVAL_S = 1.0, 0.2, 0.25
"""Seconds between polls: when idle, when slices wait, and while slices run."""


class EvaluationWorker:
    """One per process, from `begin` to `end`."""

    def __init__(
        self,
        engine: Engine,
        database: Database,
        *,
        process: str,
        names: Callable[[], Collection[str]],
        make_runner: "Callable[[], SliceRunner]",
        max_cells: int,
        now: Callable[[], datetime],
        poll_interval: float = POLL_INTERVAL_S,
    ) -> None:
        self._engine = engine
        self._database = database
        self._process = process
        self._names = names
        self._make = make_runner  # Imported with the first slice: most servers never have one.
        self._runs: SliceRunner | None = None
        self._most = max_cells
        self._now = now
        self._look = poll_interval
        self._going: dict[asyncio.Task[None], SliceRun] = {}
        self._looking = Poller(self._look_once, subject="Evaluations that wait", log=log, retry_delay=poll_interval)
        self._polls = False

    @property
    def running(self) -> int:
        """Number of running slices."""
        return len(self._going)

    def start(self, *, polls: bool = True) -> None:
        """Start polling. Without `polls`, look only when woken: no other process uses the database."""
        self._polls = polls
        if polls:
            self._looking.start()

    def wake(self) -> None:
        """Called when slices wait, or must stop."""
        self._looking.start()
        self._looking.wake()

    def check_stopped(self) -> None:
        """Called when an evaluation must stop."""
        if self._going:
            self._looking.wake()

    async def release_slices_of(self, dead: Sequence[str]) -> None:
        """Release the slices of dead processes and of unknown ones."""
        if not dead and not await self._database.read(slices.has_lost_slices):
            return
        if count := await self._database.write(slices.requeue_lost_slices, dead, self._now()):
            log.warning("A process died that ran %d slices of evaluations; they go on elsewhere.", count)
            self.wake()

    async def stop(self) -> None:
        """Cancel running calls and return all slices."""
        await self._looking.stop()
        self._leave()
        if self._going:
            await asyncio.wait(list(self._going))

    async def _look_once(self) -> float | None:
        """Stop and take slices; returns the seconds until the next poll."""
        await self._heed()
        waits = await self._take()
        if self._going:
            return RUNNING_POLL_INTERVAL_S
        if waits:
            return self._look if self._engine.is_draining else BUSY_POLL_INTERVAL_S
        if self._runs is not None:
            self._runs.drop_unused()
        return self._look if self._polls else None

    def _leave(self) -> None:
        for run in self._going.values():
            run.stop(immediately=True)

    async def _heed(self) -> None:
        """Stop slices of stopped evaluations; return all if the process is draining."""
        if self._engine.is_draining:
            self._leave()
        elif named := {run.slice.evaluation_key for run in self._going.values()}:
            for of in await self._database.read(slices.find_stopped, named):
                self._stop(of)

    def _stop(self, of: tuple[str, str]) -> None:
        for run in self._going.values():
            if run.slice.evaluation_key == of:
                run.stop()

    async def _take(self) -> bool:
        """Take slices while there is room. True if any slice waits."""
        if self._engine.is_draining:
            return False
        free = self._most - sum(run.slice.width for run in self._going.values())
        if not await self._database.read(slices.has_waiting_slices):
            return False
        if free > 0:
            runs = self._runs = self._runs or await asyncio.to_thread(self._make)
            # One at a time, so that processes that poll at the same moment share them.
            names, now = self._names(), self._now()
            for one in await self._database.write(slices.claim_slices, self._process, names, free, now, limit=1):
                self._looking.wake()
                self._begin(runs, one)
        return True

    def _begin(self, runs: "SliceRunner", one: Slice) -> None:
        run = runs.run(one, on_stopped=self._stop)
        task = asyncio.get_running_loop().create_task(run.work())
        self._going[task] = run
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._going.pop(task)
        self._looking.wake()
