"""Events from OTLP log records, joined to their span when both have arrived, in either order.

Events whose span is stored become a part of it at once; others wait in a table, until the span arrives or they expire.
Inserting spans and events of a project excludes each other, so none misses the other.
"""

import hashlib
from collections.abc import Callable, Collection, Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, delete, func, select, tuple_

from palaver.storage.notifications import ALL_REFS, Change, mark_changed
from palaver.storage.schema import dialect_insert
from palaver.storage.spans import writes
from palaver.storage.spans.tables import span_bodies, span_logs
from palaver.storage.spans.writes import SpanKey, SpanRow

MAX_WAIT = timedelta(days=1)
"""How long events wait for their span."""
_DELETE_BATCH = 1_000

RebuildSpan = Callable[[bytes, Sequence[bytes]], SpanRow | None]
"""Makes the row of a span from its stored body and the bodies of its new events; None leaves the span as it is."""


class SpanLogRow(msgspec.Struct, frozen=True, kw_only=True):
    """The events of one span in one request."""

    project: str
    trace_id: str
    span_id: str
    received_at: datetime
    body: bytes
    """As returned by `compress_body`."""

    @property
    def key(self) -> SpanKey:
        return SpanKey(self.project, self.trace_id, self.span_id)


class _WaitingEvents(NamedTuple):
    trace_id: str
    span_id: str
    body: bytes


def insert_spans_with_events(db: Connection, rows: Sequence[SpanRow], *, today: date, rebuild: RebuildSpan) -> None:
    """Insert spans, and join the events that waited for them."""
    writes.insert_spans(db, rows, today=today)
    for project in sorted({row.project for row in rows}):
        _join(db, project, {row.key for row in rows if row.project == project}, today, rebuild)


def insert_events(db: Connection, rows: Sequence[SpanLogRow], *, today: date, rebuild: RebuildSpan) -> None:
    """Insert events, and join them to those of their spans that are stored."""
    for project in sorted({row.project for row in rows}):
        writes.lock_project(db, project)
        of_project = [row for row in rows if row.project == project]
        values = [
            msgspec.structs.asdict(row) | {"digest": hashlib.blake2b(row.body, digest_size=16).digest()}
            for row in of_project
        ]
        db.execute(dialect_insert(db, span_logs).on_conflict_do_nothing(), values)
        _join(db, project, {row.key for row in of_project}, today, rebuild)


def _join(db: Connection, project: str, keys: Collection[SpanKey], today: date, rebuild: RebuildSpan) -> None:
    waiting = _load_waiting(db, project, keys)
    if not waiting:
        return
    bodies = _load_bodies(db, project, waiting)
    joined: list[SpanRow] = []
    for key, body in bodies.items():
        row = rebuild(writes.decompress_body(body), [writes.decompress_body(events) for events in waiting[key]])
        if row is not None:
            joined.append(row)
    if joined:
        writes.replace_spans(db, project, joined, today=today)
        mark_changed(db, Change(project, "spans", ALL_REFS))
    for key in bodies:
        db.execute(delete(span_logs).where(*(span_logs.c[name] == value for name, value in key._asdict().items())))


def _load_waiting(db: Connection, project: str, keys: Collection[SpanKey]) -> dict[SpanKey, list[bytes]]:
    of_project = span_logs.c.project == project
    if not keys or db.scalar(select(1).where(of_project).limit(1)) is None:  # The usual case.
        return {}
    columns = [span_logs.c[name] for name in _WaitingEvents._fields]
    in_traces = span_logs.c.trace_id.in_({key.trace_id for key in keys})
    query = select(*columns).where(of_project, in_traces).order_by(span_logs.c.received_at, span_logs.c.digest)
    waiting: dict[SpanKey, list[bytes]] = {}
    for row in db.execute(query):
        events = _WaitingEvents(*row)
        key = SpanKey(project, events.trace_id, events.span_id)
        if key in keys:
            waiting.setdefault(key, []).append(events.body)
    return waiting


def _load_bodies(db: Connection, project: str, keys: Collection[SpanKey]) -> dict[SpanKey, bytes]:
    is_wanted = tuple_(span_bodies.c.trace_id, span_bodies.c.span_id).in_([key[1:] for key in keys])
    columns = (span_bodies.c.trace_id, span_bodies.c.span_id, span_bodies.c.body)
    query = select(*columns).where(span_bodies.c.project == project, is_wanted)
    return {SpanKey(project, row.trace_id, row.span_id): row.body for row in db.execute(query)}


def delete_expired(db: Connection, now: datetime) -> int:
    """Delete a batch of events whose span did not arrive in time; returns their number."""
    return _delete_oldest(db, _DELETE_BATCH, before=now - MAX_WAIT)


def delete_beyond(db: Connection, max_rows: int) -> int:
    """Delete a batch of the oldest events beyond `max_rows`, for an in-memory database; returns their number."""
    total = db.scalar(select(func.count()).select_from(span_logs)) or 0
    return _delete_oldest(db, min(_DELETE_BATCH, max(0, total - max_rows)))


def _delete_oldest(db: Connection, limit: int, *, before: datetime | None = None) -> int:
    names = ("project", "trace_id", "span_id", "digest")
    key = tuple_(*(span_logs.c[name] for name in names))
    oldest = select(*(span_logs.c[name] for name in names)).order_by(span_logs.c.received_at).limit(limit)
    oldest = oldest if before is None else oldest.where(span_logs.c.received_at < before)
    rows = db.execute(oldest).all()
    if rows:
        db.execute(delete(span_logs).where(key.in_([tuple(row) for row in rows])))
    return len(rows)
