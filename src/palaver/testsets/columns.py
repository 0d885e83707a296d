"""Columns: what the top-level keys of a set's rows are, and what kind of value each holds (contract: test sets, A1).

Derived from all rows and never declared. What is kept while rows go by are counts, which can also be taken back: a
revision that changes three rows of a million need not read the others to know its columns.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Self, cast

import msgspec

from palaver.core import json
from palaver.core.dialects.detection import dialect_of
from palaver.errors import TooLarge
from palaver.testsets.scripts import is_script

ColumnKind = Literal["chat", "message", "script", "text", "number", "boolean", "json", "mixed"]
Tally = dict[str, int]
"""How many values of each kind a column has; `null`, and `looks_like_chat` among its texts, are counted beside."""

MAX_COLUMNS = 1_000
_CONTAINERS = frozenset(("chat", "message", "script", "json"))
_EXTRA_COUNTS = frozenset(("null", "looks_like_chat"))


class Column(msgspec.Struct, frozen=True, omit_defaults=True):
    """One column, over all rows: present + missing + nulls is how many there are."""

    name: str
    kind: ColumnKind
    present: int
    missing: int
    nulls: int
    looks_like: Literal["chat"] | None = None
    """A list of messages that is kept as text: offered for conversion, never converted silently."""


class ColumnCounts(msgspec.Struct, frozen=True):
    """What `Columns` knows, as a value that can be stored and gone on from."""

    rows: int
    tallies: dict[str, Tally]


class ColumnCounter:
    """The columns of rows that go by, in the order in which they were first seen."""

    def __init__(self, counted: ColumnCounts | None = None, *, most: int = MAX_COLUMNS) -> None:
        self.rows = counted.rows if counted else 0
        self._tallies: dict[str, Tally] = {
            name: {**tally} for name, tally in (counted.tallies if counted else {}).items()
        }
        self._most = most

    def add(self, data: Mapping[str, Any]) -> None:
        """One more row."""
        self.rows += 1
        for name, value in data.items():
            tally = self._tallies.get(name)
            if tally is None:
                tally = self._begun(name)
            kind = value_kind(value)
            tally[kind] = tally.get(kind, 0) + 1
            if kind == "text" and _looks_like_chat(value):
                tally["looks_like_chat"] = tally.get("looks_like_chat", 0) + 1

    def remove(self, data: Mapping[str, Any]) -> None:
        """One row less, which was added before. A column of which nothing is left is gone."""
        self.rows -= 1
        for name, value in data.items():
            tally = self._tallies[name]
            kind = value_kind(value)
            _decrement(tally, kind)
            if kind == "text" and _looks_like_chat(value):
                _decrement(tally, "looks_like_chat")
            if not tally:
                del self._tallies[name]

    def merge(self, other: Self) -> None:
        """And all the rows of another one, which come after these."""
        self.rows += other.rows
        for name, tally in other._tallies.items():
            mine = self._tallies.get(name)
            if mine is None:
                mine = self._begun(name)
            for kind, count in tally.items():
                mine[kind] = mine.get(kind, 0) + count

    def counted(self) -> ColumnCounts:
        """To go on from another time."""
        return ColumnCounts(self.rows, {name: {**tally} for name, tally in self._tallies.items()})

    def done(self) -> list[Column]:
        """What they are."""
        return [_make_column(name, tally, self.rows) for name, tally in self._tallies.items()]

    def _begun(self, name: str) -> Tally:
        if len(self._tallies) >= self._most:
            raise TooLarge(f"The rows have more than {self._most} columns; {name[:80]!r} is one too many.")
        return self._tallies.setdefault(name, {})


def count_columns(rows: Iterable[Mapping[str, Any]]) -> list[Column]:
    """The columns of these rows."""
    columns = ColumnCounter()
    for data in rows:
        columns.add(data)
    return columns.done()


def value_kind(value: object) -> str:
    """What one value is; `null` is none of the kinds that a column can have."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, list):
        return "chat" if dialect_of(cast("object", value)) is not None else "json"
    if dialect_of(value) is not None:
        return "message"
    return "script" if is_script(value) else "json"


def _make_column(name: str, tally: Tally, rows: int) -> Column:
    kinds = tally.keys() - _EXTRA_COUNTS
    nulls = tally.get("null", 0)
    present = sum(tally[kind] for kind in kinds)
    looks_like = "chat" if kinds == {"text"} and tally.get("looks_like_chat") == present else None
    return Column(name, _column_kind(tuple(kinds)), present, rows - present - nulls, nulls, looks_like)


def _column_kind(kinds: Sequence[str]) -> ColumnKind:
    if len(kinds) == 1:
        return cast("ColumnKind", kinds[0])
    return "json" if kinds and _CONTAINERS.issuperset(kinds) else "mixed"


def _looks_like_chat(text: str) -> bool:
    """A list of messages, as JSON text? Most texts tell by their first letter that they are not."""
    if text[:1] != "[" and (not text[:1].isspace() or text.lstrip()[:1] != "["):
        return False
    value = json.parse_or_text(text)
    return isinstance(value, list) and dialect_of(cast("object", value)) is not None


def _decrement(tally: Tally, kind: str) -> None:
    tally[kind] -= 1
    if not tally[kind]:
        del tally[kind]
