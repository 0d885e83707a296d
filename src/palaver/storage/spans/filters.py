"""The span filter language: parse JSON filters and compile them to SQL.

A filter is a tree of conditions on fields or attributes, joined by `and` and `or`. Parse errors carry a JSON pointer.
Every value becomes a bound parameter, and names are looked up, so no input becomes SQL. `ne` and `not_in` negate `eq`
and `in`: they match spans without the field. Text is compared byte by byte; `contains` has no wildcards.
"""

import operator
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias, assert_never, cast, get_args

import msgspec
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

from palaver.core import json
from palaver.errors import InvalidValue
from palaver.storage.feedback import Rating
from palaver.storage.schema import UtcTimestamp, storable_text
from palaver.storage.spans.tables import INDEXED_COLUMNS, IS_UNUSUAL_SPAN, span_bodies, spans
from palaver.storage.tables import feedback

Op = Literal["eq", "ne", "lt", "lte", "gt", "gte", "in", "not_in", "contains", "starts_with", "exists", "missing"]
FieldType = Literal["text", "number", "time"]
FilterValue: TypeAlias = str | bool | int | float | datetime

MAX_DEPTH = 8
MAX_CONDITIONS = 50
MAX_VALUES = 100
"""In the list of `in` or `not_in`."""
MAX_NAME_LENGTH = 512

FILTER_FIELDS: dict[str, FieldType] = {
    **dict.fromkeys(
        "trace_id span_id parent_id project name kind status status_message model provider".split(), "text"
    ),
    **dict.fromkeys("finish session user workflow run_id service scope cost_source".split(), "text"),
    "tool.name": "text",
    "exception.type": "text",
    "start": "time",
    **dict.fromkeys(["duration_ms", "cost", "usage.input_tokens", "usage.output_tokens"], "number"),
    "feedback": "text",
}
"""The fields of a span and their types; `feedback` is the rating of its run."""
FEEDBACK_VALUES = ("up", "down", "mixed")
"""The values of `feedback`."""

_OPS = frozenset(get_args(Op))
_VALUELESS_OPS: frozenset[Op] = frozenset({"exists", "missing"})
_LIST_OPS: frozenset[Op] = frozenset({"in", "not_in"})
_TEXT_OPS: frozenset[Op] = frozenset({"contains", "starts_with"})
_ORDER_OPS: frozenset[Op] = frozenset({"lt", "lte", "gt", "gte"})
_INT64_RANGE = range(-(1 << 63), 1 << 63)


class FilterCondition(msgspec.Struct, frozen=True):
    of: Literal["field", "attribute"]
    name: str
    op: Op
    values: tuple[FilterValue, ...] = ()
    """Several for `in` and `not_in`, none for `exists` and `missing`, else one."""


class FilterGroup(msgspec.Struct, frozen=True):
    by: Literal["and", "or"]
    parts: tuple["Filter", ...]


Filter: TypeAlias = FilterCondition | FilterGroup


def parse_filter(given: Any, pointer: str = "/filter") -> Filter:
    """Parse a filter. Raises InvalidValue with a pointer."""
    leaves: list[FilterCondition] = []
    return _parse_node(given, pointer, 1, leaves)


def list_conditions(of: Filter) -> list[FilterCondition]:
    return [of] if isinstance(of, FilterCondition) else [leaf for part in of.parts for leaf in list_conditions(part)]


def _parse_node(given: Any, pointer: str, depth: int, seen: list[FilterCondition]) -> Filter:
    if not isinstance(given, dict):
        raise InvalidValue("A filter is an object: a field or an attribute with an op, or and, or or.", pointer=pointer)
    made = cast("dict[str, Any]", given)
    for by in ("and", "or"):
        if by in made:
            return _parse_group(made, by, pointer, depth, seen)
    leaf = _parse_condition(made, pointer)
    seen.append(leaf)
    if len(seen) > MAX_CONDITIONS:
        raise InvalidValue(f"A filter has at most {MAX_CONDITIONS} conditions.", pointer=pointer)
    return leaf


def _parse_group(
    made: dict[str, Any], by: Literal["and", "or"], pointer: str, depth: int, seen: list[FilterCondition]
) -> FilterGroup:
    if len(made) > 1:
        raise InvalidValue(f"Beside {by!r} nothing else may stand.", pointer=pointer)
    if depth > MAX_DEPTH:
        raise InvalidValue(f"A filter is at most {MAX_DEPTH} levels deep.", pointer=pointer)
    parts = made[by]
    if not isinstance(parts, list) or not parts:
        raise InvalidValue(f"{by!r} takes a list of filters.", pointer=f"{pointer}/{by}")
    given = cast("list[Any]", parts)
    return FilterGroup(
        by, tuple(_parse_node(part, f"{pointer}/{by}/{place}", depth + 1, seen) for place, part in enumerate(given))
    )


def _parse_condition(made: dict[str, Any], pointer: str) -> FilterCondition:
    if ("field" in made) == ("attribute" in made):
        raise InvalidValue("A condition names either a field or an attribute.", pointer=pointer)
    if unknown := next((key for key in made if key not in ("field", "attribute", "op", "value")), None):
        raise InvalidValue(
            f"A condition has no {unknown[:80]!r}.", pointer=f"{pointer}/{json.escape_pointer(unknown[:80])}"
        )
    of: Literal["field", "attribute"] = "field" if "field" in made else "attribute"
    name, op = made[of], made.get("op")
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH:
        raise InvalidValue(f"The name is a text of 1 to {MAX_NAME_LENGTH} characters.", pointer=f"{pointer}/{of}")
    if of == "field" and name not in FILTER_FIELDS:
        known = ", ".join(FILTER_FIELDS)
        raise InvalidValue(f"There is no field {name[:80]!r}. Known: {known}.", pointer=f"{pointer}/field")
    if not isinstance(op, str) or op not in _OPS:
        raise InvalidValue(f"The op is one of {', '.join(get_args(Op))}.", pointer=f"{pointer}/op")
    values = _parse_values(made, cast("Op", op), FILTER_FIELDS[name] if of == "field" else None, f"{pointer}/value")
    if of == "field" and name == "feedback":
        _check_feedback(cast("Op", op), values, pointer)
    return FilterCondition(of, storable_text(name), cast("Op", op), values)


def _check_feedback(op: Op, values: tuple[FilterValue, ...], pointer: str) -> None:
    if op in _TEXT_OPS | _ORDER_OPS:
        raise InvalidValue(
            "Feedback is one of a few words: ask for it with eq, ne, in or not_in.", pointer=f"{pointer}/op"
        )
    if any(value not in FEEDBACK_VALUES for value in values):
        raise InvalidValue(f"Feedback is one of {', '.join(FEEDBACK_VALUES)}.", pointer=f"{pointer}/value")


def _parse_values(made: dict[str, Any], op: Op, wanted: FieldType | None, pointer: str) -> tuple[FilterValue, ...]:
    if op in _VALUELESS_OPS:
        if made.get("value") is not None:
            raise InvalidValue(f"{op!r} takes no value.", pointer=pointer)
        return ()
    if op in _TEXT_OPS and wanted not in ("text", None):
        raise InvalidValue(f"{op!r} is for texts.", pointer=pointer.removesuffix("/value") + "/op")
    given = made.get("value")
    if op in _LIST_OPS:
        if not isinstance(given, list) or not 0 < len(cast("list[Any]", given)) <= MAX_VALUES:
            raise InvalidValue(f"{op!r} takes a list of 1 to {MAX_VALUES} values.", pointer=pointer)
        several = enumerate(cast("list[Any]", given))
        return tuple(_parse_value(one, op, wanted, f"{pointer}/{place}") for place, one in several)
    return (_parse_value(given, op, wanted, pointer),)


def _parse_value(given: Any, op: Op, wanted: FieldType | None, pointer: str) -> FilterValue:
    if wanted == "time":
        return _parse_time(given, pointer)
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if is_number and wanted in ("number", None) and op not in _TEXT_OPS:
        return _parse_number(given, pointer)
    if isinstance(given, str) and wanted in ("text", None):
        return storable_text(given)
    if isinstance(given, bool) and wanted is None and op not in _TEXT_OPS | _ORDER_OPS:
        return given
    fitting = "text" if op in _TEXT_OPS else wanted or "text or a number"
    raise InvalidValue(f"The value has to be a {fitting}.", pointer=pointer)


def _parse_number(given: float, pointer: str) -> float:
    if isinstance(given, float) or given in _INT64_RANGE:
        return given
    try:
        return float(given)
    except OverflowError:
        raise InvalidValue("The number is too large.", pointer=pointer) from None


def _parse_time(given: Any, pointer: str) -> datetime:
    try:
        moment = msgspec.convert(given if isinstance(given, str) else None, datetime)
    except msgspec.ValidationError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidValue("The value is a time with its zone, like 2026-11-15T07:20:00Z.", pointer=pointer)
    return moment


_COLUMN_NAMES = {
    "tool.name": "tool",
    "exception.type": "exception",
    "usage.input_tokens": "input_tokens",
    "usage.output_tokens": "output_tokens",
}
_COMPARISONS: dict[str, Callable[[Any, Any], ColumnElement[bool]]] = {
    "eq": operator.eq,
    "lt": operator.lt,
    "lte": operator.le,
    "gt": operator.gt,
    "gte": operator.ge,
}
_NEGATED_OPS: dict[Op, Op] = {"ne": "eq", "not_in": "in", "missing": "exists"}
"""Maps each negated op to its positive."""


def filter_clause(db: Connection, asked: Filter) -> ColumnElement[bool]:
    """Compile a filter to a condition on `spans`."""
    match asked:
        case FilterGroup(by="and", parts=parts):
            return and_(*(filter_clause(db, part) for part in parts))
        case FilterGroup(parts=parts):
            return or_(*(filter_clause(db, part) for part in parts))
        case FilterCondition(of="field"):
            return _field_clause(db, asked)
        case FilterCondition():
            return _attribute_clause(db, asked)
        case _:
            assert_never(asked)


def find_unindexed_names(asked: Filter) -> list[str]:
    """Return the names in a filter that require a scan of all spans in the time range."""
    match asked:
        case FilterGroup(by="and", parts=parts):
            inner = [find_unindexed_names(part) for part in parts]
            return [] if any(not names for names in inner) else [name for names in inner for name in names]
        case FilterGroup(parts=parts):
            return [name for part in parts for name in find_unindexed_names(part)]
        case FilterCondition(of="field", op="eq" | "in", name=name) if name in INDEXED_COLUMNS or name == "feedback":
            return []
        case FilterCondition(of="field", op="lt" | "lte" | "gt" | "gte", name="start"):
            return []
        case FilterCondition(name=name):
            return [name]
        case _:
            assert_never(asked)


# Fields


def _field_clause(db: Connection, leaf: FilterCondition) -> ColumnElement[bool]:
    if leaf.name == "feedback":
        return _feedback_clause(leaf)
    column = spans.c[_COLUMN_NAMES.get(leaf.name, leaf.name)]
    positive = _NEGATED_OPS.get(leaf.op)
    holds = _compare_field(db, column, positive or leaf.op, leaf.values)
    if positive is None:
        return holds
    return column.is_(None) if leaf.op == "missing" else or_(column.is_(None), not_(holds))


def _feedback_clause(leaf: FilterCondition) -> ColumnElement[bool]:
    """Compile a condition on the rating of a span's run."""

    def is_among(rating: Rating | None) -> ColumnElement[bool]:
        # Uncorrelated: the few rated runs are found first, then their spans.
        rated = select(feedback.c.project, feedback.c.run)
        rated = rated if rating is None else rated.where(feedback.c.rating == rating)
        return tuple_(spans.c.project, spans.c.run_id).in_(rated)

    up, down = is_among("up"), is_among("down")
    meant = {"up": and_(up, not_(down)), "down": and_(down, not_(up)), "mixed": and_(up, down)}
    holds = or_(*(meant[str(value)] for value in leaf.values)) if leaf.values else is_among(None)
    return holds if leaf.op in ("eq", "in", "exists") else or_(spans.c.run_id.is_(None), not_(holds))


def _compare_field(
    db: Connection, column: ColumnElement[Any], op: Op, values: Sequence[FilterValue]
) -> ColumnElement[bool]:
    if op == "exists":
        return column.is_not(None)
    bound = [_bind_value(value) for value in values]
    if op in ("contains", "starts_with"):
        return _contains_clause(db, column, op, bound[0])
    is_so = column.in_(bound) if op == "in" else _COMPARISONS[op](column, bound[0])
    if column is spans.c.status and op in ("eq", "in") and "ok" not in values:
        return and_(is_so, IS_UNUSUAL_SPAN)
    return is_so


def _bind_value(value: FilterValue) -> ColumnElement[Any]:
    """Bind a value with its type: PostgreSQL would otherwise round 2.5 to compare it with an integer."""
    if isinstance(value, datetime):
        return literal(value, UtcTimestamp)
    return literal(value, Text) if isinstance(value, str) else literal(float(value), Double)


def _contains_clause(
    db: Connection, whole: ColumnElement[Any], op: Op, part: ColumnElement[Any]
) -> ColumnElement[bool]:
    if op == "starts_with":
        return func.substr(whole, 1, func.length(part)) == part
    place = func.strpos(whole, part) if db.dialect.name == "postgresql" else func.instr(whole, part)
    return place > 0


# Attributes


class _AttributeValue(NamedTuple):
    """SQL expressions for the type and value of an attribute."""

    source: FromClause
    is_there: ColumnElement[bool]
    is_text: ColumnElement[bool]
    text: ColumnElement[Any]
    is_number: ColumnElement[bool]
    number: ColumnElement[Any]
    is_true: ColumnElement[bool]
    is_false: ColumnElement[bool]


def _attribute_clause(db: Connection, leaf: FilterCondition) -> ColumnElement[bool]:
    label = _postgres_attribute(leaf.name) if db.dialect.name == "postgresql" else _sqlite_attribute(leaf.name)
    positive = _NEGATED_OPS.get(leaf.op)
    op = positive or leaf.op
    holds = true() if op == "exists" else or_(*(_compare_attribute(db, label, op, value) for value in leaf.values))
    same = [span_bodies.c[name] == spans.c[name] for name in ("project", "trace_id", "span_id", "day")]
    asked = select(1).select_from(label.source).where(*same, _attribute_precheck(db, leaf.name, op, leaf.values))
    asked = asked.where(label.is_there, holds)
    if db.dialect.name == "postgresql":
        asked = asked.offset(0)  # Otherwise it would read the attributes of all spans first.
    found = exists(asked)
    return found if positive is None else not_(found)


def _attribute_precheck(db: Connection, name: str, op: Op, values: Sequence[FilterValue]) -> ColumnElement[bool]:
    """Return a cheap necessary condition: the encoded name or value occurs in the JSON text."""
    beginning = f"{json.encode(name).decode()}:"
    written = [beginning]
    if op in ("eq", "in") and all(isinstance(value, str) for value in values):
        written = [beginning + json.encode(value).decode() for value in values]
    return or_(*(_contains_clause(db, span_bodies.c.labels, "contains", literal(one, Text)) for one in written))


def _sqlite_attribute(name: str) -> _AttributeValue:
    each = func.json_each(span_bodies.c.labels).table_valued("key", "type", "atom")
    return _AttributeValue(
        source=span_bodies.join(each, true()),
        is_there=each.c.key == literal(name, Text),
        is_text=each.c.type == "text",
        text=each.c.atom,
        is_number=each.c.type.in_(["integer", "real"]),
        number=each.c.atom,
        is_true=each.c.type == "true",
        is_false=each.c.type == "false",
    )


def _postgres_attribute(name: str) -> _AttributeValue:
    value = sql_cast(span_bodies.c.labels, JSONB)[literal(name, Text)]
    kind, words = func.jsonb_typeof(value), value.astext.collate("C")
    is_number = kind == "number"
    return _AttributeValue(
        source=span_bodies,
        is_there=value.is_not(None),
        is_text=kind == "string",
        text=words,
        is_number=is_number,
        number=case((is_number, sql_cast(value.astext, Double))),
        is_true=and_(kind == "boolean", words == "true"),
        is_false=and_(kind == "boolean", words == "false"),
    )


def _compare_attribute(db: Connection, label: _AttributeValue, op: Op, value: FilterValue) -> ColumnElement[bool]:
    if isinstance(value, bool):
        return label.is_true if value else label.is_false
    is_words = isinstance(value, str)
    is_kind, own = (label.is_text, label.text) if is_words else (label.is_number, label.number)
    bound = _bind_value(value)
    if op in ("contains", "starts_with"):
        return and_(is_kind, _contains_clause(db, own, op, bound))
    return and_(is_kind, _COMPARISONS["eq" if op == "in" else op](own, bound))
