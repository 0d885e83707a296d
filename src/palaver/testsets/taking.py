"""Taking rows from a file, as they come: who they are, what of them is new, and what the next revision will be.

A sync machine: bytes in, batches of contents out, and at the end the revision. It knows no database: what it needs of
the set that rows go into, it is given.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from palaver.core import jsons
from palaver.errors import InvalidValue
from palaver.storage.testsets.pieces import ENTRY, ID, Piece, split
from palaver.testsets.files.values import Read, Reader, wrong
from palaver.testsets.gathering import Gathering, NewId
from palaver.testsets.limits import Limits
from palaver.testsets.rows import packed_id, row_hash
from palaver.testsets.scripts import check_scripts

BY_ID = "__id__"
"""As the key of an upsert: rows are known by their ids, which an export can write beside them."""


class Batch(msgspec.Struct, frozen=True):
    """What is to be kept now."""

    contents: Mapping[bytes, bytes]
    metas: Mapping[bytes, Any]


class Counts(msgspec.Struct):
    """What became of the rows of a file."""

    rows: int = 0
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0


class Joining(Protocol):
    """How rows of a file become rows of the set."""

    counts: Counts

    def join(self, row: Read, own: bytes | None, hashed: bytes) -> bytes:
        """The id of a row, packed; `own` is the one that it brings along."""
        ...


class Taking:
    """Takes one file."""

    def __init__(self, reader: Reader, joining: Joining, limits: Limits, *, batch: int) -> None:
        self._reader = reader
        self._joining = joining
        self._limits = limits
        self._batch = batch
        self._contents: dict[bytes, bytes] = {}
        self._metas: dict[bytes, Any] = {}
        self._waiting = 0

    def feed(self, chunk: bytes) -> Batch | None:
        """Some more of it; a batch, if it is full."""
        for row in self._reader.feed(chunk):
            self._take(row)
        return self._given() if self._waiting >= self._batch else None

    def end(self) -> Iterator[Batch]:
        """All of it was there; some formats tell their rows only now."""
        for row in self._reader.end():
            self._take(row)
            if self._waiting >= self._batch:
                yield self._given()
        yield self._given()

    def _take(self, row: Read) -> None:
        kept = jsons.encode(row.data)
        self._limits.check_row(len(kept), f"Line {row.line}")
        if b'"turns"' in kept:
            check_scripts(row.data, f"/lines/{row.line}")
        hashed = row_hash(row.data)
        own, meta = _own(row.meta)
        packed = self._joining.join(row, own, hashed)
        self._contents[hashed] = kept
        if meta:
            self._metas[packed] = meta
        self._waiting += 1

    def _given(self) -> Batch:
        batch = Batch(self._contents, self._metas)
        self._contents, self._metas, self._waiting = {}, {}, 0
        return batch


def _own(meta: Mapping[str, Any] | None) -> tuple[bytes | None, Mapping[str, Any] | None]:
    """The id that a row brings along, if it is one of ours; and what else is beside its data."""
    if not meta:
        return None, None
    try:
        packed = packed_id(meta[BY_ID]) if isinstance(meta.get(BY_ID), str) else None
    except ValueError:
        packed = None  # Another system's.
    if packed is None:
        return None, meta
    return packed, {name: value for name, value in meta.items() if name != BY_ID}


class Appended:
    """Rows come after those that there are, or are the first of a new set."""

    def __init__(self, limits: Limits, new: NewId, last: Piece | None = None) -> None:
        self.counts = Counts()
        self._gathering = Gathering(limits, last)
        self._new = new
        self.brought: set[bytes] = set()
        """Ids that rows came with: whether one of the set has them is for the caller to see."""

    def join(self, row: Read, own: bytes | None, hashed: bytes) -> bytes:
        """A new row."""
        packed = self._new() if own is None else own
        if own is not None:
            if own in self.brought:
                raise _twice(row)
            self.brought.add(own)
        self.counts.rows += 1
        self.counts.added += 1
        self._gathering.add(packed, hashed, row.data)
        return packed

    def pieces(self) -> list[Piece]:
        """What they are in."""
        return self._gathering.done()


class Replacing:
    """Rows take the place of all that there are. Who has the same data as one of those, or its id, stays who it was."""

    def __init__(self, limits: Limits, new: NewId, entries: bytes) -> None:
        self.counts = Counts(removed=len(entries) // ENTRY)
        self._gathering = Gathering(limits)
        self._new = new
        self._before = entries
        self._ids: dict[bytes, bytes] | None = None
        self._unused: dict[bytes, bytes] = {}
        """By hash, the ids of rows that have it, one after the other: a dictionary of lists would take far more."""
        for packed, hashed in split(entries):
            self._unused[hashed] = self._unused.get(hashed, b"") + packed
        self._given: set[bytes] = set()
        self._brought: set[bytes] = set()

    def join(self, row: Read, own: bytes | None, hashed: bytes) -> bytes:
        """A row that was there, or a new one."""
        packed = self._same(hashed) if own is None else self._own(row, own, hashed)
        self.counts.rows += 1
        self._gathering.add(packed, hashed, row.data)
        return packed

    def pieces(self) -> list[Piece]:
        """What they are in."""
        return self._gathering.done()

    def _same(self, hashed: bytes) -> bytes:
        unused = self._unused.get(hashed, b"")
        while unused:
            packed, unused = unused[:ID], unused[ID:]
            self._unused[hashed] = unused
            if packed not in self._brought:
                self._given.add(packed)
                self.counts.unchanged += 1
                self.counts.removed -= 1
                return packed
        self.counts.added += 1
        return self._new()

    def _own(self, row: Read, own: bytes, hashed: bytes) -> bytes:
        if own in self._brought:
            raise _twice(row)
        self._brought.add(own)
        if own in self._given:  # An equal row before it has got its id.
            return self._same(hashed)
        if self._ids is None:
            self._ids = dict(split(self._before))
        before = self._ids.get(own)
        self.counts.added += before is None
        self.counts.removed -= before is not None
        self.counts.unchanged += before == hashed
        self.counts.changed += before is not None and before != hashed
        return own


class Upserting:
    """A row takes the place of the one with the same key, if there is one; else it comes after all others."""

    def __init__(self, new: NewId, key: str, entries: bytes, keys: Mapping[bytes, int]) -> None:
        self.counts = Counts()
        self._new = new
        self._key = key
        self.entries = bytearray(entries)
        self._places = dict(keys)
        self._seen: set[bytes] = set()

    def join(self, row: Read, own: bytes | None, hashed: bytes) -> bytes:
        """A row that was there, or a new one."""
        key = _key_of(row, own, self._key)
        if key in self._seen:
            raise wrong(row.line, f"the key {self._key!r} has the same value as in a row before it.")
        self._seen.add(key)
        self.counts.rows += 1
        place = self._places.get(key)
        if place is None:
            packed = self._new() if own is None or self._key != BY_ID else own
            self.entries += packed + hashed
            self.counts.added += 1
            return packed
        start = place * ENTRY
        same = bytes(self.entries[start + ID : start + ENTRY]) == hashed
        self.counts.unchanged += same
        self.counts.changed += not same
        self.entries[start + ID : start + ENTRY] = hashed
        return bytes(self.entries[start : start + ID])


def _twice(row: Read) -> InvalidValue:
    return wrong(row.line, f"there is a row with the id {row.meta[BY_ID] if row.meta else ''} before it.")


def keys_of(rows: Sequence[tuple[int, Mapping[str, Any]]], key: str, into: dict[bytes, int]) -> None:
    """The keys of rows of a set, and their places."""
    for place, data in rows:
        if key in data:
            known = into.setdefault(row_hash({"key": data[key]}), place)
            if known != place:
                told = f"The column {key[:80]!r} is no key: the rows {known} and {place} have the same value."
                raise InvalidValue(told, pointer="?key")


def keys_by_id(entries: bytes) -> dict[bytes, int]:
    """The same, where rows are known by their ids."""
    return {packed: place for place, (packed, _) in enumerate(split(entries))}


def _key_of(row: Read, own: bytes | None, key: str) -> bytes:
    if key == BY_ID:
        if own is None:
            raise wrong(row.line, "the row has no id of ours.")
        return own
    if key not in row.data:
        raise wrong(row.line, f"the row has no {key!r}, which is its key.")
    return row_hash({"key": row.data[key]})
