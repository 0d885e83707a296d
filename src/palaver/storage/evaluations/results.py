"""Results of evaluations: each cell is recorded once, whole, with its scores, by whoever holds its slice."""

import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, cast

import msgspec
from sqlalchemy import Connection, Integer, func, insert, select, type_coerce

from palaver.core import jsons
from palaver.core.usage import Usage
from palaver.storage.evaluations import ends, slices
from palaver.storage.evaluations.slices import Slice
from palaver.storage.evaluations.tables import evaluation_results as table
from palaver.storage.evaluations.tables import evaluation_scores as scores_table
from palaver.storage.evaluations.tables import evaluations
from palaver.storage.threads.nodes import folded, held

CellStatus = Literal["done", "failed"]
ScoreStatus = Literal["scored", "skipped", "error"]
_LEVEL = 1
"""Of packing: more takes three times as long and saves a tenth."""
_MOST_FOLDED = 20_000
"""Characters of a result that a search looks at."""


class NewScore(msgspec.Struct, frozen=True, kw_only=True):
    """What one evaluator made of a cell."""

    evaluator: int
    """Its place in the plan."""
    name: str
    status: ScoreStatus
    passed: bool | None = None
    score: float | None = None
    label: str | None = None
    reason: str = ""
    details: Mapping[str, Any] = {}
    seconds: float = 0.0
    usage: Usage | None = None
    cost: float | None = None


class NewResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a cell came to."""

    cell: int
    row: str
    variant: int
    repeat: int
    status: CellStatus
    error: Mapping[str, Any] | None = None
    """`{"code", "message"}`, of one that failed."""
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
    words: str = ""
    """What a search looks at."""
    body: bytes
    """All of it: `packed`."""
    scores: Sequence[NewScore] = ()


class Stops(msgspec.Struct, frozen=True, kw_only=True):
    """When an evaluation has had enough."""

    most_failed: int | None = None
    """Cells; None: any number."""
    most_cost: float | None = None


class Recorded(msgspec.Struct, frozen=True):
    """How it went."""

    is_ours: bool
    """Else another process has the slice, or the evaluation is gone: nothing was recorded."""
    is_stopped: bool = False
    """The evaluation is to end."""


def packed(body: Mapping[str, Any]) -> bytes:
    """The whole of a result, as it is kept."""
    return zlib.compress(jsons.encode(body), _LEVEL)


def unpacked(body: bytes) -> Any:
    """The same again."""
    return msgspec.json.decode(zlib.decompress(body))


def recorded(db: Connection, project: str, evaluation: str, cells: Collection[int]) -> set[int]:
    """Which of these cells have a result: they never run again."""
    asked = select(table.c.cell).where(
        table.c.project == project, table.c.evaluation == evaluation, table.c.cell.in_(list(cells))
    )
    return set(db.scalars(asked))


def record(db: Connection, process: str, one: Slice, new: Sequence[NewResult], stops: Stops, at: datetime) -> Recorded:
    """Keep results of a slice that this process holds. A cell that has one keeps it: nothing is ever changed."""
    mine = (evaluations.c.project == one.project, evaluations.c.id == one.evaluation)
    columns = (
        evaluations.c.recorded,
        evaluations.c.failed,
        evaluations.c.cost,
        evaluations.c.score_cost,
        evaluations.c.cancel_asked_at,
    )
    figures = db.execute(select(*columns).where(*mine).with_for_update()).one_or_none()
    if figures is None or not slices.is_held(db, process, one):
        return Recorded(False)
    known = recorded(db, one.project, one.evaluation, [result.cell for result in new])
    fresh = [result for result in new if result.cell not in known]
    if not fresh:
        return Recorded(True, figures.cancel_asked_at is not None)
    _insert(db, one, fresh, figures.recorded)
    slices.noted(db, one)
    failed = sum(result.status == "failed" for result in fresh)
    cost = _sum([figures.cost, *(result.cost for result in fresh)])
    score_cost = _sum([figures.score_cost, *(score.cost for result in fresh for score in result.scores)])
    ends.change(
        db,
        one.project,
        one.evaluation,
        at,
        recorded=figures.recorded + len(fresh),
        done=evaluations.c.done + len(fresh) - failed,
        failed=evaluations.c.failed + failed,
        errors=evaluations.c.errors + sum(score.status == "error" for result in fresh for score in result.scores),
        cost=cost,
        score_cost=score_cost,
    )
    enough = _enough(stops, figures.failed + failed, (cost or 0) + (score_cost or 0))
    if enough is not None and figures.cancel_asked_at is None:
        ends.stop(db, one.project, one.evaluation, enough, at)
    return Recorded(True, enough is not None or figures.cancel_asked_at is not None)


def _insert(db: Connection, one: Slice, fresh: Sequence[NewResult], last: int) -> None:
    rows: list[dict[str, Any]] = []
    scores: list[dict[str, Any]] = []
    for seq, result in enumerate(fresh, last + 1):
        row = msgspec.structs.asdict(result)
        given = row.pop("scores")
        words = row.pop("words")
        rows.append(
            {
                "project": one.project,
                "evaluation": one.evaluation,
                "seq": seq,
                **row,
                "folded": folded(words[:_MOST_FOLDED]),
            }
        )
        for score in given:
            kept = msgspec.structs.asdict(score)
            kept |= {"name": held(score.name), "reason": held(score.reason), "details": score.details or None}
            kept["label"] = None if score.label is None else held(score.label)
            scores.append({"project": one.project, "evaluation": one.evaluation, "cell": result.cell, **kept})
    db.execute(insert(table), rows)
    if scores:
        db.execute(insert(scores_table), scores)


def _enough(stops: Stops, failed: int, cost: float) -> dict[str, Any] | None:
    if stops.most_failed is not None and failed > stops.most_failed:
        told = f"{failed} cells failed, more than the {stops.most_failed} of max_errors: the rest is cancelled."
        return {"code": "max_errors", "message": told}
    if stops.most_cost is not None and cost >= stops.most_cost:
        told = f"${cost:.4f} of max_cost ${stops.most_cost:.4f} are spent: the rest is cancelled."
        return {"code": "max_cost", "message": told}
    return None


def _sum(costs: Sequence[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known else None


# Figures, for who computes with them


ScoreRow = tuple[int, str, int, ScoreStatus, bool | None, float | None]
"""Evaluator, name, cell, status, passed, score."""
CellRow = tuple[int, CellStatus, float | None, float | None]
"""Cell, status, latency, cost."""
_AT_ONCE = 2_000
"""Rows that are in memory: of more the garbage collector would take notice, again and again."""


def score_rows(db: Connection, project: str, evaluation: str) -> Iterable[ScoreRow]:
    """All scores, by cell; to be read while the connection is open, a piece of them in memory at a time."""
    columns = scores_table.c
    passed = type_coerce(columns.passed, Integer)  # 1 is as good as True, and need not be made of each.
    asked = select(columns.evaluator, columns.name, columns.cell, columns.status, passed, columns.score)
    mine = asked.where(columns.project == project, columns.evaluation == evaluation)
    found = db.execute(mine.order_by(columns.cell, columns.evaluator, columns.name))
    return cast("Iterable[ScoreRow]", found.yield_per(_AT_ONCE))


def cell_rows(db: Connection, project: str, evaluation: str) -> Iterable[CellRow]:
    """All results, by cell; in pieces likewise."""
    columns = table.c
    asked = select(columns.cell, columns.status, columns.latency, columns.cost)
    mine = asked.where(columns.project == project, columns.evaluation == evaluation)
    return cast("Iterable[CellRow]", db.execute(mine.order_by(columns.cell)).yield_per(_AT_ONCE))


def pace(db: Connection, project: str, evaluation: str, last: int = 200) -> tuple[int, datetime, datetime] | None:
    """Of the results that were recorded last: how many there are, and when the first and the last of them ended."""
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
