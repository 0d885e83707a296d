"""Lists of spans and traces, newest first or in order of arrival. No list reads a body."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

import msgspec
from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    Row,
    ScalarSelect,
    Select,
    Subquery,
    Text,
    case,
    func,
    literal,
    select,
    true,
    type_coerce,
)

from palaver.core import json
from palaver.storage.pagination import FIRST_PAGE, Page, Window, decode_cursor, fetch_page
from palaver.storage.schema import UtcTimestamp
from palaver.storage.spans import full_text as span_words
from palaver.storage.spans.filters import Filter, filter_clause
from palaver.storage.spans.tables import IS_HEAD, MODEL_CALL_KINDS, spans

FALLBACK_FIELDS = ("session", "user", "model", "provider", "preview_in", "preview_out")
"""Fields that a model call may provide for its trace."""
MAX_FALLBACK_CALLS = 8
"""Number of last model calls that are searched for one with both input and output."""


def last_call_fields(db: Connection, project: str, trace: str) -> dict[str, Any]:
    """Return the non-empty fields of the last model call, preferring one with both input and output."""
    ended = type_coerce(spans.c.start, BigInteger) + spans.c.duration_ms * 1000
    asked = select(*(spans.c[name] for name in FALLBACK_FIELDS))
    asked = asked.where(spans.c.project == project, spans.c.trace_id == trace, spans.c.kind == "llm")
    calls = db.execute(asked.order_by(ended.desc(), spans.c.span_id).limit(MAX_FALLBACK_CALLS)).all()
    if not calls:
        return {}
    call = next((call for call in calls if not (is_blank(call.preview_in) or is_blank(call.preview_out))), calls[0])
    fields = dict(zip(FALLBACK_FIELDS, call, strict=True))
    return {name: value for name, value in fields.items() if not is_blank(value)}


def is_blank(value: Any) -> bool:
    """Whether a value is None or an empty preview."""
    return value is None or (isinstance(value, dict) and not value.get("text"))  # pyright: ignore[reportUnknownMemberType]  # JSON


class SpanQuery(msgspec.Struct, frozen=True, kw_only=True):
    filter: Filter | None = None
    search: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    """Started at or after `since`, and before `until`."""


ALL_SPANS = SpanQuery()


class SpanListItem(msgspec.Struct, frozen=True, kw_only=True):
    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: str
    status: str
    start: datetime
    duration_ms: float
    workflow: str | None
    session: str | None
    user: str | None
    model: str | None
    provider: str | None
    service: str | None
    run_id: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    preview_in: Any = msgspec.field(name="in")
    preview_out: Any = msgspec.field(name="out")


class TraceListItem(SpanListItem, frozen=True, kw_only=True):
    """A trace, represented by its head; tokens and cost are the sums of its model calls."""

    spans: int
    errors: int


class TraceTotals(msgspec.Struct, frozen=True):
    spans: int
    errors: int
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    """The sums of its model calls; None if none of them has a value."""


_LIST_COLUMNS = [spans.c[name] for name in SpanListItem.__struct_fields__]
_FALLBACK_TRIGGERS = frozenset(("model", "preview_in", "preview_out"))
"""A head that has all of these needs no fallback."""
_LIST_ORDER = [spans.c.start, spans.c.span_id, spans.c.id]


def list_spans(
    db: Connection, project: str, query: SpanQuery = ALL_SPANS, window: Window = FIRST_PAGE
) -> Page[SpanListItem]:
    return _list_rows(db, project, query, window, _cursor_filters("spans", query))


def list_traces(
    db: Connection, project: str, query: SpanQuery = ALL_SPANS, window: Window = FIRST_PAGE
) -> Page[TraceListItem]:
    """List traces whose head matches the query."""
    is_head = spans.c.head == IS_HEAD
    return to_traces(db, project, _list_rows(db, project, query, window, _cursor_filters("traces", query), is_head))


def _list_rows(
    db: Connection, project: str, query: SpanQuery, window: Window, bound: Mapping[str, str], *more: ColumnElement[bool]
) -> Page[SpanListItem]:
    own = [*_clauses_without_search(db, query), *more]
    ways: Iterable[list[ColumnElement[bool]]] = [[spans.c.project == project]]
    if query.search:
        place = decode_cursor(window, project=project, by=_LIST_ORDER, filters=bound)
        before = query.until if place is None else place[0]  # The start of the page lies within the time range.
        ways = span_words.search_plans(db, project, query.search, before=before)
    found: Page[SpanListItem] = Page([])
    for way in ways:
        asked = select(*_LIST_COLUMNS).where(*way, *own)
        found = fetch_page(db, asked, row_to_span, project=project, by=_LIST_ORDER, window=window, filters=bound)
        if found.next is not None:
            break
    return found


def to_traces(db: Connection, project: str, found: Page[SpanListItem]) -> Page[TraceListItem]:
    """Convert a page of heads to traces, with totals and fallbacks."""
    known = total_traces(db, project, {row.trace_id for row in found.data})
    return found.map(lambda row: fill_from_calls(db, project, to_trace(row, known[row.trace_id])))


def fill_from_calls(db: Connection, project: str, row: TraceListItem) -> TraceListItem:
    """Fill empty fields of a trace from its last model call.

    Runs of Palaver record their own input and output, and a failed trace has no output: these stay empty.
    """
    said = msgspec.structs.asdict(row)
    wanted = [name for name in FALLBACK_FIELDS if is_blank(said[name])]
    if row.spans < 2 or not _FALLBACK_TRIGGERS.intersection(wanted):
        return row
    told = last_call_fields(db, project, row.trace_id)
    if row.run_id is not None:
        wanted = [name for name in wanted if name in ("model", "provider")]
    elif row.status == "error":
        wanted = [name for name in wanted if name != "preview_out"]
    return msgspec.structs.replace(row, **{name: told[name] for name in wanted if name in told})


def select_heads(project: str) -> Select[Any]:
    return select(*_LIST_COLUMNS).where(spans.c.project == project, spans.c.head == IS_HEAD)


def get_span_rows(db: Connection, project: str, trace: str, ids: Collection[str]) -> dict[str, SpanListItem]:
    """Return spans of a trace by id."""
    if db.dialect.name == "postgresql":
        # A generic plan would scan all spans of a long trace and compare each with each id.
        db.execute(select(func.set_config("plan_cache_mode", "force_custom_plan", True)))
    asked = select(*_LIST_COLUMNS).where(
        spans.c.project == project, spans.c.trace_id == trace, spans.c.span_id.in_(ids)
    )
    return {row.span_id: row_to_span(row) for row in db.execute(asked)}


def get_head_span(db: Connection, project: str, trace: str) -> SpanListItem | None:
    """Return the head of a trace."""
    row = db.execute(select_heads(project).where(spans.c.trace_id == trace)).first()
    return None if row is None else row_to_span(row)


def total_traces(db: Connection, project: str, traces: Collection[str]) -> dict[str, TraceTotals]:
    if not traces:
        return {}
    theirs = [column.label(name) for name, column in _total_columns().items()]
    if db.dialect.name == "postgresql":
        # One by one: without statistics of a new day, PostgreSQL would scan all of it.
        wanted = func.unnest(literal(list(traces), ARRAY(Text))).table_valued("trace_id").render_derived()
        inner = select(*theirs).where(spans.c.project == project, spans.c.trace_id == wanted.c.trace_id).lateral()
        asked: Select[*tuple[Any, ...]] = select(wanted.c.trace_id, inner).join_from(wanted, inner, true())
    else:
        asked = select(spans.c.trace_id, *theirs).where(spans.c.project == project, spans.c.trace_id.in_(traces))
        asked = asked.group_by(spans.c.trace_id)
    return {row.trace_id: _row_to_totals(row) for row in db.execute(asked)}


def _total_columns() -> dict[str, ColumnElement[Any]]:
    """The aggregates of TraceTotals."""
    is_call = spans.c.kind.in_(MODEL_CALL_KINDS)
    return {
        "spans": func.count(),
        "errors": func.count(case((spans.c.status == "error", 1))),
        **{name: func.sum(case((is_call, spans.c[name]))) for name in ("input_tokens", "output_tokens", "cost")},
    }


def _row_to_totals(row: Row[*tuple[Any, ...]]) -> TraceTotals:
    # PostgreSQL returns sums of integers as Decimal.
    asked, said = (None if sum_ is None else int(sum_) for sum_ in (row.input_tokens, row.output_tokens))
    return TraceTotals(row.spans, row.errors, asked, said, row.cost)


def to_trace(row: SpanListItem, total: TraceTotals) -> TraceListItem:
    """Combine a head with the totals of its trace."""
    fields = msgspec.structs.asdict(row)
    said = {"input_tokens": total.input_tokens, "output_tokens": total.output_tokens, "cost": total.cost}
    fields |= {name: value for name, value in said.items() if value is not None}
    return TraceListItem(spans=total.spans, errors=total.errors, **fields)


def query_clauses(db: Connection, project: str, query: SpanQuery) -> list[ColumnElement[bool]]:
    """Return the conditions of a query."""
    asked = [spans.c.project == project, *_clauses_without_search(db, query)]
    return [*asked, span_words.matches_search(db, query.search)] if query.search else asked


def _clauses_without_search(db: Connection, query: SpanQuery) -> list[ColumnElement[bool]]:
    asked = time_clauses(query)
    return asked if query.filter is None else [*asked, filter_clause(db, query.filter)]


def time_clauses(query: SpanQuery) -> list[ColumnElement[bool]]:
    since = [] if query.since is None else [spans.c.start >= query.since]
    return since if query.until is None else [*since, spans.c.start < query.until]


def _cursor_filters(kind: str, query: SpanQuery) -> dict[str, str]:
    return {"of": kind, "query": msgspec.json.encode(query).decode()}


def row_to_span(row: Row[Any]) -> SpanListItem:
    fields: Sequence[str] = SpanListItem.__struct_fields__
    return SpanListItem(**dict(zip(fields, row, strict=False)))


_ARRIVAL_COLUMNS = [spans.c[name] for name in SpanListItem.__struct_fields__]


class SpanArrival(NamedTuple):
    """A stored span and its position in order of arrival."""

    position: int
    row: SpanListItem


def last_position(db: Connection) -> int:
    """Return the position of the last span of any project."""
    return db.scalar(select(func.max(spans.c.id))) or 0


def list_arrivals(
    db: Connection, project: str, after: int, query: SpanQuery = ALL_SPANS, *, heads: bool = False, limit: int = 200
) -> list[SpanArrival]:
    """List spans stored after a position; with `heads`, only heads of traces.

    Inserts of a project are serialized (writes.py), so no span appears later at a lower position.
    """
    asked = select(*_ARRIVAL_COLUMNS, spans.c.id).where(spans.c.id > after, *query_clauses(db, project, query))
    if heads:
        asked = asked.where(spans.c.head == IS_HEAD)
    rows = db.execute(asked.order_by(spans.c.id).limit(limit)).all()
    return [SpanArrival(row[-1], row_to_span(row)) for row in rows]


def list_matching_traces(
    db: Connection, project: str, traces: Sequence[str], query: SpanQuery = ALL_SPANS
) -> list[TraceListItem]:
    """List those of these traces that match the query, by start time."""
    conditions = query_clauses(db, project, query)
    asked = select(*_ARRIVAL_COLUMNS).where(spans.c.head == IS_HEAD, spans.c.trace_id.in_(traces), *conditions)
    rows = db.execute(asked.order_by(spans.c.start, spans.c.span_id)).all()
    return to_traces(db, project, Page([row_to_span(row) for row in rows])).data


def find_traces_by_prefix(db: Connection, project: str, prefix: str, *, limit: int) -> list[str]:
    """Find traces by the beginning of their hexadecimal id."""
    asked = select(spans.c.trace_id).where(
        spans.c.project == project,
        spans.c.trace_id >= prefix,
        spans.c.trace_id < prefix + "g",  # Sorts after every hexadecimal digit.
    )
    return list(db.scalars(asked.distinct().order_by(spans.c.trace_id).limit(limit)))


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
    asked = select_heads(project).where(spans.c.trace_id.in_(theirs))
    # An expression instead of the column: SQLite would otherwise scan all traces in order of their start.
    start = type_coerce(
        type_coerce(spans.c.start, BigInteger) + literal(0, BigInteger, literal_execute=True), UtcTimestamp
    ).label("started")
    by, bound = [start, spans.c.span_id, spans.c.id], {"session": session}
    found = fetch_page(db, asked, row_to_span, project=project, by=by, window=window, filters=bound, order="oldest")
    return to_traces(db, project, found)


def _row_to_session(row: Row[Any]) -> SessionListItem:
    return SessionListItem(**dict(zip(SessionListItem.__struct_fields__, row, strict=False)))
