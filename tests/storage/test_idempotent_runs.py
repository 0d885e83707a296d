"""Runs claimed by an Idempotency-Key, on every database: started once, unless the claim is abandoned."""

import asyncio
from datetime import UTC, datetime

import msgspec
import pytest

from palaver.errors import IdempotencyMismatch
from palaver.storage import idempotency
from palaver.storage.database import Database
from palaver.storage.idempotency import CLAIM_TIMEOUT, IdempotentRequest, StoredResponse
from tests.storage.test_run_lists import insert_run

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
REQUEST = IdempotentRequest(project="mine", owner="", route="POST /tutor/invoke", key="k1", digest=b"d" * 32, at=NOON)


async def test_one_of_many_concurrent_claims_wins_and_the_others_get_its_run(database: Database) -> None:
    names = [f"run_{n}" for n in range(8)]

    result = await asyncio.gather(*(database.write(idempotency.claim_for_run, REQUEST, name) for name in names))

    (first,) = [name for name, stored in zip(names, result, strict=True) if stored is None]
    assert [(stored.status, stored.run) for stored in result if stored is not None] == [(None, first)] * 7


async def test_same_key_with_another_body_is_rejected(database: Database) -> None:
    await database.write(idempotency.claim_for_run, REQUEST, "run_1")

    with pytest.raises(IdempotencyMismatch):
        await database.write(idempotency.claim_for_run, msgspec.structs.replace(REQUEST, digest=b"e" * 32), "run_2")


async def test_released_claim_can_be_taken_by_another_run(database: Database) -> None:
    await database.write(idempotency.claim_for_run, REQUEST, "run_1")

    await database.write(idempotency.release_claim, REQUEST, "run_of_somebody_else")
    existing = await database.write(idempotency.claim_for_run, REQUEST, "run_2")
    await database.write(idempotency.release_claim, REQUEST, "run_1")
    free = await database.write(idempotency.claim_for_run, REQUEST, "run_3")

    assert existing is not None
    assert (existing.run, free) == ("run_1", None)


async def test_claim_of_a_stored_run_cannot_be_released(database: Database) -> None:
    run = await insert_run(database, 0)
    await database.write(idempotency.claim_for_run, REQUEST, run)

    await database.write(idempotency.release_claim, REQUEST, run)
    second = await database.write(idempotency.claim_for_run, REQUEST, "run_2")

    assert second is not None
    assert second.run == run


@pytest.mark.parametrize("state", ["nothing", "a run", "an answer"])
async def test_claim_without_run_or_response_is_taken_over_after_the_timeout(database: Database, state: str) -> None:
    run = await insert_run(database, 0) if state == "a run" else "run_1"
    await database.write(idempotency.claim_for_run, REQUEST, run)
    if state == "an answer":
        await database.write(idempotency.store_response, REQUEST, StoredResponse(status=202, run=run))

    soon = await database.write(
        idempotency.claim_for_run, msgspec.structs.replace(REQUEST, at=NOON + CLAIM_TIMEOUT / 2), "run_2"
    )
    late = await database.write(
        idempotency.claim_for_run, msgspec.structs.replace(REQUEST, at=NOON + CLAIM_TIMEOUT), "run_3"
    )

    assert soon is not None
    assert soon.run == run
    assert (late is None) == (state == "nothing")
