"""What an evaluation came to: its figures, beside those of another, and as a file."""

from collections.abc import Callable
from typing import Annotated, Any

from litestar import Response, get
from litestar.params import FromPath, QueryParameter

from palaver.evaluation.plan.plan import Plan
from palaver.evaluation.results.export.formats import ExportName
from palaver.evaluation.results.export.report import Report
from palaver.evaluation.results.figures import Comparison, EvaluationSummary
from palaver.server.api import evaluation_shown as shown
from palaver.server.api.conventions import Asked, answer, caller_of
from palaver.server.api.dependencies import ApiController
from palaver.server.api.evaluation_export import Cells, headers, streamed
from palaver.server.api.evaluation_figures import Figures
from palaver.server.api.run_views import Told
from palaver.server.api.trace_export import tell
from palaver.server.rate_limit import RateLimits
from palaver.server.request import Exchange
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations.repository import Evaluation

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
    ExportName,
    QueryParameter(name="format", description="For build servers, a comment, a spreadsheet, a program, or a reader."),
]


class EvaluationFigureController(ApiController):
    path = "/api/evaluations"

    database: Database
    settings: Settings
    rate_limits: RateLimits
    figures: Figures

    @get(
        "/{evaluation:str}/summary",
        operation_id="get_summary",
        summary="Its figures, with intervals of 95 %, as far as it has come",
    )
    async def get_summary(
        self, request: Asked, evaluation: FromPath[str], column: Column = None
    ) -> Response[EvaluationSummary]:
        return answer(request, await self.figures.summary(caller_of(request).project, evaluation, column))

    @get(
        "/compare",
        operation_id="compare_evaluations",
        summary="A candidate beside a base, row by row: is it worse?",
    )
    async def compare_evaluations(
        self, request: Asked, base: Base, candidate: Candidate, margin: Margin = 0.02
    ) -> Response[Comparison]:
        return answer(request, await self.figures.comparison(caller_of(request).project, base, candidate, margin))

    @get(
        "/{evaluation:str}/export",
        operation_id="export_evaluation",
        summary="All of it as a file",
        media_type="application/octet-stream",
    )
    async def export_evaluation(
        self, request: Asked, evaluation: FromPath[str], form: Format, base: OfExport = None, margin: Margin = 0.02
    ) -> Response[Any]:
        caller = caller_of(request)
        found, kept = await self.database.read(evaluations.get_plan, caller.project, evaluation)
        summary = await self.figures.summary(caller.project, evaluation, None)
        beside = await self.figures.comparisons(caller.project, evaluation, base, margin)
        make = _maker(found, shown.plan_of(kept), summary, beside)
        lines = streamed(self.database, caller.project, evaluation, form, make)
        first = await anext(lines, b"")

        async def told(exchange: Exchange) -> None:
            with self.rate_limits.streams.slot(caller):
                await tell(exchange, first, lines, self.settings.stream_stall, headers(found.id, form))

        return Told(told)


def _maker(
    found: Evaluation, plan: Plan, summary: EvaluationSummary, comparisons: list[Comparison]
) -> Callable[[Cells], Report]:
    from palaver.evaluation.results.load import make_report

    return lambda cells: make_report(found, plan, summary=summary, comparisons=comparisons, cells=cells)
