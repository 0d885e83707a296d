"""Does a JSON value hold all that another one asks for? What canned tool results are chosen by."""

from typing import Any, cast


def holds(whole: Any, part: Any) -> bool:
    """Every key of an object that is asked for, at any depth; lists item by item; 1 is 1.0, and true is not 1."""
    if isinstance(part, dict):
        asked = cast("dict[str, Any]", part)
        if not isinstance(whole, dict):
            return False
        given = cast("dict[str, Any]", whole)
        return all(key in given and holds(given[key], value) for key, value in asked.items())
    if isinstance(part, list):
        items = cast("list[Any]", part)
        if not isinstance(whole, list) or len(cast("list[Any]", whole)) != len(items):
            return False
        return all(holds(one, other) for one, other in zip(cast("list[Any]", whole), items, strict=True))
    return isinstance(whole, bool) == isinstance(part, bool) and whole == part
