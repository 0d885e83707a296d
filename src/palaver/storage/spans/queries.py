"""Lists of spans and traces, newest first or in order of arrival. No list reads a body."""

from collections.abc import Collection, Iterable, Sequence
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
from palaver.storage.spans import full_text
from palaver.storage.spans.filters import Filter, filter_clause
from palaver.storage.spans.tables import HEAD, MODEL_CALL_KINDS, spans

FALLBACK_FIELDS = ("session", "user", "model", "provider", "preview_in", "preview_out")
"""Fields that a model call may provide for its trace."""
MAX_FALLBACK_CALLS = 8
"""Number of last model calls that are searched for one with both input and output."""


def last_call_fields(db: Connection, project: str, trace: str) -> dict[str, Any]:
    """Return the non-empty fields of the last model call, preferring one with both input and output."""
    ended = type_coerce(spans.c.start, BigInteger) + spans.c.duration_ms * 1000
    statement = select(*(spans.c[name] for name in FALLBACK_FIELDS))
    statement = statement.where(spans.c.project == project, spans.c.trace_id == trace, spans.c.kind == "llm")
    calls = db.execute(statement.order_by(ended.desc(), spans.c.span_id).limit(MAX_FALLBACK_CALLS)).all()
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
    is_head = spans.c.head == HEAD
    return to_traces(db, project, _list_rows(db, project, query, window, _cursor_filters("traces", query), is_head))


def _list_rows(
    db: Connection, project: str, query: SpanQuery, window: Window, scope: dict[str, str], *extra: ColumnElement[bool]
) -> Page[SpanListItem]:
    conditions = [*_clauses_without_search(db, query), *extra]
    plans: Iterable[list[ColumnElement[bool]]] = [[spans.c.project == project]]
    if query.search:
        cursor_key = decode_cursor(window, project=project, by=_LIST_ORDER, filters=scope)
        # The start of the page lies within the time range.
        before = query.until if cursor_key is None else cursor_key[0]
        plans = full_text.search_plans(db, project, query.search, before=before)
    page: Page[SpanListItem] = Page([])
    for plan in plans:
        statement = select(*_LIST_COLUMNS).where(*plan, *conditions)
        page = fetch_page(db, statement, row_to_span, project=project, by=_LIST_ORDER, window=window, filters=scope)
        if page.next is not None:
            break
    return page


def to_traces(db: Connection, project: str, page: Page[SpanListItem]) -> Page[TraceListItem]:
    """Convert a page of heads to traces, with totals and fallbacks."""
    totals = total_traces(db, project, {row.trace_id for row in page.data})
    return page.map(lambda row: fill_from_calls(db, project, to_trace(row, totals[row.trace_id])))


def fill_from_calls(db: Connection, project: str, row: TraceListItem) -> TraceListItem:
    """Fill empty fields of a trace from its last model call.

    Runs of Palaver record their own input and output, and a failed trace has no output: these stay empty.
    """
    fields = msgspec.structs.asdict(row)
    empty = [name for name in FALLBACK_FIELDS if is_blank(fields[name])]
    if row.spans < 2 or not _FALLBACK_TRIGGERS.intersection(empty):
        return row
    call_fields = last_call_fields(db, project, row.trace_id)
    if row.run_id is not None:
        empty = [name for name in empty if name in ("model", "provider")]
    elif row.status == "error":
        empty = [name for name in empty if name != "preview_out"]
    return msgspec.structs.replace(row, **{name: call_fields[name] for name in empty if name in call_fields})


def select_heads(project: str) -> Select[Any]:
    return select(*_LIST_COLUMNS).where(spans.c.project == project, spans.c.head == HEAD)


def get_span_rows(db: Connection, project: str, trace: str, ids: Collection[str]) -> dict[str, SpanListItem]:
    if db.dialect.name == "postgresql":
        # A generic plan would scan all spans of a long trace and compare each with each id.
        db.execute(select(func.set_config("plan_cache_mode", "force_custom_plan", True)))
    statement = select(*_LIST_COLUMNS).where(
        spans.c.project == project, spans.c.trace_id == trace, spans.c.span_id.in_(ids)
    )
    return {row.span_id: row_to_span(row) for row in db.execute(statement)}


def get_head_span(db: Connection, project: str, trace: str) -> SpanListItem | None:
    row = db.execute(select_heads(project).where(spans.c.trace_id == trace)).first()
    return None if row is None else row_to_span(row)


def total_traces(db: Connection, project: str, traces: Collection[str]) -> dict[str, TraceTotals]:
    if not traces:
        return {}
    totals = [column.label(name) for name, column in _total_columns().items()]
    if db.dialect.name == "postgresql":
        # One by one: without statistics of a new day, PostgreSQL would scan all of it.
        ids = func.unnest(literal(list(traces), ARRAY(Text))).table_valued("trace_id").render_derived()
        of_trace = select(*totals).where(spans.c.project == project, spans.c.trace_id == ids.c.trace_id).lateral()
        statement: Select[*tuple[Any, ...]] = select(ids.c.trace_id, of_trace).join_from(ids, of_trace, true())
    else:
        statement = select(spans.c.trace_id, *totals).where(spans.c.project == project, spans.c.trace_id.in_(traces))
        statement = statement.group_by(spans.c.trace_id)
    return {row.trace_id: _row_to_totals(row) for row in db.execute(statement)}


def _total_columns() -> dict[str, ColumnElement[Any]]:
    is_call = spans.c.kind.in_(MODEL_CALL_KINDS)
    return {
        "spans": func.count(),
        "errors": func.count(case((spans.c.status == "error", 1))),
        **{name: func.sum(case((is_call, spans.c[name]))) for name in ("input_tokens", "output_tokens", "cost")},
    }


def _row_to_totals(row: Row[*tuple[Any, ...]]) -> TraceTotals:
    # PostgreSQL returns sums of integers as Decimal.
    input_tokens, output_tokens = (
        None if total is None else int(total) for total in (row.input_tokens, row.output_tokens)
    )
    return TraceTotals(row.spans, row.errors, input_tokens, output_tokens, row.cost)


def to_trace(row: SpanListItem, total: TraceTotals) -> TraceListItem:
    fields = msgspec.structs.asdict(row)
    totals = {"input_tokens": total.input_tokens, "output_tokens": total.output_tokens, "cost": total.cost}
    fields |= {name: value for name, value in totals.items() if value is not None}
    return TraceListItem(spans=total.spans, errors=total.errors, **fields)


def query_clauses(db: Connection, project: str, query: SpanQuery) -> list[ColumnElement[bool]]:
    clauses = [spans.c.project == project, *_clauses_without_search(db, query)]
    return [*clauses, full_text.matches_search(db, query.search)] if query.search else clauses


def _clauses_without_search(db: Connection, query: SpanQuery) -> list[ColumnElement[bool]]:
    clauses = time_clauses(query)
    return clauses if query.filter is None else [*clauses, filter_clause(db, query.filter)]


def time_clauses(query: SpanQuery) -> list[ColumnElement[bool]]:
    since = [] if query.since is None else [spans.c.start >= query.since]
    return since if query.until is None else [*since, spans.c.start < query.until]


def _cursor_filters(kind: str, query: SpanQuery) -> dict[str, str]:
    return {"of": kind, "query": msgspec.json.encode(query).decode()}


def row_to_span(row: Row[Any]) -> SpanListItem:
    fields: Sequence[str] = SpanListItem.__struct_fields__
    return SpanListItem(**dict(zip(fields, row, strict=False)))


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
    statement = select(*_LIST_COLUMNS, spans.c.id).where(spans.c.id > after, *query_clauses(db, project, query))
    if heads:
        statement = statement.where(spans.c.head == HEAD)
    rows = db.execute(statement.order_by(spans.c.id).limit(limit)).all()
    return [SpanArrival(row[-1], row_to_span(row)) for row in rows]


def list_matching_traces(
    db: Connection, project: str, traces: Sequence[str], query: SpanQuery = ALL_SPANS
) -> list[TraceListItem]:
    """List the traces among `traces` that match the query, by start time."""
    conditions = query_clauses(db, project, query)
    statement = select(*_LIST_COLUMNS).where(spans.c.head == HEAD, spans.c.trace_id.in_(traces), *conditions)
    rows = db.execute(statement.order_by(spans.c.start, spans.c.span_id)).all()
    return to_traces(db, project, Page([row_to_span(row) for row in rows])).data


def find_traces_by_prefix(db: Connection, project: str, prefix: str, *, limit: int) -> list[str]:
    """Find traces by the beginning of their hexadecimal id."""
    statement = select(spans.c.trace_id).where(
        spans.c.project == project,
        spans.c.trace_id >= prefix,
        spans.c.trace_id < prefix + "g",  # Sorts after every hexadecimal digit.
    )
    return list(db.scalars(statement.distinct().order_by(spans.c.trace_id).limit(limit)))


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
    name_clauses = [] if not name else [spans.c.session.contains(name, autoescape=True)]
    sessions = (
        select(
            spans.c.session,
            func.min(spans.c.start).label("first"),
            func.max(spans.c.start).label("last"),
            func.count(spans.c.trace_id.distinct()).label("traces"),
            func.count().label("spans"),
        )
        .where(spans.c.project == project, spans.c.session.is_not(None), *name_clauses, *time_clauses(query))
        .group_by(spans.c.session)
        .subquery()
    )
    scope = {"since": f"{query.since}", "until": f"{query.until}", "name": name or ""}
    by = [sessions.c.last, sessions.c.session]
    page = fetch_page(db, select(sessions), _row_to_session, project=project, by=by, window=window, filters=scope)
    return _add_previews(db, project, page)


def _add_previews(db: Connection, project: str, page: Page[SessionListItem]) -> Page[SessionListItem]:
    """Add previews to a page: reads two heads per session."""
    if not page.data:
        return page
    names = _names_table(db, [row.session for row in page.data])
    first, last = _head_preview(project, names, "first"), _head_preview(project, names, "last")
    previews = {row[0]: (row[1], row[2]) for row in db.execute(select(names.c.session, first, last))}

    def fill_row(row: SessionListItem) -> SessionListItem:
        preview_in, preview_out = previews[row.session]
        return msgspec.structs.replace(row, preview_in=preview_in, preview_out=preview_out)

    return page.map(fill_row)


def _names_table(db: Connection, names: Sequence[str]) -> Subquery:
    if db.dialect.name == "postgresql":
        rows = func.unnest(literal(names, ARRAY(Text))).table_valued("value").render_derived()
    else:
        rows = func.json_each(literal(json.encode(names).decode(), Text)).table_valued("value")
    return select(rows.c.value.label("session")).subquery("wanted")


def _head_preview(project: str, names: Subquery, end: Literal["first", "last"]) -> ScalarSelect[Any]:
    """Select the input preview of a session's first trace, or the output preview of its last."""
    member, head = spans.alias(f"own_{end}"), spans.alias(f"head_{end}")
    trace_ids = select(member.c.trace_id).where(member.c.project == project, member.c.session == names.c.session)
    trace_ids = trace_ids.limit(1).correlate(names)
    if end == "first":
        trace = trace_ids.order_by(member.c.start, member.c.trace_id).scalar_subquery()
        previews = select(head.c.preview_in)
    else:
        trace = trace_ids.order_by(member.c.start.desc(), member.c.trace_id.desc()).scalar_subquery()
        previews = select(head.c.preview_out)
    is_head = (head.c.project == project, head.c.head == HEAD, head.c.trace_id == trace)
    return previews.where(*is_head).limit(1).scalar_subquery()


def list_session_traces(db: Connection, project: str, session: str, window: Window = FIRST_PAGE) -> Page[TraceListItem]:
    """List the traces of a session, oldest first."""
    member = spans.alias("own")
    trace_ids = select(member.c.trace_id).where(member.c.project == project, member.c.session == session)
    statement = select_heads(project).where(spans.c.trace_id.in_(trace_ids))
    # An expression instead of the column: SQLite would otherwise scan all traces in order of their start.
    start = type_coerce(
        type_coerce(spans.c.start, BigInteger) + literal(0, BigInteger, literal_execute=True), UtcTimestamp
    ).label("started")
    by, scope = [start, spans.c.span_id, spans.c.id], {"session": session}
    page = fetch_page(db, statement, row_to_span, project=project, by=by, window=window, filters=scope, order="oldest")
    return to_traces(db, project, page)


def _row_to_session(row: Row[Any]) -> SessionListItem:
    return SessionListItem(**dict(zip(SessionListItem.__struct_fields__, row, strict=False)))
