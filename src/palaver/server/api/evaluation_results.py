"""/api/evaluations/{id}/results, /summary and /compare: results and figures of evaluations.

Reading all scores of a large evaluation takes longer than computing figures from them, so `FigureCache` keeps both for
evaluations that have ended. The statistics, and numpy with them, are imported in a thread when first needed.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar, get_args
from weakref import WeakValueDictionary

from litestar import Response, get
from litestar.params import FromPath, QueryParameter
from sqlalchemy import Connection

from palaver.errors import InvalidValue, NotFound
from palaver.evaluation.plan.plan import CellPosition, Plan, cell_number, cell_position, format_cell_id, parse_cell_id
from palaver.evaluation.results.figures import Comparison, EvaluationSummary
from palaver.server.api import evaluation_views as views
from palaver.server.api.conventions import After, ApiRequest, Filter, Limit, Search, caller_of, object_response
from palaver.server.api.dependencies import ApiController
from palaver.server.api.evaluation_views import ResultRow, ResultView
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results as result_store
from palaver.storage.evaluations.repository import Evaluation
from palaver.storage.evaluations.results import ResultFilters
from palaver.storage.pagination import Page, Window

if TYPE_CHECKING:
    from palaver.evaluation.results.arrays import ResultArrays


T = TypeVar("T")

_MAX_CACHED_FIGURES = 64
_MAX_CACHED_BYTES = 16 * 1024 * 1024  # Twenty evaluations of 10,000 cells with three scores each.


class FigureCache:
    """Compute figures, and cache those of ended evaluations, which only change when cells are run again."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._figures = _LruCache[Any](_MAX_CACHED_FIGURES)
        self._arrays = _LruCache["ResultArrays"](_MAX_CACHED_BYTES)
        self._locks = WeakValueDictionary[Hashable, asyncio.Lock]()
        self._is_loading = False

    def preload(self) -> None:
        """Import the statistics in the background, as figures are likely to be requested next."""
        if not self._is_loading:
            self._is_loading = True
            asyncio.get_running_loop().run_in_executor(None, _import_statistics)

    async def summary(self, project: str, evaluation: str, column: str | None) -> EvaluationSummary:
        """Return the figures of an evaluation, optionally also by the values of a column."""
        stored_evaluation = await self._database.read(evaluations.get_evaluation, project, evaluation)
        key = ("summary", project, *_version(stored_evaluation), column)
        if (cached := self._figures.get(key)) is not None:
            return cached
        await asyncio.to_thread(_import_statistics)
        from palaver.evaluation.results.load import read_column
        from palaver.evaluation.results.summary import slice_rows, summarize

        results = await self._results(project, stored_evaluation)
        values = None
        if column is not None:
            values = await self._database.read(read_column, project, evaluation, column)
        summary = await asyncio.to_thread(lambda: summarize(results, None if values is None else slice_rows(values)))
        return self._cache(key, summary, stored_evaluation)

    async def comparison(self, project: str, base: str, candidate: str, margin: float) -> Comparison:
        await asyncio.to_thread(_import_statistics)
        from palaver.evaluation.results.compare import compare_variants
        from palaver.evaluation.results.load import compared_variant, split_variant_reference

        base_id, base_name = split_variant_reference(base)
        candidate_id, candidate_name = split_variant_reference(candidate)
        is_same = base_id == candidate_id
        old = await self._database.read(evaluations.get_evaluation, project, base_id)
        new = old if is_same else await self._database.read(evaluations.get_evaluation, project, candidate_id)
        key = ("compare", project, *_version(old), base_name, *_version(new), candidate_name, margin)
        if (cached := self._figures.get(key)) is not None:
            return cached
        old_results = await self._results(project, old)
        new_results = old_results if is_same else await self._results(project, new)
        base_variant = compared_variant(old_results, base_name, "?base")
        candidate_variant = compared_variant(new_results, candidate_name, "?candidate")
        comparison = await asyncio.to_thread(compare_variants, base_variant, candidate_variant, margin)
        return self._cache(key, comparison, old, new)

    async def comparisons(self, project: str, evaluation: str, base: str | None, margin: float) -> list[Comparison]:
        """Compare all variants of an evaluation with `base`, or with its own first variant."""
        await asyncio.to_thread(_import_statistics)
        from palaver.evaluation.results.load import compare_with_base, compared_variant, split_variant_reference

        base_id, variant = (evaluation, None) if base is None else split_variant_reference(base)
        results = await self._results_by_id(project, evaluation)
        base_results = results if base_id == evaluation else await self._results_by_id(project, base_id)
        base_variant = None if base is None else compared_variant(base_results, variant, "?base")
        return await asyncio.to_thread(compare_with_base, results, base_variant, margin)

    async def cells(
        self, project: str, evaluation: str, *, evaluator: str | None, flaky: bool, base: str | None
    ) -> list[int]:
        """Return the cells, in order, of rows that are flaky (if `flaky`) and that regressed from `base` (if given).

        `base` is `ev_…:variant`, or `true` for the first variant of this evaluation.
        """
        await asyncio.to_thread(_import_statistics)
        from palaver.evaluation.results.compare import ComparedVariant, find_cells
        from palaver.evaluation.results.load import compared_variant, split_variant_reference

        results, base_variant = await self._results_by_id(project, evaluation), None
        if base == "true":
            base_variant = ComparedVariant(results, 0)
        elif base is not None:
            base_id, variant = split_variant_reference(base)
            base_results = results if base_id == evaluation else await self._results_by_id(project, base_id)
            base_variant = compared_variant(base_results, variant, "?regression")
        return await asyncio.to_thread(find_cells, results, evaluator=evaluator, flaky=flaky, base=base_variant)

    async def _results_by_id(self, project: str, evaluation: str) -> "ResultArrays":
        return await self._results(project, await self._database.read(evaluations.get_evaluation, project, evaluation))

    async def _results(self, project: str, evaluation: Evaluation) -> "ResultArrays":
        """Return the results, cached once the evaluation has ended. Concurrent callers share one read."""
        if evaluation.ended_at is None:
            return await self._read_all(project, evaluation)
        key = (project, *_version(evaluation))
        async with self._locks.setdefault(key, asyncio.Lock()):
            if (cached := self._arrays.get(key)) is not None:
                return cached
            results = await self._read_all(project, evaluation)
            self._arrays.put(key, results, results.size)
            return results

    async def _read_all(self, project: str, evaluation: Evaluation) -> "ResultArrays":
        from palaver.evaluation.results.load import read_results

        return await self._database.read(read_results, project, evaluation.id)

    def _cache(self, key: Hashable, figures: T, *sources: Evaluation) -> T:
        if all(evaluation.ended_at is not None for evaluation in sources):
            self._figures.put(key, figures, 1)
        return figures


class _LruCache(Generic[T]):
    """A least-recently-used cache with a maximum total size."""

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._size = 0
        self._values = OrderedDict[Hashable, tuple[T, int]]()

    def get(self, key: Hashable) -> T | None:
        if (entry := self._values.get(key)) is None:
            return None
        self._values.move_to_end(key)
        return entry[0]

    def put(self, key: Hashable, value: T, size: int) -> None:
        """Store a value and evict the least recently used. Values larger than the cache are not stored."""
        if size > self._max_size:
            return
        self._size += size - self._values.pop(key, (None, 0))[1]
        self._values[key] = value, size
        while self._size > self._max_size:
            _, (_, evicted_size) = self._values.popitem(last=False)
            self._size -= evicted_size


def _version(evaluation: Evaluation) -> tuple[str, int]:
    return evaluation.id, evaluation.version


def _import_statistics() -> None:
    """Import numpy and the statistics: call it in a thread, as it takes up to a second."""
    from palaver.evaluation.results import summary  # noqa: F401 # pyright: ignore[reportUnusedImport]


ResultStatus = Literal["done", "failed", "error"]
OfStatus = Annotated[
    str | None,
    QueryParameter(name="status", description="`done`, `failed`, or `error` for results with an evaluator error."),
]
Passed = Annotated[
    bool | None,
    QueryParameter(description="Whether the result passed, according to `evaluator`, or to any evaluator if omitted."),
]
Flaky = Annotated[bool, QueryParameter(description="Only rows whose repeats disagree.")]
Regression = Annotated[
    str | None,
    QueryParameter(
        max_length=300,
        description="Only regressed rows. The base is `ev_…:variant`, or `true` for this evaluation's first variant.",
    ),
]


class EvaluationResultController(ApiController):
    path = "/api/evaluations"

    database: Database
    figures: FigureCache

    @get(
        "/{evaluation:str}/results",
        operation_id="list_results",
        summary="List recorded results row by row, with previews and scores",
    )
    async def list_results(
        self,
        request: ApiRequest,
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
        _, stored_plan = await self.database.read(evaluations.get_plan, project, evaluation)
        plan = views.decode_plan(stored_plan)
        if of_status not in (None, *get_args(ResultStatus)):
            raise InvalidValue(f"status must be one of {', '.join(get_args(ResultStatus))}.", pointer="?status")
        cells: Sequence[int] | None = None
        if flaky or regression is not None:
            cells = await self.figures.cells(project, evaluation, evaluator=evaluator, flaky=flaky, base=regression)
        filters = ResultFilters(
            variant=_variant_index(plan, variant),
            status=None if of_status in (None, "error") else of_status,  # pyright: ignore[reportArgumentType]
            score_status="error" if of_status == "error" else None,
            evaluator=evaluator,
            passed=passed,
            row=row,
            search=search,
            among=cells,
        )
        page = await self.database.read(result_store.list_results, project, evaluation, filters, Window(limit, after))
        return page.map(lambda result: views.result_row(result, plan))

    @get(
        "/{evaluation:str}/results/{cell:str}",
        operation_id="get_result",
        summary="Get a result with its input, expected answer, output and scores",
    )
    async def get_result(
        self, request: ApiRequest, evaluation: FromPath[str], cell: FromPath[str]
    ) -> Response[ResultView]:
        return object_response(
            request, await self.database.read(_load_result, caller_of(request).project, evaluation, cell)
        )


def _variant_index(plan: Plan, name: str | None) -> int | None:
    if name is None:
        return None
    names = [variant.name for variant in plan.variants]
    if name not in names:
        raise InvalidValue(f"Variant {name!r} not found. Available: {', '.join(names)}.", pointer="?variant")
    return names.index(name)


def _load_result(db: Connection, project: str, evaluation: str, cell_id: str) -> ResultView:
    evaluation_record, stored_plan = evaluations.get_plan(db, project, evaluation)
    plan, cell = views.decode_plan(stored_plan), parse_cell_id(cell_id)
    if cell >= evaluation_record.total:
        raise NotFound(f"Result {cell_id[:80]!r} not found in evaluation {evaluation[:80]!r}.")
    detail = result_store.get_result(db, project, evaluation, cell)
    return views.result_view(detail, plan, **_neighbour_ids(plan, cell, evaluation_record.total))


def _neighbour_ids(plan: Plan, cell: int, total: int) -> dict[str, Any]:
    position, step = cell_position(plan, cell), len(plan.variants) * plan.repeats
    return {
        "repeats": [
            format_cell_id(cell_number(plan, CellPosition(position.row, position.variant, repeat)))
            for repeat in range(plan.repeats)
        ],
        "others": {
            variant.name: format_cell_id(cell_number(plan, CellPosition(position.row, index, position.repeat)))
            for index, variant in enumerate(plan.variants)
        },
        "previous": format_cell_id(cell - step) if cell >= step else None,
        "next": format_cell_id(cell + step) if cell + step < total else None,
    }


Column = Annotated[
    str | None,
    QueryParameter(name="slice", max_length=1_000, description="Test set column to group the summary by."),
]
VARIANT_DESCRIPTION = "A variant of an evaluation: `ev_…:variant`, or `ev_…` if it has only one."
Base = Annotated[str, QueryParameter(min_length=1, max_length=300, description=VARIANT_DESCRIPTION)]
Candidate = Annotated[str, QueryParameter(min_length=1, max_length=300, description=VARIANT_DESCRIPTION)]
Margin = Annotated[
    float, QueryParameter(ge=0, le=1, description="The largest difference that is considered negligible.")
]


class EvaluationFigureController(ApiController):
    path = "/api/evaluations"

    figures: FigureCache

    @get(
        "/{evaluation:str}/summary",
        operation_id="get_summary",
        summary="Get summary statistics with 95% confidence intervals, for all results so far",
    )
    async def get_summary(
        self, request: ApiRequest, evaluation: FromPath[str], column: Column = None
    ) -> Response[EvaluationSummary]:
        return object_response(request, await self.figures.summary(caller_of(request).project, evaluation, column))

    @get(
        "/compare",
        operation_id="compare_evaluations",
        summary="Compare a candidate with a base, row by row",
    )
    async def compare_evaluations(
        self, request: ApiRequest, base: Base, candidate: Candidate, margin: Margin = 0.02
    ) -> Response[Comparison]:
        return object_response(
            request, await self.figures.comparison(caller_of(request).project, base, candidate, margin)
        )
