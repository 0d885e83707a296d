"""What an evaluation came to: its figures, beside those of another, and as a file.

All that computes is imported when somebody asks: a server on which nobody reads evaluations never loads numpy.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, QueryParameter

from palaver.evaluation.exports.formats import Form
from palaver.evaluation.exports.report import Report
from palaver.evaluation.figures import Comparison, EvaluationSummary
from palaver.evaluation.plans import Plan
from palaver.server.api import evaluation_shown as shown
from palaver.server.api.conventions import Asked, answer, caller_of
from palaver.server.api.evaluation_export import Cells, headers, streamed
from palaver.server.api.run_views import Told
from palaver.server.api.trace_export import tell
from palaver.server.exchange import Exchange
from palaver.server.rates import Rates
from palaver.server.settings import Settings
from palaver.storage import evaluations
from palaver.storage.database import Database
from palaver.storage.evaluations import Evaluation

if TYPE_CHECKING:
    from palaver.evaluation.columns import Results

T = TypeVar("T")

Column = Annotated[
    str | None,
    QueryParameter(name="slice", max_length=1_000, description="A column of the test set: figures by its values."),
]
_SIDE = "An evaluation and its variant, `ev_…:variant`; of one with a single variant, its id will do."
Base = Annotated[str, QueryParameter(min_length=1, max_length=300, description=_SIDE)]
Candidate = Annotated[str, QueryParameter(min_length=1, max_length=300, description=_SIDE)]
OfExport = Annotated[
    str | None,
    QueryParameter(name="base", max_length=300, description=f"{_SIDE} Without it, the first variant of this one."),
]
Margin = Annotated[float, QueryParameter(ge=0, le=1, description="A difference that does not matter.")]
Format = Annotated[
    Form,
    QueryParameter(name="format", description="For build servers, a comment, a spreadsheet, a program, or a reader."),
]
_KEPT = 64
"""Figures that are kept of evaluations which have ended."""


def routes(database: Database, settings: Settings, rates: Rates) -> list[HTTPRouteHandler]:
    """The routes."""
    read = _Reading(database)

    @get(
        "/api/evaluations/{evaluation:str}/summary",
        operation_id="get_summary",
        summary="Its figures, with intervals of 95 %, as far as it has come",
    )
    async def get_summary(
        request: Asked, evaluation: FromPath[str], column: Column = None
    ) -> Response[EvaluationSummary]:
        return answer(request, await read.summary(caller_of(request).project, evaluation, column))

    @get(
        "/api/evaluations/compare",
        operation_id="compare_evaluations",
        summary="A candidate beside a base, row by row: is it worse?",
    )
    async def compare_evaluations(
        request: Asked, base: Base, candidate: Candidate, margin: Margin = 0.02
    ) -> Response[Comparison]:
        return answer(request, await read.comparison(caller_of(request).project, base, candidate, margin))

    @get(
        "/api/evaluations/{evaluation:str}/export",
        operation_id="export_evaluation",
        summary="All of it as a file",
        media_type="application/octet-stream",
    )
    async def export_evaluation(
        request: Asked, evaluation: FromPath[str], form: Format, base: OfExport = None, margin: Margin = 0.02
    ) -> Response[Any]:
        caller = caller_of(request)
        found, kept = await database.read(evaluations.plan_of, caller.project, evaluation)
        summary = await read.summary(caller.project, evaluation, None)
        beside = await read.comparisons(caller.project, evaluation, base, margin)
        make = _maker(found, shown.plan_of(kept), summary, beside)
        lines = streamed(database, caller.project, evaluation, form, make)
        first = await anext(lines, b"")

        async def told(exchange: Exchange) -> None:
            with rates.streams.held(caller):
                await tell(exchange, first, lines, settings.stream_stall, headers(found.id, form))

        return Told(told)

    return [get_summary, compare_evaluations, export_evaluation]


class _Reading:
    """Reads figures, and keeps those of what has ended: they do not change until somebody runs it again."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept = OrderedDict[tuple[object, ...], Any]()

    async def summary(self, project: str, evaluation: str, column: str | None) -> EvaluationSummary:
        """The figures of one; those by the values of a column, too."""
        found = await self._database.read(evaluations.get, project, evaluation)
        key = ("summary", project, *_version(found), column)
        if (kept := self._kept.get(key)) is not None:
            return kept
        from palaver.evaluation.reporting import read_column
        from palaver.evaluation.slices import cuts
        from palaver.evaluation.summary import summary

        results = await self._results(project, evaluation)
        values = None
        if column is not None:
            values = await self._database.read(read_column, project, evaluation, column)
        told = await asyncio.to_thread(lambda: summary(results, None if values is None else cuts(values)))
        return self._keep(key, told, found)

    async def comparison(self, project: str, base: str, candidate: str, margin: float) -> Comparison:
        """One variant beside another."""
        from palaver.evaluation.comparing import compared
        from palaver.evaluation.reporting import side, split_side

        (first, of_first), (second, of_second) = split_side(base), split_side(candidate)
        one = await self._database.read(evaluations.get, project, first)
        other = one if first == second else await self._database.read(evaluations.get, project, second)
        key = ("compare", project, *_version(one), of_first, *_version(other), of_second, margin)
        if (kept := self._kept.get(key)) is not None:
            return kept
        results = await self._results(project, first)
        others = results if first == second else await self._results(project, second)
        here, there = side(results, of_first, "?base"), side(others, of_second, "?candidate")
        return self._keep(key, await asyncio.to_thread(compared, here, there, margin), one, other)

    async def comparisons(self, project: str, evaluation: str, base: str | None, margin: float) -> list[Comparison]:
        """All variants of one beside a base, or beside its own first."""
        from palaver.evaluation.reporting import comparisons, side, split_side

        first, variant = (evaluation, None) if base is None else split_side(base)
        results = await self._results(project, evaluation)
        others = results if first == evaluation else await self._results(project, first)
        beside = None if base is None else side(others, variant, "?base")
        return await asyncio.to_thread(comparisons, results, beside, margin)

    async def _results(self, project: str, evaluation: str) -> "Results":
        from palaver.evaluation.reporting import read_results

        return await self._database.read(read_results, project, evaluation)

    def _keep(self, key: tuple[object, ...], told: T, *of: Evaluation) -> T:
        if all(one.ended_at is not None for one in of):
            self._kept[key] = told
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return told


def _maker(
    found: Evaluation, plan: Plan, summary: EvaluationSummary, comparisons: list[Comparison]
) -> Callable[[Cells], Report]:
    from palaver.evaluation.reporting import report

    return lambda cells: report(found, plan, summary=summary, comparisons=comparisons, cells=cells)


def _version(found: Evaluation) -> tuple[str, int]:
    return found.id, found.version
