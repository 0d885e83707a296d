"""Scores of live evaluators: per trace, and statistics over time."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec
from sqlalchemy import BigInteger, Connection, case, func, select, type_coerce

from palaver.storage.live.cases import DROPPED_ATTEMPTS
from palaver.storage.live.tables import online_cases as cases
from palaver.storage.live.tables import online_scores as scores

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


_FIELDS = [scores.c[name] for name in LiveScore.__struct_fields__]


def list_trace_scores(db: Connection, project: str, trace: str) -> list[LiveScore]:
    """List the scores of a trace, oldest first."""
    asked = select(*_FIELDS).where(scores.c.project == project, scores.c.trace == trace)
    ordered = asked.order_by(scores.c.created_at, scores.c.rule, scores.c.evaluator, scores.c.name).limit(
        _MAX_PER_TRACE
    )
    return [LiveScore(**dict(zip(LiveScore.__struct_fields__, row, strict=True))) for row in db.execute(ordered)]


def score_stats(
    db: Connection, project: str, rule: str, *, by: TimeStep, since: datetime | None, until: datetime | None
) -> list[LiveScoreStats]:
    """Return statistics in order of time, at most the latest MAX_ROWS."""
    step = _MICROSECONDS[by]
    at = (type_coerce(scores.c.created_at, BigInteger) // step).label("step")
    is_scored = scores.c.status == "scored"
    counts = {
        "n": func.count().filter(is_scored),
        "passed": func.count().filter(scores.c.passed.is_(True)),
        "judged": func.count().filter(scores.c.passed.is_not(None)),
        "mean": func.avg(scores.c.score),
        "skipped": func.count().filter(scores.c.status == "skipped"),
        "errors": func.count().filter(scores.c.status == "error"),
        "cost": func.sum(scores.c.cost),
    }
    asked = select(at, scores.c.name, *(count.label(name) for name, count in counts.items()))
    asked = asked.where(scores.c.project == project, scores.c.rule == rule)
    if since is not None:
        asked = asked.where(scores.c.created_at >= since)
    if until is not None:
        asked = asked.where(scores.c.created_at < until)
    latest = asked.group_by(at, scores.c.name).order_by(at.desc(), scores.c.name.desc()).limit(MAX_ROWS)
    rows: Sequence[Any] = db.execute(latest).all()
    return [_row_to_stats(row, step, counts) for row in reversed(rows)]


def _row_to_stats(row: Sequence[Any], step: int, names: Iterable[str]) -> LiveScoreStats:
    at, name, *counts = row
    counted: dict[str, Any] = dict(zip(names, counts, strict=True))
    return LiveScoreStats(at=_EPOCH + timedelta(microseconds=at * step), evaluator=name, **counted)


def count_cases(db: Connection, project: str, rule: str) -> CaseCounts:
    mine = (cases.c.project == project, cases.c.rule == rule)
    state = case((cases.c.attempts == DROPPED_ATTEMPTS, "dropped"), else_=cases.c.state).label("as")
    counted = select(state, func.count()).where(*mine).group_by(state)
    return CaseCounts(**{row[0]: row[1] for row in db.execute(counted)})
