"""One trace: its tree, overview, skeleton, span bodies and model calls.

Clients decide which span is whose parent. A span whose parent is missing is a root, and so is the first span of a
cycle: every span is in the tree exactly once. The shapes of long traces are cached, as a page requests them many times.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from datetime import datetime
from threading import Lock
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import msgspec
from sqlalchemy import BigInteger, Connection, Engine, Row, Select, func, select, type_coerce

from palaver.storage.pagination import FIRST_PAGE, Page, Window, fetch_page, paginate_sorted
from palaver.storage.spans import queries
from palaver.storage.spans.queries import SpanListItem, TraceListItem
from palaver.storage.spans.tables import span_bodies, spans
from palaver.storage.spans.writes import decompress_body

CACHE_MIN_SPANS = 2_000
"""Traces with at least this many spans are cached."""
CACHE_MAX_SPANS = 100_000
"""Total number of cached spans, about 30 MB."""


class TraceShape(NamedTuple):
    """The tree of a trace. All lists are ordered by start time."""

    starts: dict[str, int]
    """Start times by span, in order."""
    roots: list[str]
    children: dict[str, list[str]]
    descendants: dict[str, int]
    notes: dict[str, tuple[str, ...]]

    def sort_key(self, span: str) -> str:
        """Return a key that sorts by start time."""
        return f"{self.starts[span]:020d}{span}"


class _CachedShape(NamedTuple):
    state: tuple[int, int]
    shape: TraceShape


_ShapeCache: TypeAlias = OrderedDict[tuple[str, str], _CachedShape]
_shape_caches: WeakKeyDictionary[Engine, _ShapeCache] = WeakKeyDictionary()
_cache_lock = Lock()


def load_shape(db: Connection, project: str, trace: str) -> TraceShape:
    """Return the shape of a trace; empty for an unknown one, or one of another project."""
    in_trace = (spans.c.project == project, spans.c.trace_id == trace)
    # A replaced span gets a new id, so count and maximum id identify a state.
    count, last = db.execute(select(func.count(), func.max(spans.c.id)).where(*in_trace)).one()
    if count < CACHE_MIN_SPANS:
        return _read_shape(db, project, trace)
    key, state = (project, trace), (count, last)
    with _cache_lock:
        shapes = _shape_caches.setdefault(db.engine, OrderedDict())
        cached = shapes.get(key)
        if cached is not None and cached.state == state:
            shapes.move_to_end(key)
            return cached.shape
    shape = _read_shape(db, project, trace)
    if len(shape.starts) == count:
        with _cache_lock:
            _cache_shape(shapes, key, _CachedShape(state, shape))
    return shape


def _cache_shape(shapes: _ShapeCache, key: tuple[str, str], new: _CachedShape) -> None:
    shapes[key] = new
    shapes.move_to_end(key)
    while len(shapes) > 1 and sum(len(cached.shape.starts) for cached in shapes.values()) > CACHE_MAX_SPANS:
        shapes.popitem(last=False)


def _read_shape(db: Connection, project: str, trace: str) -> TraceShape:
    """Read the parents and start times of all spans, and build the tree."""
    query = select(spans.c.span_id, spans.c.parent_id, type_coerce(spans.c.start, BigInteger))
    query = query.where(spans.c.project == project, spans.c.trace_id == trace)
    starts: dict[str, int] = {}
    parents: dict[str, str | None] = {}
    for span, parent, start in db.execute(query.order_by(spans.c.start, spans.c.span_id)).all():
        starts[span], parents[span] = start, parent
    roots: list[str] = []
    parent_of: dict[str, str] = {}
    children: dict[str, list[str]] = {}
    notes: dict[str, tuple[str, ...]] = {}
    for span, parent in parents.items():
        if parent is not None and parent in parents:
            parent_of[span] = parent
            children.setdefault(parent, []).append(span)
            continue
        roots.append(span)
        if parent is not None:
            notes[span] = ("orphan",)
    order = _descend(roots, children)
    if len(order) < len(parents):
        for first in _cycle_starts(list(parents), set(order), parent_of):
            children[parent_of.pop(first)].remove(first)
            roots.append(first)
            notes[first] = ("cycle",)
            order += _descend([first], children)
    shape = TraceShape(starts, roots, children, _count_descendants(order, parent_of), notes)
    roots.sort(key=shape.sort_key)
    return shape


def _descend(roots: Sequence[str], children: dict[str, list[str]]) -> list[str]:
    """Return all descendants, each after its parent."""
    order = list(roots)
    for span in order:  # `order` grows during iteration (breadth-first).
        order += children.get(span, ())
    return order


def _cycle_starts(spans_in_order: Sequence[str], visited: set[str], parent_of: dict[str, str]) -> list[str]:
    """Return the first span of each cycle that no root leads to."""
    order = {span: index for index, span in enumerate(spans_in_order)}
    cycle_starts: dict[str, None] = {}
    for span in spans_in_order:
        path: dict[str, None] = {}
        while span not in visited and span not in path:
            path[span] = None
            span = parent_of[span]
        if span in path:  # The cycle starts here.
            steps = list(path)
            cycle_starts[min(steps[steps.index(span) :], key=order.__getitem__)] = None
        visited.update(path)
    return list(cycle_starts)


def _count_descendants(order: Sequence[str], parent_of: dict[str, str]) -> dict[str, int]:
    """Count descendants, from the leaves up."""
    counts = dict.fromkeys(order, 0)
    for span in reversed(order):
        parent = parent_of.get(span)
        if parent is not None:
            counts[parent] += 1 + counts[span]
    return counts


_MAX_SESSIONS = 100


class TraceOverview(msgspec.Struct, frozen=True, kw_only=True):
    root: TraceListItem
    kinds: dict[str, int]
    sessions: list[str]


class SpanTreeItem(SpanListItem, frozen=True, kw_only=True):
    children: int
    descendants: int
    notes: tuple[str, ...] = ()
    """`orphan`: its parent is missing; `cycle`: it is its own ancestor."""


class SkeletonSpan(msgspec.Struct, frozen=True, kw_only=True):
    span_id: str
    parent_id: str | None
    name: str
    kind: str
    status: str
    start: datetime
    duration_ms: float
    tokens: int | None = None
    """Input plus output tokens; None if unknown."""


class OutlineEntry(NamedTuple):
    span_id: str
    depth: int
    notes: tuple[str, ...]


def get_trace_overview(db: Connection, project: str, trace: str) -> TraceOverview | None:
    """Return the overview of a trace; None for an unknown one, or one of another project."""
    head = queries.get_head_span(db, project, trace)
    if head is None:
        return None
    in_trace = (spans.c.project == project, spans.c.trace_id == trace)
    kinds = db.execute(select(spans.c.kind, func.count()).where(*in_trace).group_by(spans.c.kind))
    sessions = select(spans.c.session).where(*in_trace, spans.c.session.is_not(None)).distinct()
    return TraceOverview(
        root=queries.to_traces(db, project, Page([head])).data[0],
        kinds=dict(sorted((row[0], row[1]) for row in kinds)),
        sessions=sorted(db.scalars(sessions.limit(_MAX_SESSIONS))),
    )


def list_skeleton(db: Connection, project: str, trace: str, window: Window = FIRST_PAGE) -> Page[SkeletonSpan]:
    """List all spans of a trace by start time, with few columns."""
    names = [name for name in SkeletonSpan.__struct_fields__ if name != "tokens"]
    token_columns = (spans.c.input_tokens, spans.c.output_tokens)
    query = select(*(spans.c[name] for name in names), *token_columns)
    query = query.where(spans.c.project == project, spans.c.trace_id == trace)
    by = [spans.c.start, spans.c.span_id]

    def to_skeleton(row: Row[Any]) -> SkeletonSpan:
        input_tokens, output_tokens = row[len(names) : len(names) + 2]
        tokens = None if input_tokens is None and output_tokens is None else (input_tokens or 0) + (output_tokens or 0)
        return SkeletonSpan(**dict(zip(names, row, strict=False)), tokens=tokens)

    return fetch_page(
        db, query, to_skeleton, project=project, by=by, window=window, filters={"trace": trace}, order="oldest"
    )


def list_children(
    db: Connection, project: str, trace: str, *, parent: str | None = None, window: Window = FIRST_PAGE
) -> Page[SpanTreeItem]:
    """List the children of a span, or the roots, by start time."""
    shape = load_shape(db, project, trace)
    ids = shape.roots if parent is None else shape.children.get(parent, [])
    filters = {"trace": trace, "parent": parent}
    page = paginate_sorted(ids, shape.sort_key, project=project, window=window, filters=filters)
    rows = queries.get_span_rows(db, project, trace, page.data)
    return page.map(lambda span: _tree_item(rows[span], shape))


def load_outline(db: Connection, project: str, trace: str) -> list[OutlineEntry]:
    """Return all spans depth-first, siblings by start time."""
    shape = load_shape(db, project, trace)
    outline: list[OutlineEntry] = []
    stack = [(span, 0) for span in reversed(shape.roots)]
    while stack:
        span, depth = stack.pop()
        outline.append(OutlineEntry(span, depth, shape.notes.get(span, ())))
        stack += [(child, depth + 1) for child in reversed(shape.children.get(span, ()))]
    return outline


def get_span_body(db: Connection, project: str, trace: str, span: str) -> bytes | None:
    """Return the body of a span as JSON; None for an unknown one, or one of another project."""
    return next((body for _, body in iter_span_bodies(db, project, trace, [span])), None)


def iter_span_bodies(db: Connection, project: str, trace: str, ids: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    query = select(span_bodies.c.span_id, span_bodies.c.body).where(
        span_bodies.c.project == project, span_bodies.c.trace_id == trace, span_bodies.c.span_id.in_(ids)
    )
    for span, body in db.execute(query):
        yield span, decompress_body(body)


def _tree_item(row: SpanListItem, shape: TraceShape) -> SpanTreeItem:
    return SpanTreeItem(
        **msgspec.structs.asdict(row),
        children=len(shape.children.get(row.span_id, ())),
        descendants=shape.descendants[row.span_id],
        notes=shape.notes.get(row.span_id, ()),
    )


MAX_CALLS = 8
"""Number of last model calls that are searched for a conversation."""
MAX_TOOLS = 100


def get_head_body(db: Connection, project: str, trace: str) -> bytes | None:
    row = queries.get_head_span(db, project, trace)
    return None if row is None else get_span_body(db, project, trace, row.span_id)


def iter_model_calls(db: Connection, project: str, trace: str) -> Iterator[bytes]:
    """Iterate over the bodies of model calls, last ended first."""
    ended = type_coerce(spans.c.start, BigInteger) + spans.c.duration_ms * 1000
    query = select(spans.c.span_id).where(spans.c.project == project, spans.c.trace_id == trace, spans.c.kind == "llm")
    query = query.order_by(ended.desc(), spans.c.span_id).limit(MAX_CALLS)
    return _iter_bodies(db, project, trace, query)


def iter_tool_calls(db: Connection, project: str, trace: str) -> Iterator[bytes]:
    """Iterate over the bodies of tool calls by start time."""
    query = select(spans.c.span_id).where(spans.c.project == project, spans.c.trace_id == trace, spans.c.kind == "tool")
    query = query.order_by(spans.c.start, spans.c.span_id).limit(MAX_TOOLS)
    return _iter_bodies(db, project, trace, query)


def _iter_bodies(db: Connection, project: str, trace: str, query: Select[Any]) -> Iterator[bytes]:
    for span in db.scalars(query).all():
        body = get_span_body(db, project, trace, span)
        if body is not None:
            yield body
