"""Results of evaluations, to be looked at: a page of them, those that are new, or one as a whole."""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, Select, exists, select

from palaver.core.usage import Usage
from palaver.errors import NotFound
from palaver.storage import pages
from palaver.storage.evaluations.results import CellStatus, ScoreStatus, unpacked
from palaver.storage.evaluations.tables import evaluation_results as table
from palaver.storage.evaluations.tables import evaluation_scores as scores
from palaver.storage.pages import START, Page, Window, page
from palaver.storage.threads.nodes import folded, held


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """What one evaluator made of a cell."""

    evaluator: int
    """Its place in the plan."""
    name: str
    status: ScoreStatus
    passed: bool | None
    score: float | None
    label: str | None
    reason: str
    details: dict[str, Any] | None
    seconds: float
    usage: Usage | None
    cost: float | None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A cell, as a table shows it."""

    cell: int
    seq: int
    row: str
    variant: int
    repeat: int
    status: CellStatus
    error: dict[str, Any] | None
    latency: float | None
    first_output: float | None
    usage: Usage | None
    cost: float | None
    finish: str | None
    attempts: int
    trace_id: str | None
    run: str | None
    started_at: datetime
    ended_at: datetime
    preview_in: Any
    preview_out: Any
    scores: list[Score] = []


class Whole(msgspec.Struct, frozen=True):
    """A cell with all that was said in it."""

    result: Result
    body: Any


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which results are wanted."""

    variant: int | None = None
    """Its place in the plan."""
    status: CellStatus | None = None
    evaluator: str | None = None
    """The name of a score; what is said below is said of it, else of any."""
    passed: bool | None = None
    score_status: ScoreStatus | None = None
    row: str | None = None
    search: str | None = None
    among: Sequence[int] | None = None
    """Only these cells, in their order: what else is asked for was found out otherwise."""


_NAMES = [name for name in Result.__struct_fields__ if name != "scores"]
_COLUMNS = [table.c[name] for name in _NAMES]
_SCORE = [scores.c[name] for name in Score.__struct_fields__]
_PIECE = 500
ANY = Wanted()


def list_page(
    db: Connection, project: str, evaluation: str, wanted: Wanted = ANY, window: Window = START
) -> Page[Result]:
    """A page of the results that are there, in the order of their cells."""
    asked = _fitting(project, evaluation, wanted)
    kept = {**msgspec.structs.asdict(wanted), "evaluation": evaluation}
    if wanted.among is not None:
        kept["among"] = True
        first = pages.begin(window, project=project, by=(table.c.cell,), filters=kept, order="oldest")
        after = -1 if first is None else first[0]
        asked = asked.where(table.c.cell.in_(_some(db, project, evaluation, wanted, after, window.limit + 1)))
    found = page(db, asked, _result, project=project, by=(table.c.cell,), window=window, filters=kept, order="oldest")
    return Page(_scored(db, project, evaluation, found.data), found.next)


def since(db: Connection, project: str, evaluation: str, seq: int, limit: int = 100) -> list[Result]:
    """The results that were recorded after that one, in the order in which they were."""
    asked = select(*_COLUMNS).where(*_mine(project, evaluation), table.c.seq > seq)
    rows = db.execute(asked.order_by(table.c.seq).limit(limit)).all()
    return _scored(db, project, evaluation, [_result(row) for row in rows])


def one(db: Connection, project: str, evaluation: str, cell: int) -> Whole:
    """One result with all that was said; NotFound if the cell has none."""
    asked = select(*_COLUMNS, table.c.body).where(*_mine(project, evaluation), table.c.cell == cell)
    row = db.execute(asked).one_or_none() if cell < 1 << 31 else None
    if row is None:
        raise NotFound(f"The evaluation {evaluation[:80]!r} has no result of cell {cell}.")
    [result] = _scored(db, project, evaluation, [_result(row)])
    return Whole(result, unpacked(row.body))


def every(db: Connection, project: str, evaluation: str, after: int = -1, limit: int = 100) -> list[Whole]:
    """The results of the cells after that one, each as a whole: for who writes all of them out, a piece at a time."""
    asked = select(*_COLUMNS, table.c.body).where(*_mine(project, evaluation), table.c.cell > after)
    rows = db.execute(asked.order_by(table.c.cell).limit(limit)).all()
    results = _scored(db, project, evaluation, [_result(row) for row in rows])
    return [Whole(result, unpacked(row.body)) for result, row in zip(results, rows, strict=True)]


def _some(db: Connection, project: str, evaluation: str, wanted: Wanted, after: int, limit: int) -> list[int]:
    """The first cells after that one which are among those wanted, and fit."""
    cells = wanted.among or ()
    found: list[int] = []
    start = bisect_right(cells, after)
    while start < len(cells) and len(found) < limit:
        piece = _fitting(project, evaluation, wanted).with_only_columns(table.c.cell)
        piece = piece.where(table.c.cell.in_(cells[start : start + _PIECE])).order_by(table.c.cell)
        found += db.scalars(piece.limit(limit - len(found)))
        start += _PIECE
    return found


def _fitting(project: str, evaluation: str, wanted: Wanted) -> Select[Any]:
    asked = select(*_COLUMNS).where(*_mine(project, evaluation))
    if wanted.variant is not None:
        asked = asked.where(table.c.variant == wanted.variant)
    if wanted.status is not None:
        asked = asked.where(table.c.status == wanted.status)
    if wanted.row is not None:
        asked = asked.where(table.c.row == held(wanted.row))
    if needle := folded(wanted.search or ""):
        asked = asked.where(table.c.folded.contains(needle, autoescape=True))
    about: list[ColumnElement[bool]] = []
    if wanted.evaluator is not None:
        about.append(scores.c.name == held(wanted.evaluator))
    if wanted.passed is not None:
        about.append(scores.c.passed.is_(wanted.passed))
    if wanted.score_status is not None:
        about.append(scores.c.status == wanted.score_status)
    if about:
        theirs = (scores.c.project == project, scores.c.evaluation == evaluation, scores.c.cell == table.c.cell)
        asked = asked.where(exists().where(*theirs, *about))
    return asked


def _mine(project: str, evaluation: str) -> tuple[Any, Any]:
    return table.c.project == project, table.c.evaluation == held(evaluation)


def _scored(db: Connection, project: str, evaluation: str, found: list[Result]) -> list[Result]:
    """The results with their scores."""
    by_cell: dict[int, list[Score]] = {result.cell: [] for result in found}
    if not found:
        return []
    asked = select(scores.c.cell, *_SCORE).where(
        scores.c.project == project, scores.c.evaluation == held(evaluation), scores.c.cell.in_(list(by_cell))
    )
    for cell, *fields in db.execute(asked.order_by(scores.c.cell, scores.c.evaluator, scores.c.name)):
        by_cell[cell].append(msgspec.convert(dict(zip(Score.__struct_fields__, fields, strict=True)), Score))
    return [msgspec.structs.replace(result, scores=by_cell[result.cell]) for result in found]


def _result(row: Row[Any]) -> Result:
    fields: dict[str, Any] = dict(zip(_NAMES, row, strict=False))
    if fields["usage"] is not None:
        fields["usage"] = msgspec.convert(fields["usage"], Usage)
    return Result(**fields)
