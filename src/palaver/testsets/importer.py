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
from palaver.storage.testsets import repository as testsets
from palaver.storage.testsets.repository import TestSet
from palaver.storage.testsets.row_chunks import ENTRY_BYTES, ID_BYTES, Chunk, ChunkRef, iter_entries
from palaver.testsets import row_pages
from palaver.testsets.commits import BATCH_ROWS, PreparedCommit, StagedImport
from palaver.testsets.files.base import FileRow, RowReader, describe_line, line_error
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
    """Decides which row of the set each row of a file becomes."""

    counts: ImportCounts

    def merge(self, row: FileRow, explicit_id: bytes | None, content_hash: bytes) -> bytes:
        """Return the packed id of the row; `explicit_id` is its id in the file, if any."""
        ...


class FileImport:
    def __init__(self, reader: RowReader, merger: RowMerger, limits: TestsetLimits, *, batch_rows: int) -> None:
        self._reader = reader
        self._merger = merger
        self._limits = limits
        self._batch_rows = batch_rows
        self._contents: dict[bytes, bytes] = {}
        self._metas: dict[bytes, Any] = {}
        self._batched = 0

    def feed(self, chunk: bytes) -> RowBatch | None:
        """Parse a chunk; returns a batch if one is full."""
        for row in self._reader.feed(chunk):
            self._add(row)
        return self._take_batch() if self._batched >= self._batch_rows else None

    def end(self) -> Iterator[RowBatch]:
        """Finish parsing and yield the remaining batches. Some formats yield rows only at this point."""
        for row in self._reader.end():
            self._add(row)
            if self._batched >= self._batch_rows:
                yield self._take_batch()
        yield self._take_batch()

    def _add(self, row: FileRow) -> None:
        encoded = json.encode(row.data)
        self._limits.check_row(len(encoded), describe_line(row.line))
        if b'"turns"' in encoded:
            check_scripts(row.data, f"/lines/{row.line}")
        content_hash = row_hash(row.data)
        explicit_id, meta = _split_id(row.meta)
        packed = self._merger.merge(row, explicit_id, content_hash)
        self._contents[content_hash] = encoded
        if meta:
            self._metas[packed] = meta
        self._batched += 1

    def _take_batch(self) -> RowBatch:
        batch = RowBatch(self._contents, self._metas)
        self._contents, self._metas, self._batched = {}, {}, 0
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

    def __init__(self, limits: TestsetLimits, new_id: NewId, last_chunk: Chunk | None = None) -> None:
        self.counts = ImportCounts()
        self._builder = RevisionBuilder(limits, last_chunk)
        self._new_id = new_id
        self.explicit_ids: set[bytes] = set()
        """Ids in the file. The caller checks that the test set has none of them."""

    def merge(self, row: FileRow, explicit_id: bytes | None, content_hash: bytes) -> bytes:
        packed = self._new_id() if explicit_id is None else explicit_id
        if explicit_id is not None:
            if explicit_id in self.explicit_ids:
                raise _duplicate_id(row)
            self.explicit_ids.add(explicit_id)
        self.counts.rows += 1
        self.counts.added += 1
        self._builder.add(packed, content_hash, row.data)
        return packed

    def chunks(self) -> list[Chunk]:
        return self._builder.finish()


class RowReplacer:
    """Replaces all rows. A row with the id or the data of an existing one keeps that id."""

    def __init__(self, limits: TestsetLimits, new_id: NewId, entries: bytes) -> None:
        self.counts = ImportCounts(removed=len(entries) // ENTRY_BYTES)
        self._builder = RevisionBuilder(limits)
        self._new_id = new_id
        self._entries = entries
        self._hashes_by_id: dict[bytes, bytes] | None = None
        self._unused_ids: dict[bytes, bytes] = {}
        """The concatenated ids of rows, by hash: takes far less memory than a dictionary of lists."""
        for packed, content_hash in iter_entries(entries):
            self._unused_ids[content_hash] = self._unused_ids.get(content_hash, b"") + packed
        self._reused_ids: set[bytes] = set()
        self._explicit_ids: set[bytes] = set()

    def merge(self, row: FileRow, explicit_id: bytes | None, content_hash: bytes) -> bytes:
        packed = self._match_id(content_hash) if explicit_id is None else self._use_id(row, explicit_id, content_hash)
        self.counts.rows += 1
        self._builder.add(packed, content_hash, row.data)
        return packed

    def chunks(self) -> list[Chunk]:
        return self._builder.finish()

    def _match_id(self, content_hash: bytes) -> bytes:
        unused = self._unused_ids.get(content_hash, b"")
        while unused:
            packed, unused = unused[:ID_BYTES], unused[ID_BYTES:]
            self._unused_ids[content_hash] = unused
            if packed not in self._explicit_ids:
                self._reused_ids.add(packed)
                self.counts.unchanged += 1
                self.counts.removed -= 1
                return packed
        self.counts.added += 1
        return self._new_id()

    def _use_id(self, row: FileRow, explicit_id: bytes, content_hash: bytes) -> bytes:
        if explicit_id in self._explicit_ids:
            raise _duplicate_id(row)
        self._explicit_ids.add(explicit_id)
        if explicit_id in self._reused_ids:  # An equal row before this one was given the id.
            return self._match_id(content_hash)
        if self._hashes_by_id is None:
            self._hashes_by_id = dict(iter_entries(self._entries))
        old_hash = self._hashes_by_id.get(explicit_id)
        self.counts.added += old_hash is None
        self.counts.removed -= old_hash is not None
        self.counts.unchanged += old_hash == content_hash
        self.counts.changed += old_hash is not None and old_hash != content_hash
        return explicit_id


class RowUpserter:
    """Replaces the row with the same key, or appends."""

    def __init__(self, new_id: NewId, key: str, entries: bytes, positions: Mapping[bytes, int]) -> None:
        self.counts = ImportCounts()
        self._new_id = new_id
        self._key = key
        self.entries = bytearray(entries)
        self._positions = dict(positions)
        self._file_keys: set[bytes] = set()

    def merge(self, row: FileRow, explicit_id: bytes | None, content_hash: bytes) -> bytes:
        key = _row_key(row, explicit_id, self._key)
        if key in self._file_keys:
            raise line_error(row.line, f"duplicate value in the key column {self._key!r}.")
        self._file_keys.add(key)
        self.counts.rows += 1
        position = self._positions.get(key)
        if position is None:
            packed = self._new_id() if explicit_id is None or self._key != ID_KEY else explicit_id
            self.entries += packed + content_hash
            self.counts.added += 1
            return packed
        start = position * ENTRY_BYTES
        is_unchanged = bytes(self.entries[start + ID_BYTES : start + ENTRY_BYTES]) == content_hash
        self.counts.unchanged += is_unchanged
        self.counts.changed += not is_unchanged
        self.entries[start + ID_BYTES : start + ENTRY_BYTES] = content_hash
        return bytes(self.entries[start : start + ID_BYTES])


def _duplicate_id(row: FileRow) -> InvalidValue:
    return line_error(row.line, f"duplicate row id {row.meta[ID_KEY] if row.meta else ''!r}.")


def collect_keys(rows: Sequence[tuple[int, Mapping[str, Any]]], key: str, positions: dict[bytes, int]) -> None:
    """Add the position of each row, by the hash of its key, to `positions`. Raises InvalidValue for equal keys."""
    for position, data in rows:
        if key in data:
            first = positions.setdefault(_key_hash(data[key]), position)
            if first != position:
                message = (
                    f"Column {key[:80]!r} can't be the key because rows {first} and {position} have the same value."
                )
                raise InvalidValue(message, pointer="?key")


def positions_by_id(entries: bytes) -> dict[bytes, int]:
    """Return the position of each row by packed id."""
    return {packed: position for position, (packed, _) in enumerate(iter_entries(entries))}


def _row_key(row: FileRow, explicit_id: bytes | None, key: str) -> bytes:
    if key == ID_KEY:
        if explicit_id is None:
            raise line_error(row.line, "missing row id.")
        return explicit_id
    if key not in row.data:
        raise line_error(row.line, f"missing value in the key column {key!r}.")
    return _key_hash(row.data[key])


def _key_hash(value: Any) -> bytes:
    """Return the hash of a key. In one CSV file, `12` may be a number, and in another one text."""
    return row_hash({"key": json.encode(value).decode() if isinstance(value, bool | int | float) else value})


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
            raise InvalidValue(
                "'key' is required with mode=upsert and can't be combined with other modes.", pointer="?key"
            )


class ImportedFile(NamedTuple):
    """A file that was read completely, ready to be committed."""

    prepared: PreparedCommit
    counts: ImportCounts
    wrapped: int


@asynccontextmanager
async def import_file(
    database: Database,
    project: str,
    target: ImportTarget,
    reader: RowReader,
    chunks: AsyncIterable[bytes],
    *,
    now: Callable[[], datetime],
    limits: TestsetLimits = DEFAULT_LIMITS,
    new_id: NewId = generate_row_id,
) -> AsyncGenerator[ImportedFile]:
    """Import a file. Unless the caller commits it inside the block, it is discarded."""
    target.check()
    base = None if target.is_new else await database.read(testsets.get_testset, project, target.testset)
    async with StagedImport(database, project, target.testset, now) as staged:
        merger, unchanged_refs = await _make_merger(database, project, target, base, limits, new_id)
        file_import = FileImport(reader, merger, limits, batch_rows=BATCH_ROWS)
        await _stage_rows(staged, file_import, chunks)
        if isinstance(merger, RowUpserter):
            entries = bytes(merger.entries)
            content = await database.read(split_entries, project, target.testset, entries, {}, limits)
        else:
            if isinstance(merger, RowAppender) and merger.explicit_ids and base is not None:
                await database.read(_check_ids_are_new, project, base, merger.explicit_ids)
            content = await database.read(join_chunks, project, target.testset, unchanged_refs, merger.chunks(), limits)
        head = None if base is None else base.head
        prepared = PreparedCommit(base=head, revision=content, staged_by=staged.claim)
        yield ImportedFile(prepared, merger.counts, reader.report.wrapped)


async def _make_merger(
    database: Database, project: str, target: ImportTarget, base: TestSet | None, limits: TestsetLimits, new_id: NewId
) -> tuple[RowAppender | RowReplacer | RowUpserter, list[ChunkRef]]:
    """Return the merger for the import mode, and the chunks of the set that stay as they are."""
    if base is None:
        return RowAppender(limits, new_id), []
    if target.mode == "append":
        refs = await database.read(testsets.list_chunks, project, base.id, base.head)
        last_chunk = await database.read(open_last_chunk, project, base.id, refs)
        return RowAppender(limits, new_id, last_chunk), refs if last_chunk is None else refs[:-1]
    entries = await database.read(read_entries, project, base.id, base.head)
    if target.mode == "replace":
        return RowReplacer(limits, new_id, entries), []
    key = target.key or ID_KEY
    if key == ID_KEY:
        return RowUpserter(new_id, key, entries, positions_by_id(entries)), []
    revision = await database.read(testsets.get_revision, project, base.id, "head", base.head)
    positions: dict[bytes, int] = {}
    async for rows in row_pages.iterate_rows(database, project, revision):
        collect_keys([(row.position, row.data) for row in rows], key, positions)
    return RowUpserter(new_id, key, entries, positions), []


def _check_ids_are_new(db: Connection, project: str, base: TestSet, ids: set[bytes]) -> None:
    for packed, _ in iter_entries(read_entries(db, project, base.id, base.head)):
        if packed in ids:
            message = f"Row {format_row_id(packed)!r} already exists in the test set. Use mode=upsert and key={ID_KEY}."
            raise InvalidValue(message, pointer="?mode")


# Staging


async def _stage_rows(staged: StagedImport, file_import: FileImport, chunks: AsyncIterable[bytes]) -> None:
    """Parse the next chunk while the previous batch is written."""
    write_task: asyncio.Task[None] | None = None
    last_write_at = time.monotonic()
    try:
        async for chunk in _coalesce(chunks):
            batch = await asyncio.to_thread(file_import.feed, chunk)
            if batch is None and time.monotonic() - last_write_at < _HEARTBEAT_INTERVAL_S:
                continue
            if write_task is not None:
                await write_task
            write_task = asyncio.ensure_future(_put_batch(staged, batch))
            last_write_at = time.monotonic()
        remaining = file_import.end()
        while (batch := await asyncio.to_thread(next, remaining, None)) is not None:
            if write_task is not None:
                await write_task
            write_task = asyncio.ensure_future(_put_batch(staged, batch))
        if write_task is not None:
            await write_task
    finally:
        if write_task is not None and not write_task.done():
            await asyncio.gather(write_task, return_exceptions=True)


async def _put_batch(staged: StagedImport, batch: RowBatch | None) -> None:
    rows = batch or RowBatch({}, {})
    await staged.put(rows.contents, rows.metas)


async def _coalesce(chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size >= _CHUNK_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)
