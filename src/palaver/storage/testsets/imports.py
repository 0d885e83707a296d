"""Imports in progress, and the removal of what dead imports and deleted test sets leave behind."""

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
"""So long unseen, whoever made it is gone."""
SWEEP_BATCH = 2_000
_SWEPT_TABLES = ((testset_contents, "hash"), (testset_meta, "row"), (testset_pieces, "digest"))
"""Pieces come with their revision: of a set that stands, there are none to sweep."""


class ImportClaim(NamedTuple):
    """One of them."""

    project: str
    testset: str
    number: int


class SweepProgress(NamedTuple):
    """How far sweeping has come."""

    table: int = 0
    after: bytes = b""


SWEEP_START = SweepProgress()


def begin_import(db: Connection, project: str, testset: str, at: datetime) -> ImportClaim:
    """A new one; StillRunning if the set has one already, even if that has died: it is to be swept first."""
    number = _new_number()
    try:
        with db.begin_nested():
            db.execute(
                insert(table).values(project=project, testset=testset, number=number, given_up=False, seen_at=at)
            )
    except IntegrityError:
        raise StillRunning("Another import into this test set is under way: try again when it has ended.") from None
    return ImportClaim(project, testset, number)


def keep_import_alive(db: Connection, own: ImportClaim, at: datetime) -> None:
    """It is still at work; StillRunning if somebody has given it up, and sweeps what it brought."""
    if not db.execute(update(table).where(*_is_import(own), table.c.given_up.is_(False)).values(seen_at=at)).rowcount:
        raise StillRunning("This import was given up, as nothing was heard of it for too long: send it again.")


def end_import(db: Connection, own: ImportClaim) -> None:
    """What it brought belongs to the set now, or is gone."""
    db.execute(delete(table).where(*_is_import(own)))


def claim_deleted_testset(db: Connection, project: str, testset: str, at: datetime) -> ImportClaim:
    """What all of a set that is no more is swept as. An import into it that goes on will notice."""
    db.execute(delete(table).where(table.c.project == project, table.c.testset == testset))
    own = ImportClaim(project, testset, _new_number())
    db.execute(insert(table).values(**own._asdict(), given_up=True, seen_at=at))
    return own


def claim_dead_import(db: Connection, now: datetime, testset: str | None = None) -> ImportClaim | None:
    """One of which nothing was heard for long, of that set or of any; from here on it is the caller's to sweep."""
    query = select(table).where(table.c.seen_at < now - IMPORT_TIMEOUT)
    if testset is not None:
        query = query.where(table.c.testset == testset)
    row = db.execute(query.limit(1)).one_or_none()
    if row is None:
        return None
    own = ImportClaim(row.project, row.testset, row.number)
    old = (*_is_import(own), table.c.seen_at == row.seen_at)
    taken = db.execute(update(table).where(*old).values(given_up=True, seen_at=now)).rowcount
    return own if taken else None


def sweep_batch(db: Connection, own: ImportClaim, so_far: SweepProgress = SWEEP_START) -> SweepProgress | None:
    """Erase some of what an import brought, or of a set that is no more; how far that is, or None: nothing is left.

    In pieces, so that others can write in between, and from left to right, so that nothing is looked at twice.
    """
    # Whoever commits it at this moment is waited for, or comes too late.
    if not db.execute(update(table).where(*_is_import(own)).values(given_up=True)).rowcount:
        return None
    stands = db.scalar(select(exists().where(testsets.c.project == own.project, testsets.c.id == own.testset)))
    swept, name = _SWEPT_TABLES[so_far.table]
    key: Any = swept.c[name]
    mine = [swept.c.project == own.project, swept.c.testset == own.testset, key > so_far.after]
    if stands:
        mine.append(swept.c.added == own.number)
    keys = [bytes(one) for one in db.scalars(select(key).where(*mine).order_by(key).limit(SWEEP_BATCH))]
    if keys:
        db.execute(delete(swept).where(*mine, key <= keys[-1]))
        return SweepProgress(so_far.table, keys[-1])
    if so_far.table + 1 < len(_SWEPT_TABLES) - bool(stands):
        return SweepProgress(so_far.table + 1)
    end_import(db, own)
    return None


def _new_number() -> int:
    """One that no other import of the set has had: not made of the time, as clocks are set back. Never 0."""
    return 1 + secrets.randbits(62)


def _is_import(own: ImportClaim) -> tuple[Any, Any, Any]:
    return table.c.project == own.project, table.c.testset == own.testset, table.c.number == own.number


async def sweep_import(database: Database, own: ImportClaim) -> None:
    """Erase all of it, a piece at a time. What was committed meanwhile stays."""
    so_far: SweepProgress | None = SWEEP_START
    while so_far is not None:
        so_far = await database.write(sweep_batch, own, so_far)
        await asyncio.sleep(0)  # Others want to write, too.


async def sweep_dead_imports(database: Database, now: datetime) -> None:
    """The same for all imports whose makers are gone."""
    while (dead := await database.write(claim_dead_import, now)) is not None:
        await sweep_import(database, dead)
