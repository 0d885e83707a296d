"""Row lists are split so that similar lists share nearly all chunks."""

import random

from hypothesis import given
from hypothesis import strategies as st

from palaver.storage.database import Database
from palaver.storage.testsets import row_chunks as testset_pieces
from palaver.storage.testsets.row_chunks import (
    ENTRY_BYTES,
    Chunk,
    ChunkRef,
    chunk_digest,
    ends_chunk,
    iter_entries,
    pack_chunks,
    revision_digest,
    split_chunks,
    unpack_chunks,
)


def make_entries(rows: int, seed: int = 7) -> bytes:
    return random.Random(seed).randbytes(rows * ENTRY_BYTES)


def split_row_by_row(entries: bytes) -> list[bytes]:
    """Split entries into the same chunks, one row at a time."""
    chunks, current = [], b""
    for packed, hashed in iter_entries(entries):
        current += packed + hashed
        if ends_chunk(packed, len(current) // ENTRY_BYTES):
            chunks.append(current)
            current = b""
    return [*chunks, current] if current else chunks


@given(st.integers(0, 9_000), st.sampled_from([b"", b"\0", b"\xff"]))
def test_chunks_join_to_the_list_and_equal_incremental_splitting(rows: int, all_alike: bytes) -> None:
    entries = all_alike * ENTRY_BYTES * rows if all_alike else make_entries(rows)

    chunks = split_chunks(entries)

    assert b"".join(chunks) == entries
    assert chunks == split_row_by_row(entries)
    assert all(chunks)


def test_chunks_have_about_a_thousand_rows_and_at_most_4096() -> None:
    sizes = [len(chunk) // ENTRY_BYTES for chunk in split_chunks(make_entries(200_000))]

    assert 150 < len(sizes) < 300
    assert max(sizes) <= 4_096
    assert [len(chunk) // ENTRY_BYTES for chunk in split_chunks(b"\xff" * ENTRY_BYTES * 5_000)] == [4_096, 904]


def test_adding_or_removing_a_row_changes_one_chunk() -> None:
    entries = make_entries(50_000)
    before = set(split_chunks(entries))
    middle = 25_000 * ENTRY_BYTES

    more = split_chunks(entries[:middle] + b"\x01" * ENTRY_BYTES + entries[middle:])
    fewer = split_chunks(entries[:middle] + entries[middle + ENTRY_BYTES :])

    assert len(before.difference(more)) == 1
    assert len(set(more) - before) == 1
    assert len(set(fewer) - before) <= 1


def test_revision_digest_does_not_depend_on_the_chunks() -> None:
    entries = make_entries(3_000)

    assert revision_digest(split_chunks(entries)) == revision_digest([entries])
    assert revision_digest([entries]) != revision_digest([entries[ENTRY_BYTES:], entries[:ENTRY_BYTES]])
    assert revision_digest([]) == "b2:0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8"


def test_chunk_references_are_packed_and_unpacked() -> None:
    references = [ChunkRef(b"\1" * 16, 7), ChunkRef(b"\2" * 16, 4_096)]

    assert unpack_chunks(pack_chunks(references)) == references
    assert len(pack_chunks(references)) == 40
    assert unpack_chunks(b"") == []


async def test_chunk_can_be_inserted_again_and_is_stored_per_test_set(database: Database) -> None:
    chunk = Chunk(make_entries(3), {"rows": 3, "tallies": {}})
    for testset in ("ts_1", "ts_1", "ts_2"):
        await database.write(testset_pieces.insert_chunks, "default", testset, [chunk, chunk])
    digests = [chunk_digest(chunk.data), b"\0" * 16]

    assert await database.read(testset_pieces.read_chunks, "default", "ts_1", digests) == {digests[0]: chunk.data}
    assert await database.read(testset_pieces.read_column_counts, "default", "ts_2", digests) == {
        digests[0]: chunk.columns
    }
    assert await database.read(testset_pieces.read_chunks, "other", "ts_1", digests) == {}
