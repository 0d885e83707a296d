"""Idempotency keys: a request is carried out once, and its response is replayed.

Claim, work and response are one transaction: of two concurrent requests the second waits and finds the response. A run
is claimed under its id before it starts, so that the second request can follow it; a claim whose run never started,
because its process died, expires.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

import msgspec
from sqlalchemy import Connection, Row, delete, select, update

from palaver.errors import IdempotencyMismatch
from palaver.storage import runs
from palaver.storage.schema import dialect_insert
from palaver.storage.tables import idempotency as table

RESPONSE_TTL = timedelta(hours=24)
CLAIM_TIMEOUT = timedelta(minutes=15)
"""Long enough for a turn that waits for others before its run starts."""
_KEY_FIELDS = ("project", "owner", "route", "key")


class IdempotentRequest(msgspec.Struct, frozen=True, kw_only=True):
    project: str
    owner: str
    """The id of the caller's API key, or empty."""
    route: str
    key: str
    digest: bytes
    """SHA-256 of the request."""
    at: datetime


class StoredResponse(msgspec.Struct, frozen=True, kw_only=True):
    status: int | None = None
    """None: no response is stored, follow the run."""
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    run: str | None = None


def claim_key(db: Connection, request: IdempotentRequest) -> StoredResponse | None:
    """Claim the key. Returns the response of an earlier request, or None: the caller must `store_response`.

    Raises IdempotencyMismatch if the key was used with another request.
    """
    conditions = _key_conditions(request)
    db.execute(delete(table).where(*conditions, table.c.created_at <= request.at - RESPONSE_TTL))
    fields = msgspec.structs.asdict(request)
    values = {name: fields[name] for name in (*_KEY_FIELDS, "digest")} | {"created_at": request.at}
    statement = dialect_insert(db, table).values(values).on_conflict_do_nothing()
    if db.execute(statement.returning(table.c.key)).first() is not None:
        return None
    return _stored_response(db.execute(select(table).where(*conditions)).one(), request)


def _stored_response(row: Row[Any], request: IdempotentRequest) -> StoredResponse:
    if row.digest != request.digest:
        raise IdempotencyMismatch("This Idempotency-Key was already used with a different request. Use a new key.")
    headers = [cast("tuple[str, str]", tuple(pair)) for pair in row.headers or ()]
    return StoredResponse(status=row.status, headers=headers, body=row.body or b"", run=row.run)


def find_response(db: Connection, request: IdempotentRequest) -> StoredResponse | None:
    """Look up a stored response without claiming the key."""
    row = db.execute(
        select(table).where(*_key_conditions(request), table.c.created_at > request.at - RESPONSE_TTL)
    ).one_or_none()
    return None if row is None else _stored_response(row, request)


def store_response(db: Connection, request: IdempotentRequest, response: StoredResponse) -> None:
    values = {"status": response.status, "headers": list(response.headers), "body": response.body, "run": response.run}
    db.execute(update(table).where(*_key_conditions(request)).values(values))


def run_once(
    db: Connection, request: IdempotentRequest, work: Callable[[Connection], StoredResponse]
) -> tuple[StoredResponse, bool]:
    """Do the work unless it was done before; returns the response and whether it is a replay."""
    earlier = claim_key(db, request)
    if earlier is not None:
        return earlier, True
    response = work(db)
    store_response(db, request, response)
    return response, False


def delete_expired_responses(db: Connection, now: datetime) -> int:
    """Delete expired responses; returns their number."""
    return db.execute(delete(table).where(table.c.created_at <= now - RESPONSE_TTL)).rowcount


def _key_conditions(request: IdempotentRequest) -> list[Any]:
    fields = msgspec.structs.asdict(request)
    return [table.c[name] == fields[name] for name in _KEY_FIELDS]


def claim_for_run(db: Connection, request: IdempotentRequest, run: str) -> StoredResponse | None:
    """Claim the key for a run. On None the caller must start the run, or release the claim."""
    response = claim_key(db, request)
    if response is not None and not _is_abandoned(db, request, response):
        return response
    db.execute(update(table).where(*_key_conditions(request)).values(run=run, created_at=request.at))
    return None


def release_claim(db: Connection, request: IdempotentRequest, run: str) -> None:
    """Release the claim of a run that was not started, so that a retry can start it."""
    if runs.get_run(db, request.project, run) is None:
        db.execute(delete(table).where(*_key_conditions(request), table.c.run == run))


def _is_abandoned(db: Connection, request: IdempotentRequest, response: StoredResponse) -> bool:
    if response.status is not None or (
        response.run is not None and runs.get_run(db, request.project, response.run) is not None
    ):
        return False
    since = db.scalar(select(table.c.created_at).where(*_key_conditions(request)))
    return since is not None and request.at - since >= CLAIM_TIMEOUT
