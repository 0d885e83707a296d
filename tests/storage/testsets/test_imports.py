"""Rows of an import are invisible until the commit; rows that are never committed are swept."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from palaver.errors import StillRunning
from palaver.storage.database import Database
from palaver.storage.testsets import imports as testset_imports
from palaver.storage.testsets import repository as testsets
from palaver.storage.testsets import rows as testset_rows
from palaver.storage.testsets.imports import ImportClaim, sweep_dead_imports, sweep_import
from palaver.storage.testsets.tables import testset_contents
from palaver.storage.testsets.tables import testset_imports as imports_table

P, TS = "default", "ts_1"
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
LATER = NOW + testset_imports.IMPORT_TIMEOUT + timedelta(seconds=1)


async def begin_import(database: Database, at: datetime = NOW, testset: str = TS) -> ImportClaim:
    return await database.write(testset_imports.begin_import, P, testset, at)


async def create_testset(database: Database) -> None:
    """Create the test set."""
    await database.write(
        testsets.create_testset, P, testsets.TestSet(id=TS, name="Refunds", created_at=NOW, updated_at=NOW)
    )


async def stage(database: Database, claim: ImportClaim, *names: str) -> None:
    contents = {name.encode().ljust(16): b'{"q":1}' for name in names}
    await database.write(testset_rows.insert_contents, P, claim.testset, contents, added=claim.number)
    metas: dict[bytes, Any] = {name.encode().ljust(16): {"__id__": name} for name in names}
    await database.write(testset_rows.insert_metas, P, claim.testset, metas, added=claim.number)


async def list_hashes(database: Database) -> list[str]:
    result = await database.read(lambda db: list(db.scalars(select(testset_contents.c.hash))))
    return sorted(bytes(one).decode().strip() for one in result)


async def count_imports(database: Database) -> int:
    return len(await database.read(lambda db: db.execute(select(imports_table)).all()))


async def test_test_set_has_one_active_import_at_a_time(database: Database) -> None:
    first = await begin_import(database)
    with pytest.raises(StillRunning, match="in progress"):
        await begin_import(database, LATER)
    await begin_import(database, testset="ts_2")
    await database.write(testset_imports.end_import, first)

    second = await begin_import(database, LATER)

    assert (second.project, second.testset) == (P, TS)
    assert second.number != first.number


async def test_sweep_deletes_rows_of_the_import_and_keeps_earlier_ones(database: Database) -> None:
    await create_testset(database)
    before = await begin_import(database)
    await stage(database, before, "old")
    await database.write(testset_imports.end_import, before)
    claim = await begin_import(database, LATER)
    await stage(database, claim, "old", "new")

    await sweep_import(database, claim)

    assert (await list_hashes(database), await count_imports(database)) == (["old"], 0)
    metas = await database.read(testset_rows.read_metas, P, TS, [b"old".ljust(16), b"new".ljust(16)])
    assert metas == {b"old".ljust(16): {"__id__": "old"}}


async def test_sweep_keeps_rows_that_a_commit_also_inserted(database: Database) -> None:
    await create_testset(database)
    claim = await begin_import(database)
    await stage(database, claim, "shared", "own")
    await database.write(testset_rows.insert_contents, P, TS, {b"shared".ljust(16): b'{"q":1}'})

    await sweep_import(database, claim)

    assert await list_hashes(database) == ["shared"]


async def test_committed_rows_are_not_swept(database: Database) -> None:
    await create_testset(database)
    claim = await begin_import(database)
    await stage(database, claim, "new")
    await database.write(testset_imports.end_import, claim)

    await sweep_import(database, claim)

    assert await list_hashes(database) == ["new"]


async def test_all_rows_of_a_deleted_test_set_are_swept(database: Database) -> None:
    await create_testset(database)
    claim = await begin_import(database)
    await stage(database, claim, "old")
    await database.write(testset_imports.end_import, claim)
    remaining = await database.write(testsets.delete_testset, P, TS, check=lambda _: None, at=LATER)

    await sweep_import(database, remaining)

    assert (await list_hashes(database), await count_imports(database)) == ([], 0)


async def test_sweep_deletes_more_than_one_batch(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testset_imports, "SWEEP_BATCH", 3)
    await create_testset(database)
    claim = await begin_import(database)
    await stage(database, claim, *(f"new {number}" for number in range(10)))

    await sweep_import(database, claim)

    assert await list_hashes(database) == []


async def test_dead_import_is_swept_and_cannot_continue(database: Database) -> None:
    claim = await begin_import(database)
    await stage(database, claim, "new")
    await sweep_dead_imports(database, NOW + testset_imports.IMPORT_TIMEOUT)
    after = await list_hashes(database)
    dead = await database.write(testset_imports.claim_dead_import, LATER)
    with pytest.raises(StillRunning, match="aborted"):
        await database.write(testset_imports.keep_import_alive, claim, LATER)
    await sweep_dead_imports(database, LATER + 2 * testset_imports.IMPORT_TIMEOUT)

    assert (after, dead, await list_hashes(database), await count_imports(database)) == (["new"], claim, [], 0)


async def test_import_with_a_recent_heartbeat_is_not_swept(database: Database) -> None:
    claim = await begin_import(database)
    await stage(database, claim, "new")
    await database.write(testset_imports.keep_import_alive, claim, LATER)

    await sweep_dead_imports(database, LATER)

    assert (await list_hashes(database), await count_imports(database)) == (["new"], 1)
