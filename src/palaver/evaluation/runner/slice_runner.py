"""Run slices in this process: as many cells at once as the slice is wide, each stored soon after it ends."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from datetime import datetime

import msgspec

from palaver.engine.engine import Engine
from palaver.errors import NotFound, PalaverError
from palaver.evaluation.context import EvaluatorContext
from palaver.evaluation.evaluator import BoundEvaluator
from palaver.evaluation.plan.plan import Plan, PlannedEvaluator, slice_cells
from palaver.evaluation.registry import EvaluatorRegistry
from palaver.evaluation.runner.call import Prices, WorkflowCaller
from palaver.evaluation.runner.cell import CellRunner, UnavailableEvaluator
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


class SliceRunner:
    """What all slices of a process share."""

    def __init__(
        self,
        engine: Engine,
        database: Database,
        *,
        process: str,
        find_workflow: Callable[[str], Workflow],
        evaluators: EvaluatorRegistry,
        context: EvaluatorContext,
        now: Callable[[], datetime],
        redact: Redact | None = None,
        prices: Prices | None = None,
    ) -> None:
        self.engine = engine
        self.database = database
        self.process = process
        self.now = now
        self._find = find_workflow
        self._evaluators = evaluators
        self._context = context
        self._redact = redact
        self._prices = prices
        self._jobs: dict[tuple[str, str], tuple[CellRunner, int]] = {}
        self._reading = asyncio.Lock()

    def run(self, one: Slice, *, on_stopped: Callable[[tuple[str, str]], None]) -> "SliceRun":
        """A slice to be run. `stopped` is called when its evaluation must stop."""
        return SliceRun(self, one, on_stopped)

    async def acquire_cells(self, of: tuple[str, str]) -> CellRunner:
        """The cell runner of an evaluation, created with its first slice and cached until `rest`."""
        async with self._reading:
            known = self._jobs.get(of)
            if known is None:
                self.drop_unused()
            job, users = (await self._read(of), 0) if known is None else known
            self._jobs[of] = job, users + 1
            return job

    def release_cells(self, of: tuple[str, str]) -> None:
        """Release the cell runner."""
        job, users = self._jobs[of]
        self._jobs[of] = job, users - 1

    def drop_unused(self) -> None:
        """Drop unused cell runners."""
        self._jobs = {of: (job, users) for of, (job, users) in self._jobs.items() if users}

    async def _read(self, of: tuple[str, str]) -> CellRunner:
        planned = await self.database.read(evaluations.get_planned, *of)
        plan = msgspec.convert(planned.plan, Plan)
        rate, limits = plan.limits.rate, plan.limits
        context = self._context.for_project(of[0], planned.evaluation.key)
        pace = None if rate is None else RateLimiter(self.database, *of, rate, self.now).wait
        return CellRunner(
            *of,
            plan,
            planned.rows,
            key=planned.evaluation.key,
            caller=WorkflowCaller(
                self.engine, timeout=limits.timeout, retries=limits.retries, throttle=pace, prices=self._prices
            ),
            find_workflow=self._find,
            evaluators=[self._bound(one, context) for one in plan.evaluators],
            context=context,
            redact=self._redact,
            now=self.now,
        )

    def _bound(self, planned: PlannedEvaluator, context: EvaluatorContext) -> BoundEvaluator | UnavailableEvaluator:
        try:
            return self._evaluators.find(planned.key).bind(planned.parameters, context, name=planned.name)
        except PalaverError as error:  # The code has changed since the evaluation was planned.
            return UnavailableEvaluator(planned.name, error.message)


class SliceRun:
    """One slice that this process has taken."""

    def __init__(self, house: SliceRunner, one: Slice, stopped: Callable[[tuple[str, str]], None]) -> None:
        self.slice = one
        self._house = house
        self._stopped = stopped
        self._workers: list[asyncio.Task[None]] = []
        self._is_stopped = False
        self._is_lost = False
        self._hurried: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def stop(self, *, immediately: bool = False) -> None:
        """Start no more cells and cancel running ones. `at_once`: don't wait for the database either."""
        if not self._is_stopped:
            self._is_stopped = True
            for worker in self._workers:
                worker.cancel()
        if immediately and not self._hurried.done():
            self._hurried.set_result(None)

    async def work(self) -> None:
        """Run the remaining cells, then release the slice. Raises nothing."""
        whole = is_broken = False
        try:
            whole = await self._run_job()
        except NotFound:
            self._is_lost = True  # Deleted.
        except PalaverError as error:
            log.warning("A slice of %s cannot be run, which is tried again: %s", self.slice.evaluation, error.message)
            is_broken = True
        except Exception:
            log.exception("A slice of %s cannot be run, which is tried again", self.slice.evaluation)
            is_broken = True
        await self._let_go(whole=whole)
        if self._workers:
            await asyncio.wait(self._workers)
        if is_broken:
            await asyncio.wait([self._hurried], timeout=RETRY_INTERVAL_S)  # Leave it to other processes for a moment.

    async def _run_job(self) -> bool:
        job = await self._house.acquire_cells(self.slice.evaluation_key)
        try:
            return await self._run(job)
        finally:
            self._house.release_cells(self.slice.evaluation_key)

    async def _run(self, job: CellRunner) -> bool:
        """Run the cells; True if all were stored."""
        house, one = self._house, self.slice
        cells = slice_cells(job.plan, one)
        known = await house.database.read(results.find_recorded_cells, *one.evaluation_key, cells)
        left = [cell for cell in cells if cell not in known]
        group = ResultWriter(house.database, house.process, one, job.stops, now=house.now, on_recorded=self._noted)
        if left and one.attempts >= FAIL_AFTER_DEATHS:
            group.add(job.failed_result(left.pop(0), "process_died", "Every process that ran this cell died with it."))
        hashes = [job.row_hash(cell) for cell in left]
        contents = await house.database.read(testset_rows.read_contents, one.project, job.plan.testset.id, hashes)
        width = 1 if one.attempts >= SERIAL_AFTER_DEATHS else one.width
        turn = iter(left)
        for _ in range(0 if self._is_stopped else min(width, len(left))):
            work = self._cells(job, turn, contents, group)
            self._workers.append(asyncio.get_running_loop().create_task(work))
        ended = asyncio.gather(*self._workers, return_exceptions=True)
        await asyncio.wait([ended, self._hurried], return_when=asyncio.FIRST_COMPLETED)
        if self._is_lost:
            group.discard()
        await group.flush(patient=not self._hurried.done())
        return ended.done() and not self._is_stopped and not any(ended.result())

    async def _cells(
        self, job: CellRunner, turn: Iterator[int], contents: dict[bytes, bytes], group: ResultWriter
    ) -> None:
        """Run cell after cell; one of `width` tasks."""
        for cell in turn:
            if self._is_stopped:
                return
            try:
                result = await job.run(cell, contents.get(job.row_hash(cell)))
            except EvaluationAborted:
                self.stop(immediately=True)
                return
            except Exception:  # A bug of ours; other cells continue.
                log.exception("The cell %d of %s could not be run", cell, self.slice.evaluation)
                result = job.failed_result(cell, "internal", "Something broke: the log says what.")
            group.add(result)

    def _noted(self, recorded: RecordOutcome) -> None:
        """Called when results were stored, or were refused."""
        if not recorded.is_ours:
            self._is_lost = True
            self.stop(immediately=True)
        elif recorded.is_stopped and not self._is_stopped:
            self._stopped(self.slice.evaluation_key)

    async def _let_go(self, *, whole: bool) -> None:
        house = self._house
        while not self._is_lost:
            try:
                change = slices.end_slice if whole else slices.release_slice
                await house.database.write(change, house.process, self.slice, house.now())
            except PalaverError as error:
                if self._hurried.done():
                    return  # The process that notices our end will release it.
                log.warning("A slice cannot be let go of, which is tried again: %s", error.message)
                await asyncio.sleep(RETRY_INTERVAL_S)
            else:
                return
