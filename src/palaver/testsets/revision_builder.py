"""Build the chunks and columns of a revision from a stream of rows.

A row takes 32 bytes here (id and hash), so a revision of a million rows is built without holding their contents.
"""

import secrets
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection

from palaver.storage.testsets import repository as testsets
from palaver.storage.testsets import row_chunks
from palaver.storage.testsets import rows as testset_rows
from palaver.storage.testsets.row_chunks import ENTRY_BYTES, Chunk, ChunkRef
from palaver.testsets.columns import ColumnCounter, ColumnCounts
from palaver.testsets.delta import RowEntry
from palaver.testsets.limits import DEFAULT_LIMITS, TestsetLimits
from palaver.testsets.rows import new_packed_id

_decode = msgspec.json.Decoder().decode
NewId = Callable[[], bytes]
"""Returns the packed id of a new row."""


class RevisionContent(msgspec.Struct, frozen=True, kw_only=True):
    """A revision before it is committed."""

    digest: str
    rows: int
    columns: list[dict[str, Any]]
    chunk_refs: list[ChunkRef]
    new_chunks: list[Chunk]
    """Chunks that may not be stored yet."""


class RevisionBuilder:
    """Collects rows in order. May continue the last chunk of another revision."""

    def __init__(self, limits: TestsetLimits = DEFAULT_LIMITS, last_chunk: Chunk | None = None) -> None:
        self._limits = limits
        self._entries = bytearray(last_chunk.data if last_chunk is not None else b"")
        self._columns = ColumnCounter(
            _as_counts(last_chunk.columns) if last_chunk is not None else None, max_columns=limits.columns
        )
        self._chunks: list[Chunk] = []

    def add(self, packed: bytes, content_hash: bytes, data: Mapping[str, Any]) -> None:
        self._columns.add(data)
        self._entries += packed
        self._entries += content_hash
        if row_chunks.ends_chunk(packed, len(self._entries) // ENTRY_BYTES):
            self._close_chunk()

    def finish(self) -> list[Chunk]:
        if self._entries:
            self._close_chunk()
        return self._chunks

    def _close_chunk(self) -> None:
        self._chunks.append(Chunk(bytes(self._entries), self._columns.counts()))
        self._entries.clear()
        self._columns = ColumnCounter(max_columns=self._limits.columns)


def generate_row_id() -> bytes:
    return new_packed_id(time.time_ns() // 1_000_000, secrets.randbits(80))


# Whole revisions


def read_entries(db: Connection, project: str, testset: str, number: int) -> bytes:
    """Return the packed ids and hashes of all rows of a revision."""
    refs = testsets.list_chunks(db, project, testset, number)
    data = row_chunks.read_chunks(db, project, testset, [ref.digest for ref in refs])
    return b"".join(data[ref.digest] for ref in refs)


def open_last_chunk(db: Connection, project: str, testset: str, refs: Sequence[ChunkRef]) -> Chunk | None:
    """Return the last chunk of a revision, if further rows belong to it."""
    if not refs:
        return None
    digest = refs[-1].digest
    data = row_chunks.read_chunks(db, project, testset, [digest])[digest]
    if row_chunks.ends_chunk(data[-ENTRY_BYTES : -ENTRY_BYTES // 2], len(data) // ENTRY_BYTES):
        return None
    return Chunk(data, row_chunks.read_column_counts(db, project, testset, [digest])[digest])


def join_chunks(
    db: Connection,
    project: str,
    testset: str,
    stored_refs: Sequence[ChunkRef],
    chunks: Sequence[Chunk],
    limits: TestsetLimits,
) -> RevisionContent:
    """Return the revision of stored chunks followed by new ones."""
    stored_counts = row_chunks.read_column_counts(db, project, testset, [ref.digest for ref in stored_refs])
    data = row_chunks.read_chunks(db, project, testset, [ref.digest for ref in stored_refs])
    counter = ColumnCounter(max_columns=limits.columns)
    for ref in stored_refs:
        counter.merge(ColumnCounter(_as_counts(stored_counts[ref.digest])))
    for chunk in chunks:
        counter.merge(ColumnCounter(_as_counts(chunk.columns)))
    limits.check_rows(counter.rows)
    entries = [*(data[ref.digest] for ref in stored_refs), *(chunk.data for chunk in chunks)]
    refs = [*stored_refs, *(chunk.ref for chunk in chunks)]
    return _revision_content(counter, row_chunks.revision_digest(entries), refs, chunks)


def split_entries(
    db: Connection, project: str, testset: str, entries: bytes, contents: Mapping[bytes, bytes], limits: TestsetLimits
) -> RevisionContent:
    """Return the revision of a list of entries. Contents are read only for chunks whose columns are not counted yet.

    `contents` holds, by hash, JSON that is not stored yet.
    """
    limits.check_rows(len(entries) // ENTRY_BYTES)
    parts = row_chunks.split_chunks(entries)
    refs = [Chunk(part, None).ref for part in parts]
    stored_counts = row_chunks.read_column_counts(db, project, testset, [ref.digest for ref in refs])
    chunks: list[Chunk] = []
    counter = ColumnCounter(max_columns=limits.columns)
    for part, ref in zip(parts, refs, strict=True):
        counts = stored_counts.get(ref.digest)
        if counts is None:
            counts = stored_counts[ref.digest] = _count_columns(db, project, testset, part, contents, limits)
            chunks.append(Chunk(part, counts))
        counter.merge(ColumnCounter(_as_counts(counts)))
    return _revision_content(counter, row_chunks.revision_digest([entries]), refs, chunks)


def _count_columns(
    db: Connection, project: str, testset: str, part: bytes, contents: Mapping[bytes, bytes], limits: TestsetLimits
) -> ColumnCounts:
    hashes = [content_hash for _, content_hash in row_chunks.iter_entries(part)]
    loaded = testset_rows.read_contents(db, project, testset, [item for item in hashes if item not in contents])
    counter = ColumnCounter(max_columns=limits.columns)
    for content_hash in hashes:
        counter.add(_decode(contents[content_hash] if content_hash in contents else loaded[content_hash]))
    return counter.counts()


def _revision_content(
    counter: ColumnCounter, digest: str, refs: list[ChunkRef], chunks: Iterable[Chunk]
) -> RevisionContent:
    encoded = [msgspec.to_builtins(column) for column in counter.columns()]
    return RevisionContent(digest=digest, rows=counter.rows, columns=encoded, chunk_refs=refs, new_chunks=list(chunks))


def _as_counts(stored_counts: Any) -> ColumnCounts:
    return stored_counts if isinstance(stored_counts, ColumnCounts) else msgspec.convert(stored_counts, ColumnCounts)


class RowIdMatcher:
    """Assigns ids to rows that were sent without one.

    A row gets the id of an unused row of the base with the same content, else a new one. Ids in `claimed` are those of
    rows that were sent with one.
    """

    def __init__(
        self, base: Iterable[RowEntry], *, new_id: Callable[[], bytes], claimed: Collection[bytes] = ()
    ) -> None:
        self._new_id = new_id
        self._unused_ids: dict[bytes, deque[bytes]] = {}
        for row, content_hash in base:
            if row not in claimed:
                self._unused_ids.setdefault(content_hash, deque()).append(row)

    def id_for(self, content_hash: bytes) -> bytes:
        """Return the id for the next row with this content that was sent without one."""
        unused_ids = self._unused_ids.get(content_hash)
        return unused_ids.popleft() if unused_ids else self._new_id()
