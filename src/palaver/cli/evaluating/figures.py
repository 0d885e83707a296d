"""What an evaluation came to, for `palaver eval`: its figures, what it is compared with, its gates and its report."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from palaver.core.runs import DEFAULT_PROJECT
from palaver.errors import StillRunning
from palaver.evaluation.plan.plan import Plan
from palaver.evaluation.results.export.report import describe_cell_error
from palaver.evaluation.results.figures import Comparison, EvaluationSummary
from palaver.evaluation.results.gates import Gates, failed_gates
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results as evaluation_pages
from palaver.storage.evaluations.repository import Evaluation, EvaluationFilters
from palaver.storage.evaluations.results import ResultDetail
from palaver.storage.pagination import Window

if TYPE_CHECKING:
    from palaver.evaluation.results.export.report import Report

LAST = "last"
"""As what to compare with: the one before, of the same test set and workflow."""
_TOLD = 5
"""Failed calls that are told one by one."""
_PIECE = 100
"""Cells that are read at once for a file."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
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


async def figures(database: Database, ended: Evaluation, plan: Plan, base: str | None, gates: Gates) -> Outcome:
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
    broken = await database.read(evaluation_pages.list_results, DEFAULT_PROJECT, ended.id, which, Window(_TOLD))
    return Outcome(
        evaluation=ended,
        plan=plan,
        summary=told,
        comparisons=comparisons,
        failed=failed_gates(gates, told, comparisons),
        failures=[f"{one.row}, {plan.variants[one.variant].name}: {describe_cell_error(one)}" for one in broken.data],
    )


async def base_of(database: Database, compare: str | None, plan: Plan) -> tuple[str | None, str | None]:
    """The evaluation to compare with, as `ev_…` or `ev_…:variant`; or what to say where there is none."""
    if compare is None:
        return None, None
    if compare != LAST:
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


def report(database: Database, found: Outcome) -> "Report":
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
        asked = database.read(evaluation_pages.list_result_details, DEFAULT_PROJECT, evaluation, after, _PIECE)
        some = asyncio.run_coroutine_threadsafe(asked, loop).result()
        yield from some
        if not some:
            return
        after = some[-1].result.cell
