"""What is wrong with the inputs of a payload that is refused anyway, so that all is told at once (job-chat, 1.3).

A workflow judges its inputs itself, when it is called. This looks only at the types that its schema declares.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from palaver.protocols.service_errors import Misfit

_Object = Mapping[str, Any]
_DEEPEST = 8


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "object": (lambda value: isinstance(value, dict), "must be an object"),
    "array": (lambda value: isinstance(value, list), "must be a list"),
    "string": (lambda value: isinstance(value, str), "must be a string"),
    "boolean": (lambda value: isinstance(value, bool), "must be true or false"),
    "number": (_is_number, "must be a number"),
    "integer": (lambda value: isinstance(value, int) and not isinstance(value, bool), "must be a whole number"),
    "null": (lambda value: value is None, "must be null"),
}


def misfits(inputs: _Object, schema: _Object) -> Iterator[Misfit]:
    """The inputs that are missing, and those of another type than the schema says."""
    for name in cast("list[Any]", schema.get("required") or []):
        if name not in inputs and name != "messages":
            yield Misfit(str(name), "is required")
    yield from _inside(inputs, schema, "", _DEEPEST)


def _inside(value: _Object, schema: _Object, above: str, deepest: int) -> Iterator[Misfit]:
    properties: Any = schema.get("properties")
    for name, shape in cast("_Object", properties or {}).items():
        if name in value and isinstance(shape, dict) and deepest:
            yield from _one(value[name], cast("_Object", shape), f"{above}{name}", deepest - 1)


def _one(value: object, shape: _Object, field: str, deepest: int) -> Iterator[Misfit]:
    types = _types(shape)
    if types and not any(_TYPES[one][0](value) for one in types):
        yield Misfit(field, _TYPES[types[0]][1])
    elif isinstance(value, dict):
        yield from _inside(cast("_Object", value), shape, f"{field}.", deepest)


def _types(shape: Any) -> list[str]:
    """The types that a schema names; none where it says more than this can judge."""
    if not isinstance(shape, dict):
        return []
    said = cast("_Object", shape)
    given, any_of = said.get("type"), said.get("anyOf")
    named: list[Any] = [given] if isinstance(given, str) else []
    if isinstance(given, list):
        named = cast("list[Any]", given)
    elif not named and isinstance(any_of, list):
        named = [one for each in cast("list[Any]", any_of) for one in _types(each) or [None]]
    return named if all(isinstance(one, str) and one in _TYPES for one in named) else []
