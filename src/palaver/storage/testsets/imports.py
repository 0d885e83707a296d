"""Imports under way: one a set. What an import has brought is its own until it is committed, and swept if it never is.

Everything that it adds carries its number. A commit that finds something of the kind takes it over, so that sweeping
never takes away what a revision needs. A set that was erased is swept as a whole, the same way.
"""

import secrets
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, exists, insert, select, update
from sqlalchemy.exc import IntegrityError

from palaver.errors import StillRunning
from palaver.storage.testsets.tables import testset_contents, testset_meta, testset_pieces, testsets
from palaver.storage.testsets.tables import testset_imports as table

DEAD = timedelta(seconds=120)
"""So long unseen, whoever made it is gone."""
PIECE = 2_000
_SWEPT = ((testset_contents, "hash"), (testset_meta, "row"), (testset_pieces, "digest"))
"""Pieces come with their revision: of a set that stands, there are none to sweep."""


class Import(NamedTuple):
    """One of them."""

    project: str
    testset: str
    number: int


class Swept(NamedTuple):
    """How far sweeping has come."""

    table: int = 0
    after: bytes = b""


START = Swept()


def begin(db: Connection, project: str, testset: str, at: datetime) -> Import:
    """A new one; StillRunning if the set has one already, even if that has died: it is to be swept first."""
    number = _number()
    try:
        with db.begin_nested():
            db.execute(
                insert(table).values(project=project, testset=testset, number=number, given_up=False, seen_at=at)
            )
    except IntegrityError:
        raise StillRunning("Another import into this test set is under way: try again when it has ended.") from None
    return Import(project, testset, number)


def stay(db: Connection, own: Import, at: datetime) -> None:
    """It is still at work; StillRunning if somebody has given it up, and sweeps what it brought."""
    if not db.execute(update(table).where(*_is(own), table.c.given_up.is_(False)).values(seen_at=at)).rowcount:
        raise StillRunning("This import was given up, as nothing was heard of it for too long: send it again.")


def end(db: Connection, own: Import) -> None:
    """What it brought belongs to the set now, or is gone."""
    db.execute(delete(table).where(*_is(own)))


def take_over(db: Connection, project: str, testset: str, at: datetime) -> Import:
    """What all of a set that is no more is swept as. An import into it that goes on will notice."""
    db.execute(delete(table).where(table.c.project == project, table.c.testset == testset))
    own = Import(project, testset, _number())
    db.execute(insert(table).values(**own._asdict(), given_up=True, seen_at=at))
    return own


def dead(db: Connection, now: datetime, testset: str | None = None) -> Import | None:
    """One of which nothing was heard for long, of that set or of any; from here on it is the caller's to sweep."""
    query = select(table).where(table.c.seen_at < now - DEAD)
    if testset is not None:
        query = query.where(table.c.testset == testset)
    row = db.execute(query.limit(1)).one_or_none()
    if row is None:
        return None
    own = Import(row.project, row.testset, row.number)
    old = (*_is(own), table.c.seen_at == row.seen_at)
    taken = db.execute(update(table).where(*old).values(given_up=True, seen_at=now)).rowcount
    return own if taken else None


def sweep_some(db: Connection, own: Import, so_far: Swept = START) -> Swept | None:
    """Erase some of what an import brought, or of a set that is no more; how far that is, or None: nothing is left.

    In pieces, so that others can write in between, and from left to right, so that nothing is looked at twice.
    """
    # Whoever commits it at this moment is waited for, or comes too late.
    if not db.execute(update(table).where(*_is(own)).values(given_up=True)).rowcount:
        return None
    stands = db.scalar(select(exists().where(testsets.c.project == own.project, testsets.c.id == own.testset)))
    swept, name = _SWEPT[so_far.table]
    key: Any = swept.c[name]
    mine = [swept.c.project == own.project, swept.c.testset == own.testset, key > so_far.after]
    if stands:
        mine.append(swept.c.added == own.number)
    keys = [bytes(one) for one in db.scalars(select(key).where(*mine).order_by(key).limit(PIECE))]
    if keys:
        db.execute(delete(swept).where(*mine, key <= keys[-1]))
        return Swept(so_far.table, keys[-1])
    if so_far.table + 1 < len(_SWEPT) - bool(stands):
        return Swept(so_far.table + 1)
    end(db, own)
    return None


def _number() -> int:
    """One that no other import of the set has had: not made of the time, as clocks are set back. Never 0."""
    return 1 + secrets.randbits(62)


def _is(own: Import) -> tuple[Any, Any, Any]:
    return table.c.project == own.project, table.c.testset == own.testset, table.c.number == own.number
