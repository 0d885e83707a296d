"""One trace: its tree, overview, skeleton, span bodies and model calls."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from datetime import datetime
from threading import Lock
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import msgspec
from sqlalchemy import BigInteger, Connection, Engine, Row, func, select, type_coerce

from palaver.storage.pagination import FIRST_PAGE, Page, Window, fetch_page, paginate_sorted
from palaver.storage.spans import queries as span_pages
from palaver.storage.spans.queries import SpanListItem, TraceListItem
from palaver.storage.spans.tables import span_bodies, spans
from palaver.storage.spans.writes import decompress_body

CACHE_MIN_SPANS = 2_000
"""Spans of a trace from which on its shape is remembered,"""
CACHE_MAX_SPANS = 100_000
"""and of all that are: about 30 MB."""


class TraceShape(NamedTuple):
    """Which spans there are, and how they hang together. All lists are in the order of their start."""

    starts: dict[str, int]
    """Of every span, in order: when it started."""
    top: list[str]
    below: dict[str, list[str]]
    descendants: dict[str, int]
    notes: dict[str, tuple[str, ...]]

    def place(self, span: str) -> str:
        """Sorts as they started."""
        return f"{self.starts[span]:020d}{span}"


class _CachedShape(NamedTuple):
    state: tuple[int, int]
    shape: TraceShape


_ShapeCache: TypeAlias = OrderedDict[tuple[str, str], _CachedShape]
_shape_caches: WeakKeyDictionary[Engine, _ShapeCache] = WeakKeyDictionary()
_cache_lock = Lock()


def load_shape(db: Connection, project: str, trace: str) -> TraceShape:
    """The shape of a trace as it is now; empty for an unknown one, or another project's."""
    theirs = (spans.c.project == project, spans.c.trace_id == trace)
    # A span that is replaced gets another number, so that both together tell whether anything has changed.
    count, last = db.execute(select(func.count(), func.max(spans.c.id)).where(*theirs)).one()
    if count < CACHE_MIN_SPANS:
        return _read_shape(db, project, trace)
    name, state = (project, trace), (count, last)
    with _cache_lock:
        shapes = _shape_caches.setdefault(db.engine, OrderedDict())
        known = shapes.get(name)
        if known is not None and known.state == state:
            shapes.move_to_end(name)
            return known.shape
    shape = _read_shape(db, project, trace)
    if len(shape.starts) == count:
        with _cache_lock:
            _cache_shape(shapes, name, _CachedShape(state, shape))
    return shape


def _cache_shape(shapes: _ShapeCache, name: tuple[str, str], new: _CachedShape) -> None:
    shapes[name] = new
    shapes.move_to_end(name)
    while len(shapes) > 1 and sum(len(one.shape.starts) for one in shapes.values()) > CACHE_MAX_SPANS:
        shapes.popitem(last=False)


def _read_shape(db: Connection, project: str, trace: str) -> TraceShape:
    """What hangs below what: of each span no more than two names and a number are read."""
    asked = select(spans.c.span_id, spans.c.parent_id, type_coerce(spans.c.start, BigInteger))
    asked = asked.where(spans.c.project == project, spans.c.trace_id == trace)
    starts: dict[str, int] = {}
    parents: dict[str, str | None] = {}
    for span, parent, start in db.execute(asked.order_by(spans.c.start, spans.c.span_id)).all():
        starts[span], parents[span] = start, parent
    top: list[str] = []
    hung: dict[str, str] = {}
    below: dict[str, list[str]] = {}
    notes: dict[str, tuple[str, ...]] = {}
    for span, parent in parents.items():
        if parent is not None and parent in parents:
            hung[span] = parent
            below.setdefault(parent, []).append(span)
            continue
        top.append(span)
        if parent is not None:
            notes[span] = ("orphan",)
    order = _descend(top, below)
    if len(order) < len(parents):
        for first in _cycle_starts(list(parents), set(order), hung):
            below[hung.pop(first)].remove(first)
            top.append(first)
            notes[first] = ("cycle",)
            order += _descend([first], below)
    shape = TraceShape(starts, top, below, _count_descendants(order, hung), notes)
    top.sort(key=shape.place)
    return shape


def _descend(top: Sequence[str], below: dict[str, list[str]]) -> list[str]:
    """All that hangs below these, each after its parent."""
    order = list(top)
    for span in order:  # It grows as it is gone through.
        order += below.get(span, ())
    return order


def _cycle_starts(spans_in_order: Sequence[str], seen: set[str], hung: dict[str, str]) -> list[str]:
    """Of each circle that no top leads to, the first span: there it is opened."""
    places = {span: place for place, span in enumerate(spans_in_order)}
    firsts: dict[str, None] = {}
    for span in spans_in_order:
        way: dict[str, None] = {}
        while span not in seen and span not in way:
            way[span] = None
            span = hung[span]
        if span in way:  # Back where it was before: from there on it goes round.
            passed = list(way)
            firsts[min(passed[passed.index(span) :], key=places.__getitem__)] = None
        seen.update(way)
    return list(firsts)


def _count_descendants(order: Sequence[str], hung: dict[str, str]) -> dict[str, int]:
    """How many hang below each: those that come last hand their count up first."""
    counts = dict.fromkeys(order, 0)
    for span in reversed(order):
        parent = hung.get(span)
        if parent is not None:
            counts[parent] += 1 + counts[span]
    return counts


_MAX_SESSIONS = 100


class TraceOverview(msgspec.Struct, frozen=True, kw_only=True):
    """A trace, in short."""

    root: TraceListItem
    kinds: dict[str, int]
    """How many spans there are of each."""
    sessions: list[str]


class SpanTreeItem(SpanListItem, frozen=True, kw_only=True):
    """A span in the tree."""

    children: int
    descendants: int
    notes: tuple[str, ...] = ()
    """`orphan`: its parent is not there; `cycle`: it is its own ancestor."""


class SkeletonSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A span in the skeleton."""

    span_id: str
    parent_id: str | None
    name: str
    kind: str
    status: str
    start: datetime
    duration_ms: float
    tokens: int | None = None
    """Those it was given and those it gave; None where it says nothing of them."""


class OutlineEntry(NamedTuple):
    """Where a span stands in the tree."""

    span_id: str
    depth: int
    notes: tuple[str, ...]


def get_trace_overview(db: Connection, project: str, trace: str) -> TraceOverview | None:
    """A trace, in short; None for an unknown one, or another project's."""
    head = span_pages.get_head_span(db, project, trace)
    if head is None:
        return None
    theirs = (spans.c.project == project, spans.c.trace_id == trace)
    kinds = db.execute(select(spans.c.kind, func.count()).where(*theirs).group_by(spans.c.kind))
    sessions = select(spans.c.session).where(*theirs, spans.c.session.is_not(None)).distinct()
    return TraceOverview(
        root=span_pages.to_traces(db, project, Page([head])).data[0],
        kinds=dict(sorted((row[0], row[1]) for row in kinds)),
        sessions=sorted(db.scalars(sessions.limit(_MAX_SESSIONS))),
    )


def list_skeleton(db: Connection, project: str, trace: str, window: Window = FIRST_PAGE) -> Page[SkeletonSpan]:
    """A page of all spans of a trace, in the order of their start."""
    names = [name for name in SkeletonSpan.__struct_fields__ if name != "tokens"]
    counts = (spans.c.input_tokens, spans.c.output_tokens)
    asked = select(*(spans.c[name] for name in names), *counts)
    asked = asked.where(spans.c.project == project, spans.c.trace_id == trace)
    by = [spans.c.start, spans.c.span_id]

    def read(row: Row[Any]) -> SkeletonSpan:
        given, said = row[len(names) : len(names) + 2]
        tokens = None if given is None and said is None else (given or 0) + (said or 0)
        return SkeletonSpan(**dict(zip(names, row, strict=False)), tokens=tokens)

    return fetch_page(db, asked, read, project=project, by=by, window=window, filters={"trace": trace}, order="oldest")


def list_children(
    db: Connection, project: str, trace: str, *, parent: str | None = None, window: Window = FIRST_PAGE
) -> Page[SpanTreeItem]:
    """A page of a span's children, or of what stands at the top, in the order of their start."""
    shape = load_shape(db, project, trace)
    below = shape.top if parent is None else shape.below.get(parent, [])
    filters = {"trace": trace, "parent": parent}
    found = paginate_sorted(below, shape.place, project=project, window=window, filters=filters)
    rows = span_pages.get_span_rows(db, project, trace, found.data)
    return found.map(lambda span: _tree_item(rows[span], shape))


def load_outline(db: Connection, project: str, trace: str) -> list[OutlineEntry]:
    """Every span of a trace, each after its parent and with all that hangs below it, in the order of their start."""
    shape = load_shape(db, project, trace)
    places: list[OutlineEntry] = []
    left = [(span, 0) for span in reversed(shape.top)]
    while left:
        span, depth = left.pop()
        places.append(OutlineEntry(span, depth, shape.notes.get(span, ())))
        left += [(child, depth + 1) for child in reversed(shape.below.get(span, ()))]
    return places


def get_span_body(db: Connection, project: str, trace: str, span: str) -> bytes | None:
    """The record of a span, as JSON; None for an unknown one, or another project's."""
    return next((found for _, found in iter_span_bodies(db, project, trace, [span])), None)


def iter_span_bodies(db: Connection, project: str, trace: str, ids: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """The records of some spans of a trace, each with its id."""
    asked = select(span_bodies.c.span_id, span_bodies.c.body).where(
        span_bodies.c.project == project, span_bodies.c.trace_id == trace, span_bodies.c.span_id.in_(ids)
    )
    for span, found in db.execute(asked):
        yield span, decompress_body(found)


def _tree_item(row: SpanListItem, shape: TraceShape) -> SpanTreeItem:
    return SpanTreeItem(
        **msgspec.structs.asdict(row),
        children=len(shape.below.get(row.span_id, ())),
        descendants=shape.descendants[row.span_id],
        notes=shape.notes.get(row.span_id, ()),
    )


MAX_CALLS = 8
"""Calls of models that are looked at, from the last on, for one with a conversation."""
MAX_TOOLS = 100
"""Steps of tools that a trace is shown with."""


def get_head_body(db: Connection, project: str, trace: str) -> bytes | None:
    """The record of the span that stands for a trace; None for an unknown one, or another project's."""
    row = span_pages.get_head_span(db, project, trace)
    return None if row is None else get_span_body(db, project, trace, row.span_id)


def iter_model_calls(db: Connection, project: str, trace: str) -> Iterator[bytes]:
    """The records of its calls of models, the one that ended last first."""
    ended = type_coerce(spans.c.start, BigInteger) + spans.c.duration_ms * 1000
    asked = select(spans.c.span_id).where(spans.c.project == project, spans.c.trace_id == trace, spans.c.kind == "llm")
    asked = asked.order_by(ended.desc(), spans.c.span_id).limit(MAX_CALLS)
    for span in db.scalars(asked).all():
        body = get_span_body(db, project, trace, span)
        if body is not None:
            yield body


def iter_tool_calls(db: Connection, project: str, trace: str) -> Iterator[bytes]:
    """The records of its tools, in the order of their start."""
    asked = select(spans.c.span_id).where(spans.c.project == project, spans.c.trace_id == trace, spans.c.kind == "tool")
    asked = asked.order_by(spans.c.start, spans.c.span_id).limit(MAX_TOOLS)
    for span in db.scalars(asked).all():
        body = get_span_body(db, project, trace, span)
        if body is not None:
            yield body
