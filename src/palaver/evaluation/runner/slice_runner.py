"""Run slices in this process, `slice.width` cells at a time. Each result is stored soon after its cell ends."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime

import msgspec

from palaver.engine.engine import Engine
from palaver.errors import NotFound, PalaverError
from palaver.evaluation.context import EvaluatorContext
from palaver.evaluation.plan.plan import Plan, slice_cells
from palaver.evaluation.registry import EvaluatorRegistry
from palaver.evaluation.runner.call import Prices, WorkflowCaller
from palaver.evaluation.runner.cell import CellRunner, bind_planned
from palaver.evaluation.runner.rate_limit import RateLimiter
from palaver.evaluation.runner.result_writer import RETRY_INTERVAL_S, CaseRedactor, ResultWriter
from palaver.evaluation.score import EvaluationAborted
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results, slices
from palaver.storage.evaluations.results import RecordOutcome
from palaver.storage.evaluations.slices import Slice
from palaver.storage.testsets import rows as testset_rows
from palaver.workflows.workflow import Workflow

log = logging.getLogger("palaver.evaluation")

SERIAL_AFTER_DEATHS, FAIL_AFTER_DEATHS = 3, 5
"""Crashes after which a slice runs one cell at a time, and after which the next cell is failed as their cause."""
Redact = Callable[[str, str | None], CaseRedactor | None]
_CellRunners = dict[tuple[str, str], tuple[CellRunner, int]]
"""By project and evaluation, each with the number of its users."""


@dataclass(eq=False, repr=False)
class SliceRunner:
    """Runs the slices of a process, and caches a cell runner per evaluation."""

    engine: Engine
    database: Database
    _: KW_ONLY
    process: str
    find_workflow: Callable[[str], Workflow]
    evaluators: EvaluatorRegistry
    context: EvaluatorContext
    now: Callable[[], datetime]
    redact: Redact | None = None
    prices: Prices | None = None
    _cell_runners: _CellRunners = field(default_factory=_CellRunners, init=False)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def run(self, slice_: Slice, *, on_stopped: Callable[[tuple[str, str]], None]) -> "SliceRun":
        """Prepare a slice. `on_stopped` is called when its evaluation must stop."""
        return SliceRun(self, slice_, on_stopped)

    async def acquire_cells(self, evaluation_key: tuple[str, str]) -> CellRunner:
        """Return the cell runner of an evaluation, created with its first slice and cached while in use."""
        async with self._lock:
            cached = self._cell_runners.get(evaluation_key)
            if cached is None:
                self.drop_unused()
            cells, users = (await self._load(evaluation_key), 0) if cached is None else cached
            self._cell_runners[evaluation_key] = cells, users + 1
            return cells

    def release_cells(self, evaluation_key: tuple[str, str]) -> None:
        cells, users = self._cell_runners[evaluation_key]
        self._cell_runners[evaluation_key] = cells, users - 1

    def drop_unused(self) -> None:
        self._cell_runners = {key: (cells, users) for key, (cells, users) in self._cell_runners.items() if users}

    async def _load(self, evaluation_key: tuple[str, str]) -> CellRunner:
        planned = await self.database.read(evaluations.get_planned, *evaluation_key)
        plan = msgspec.convert(planned.plan, Plan)
        rate, limits = plan.limits.rate, plan.limits
        context = self.context.for_project(evaluation_key[0], planned.evaluation.key)
        throttle = None if rate is None else RateLimiter(self.database, *evaluation_key, rate, self.now).wait
        return CellRunner(
            *evaluation_key,
            plan,
            planned.rows,
            key=planned.evaluation.key,
            caller=WorkflowCaller(
                self.engine, timeout=limits.timeout, retries=limits.retries, throttle=throttle, prices=self.prices
            ),
            find_workflow=self.find_workflow,
            evaluators=[bind_planned(self.evaluators, evaluator, context) for evaluator in plan.evaluators],
            context=context,
            redact=self.redact,
            now=self.now,
        )


class SliceRun:
    """One slice that this process has claimed, from start to release."""

    def __init__(self, owner: SliceRunner, slice_: Slice, on_stopped: Callable[[tuple[str, str]], None]) -> None:
        self.slice = slice_
        self._owner = owner
        self._on_stopped = on_stopped
        self._workers: list[asyncio.Task[None]] = []
        self._is_stopped = False
        self._is_lost = False
        self._abort: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def stop(self, *, immediately: bool = False) -> None:
        """Start no more cells and cancel running ones. `immediately`: don't wait for the database either."""
        if not self._is_stopped:
            self._is_stopped = True
            for worker in self._workers:
                worker.cancel()
        if immediately and not self._abort.done():
            self._abort.set_result(None)

    async def work(self) -> None:
        """Run the remaining cells, then release the slice. Raises nothing."""
        is_complete = is_broken = False
        try:
            is_complete = await self._run_remaining()
        except NotFound:
            self._is_lost = True  # The evaluation was deleted.
        except PalaverError as error:
            log.warning("Failed to run a slice of %s, retrying: %s", self.slice.evaluation, error.message)
            is_broken = True
        except Exception:
            log.exception("Failed to run a slice of %s, retrying", self.slice.evaluation)
            is_broken = True
        await self._release(is_complete=is_complete)
        if self._workers:
            await asyncio.wait(self._workers)
        if is_broken:
            await asyncio.wait([self._abort], timeout=RETRY_INTERVAL_S)  # Let another process claim it.

    async def _run_remaining(self) -> bool:
        runner = await self._owner.acquire_cells(self.slice.evaluation_key)
        try:
            return await self._run(runner)
        finally:
            self._owner.release_cells(self.slice.evaluation_key)

    async def _run(self, runner: CellRunner) -> bool:
        """Run the cells; True if all were stored."""
        owner, slice_ = self._owner, self.slice
        cells = slice_cells(runner.plan, slice_)
        recorded = await owner.database.read(results.find_recorded_cells, *slice_.evaluation_key, cells)
        remaining = [cell for cell in cells if cell not in recorded]
        writer = ResultWriter(
            owner.database, owner.process, slice_, runner.stop_conditions, now=owner.now, on_recorded=self._on_recorded
        )
        if remaining and slice_.attempts >= FAIL_AFTER_DEATHS:
            message = "Every process that ran this cell crashed."
            writer.add(runner.failed_result(remaining.pop(0), "process_died", message))
        hashes = [runner.row_hash(cell) for cell in remaining]
        contents = await owner.database.read(testset_rows.read_contents, slice_.project, runner.plan.testset.id, hashes)
        width = 1 if slice_.attempts >= SERIAL_AFTER_DEATHS else slice_.width
        pending = iter(remaining)
        for _ in range(0 if self._is_stopped else min(width, len(remaining))):
            work = self._run_cells(runner, pending, contents, writer)
            self._workers.append(asyncio.get_running_loop().create_task(work))
        workers_done = asyncio.gather(*self._workers, return_exceptions=True)
        await asyncio.wait([workers_done, self._abort], return_when=asyncio.FIRST_COMPLETED)
        if self._is_lost:
            writer.discard()
        await writer.flush(retry=not self._abort.done())
        return workers_done.done() and not self._is_stopped and not any(workers_done.result())

    async def _run_cells(
        self, runner: CellRunner, pending: Iterator[int], contents: dict[bytes, bytes], writer: ResultWriter
    ) -> None:
        """Run cell after cell; one of `width` tasks."""
        for cell in pending:
            if self._is_stopped:
                return
            try:
                result = await runner.run(cell, contents.get(runner.row_hash(cell)))
            except EvaluationAborted:
                self.stop(immediately=True)
                return
            except Exception:  # A bug in Palaver; other cells continue.
                log.exception("Failed to run cell %d of %s", cell, self.slice.evaluation)
                result = runner.failed_result(cell, "internal", "Internal error. See the server log.")
            writer.add(result)

    def _on_recorded(self, outcome: RecordOutcome) -> None:
        if not outcome.is_ours:
            self._is_lost = True
            self.stop(immediately=True)
        elif outcome.is_stopped and not self._is_stopped:
            self._on_stopped(self.slice.evaluation_key)

    async def _release(self, *, is_complete: bool) -> None:
        owner = self._owner
        while not self._is_lost:
            try:
                end_or_release = slices.end_slice if is_complete else slices.release_slice
                await owner.database.write(end_or_release, owner.process, self.slice, owner.now())
            except PalaverError as error:
                if self._abort.done():
                    return  # Another process will release it when it finds this one dead.
                log.warning("Failed to release a slice, retrying: %s", error.message)
                await asyncio.sleep(RETRY_INTERVAL_S)
            else:
                return
