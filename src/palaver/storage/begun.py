"""Runs that are begun under an Idempotency-Key: once. The run has its name from the claim on.

So whoever comes second knows which run to read. A claim whose run never came to be, as its process died in between, is
taken over after a while.
"""

from datetime import timedelta

from sqlalchemy import ColumnElement, Connection, delete, select, update

from palaver.storage import idempotency, runs
from palaver.storage.idempotency import Kept, Once
from palaver.storage.tables import idempotency as table

ABANDONED = timedelta(minutes=15)
"""A turn may wait for others before its run begins."""


def begin(db: Connection, once: Once, run: str) -> Kept | None:
    """What was begun by the same before; None: this run is to be begun, or the claim released."""
    kept = idempotency.claim(db, once)
    if kept is not None and not _is_abandoned(db, once, kept):
        return kept
    db.execute(update(table).where(*_key(once)).values(run=run, created_at=once.at))
    return None


def release(db: Connection, once: Once, run: str) -> None:
    """If nothing was begun, another may."""
    if runs.get(db, once.project, run) is None:
        db.execute(delete(table).where(*_key(once), table.c.run == run))


def _is_abandoned(db: Connection, once: Once, kept: Kept) -> bool:
    if kept.status is not None or (kept.run is not None and runs.get(db, once.project, kept.run) is not None):
        return False
    since = db.scalar(select(table.c.created_at).where(*_key(once)))
    return since is not None and once.at - since >= ABANDONED


def _key(once: Once) -> list[ColumnElement[bool]]:
    key = (table.c.project, once.project), (table.c.owner, once.owner), (table.c.route, once.route)
    return [column == value for column, value in (*key, (table.c.key, once.key))]
