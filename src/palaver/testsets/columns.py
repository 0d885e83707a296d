"""The columns of a test set: the top-level keys of its rows, and the kind of value each holds.

Columns are derived from all rows, never declared. Counts can be merged, so a revision that changes three rows of a
million does not read the others to know its columns.
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
"""Number of values of each kind in a column.

`null`, `looks_like_chat` and `empty_text` (among texts) and `empty_list` (among `json`) are counted in addition.
"""

MAX_COLUMNS = 1_000
_CONVERSATION_KINDS = frozenset(("chat", "message", "script"))
_CONTAINER_KINDS = _CONVERSATION_KINDS | {"json"}
_EXTRA_COUNTS = frozenset(("null", "looks_like_chat", "empty_text", "empty_list"))


class Column(msgspec.Struct, frozen=True, omit_defaults=True):
    """One column across all rows: present + missing + nulls is the number of rows."""

    name: str
    kind: ColumnKind
    present: int
    missing: int
    nulls: int
    """In a column of conversations, empty texts count as null."""
    looks_like: Literal["chat"] | None = None
    """Texts that hold a list of messages: offered for conversion, never converted silently."""


class ColumnCounts(msgspec.Struct, frozen=True):
    """The state of a `ColumnCounter`, which is stored with each chunk."""

    rows: int
    tallies: dict[str, Tally]


class ColumnCounter:
    """Counts the columns of rows, in the order in which they first appear."""

    def __init__(self, counts: ColumnCounts | None = None, *, max_columns: int = MAX_COLUMNS) -> None:
        self.rows = counts.rows if counts else 0
        self._tallies: dict[str, Tally] = {
            name: {**tally} for name, tally in (counts.tallies if counts else {}).items()
        }
        self._max_columns = max_columns

    def add(self, data: Mapping[str, Any]) -> None:
        self.rows += 1
        for name, value in data.items():
            tally = self._tallies.get(name)
            if tally is None:
                tally = self._add_column(name)
            kind = value_kind(value)
            tally[kind] = tally.get(kind, 0) + 1
            extra = _extra_count(kind, value)
            if extra is not None:
                tally[extra] = tally.get(extra, 0) + 1

    def merge(self, other: Self) -> None:
        """Add the counts of rows that come after these."""
        self.rows += other.rows
        for name, tally in other._tallies.items():
            own_tally = self._tallies.get(name)
            if own_tally is None:
                own_tally = self._add_column(name)
            for kind, count in tally.items():
                own_tally[kind] = own_tally.get(kind, 0) + count

    def counts(self) -> ColumnCounts:
        return ColumnCounts(self.rows, {name: {**tally} for name, tally in self._tallies.items()})

    def columns(self) -> list[Column]:
        return [_make_column(name, tally, self.rows) for name, tally in self._tallies.items()]

    def _add_column(self, name: str) -> Tally:
        if len(self._tallies) >= self._max_columns:
            raise TooLarge(f"The column {name[:80]!r} exceeds the limit of {self._max_columns:,} columns.")
        return self._tallies.setdefault(name, {})


def value_kind(value: object) -> str:
    """Return the kind of one value, or `null`, which no column has as its kind."""
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
    # Empty values don't change the kind of a column of conversations. An empty list is one, an empty text is not.
    empty_kinds = {
        kind for kind, extra in (("text", "empty_text"), ("json", "empty_list")) if tally.get(kind) == tally.get(extra)
    }
    conversations = kinds - empty_kinds
    if conversations and _CONVERSATION_KINDS.issuperset(conversations):
        kinds, empty_texts = conversations, tally.get("empty_text", 0)
        present, nulls = present - empty_texts, nulls + empty_texts
    looks_like = "chat" if kinds == {"text"} and tally.get("looks_like_chat") == present else None
    return Column(name, _column_kind(tuple(kinds)), present, rows - present - nulls, nulls, looks_like)


def find_mixed_columns(columns: Iterable[Column]) -> list[str]:
    """Return the columns that may hold both texts and other values."""
    return [column.name for column in columns if column.kind == "mixed" or (column.kind == "text" and column.nulls)]


def _extra_count(kind: str, value: Any) -> str | None:
    if kind == "text":
        return "empty_text" if not value else "looks_like_chat" if _looks_like_chat(value) else None
    return "empty_list" if kind == "json" and value == [] else None


def _column_kind(kinds: Sequence[str]) -> ColumnKind:
    if len(kinds) == 1:
        return cast("ColumnKind", kinds[0])
    return "json" if kinds and _CONTAINER_KINDS.issuperset(kinds) else "mixed"


def _looks_like_chat(text: str) -> bool:
    """Whether the text is a JSON list of messages. Checks the first character before parsing."""
    if text[:1] != "[" and (not text[:1].isspace() or text.lstrip()[:1] != "["):
        return False
    value = json.parse_or_text(text)
    return isinstance(value, list) and dialect_of(cast("object", value)) is not None
