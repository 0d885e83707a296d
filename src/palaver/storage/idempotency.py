"""Idempotency keys: a request is carried out once and its response is replayed."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite

from palaver.errors import IdempotencyMismatch
from palaver.storage import runs
from palaver.storage.tables import idempotency
from palaver.storage.tables import idempotency as table

RESPONSE_TTL = timedelta(hours=24)
_T = TypeVar("_T")


class IdempotentRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is to be done once."""

    project: str
    owner: str
    """The id of the caller's key; nothing where there are none."""
    route: str
    key: str
    digest: bytes
    """What was asked for, as a SHA-256."""
    at: datetime


class StoredResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The answer that was given."""

    status: int | None = None
    """None: none is kept; the run tells."""
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    run: str | None = None


def claim_key(db: Connection, once: IdempotentRequest) -> StoredResponse | None:
    """What was answered to the same before; None: this is the first, and the caller must `keep` its answer."""
    key = _key(once)
    db.execute(delete(idempotency).where(*key, idempotency.c.created_at <= once.at - RESPONSE_TTL))
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
    return _stored_response(db.execute(select(idempotency).where(*key)).one(), once)


def _stored_response(row: Row[Any], once: IdempotentRequest) -> StoredResponse:
    if row.digest != once.digest:
        raise IdempotencyMismatch("This Idempotency-Key was used with another body: take a new one.")
    headers = [cast("tuple[str, str]", tuple(pair)) for pair in row.headers or ()]
    return StoredResponse(status=row.status, headers=headers, body=row.body or b"", run=row.run)


def find_response(db: Connection, once: IdempotentRequest) -> StoredResponse | None:
    """The same, for who only wants to know."""
    row = db.execute(
        select(idempotency).where(*_key(once), idempotency.c.created_at > once.at - RESPONSE_TTL)
    ).one_or_none()
    return None if row is None else _stored_response(row, once)


def store_response(db: Connection, once: IdempotentRequest, kept: StoredResponse) -> None:
    """Keep the answer to what was claimed."""
    values = {"status": kept.status, "headers": list(kept.headers), "body": kept.body, "run": kept.run}
    db.execute(update(idempotency).where(*_key(once)).values(values))


def run_once(
    db: Connection, once: IdempotentRequest, work: Callable[[Connection], StoredResponse]
) -> tuple[StoredResponse, bool]:
    """Do it, unless it was done; its answer, and whether it is given again."""
    before = claim_key(db, once)
    if before is not None:
        return before, True
    kept = work(db)
    store_response(db, once, kept)
    return kept, False


def delete_expired_responses(db: Connection, now: datetime) -> int:
    """Let go of answers that are old; how many there were."""
    return db.execute(delete(idempotency).where(idempotency.c.created_at <= now - RESPONSE_TTL)).rowcount


def _key(once: IdempotentRequest) -> list[Any]:
    columns = idempotency.c
    return [
        columns.project == once.project,
        columns.owner == once.owner,
        columns.route == once.route,
        columns.key == once.key,
    ]


CLAIM_TIMEOUT = timedelta(minutes=15)
"""A turn may wait for others before its run begins."""


def claim_for_run(db: Connection, once: IdempotentRequest, run: str) -> StoredResponse | None:
    """What was begun by the same before; None: this run is to be begun, or the claim released."""
    kept = claim_key(db, once)
    if kept is not None and not _is_abandoned(db, once, kept):
        return kept
    db.execute(update(table).where(*_claim_key(once)).values(run=run, created_at=once.at))
    return None


def release_claim(db: Connection, once: IdempotentRequest, run: str) -> None:
    """If nothing was begun, another may."""
    if runs.get_run(db, once.project, run) is None:
        db.execute(delete(table).where(*_claim_key(once), table.c.run == run))


def _is_abandoned(db: Connection, once: IdempotentRequest, kept: StoredResponse) -> bool:
    if kept.status is not None or (kept.run is not None and runs.get_run(db, once.project, kept.run) is not None):
        return False
    since = db.scalar(select(table.c.created_at).where(*_claim_key(once)))
    return since is not None and once.at - since >= CLAIM_TIMEOUT


def _claim_key(once: IdempotentRequest) -> list[ColumnElement[bool]]:
    key = (table.c.project, once.project), (table.c.owner, once.owner), (table.c.route, once.route)
    return [column == value for column, value in (*key, (table.c.key, once.key))]
