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
from sqlalchemy import cast as sql_cast
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
"""Maximum number of values of `in` or `not_in`."""
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

_OPS = frozenset(get_args(Op))
_VALUELESS_OPS: frozenset[Op] = frozenset({"exists", "missing"})
_LIST_OPS: frozenset[Op] = frozenset({"in", "not_in"})
_TEXT_OPS: frozenset[Op] = frozenset({"contains", "starts_with"})
_ORDER_OPS: frozenset[Op] = frozenset({"lt", "lte", "gt", "gte"})
_INT64_RANGE = range(-(1 << 63), 1 << 63)


class FilterCondition(msgspec.Struct, frozen=True):
    source: Literal["field", "attribute"] = msgspec.field(name="of")  # As in cursors that clients hold.
    name: str
    op: Op
    values: tuple[FilterValue, ...] = ()
    """Several for `in` and `not_in`, none for `exists` and `missing`, otherwise one."""


class FilterGroup(msgspec.Struct, frozen=True):
    joined_by: Literal["and", "or"] = msgspec.field(name="by")
    parts: tuple["Filter", ...]


Filter: TypeAlias = FilterCondition | FilterGroup


def parse_filter(value: Any, pointer: str = "/filter") -> Filter:
    """Parse a filter. Raises InvalidValue with a pointer."""
    conditions: list[FilterCondition] = []
    return _parse_node(value, pointer, 1, conditions)


def list_conditions(filter_: Filter) -> list[FilterCondition]:
    if isinstance(filter_, FilterCondition):
        return [filter_]
    return [condition for part in filter_.parts for condition in list_conditions(part)]


def _parse_node(value: Any, pointer: str, depth: int, conditions: list[FilterCondition]) -> Filter:
    if not isinstance(value, dict):
        raise InvalidValue(
            "A filter must be an object with a field or attribute and an op, or with 'and' or 'or'.", pointer=pointer
        )
    fields = cast("dict[str, Any]", value)
    for joined_by in ("and", "or"):
        if joined_by in fields:
            return _parse_group(fields, joined_by, pointer, depth, conditions)
    condition = _parse_condition(fields, pointer)
    conditions.append(condition)
    if len(conditions) > MAX_CONDITIONS:
        raise InvalidValue(f"A filter can have at most {MAX_CONDITIONS} conditions.", pointer=pointer)
    return condition


def _parse_group(
    fields: dict[str, Any], joined_by: Literal["and", "or"], pointer: str, depth: int, conditions: list[FilterCondition]
) -> FilterGroup:
    if len(fields) > 1:
        raise InvalidValue(f"{joined_by!r} can't be combined with other keys.", pointer=pointer)
    if depth > MAX_DEPTH:
        raise InvalidValue(f"A filter can be at most {MAX_DEPTH} levels deep.", pointer=pointer)
    parts = fields[joined_by]
    if not isinstance(parts, list) or not parts:
        raise InvalidValue(f"{joined_by!r} must be a non-empty list of filters.", pointer=f"{pointer}/{joined_by}")
    members = enumerate(cast("list[Any]", parts))
    nodes = [_parse_node(part, f"{pointer}/{joined_by}/{index}", depth + 1, conditions) for index, part in members]
    return FilterGroup(joined_by, tuple(nodes))


def _parse_condition(fields: dict[str, Any], pointer: str) -> FilterCondition:
    if ("field" in fields) == ("attribute" in fields):
        raise InvalidValue("A condition must have either a field or an attribute.", pointer=pointer)
    if unknown := next((key for key in fields if key not in ("field", "attribute", "op", "value")), None):
        raise InvalidValue(
            f"Unknown key {unknown[:80]!r} in a condition.", pointer=f"{pointer}/{json.escape_pointer(unknown[:80])}"
        )
    source: Literal["field", "attribute"] = "field" if "field" in fields else "attribute"
    name, op = fields[source], fields.get("op")
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH:
        raise InvalidValue(
            f"{source} must be a string of 1 to {MAX_NAME_LENGTH:,} characters.", pointer=f"{pointer}/{source}"
        )
    if source == "field" and name not in FILTER_FIELDS:
        names = ", ".join(FILTER_FIELDS)
        raise InvalidValue(f"Unknown field {name[:80]!r}. Available: {names}.", pointer=f"{pointer}/field")
    if not isinstance(op, str) or op not in _OPS:
        raise InvalidValue(f"op must be one of {', '.join(get_args(Op))}.", pointer=f"{pointer}/op")
    values = _parse_values(
        fields, cast("Op", op), FILTER_FIELDS[name] if source == "field" else None, f"{pointer}/value"
    )
    if source == "field" and name == "feedback":
        _check_feedback(cast("Op", op), values, pointer)
    return FilterCondition(source, storable_text(name), cast("Op", op), values)


def _check_feedback(op: Op, values: tuple[FilterValue, ...], pointer: str) -> None:
    if op in _TEXT_OPS | _ORDER_OPS:
        raise InvalidValue("The field 'feedback' only supports eq, ne, in and not_in.", pointer=f"{pointer}/op")
    if any(value not in FEEDBACK_VALUES for value in values):
        raise InvalidValue(
            f"The value of 'feedback' must be one of {', '.join(FEEDBACK_VALUES)}.", pointer=f"{pointer}/value"
        )


def _parse_values(
    fields: dict[str, Any], op: Op, field_type: FieldType | None, pointer: str
) -> tuple[FilterValue, ...]:
    if op in _VALUELESS_OPS:
        if fields.get("value") is not None:
            raise InvalidValue(f"{op!r} can't have a value.", pointer=pointer)
        return ()
    if op in _TEXT_OPS and field_type not in ("text", None):
        raise InvalidValue(f"{op!r} only applies to text fields.", pointer=pointer.removesuffix("/value") + "/op")
    value = fields.get("value")
    if op in _LIST_OPS:
        if not isinstance(value, list) or not 0 < len(cast("list[Any]", value)) <= MAX_VALUES:
            raise InvalidValue(f"{op!r} needs a list of 1 to {MAX_VALUES} values.", pointer=pointer)
        items = enumerate(cast("list[Any]", value))
        return tuple(_parse_value(item, op, field_type, f"{pointer}/{index}") for index, item in items)
    return (_parse_value(value, op, field_type, pointer),)


def _parse_value(value: Any, op: Op, field_type: FieldType | None, pointer: str) -> FilterValue:
    if field_type == "time":
        return _parse_time(value, pointer)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and field_type in ("number", None) and op not in _TEXT_OPS:
        return _parse_number(value, pointer)
    if isinstance(value, str) and field_type in ("text", None):
        return storable_text(value)
    if isinstance(value, bool) and field_type is None and op not in _TEXT_OPS | _ORDER_OPS:
        return value
    if op in _TEXT_OPS or field_type == "text":
        expected = "a string"
    else:
        expected = "a string or number" if field_type is None else f"a {field_type}"
    raise InvalidValue(f"The value must be {expected}.", pointer=pointer)


def _parse_number(number: float, pointer: str) -> float:
    if isinstance(number, float) or number in _INT64_RANGE:
        return number
    try:
        return float(number)
    except OverflowError:
        raise InvalidValue("The number is too large.", pointer=pointer) from None


def _parse_time(value: Any, pointer: str) -> datetime:
    try:
        moment = msgspec.convert(value if isinstance(value, str) else None, datetime)
    except msgspec.ValidationError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidValue(
            "The value must be a timestamp with a time zone, e.g. 2026-11-15T07:20:00Z.", pointer=pointer
        )
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
"""Maps each negated op to the op that it negates."""


def filter_clause(db: Connection, filter_: Filter) -> ColumnElement[bool]:
    """Compile a filter to a condition on `spans`."""
    match filter_:
        case FilterGroup(joined_by="and", parts=parts):
            return and_(*(filter_clause(db, part) for part in parts))
        case FilterGroup(parts=parts):
            return or_(*(filter_clause(db, part) for part in parts))
        case FilterCondition(source="field"):
            return _field_clause(db, filter_)
        case FilterCondition():
            return _attribute_clause(db, filter_)
        case _:
            assert_never(filter_)


def find_unindexed_names(filter_: Filter) -> list[str]:
    """Return the names in a filter that require a scan of all spans in the time range."""
    match filter_:
        case FilterGroup(joined_by="and", parts=parts):
            inner = [find_unindexed_names(part) for part in parts]
            return [] if any(not names for names in inner) else [name for names in inner for name in names]
        case FilterGroup(parts=parts):
            return [name for part in parts for name in find_unindexed_names(part)]
        case FilterCondition(source="field", op="eq" | "in", name=name) if (
            name in INDEXED_COLUMNS or name == "feedback"
        ):
            return []
        case FilterCondition(source="field", op="lt" | "lte" | "gt" | "gte", name="start"):
            return []
        case FilterCondition(name=name):
            return [name]
        case _:
            assert_never(filter_)


# Fields


def _field_clause(db: Connection, condition: FilterCondition) -> ColumnElement[bool]:
    if condition.name == "feedback":
        return _feedback_clause(condition)
    column = spans.c[_COLUMN_NAMES.get(condition.name, condition.name)]
    positive = _NEGATED_OPS.get(condition.op)
    clause = _compare_field(db, column, positive or condition.op, condition.values)
    if positive is None:
        return clause
    return column.is_(None) if condition.op == "missing" else or_(column.is_(None), not_(clause))


def _feedback_clause(condition: FilterCondition) -> ColumnElement[bool]:
    """Compile a condition on the rating of a span's run."""

    def has_rating(rating: Rating | None) -> ColumnElement[bool]:
        # Uncorrelated: the few rated runs are found first, then their spans.
        ratings = select(feedback.c.project, feedback.c.run)
        ratings = ratings if rating is None else ratings.where(feedback.c.rating == rating)
        return tuple_(spans.c.project, spans.c.run_id).in_(ratings)

    up, down = has_rating("up"), has_rating("down")
    clauses = {"up": and_(up, not_(down)), "down": and_(down, not_(up)), "mixed": and_(up, down)}
    clause = or_(*(clauses[str(value)] for value in condition.values)) if condition.values else has_rating(None)
    return clause if condition.op in ("eq", "in", "exists") else or_(spans.c.run_id.is_(None), not_(clause))


def _compare_field(
    db: Connection, column: ColumnElement[Any], op: Op, values: Sequence[FilterValue]
) -> ColumnElement[bool]:
    if op == "exists":
        return column.is_not(None)
    bound = [_bind_value(value) for value in values]
    if op in ("contains", "starts_with"):
        return _text_match_clause(db, column, op, bound[0])
    if op in _ORDER_OPS and isinstance(values[0], str) and db.dialect.name == "postgresql":
        # Byte by byte, as in SQLite and Python: `project`, for one, has the collation of the database.
        column = column.collate("C")
    clause = column.in_(bound) if op == "in" else _COMPARISONS[op](column, bound[0])
    if column is spans.c.status and op in ("eq", "in") and "ok" not in values:
        return and_(clause, IS_UNUSUAL_SPAN)
    return clause


def _bind_value(value: FilterValue) -> ColumnElement[Any]:
    """Bind a value with its type: PostgreSQL would otherwise round 2.5 to compare it with an integer."""
    if isinstance(value, datetime):
        return literal(value, UtcTimestamp)
    return literal(value, Text) if isinstance(value, str) else literal(float(value), Double)


def _text_match_clause(
    db: Connection, text: ColumnElement[Any], op: Op, part: ColumnElement[Any]
) -> ColumnElement[bool]:
    if op == "starts_with":
        return func.substr(text, 1, func.length(part)) == part
    position = func.strpos(text, part) if db.dialect.name == "postgresql" else func.instr(text, part)
    return position > 0


# Attributes


class _AttributeValue(NamedTuple):
    """SQL expressions for the type and value of an attribute."""

    source: FromClause
    is_present: ColumnElement[bool]
    is_text: ColumnElement[bool]
    text: ColumnElement[Any]
    is_number: ColumnElement[bool]
    number: ColumnElement[Any]
    is_true: ColumnElement[bool]
    is_false: ColumnElement[bool]


def _attribute_clause(db: Connection, condition: FilterCondition) -> ColumnElement[bool]:
    attribute = (
        _postgres_attribute(condition.name) if db.dialect.name == "postgresql" else _sqlite_attribute(condition.name)
    )
    positive = _NEGATED_OPS.get(condition.op)
    op = positive or condition.op
    matches = (
        true() if op == "exists" else or_(*(_compare_attribute(db, attribute, op, value) for value in condition.values))
    )
    of_span = [span_bodies.c[name] == spans.c[name] for name in ("project", "trace_id", "span_id", "day")]
    query = (
        select(1)
        .select_from(attribute.source)
        .where(*of_span, _attribute_precheck(db, condition.name, op, condition.values))
    )
    query = query.where(attribute.is_present, matches)
    if db.dialect.name == "postgresql":
        query = query.offset(0)  # Otherwise it would read the attributes of all spans first.
    clause = exists(query)
    return clause if positive is None else not_(clause)


def _attribute_precheck(db: Connection, name: str, op: Op, values: Sequence[FilterValue]) -> ColumnElement[bool]:
    """Return a cheap necessary condition: the encoded name or value occurs in the JSON text."""
    encoded_name = f"{json.encode(name).decode()}:"
    needles = [encoded_name]
    if op in ("eq", "in") and all(isinstance(value, str) for value in values):
        needles = [encoded_name + json.encode(value).decode() for value in values]
    return or_(*(_text_match_clause(db, span_bodies.c.labels, "contains", literal(needle, Text)) for needle in needles))


def _sqlite_attribute(name: str) -> _AttributeValue:
    each = func.json_each(span_bodies.c.labels).table_valued("key", "type", "atom")
    return _AttributeValue(
        source=span_bodies.join(each, true()),
        is_present=each.c.key == literal(name, Text),
        is_text=each.c.type == "text",
        text=each.c.atom,
        is_number=each.c.type.in_(["integer", "real"]),
        number=each.c.atom,
        is_true=each.c.type == "true",
        is_false=each.c.type == "false",
    )


def _postgres_attribute(name: str) -> _AttributeValue:
    value = sql_cast(span_bodies.c.labels, JSONB)[literal(name, Text)]
    kind, text = func.jsonb_typeof(value), value.astext.collate("C")
    is_number = kind == "number"
    return _AttributeValue(
        source=span_bodies,
        is_present=value.is_not(None),
        is_text=kind == "string",
        text=text,
        is_number=is_number,
        number=case((is_number, sql_cast(value.astext, Double))),
        is_true=and_(kind == "boolean", text == "true"),
        is_false=and_(kind == "boolean", text == "false"),
    )


def _compare_attribute(db: Connection, attribute: _AttributeValue, op: Op, value: FilterValue) -> ColumnElement[bool]:
    if isinstance(value, bool):
        return attribute.is_true if value else attribute.is_false
    is_text = isinstance(value, str)
    has_type, actual = (attribute.is_text, attribute.text) if is_text else (attribute.is_number, attribute.number)
    bound = _bind_value(value)
    if op in ("contains", "starts_with"):
        return and_(has_type, _text_match_clause(db, actual, op, bound))
    return and_(has_type, _COMPARISONS["eq" if op == "in" else op](actual, bound))
