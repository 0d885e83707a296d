"""Changing columns touches every row: so the new contents are brought in as an import's are, a batch at a time.

Then a commit only says which rows have which of them, however large the set is.
"""

from collections.abc import Iterable, Mapping

import msgspec

from palaver.core import jsons
from palaver.storage.database import Database
from palaver.storage.testsets.pieces import split
from palaver.storage.testsets.rows import contents
from palaver.testsets.delta import ColumnChanges, recolumned
from palaver.testsets.gathering import entries_of
from palaver.testsets.limits import Limits
from palaver.testsets.rows import row_hash
from palaver.testsets.scripts import check_scripts
from palaver.testsets.staging import BATCH, Staging

_POINTER = "/delta/columns"
Rehashed = Mapping[bytes, bytes]
"""By the hash that a content had, the one that it has with changed columns."""


async def recolumn(
    database: Database,
    staging: Staging,
    project: str,
    testset: str,
    base: int,
    changes: ColumnChanges,
    limits: Limits,
) -> Rehashed:
    """Bring in what all rows of a revision hold once their columns have changed."""
    entries = await database.read(entries_of, project, testset, base)
    every = list(dict.fromkeys(hashed for _, hashed in split(entries)))
    rehashed: dict[bytes, bytes] = {}
    for start in range(0, len(every), BATCH):
        kept = await database.read(contents, project, testset, every[start : start + BATCH])
        some, new = changed(kept.items(), changes, limits)
        rehashed |= some
        await staging.put(new, {})
    return rehashed


def changed(
    kept: Iterable[tuple[bytes, bytes]], changes: ColumnChanges, limits: Limits
) -> tuple[dict[bytes, bytes], dict[bytes, bytes]]:
    """The new hash of each content, and the contents by that."""
    rehashed: dict[bytes, bytes] = {}
    new: dict[bytes, bytes] = {}
    for old, raw in kept:
        data = recolumned(msgspec.json.decode(raw), changes)
        written = jsons.encode(data)
        limits.check_row(len(written), _POINTER)
        if changes.fill:
            check_scripts(data, _POINTER)
        rehashed[old] = row_hash(data)
        new[rehashed[old]] = written
    return rehashed, new
