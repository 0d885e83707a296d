"""Spans and traces as lists: newest first, a page at a time, by what is asked for. No list reads a body."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Row,
    Select,
    Text,
    case,
    func,
    literal,
    select,
    true,
)

from palaver.storage.pages import START, Page, Window, begin, page
from palaver.storage.spans import standins as span_standins
from palaver.storage.spans import words as span_words
from palaver.storage.spans.conditions import condition
from palaver.storage.spans.filters import Filter
from palaver.storage.spans.tables import CALLS, IS_HEAD, spans


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which spans are asked for."""

    filter: Filter | None = None
    search: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    """Started at that time or later, and before this one."""


ANY = Query()


class SpanListed(msgspec.Struct, frozen=True, kw_only=True):
    """A span as a row of a table."""

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


class TraceListed(SpanListed, frozen=True, kw_only=True):
    """A trace as a row: its root, or else its earliest span; tokens and cost are those of its calls."""

    spans: int
    errors: int


class Sums(msgspec.Struct, frozen=True):
    """What the spans of a trace come to."""

    spans: int
    errors: int
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    """Of its calls; None where none of them says."""


_COLUMNS = [spans.c[name] for name in SpanListed.__struct_fields__]
_TELLING = frozenset(("model", "preview_in", "preview_out"))
"""A head that has all of these is asked for no more."""
_BY = [spans.c.start, spans.c.span_id, spans.c.id]


def listed_spans(db: Connection, project: str, query: Query = ANY, window: Window = START) -> Page[SpanListed]:
    """A page of spans."""
    return _listed(db, project, query, window, _bound("spans", query))


def listed_traces(db: Connection, project: str, query: Query = ANY, window: Window = START) -> Page[TraceListed]:
    """A page of traces; what is asked for is asked of the span that stands for each."""
    is_head = spans.c.head == IS_HEAD
    return as_traces(db, project, _listed(db, project, query, window, _bound("traces", query), is_head))


def _listed(
    db: Connection, project: str, query: Query, window: Window, bound: Mapping[str, str], *more: ColumnElement[bool]
) -> Page[SpanListed]:
    own = [*_but_search(db, query), *more]
    ways: Iterable[list[ColumnElement[bool]]] = [[spans.c.project == project]]
    if query.search:
        place = begin(window, project=project, by=_BY, filters=bound)
        before = query.until if place is None else place[0]  # Where a page begins is of the time that is asked for.
        ways = span_words.ways(db, project, query.search, before=before)
    found: Page[SpanListed] = Page([])
    for way in ways:
        asked = select(*_COLUMNS).where(*way, *own)
        found = page(db, asked, read_row, project=project, by=_BY, window=window, filters=bound)
        if found.next is not None:
            break
    return found


def as_traces(db: Connection, project: str, found: Page[SpanListed]) -> Page[TraceListed]:
    """A page of the heads of traces, each with what its trace comes to, and what a head does not say filled in."""
    known = sums(db, project, {row.trace_id for row in found.data})
    return found.of(lambda row: filled(db, project, as_trace(row, known[row.trace_id])))


def filled(db: Connection, project: str, row: TraceListed) -> TraceListed:
    """The row with what its last call of a model says where its head says nothing.

    A run of ours has said itself what it was given and what it said, and what failed has no answer: these stay empty.
    """
    said = msgspec.structs.asdict(row)
    wanted = [name for name in span_standins.FIELDS if span_standins.is_nothing(said[name])]
    if row.spans < 2 or not _TELLING.intersection(wanted):
        return row
    told = span_standins.told(db, project, row.trace_id)
    if row.run_id is not None:
        wanted = [name for name in wanted if name in ("model", "provider")]
    elif row.status == "error":
        wanted = [name for name in wanted if name != "preview_out"]
    return msgspec.structs.replace(row, **{name: told[name] for name in wanted if name in told})


def heads(project: str) -> Select[Any]:
    """The heads of all traces of a project, as rows."""
    return select(*_COLUMNS).where(spans.c.project == project, spans.c.head == IS_HEAD)


def rows_of(db: Connection, project: str, trace: str, ids: Collection[str]) -> dict[str, SpanListed]:
    """Spans of a trace, by id."""
    if db.dialect.name == "postgresql":
        # A plan for traces as most are would look at all of a long one, and compare each with each of these.
        db.execute(select(func.set_config("plan_cache_mode", "force_custom_plan", True)))
    asked = select(*_COLUMNS).where(spans.c.project == project, spans.c.trace_id == trace, spans.c.span_id.in_(ids))
    return {row.span_id: read_row(row) for row in db.execute(asked)}


def head_of(db: Connection, project: str, trace: str) -> SpanListed | None:
    """The span that stands for a trace."""
    row = db.execute(heads(project).where(spans.c.trace_id == trace)).first()
    return None if row is None else read_row(row)


def sums(db: Connection, project: str, traces: Collection[str]) -> dict[str, Sums]:
    """What traces come to."""
    if not traces:
        return {}
    theirs = [column.label(name) for name, column in _summed().items()]
    if db.dialect.name == "postgresql":
        # One by one: of a day that has just begun it knows nothing, and would read all of it to find some.
        wanted = func.unnest(literal(list(traces), ARRAY(Text))).table_valued("trace_id").render_derived()
        inner = select(*theirs).where(spans.c.project == project, spans.c.trace_id == wanted.c.trace_id).lateral()
        asked: Select[*tuple[Any, ...]] = select(wanted.c.trace_id, inner).join_from(wanted, inner, true())
    else:
        asked = select(spans.c.trace_id, *theirs).where(spans.c.project == project, spans.c.trace_id.in_(traces))
        asked = asked.group_by(spans.c.trace_id)
    return {row.trace_id: _sums(row) for row in db.execute(asked)}


def _summed() -> dict[str, ColumnElement[Any]]:
    """What is summed up over a trace's spans: the fields of Sums."""
    is_call = spans.c.kind.in_(CALLS)
    return {
        "spans": func.count(),
        "errors": func.count(case((spans.c.status == "error", 1))),
        **{name: func.sum(case((is_call, spans.c[name]))) for name in ("input_tokens", "output_tokens", "cost")},
    }


def _sums(row: Row[*tuple[Any, ...]]) -> Sums:
    # PostgreSQL sums counts up to what is no integer of Python's.
    asked, said = (None if sum_ is None else int(sum_) for sum_ in (row.input_tokens, row.output_tokens))
    return Sums(row.spans, row.errors, asked, said, row.cost)


def as_trace(row: SpanListed, total: Sums) -> TraceListed:
    """The row of a trace: its head, with what its calls come to, or else what the head says itself."""
    fields = msgspec.structs.asdict(row)
    said = {"input_tokens": total.input_tokens, "output_tokens": total.output_tokens, "cost": total.cost}
    fields |= {name: value for name, value in said.items() if value is not None}
    return TraceListed(spans=total.spans, errors=total.errors, **fields)


def conditions(db: Connection, project: str, query: Query) -> list[ColumnElement[bool]]:
    """What holds for the spans that are asked for."""
    asked = [spans.c.project == project, *_but_search(db, query)]
    return [*asked, span_words.holding(db, query.search)] if query.search else asked


def _but_search(db: Connection, query: Query) -> list[ColumnElement[bool]]:
    asked = in_time(query)
    return asked if query.filter is None else [*asked, condition(db, query.filter)]


def in_time(query: Query) -> list[ColumnElement[bool]]:
    """What holds for those of the time that is asked for."""
    since = [] if query.since is None else [spans.c.start >= query.since]
    return since if query.until is None else [*since, spans.c.start < query.until]


def _bound(kind: str, query: Query) -> dict[str, str]:
    """What a cursor is bound to."""
    return {"of": kind, "query": msgspec.json.encode(query).decode()}


def read_row(row: Row[Any]) -> SpanListed:
    """A row of `heads`."""
    fields: Sequence[str] = SpanListed.__struct_fields__
    return SpanListed(**dict(zip(fields, row, strict=False)))
