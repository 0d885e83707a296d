"""Filter rows by text in any cell, or by the values of cells."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from palaver.core import json
from palaver.errors import InvalidValue

_POINTER = "?filter"


class RowFilter(msgspec.Struct, frozen=True):
    """Conditions that a row must all meet."""

    search: str | None = None
    """Text in any cell, taken literally, ignoring case."""
    cells: Mapping[str, Any] = {}
    """By column, the required value. A missing cell equals nothing, not even null."""

    def matches(self, raw: bytes) -> bool:
        """Whether a row matches; `raw` is its data as JSON."""
        if self.search and not _may_contain(raw, self.search):
            return False
        if not self.search and not self.cells:
            return True
        data: dict[str, Any] = msgspec.json.decode(raw)
        if not all(name in data and json_equal(data[name], value) for name, value in self.cells.items()):
            return False
        return not self.search or _contains_text(data, self.search.casefold())


def parse_row_filter(text: str | None) -> Mapping[str, Any]:
    """Parse `topic=maths`, or a JSON object of several columns. Values that are not JSON are text."""
    if not text:
        return {}
    if text.startswith("{"):
        parsed = json.parse_or_text(text)
        if not isinstance(parsed, dict):
            raise InvalidValue("A filter that begins with { is a JSON object of columns and values.", pointer=_POINTER)
        return cast("dict[str, Any]", parsed)
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise InvalidValue('A filter is column=value, or {"column": value}.', pointer=_POINTER)
    return {name: json.parse_or_text(value)}


def json_equal(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: 1 equals 1.0, true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        mine, theirs = cast("list[Any]", one), cast("list[Any]", other)
        return len(mine) == len(theirs) and all(map(json_equal, mine, theirs))
    if isinstance(one, dict) and isinstance(other, dict):
        left, right = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        return left.keys() == right.keys() and all(json_equal(value, right[name]) for name, value in left.items())
    return bool(one == other)


def _may_contain(raw: bytes, needle: str) -> bool:
    """A quick check of the raw bytes, which clears most rows without parsing them."""
    written = json.encode(needle)[1:-1]
    if needle.isascii() and raw.isascii():
        return written.lower() in raw.lower()
    return True


def _contains_text(data: Mapping[str, Any], needle: str) -> bool:
    return any(needle in text.casefold() for value in data.values() for text in _texts(value))


def _texts(value: Any) -> Iterator[str]:
    """All text in a value, including keys and numbers; without recursion."""
    open_: list[Any] = [value]
    while open_:
        one = open_.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, list):
            open_ += cast("list[Any]", one)
        elif isinstance(one, dict):
            inside = cast("dict[str, Any]", one)
            yield from inside
            open_ += inside.values()
        else:
            yield json.encode(one).decode()
