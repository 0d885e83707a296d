"""Statistics of traces over time: count, errors, latency, tokens and cost by minute, hour or day."""

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec
from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Connection,
    Row,
    Select,
    Text,
    and_,
    case,
    cast,
    func,
    null,
    select,
    type_coerce,
)

from palaver.storage.spans.queries import ALL_SPANS, SpanQuery, query_clauses
from palaver.storage.spans.tables import HEAD, MODEL_CALL_KINDS, spans

TimeStep = Literal["minute", "hour", "day"]
StatsGroup = Literal["workflow", "model", "status", "kind", "service", "user", "session"]

STEP_MICROSECONDS: dict[TimeStep, int] = {"minute": 60_000_000, "hour": 3_600_000_000, "day": 86_400_000_000}
_SUM_COLUMNS = ("input_tokens", "output_tokens", "cost")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_ROWS = 10_000


class TraceStats(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of one group in one time step."""

    at: datetime
    """The start of the step."""
    group: str | None
    traces: int
    errors: int
    p50_ms: float
    p95_ms: float
    input_tokens: int
    output_tokens: int
    cost: float


def trace_stats(
    db: Connection,
    project: str,
    *,
    by: TimeStep = "hour",
    group: StatsGroup | None = None,
    query: SpanQuery = ALL_SPANS,
) -> list[TraceStats]:
    """Return statistics in order of time, at most the latest MAX_ROWS. A trace counts at the start of its head."""
    step = STEP_MICROSECONDS[by]
    heads = (
        select(
            spans.c.trace_id,
            (type_coerce(spans.c.start, BigInteger) // step).label("step"),
            (cast(null(), Text) if group is None else spans.c[group]).label("group_name"),
            *(spans.c[name] for name in ("status", "duration_ms", *_SUM_COLUMNS)),
        )
        .where(*query_clauses(db, project, query), spans.c.head == HEAD)
        .cte("heads")
    )
    return [_row_to_stats(row, step) for row in reversed(db.execute(_aggregate(project, heads)).all())]


def _aggregate(project: str, heads: CTE) -> Select[*tuple[Any, ...]]:
    call = spans.alias("call")
    in_trace = (call.c.project == project, call.c.trace_id == heads.c.trace_id, call.c.kind.in_(MODEL_CALL_KINDS))
    totals = (
        select(
            *(heads.c[name] for name in ("step", "group_name", "status", "duration_ms")),
            *(func.coalesce(func.sum(call.c[name]), heads.c[name], 0).label(name) for name in _SUM_COLUMNS),
        )
        .join_from(heads, call, and_(*in_trace), isouter=True)
        .group_by(*heads.c)
        .cte("totals")
    )
    partition = [totals.c.step, totals.c.group_name]
    ranked = select(
        *totals.c,
        func.row_number().over(partition_by=partition, order_by=totals.c.duration_ms).label("place"),
        func.count().over(partition_by=partition).label("size"),
    ).cte("ranked")
    return (
        select(
            ranked.c.step,
            ranked.c.group_name,
            func.count().label("traces"),
            func.count(case((ranked.c.status == "error", 1))).label("errors"),
            *(_percentile(ranked, percent).label(f"p{percent}_ms") for percent in (50, 95)),
            *(func.sum(ranked.c[name]).label(name) for name in _SUM_COLUMNS),
        )
        .group_by(ranked.c.step, ranked.c.group_name)
        .order_by(ranked.c.step.desc(), ranked.c.group_name.desc())
        .limit(MAX_ROWS)
    )


def _percentile(ranked: CTE, percent: int) -> ColumnElement[Any]:
    """Return the nearest-rank percentile of the duration."""
    return func.max(case((ranked.c.place == (ranked.c.size * percent + 99) // 100, ranked.c.duration_ms)))


def _row_to_stats(row: Row[Any], step: int) -> TraceStats:
    return TraceStats(
        at=EPOCH + timedelta(microseconds=row.step * step),
        group=row.group_name,
        traces=row.traces,
        errors=row.errors,
        p50_ms=row.p50_ms,
        p95_ms=row.p95_ms,
        input_tokens=int(row.input_tokens),
        output_tokens=int(row.output_tokens),
        cost=row.cost,
    )
