"""Run one evaluation to its end, and load its figures, comparison, gates and report."""

import asyncio
import secrets
import signal
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from palaver.cli.eval import progress as eval_progress
from palaver.cli.eval import testset as eval_testset
from palaver.core.ids import sortable_id
from palaver.core.runs import DEFAULT_PROJECT
from palaver.discovery.registry import Registry
from palaver.engine.engine import utc_now
from palaver.errors import StillRunning
from palaver.evaluation.plan.plan import Plan
from palaver.evaluation.plan.request import NewEvaluation, WantedTestset
from palaver.evaluation.plan.slices import new_evaluation
from palaver.evaluation.registry import EvaluatorRegistry
from palaver.evaluation.results.export.report import describe_cell_error
from palaver.evaluation.results.figures import Comparison, EvaluationSummary
from palaver.evaluation.results.gates import Gates, check_gate_names, failed_gates
from palaver.evaluation.runner.local import LocalRunner
from palaver.server.evaluation import create_evaluator_context, create_planner
from palaver.server.runtime import evaluation_runtime
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results as evaluation_pages
from palaver.storage.evaluations import slices as evaluation_claims
from palaver.storage.evaluations.repository import Evaluation, EvaluationFilters
from palaver.storage.evaluations.results import ResultDetail
from palaver.storage.pagination import Window

if TYPE_CHECKING:
    from palaver.evaluation.results.export.report import Report


LAST_EVALUATION = "last"
"""As what to compare with: the one before, of the same test set and workflow."""
_MAX_LISTED_FAILURES = 5
"""Failed calls that are told one by one."""
_PAGE_CELLS = 100
"""Cells that are read at once for a file."""


class EvalOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How it went."""

    evaluation: Evaluation
    plan: Plan
    summary: EvaluationSummary
    comparisons: list[Comparison]
    failed: list[str]
    """The gates that it does not pass, a line for each."""
    failures: list[str]
    """Why calls failed, those of the first cells."""
    note: str | None = None
    """What could not be compared, and why."""


async def load_outcome(
    database: Database, ended: Evaluation, plan: Plan, base: str | None, gates: Gates
) -> EvalOutcome:
    """All figures of one that has ended; beside `base` (`ev_…:variant`), or its variants beside the first of them."""
    from palaver.evaluation.results import load  # Late: it computes with numpy.
    from palaver.evaluation.results.summary import summarize

    results = await database.read(load.read_results, DEFAULT_PROJECT, ended.id)
    told = summarize(results)
    beside = None
    if base is not None:
        named, variant = load.split_variant_reference(base)
        older = await database.read(load.read_results, DEFAULT_PROJECT, named)
        names = list(older.variants)
        same = [one.name for one in plan.variants if one.name in names]
        beside = load.compared_variant(older, variant or (same or names)[0], "--compare")
    comparisons = load.compare_with_base(results, beside)
    which = evaluation_pages.ResultFilters(status="failed")
    broken = await database.read(
        evaluation_pages.list_results, DEFAULT_PROJECT, ended.id, which, Window(_MAX_LISTED_FAILURES)
    )
    return EvalOutcome(
        evaluation=ended,
        plan=plan,
        summary=told,
        comparisons=comparisons,
        failed=failed_gates(gates, told, comparisons),
        failures=[f"{one.row}, {plan.variants[one.variant].name}: {describe_cell_error(one)}" for one in broken.data],
    )


async def resolve_base(database: Database, compare: str | None, plan: Plan) -> tuple[str | None, str | None]:
    """The evaluation to compare with, as `ev_…` or `ev_…:variant`; or what to say where there is none."""
    if compare is None:
        return None, None
    if compare != LAST_EVALUATION:
        found = await database.read(evaluations.get_evaluation, DEFAULT_PROJECT, compare.partition(":")[0])
        if found.ended_at is None:
            raise StillRunning(f"The evaluation {found.id} has not ended: compare with another.")
        return compare, None
    workflows = {one.workflow for one in plan.variants}
    page = await database.read(
        evaluations.list_evaluations, DEFAULT_PROJECT, EvaluationFilters(testset=plan.testset.id)
    )
    kept = await database.read(evaluations.get_plans, DEFAULT_PROJECT, [one.id for one in page.data])
    for one in page.data:
        older = msgspec.convert(kept[one.id], Plan)
        if one.state in ("succeeded", "partly") and workflows & {variant.workflow for variant in older.variants}:
            return one.id, None
    return None, "There is no earlier evaluation of this test set to compare with: this is the first."


# Files


def build_report(database: Database, found: EvalOutcome) -> "Report":
    """What files are made of; it is for another thread than the loop's, which goes on meanwhile."""
    from palaver.evaluation.results import load

    loop = asyncio.get_running_loop()

    def cells() -> Iterable[ResultDetail]:
        return _cells(database, found.evaluation.id, loop)

    return load.make_report(
        found.evaluation,
        found.plan,
        summary=found.summary,
        comparisons=found.comparisons,
        failed_gates=found.failed,
        cells=cells,
    )


def _cells(database: Database, evaluation: str, loop: asyncio.AbstractEventLoop) -> Iterator[ResultDetail]:
    after = -1
    while True:
        asked = database.read(evaluation_pages.list_result_details, DEFAULT_PROJECT, evaluation, after, _PAGE_CELLS)
        some = asyncio.run_coroutine_threadsafe(asked, loop).result()
        yield from some
        if not some:
            return
        after = some[-1].result.cell


class EvalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for."""

    request: NewEvaluation
    """Its test set has no id yet."""
    testset: str
    file: Path | None
    types: eval_testset.Types = "auto"
    compare: str | None = None
    gates: Gates = Gates()


async def run_evaluation(
    database: Database, registry: Registry, settings: Settings, wanted: EvalRequest, tell: "Callable[[Report], None]"
) -> EvalOutcome:
    """Run it to its end, or until Ctrl+C; `tell` is given the report, in a thread, while the database is open."""
    known = EvaluatorRegistry(registry.evaluators, served=registry.names)
    reach = create_evaluator_context(known, registry, settings, allow_private=True)
    testset = await eval_testset.resolve_testset_id(
        database, DEFAULT_PROJECT, wanted.testset, wanted.file, types=wanted.types
    )
    meant = WantedTestset(id=testset, rows=wanted.request.testset.rows)
    request = msgspec.structs.replace(wanted.request, testset=meant)
    planned = await create_planner(registry, database, settings, known, reach).plan(DEFAULT_PROJECT, request)
    check_gate_names(wanted.gates, [one.name for one in planned.plan.evaluators])
    base, note = await resolve_base(database, wanted.compare, planned.plan)
    async with evaluation_runtime(registry, settings, database, known) as runs:
        made = new_evaluation(_new_id(), planned)
        evaluation, slices = await database.write(
            evaluation_claims.create_claimed, DEFAULT_PROJECT, made, runs.process, utc_now()
        )
        alone = LocalRunner(runs, evaluation, slices, planned.plan.limits.concurrency)
        async with eval_progress.show_progress(database, DEFAULT_PROJECT, evaluation.id), _interruptible(alone):
            ended = await alone.run()
    found = await load_outcome(database, ended, planned.plan, base, wanted.gates)
    found = msgspec.structs.replace(found, note=note)
    await asyncio.to_thread(tell, build_report(database, found))
    return found


@asynccontextmanager
async def _interruptible(alone: LocalRunner) -> AsyncGenerator[None]:
    """Ctrl+C lets it end with what is recorded; a second one ends everything."""
    loop = asyncio.get_running_loop()
    cancelling: set[asyncio.Task[None]] = set()

    def stop() -> None:
        if cancelling:
            raise KeyboardInterrupt
        cancelling.add(loop.create_task(alone.cancel()))

    not_here = suppress(NotImplementedError, RuntimeError, ValueError)  # Not on Windows, and not in every thread.
    with not_here:
        loop.add_signal_handler(signal.SIGINT, stop)
    try:
        yield
    finally:
        with not_here:
            loop.remove_signal_handler(signal.SIGINT)
        await asyncio.gather(*cancelling)


def _new_id() -> str:
    return f"ev_{sortable_id(time.time_ns() // 1_000_000, secrets.randbits(80))}"
