"""Run one evaluation to its end, and load its figures, comparison, gates and report. Prints progress only."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from palaver.cli.database import new_id
from palaver.cli.eval import progress as eval_progress
from palaver.cli.eval import testset as eval_testset
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
"""Compare with the previous evaluation of the same test set and workflow."""
_MAX_LISTED_FAILURES = 5
"""Of failed calls."""
_PAGE_CELLS = 100


class EvalOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an evaluation."""

    evaluation: Evaluation
    plan: Plan
    summary: EvaluationSummary
    comparisons: list[Comparison]
    failed: list[str]
    """Failed gates, a line each."""
    failures: list[str]
    """Errors of the first failed calls."""
    note: str | None = None
    """Why there is no comparison."""


async def load_outcome(
    database: Database, ended: Evaluation, plan: Plan, base: str | None, gates: Gates
) -> EvalOutcome:
    """Load the figures of an ended evaluation, compared with `base` (`ev_…:variant`) or with its first variant."""
    from palaver.evaluation.results import load  # Imported late: it loads numpy.
    from palaver.evaluation.results.summary import summarize

    results = await database.read(load.read_results, DEFAULT_PROJECT, ended.id)
    figures = summarize(results)
    base_side = None
    if base is not None:
        evaluation_id, variant = load.split_variant_reference(base)
        base_results = await database.read(load.read_results, DEFAULT_PROJECT, evaluation_id)
        names = list(base_results.variants)
        common = [item.name for item in plan.variants if item.name in names]
        base_side = load.compared_variant(base_results, variant or (common or names)[0], "--compare")
    comparisons = load.compare_with_base(results, base_side)
    query = evaluation_pages.ResultFilters(status="failed")
    failed_cells = await database.read(
        evaluation_pages.list_results, DEFAULT_PROJECT, ended.id, query, Window(_MAX_LISTED_FAILURES)
    )
    return EvalOutcome(
        evaluation=ended,
        plan=plan,
        summary=figures,
        comparisons=comparisons,
        failed=failed_gates(gates, figures, comparisons),
        failures=[
            f"{item.row}, {plan.variants[item.variant].name}: {describe_cell_error(item)}" for item in failed_cells.data
        ],
    )


async def resolve_base(database: Database, compare: str | None, plan: Plan) -> tuple[str | None, str | None]:
    """Return the evaluation to compare with, as `ev_…` or `ev_…:variant`, or a note if there is none."""
    if compare is None:
        return None, None
    if compare != LAST_EVALUATION:
        evaluation = await database.read(evaluations.get_evaluation, DEFAULT_PROJECT, compare.partition(":")[0])
        if evaluation.ended_at is None:
            raise StillRunning(f"The evaluation {evaluation.id} has not ended: compare with another.")
        return compare, None
    workflows = {item.workflow for item in plan.variants}
    page = await database.read(
        evaluations.list_evaluations, DEFAULT_PROJECT, EvaluationFilters(testset=plan.testset.id)
    )
    plans = await database.read(evaluations.get_plans, DEFAULT_PROJECT, [item.id for item in page.data])
    for item in page.data:
        other_plan = msgspec.convert(plans[item.id], Plan)
        if item.state in ("succeeded", "partly") and workflows & {variant.workflow for variant in other_plan.variants}:
            return item.id, None
    return None, "There is no earlier evaluation of this test set to compare with: this is the first."


# Files


def build_report(database: Database, outcome: EvalOutcome) -> "Report":
    """Build the report that files are written from. It may be read in another thread than the event loop's."""
    from palaver.evaluation.results import load

    loop = asyncio.get_running_loop()

    def cells() -> Iterable[ResultDetail]:
        return _cells(database, outcome.evaluation.id, loop)

    return load.make_report(
        outcome.evaluation,
        outcome.plan,
        summary=outcome.summary,
        comparisons=outcome.comparisons,
        failed_gates=outcome.failed,
        cells=cells,
    )


def _cells(database: Database, evaluation: str, loop: asyncio.AbstractEventLoop) -> Iterator[ResultDetail]:
    after = -1
    while True:
        query = database.read(evaluation_pages.list_result_details, DEFAULT_PROJECT, evaluation, after, _PAGE_CELLS)
        page = asyncio.run_coroutine_threadsafe(query, loop).result()
        yield from page
        if not page:
            return
        after = page[-1].result.cell


class EvalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The evaluation that the command line asks for."""

    request: NewEvaluation
    """Without the id of the test set."""
    testset: str
    file: Path | None
    types: eval_testset.Types = "auto"
    compare: str | None = None
    gates: Gates = Gates()


async def run_evaluation(
    database: Database,
    registry: Registry,
    settings: Settings,
    wanted: EvalRequest,
    write_report: "Callable[[Report], None]",
) -> EvalOutcome:
    """Run to the end, or until Ctrl+C. `tell` is called with the report in a thread, while the database is open."""
    known = EvaluatorRegistry(registry.evaluators, served=registry.names)
    reach = create_evaluator_context(known, registry, settings, allow_private=True)
    testset = await eval_testset.resolve_testset_id(
        database, DEFAULT_PROJECT, wanted.testset, wanted.file, types=wanted.types
    )
    testset_ref = WantedTestset(id=testset, rows=wanted.request.testset.rows)
    request = msgspec.structs.replace(wanted.request, testset=testset_ref)
    planned = await create_planner(registry, database, settings, known, reach).plan(DEFAULT_PROJECT, request)
    check_gate_names(wanted.gates, [one.name for one in planned.plan.evaluators])
    base, note = await resolve_base(database, wanted.compare, planned.plan)
    async with evaluation_runtime(registry, settings, database, known) as runs:
        evaluation_row = new_evaluation(new_id("ev"), planned)
        evaluation, slices = await database.write(
            evaluation_claims.create_claimed_evaluation, DEFAULT_PROJECT, evaluation_row, runs.process, utc_now()
        )
        local_run = LocalRunner(runs, evaluation, slices, planned.plan.limits.concurrency)
        async with eval_progress.show_progress(database, DEFAULT_PROJECT, evaluation.id), _interruptible(local_run):
            ended = await local_run.run()
    outcome = await load_outcome(database, ended, planned.plan, base, wanted.gates)
    outcome = msgspec.structs.replace(outcome, note=note)
    await asyncio.to_thread(write_report, build_report(database, outcome))
    return outcome


@asynccontextmanager
async def _interruptible(local_run: LocalRunner) -> AsyncGenerator[None]:
    """Let Ctrl+C end the evaluation with what is recorded; a second one interrupts."""
    loop = asyncio.get_running_loop()
    cancelling: set[asyncio.Task[None]] = set()

    def stop() -> None:
        if cancelling:
            raise KeyboardInterrupt
        cancelling.add(loop.create_task(local_run.cancel()))

    suppress_unsupported = suppress(
        NotImplementedError, RuntimeError, ValueError
    )  # Signal handlers need the main thread, and not Windows.
    with suppress_unsupported:
        loop.add_signal_handler(signal.SIGINT, stop)
    try:
        yield
    finally:
        with suppress_unsupported:
            loop.remove_signal_handler(signal.SIGINT)
        await asyncio.gather(*cancelling)
