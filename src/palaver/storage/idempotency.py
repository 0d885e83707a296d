"""Answers that are given again: what was done under an Idempotency-Key is done once.

The claim, what is done and its answer are one transaction. Whatever happens, either all of it is there or nothing; and
of two requests that come at once, the second waits for the first and finds its answer.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

import msgspec
from sqlalchemy import Connection, Row, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite

from palaver.errors import IdempotencyMismatch
from palaver.storage.tables import idempotency

KEPT = timedelta(hours=24)
_T = TypeVar("_T")


class Once(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is to be done once."""

    project: str
    owner: str
    """The id of the caller's key; nothing where there are none."""
    route: str
    key: str
    digest: bytes
    """What was asked for, as a SHA-256."""
    at: datetime


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The answer that was given."""

    status: int | None = None
    """None: none is kept; the run tells."""
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    run: str | None = None


def claim(db: Connection, once: Once) -> Kept | None:
    """What was answered to the same before; None: this is the first, and the caller must `keep` its answer."""
    key = _key(once)
    db.execute(delete(idempotency).where(*key, idempotency.c.created_at <= once.at - KEPT))
    insert = postgresql.insert if db.dialect.name == "postgresql" else sqlite.insert
    values = {
        "project": once.project,
        "owner": once.owner,
        "route": once.route,
        "key": once.key,
        "digest": once.digest,
        "created_at": once.at,
    }
    first = insert(idempotency).values(values).on_conflict_do_nothing().returning(idempotency.c.key)
    if db.execute(first).first() is not None:
        return None
    return _given(db.execute(select(idempotency).where(*key)).one(), once)


def _given(row: Row[Any], once: Once) -> Kept:
    if row.digest != once.digest:
        raise IdempotencyMismatch("This Idempotency-Key was used with another body: take a new one.")
    headers = [cast("tuple[str, str]", tuple(pair)) for pair in row.headers or ()]
    return Kept(status=row.status, headers=headers, body=row.body or b"", run=row.run)


def find(db: Connection, once: Once) -> Kept | None:
    """The same, for who only wants to know."""
    row = db.execute(select(idempotency).where(*_key(once), idempotency.c.created_at > once.at - KEPT)).one_or_none()
    return None if row is None else _given(row, once)


def keep(db: Connection, once: Once, kept: Kept) -> None:
    """Keep the answer to what was claimed."""
    values = {"status": kept.status, "headers": list(kept.headers), "body": kept.body, "run": kept.run}
    db.execute(update(idempotency).where(*_key(once)).values(values))


def do(db: Connection, once: Once, work: Callable[[Connection], Kept]) -> tuple[Kept, bool]:
    """Do it, unless it was done; its answer, and whether it is given again."""
    before = claim(db, once)
    if before is not None:
        return before, True
    kept = work(db)
    keep(db, once, kept)
    return kept, False


def forget(db: Connection, now: datetime) -> int:
    """Let go of answers that are old; how many there were."""
    return db.execute(delete(idempotency).where(idempotency.c.created_at <= now - KEPT)).rowcount


def _key(once: Once) -> list[Any]:
    columns = idempotency.c
    return [
        columns.project == once.project,
        columns.owner == once.owner,
        columns.route == once.route,
        columns.key == once.key,
    ]
