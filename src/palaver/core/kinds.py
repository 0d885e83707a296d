"""What a value really is: an object, a list, a text, or a leaf. Asked of anybody's values, so nobody's word is taken.

A subclass counts, a mock that only says so does not; and what a subclass holds is got at past its own methods.
"""

from collections.abc import Iterable
from typing import Any, TypeGuard

Object = dict[str, Any]
get = Object.get
"""`get(object, key)`: not the object's own."""

_copied, _pairs = list[Any].copy, Object.items


def is_object(value: object) -> TypeGuard[Object]:
    """Is it a dict?"""
    return type(value) is dict or issubclass(type(value), dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Is it a list?"""
    return type(value) is list or issubclass(type(value), list)


def is_text(value: object) -> TypeGuard[str]:
    """Is it a str?"""
    return type(value) is str or issubclass(type(value), str)


def items(value: list[Any]) -> list[Any]:
    """What a list holds."""
    return value if type(value) is list else _copied(value)


def plain(value: object) -> Object | None:
    """An object as a dict, None for what is none."""
    if type(value) is dict:
        return value  # pyright: ignore[reportUnknownVariableType]  # JSON
    return dict(_pairs(value)) if is_object(value) else None


def text(value: object) -> str | None:
    """A text as a str, None for what is none."""
    return value if type(value) is str else str.__str__(value) if is_text(value) else None


def honest(value: object) -> Any:
    """A copy of plain dicts, lists and texts, for when somebody's own made trouble; of any depth, and circles stay."""
    made: dict[int, Any] = {}
    root: list[Any] = [None]
    waiting: list[tuple[object, Any, Any]] = [(value, root, 0)]
    while waiting:
        item, holder, key = waiting.pop()
        copy = made.get(id(item))
        if copy is None:
            copy, inside = _copy(item)
            made[id(item)] = copy
            waiting += [(inner, copy, place) for place, inner in inside]
        holder[key] = copy
    return root[0]


def _copy(item: object) -> tuple[Any, Iterable[tuple[Any, object]]]:
    """An empty copy, and what has to go into it."""
    if is_object(item):
        return {}, [(named, inner) for key, inner in _pairs(item) if (named := text(key)) is not None]
    if is_list(item):
        held = items(item)
        return [None] * len(held), enumerate(held)
    if is_text(item):
        return text(item), ()
    try:
        claims = isinstance(item, dict | list | str)
    except Exception:
        claims = True
    return (None if claims else item), ()
