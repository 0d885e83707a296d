"""Deletion of the spans of expired days, or of a user, session or run.

PostgreSQL drops whole days. Otherwise spans are deleted in batches that block other writers only briefly; callers
repeat until nothing is left.
"""

import time
from collections.abc import Collection, Sequence
from datetime import date, timedelta
from typing import Any, Literal

from sqlalchemy import BigInteger, ColumnElement, Connection, Row, Select, func, or_, select, type_coerce
from sqlalchemy.exc import DBAPIError

from palaver.core.runs import RetentionPolicy
from palaver.storage.spans import partitions, writes
from palaver.storage.spans.tables import HEAD, span_days, spans
from palaver.storage.tables import runs

DELETE_BATCH = 5_000
DELETE_BUDGET_S = 0.01
"""No further step is started after this time."""
DELETE_STEP = 20
DROP_LOCK_TIMEOUT_S = 1
"""How long dropping a day waits for readers, which blocks others meanwhile."""
_LOCK_TIMEOUT_STATE = "55P03"
_RETENTION_LOCK_ID = 6_157_842_606
_DAY_MICROSECONDS = 24 * 60 * 60 * 1_000_000
_DELETED_COLUMNS = [spans.c[name] for name in ("id", "day", "trace_id", "span_id", "bytes", "head")]


def list_expired(db: Connection, policy: RetentionPolicy, today: date) -> list[tuple[date, str | None]]:
    """List expired days as (first day to keep, project); the project is None if they expired in all projects."""
    first_days: dict[str, date | None] = {}
    for project in {usage.project for usage in partitions.list_day_usage(db)}:
        days = policy.days_by_project.get(project, policy.days)
        first_days[project] = today - timedelta(days=days) if days else None
    limits = [day for day in first_days.values() if day is not None]
    if not limits:
        return []
    common = min(limits) if len(limits) == len(first_days) else None
    by_project: list[tuple[date, str | None]] = [
        (day, project) for project, day in sorted(first_days.items()) if day is not None and day != common
    ]
    return by_project if common is None else [(common, None), *by_project]


def delete_before(db: Connection, before: date, project: str | None = None) -> int:
    """Delete a batch of spans of days before `before`, of one project or all; returns their number.

    0 if nothing is left, nothing can be deleted now, or another process is doing it.
    """
    if db.dialect.name == "postgresql" and not db.scalar(select(func.pg_try_advisory_xact_lock(_RETENTION_LOCK_ID))):
        return 0
    drops_days = project is None and db.dialect.name == "postgresql"
    deadline = time.monotonic() + DELETE_BUDGET_S
    deleted = 0
    while deleted < DELETE_BATCH and (not deleted or time.monotonic() < deadline):
        oldest = select(span_days.c.day, span_days.c.project).where(span_days.c.day < partitions.day_number(before))
        if drops_days:  # Empty days still have partitions.
            oldest = oldest.where(span_days.c.day > partitions.last_dropped_day(db, partitions.EVERY_PROJECT))
        else:
            oldest = oldest.where(span_days.c.spans > 0)
        if project is not None:
            oldest = oldest.where(span_days.c.project == project)
        oldest_day = db.execute(oldest.order_by(span_days.c.day, span_days.c.project).limit(1)).first()
        if oldest_day is None:
            break
        if drops_days:
            return _try_drop_day(db, oldest_day.day)
        deleted += _delete_from_day(
            db,
            oldest_day.day,
            oldest_day.project,
            all_projects=project is None,
            deadline=deadline,
            limit=DELETE_BATCH - deleted,
        )
    return deleted


def delete_oldest(db: Connection, max_spans: int) -> int:
    """Delete a batch of the oldest spans beyond `max_spans`, for an in-memory database; returns their number."""
    total = sum(usage.spans for usage in partitions.list_day_usage(db))
    query = (
        select(spans.c.project, *_DELETED_COLUMNS)
        .order_by(spans.c.id)
        .limit(min(DELETE_BATCH, max(0, total - max_spans)))
    )
    rows = db.execute(query).all()
    for project in {row.project for row in rows}:
        _delete_and_rehead(db, project, [row for row in rows if row.project == project])
    return len(rows)


def delete_matching(db: Connection, project: str, limit: int, *conditions: ColumnElement[bool]) -> int:
    """Delete up to `limit` spans of a project that match the conditions; returns their number."""
    rows = db.execute(select(*_DELETED_COLUMNS).where(spans.c.project == project, *conditions).limit(limit)).all()
    if rows:
        _delete_and_rehead(db, project, rows)
    return len(rows)


def _delete_and_rehead(db: Connection, project: str, rows: Sequence[Row[Any]]) -> None:
    """Delete spans and elect new heads of the traces that still have spans."""
    _delete_rows(db, project, rows)
    for row in rows:
        if row.head:
            _elect_head(db, project, row.trace_id)


def _try_drop_day(db: Connection, day: int) -> int:
    """Drop a day of all projects; 0 if readers hold it for too long."""
    try:
        with db.begin_nested():
            return _drop_day(db, day)
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != _LOCK_TIMEOUT_STATE:
            raise
        return 0


def _drop_day(db: Connection, day: int) -> int:
    db.execute(select(func.set_config("lock_timeout", f"{round(DROP_LOCK_TIMEOUT_S * 1000)}", True)))
    partitions.mark_day_dropped(db, partitions.EVERY_PROJECT, day)
    deleted = db.scalar(select(func.sum(span_days.c.spans)).where(span_days.c.day == day))
    headless = _traces_beyond(db, day)
    partitions.drop_partitions(db, day)
    partitions.clear_day_usage(db, day)
    for project, trace in headless:
        _elect_head(db, project, trace)
    return int(deleted or 1)


def _delete_from_day(db: Connection, day: int, project: str, *, all_projects: bool, deadline: float, limit: int) -> int:
    """Delete spans of a day, heads last, so that a trace that continues on the next day can get another."""
    partitions.mark_day_dropped(db, partitions.EVERY_PROJECT if all_projects else project, day)
    query = select(*_DELETED_COLUMNS).where(spans.c.day == day, spans.c.project == project)
    deleted = 0
    while deleted < limit and (not deleted or time.monotonic() < deadline):
        rows = db.execute(query.order_by(spans.c.head).limit(min(DELETE_STEP, limit - deleted))).all()
        if not rows:
            partitions.clear_day_usage(db, day, project)
            break
        heads = [row.id for row in rows if row.head]
        headless = _traces_beyond(db, day, spans.c.id.in_(heads)) if heads else []
        _delete_rows(db, project, rows)
        for head_project, trace in headless:
            _elect_head(db, head_project, trace)
        deleted += len(rows)
    return deleted


def _delete_rows(db: Connection, project: str, rows: Sequence[Row[Any]]) -> None:
    writes.delete_spans(db, project, [(row.id, row.day, row.trace_id, row.span_id, row.bytes) for row in rows])


def _traces_beyond(db: Connection, day: int, *conditions: ColumnElement[bool]) -> list[tuple[str, str]]:
    """Return (project, trace) of heads that ended after their day: they may have spans on the next."""
    ended = type_coerce(spans.c.start, BigInteger) + spans.c.duration_ms * 1000
    query = select(spans.c.project, spans.c.trace_id).where(spans.c.day == day, spans.c.head == HEAD, *conditions)
    return [(row.project, row.trace_id) for row in db.execute(query.where(ended >= (day + 1) * _DAY_MICROSECONDS))]


def _elect_head(db: Connection, project: str, trace: str) -> None:
    candidate = writes.find_head_candidate(db, project, trace)
    if candidate is not None and not candidate.head:
        writes.set_head(db, candidate.id)


Label = Literal["user", "session"]
ERASE_BATCH = 500


def count_labelled(db: Connection, project: str, label: Label, value: str) -> int:
    """Count spans with a label, in labelled runs, or below labelled spans."""
    is_labelled = or_(*_label_conditions(project, label, value))
    return db.scalar(select(func.count()).select_from(spans).where(spans.c.project == project, is_labelled)) or 0


def delete_labelled(db: Connection, project: str, label: Label, value: str) -> int:
    """Delete a batch of labelled spans; returns their number. Spans by which others are found go last."""
    for condition in _label_conditions(project, label, value):
        if deleted := delete_matching(db, project, ERASE_BATCH, condition):
            return deleted
    return 0


def delete_run_spans(db: Connection, project: str, run_ids: Collection[str]) -> int:
    """Delete a batch of the spans of these runs; returns their number."""
    return delete_matching(db, project, ERASE_BATCH, spans.c.run_id.in_(run_ids))


def _label_conditions(project: str, label: Label, value: str) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions that are each met by labelled spans. A run is labelled even if its spans were redacted."""
    run_ids = select(runs.c.id).where(runs.c.project == project, runs.c[label] == value)
    return _in_labelled_traces(project, label, value), spans.c.run_id.in_(run_ids), spans.c[label] == value


def _in_labelled_traces(project: str, label: Label, value: str) -> ColumnElement[bool]:
    """Whether a span without a label is in a labelled trace, and not of another run."""
    labelled = spans.alias("labelled")

    def select_labelled(column: ColumnElement[str]) -> Select[str]:
        return select(column).where(labelled.c.project == project, labelled.c[label] == value, column.is_not(None))

    has_no_other_run = spans.c.run_id.is_(None) | spans.c.run_id.in_(select_labelled(labelled.c.run_id))
    return spans.c[label].is_(None) & spans.c.trace_id.in_(select_labelled(labelled.c.trace_id)) & has_no_other_run
