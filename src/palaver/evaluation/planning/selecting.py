"""Which rows of a revision an evaluation runs over: those named, and a sample that is the same whenever it is drawn."""

import hashlib
from heapq import nsmallest

from palaver.errors import InvalidValue
from palaver.evaluation.planning.plans import ROW_BYTES, WantedRows
from palaver.testsets.rows import pack_row_id

_ID_BYTES = 16


def chosen(rows: bytes, wanted: WantedRows | None) -> bytes:
    """The rows that are wanted, packed as they came and in their order; a filter has been applied before."""
    if wanted is None:
        return rows
    if wanted.ids is not None:
        rows = _named(rows, wanted.ids)
    if wanted.sample is not None:
        rows = _sample(rows, wanted.sample, wanted.seed)
    return rows if wanted.limit is None else rows[: wanted.limit * ROW_BYTES]


def _named(rows: bytes, ids: tuple[str, ...]) -> bytes:
    places = {rows[at : at + _ID_BYTES]: at for at in range(0, len(rows), ROW_BYTES)}
    found: set[int] = set()
    for number, name in enumerate(ids):
        try:
            place = places.get(pack_row_id(name))
        except ValueError:
            place = None
        if place is None:
            raise InvalidValue(f"The revision has no row {name[:80]!r}.", pointer=f"/testset/rows/ids/{number}")
        found.add(place)
    return b"".join(rows[at : at + ROW_BYTES] for at in sorted(found))


def _sample(rows: bytes, count: int, seed: int) -> bytes:
    """Those whose ids come first when all are shuffled by the seed: a row keeps its rank when others come and go.

    So two revisions of one set share most of a sample, and can be compared row by row.
    """
    key = seed.to_bytes(8)

    def rank(at: int) -> bytes:
        return hashlib.blake2b(rows[at : at + _ID_BYTES], key=key, digest_size=8).digest()

    places = range(0, len(rows), ROW_BYTES)
    drawn = places if count >= len(places) else sorted(nsmallest(count, places, key=rank))
    return b"".join(rows[at : at + ROW_BYTES] for at in drawn)
