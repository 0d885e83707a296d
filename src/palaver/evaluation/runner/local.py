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

    def __init__(self, runs: SliceRunner, evaluation: Evaluation, slices: Iterable[Slice], concurrency: int) -> None:
        self._runs = runs
        self._evaluation = evaluation
        self._waiting = deque(slices)
        self._concurrency = concurrency
        self._going: dict[asyncio.Task[None], SliceRun] = {}
        self._is_stopped = not self._waiting
        self._project = self._waiting[0].project if self._waiting else ""

    async def run(self) -> Evaluation:
        """Run to the end, or until stopped; returns the evaluation."""
        if not self._waiting:
            return self._evaluation
        try:
            while self._going or (self._waiting and not self._is_stopped):
                self._begin()
                await asyncio.wait(list(self._going), timeout=STOP_POLL_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED)
                await self._heed()
        finally:
            await self._end()
        return await self._runs.database.read(evaluations.get_evaluation, self._project, self._evaluation.id)

    async def cancel(self) -> None:
        """Stop; recorded results stay."""
        await self._runs.database.write(
            evaluations.cancel_evaluation, self._project, self._evaluation.id, self._runs.now()
        )
        self._stop()

    def _begin(self) -> None:
        """Start slices while there is room."""
        while self._waiting and not self._is_stopped:
            room = self._concurrency - sum(run.slice.width for run in self._going.values())
            width = min(-(-self._concurrency // SLICES_PER_WORKFLOW), room)
            if width <= 0:
                return
            one = msgspec.structs.replace(self._waiting.popleft(), width=width)
            run = self._runs.run(one, on_stopped=lambda _: self._stop())
            task = asyncio.get_running_loop().create_task(run.work())
            self._going[task] = run
            task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        del self._going[task]
        if not task.cancelled():
            task.exception()  # The error was logged; the cells have no result.

    async def _heed(self) -> None:
        of = {(self._project, self._evaluation.id)}
        if not self._is_stopped and await self._runs.database.read(evaluation_slices.find_stopped, of):
            self._stop()

    def _stop(self) -> None:
        self._is_stopped = True
        for run in list(self._going.values()):
            run.stop()

    async def _end(self) -> None:
        """Return the slices that were not started."""
        self._stop()
        if self._going:
            await asyncio.wait(list(self._going))
        database, process = self._runs.database, self._runs.process
        for one in self._waiting:
            await database.write(evaluation_slices.release_slice, process, one, self._runs.now())
