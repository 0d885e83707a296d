"""Scores of live evaluators: per trace, and statistics over time."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec
from sqlalchemy import BigInteger, Connection, case, func, select, type_coerce

from palaver.storage.live.cases import DROPPED_ATTEMPTS
from palaver.storage.live.tables import online_cases
from palaver.storage.live.tables import online_scores as table

TimeStep = Literal["minute", "hour", "day"]
_MICROSECONDS: dict[TimeStep, int] = {"minute": 60_000_000, "hour": 3_600_000_000, "day": 86_400_000_000}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_PER_TRACE = 500
MAX_ROWS = 10_000


class LiveScore(msgspec.Struct, frozen=True, kw_only=True):
    rule: str
    name: str
    session: str | None
    """Set if the score is that of a session."""
    status: Literal["scored", "skipped", "error"]
    passed: bool | None
    score: float | None
    label: str | None
    reason: str
    created_at: datetime


class LiveScoreStats(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of one evaluator in one time step."""

    at: datetime
    """The start of the step."""
    evaluator: str
    n: int
    """Number of scores."""
    passed: int
    judged: int
    """Number of scores with a pass or fail verdict."""
    mean: float | None
    skipped: int
    errors: int
    cost: float | None


class CaseCounts(msgspec.Struct, frozen=True, kw_only=True):
    waiting: int = 0
    running: int = 0
    done: int = 0
    dropped: int = 0
    """Dropped because the backlog was too long."""


_FIELDS = [table.c[name] for name in LiveScore.__struct_fields__]


def list_trace_scores(db: Connection, project: str, trace: str) -> list[LiveScore]:
    """List the scores of a trace, oldest first."""
    asked = select(*_FIELDS).where(table.c.project == project, table.c.trace == trace)
    ordered = asked.order_by(table.c.created_at, table.c.rule, table.c.evaluator, table.c.name).limit(_MAX_PER_TRACE)
    return [LiveScore(**dict(zip(LiveScore.__struct_fields__, row, strict=True))) for row in db.execute(ordered)]


def score_stats(
    db: Connection, project: str, rule: str, *, by: TimeStep, since: datetime | None, until: datetime | None
) -> list[LiveScoreStats]:
    """Return statistics in order of time, at most the latest MAX_ROWS."""
    step = _MICROSECONDS[by]
    at = (type_coerce(table.c.created_at, BigInteger) // step).label("step")
    is_scored = table.c.status == "scored"
    counts = {
        "n": func.count().filter(is_scored),
        "passed": func.count().filter(table.c.passed.is_(True)),
        "judged": func.count().filter(table.c.passed.is_not(None)),
        "mean": func.avg(table.c.score),
        "skipped": func.count().filter(table.c.status == "skipped"),
        "errors": func.count().filter(table.c.status == "error"),
        "cost": func.sum(table.c.cost),
    }
    asked = select(at, table.c.name, *(count.label(name) for name, count in counts.items()))
    asked = asked.where(table.c.project == project, table.c.rule == rule)
    if since is not None:
        asked = asked.where(table.c.created_at >= since)
    if until is not None:
        asked = asked.where(table.c.created_at < until)
    latest = asked.group_by(at, table.c.name).order_by(at.desc(), table.c.name.desc()).limit(MAX_ROWS)
    rows: Sequence[Any] = db.execute(latest).all()
    return [_row_to_stats(row, step, counts) for row in reversed(rows)]


def _row_to_stats(row: Sequence[Any], step: int, names: Iterable[str]) -> LiveScoreStats:
    at, name, *counts = row
    counted: dict[str, Any] = dict(zip(names, counts, strict=True))
    return LiveScoreStats(at=_EPOCH + timedelta(microseconds=at * step), evaluator=name, **counted)


def count_cases(db: Connection, project: str, rule: str) -> CaseCounts:
    mine = (online_cases.c.project == project, online_cases.c.rule == rule)
    state = case((online_cases.c.attempts == DROPPED_ATTEMPTS, "dropped"), else_=online_cases.c.state).label("as")
    counted = select(state, func.count()).where(*mine).group_by(state)
    return CaseCounts(**{row[0]: row[1] for row in db.execute(counted)})
