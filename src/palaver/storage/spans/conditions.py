"""Filters as SQL. Every value is a bound parameter, and names are looked up in a table of ours: no text becomes SQL.

`ne` and `not_in` are what `eq` and `in` are not: a span without the field is not equal to anything. Texts are compared
byte by byte, in upper and lower case, and `contains` knows no wildcards.
"""

import operator
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, assert_never

from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    FromClause,
    Text,
    and_,
    case,
    exists,
    func,
    literal,
    not_,
    or_,
    select,
    true,
    tuple_,
)
from sqlalchemy import (
    cast as sql_cast,
)
from sqlalchemy.dialects.postgresql import JSONB

from palaver.core import jsons
from palaver.storage.feedback import Rating
from palaver.storage.spans.filters import Filter, Joined, Leaf, Op, Value
from palaver.storage.spans.tables import INDEXED, SAY_UNUSUAL, span_bodies, spans
from palaver.storage.tables import feedback
from palaver.storage.types import Moment

_COLUMNS = {
    "tool.name": "tool",
    "exception.type": "exception",
    "usage.input_tokens": "input_tokens",
    "usage.output_tokens": "output_tokens",
}
_COMPARED: dict[str, Callable[[Any, Any], ColumnElement[bool]]] = {
    "eq": operator.eq,
    "lt": operator.lt,
    "lte": operator.le,
    "gt": operator.gt,
    "gte": operator.ge,
}
_POSITIVE: dict[Op, Op] = {"ne": "eq", "not_in": "in", "missing": "exists"}
"""What each of these is not."""


def condition(db: Connection, asked: Filter) -> ColumnElement[bool]:
    """Is a span one of those?"""
    match asked:
        case Joined(by="and", parts=parts):
            return and_(*(condition(db, part) for part in parts))
        case Joined(parts=parts):
            return or_(*(condition(db, part) for part in parts))
        case Leaf(of="field"):
            return _of_field(db, asked)
        case Leaf():
            return _of_attribute(db, asked)
        case _:
            assert_never(asked)


def unindexed(asked: Filter) -> list[str]:
    """The names in it for which every span in the time asked for has to be looked at."""
    match asked:
        case Joined(by="and", parts=parts):
            inner = [unindexed(part) for part in parts]
            return [] if any(not names for names in inner) else [name for names in inner for name in names]
        case Joined(parts=parts):
            return [name for part in parts for name in unindexed(part)]
        case Leaf(of="field", op="eq" | "in", name=name) if name in INDEXED or name == "feedback":
            return []
        case Leaf(of="field", op="lt" | "lte" | "gt" | "gte", name="start"):
            return []
        case Leaf(name=name):
            return [name]
        case _:
            assert_never(asked)


# Fields


def _of_field(db: Connection, leaf: Leaf) -> ColumnElement[bool]:
    if leaf.name == "feedback":
        return _of_feedback(leaf)
    column = spans.c[_COLUMNS.get(leaf.name, leaf.name)]
    positive = _POSITIVE.get(leaf.op)
    holds = _field_holds(db, column, positive or leaf.op, leaf.values)
    if positive is None:
        return holds
    return column.is_(None) if leaf.op == "missing" else or_(column.is_(None), not_(holds))


def _of_feedback(leaf: Leaf) -> ColumnElement[bool]:
    """What people thought of the run that a span is of."""

    def is_among(rating: Rating | None) -> ColumnElement[bool]:
        # Not asked for each span: those few runs are found first, and then their spans.
        rated = select(feedback.c.project, feedback.c.run)
        rated = rated if rating is None else rated.where(feedback.c.rating == rating)
        return tuple_(spans.c.project, spans.c.run_id).in_(rated)

    up, down = is_among("up"), is_among("down")
    meant = {"up": and_(up, not_(down)), "down": and_(down, not_(up)), "mixed": and_(up, down)}
    holds = or_(*(meant[str(value)] for value in leaf.values)) if leaf.values else is_among(None)
    return holds if leaf.op in ("eq", "in", "exists") else or_(spans.c.run_id.is_(None), not_(holds))


def _field_holds(db: Connection, column: ColumnElement[Any], op: Op, values: Sequence[Value]) -> ColumnElement[bool]:
    if op == "exists":
        return column.is_not(None)
    bound = [_bound(value) for value in values]
    if op in ("contains", "starts_with"):
        return _within(db, column, op, bound[0])
    is_so = column.in_(bound) if op == "in" else _COMPARED[op](column, bound[0])
    if column is spans.c.status and op in ("eq", "in") and "ok" not in values:
        return and_(is_so, SAY_UNUSUAL)
    return is_so


def _bound(value: Value) -> ColumnElement[Any]:
    """As a parameter that is compared as what it is: PostgreSQL would round 2.5 to be compared with a count."""
    if isinstance(value, datetime):
        return literal(value, Moment)
    return literal(value, Text) if isinstance(value, str) else literal(float(value), Double)


def _within(db: Connection, whole: ColumnElement[Any], op: Op, part: ColumnElement[Any]) -> ColumnElement[bool]:
    if op == "starts_with":
        return func.substr(whole, 1, func.length(part)) == part
    place = func.strpos(whole, part) if db.dialect.name == "postgresql" else func.instr(whole, part)
    return place > 0


# Attributes


class _Label(NamedTuple):
    """An attribute's value, in SQL: what it is, and itself as what it is."""

    source: FromClause
    is_there: ColumnElement[bool]
    is_text: ColumnElement[bool]
    text: ColumnElement[Any]
    is_number: ColumnElement[bool]
    number: ColumnElement[Any]
    is_true: ColumnElement[bool]
    is_false: ColumnElement[bool]


def _of_attribute(db: Connection, leaf: Leaf) -> ColumnElement[bool]:
    label = _in_jsonb(leaf.name) if db.dialect.name == "postgresql" else _in_json(leaf.name)
    positive = _POSITIVE.get(leaf.op)
    op = positive or leaf.op
    holds = true() if op == "exists" else or_(*(_label_holds(db, label, op, value) for value in leaf.values))
    same = [span_bodies.c[name] == spans.c[name] for name in ("project", "trace_id", "span_id", "day")]
    asked = select(1).select_from(label.source).where(*same, _may_hold(db, leaf.name, op, leaf.values))
    asked = asked.where(label.is_there, holds)
    if db.dialect.name == "postgresql":
        asked = asked.offset(0)  # Or else it would read the attributes of all spans first, of whatever day.
    found = exists(asked)
    return found if positive is None else not_(found)


def _may_hold(db: Connection, name: str, op: Op, values: Sequence[Value]) -> ColumnElement[bool]:
    """Can it be? Found out by looking for what has to stand in the JSON, which is quicker than to read it."""
    beginning = f"{jsons.encode(name).decode()}:"
    written = [beginning]
    if op in ("eq", "in") and all(isinstance(value, str) for value in values):
        written = [beginning + jsons.encode(value).decode() for value in values]
    return or_(*(_within(db, span_bodies.c.labels, "contains", literal(one, Text)) for one in written))


def _in_json(name: str) -> _Label:
    each = func.json_each(span_bodies.c.labels).table_valued("key", "type", "atom")
    return _Label(
        source=span_bodies.join(each, true()),
        is_there=each.c.key == literal(name, Text),
        is_text=each.c.type == "text",
        text=each.c.atom,
        is_number=each.c.type.in_(["integer", "real"]),
        number=each.c.atom,
        is_true=each.c.type == "true",
        is_false=each.c.type == "false",
    )


def _in_jsonb(name: str) -> _Label:
    value = sql_cast(span_bodies.c.labels, JSONB)[literal(name, Text)]
    kind, words = func.jsonb_typeof(value), value.astext.collate("C")
    is_number = kind == "number"
    return _Label(
        source=span_bodies,
        is_there=value.is_not(None),
        is_text=kind == "string",
        text=words,
        is_number=is_number,
        number=case((is_number, sql_cast(value.astext, Double))),
        is_true=and_(kind == "boolean", words == "true"),
        is_false=and_(kind == "boolean", words == "false"),
    )


def _label_holds(db: Connection, label: _Label, op: Op, value: Value) -> ColumnElement[bool]:
    if isinstance(value, bool):
        return label.is_true if value else label.is_false
    is_words = isinstance(value, str)
    is_kind, own = (label.is_text, label.text) if is_words else (label.is_number, label.number)
    bound = _bound(value)
    if op in ("contains", "starts_with"):
        return and_(is_kind, _within(db, own, op, bound))
    return and_(is_kind, _COMPARED["eq" if op == "in" else op](own, bound))
