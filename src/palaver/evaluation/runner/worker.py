"""The evaluation worker of a process: claims waiting slices, and releases unfinished ones when it stops.

All state is in the database: a slice runs only cells that have no result yet, whichever process had it before.
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
    """Claims waiting slices and runs them. One per process."""

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
        self._make_runner = make_runner  # Called for the first slice: most servers never have one.
        self._runner: SliceRunner | None = None
        self._max_cells = max_cells
        self._now = now
        self._poll_interval = poll_interval
        self._tasks: dict[asyncio.Task[None], SliceRun] = {}
        self._poller = Poller(self._poll, subject="queued evaluations", log=log, retry_delay=poll_interval)
        self._polls = False

    @property
    def running(self) -> int:
        return len(self._tasks)

    def start(self, *, polls: bool = True) -> None:
        """Start polling. Without `polls`, poll only when woken: no other process uses the database."""
        self._polls = polls
        if polls:
            self._poller.start()

    def wake(self) -> None:
        """Poll now: slices are waiting, or must stop."""
        self._poller.start()
        self._poller.wake()

    def check_stopped(self) -> None:
        """Poll now if slices are running: an evaluation must stop."""
        if self._tasks:
            self._poller.wake()

    async def release_slices_of(self, dead_processes: Sequence[str]) -> None:
        if not dead_processes and not await self._database.read(slices.has_lost_slices):
            return
        if count := await self._database.write(slices.requeue_lost_slices, dead_processes, self._now()):
            log.warning("A process died while running %d evaluation slices; requeued them.", count)
            self.wake()

    async def stop(self) -> None:
        """Cancel running calls and release all slices."""
        await self._poller.stop()
        self._stop_all()
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    async def _poll(self) -> float | None:
        """Stop cancelled slices and claim one. Returns the seconds until the next poll."""
        await self._stop_cancelled()
        has_waiting_slices = await self._claim_slices()
        if self._tasks:
            return RUNNING_POLL_INTERVAL_S
        if has_waiting_slices:
            return self._poll_interval if self._engine.is_draining else BUSY_POLL_INTERVAL_S
        if self._runner is not None:
            self._runner.drop_unused()
        return self._poll_interval if self._polls else None

    def _stop_all(self) -> None:
        for run in self._tasks.values():
            run.stop(immediately=True)

    async def _stop_cancelled(self) -> None:
        """Stop slices of stopped evaluations, or all of them if the process is draining."""
        if self._engine.is_draining:
            self._stop_all()
        elif running := {run.slice.evaluation_key for run in self._tasks.values()}:
            for evaluation_key in await self._database.read(slices.find_stopped, running):
                self._stop_evaluation(evaluation_key)

    def _stop_evaluation(self, evaluation_key: tuple[str, str]) -> None:
        for run in self._tasks.values():
            if run.slice.evaluation_key == evaluation_key:
                run.stop()

    async def _claim_slices(self) -> bool:
        """Claim a slice if there is room for it. Return whether any slice was waiting."""
        if self._engine.is_draining:
            return False
        slots = self._max_cells - sum(run.slice.width for run in self._tasks.values())
        if not await self._database.read(slices.has_waiting_slices):
            return False
        if slots > 0:
            runner = self._runner = self._runner or await asyncio.to_thread(self._make_runner)
            # One at a time, so that processes that poll at the same moment share them.
            names, now = self._names(), self._now()
            for slice_ in await self._database.write(slices.claim_slices, self._process, names, slots, now, limit=1):
                self._poller.wake()
                self._start_slice(runner, slice_)
        return True

    def _start_slice(self, runner: "SliceRunner", slice_: Slice) -> None:
        run = runner.run(slice_, on_stopped=self._stop_evaluation)
        task = asyncio.get_running_loop().create_task(run.work())
        self._tasks[task] = run
        task.add_done_callback(self._on_done)

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(task)
        self._poller.wake()
