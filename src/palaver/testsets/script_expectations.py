"""The form of `expect`: which checks a turn of a script may name, and what each takes (contract: test sets, A5).

Checked when a revision is committed, so that a run does not find out in its middle. Nothing is judged here.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from palaver.core import jsons
from palaver.errors import InvalidValue

_ORDERS = ("strict", "in_order", "unordered", "subset", "superset")
_MATCHES = ("exact", "subset", "schema", "ignore")
_Object = dict[str, Any]


def check_expect(value: Any, pointer: str) -> _Object:
    """What is expected of a turn, as it was given; InvalidValue says what is wrong with it."""
    return _checked(value, pointer, _CHECKS, "expect")


def check_goal(value: Any, pointer: str) -> _Object:
    """What is expected of a whole script: its goal."""
    return _checked(value, pointer, {"goal": _words}, "expect")


def _checked(value: Any, pointer: str, known: Mapping[str, Callable[[Any, str], None]], what: str) -> _Object:
    if value is None:
        return {}
    fields = _object(value, pointer, f"`{what}` is an object.")
    for key, given in fields.items():
        place = f"{pointer}/{jsons.escaped(key)}"
        check = known.get(key)
        if check is None:
            raise InvalidValue(f"`{what}` has no {key[:80]!r}. Known: {', '.join(known)}.", pointer=place)
        check(given, place)
    return fields


def _object(value: Any, pointer: str, message: str) -> _Object:
    if not isinstance(value, dict):
        raise InvalidValue(message, pointer=pointer)
    return cast("_Object", value)


def _text(value: Any, pointer: str) -> None:
    if not isinstance(value, str):
        _object(value, pointer, "`text` is a text that must occur, or an object of checks.")
        _checked(value, pointer, _TEXTS, "text")


def _texts(value: Any, pointer: str) -> None:
    listed = cast("list[Any]", value) if isinstance(value, list) else [value]
    if not listed or not all(isinstance(each, str) for each in listed):
        raise InvalidValue("This is a text, or a list of texts.", pointer=pointer)


def _patterns(value: Any, pointer: str) -> None:
    import regex

    _texts(value, pointer)
    for pattern in cast("list[str]", value) if isinstance(value, list) else [cast("str", value)]:
        try:
            regex.compile(pattern)
        except (regex.error, RecursionError, OverflowError) as error:
            raise InvalidValue(f"{pattern[:80]!r} is no regular expression: {error}.", pointer=pointer) from None


def _similar(value: Any, pointer: str) -> None:
    fields = _object(value, pointer, "`similar` is {to, min}.")
    if not isinstance(fields.get("to"), str) or not fields.keys() <= {"to", "min"}:
        raise InvalidValue("`similar` is {to, min}: a text, and how near (0 to 1).", pointer=pointer)
    least = fields.get("min", 0.5)
    if not _is_number(least) or not 0 <= least <= 1:
        raise InvalidValue("`min` is a number from 0 to 1.", pointer=f"{pointer}/min")


def _tools(value: Any, pointer: str) -> None:
    if value in ("none", "any"):
        return
    if not isinstance(value, list):
        raise InvalidValue('`tools` is "none", "any", or a list of calls.', pointer=pointer)
    for index, call in enumerate(cast("list[Any]", value)):
        place = f"{pointer}/{index}"
        fields = _object(call, place, "A call is {name, arguments?, match?}.")
        if not isinstance(fields.get("name"), str) or not fields.keys() <= {"name", "arguments", "match"}:
            raise InvalidValue("A call is {name, arguments?, match?}.", pointer=place)
        if "match" in fields:
            _one_of(_MATCHES)(fields["match"], f"{place}/match")


def _data(value: Any, pointer: str) -> None:
    fields = _object(value, pointer, "`data` is {name, value?}.")
    if not isinstance(fields.get("name"), str) or not fields.keys() <= {"name", "value"}:
        raise InvalidValue("`data` is {name, value?}.", pointer=pointer)


def _json(value: Any, pointer: str) -> None:
    _object(value, pointer, "`json` is an object: a path, and the value there.")


def _one_of(words: tuple[str, ...]) -> Callable[[Any, str], None]:
    def check(value: Any, pointer: str) -> None:
        if value not in words:
            raise InvalidValue(f"This is one of {', '.join(words)}.", pointer=pointer)

    return check


def _words(value: Any, pointer: str) -> None:
    if not isinstance(value, str) or not value.strip():
        raise InvalidValue("This is a text that says something.", pointer=pointer)


def _refusal(value: Any, pointer: str) -> None:
    if not isinstance(value, bool):
        raise InvalidValue("`refusal` is true or false.", pointer=pointer)


def _limit(value: Any, pointer: str) -> None:
    if not _is_number(value) or value < 0:
        raise InvalidValue("This is a number, not below 0.", pointer=pointer)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TEXTS: Mapping[str, Callable[[Any, str], None]] = {
    "equals": _texts,
    "contains": _texts,
    "not_contains": _texts,
    "any_of": _texts,
    "matches": _patterns,
    "similar": _similar,
}
_CHECKS: Mapping[str, Callable[[Any, str], None]] = {
    "text": _text,
    "tools": _tools,
    "order": _one_of(_ORDERS),
    "json": _json,
    "data": _data,
    "finish": _words,
    "refusal": _refusal,
    "max_seconds": _limit,
    "max_tokens": _limit,
    "judge": _words,
}
