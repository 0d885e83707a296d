"""The language that spans are filtered in, read: leaves about a field or an attribute, joined by `and` and `or`.

What comes in is a stranger's JSON. What goes out is a tree of ours with values of the right types; span_conditions.py
makes SQL of it. Whatever does not fit is told with a pointer to it.
"""

from datetime import datetime
from typing import Any, Literal, TypeAlias, cast, get_args

import msgspec

from palaver.core import jsons
from palaver.errors import InvalidValue
from palaver.storage.threads.nodes import held

Op = Literal["eq", "ne", "lt", "lte", "gt", "gte", "in", "not_in", "contains", "starts_with", "exists", "missing"]
Type = Literal["text", "number", "time"]
Value: TypeAlias = str | bool | int | float | datetime

DEEPEST = 8
MOST_LEAVES = 50
MOST_VALUES = 100
"""In a list of `in` or `not_in`."""
LONGEST_NAME = 512

FIELDS: dict[str, Type] = {
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
"""The fields of a record, and what their values are; `feedback` is what people thought of its run."""
THOUGHTS = ("up", "down", "mixed")
"""The values of `feedback`."""

_OPS = frozenset(get_args(Op))
_BARE: frozenset[Op] = frozenset({"exists", "missing"})
_LISTS: frozenset[Op] = frozenset({"in", "not_in"})
_TEXT_ONLY: frozenset[Op] = frozenset({"contains", "starts_with"})
_ORDER: frozenset[Op] = frozenset({"lt", "lte", "gt", "gte"})
_SMALL = range(-(1 << 63), 1 << 63)


class Leaf(msgspec.Struct, frozen=True):
    """One question to a span."""

    of: Literal["field", "attribute"]
    name: str
    op: Op
    values: tuple[Value, ...] = ()
    """One; several of `in` and `not_in`; none of `exists` and `missing`."""


class Joined(msgspec.Struct, frozen=True):
    """Several: all of them have to hold, or any."""

    by: Literal["and", "or"]
    parts: tuple["Filter", ...]


Filter: TypeAlias = Leaf | Joined


def read(given: Any, pointer: str = "/filter") -> Filter:
    """The filter that a JSON value is; an InvalidValue says what is wrong with it, and where."""
    leaves: list[Leaf] = []
    return _node(given, pointer, 1, leaves)


def leaves(of: Filter) -> list[Leaf]:
    """All questions in it."""
    return [of] if isinstance(of, Leaf) else [leaf for part in of.parts for leaf in leaves(part)]


def _node(given: Any, pointer: str, depth: int, seen: list[Leaf]) -> Filter:
    if not isinstance(given, dict):
        raise InvalidValue("A filter is an object: a field or an attribute with an op, or and, or or.", pointer=pointer)
    made = cast("dict[str, Any]", given)
    for by in ("and", "or"):
        if by in made:
            return _joined(made, by, pointer, depth, seen)
    leaf = _leaf(made, pointer)
    seen.append(leaf)
    if len(seen) > MOST_LEAVES:
        raise InvalidValue(f"A filter has at most {MOST_LEAVES} conditions.", pointer=pointer)
    return leaf


def _joined(made: dict[str, Any], by: Literal["and", "or"], pointer: str, depth: int, seen: list[Leaf]) -> Joined:
    if len(made) > 1:
        raise InvalidValue(f"Beside {by!r} nothing else may stand.", pointer=pointer)
    if depth > DEEPEST:
        raise InvalidValue(f"A filter is at most {DEEPEST} levels deep.", pointer=pointer)
    parts = made[by]
    if not isinstance(parts, list) or not parts:
        raise InvalidValue(f"{by!r} takes a list of filters.", pointer=f"{pointer}/{by}")
    given = cast("list[Any]", parts)
    return Joined(
        by, tuple(_node(part, f"{pointer}/{by}/{place}", depth + 1, seen) for place, part in enumerate(given))
    )


def _leaf(made: dict[str, Any], pointer: str) -> Leaf:
    if ("field" in made) == ("attribute" in made):
        raise InvalidValue("A condition names either a field or an attribute.", pointer=pointer)
    if unknown := next((key for key in made if key not in ("field", "attribute", "op", "value")), None):
        raise InvalidValue(f"A condition has no {unknown[:80]!r}.", pointer=f"{pointer}/{jsons.escaped(unknown[:80])}")
    of: Literal["field", "attribute"] = "field" if "field" in made else "attribute"
    name, op = made[of], made.get("op")
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
        raise InvalidValue(f"The name is a text of 1 to {LONGEST_NAME} characters.", pointer=f"{pointer}/{of}")
    if of == "field" and name not in FIELDS:
        known = ", ".join(FIELDS)
        raise InvalidValue(f"There is no field {name[:80]!r}. Known: {known}.", pointer=f"{pointer}/field")
    if not isinstance(op, str) or op not in _OPS:
        raise InvalidValue(f"The op is one of {', '.join(get_args(Op))}.", pointer=f"{pointer}/op")
    values = _values(made, cast("Op", op), FIELDS[name] if of == "field" else None, f"{pointer}/value")
    if of == "field" and name == "feedback":
        _check_feedback(cast("Op", op), values, pointer)
    return Leaf(of, held(name), cast("Op", op), values)


def _check_feedback(op: Op, values: tuple[Value, ...], pointer: str) -> None:
    if op in _TEXT_ONLY | _ORDER:
        raise InvalidValue(
            "Feedback is one of a few words: ask for it with eq, ne, in or not_in.", pointer=f"{pointer}/op"
        )
    if any(value not in THOUGHTS for value in values):
        raise InvalidValue(f"Feedback is one of {', '.join(THOUGHTS)}.", pointer=f"{pointer}/value")


def _values(made: dict[str, Any], op: Op, wanted: Type | None, pointer: str) -> tuple[Value, ...]:
    if op in _BARE:
        if made.get("value") is not None:
            raise InvalidValue(f"{op!r} takes no value.", pointer=pointer)
        return ()
    if op in _TEXT_ONLY and wanted not in ("text", None):
        raise InvalidValue(f"{op!r} is for texts.", pointer=pointer.removesuffix("/value") + "/op")
    given = made.get("value")
    if op in _LISTS:
        if not isinstance(given, list) or not 0 < len(cast("list[Any]", given)) <= MOST_VALUES:
            raise InvalidValue(f"{op!r} takes a list of 1 to {MOST_VALUES} values.", pointer=pointer)
        several = enumerate(cast("list[Any]", given))
        return tuple(_value(one, op, wanted, f"{pointer}/{place}") for place, one in several)
    return (_value(given, op, wanted, pointer),)


def _value(given: Any, op: Op, wanted: Type | None, pointer: str) -> Value:
    if wanted == "time":
        return _time(given, pointer)
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if is_number and wanted in ("number", None) and op not in _TEXT_ONLY:
        return _number(given, pointer)
    if isinstance(given, str) and wanted in ("text", None):
        return held(given)
    if isinstance(given, bool) and wanted is None and op not in _TEXT_ONLY | _ORDER:
        return given
    fitting = "text" if op in _TEXT_ONLY else wanted or "text or a number"
    raise InvalidValue(f"The value has to be a {fitting}.", pointer=pointer)


def _number(given: float, pointer: str) -> float:
    if isinstance(given, float) or given in _SMALL:
        return given
    try:
        return float(given)
    except OverflowError:
        raise InvalidValue("The number is too large.", pointer=pointer) from None


def _time(given: Any, pointer: str) -> datetime:
    try:
        moment = msgspec.convert(given if isinstance(given, str) else None, datetime)
    except msgspec.ValidationError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidValue("The value is a time with its zone, like 2026-11-15T07:20:00Z.", pointer=pointer)
    return moment
