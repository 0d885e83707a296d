"""Equality of JSON values: 1 equals 1.0, true is not 1, objects in any key order."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

JsonKind = Literal["null", "boolean", "number", "string", "array", "object"]


def json_kind(value: Any) -> JsonKind:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case _:
            return "object"


def json_equal(one: Any, other: Any, *, tolerance: float = 0) -> bool:
    """Whether two values are equal. Numbers may differ by `tolerance`."""
    kind = json_kind(one)
    if kind != json_kind(other):
        return False
    match kind:
        case "number":
            return _close(one, other, tolerance)
        case "array":
            some, others = cast("Sequence[Any]", one), cast("Sequence[Any]", other)
            return len(some) == len(others) and all(
                json_equal(mine, yours, tolerance=tolerance) for mine, yours in zip(some, others, strict=True)
            )
        case "object":
            mine, yours = cast("Mapping[str, Any]", one), cast("Mapping[str, Any]", other)
            return mine.keys() == yours.keys() and all(
                json_equal(mine[key], yours[key], tolerance=tolerance) for key in mine
            )
        case _:
            return one == other


def map_strings(value: Any, change: Callable[[str], str]) -> Any:
    """Apply a function to every string of a value, but not to keys."""
    match value:
        case str():
            return change(value)
        case list() | tuple():
            return [map_strings(item, change) for item in cast("Sequence[Any]", value)]
        case dict():
            return {key: map_strings(item, change) for key, item in cast("dict[str, Any]", value).items()}
        case _:
            return value


def _close(one: float, other: float, tolerance: float) -> bool:
    if one == other:
        return True
    try:
        return tolerance > 0 and abs(one - other) <= tolerance
    except OverflowError:  # An integer that no float can hold.
        return False
