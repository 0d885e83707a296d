"""Imports in progress, one per test set, and the removal of what dead imports and deleted test sets leave behind.

Rows added by an import carry its number until they are committed; a commit takes over rows that it needs. Rows of an
import that is never committed are swept, and so are all rows of a deleted test set.
"""

import asyncio
import secrets
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, exists, insert, select, update
from sqlalchemy.exc import IntegrityError

from palaver.errors import StillRunning
from palaver.storage.database import Database
from palaver.storage.testsets.tables import testset_contents, testset_meta, testset_pieces, testsets
from palaver.storage.testsets.tables import testset_imports as table

IMPORT_TIMEOUT = timedelta(seconds=120)
"""After this time without a sign of life an import counts as dead."""
SWEEP_BATCH = 2_000
_SWEPT_TABLES = ((testset_contents, "hash"), (testset_meta, "row"), (testset_pieces, "digest"))
"""Chunks are only added with a revision, so an existing test set has none to sweep."""


class ImportClaim(NamedTuple):
    project: str
    testset: str
    number: int


class SweepProgress(NamedTuple):
    table: int = 0
    after: bytes = b""


SWEEP_START = SweepProgress()


def begin_import(db: Connection, project: str, testset: str, at: datetime) -> ImportClaim:
    """Begin an import. Raises StillRunning if the set has one, even a dead one, which has to be swept first."""
    number = _new_number()
    try:
        with db.begin_nested():
            db.execute(
                insert(table).values(project=project, testset=testset, number=number, given_up=False, seen_at=at)
            )
    except IntegrityError:
        raise StillRunning(
            "Another import into this test set is in progress. Try again when it has finished."
        ) from None
    return ImportClaim(project, testset, number)


def keep_import_alive(db: Connection, claim: ImportClaim, at: datetime) -> None:
    """Report the import as alive. Raises StillRunning if it was given up and is being swept."""
    statement = update(table).where(*_import_conditions(claim), table.c.given_up.is_(False))
    if not db.execute(statement.values(seen_at=at)).rowcount:
        raise StillRunning("This import was aborted because it made no progress for too long. Send it again.")


def end_import(db: Connection, claim: ImportClaim) -> None:
    """End an import whose rows were committed or swept."""
    db.execute(delete(table).where(*_import_conditions(claim)))


def claim_deleted_testset(db: Connection, project: str, testset: str, at: datetime) -> ImportClaim:
    """Claim all rows of a deleted test set for sweeping. An import into it that still runs is given up."""
    db.execute(delete(table).where(table.c.project == project, table.c.testset == testset))
    claim = ImportClaim(project, testset, _new_number())
    db.execute(insert(table).values(**claim._asdict(), given_up=True, seen_at=at))
    return claim


def claim_dead_import(db: Connection, now: datetime, testset: str | None = None) -> ImportClaim | None:
    """Claim a dead import, of one test set or of any, for sweeping by the caller."""
    query = select(table).where(table.c.seen_at < now - IMPORT_TIMEOUT)
    if testset is not None:
        query = query.where(table.c.testset == testset)
    row = db.execute(query.limit(1)).one_or_none()
    if row is None:
        return None
    claim = ImportClaim(row.project, row.testset, row.number)
    unchanged = (*_import_conditions(claim), table.c.seen_at == row.seen_at)
    updated = db.execute(update(table).where(*unchanged).values(given_up=True, seen_at=now)).rowcount
    return claim if updated else None


def sweep_batch(db: Connection, claim: ImportClaim, progress: SweepProgress = SWEEP_START) -> SweepProgress | None:
    """Delete a batch of an import's or a deleted test set's rows; returns the progress, or None when done.

    In batches, so that others can write in between, and in key order, so that nothing is read twice.
    """
    # Waits for a concurrent commit, or makes it fail.
    if not db.execute(update(table).where(*_import_conditions(claim)).values(given_up=True)).rowcount:
        return None
    is_testset = (testsets.c.project == claim.project, testsets.c.id == claim.testset)
    testset_exists = db.scalar(select(exists().where(*is_testset)))
    swept_table, key_name = _SWEPT_TABLES[progress.table]
    key: Any = swept_table.c[key_name]
    conditions = [swept_table.c.project == claim.project, swept_table.c.testset == claim.testset, key > progress.after]
    if testset_exists:
        conditions.append(swept_table.c.added == claim.number)
    query = select(key).where(*conditions).order_by(key).limit(SWEEP_BATCH)
    keys = [bytes(key_bytes) for key_bytes in db.scalars(query)]
    if keys:
        db.execute(delete(swept_table).where(*conditions, key <= keys[-1]))
        return SweepProgress(progress.table, keys[-1])
    if progress.table + 1 < len(_SWEPT_TABLES) - bool(testset_exists):
        return SweepProgress(progress.table + 1)
    end_import(db, claim)
    return None


def _new_number() -> int:
    """Return a random number: clocks may be set back. Never 0."""
    return 1 + secrets.randbits(62)


def _import_conditions(claim: ImportClaim) -> tuple[Any, Any, Any]:
    return table.c.project == claim.project, table.c.testset == claim.testset, table.c.number == claim.number


async def sweep_import(database: Database, claim: ImportClaim) -> None:
    """Delete everything that an import added and that was not committed."""
    progress: SweepProgress | None = SWEEP_START
    while progress is not None:
        progress = await database.write(sweep_batch, claim, progress)
        await asyncio.sleep(0)  # Let other writers in.


async def sweep_dead_imports(database: Database, now: datetime) -> None:
    while (dead := await database.write(claim_dead_import, now)) is not None:
        await sweep_import(database, dead)
