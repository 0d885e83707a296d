"""Sessions: traces with spans that carry the same session label."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from sqlalchemy import (
    ARRAY,
    BigInteger,
    Connection,
    Row,
    ScalarSelect,
    Subquery,
    Text,
    func,
    literal,
    select,
    type_coerce,
)

from palaver.core import json
from palaver.storage.pagination import FIRST_PAGE, Page, Window, fetch_page
from palaver.storage.schema import UtcTimestamp
from palaver.storage.spans import queries as span_pages
from palaver.storage.spans.queries import ALL_SPANS, SpanQuery, TraceListItem, time_clauses
from palaver.storage.spans.tables import IS_HEAD, spans


class SessionListItem(msgspec.Struct, frozen=True, kw_only=True):
    session: str
    first: datetime
    last: datetime
    """Start times of its first and last span."""
    traces: int
    spans: int
    preview_in: Any = msgspec.field(default=None, name="in")
    """The input of its first trace."""
    preview_out: Any = msgspec.field(default=None, name="out")
    """The output of its last trace."""


def list_sessions(
    db: Connection, project: str, query: SpanQuery = ALL_SPANS, window: Window = FIRST_PAGE, *, name: str | None = None
) -> Page[SessionListItem]:
    """List sessions with spans in the time range, last active first; `name` has to occur in the label."""
    named = [] if not name else [spans.c.session.contains(name, autoescape=True)]
    counted = (
        select(
            spans.c.session,
            func.min(spans.c.start).label("first"),
            func.max(spans.c.start).label("last"),
            func.count(spans.c.trace_id.distinct()).label("traces"),
            func.count().label("spans"),
        )
        .where(spans.c.project == project, spans.c.session.is_not(None), *named, *time_clauses(query))
        .group_by(spans.c.session)
        .subquery()
    )
    bound = {"since": f"{query.since}", "until": f"{query.until}", "name": name or ""}
    by = [counted.c.last, counted.c.session]
    found = fetch_page(db, select(counted), _row_to_session, project=project, by=by, window=window, filters=bound)
    return _with_previews(db, project, found)


def _with_previews(db: Connection, project: str, found: Page[SessionListItem]) -> Page[SessionListItem]:
    """Add previews to a page: reads two heads per session."""
    if not found.data:
        return found
    wanted = _names_table(db, [row.session for row in found.data])
    first, last = _head_preview(project, wanted, "first"), _head_preview(project, wanted, "last")
    previews = {row[0]: (row[1], row[2]) for row in db.execute(select(wanted.c.session, first, last))}

    def shown(row: SessionListItem) -> SessionListItem:
        given, said = previews[row.session]
        return msgspec.structs.replace(row, preview_in=given, preview_out=said)

    return found.map(shown)


def _names_table(db: Connection, names: Sequence[str]) -> Subquery:
    if db.dialect.name == "postgresql":
        rows = func.unnest(literal(names, ARRAY(Text))).table_valued("value").render_derived()
    else:
        rows = func.json_each(literal(json.encode(names).decode(), Text)).table_valued("value")
    return select(rows.c.value.label("session")).subquery("wanted")


def _head_preview(project: str, wanted: Subquery, end: Literal["first", "last"]) -> ScalarSelect[Any]:
    """Select the input preview of a session's first trace, or the output preview of its last."""
    own, head = spans.alias(f"own_{end}"), spans.alias(f"head_{end}")
    theirs = select(own.c.trace_id).where(own.c.project == project, own.c.session == wanted.c.session)
    theirs = theirs.limit(1).correlate(wanted)
    if end == "first":
        trace = theirs.order_by(own.c.start, own.c.trace_id).scalar_subquery()
        shown = select(head.c.preview_in)
    else:
        trace = theirs.order_by(own.c.start.desc(), own.c.trace_id.desc()).scalar_subquery()
        shown = select(head.c.preview_out)
    is_head = (head.c.project == project, head.c.head == IS_HEAD, head.c.trace_id == trace)
    return shown.where(*is_head).limit(1).scalar_subquery()


def list_session_traces(db: Connection, project: str, session: str, window: Window = FIRST_PAGE) -> Page[TraceListItem]:
    """List the traces of a session, oldest first."""
    own = spans.alias("own")
    theirs = select(own.c.trace_id).where(own.c.project == project, own.c.session == session)
    asked = span_pages.select_heads(project).where(spans.c.trace_id.in_(theirs))
    # An expression instead of the column: SQLite would otherwise scan all traces in order of their start.
    start = type_coerce(
        type_coerce(spans.c.start, BigInteger) + literal(0, BigInteger, literal_execute=True), UtcTimestamp
    ).label("started")
    by, bound = [start, spans.c.span_id, spans.c.id], {"session": session}
    found = fetch_page(
        db, asked, span_pages.row_to_span, project=project, by=by, window=window, filters=bound, order="oldest"
    )
    return span_pages.to_traces(db, project, found)


def _row_to_session(row: Row[Any]) -> SessionListItem:
    return SessionListItem(**dict(zip(SessionListItem.__struct_fields__, row, strict=False)))
