"""The shape of a trace: what hangs below what. Those of long traces are remembered, as a page asks for one many times.

Strangers say which span is whose parent: one whose parent is not there stands at the top, and so does the first of
those that are each other's parents.
"""

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from sqlalchemy import BigInteger, Connection, Engine, func, select, type_coerce

from palaver.storage.spans.tables import spans

LONG = 2_000
"""Spans of a trace from which on its shape is remembered,"""
MOST = 100_000
"""and of all that are: about 30 MB."""


class Shape(NamedTuple):
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


class _Remembered(NamedTuple):
    state: tuple[int, int]
    shape: Shape


_Shapes: TypeAlias = OrderedDict[tuple[str, str], _Remembered]
_remembered: WeakKeyDictionary[Engine, _Shapes] = WeakKeyDictionary()
_lock = Lock()


def shape_of(db: Connection, project: str, trace: str) -> Shape:
    """The shape of a trace as it is now; empty for an unknown one, or another project's."""
    theirs = (spans.c.project == project, spans.c.trace_id == trace)
    # A span that is replaced gets another number, so that both together tell whether anything has changed.
    count, last = db.execute(select(func.count(), func.max(spans.c.id)).where(*theirs)).one()
    if count < LONG:
        return _read(db, project, trace)
    name, state = (project, trace), (count, last)
    with _lock:
        shapes = _remembered.setdefault(db.engine, OrderedDict())
        known = shapes.get(name)
        if known is not None and known.state == state:
            shapes.move_to_end(name)
            return known.shape
    shape = _read(db, project, trace)
    if len(shape.starts) == count:
        with _lock:
            _remember(shapes, name, _Remembered(state, shape))
    return shape


def _remember(shapes: _Shapes, name: tuple[str, str], new: _Remembered) -> None:
    shapes[name] = new
    shapes.move_to_end(name)
    while len(shapes) > 1 and sum(len(one.shape.starts) for one in shapes.values()) > MOST:
        shapes.popitem(last=False)


def _read(db: Connection, project: str, trace: str) -> Shape:
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
    order = _reached(top, below)
    if len(order) < len(parents):
        for first in _firsts(list(parents), set(order), hung):
            below[hung.pop(first)].remove(first)
            top.append(first)
            notes[first] = ("cycle",)
            order += _reached([first], below)
    shape = Shape(starts, top, below, _counted(order, hung), notes)
    top.sort(key=shape.place)
    return shape


def _reached(top: Sequence[str], below: dict[str, list[str]]) -> list[str]:
    """All that hangs below these, each after its parent."""
    order = list(top)
    for span in order:  # It grows as it is gone through.
        order += below.get(span, ())
    return order


def _firsts(spans_in_order: Sequence[str], seen: set[str], hung: dict[str, str]) -> list[str]:
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


def _counted(order: Sequence[str], hung: dict[str, str]) -> dict[str, int]:
    """How many hang below each: those that come last hand their count up first."""
    counts = dict.fromkeys(order, 0)
    for span in reversed(order):
        parent = hung.get(span)
        if parent is not None:
            counts[parent] += 1 + counts[span]
    return counts
