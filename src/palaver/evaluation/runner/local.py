"""Run a whole evaluation in this process, for commands without a server."""

import asyncio
from collections import deque
from collections.abc import Iterable

import msgspec

from palaver.evaluation.runner.slice_runner import SliceRun, SliceRunner
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import slices as evaluation_slices
from palaver.storage.evaluations.repository import Evaluation
from palaver.storage.evaluations.slices import SLICES_PER_WORKFLOW, Slice

STOP_POLL_INTERVAL_S = 0.25
"""Seconds between checks whether the evaluation was stopped."""


class LocalRunner:
    """Runs the slices of one evaluation concurrently."""

    def __init__(self, runner: SliceRunner, evaluation: Evaluation, slices: Iterable[Slice], concurrency: int) -> None:
        self._runner = runner
        self._evaluation = evaluation
        self._pending = deque(slices)
        self._concurrency = concurrency
        self._tasks: dict[asyncio.Task[None], SliceRun] = {}
        self._is_stopped = not self._pending
        self._project = self._pending[0].project if self._pending else ""

    async def run(self) -> Evaluation:
        """Run to the end, or until stopped; returns the evaluation."""
        if not self._pending:
            return self._evaluation
        keys = {(self._project, self._evaluation.id)}
        try:
            while self._tasks or (self._pending and not self._is_stopped):
                self._start_slices()
                await asyncio.wait(list(self._tasks), timeout=STOP_POLL_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED)
                if not self._is_stopped and await self._runner.database.read(evaluation_slices.find_stopped, keys):
                    self._stop()
        finally:
            await self._finish()
        return await self._runner.database.read(evaluations.get_evaluation, self._project, self._evaluation.id)

    async def cancel(self) -> None:
        """Cancel the evaluation; results that were recorded stay."""
        await self._runner.database.write(
            evaluations.cancel_evaluation, self._project, self._evaluation.id, self._runner.now()
        )
        self._stop()

    def _start_slices(self) -> None:
        while self._pending and not self._is_stopped:
            free_width = self._concurrency - sum(run.slice.width for run in self._tasks.values())
            width = min(-(-self._concurrency // SLICES_PER_WORKFLOW), free_width)
            if width <= 0:
                return
            slice_ = msgspec.structs.replace(self._pending.popleft(), width=width)
            run = self._runner.run(slice_, on_stopped=lambda _: self._stop())
            task = asyncio.get_running_loop().create_task(run.work())
            self._tasks[task] = run
            task.add_done_callback(self._on_done)

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        del self._tasks[task]
        if not task.cancelled():
            task.exception()  # The error was logged; the cells have no result.

    def _stop(self) -> None:
        self._is_stopped = True
        for run in list(self._tasks.values()):
            run.stop()

    async def _finish(self) -> None:
        """Stop, wait for the running slices, and release those that were not started."""
        self._stop()
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        database, process = self._runner.database, self._runner.process
        for slice_ in self._pending:
            await database.write(evaluation_slices.release_slice, process, slice_, self._runner.now())
