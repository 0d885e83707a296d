"""/api/evaluations/{id}/results: the cells of an evaluation, a page of them with previews, or one as a whole."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_args

from litestar import Response, get
from litestar.params import FromPath, QueryParameter
from sqlalchemy import Connection

from palaver.errors import InvalidValue, NotFound
from palaver.evaluation.plan.plan import CellPosition, Plan, cell_number, cell_position, format_cell_id, parse_cell_id
from palaver.server.api import evaluation_shown as shown
from palaver.server.api.conventions import After, Asked, Filter, Limit, Page, Search, Window, answer, caller_of
from palaver.server.api.dependencies import ApiController
from palaver.server.api.evaluation_figures import Figures
from palaver.server.api.evaluation_views import ResultRow, ResultView
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results as evaluation_pages
from palaver.storage.evaluations.results import ResultFilters

Shown = Literal["done", "failed", "error"]
OfStatus = Annotated[
    str | None,
    QueryParameter(name="status", description="`done`, `failed`, or `error`: where an evaluator could not score."),
]
Passed = Annotated[bool | None, QueryParameter(description="Whether the evaluator, or any, says that it passed.")]
Flaky = Annotated[bool, QueryParameter(description="Only rows whose repeats differ.")]
Regression = Annotated[
    str | None,
    QueryParameter(
        max_length=300,
        description="`ev_…:variant`: only rows that passed there and do not here; `true`: in the first variant here.",
    ),
]


class EvaluationResultController(ApiController):
    path = "/api/evaluations"

    database: Database
    figures: Figures

    @get(
        "/{evaluation:str}/results",
        operation_id="list_results",
        summary="Its cells that are recorded, row by row, with previews and scores",
    )
    async def list_results(
        self,
        request: Asked,
        evaluation: FromPath[str],
        variant: Filter = None,
        evaluator: Filter = None,
        passed: Passed = None,
        of_status: OfStatus = None,
        row: Filter = None,
        flaky: Flaky = False,  # noqa: FBT002
        regression: Regression = None,
        search: Search = None,
        limit: Limit = 50,
        after: After = None,
    ) -> Page[ResultRow]:
        project = caller_of(request).project
        _, kept = await self.database.read(evaluations.get_plan, project, evaluation)
        plan = shown.plan_of(kept)
        if of_status not in (None, *get_args(Shown)):
            raise InvalidValue(f"status is one of {', '.join(get_args(Shown))}.", pointer="?status")
        among: Sequence[int] | None = None
        if flaky or regression is not None:
            among = await self.figures.cells(project, evaluation, evaluator=evaluator, flaky=flaky, base=regression)
        wanted = ResultFilters(
            variant=_variant(plan, variant),
            status=None if of_status in (None, "error") else of_status,  # pyright: ignore[reportArgumentType]
            score_status="error" if of_status == "error" else None,
            evaluator=evaluator,
            passed=passed,
            row=row,
            search=search,
            among=among,
        )
        page = await self.database.read(
            evaluation_pages.list_results, project, evaluation, wanted, Window(limit, after)
        )
        return page.map(lambda one: shown.result_row(one, plan))

    @get(
        "/{evaluation:str}/results/{cell:str}",
        operation_id="get_result",
        summary="All of one cell: what was asked, expected and answered, and what evaluators say of it",
    )
    async def get_result(self, request: Asked, evaluation: FromPath[str], cell: FromPath[str]) -> Response[ResultView]:
        return answer(request, await self.database.read(_whole, caller_of(request).project, evaluation, cell))


def _variant(plan: Plan, name: str | None) -> int | None:
    if name is None:
        return None
    names = [variant.name for variant in plan.variants]
    if name not in names:
        raise InvalidValue(f"There is no variant {name!r} here. It has: {', '.join(names)}.", pointer="?variant")
    return names.index(name)


def _whole(db: Connection, project: str, evaluation: str, named: str) -> ResultView:
    found, kept = evaluations.get_plan(db, project, evaluation)
    plan, cell = shown.plan_of(kept), parse_cell_id(named)
    if cell >= found.total:
        raise NotFound(f"The evaluation {evaluation[:80]!r} has no result {named[:80]!r}.")
    whole = evaluation_pages.get_result(db, project, evaluation, cell)
    return shown.result_view(whole, plan, **_beside(plan, cell, found.total))


def _beside(plan: Plan, cell: int, total: int) -> dict[str, Any]:
    """The ids of the cells that one looks at next."""
    here, step = cell_position(plan, cell), len(plan.variants) * plan.repeats
    return {
        "repeats": [
            format_cell_id(cell_number(plan, CellPosition(here.row, here.variant, repeat)))
            for repeat in range(plan.repeats)
        ],
        "others": {
            variant.name: format_cell_id(cell_number(plan, CellPosition(here.row, place, here.repeat)))
            for place, variant in enumerate(plan.variants)
        },
        "previous": format_cell_id(cell - step) if cell >= step else None,
        "next": format_cell_id(cell + step) if cell + step < total else None,
    }
