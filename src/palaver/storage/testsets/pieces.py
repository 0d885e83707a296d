"""Pieces: the list of a revision's rows, cut so that revisions which differ little share nearly all of it.

A list is 32 bytes a row: its packed id, and the hash of its data. It is cut after rows whose ids say so, one in about a
thousand: whether a row ends a piece does not depend on where it stands, so that a row more or less changes one piece. A
piece is known by the digest of what is in it.
"""

import hashlib
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite

from palaver.storage.testsets.lookup import looked_up
from palaver.storage.testsets.tables import testset_pieces as pieces_table

ENTRY = 32
"""Bytes of a row in the list,"""
ID = 16
"""and of its id in that."""
_LONGEST = 4_096
"""Rows of a piece, whatever their ids are: they may be a stranger's."""
_LAST, _BEFORE, _MASK = 15, 14, 0b11
"""A row ends its piece when the last byte of its id is 0, and two bits of the one before."""
_PLACE = struct.Struct(">16sI")


class Place(NamedTuple):
    """A piece of a revision."""

    digest: bytes
    rows: int


class Piece(NamedTuple):
    """A piece that is to be kept."""

    data: bytes
    columns: Any
    """What its rows add to the columns of a revision."""

    @property
    def place(self) -> Place:
        """What a revision says of it."""
        return Place(digest_of(self.data), len(self.data) // ENTRY)


# Lists


def ends(packed: bytes, rows: int) -> bool:
    """Does this row, the last of so many, end its piece?"""
    return rows >= _LONGEST or (packed[_LAST] == 0 and not packed[_BEFORE] & _MASK)


def cut(entries: bytes) -> list[bytes]:
    """The list in pieces, always the same ones for the same list."""
    last, before = entries[_LAST::ENTRY], entries[_BEFORE::ENTRY]
    pieces: list[bytes] = []
    start, rows = 0, len(last)
    while start < rows:
        end = start - 1
        while True:
            end = last.find(0, end + 1, start + _LONGEST)
            if end < 0:
                end = min(start + _LONGEST, rows) - 1
                break
            if not before[end] & _MASK:
                break
        pieces.append(entries[start * ENTRY : (end + 1) * ENTRY])
        start = end + 1
    return pieces


def digest_of(piece: bytes) -> bytes:
    """What a piece is known by."""
    return hashlib.blake2b(piece, digest_size=16).digest()


def digest_of_all(pieces: Iterable[bytes]) -> str:
    """What a revision is known by: made of its rows alone, and not of how they happen to be cut."""
    whole = hashlib.blake2b(digest_size=32)
    for piece in pieces:
        whole.update(piece)
    return f"b2:{whole.hexdigest()}"


def pack(places: Iterable[Place]) -> bytes:
    """The pieces of a revision, as they are kept with it."""
    return b"".join(_PLACE.pack(*place) for place in places)


def unpack(packed: bytes) -> list[Place]:
    """The pieces again."""
    return [Place(digest, count) for digest, count in _PLACE.iter_unpack(packed)]


def split(entries: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The packed id and the hash of each row."""
    for start in range(0, len(entries), ENTRY):
        yield entries[start : start + ID], entries[start + ID : start + ENTRY]


# In the database


def read(db: Connection, project: str, testset: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
    """What is in these pieces."""
    found = looked_up(db, pieces_table, "digest", "data", project, testset, digests)
    return {bytes(row.digest): bytes(row.data) for row in found}


def counts(db: Connection, project: str, testset: str, digests: Sequence[bytes]) -> dict[bytes, Any]:
    """What the rows of these pieces add to the columns of a revision; of those that there are."""
    found = looked_up(db, pieces_table, "digest", "columns", project, testset, digests)
    return {bytes(row.digest): row.columns for row in found}


def add(db: Connection, project: str, testset: str, pieces: Sequence[Piece]) -> None:
    """Keep these, of which some may be there already."""
    if not pieces:
        return
    insert: Any = postgresql.insert(pieces_table) if db.dialect.name == "postgresql" else sqlite.insert(pieces_table)
    rows = [
        {
            "project": project,
            "testset": testset,
            "digest": digest_of(piece.data),
            "columns": piece.columns,
            "data": piece.data,
        }
        for piece in pieces
    ]
    db.execute(insert.on_conflict_do_nothing(), rows)
