"""Letting go of spans: whole days, the oldest first, or what somebody wants erased.

PostgreSQL drops a day at once. Otherwise it goes in pieces, each of which keeps others from writing for a moment only:
whoever calls goes on until there is nothing left.
"""

import time
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Row, func, select, type_coerce
from sqlalchemy.exc import DBAPIError

from palaver.core.retention import Keep
from palaver.storage.spans import days as span_days
from palaver.storage.spans import keeping as kept
from palaver.storage.spans import parts as span_parts
from palaver.storage.spans.tables import IS_HEAD, PARTITIONED, spans
from palaver.storage.spans.tables import span_days as days_table

PIECE = 5_000
"""At most so many spans go at once,"""
PIECE_SECONDS = 0.01
"""and none of them is begun after so long."""
STEP = 20
WAIT_SECONDS = 1
"""How long those who read are waited for, and keep everybody else waiting, when PostgreSQL drops a day."""
_NOT_TO_BE_HAD = "55P03"
"""PostgreSQL's code for a lock that was waited for too long."""
_LOCK = 6_157_842_606
_DAY = 24 * 60 * 60 * 1_000_000
_GOING = [spans.c[name] for name in ("id", "day", "trace_id", "span_id", "bytes", "head")]


def due(db: Connection, keep: Keep, today: date) -> list[tuple[date, str | None]]:
    """What is too old: all before a day, of a project; None: of all projects, so that the day can go as a whole."""
    first: dict[str, date | None] = {}
    for project in {one.project for one in span_days.held(db)}:
        days = keep.of_projects.get(project, keep.days)
        first[project] = today - timedelta(days=days) if days else None
    known = [day for day in first.values() if day is not None]
    if not known:
        return []
    whole = min(known) if len(known) == len(first) else None
    theirs: list[tuple[date, str | None]] = [
        (day, project) for project, day in sorted(first.items()) if day is not None and day != whole
    ]
    return theirs if whole is None else [(whole, None), *theirs]


def let_go(db: Connection, before: date, project: str | None = None) -> int:
    """Forget a piece of what is filed under the days before that one, of one project or of all; how many spans.

    0: there is nothing left, or nothing that can go now, or another process is at it.
    """
    if db.dialect.name == "postgresql" and not db.scalar(select(func.pg_try_advisory_xact_lock(_LOCK))):
        return 0
    is_whole = project is None and db.dialect.name == "postgresql"
    until = time.monotonic() + PIECE_SECONDS
    gone = 0
    while gone < PIECE and (not gone or time.monotonic() < until):
        oldest = select(days_table.c.day, days_table.c.project).where(days_table.c.day < span_days.number(before))
        if is_whole:  # Those that were emptied have tables still.
            oldest = oldest.where(days_table.c.day > span_days.last_dropped(db, span_days.EVERY))
        else:
            oldest = oldest.where(days_table.c.spans > 0)
        if project is not None:
            oldest = oldest.where(days_table.c.project == project)
        found = db.execute(oldest.order_by(days_table.c.day, days_table.c.project).limit(1)).first()
        if found is None:
            break
        if is_whole:
            return _drop(db, found.day)
        gone += _remove_some(db, found.day, found.project, is_all=project is None, until=until, most=PIECE - gone)
    return gone


def let_go_all_but(db: Connection, most: int) -> int:
    """Forget a piece of those that came first, of more than so many: for a database in memory; how many."""
    held = sum(one.spans for one in span_days.held(db))
    asked = select(spans.c.project, *_GOING).order_by(spans.c.id).limit(min(PIECE, max(0, held - most)))
    rows = db.execute(asked).all()
    for project in {row.project for row in rows}:
        _gone(db, project, [row for row in rows if row.project == project])
    return len(rows)


def erase(db: Connection, project: str, most: int, *which: ColumnElement[bool]) -> int:
    """Forget some of a project's spans, whatever their day: all, or those of which that holds; how many."""
    rows = db.execute(select(*_GOING).where(spans.c.project == project, *which).limit(most)).all()
    if rows:
        _gone(db, project, rows)
    return len(rows)


def _gone(db: Connection, project: str, rows: Sequence[Row[Any]]) -> None:
    """Forget them, whatever their day; what is left of their traces gets other heads."""
    _remove(db, project, rows)
    for row in rows:
        if row.head:
            _crown(db, project, row.trace_id)


def _drop(db: Connection, day: int) -> int:
    """A day of all projects, at once; 0 if somebody reads for so long that everybody would wait."""
    try:
        with db.begin_nested():
            return _dropped(db, day)
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != _NOT_TO_BE_HAD:
            raise
        return 0


def _dropped(db: Connection, day: int) -> int:
    db.execute(select(func.set_config("lock_timeout", f"{round(WAIT_SECONDS * 1000)}", True)))
    span_days.mark_dropped(db, span_days.EVERY, day)
    gone = db.scalar(select(func.sum(days_table.c.spans)).where(days_table.c.day == day))
    bereft = _outlasting(db, day)
    for table in PARTITIONED:
        db.execute(span_parts.Dropped(table, day))
    span_days.empty(db, day)
    for project, trace in bereft:
        _crown(db, project, trace)
    return int(gone or 1)


def _remove_some(db: Connection, day: int, project: str, *, is_all: bool, until: float, most: int) -> int:
    """Some spans of a day: heads go last, so that a trace which goes on the next day can get another."""
    span_days.mark_dropped(db, span_days.EVERY if is_all else project, day)
    asked = select(*_GOING).where(spans.c.day == day, spans.c.project == project)
    gone = 0
    while gone < most and (not gone or time.monotonic() < until):
        rows = db.execute(asked.order_by(spans.c.head).limit(min(STEP, most - gone))).all()
        if not rows:
            span_days.empty(db, day, project)
            break
        heads = [row.id for row in rows if row.head]
        bereft = _outlasting(db, day, spans.c.id.in_(heads)) if heads else []
        _remove(db, project, rows)
        for of, trace in bereft:
            _crown(db, of, trace)
        gone += len(rows)
    return gone


def _remove(db: Connection, project: str, rows: Sequence[Row[Any]]) -> None:
    kept.remove(db, project, [(row.id, row.day, row.trace_id, row.span_id, row.bytes) for row in rows])


def _outlasting(db: Connection, day: int, *which: ColumnElement[bool]) -> list[tuple[str, str]]:
    """The projects and traces whose heads are of a day, but ended after it: they may have spans on the next."""
    ended = type_coerce(spans.c.start, BigInteger) + spans.c.duration_ms * 1000
    asked = select(spans.c.project, spans.c.trace_id).where(spans.c.day == day, spans.c.head == IS_HEAD, *which)
    return [(row.project, row.trace_id) for row in db.execute(asked.where(ended >= (day + 1) * _DAY))]


def _crown(db: Connection, project: str, trace: str) -> None:
    heir = kept.first_of(db, project, trace)
    if heir is not None and not heir.head:
        kept.make_head(db, heir.id)
