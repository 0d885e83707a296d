"""Import a file into a test set: append, replace or upsert rows while the file is read.

Contents are staged in batches; nothing is visible before the commit at the end. `FileImport` is a sync state machine
without a database: bytes in, batches of contents out.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
from sqlalchemy import Connection

from palaver.core import json
from palaver.errors import InvalidValue
from palaver.storage.database import Database
from palaver.storage.testsets import repository as testset_revisions
from palaver.storage.testsets import repository as testsets
from palaver.storage.testsets import rows as testset_pieces
from palaver.storage.testsets.repository import TestSet
from palaver.storage.testsets.rows import ENTRY_BYTES, ID_BYTES, Chunk, ChunkRef, iter_entries
from palaver.testsets import row_pages
from palaver.testsets.commits import BATCH_ROWS, PreparedCommit, StagedImport
from palaver.testsets.files.base import FileRow, RowReader, line_error
from palaver.testsets.limits import DEFAULT_LIMITS, TestsetLimits
from palaver.testsets.revision_builder import (
    NewId,
    RevisionBuilder,
    generate_row_id,
    join_chunks,
    open_last_chunk,
    read_entries,
    split_entries,
)
from palaver.testsets.rows import format_row_id, pack_row_id, row_hash
from palaver.testsets.scripts import check_scripts

ID_KEY = "__id__"
"""The key of an upsert by row id, as an export with ids writes it."""


class RowBatch(msgspec.Struct, frozen=True):
    """Contents and metadata to be stored."""

    contents: Mapping[bytes, bytes]
    metas: Mapping[bytes, Any]


class ImportCounts(msgspec.Struct):
    """What happened to the rows of a file."""

    rows: int = 0
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0


class RowMerger(Protocol):
    """Turns rows of a file into rows of the set."""

    counts: ImportCounts

    def merge(self, row: FileRow, own: bytes | None, hashed: bytes) -> bytes:
        """Return the packed id of the row; `own` is the id that it brings along."""
        ...


class FileImport:
    """Reads one file into batches."""

    def __init__(self, reader: RowReader, joining: RowMerger, limits: TestsetLimits, *, batch: int) -> None:
        self._reader = reader
        self._joining = joining
        self._limits = limits
        self._batch = batch
        self._contents: dict[bytes, bytes] = {}
        self._metas: dict[bytes, Any] = {}
        self._waiting = 0

    def feed(self, chunk: bytes) -> RowBatch | None:
        """Parse a chunk; returns a batch if one is full."""
        for row in self._reader.feed(chunk):
            self._take(row)
        return self._given() if self._waiting >= self._batch else None

    def end(self) -> Iterator[RowBatch]:
        """Finish parsing; some formats yield their rows only now."""
        for row in self._reader.end():
            self._take(row)
            if self._waiting >= self._batch:
                yield self._given()
        yield self._given()

    def _take(self, row: FileRow) -> None:
        encoded = json.encode(row.data)
        self._limits.check_row(len(encoded), f"Line {row.line}")
        if b'"turns"' in encoded:
            check_scripts(row.data, f"/lines/{row.line}")
        hashed = row_hash(row.data)
        own, meta = _split_id(row.meta)
        packed = self._joining.merge(row, own, hashed)
        self._contents[hashed] = encoded
        if meta:
            self._metas[packed] = meta
        self._waiting += 1

    def _given(self) -> RowBatch:
        batch = RowBatch(self._contents, self._metas)
        self._contents, self._metas, self._waiting = {}, {}, 0
        return batch


def _split_id(meta: Mapping[str, Any] | None) -> tuple[bytes | None, Mapping[str, Any] | None]:
    """Split the id of the row, if it is a valid row id, from the other metadata."""
    if not meta:
        return None, None
    try:
        packed = pack_row_id(meta[ID_KEY]) if isinstance(meta.get(ID_KEY), str) else None
    except ValueError:
        packed = None  # The id of another system.
    if packed is None:
        return None, meta
    return packed, {name: value for name, value in meta.items() if name != ID_KEY}


class RowAppender:
    """Appends rows to the set, or creates a new one."""

    def __init__(self, limits: TestsetLimits, new: NewId, last: Chunk | None = None) -> None:
        self.counts = ImportCounts()
        self._gathering = RevisionBuilder(limits, last)
        self._new = new
        self.explicit_ids: set[bytes] = set()
        """Ids that rows brought along. The caller checks that the set has none of them."""

    def merge(self, row: FileRow, own: bytes | None, hashed: bytes) -> bytes:
        packed = self._new() if own is None else own
        if own is not None:
            if own in self.explicit_ids:
                raise _duplicate_id(row)
            self.explicit_ids.add(own)
        self.counts.rows += 1
        self.counts.added += 1
        self._gathering.add(packed, hashed, row.data)
        return packed

    def chunks(self) -> list[Chunk]:
        return self._gathering.finish()


class RowReplacer:
    """Replaces all rows. A row with the id or the data of an existing one keeps that id."""

    def __init__(self, limits: TestsetLimits, new: NewId, entries: bytes) -> None:
        self.counts = ImportCounts(removed=len(entries) // ENTRY_BYTES)
        self._gathering = RevisionBuilder(limits)
        self._new = new
        self._before = entries
        self._ids: dict[bytes, bytes] | None = None
        self._unused: dict[bytes, bytes] = {}
        """By hash, the concatenated ids of rows with that hash: takes far less memory than a dictionary of lists."""
        for packed, hashed in iter_entries(entries):
            self._unused[hashed] = self._unused.get(hashed, b"") + packed
        self._given: set[bytes] = set()
        self._brought: set[bytes] = set()

    def merge(self, row: FileRow, own: bytes | None, hashed: bytes) -> bytes:
        packed = self._same(hashed) if own is None else self._own(row, own, hashed)
        self.counts.rows += 1
        self._gathering.add(packed, hashed, row.data)
        return packed

    def chunks(self) -> list[Chunk]:
        return self._gathering.finish()

    def _same(self, hashed: bytes) -> bytes:
        unused = self._unused.get(hashed, b"")
        while unused:
            packed, unused = unused[:ID_BYTES], unused[ID_BYTES:]
            self._unused[hashed] = unused
            if packed not in self._brought:
                self._given.add(packed)
                self.counts.unchanged += 1
                self.counts.removed -= 1
                return packed
        self.counts.added += 1
        return self._new()

    def _own(self, row: FileRow, own: bytes, hashed: bytes) -> bytes:
        if own in self._brought:
            raise _duplicate_id(row)
        self._brought.add(own)
        if own in self._given:  # An equal row before this one has taken its id.
            return self._same(hashed)
        if self._ids is None:
            self._ids = dict(iter_entries(self._before))
        before = self._ids.get(own)
        self.counts.added += before is None
        self.counts.removed -= before is not None
        self.counts.unchanged += before == hashed
        self.counts.changed += before is not None and before != hashed
        return own


class RowUpserter:
    """Replaces the row with the same key, or appends."""

    def __init__(self, new: NewId, key: str, entries: bytes, keys: Mapping[bytes, int]) -> None:
        self.counts = ImportCounts()
        self._new = new
        self._key = key
        self.entries = bytearray(entries)
        self._places = dict(keys)
        self._seen: set[bytes] = set()

    def merge(self, row: FileRow, own: bytes | None, hashed: bytes) -> bytes:
        key = _row_key(row, own, self._key)
        if key in self._seen:
            raise line_error(row.line, f"the key {self._key!r} has the same value as in a row before it.")
        self._seen.add(key)
        self.counts.rows += 1
        place = self._places.get(key)
        if place is None:
            packed = self._new() if own is None or self._key != ID_KEY else own
            self.entries += packed + hashed
            self.counts.added += 1
            return packed
        start = place * ENTRY_BYTES
        same = bytes(self.entries[start + ID_BYTES : start + ENTRY_BYTES]) == hashed
        self.counts.unchanged += same
        self.counts.changed += not same
        self.entries[start + ID_BYTES : start + ENTRY_BYTES] = hashed
        return bytes(self.entries[start : start + ID_BYTES])


def _duplicate_id(row: FileRow) -> InvalidValue:
    return line_error(row.line, f"there is a row with the id {row.meta[ID_KEY] if row.meta else ''} before it.")


def collect_keys(rows: Sequence[tuple[int, Mapping[str, Any]]], key: str, into: dict[bytes, int]) -> None:
    """Add the keys of rows, and their positions, to `into`."""
    for place, data in rows:
        if key in data:
            known = into.setdefault(row_hash({"key": data[key]}), place)
            if known != place:
                message = f"The column {key[:80]!r} is no key: the rows {known} and {place} have the same value."
                raise InvalidValue(message, pointer="?key")


def positions_by_id(entries: bytes) -> dict[bytes, int]:
    """The same for ID_KEY."""
    return {packed: place for place, (packed, _) in enumerate(iter_entries(entries))}


def _row_key(row: FileRow, own: bytes | None, key: str) -> bytes:
    if key == ID_KEY:
        if own is None:
            raise line_error(row.line, "the row has no id of ours.")
        return own
    if key not in row.data:
        raise line_error(row.line, f"the row has no {key!r}, which is its key.")
    return row_hash({"key": row.data[key]})


ImportMode = Literal["append", "replace", "upsert"]
_CHUNK_BYTES = 256 * 1024
"""Each chunk is parsed in a thread, so small ones are combined."""
_HEARTBEAT_INTERVAL_S = 30.0
"""Seconds after which an import without data to write reports that it is alive."""


class ImportTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The test set to import into, and how."""

    testset: str
    """The id of the set, or of the new set."""
    is_new: bool = False
    mode: ImportMode = "append"
    key: str | None = None
    """For an upsert: the key column, or `__id__`."""

    def check(self) -> None:
        """Raise InvalidValue for options that contradict each other."""
        if (self.mode == "upsert") != (self.key is not None):
            raise InvalidValue("An upsert needs a key, and nothing else has one.", pointer="?key")


class ImportedFile(NamedTuple):
    """A file that was read completely, ready to be committed."""

    prepared: PreparedCommit
    counts: ImportCounts
    wrapped: int


@asynccontextmanager
async def import_file(
    database: Database,
    project: str,
    into: ImportTarget,
    reader: RowReader,
    chunks: AsyncIterable[bytes],
    *,
    now: Callable[[], datetime],
    limits: TestsetLimits = DEFAULT_LIMITS,
    new: NewId = generate_row_id,
) -> AsyncGenerator[ImportedFile]:
    """Import a file. What is not committed inside the block is discarded."""
    into.check()
    base = None if into.is_new else await database.read(testsets.get_testset, project, into.testset)
    async with StagedImport(database, project, into.testset, now) as staging:
        joining, before = await _make_merger(database, project, into, base, limits, new)
        taking = FileImport(reader, joining, limits, batch=BATCH_ROWS)
        await _stage_rows(staging, taking, chunks)
        if isinstance(joining, RowUpserter):
            entries = bytes(joining.entries)
            gathered = await database.read(split_entries, project, into.testset, entries, {}, limits)
        else:
            if isinstance(joining, RowAppender) and joining.explicit_ids and base is not None:
                await database.read(_check_ids_are_new, project, base, joining.explicit_ids)
            gathered = await database.read(join_chunks, project, into.testset, before, joining.chunks(), limits)
        head = None if base is None else base.head
        prepared = PreparedCommit(base=head, revision=gathered, staged_by=staging.claim)
        yield ImportedFile(prepared, joining.counts, reader.report.wrapped)


async def _make_merger(
    database: Database, project: str, into: ImportTarget, base: TestSet | None, limits: TestsetLimits, new: NewId
) -> tuple[RowAppender | RowReplacer | RowUpserter, list[ChunkRef]]:
    """Return the merger for the import mode, and the pieces of the set that stay as they are."""
    if base is None:
        return RowAppender(limits, new), []
    if into.mode == "append":
        places = await database.read(testset_revisions.list_chunks, project, base.id, base.head)
        last = await database.read(open_last_chunk, project, base.id, places)
        return RowAppender(limits, new, last), places if last is None else places[:-1]
    entries = await database.read(read_entries, project, base.id, base.head)
    if into.mode == "replace":
        return RowReplacer(limits, new, entries), []
    key = into.key or ID_KEY
    if key == ID_KEY:
        return RowUpserter(new, key, entries, positions_by_id(entries)), []
    revision = await database.read(testset_revisions.get_revision, project, base.id, "head", base.head)
    keys: dict[bytes, int] = {}
    async for rows in row_pages.iterate_rows(database, project, revision):
        collect_keys([(row.position, row.data) for row in rows], key, keys)
    return RowUpserter(new, key, entries, keys), []


def _check_ids_are_new(db: Connection, project: str, base: TestSet, brought: set[bytes]) -> None:
    for packed, _ in testset_pieces.iter_entries(read_entries(db, project, base.id, base.head)):
        if packed in brought:
            message = f"The set has the row {format_row_id(packed)} already: import with mode=upsert and key={ID_KEY}."
            raise InvalidValue(message, pointer="?mode")


# Staging


async def _stage_rows(staging: StagedImport, taking: FileImport, chunks: AsyncIterable[bytes]) -> None:
    """Parse the next chunk while the previous batch is written."""
    writing: asyncio.Task[None] | None = None
    since = time.monotonic()
    try:
        async for chunk in _coalesce(chunks):
            batch = await asyncio.to_thread(taking.feed, chunk)
            if batch is None and time.monotonic() - since < _HEARTBEAT_INTERVAL_S:
                continue
            if writing is not None:
                await writing
            writing = asyncio.ensure_future(_put_batch(staging, batch))
            since = time.monotonic()
        ending = taking.end()
        while (batch := await asyncio.to_thread(next, ending, None)) is not None:
            if writing is not None:
                await writing
            writing = asyncio.ensure_future(_put_batch(staging, batch))
        if writing is not None:
            await writing
    finally:
        if writing is not None and not writing.done():
            await asyncio.gather(writing, return_exceptions=True)


async def _put_batch(staging: StagedImport, batch: RowBatch | None) -> None:
    rows = batch or RowBatch({}, {})
    await staging.put(rows.contents, rows.metas)


async def _coalesce(chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
    """Combine chunks into larger ones."""
    waiting: list[bytes] = []
    size = 0
    async for chunk in chunks:
        waiting.append(chunk)
        size += len(chunk)
        if size >= _CHUNK_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)
