"""Row lists of test sets, in chunks that revisions share.

A row list has 32 bytes per row: its packed id and the hash of its data. It is split after rows whose ids have certain
bits, about one in a thousand: whether a row ends a chunk does not depend on its position, so an inserted or deleted row
changes one chunk only. Chunks are identified by the digest of their content.
"""

import hashlib
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from palaver.storage.schema import dialect_insert
from palaver.storage.testsets.rows import lookup_rows
from palaver.storage.testsets.tables import testset_pieces as chunks_table

ENTRY_BYTES = 32
"""Bytes per row in a list."""
ID_BYTES = 16
_MAX_CHUNK_ROWS = 4_096
"""An upper limit, since clients may choose row ids."""
_LAST_ID_BYTE, _PREVIOUS_ID_BYTE, _CHUNK_END_MASK = 15, 14, 0b11
"""A row ends its chunk if the last byte of its id and two bits of the one before are 0."""
_REF_STRUCT = struct.Struct(">16sI")


class ChunkRef(NamedTuple):
    digest: bytes
    rows: int


class Chunk(NamedTuple):
    data: bytes
    columns: Any
    """What its rows add to the columns of a revision."""

    @property
    def ref(self) -> ChunkRef:
        return ChunkRef(chunk_digest(self.data), len(self.data) // ENTRY_BYTES)


# Row lists


def ends_chunk(packed: bytes, rows: int) -> bool:
    """Whether a row ends its chunk, which then has `rows` rows."""
    return rows >= _MAX_CHUNK_ROWS or (packed[_LAST_ID_BYTE] == 0 and not packed[_PREVIOUS_ID_BYTE] & _CHUNK_END_MASK)


def split_chunks(entries: bytes) -> list[bytes]:
    """Split a list into chunks, deterministically."""
    last, previous = entries[_LAST_ID_BYTE::ENTRY_BYTES], entries[_PREVIOUS_ID_BYTE::ENTRY_BYTES]
    chunks: list[bytes] = []
    start, rows = 0, len(last)
    while start < rows:
        end = start - 1
        while True:
            end = last.find(0, end + 1, start + _MAX_CHUNK_ROWS)
            if end < 0:
                end = min(start + _MAX_CHUNK_ROWS, rows) - 1
                break
            if not previous[end] & _CHUNK_END_MASK:
                break
        chunks.append(entries[start * ENTRY_BYTES : (end + 1) * ENTRY_BYTES])
        start = end + 1
    return chunks


def chunk_digest(chunk: bytes) -> bytes:
    return hashlib.blake2b(chunk, digest_size=16).digest()


def revision_digest(chunks: Iterable[bytes]) -> str:
    """Return the digest of a revision, which does not depend on its chunks."""
    digest = hashlib.blake2b(digest_size=32)
    for chunk in chunks:
        digest.update(chunk)
    return f"b2:{digest.hexdigest()}"


def pack_chunks(refs: Iterable[ChunkRef]) -> bytes:
    return b"".join(_REF_STRUCT.pack(*ref) for ref in refs)


def unpack_chunks(packed: bytes) -> list[ChunkRef]:
    return [ChunkRef(digest, count) for digest, count in _REF_STRUCT.iter_unpack(packed)]


def iter_entries(entries: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the packed id and the hash of each row."""
    for start in range(0, len(entries), ENTRY_BYTES):
        yield entries[start : start + ID_BYTES], entries[start + ID_BYTES : start + ENTRY_BYTES]


# In the database


def read_chunks(db: Connection, project: str, testset: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
    rows = lookup_rows(db, chunks_table, "digest", "data", project, testset, digests)
    return {bytes(row.digest): bytes(row.data) for row in rows}


def read_column_counts(db: Connection, project: str, testset: str, digests: Sequence[bytes]) -> dict[bytes, Any]:
    """Return what existing chunks add to the columns of a revision, by digest."""
    rows = lookup_rows(db, chunks_table, "digest", "columns", project, testset, digests)
    return {bytes(row.digest): row.columns for row in rows}


def insert_chunks(db: Connection, project: str, testset: str, chunks: Sequence[Chunk]) -> None:
    if not chunks:
        return
    common = {"project": project, "testset": testset}
    rows = [{**common, "digest": chunk_digest(chunk.data), **chunk._asdict()} for chunk in chunks]
    db.execute(dialect_insert(db, chunks_table).on_conflict_do_nothing(), rows)
