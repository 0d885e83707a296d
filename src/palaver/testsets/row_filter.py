"""Which rows are meant: by a text that occurs in one of their cells, or by what some of their cells are."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from palaver.core import json
from palaver.errors import InvalidValue

_decode = msgspec.json.Decoder().decode
_POINTER = "?filter"


class RowFilter(msgspec.Struct, frozen=True):
    """What a row must have; all of it."""

    search: str | None = None
    """A text in one of its cells, taken literally, in upper or lower case."""
    cells: Mapping[str, Any] = {}
    """Columns, and the values that they have; a missing cell equals nothing, not even null."""

    def fits(self, raw: bytes) -> bool:
        """Is this one of them? `raw` is its data as JSON."""
        if self.search and not _may_contain(raw, self.search):
            return False
        if not self.search and not self.cells:
            return True
        data: dict[str, Any] = _decode(raw)
        if not all(name in data and json_equal(data[name], value) for name, value in self.cells.items()):
            return False
        return not self.search or _contains_text(data, self.search.casefold())


def parse_row_filter(text: str | None) -> Mapping[str, Any]:
    """What `topic=maths`, or several as a JSON object, ask for. A value that is JSON is that, any other a text."""
    if not text:
        return {}
    if text.startswith("{"):
        found = json.parse_or_text(text)
        if not isinstance(found, dict):
            raise InvalidValue("A filter that begins with { is a JSON object of columns and values.", pointer=_POINTER)
        return cast("dict[str, Any]", found)
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise InvalidValue('A filter is column=value, or {"column": value}.', pointer=_POINTER)
    return {name: json.parse_or_text(value)}


def json_equal(one: Any, other: Any) -> bool:
    """Are two JSON values equal? 1 is 1.0, true is not 1."""
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
    """Could the text be in it? Most rows are told by their bytes, unread."""
    written = json.encode(needle)[1:-1]
    if needle.isascii() and raw.isascii():
        return written.lower() in raw.lower()
    return True


def _contains_text(data: Mapping[str, Any], needle: str) -> bool:
    return any(needle in text.casefold() for value in data.values() for text in _texts(value))


def _texts(value: Any) -> Iterator[str]:
    """Everything in a value that a person could read; without recursion."""
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
