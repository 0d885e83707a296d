"""Spans in the order in which they were kept, for whoever follows along; and traces by the beginning of their id."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from palaver.storage.pages import Page
from palaver.storage.spans import pages as span_pages
from palaver.storage.spans.pages import ANY, Query, SpanListed, TraceListed
from palaver.storage.spans.tables import IS_HEAD, spans

_COLUMNS = [spans.c[name] for name in SpanListed.__struct_fields__]


class Arrived(NamedTuple):
    """A span that was kept, and its place among all that were."""

    place: int
    row: SpanListed


def last(db: Connection) -> int:
    """The place of what was kept last, whoever's it is."""
    return db.scalar(select(func.max(spans.c.id))) or 0


def arrived(
    db: Connection, project: str, after: int, query: Query = ANY, *, heads: bool = False, limit: int = 200
) -> list[Arrived]:
    """What was kept after that place, the first of it first; with `heads`, what stands for a trace only.

    Whoever keeps spans of a project waits for others who do (spans.py), so none of them turns up before a place that
    was already told.
    """
    asked = select(*_COLUMNS, spans.c.id).where(spans.c.id > after, *span_pages.conditions(db, project, query))
    if heads:
        asked = asked.where(spans.c.head == IS_HEAD)
    rows = db.execute(asked.order_by(spans.c.id).limit(limit)).all()
    return [Arrived(row[-1], span_pages.read_row(row)) for row in rows]


def traces_of(db: Connection, project: str, traces: Sequence[str], query: Query = ANY) -> list[TraceListed]:
    """Those of these traces that are asked for, in the order of their start."""
    conditions = span_pages.conditions(db, project, query)
    asked = select(*_COLUMNS).where(spans.c.head == IS_HEAD, spans.c.trace_id.in_(traces), *conditions)
    rows = db.execute(asked.order_by(spans.c.start, spans.c.span_id)).all()
    return span_pages.as_traces(db, project, Page([span_pages.read_row(row) for row in rows])).data


def beginning_with(db: Connection, project: str, prefix: str, *, limit: int) -> list[str]:
    """Traces whose ids begin so: letters and digits only."""
    asked = select(spans.c.trace_id).where(
        spans.c.project == project,
        spans.c.trace_id >= prefix,
        spans.c.trace_id < prefix + "g",  # What follows f, and all that it may go on with.
    )
    return list(db.scalars(asked.distinct().order_by(spans.c.trace_id).limit(limit)))
