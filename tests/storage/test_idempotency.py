"""Requests with an Idempotency-Key are executed once, on every database, even concurrently."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from sqlalchemy import Connection, func, insert, select

from palaver.errors import IdempotencyMismatch
from palaver.storage import idempotency
from palaver.storage.database import Database
from palaver.storage.idempotency import IdempotentRequest, StoredResponse
from palaver.storage.tables import idempotency as table
from palaver.storage.tables import projects

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
REQUEST = IdempotentRequest(project="default", owner="", route="POST /api/boards", key="k1", digest=b"d" * 32, at=NOON)
RESPONSE = StoredResponse(status=201, headers=[("location", "/x"), ("etag", '"1"')], body=b'{"a": 1}')


def project_creator(name: str):
    def work(db: Connection) -> StoredResponse:
        db.execute(insert(projects).values(name=name, created_at=NOON))
        return RESPONSE

    return work


def count_rows(db: Connection) -> tuple[int, int]:
    created = db.scalar(select(func.count()).select_from(projects).where(projects.c.name != "default")) or 0
    return created, db.scalar(select(func.count()).select_from(table)) or 0


def changed_request(**changes: object) -> IdempotentRequest:
    return msgspec.structs.replace(REQUEST, **changes)


async def test_repeated_request_returns_the_first_response(database: Database) -> None:
    first = await database.write(idempotency.run_once, REQUEST, project_creator("a"))
    second = await database.write(
        idempotency.run_once, changed_request(at=NOON + timedelta(hours=23)), project_creator("b")
    )

    assert (first, second) == ((RESPONSE, False), (RESPONSE, True))
    assert await database.read(count_rows) == (1, 1)


async def test_same_key_with_another_body_is_rejected(database: Database) -> None:
    await database.write(idempotency.run_once, REQUEST, project_creator("a"))

    with pytest.raises(IdempotencyMismatch, match="already used with a different request"):
        await database.write(idempotency.run_once, changed_request(digest=b"e" * 32), project_creator("b"))


@pytest.mark.parametrize("change", [{"project": "other"}, {"owner": "ab12cd34"}, {"route": "POST /x"}, {"key": "k2"}])
async def test_key_applies_to_one_project_owner_and_route(database: Database, change: dict[str, str]) -> None:
    await database.write(idempotency.run_once, REQUEST, project_creator("a"))
    _, replayed = await database.write(idempotency.run_once, changed_request(**change), project_creator("b"))

    assert not replayed
    assert await database.read(count_rows) == (2, 2)


async def test_stored_response_expires_after_a_day(database: Database) -> None:
    await database.write(idempotency.run_once, REQUEST, project_creator("a"))
    tomorrow = NOON + timedelta(hours=24)
    _, replayed = await database.write(
        idempotency.run_once, changed_request(at=tomorrow, digest=b"e" * 32), project_creator("b")
    )
    deleted_before = await database.write(idempotency.delete_expired_responses, tomorrow + timedelta(hours=23))
    deleted_after = await database.write(idempotency.delete_expired_responses, tomorrow + timedelta(hours=24))

    assert (replayed, deleted_before, deleted_after) == (False, 0, 1)


async def test_failed_request_can_be_retried(database: Database) -> None:
    def fail(db: Connection) -> StoredResponse:
        project_creator("a")(db)
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await database.write(idempotency.run_once, REQUEST, fail)
    _, replayed = await database.write(idempotency.run_once, REQUEST, project_creator("a"))

    assert not replayed
    assert await database.read(count_rows) == (1, 1)


async def test_only_one_of_many_concurrent_requests_is_executed(database: Database) -> None:
    attempts = [database.write(idempotency.run_once, REQUEST, project_creator(f"p{number}")) for number in range(20)]
    results = await asyncio.gather(*attempts)

    assert [response for response, _ in results] == [RESPONSE] * 20
    assert sorted(replayed for _, replayed in results) == [False, *[True] * 19]
    assert await database.read(count_rows) == (1, 1)


async def test_run_can_be_stored_instead_of_a_response(database: Database) -> None:
    def start(db: Connection) -> StoredResponse | None:
        before = idempotency.claim_key(db, REQUEST)
        if before is None:
            idempotency.store_response(db, REQUEST, StoredResponse(run="run_1"))
        return before

    assert await database.write(start) is None
    assert await database.write(start) == StoredResponse(run="run_1", headers=[])
