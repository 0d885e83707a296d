"""A list of rows is cut so that lists which differ little share nearly all of their pieces."""

import random

from hypothesis import given
from hypothesis import strategies as st

from palaver.storage.database import Database
from palaver.storage.testsets import pieces as testset_pieces
from palaver.storage.testsets.pieces import (
    ENTRY,
    Piece,
    Place,
    cut,
    digest_of,
    digest_of_all,
    ends,
    pack,
    split,
    unpack,
)


def listed(rows: int, seed: int = 7) -> bytes:
    return random.Random(seed).randbytes(rows * ENTRY)


def one_by_one(entries: bytes) -> list[bytes]:
    """The same pieces, as they come about when rows go by one after the other."""
    pieces, begun = [], b""
    for packed, hashed in split(entries):
        begun += packed + hashed
        if ends(packed, len(begun) // ENTRY):
            pieces.append(begun)
            begun = b""
    return [*pieces, begun] if begun else pieces


@given(st.integers(0, 9_000), st.sampled_from([b"", b"\0", b"\xff"]))
def test_pieces_are_the_list_however_they_come_about(rows: int, all_alike: bytes) -> None:
    entries = all_alike * ENTRY * rows if all_alike else listed(rows)

    pieces = cut(entries)

    assert b"".join(pieces) == entries
    assert pieces == one_by_one(entries)
    assert all(pieces)


def test_a_piece_has_about_a_thousand_rows_and_never_too_many() -> None:
    sizes = [len(piece) // ENTRY for piece in cut(listed(200_000))]

    assert 150 < len(sizes) < 300
    assert max(sizes) <= 4_096
    assert [len(piece) // ENTRY for piece in cut(b"\xff" * ENTRY * 5_000)] == [4_096, 904]


def test_a_row_more_or_less_changes_one_piece() -> None:
    entries = listed(50_000)
    before = set(cut(entries))
    middle = 25_000 * ENTRY

    more = cut(entries[:middle] + b"\x01" * ENTRY + entries[middle:])
    fewer = cut(entries[:middle] + entries[middle + ENTRY :])

    assert len(before.difference(more)) == 1
    assert len(set(more) - before) == 1
    assert len(set(fewer) - before) <= 1


def test_the_digest_of_a_revision_does_not_depend_on_how_it_is_cut() -> None:
    entries = listed(3_000)

    assert digest_of_all(cut(entries)) == digest_of_all([entries])
    assert digest_of_all([entries]) != digest_of_all([entries[ENTRY:], entries[:ENTRY]])
    assert digest_of_all([]) == "b2:0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8"


def test_what_a_revision_is_made_of_is_packed() -> None:
    places = [Place(b"\1" * 16, 7), Place(b"\2" * 16, 4_096)]

    assert unpack(pack(places)) == places
    assert len(pack(places)) == 40
    assert unpack(b"") == []


async def test_a_piece_is_kept_once_for_each_set(database: Database) -> None:
    piece = Piece(listed(3), {"rows": 3, "tallies": {}})
    for testset in ("ts_1", "ts_1", "ts_2"):
        await database.write(testset_pieces.add, "default", testset, [piece, piece])
    wanted = [digest_of(piece.data), b"\0" * 16]

    assert await database.read(testset_pieces.read, "default", "ts_1", wanted) == {wanted[0]: piece.data}
    assert await database.read(testset_pieces.counts, "default", "ts_2", wanted) == {wanted[0]: piece.columns}
    assert await database.read(testset_pieces.read, "other", "ts_1", wanted) == {}
