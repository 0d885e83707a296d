"""Idempotency-Key: a POST that is sent again, because its answer was lost, does nothing and gets the same answer."""

import hashlib
from collections.abc import Callable
from datetime import datetime
from typing import Any

from litestar import Response
from sqlalchemy import Connection

from palaver.protocols.base import HttpResponse
from palaver.server.api.conventions import Asked, caller_of, response, utc_now
from palaver.server.idempotency import HEADER, REPLAYED_HEADER, create_claim, validate_key
from palaver.storage import idempotency
from palaver.storage.database import Database
from palaver.storage.idempotency import IdempotentRequest, StoredResponse


async def once(
    request: Asked,
    database: Database,
    raw: bytes,
    work: Callable[[Connection], HttpResponse],
    *,
    now: Callable[[], datetime] = utc_now,
) -> Response[Any]:
    """Do what a POST with that body asks for, in one transaction, and answer it; a second time only the latter."""
    wanted = asked_once(request, raw, now())
    if wanted is None:
        return response(await database.write(work))
    kept, again = await database.write(idempotency.run_once, wanted, lambda db: _kept(work(db)))
    return _told(kept, again=again)


async def answered(
    request: Asked, database: Database, raw: bytes, *, now: Callable[[], datetime] = utc_now
) -> Response[Any] | None:
    """What the same was answered before: for who has to do much before they come to `once`."""
    wanted = asked_once(request, raw, now())
    kept = None if wanted is None else await database.read(idempotency.find_response, wanted)
    return None if kept is None else _told(kept, again=True)


def _told(kept: StoredResponse, *, again: bool) -> Response[Any]:
    told = response(HttpResponse(status=kept.status or 200, headers=tuple(kept.headers), body=kept.body))
    if again:
        name, value = REPLAYED_HEADER
        told.headers[name] = value
    return told


def asked_once(request: Asked, raw: bytes, now: datetime) -> IdempotentRequest | None:
    """What is to be done once, if the request says so."""
    key = request.headers.get(HEADER)
    if key is None:
        return None
    validate_key(key)
    query = request.scope["query_string"]
    digest = hashlib.sha256(len(query).to_bytes(8) + query + raw).digest()
    return create_claim(caller_of(request), key, f"{request.method} {request.scope['path']}", digest, now)


def _kept(answer: HttpResponse) -> StoredResponse:
    return StoredResponse(status=answer.status, headers=answer.headers, body=answer.body)
