"""Results and scores of evaluation cells. A cell is recorded once, by the process that holds its slice."""

import zlib
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, cast

import msgspec
from sqlalchemy import ColumnElement, Connection, Integer, Row, Select, exists, func, insert, select, type_coerce

from palaver.core import json
from palaver.core.messages import Usage
from palaver.errors import NotFound
from palaver.storage import pagination
from palaver.storage.evaluations import repository, slices
from palaver.storage.evaluations.slices import Slice
from palaver.storage.evaluations.tables import evaluation_results as table
from palaver.storage.evaluations.tables import evaluation_scores as scores
from palaver.storage.evaluations.tables import evaluations
from palaver.storage.pagination import FIRST_PAGE, Page, Window, fetch_page
from palaver.storage.schema import folded_text, storable_text

CellStatus = Literal["done", "failed"]
ScoreStatus = Literal["scored", "skipped", "error"]
_COMPRESSION_LEVEL = 1
"""Higher levels take three times as long and save a tenth."""
_MAX_SEARCH_TEXT = 20_000


class CellScore(msgspec.Struct, frozen=True, kw_only=True):
    """A score as it is stored, of a cell or of a live case."""

    evaluator: int
    """The evaluator's index in the plan."""
    name: str
    status: ScoreStatus
    passed: bool | None = None
    score: float | None = None
    label: str | None = None
    reason: str = ""
    details: Mapping[str, Any] | None = None
    seconds: float = 0.0
    usage: Usage | None = None
    cost: float | None = None


class CellResult(msgspec.Struct, frozen=True, kw_only=True):
    """What new and stored results have in common."""

    cell: int
    row: str
    variant: int
    repeat: int
    status: CellStatus
    error: Mapping[str, Any] | None = None
    """`{"code", "message"}` of a failed cell."""
    latency: float | None = None
    first_output: float | None = None
    usage: Usage | None = None
    cost: float | None = None
    finish: str | None = None
    attempts: int = 1
    trace_id: str | None = None
    run: str | None = None
    started_at: datetime
    ended_at: datetime
    preview_in: Any = None
    preview_out: Any = None


class NewResult(CellResult, frozen=True, kw_only=True):
    words: str = ""
    """Text for search."""
    body: bytes
    """The complete result, as returned by `compress_result`."""
    scores: Sequence[CellScore] = ()


class StopConditions(msgspec.Struct, frozen=True, kw_only=True):
    """Limits at which an evaluation is stopped."""

    max_failed: int | None = None
    """Failed cells; None for no limit."""
    max_cost: float | None = None


class RecordOutcome(msgspec.Struct, frozen=True):
    is_ours: bool
    """False if another process holds the slice or the evaluation is deleted: nothing was recorded."""
    is_stopped: bool = False


def compress_result(body: Mapping[str, Any]) -> bytes:
    return zlib.compress(json.encode(body), _COMPRESSION_LEVEL)


def decompress_result(body: bytes) -> Any:
    return msgspec.json.decode(zlib.decompress(body))


def find_recorded_cells(db: Connection, project: str, evaluation: str, cells: Collection[int]) -> set[int]:
    """Return the cells among `cells` that have a result, which are not run again."""
    query = select(table.c.cell).where(
        table.c.project == project, table.c.evaluation == evaluation, table.c.cell.in_(list(cells))
    )
    return set(db.scalars(query))


def record_results(
    db: Connection, process: str, slice_: Slice, results: Sequence[NewResult], stops: StopConditions, at: datetime
) -> RecordOutcome:
    """Record results of a slice that the process holds. Existing results are not changed."""
    conditions = (evaluations.c.project == slice_.project, evaluations.c.id == slice_.evaluation)
    columns = (
        evaluations.c.recorded,
        evaluations.c.failed,
        evaluations.c.cost,
        evaluations.c.score_cost,
        evaluations.c.cancel_asked_at,
    )
    evaluation = db.execute(select(*columns).where(*conditions).with_for_update()).one_or_none()
    if evaluation is None or not slices.holds_slice(db, process, slice_):
        return RecordOutcome(False)
    recorded = find_recorded_cells(db, slice_.project, slice_.evaluation, [result.cell for result in results])
    unrecorded = [result for result in results if result.cell not in recorded]
    if not unrecorded:
        return RecordOutcome(True, evaluation.cancel_asked_at is not None)
    _insert_results(db, slice_, unrecorded, evaluation.recorded)
    slices.reset_attempts(db, slice_)
    failed = sum(result.status == "failed" for result in unrecorded)
    cost = _sum_known([evaluation.cost, *(result.cost for result in unrecorded)])
    score_cost = _sum_known([evaluation.score_cost, *(score.cost for result in unrecorded for score in result.scores)])
    repository.update_evaluation(
        db,
        slice_.project,
        slice_.evaluation,
        at,
        recorded=evaluation.recorded + len(unrecorded),
        done=evaluations.c.done + len(unrecorded) - failed,
        failed=evaluations.c.failed + failed,
        errors=evaluations.c.errors + sum(score.status == "error" for result in unrecorded for score in result.scores),
        cost=cost,
        score_cost=score_cost,
    )
    reason = _stop_reason(stops, evaluation.failed + failed, (cost or 0) + (score_cost or 0))
    if reason is not None and evaluation.cancel_asked_at is None:
        repository.stop_evaluation(db, slice_.project, slice_.evaluation, reason, at)
    return RecordOutcome(True, reason is not None or evaluation.cancel_asked_at is not None)


def _insert_results(db: Connection, slice_: Slice, unrecorded: Sequence[NewResult], last_seq: int) -> None:
    evaluation_key = {"project": slice_.project, "evaluation": slice_.evaluation}
    result_inserts: list[dict[str, Any]] = []
    score_inserts: list[dict[str, Any]] = []
    for seq, result in enumerate(unrecorded, last_seq + 1):
        row = msgspec.structs.asdict(result)
        new_scores = row.pop("scores")
        words = row.pop("words")
        result_inserts.append({**evaluation_key, "seq": seq, **row, "folded": folded_text(words[:_MAX_SEARCH_TEXT])})
        for score in new_scores:
            score_row = msgspec.structs.asdict(score)
            score_row |= {
                "name": storable_text(score.name),
                "reason": storable_text(score.reason),
                "details": score.details or None,
            }
            score_row["label"] = None if score.label is None else storable_text(score.label)
            score_inserts.append({**evaluation_key, "cell": result.cell, **score_row})
    db.execute(insert(table), result_inserts)
    if score_inserts:
        db.execute(insert(scores), score_inserts)


def _stop_reason(stops: StopConditions, failed: int, cost: float) -> dict[str, Any] | None:
    if stops.max_failed is not None and failed > stops.max_failed:
        cells = "1 cell" if failed == 1 else f"{failed:,} cells"
        message = f"{cells} failed, exceeding max_errors {stops.max_failed:,}. The remaining cells were cancelled."
        return {"code": "max_errors", "message": message}
    if stops.max_cost is not None and cost >= stops.max_cost:
        message = f"The cost of ${cost:.4f} reached max_cost ${stops.max_cost:.4f}. The remaining cells were cancelled."
        return {"code": "max_cost", "message": message}
    return None


def _sum_known(costs: Sequence[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known else None


# Statistics


ScoreRow = tuple[int, str, int, ScoreStatus, bool | None, float | None]
"""Evaluator, name, cell, status, passed, score."""
CellRow = tuple[int, CellStatus, float | None, float | None]
"""Cell, status, latency, cost."""
_MAX_REASON_LENGTH = 300
"""Characters by which reasons are told apart."""
_FETCH_ROWS = 2_000
"""Rows in memory at a time: more would trigger the garbage collector repeatedly."""


def score_rows(db: Connection, project: str, evaluation: str) -> Iterable[ScoreRow]:
    """Stream all scores by cell. Must be consumed while the connection is open."""
    columns = scores.c
    passed = type_coerce(columns.passed, Integer)  # Avoids a conversion to bool for each row.
    query = select(columns.evaluator, columns.name, columns.cell, columns.status, passed, columns.score)
    query = query.where(columns.project == project, columns.evaluation == evaluation)
    rows = db.execute(query.order_by(columns.cell, columns.evaluator, columns.name))
    return cast("Iterable[ScoreRow]", rows.yield_per(_FETCH_ROWS))


def unscored_reasons(
    db: Connection, project: str, evaluation: str, *, variants: int, repeats: int
) -> list[tuple[int, int, str, str, int]]:
    """Return evaluator, variant, status, the beginning of the reason, and count of scores that are not `scored`."""
    columns = scores.c
    variant = ((columns.cell // repeats) % variants).label("variant")
    reason = func.substr(columns.reason, 1, _MAX_REASON_LENGTH).label("reason")
    query = select(columns.evaluator, variant, columns.status, reason)
    unscored = query.where(
        columns.project == project, columns.evaluation == evaluation, columns.status != "scored"
    ).subquery()
    rows = db.execute(select(*unscored.c, func.count()).group_by(*unscored.c).order_by(*unscored.c))
    return [tuple(row) for row in rows]


def cell_rows(db: Connection, project: str, evaluation: str) -> Iterable[CellRow]:
    """Stream all results by cell. Must be consumed while the connection is open."""
    columns = table.c
    query = select(columns.cell, columns.status, columns.latency, columns.cost)
    query = query.where(columns.project == project, columns.evaluation == evaluation)
    return cast("Iterable[CellRow]", db.execute(query.order_by(columns.cell)).yield_per(_FETCH_ROWS))


def recent_pace(
    db: Connection, project: str, evaluation: str, last: int = 200
) -> tuple[int, datetime, datetime] | None:
    """Return the count, first end and last end of the most recent results."""
    columns = table.c
    latest = (
        select(columns.ended_at)
        .where(columns.project == project, columns.evaluation == evaluation)
        .order_by(columns.seq.desc())
        .limit(last)
        .subquery()
    )
    count, first, end = db.execute(select(func.count(), func.min(latest.c.ended_at), func.max(latest.c.ended_at))).one()
    return None if not count else (count, first, end)


class StoredResult(CellResult, frozen=True, kw_only=True):
    seq: int
    scores: list[CellScore] = []


class ResultDetail(msgspec.Struct, frozen=True):
    result: StoredResult
    body: Any


class ResultFilters(msgspec.Struct, frozen=True, kw_only=True):
    variant: int | None = None
    """The variant's index in the plan."""
    status: CellStatus | None = None
    evaluator: str | None = None
    """The name of a score, to which `passed` and `score_status` apply; None for any."""
    passed: bool | None = None
    score_status: ScoreStatus | None = None
    row: str | None = None
    search: str | None = None
    among: Sequence[int] | None = None
    """Only these cells, in ascending order."""


_RESULT_FIELDS = [name for name in StoredResult.__struct_fields__ if name != "scores"]
_RESULT_COLUMNS = [table.c[name] for name in _RESULT_FIELDS]
_SCORE_COLUMNS = [scores.c[name] for name in CellScore.__struct_fields__]
_MAX_CELLS = 500
ALL_RESULTS = ResultFilters()


def list_results(
    db: Connection, project: str, evaluation: str, filters: ResultFilters = ALL_RESULTS, window: Window = FIRST_PAGE
) -> Page[StoredResult]:
    """List results by cell."""
    query = _filtered_results(project, evaluation, filters)
    scope = {**msgspec.structs.asdict(filters), "evaluation": evaluation}
    if filters.among is not None:
        scope["among"] = True
        first = pagination.decode_cursor(window, project=project, by=(table.c.cell,), filters=scope, order="oldest")
        after = -1 if first is None else first[0]
        query = query.where(table.c.cell.in_(_next_cells(db, project, evaluation, filters, after, window.limit + 1)))
    page = fetch_page(
        db, query, _row_to_result, project=project, by=(table.c.cell,), window=window, filters=scope, order="oldest"
    )
    return Page(_add_scores(db, project, evaluation, page.data), page.next)


def list_results_since(db: Connection, project: str, evaluation: str, seq: int, limit: int = 100) -> list[StoredResult]:
    """List the results recorded after `seq`, in that order."""
    query = select(*_RESULT_COLUMNS).where(*_in_evaluation(project, evaluation), table.c.seq > seq)
    rows = db.execute(query.order_by(table.c.seq).limit(limit)).all()
    return _add_scores(db, project, evaluation, [_row_to_result(row) for row in rows])


def get_result(db: Connection, project: str, evaluation: str, cell: int) -> ResultDetail:
    """Return a result with its body. Raises NotFound."""
    query = select(*_RESULT_COLUMNS, table.c.body).where(*_in_evaluation(project, evaluation), table.c.cell == cell)
    row = db.execute(query).one_or_none() if cell < 1 << 31 else None
    if row is None:
        raise NotFound(f"Result 'cell_{cell}' not found in evaluation {evaluation[:80]!r}.")
    [result] = _add_scores(db, project, evaluation, [_row_to_result(row)])
    return ResultDetail(result, decompress_result(row.body))


def list_result_details(
    db: Connection, project: str, evaluation: str, after: int = -1, limit: int = 100
) -> list[ResultDetail]:
    """List results with their bodies, after a cell, for an export in batches."""
    query = select(*_RESULT_COLUMNS, table.c.body).where(*_in_evaluation(project, evaluation), table.c.cell > after)
    rows = db.execute(query.order_by(table.c.cell).limit(limit)).all()
    results = _add_scores(db, project, evaluation, [_row_to_result(row) for row in rows])
    return [ResultDetail(result, decompress_result(row.body)) for result, row in zip(results, rows, strict=True)]


def _next_cells(
    db: Connection, project: str, evaluation: str, filters: ResultFilters, after: int, limit: int
) -> list[int]:
    """Return the first matching cells of `among` after a cell."""
    cells = filters.among or ()
    matches: list[int] = []
    start = bisect_right(cells, after)
    while start < len(cells) and len(matches) < limit:
        batch = _filtered_results(project, evaluation, filters).with_only_columns(table.c.cell)
        batch = batch.where(table.c.cell.in_(cells[start : start + _MAX_CELLS])).order_by(table.c.cell)
        matches += db.scalars(batch.limit(limit - len(matches)))
        start += _MAX_CELLS
    return matches


def _filtered_results(project: str, evaluation: str, filters: ResultFilters) -> Select[Any]:
    query = select(*_RESULT_COLUMNS).where(*_in_evaluation(project, evaluation))
    if filters.variant is not None:
        query = query.where(table.c.variant == filters.variant)
    if filters.status is not None:
        query = query.where(table.c.status == filters.status)
    if filters.row is not None:
        query = query.where(table.c.row == storable_text(filters.row))
    if needle := folded_text(filters.search or ""):
        query = query.where(table.c.folded.contains(needle, autoescape=True))
    score_conditions: list[ColumnElement[bool]] = []
    if filters.evaluator is not None:
        score_conditions.append(scores.c.name == storable_text(filters.evaluator))
    if filters.passed is not None:
        score_conditions.append(scores.c.passed.is_(filters.passed))
    if filters.score_status is not None:
        score_conditions.append(scores.c.status == filters.score_status)
    if score_conditions:
        of_cell = (scores.c.project == project, scores.c.evaluation == evaluation, scores.c.cell == table.c.cell)
        query = query.where(exists().where(*of_cell, *score_conditions))
    return query


def _in_evaluation(project: str, evaluation: str) -> tuple[Any, Any]:
    return table.c.project == project, table.c.evaluation == storable_text(evaluation)


def _add_scores(db: Connection, project: str, evaluation: str, results: list[StoredResult]) -> list[StoredResult]:
    by_cell: dict[int, list[CellScore]] = {result.cell: [] for result in results}
    if not results:
        return []
    query = select(scores.c.cell, *_SCORE_COLUMNS).where(
        scores.c.project == project, scores.c.evaluation == storable_text(evaluation), scores.c.cell.in_(list(by_cell))
    )
    for cell, *fields in db.execute(query.order_by(scores.c.cell, scores.c.evaluator, scores.c.name)):
        by_cell[cell].append(msgspec.convert(dict(zip(CellScore.__struct_fields__, fields, strict=True)), CellScore))
    return [msgspec.structs.replace(result, scores=by_cell[result.cell]) for result in results]


def _row_to_result(row: Row[Any]) -> StoredResult:
    fields: dict[str, Any] = dict(zip(_RESULT_FIELDS, row, strict=False))
    if fields["usage"] is not None:
        fields["usage"] = msgspec.convert(fields["usage"], Usage)
    return StoredResult(**fields)
