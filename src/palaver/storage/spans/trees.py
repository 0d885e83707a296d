"""One trace: what it comes to, its spans as a tree and as a line, and the record of one of them.

Strangers say which span is whose parent. A span whose parent is not there stands at the top, and so does the first of
those that are each other's parents: every span is in the tree exactly once, whatever was sent.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Row, func, select

from palaver.storage.pages import START, Page, Window, page, page_in_order
from palaver.storage.spans import pages as span_pages
from palaver.storage.spans.keeping import unpacked
from palaver.storage.spans.pages import SpanListed, TraceListed
from palaver.storage.spans.shapes import Shape, shape_of
from palaver.storage.spans.tables import span_bodies, spans

_MOST_SESSIONS = 100


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A trace, in short."""

    root: TraceListed
    kinds: dict[str, int]
    """How many spans there are of each."""
    sessions: list[str]


class Branch(SpanListed, frozen=True, kw_only=True):
    """A span in the tree."""

    children: int
    descendants: int
    notes: tuple[str, ...] = ()
    """`orphan`: its parent is not there; `cycle`: it is its own ancestor."""


class Bone(msgspec.Struct, frozen=True, kw_only=True):
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


class Place(NamedTuple):
    """Where a span stands in the tree."""

    span_id: str
    depth: int
    notes: tuple[str, ...]


def summary(db: Connection, project: str, trace: str) -> Summary | None:
    """A trace, in short; None for an unknown one, or another project's."""
    head = span_pages.head_of(db, project, trace)
    if head is None:
        return None
    theirs = (spans.c.project == project, spans.c.trace_id == trace)
    kinds = db.execute(select(spans.c.kind, func.count()).where(*theirs).group_by(spans.c.kind))
    sessions = select(spans.c.session).where(*theirs, spans.c.session.is_not(None)).distinct()
    return Summary(
        root=span_pages.as_traces(db, project, Page([head])).data[0],
        kinds=dict(sorted((row[0], row[1]) for row in kinds)),
        sessions=sorted(db.scalars(sessions.limit(_MOST_SESSIONS))),
    )


def skeleton(db: Connection, project: str, trace: str, window: Window = START) -> Page[Bone]:
    """A page of all spans of a trace, in the order of their start."""
    names = [name for name in Bone.__struct_fields__ if name != "tokens"]
    counts = (spans.c.input_tokens, spans.c.output_tokens)
    asked = select(*(spans.c[name] for name in names), *counts)
    asked = asked.where(spans.c.project == project, spans.c.trace_id == trace)
    by = [spans.c.start, spans.c.span_id]

    def read(row: Row[Any]) -> Bone:
        given, said = row[len(names) : len(names) + 2]
        tokens = None if given is None and said is None else (given or 0) + (said or 0)
        return Bone(**dict(zip(names, row, strict=False)), tokens=tokens)

    return page(db, asked, read, project=project, by=by, window=window, filters={"trace": trace}, order="oldest")


def tree(
    db: Connection, project: str, trace: str, *, parent: str | None = None, window: Window = START
) -> Page[Branch]:
    """A page of a span's children, or of what stands at the top, in the order of their start."""
    shape = shape_of(db, project, trace)
    below = shape.top if parent is None else shape.below.get(parent, [])
    filters = {"trace": trace, "parent": parent}
    found = page_in_order(below, shape.place, project=project, window=window, filters=filters)
    rows = span_pages.rows_of(db, project, trace, found.data)
    return found.of(lambda span: _branch(rows[span], shape))


def outline(db: Connection, project: str, trace: str) -> list[Place]:
    """Every span of a trace, each after its parent and with all that hangs below it, in the order of their start."""
    shape = shape_of(db, project, trace)
    places: list[Place] = []
    left = [(span, 0) for span in reversed(shape.top)]
    while left:
        span, depth = left.pop()
        places.append(Place(span, depth, shape.notes.get(span, ())))
        left += [(child, depth + 1) for child in reversed(shape.below.get(span, ()))]
    return places


def body(db: Connection, project: str, trace: str, span: str) -> bytes | None:
    """The record of a span, as JSON; None for an unknown one, or another project's."""
    return next((found for _, found in bodies(db, project, trace, [span])), None)


def bodies(db: Connection, project: str, trace: str, ids: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """The records of some spans of a trace, each with its id."""
    asked = select(span_bodies.c.span_id, span_bodies.c.body).where(
        span_bodies.c.project == project, span_bodies.c.trace_id == trace, span_bodies.c.span_id.in_(ids)
    )
    for span, found in db.execute(asked):
        yield span, unpacked(found)


def _branch(row: SpanListed, shape: Shape) -> Branch:
    return Branch(
        **msgspec.structs.asdict(row),
        children=len(shape.below.get(row.span_id, ())),
        descendants=shape.descendants[row.span_id],
        notes=shape.notes.get(row.span_id, ()),
    )
