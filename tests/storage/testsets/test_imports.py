"""What an import brings is its own until it is committed; what never is, is swept, and nothing else."""

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


async def begun(database: Database, at: datetime = NOW, testset: str = TS) -> ImportClaim:
    return await database.write(testset_imports.begin_import, P, testset, at)


async def stand(database: Database) -> None:
    """Make the set."""
    await database.write(
        testsets.create_testset, P, testsets.TestSet(id=TS, name="Refunds", created_at=NOW, updated_at=NOW)
    )


async def bring(database: Database, own: ImportClaim, *names: str) -> None:
    given = {name.encode().ljust(16): b'{"q":1}' for name in names}
    await database.write(testset_rows.insert_contents, P, own.testset, given, added=own.number)
    metas: dict[bytes, Any] = {name.encode().ljust(16): {"__id__": name} for name in names}
    await database.write(testset_rows.insert_metas, P, own.testset, metas, added=own.number)


async def kept(database: Database) -> list[str]:
    found = await database.read(lambda db: list(db.scalars(select(testset_contents.c.hash))))
    return sorted(bytes(one).decode().strip() for one in found)


async def under_way(database: Database) -> int:
    return len(await database.read(lambda db: db.execute(select(imports_table)).all()))


async def test_one_import_at_a_time_goes_into_a_set(database: Database) -> None:
    first = await begun(database)
    with pytest.raises(StillRunning, match="under way"):
        await begun(database, LATER)
    await begun(database, testset="ts_2")
    await database.write(testset_imports.end_import, first)

    again = await begun(database, LATER)

    assert (again.project, again.testset) == (P, TS)
    assert again.number != first.number


async def test_what_an_import_brought_is_swept_and_what_was_there_stays(database: Database) -> None:
    await stand(database)
    before = await begun(database)
    await bring(database, before, "old")
    await database.write(testset_imports.end_import, before)
    own = await begun(database, LATER)
    await bring(database, own, "old", "new")

    await sweep_import(database, own)

    assert (await kept(database), await under_way(database)) == (["old"], 0)
    metas = await database.read(testset_rows.read_metas, P, TS, [b"old".ljust(16), b"new".ljust(16)])
    assert metas == {b"old".ljust(16): {"__id__": "old"}}


async def test_a_commit_takes_over_what_an_import_brought(database: Database) -> None:
    await stand(database)
    own = await begun(database)
    await bring(database, own, "shared", "own")
    await database.write(testset_rows.insert_contents, P, TS, {b"shared".ljust(16): b'{"q":1}'})

    await sweep_import(database, own)

    assert await kept(database) == ["shared"]


async def test_what_was_committed_is_not_swept(database: Database) -> None:
    await stand(database)
    own = await begun(database)
    await bring(database, own, "new")
    await database.write(testset_imports.end_import, own)

    await sweep_import(database, own)

    assert await kept(database) == ["new"]


async def test_of_a_set_that_is_no_more_everything_is_swept(database: Database) -> None:
    await stand(database)
    own = await begun(database)
    await bring(database, own, "old")
    await database.write(testset_imports.end_import, own)
    left = await database.write(testsets.delete_testset, P, TS, check=lambda _: None, at=LATER)

    await sweep_import(database, left)

    assert (await kept(database), await under_way(database)) == ([], 0)


async def test_more_than_one_piece_is_swept(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testset_imports, "SWEEP_BATCH", 3)
    await stand(database)
    own = await begun(database)
    await bring(database, own, *(f"new {number}" for number in range(10)))

    await sweep_import(database, own)

    assert await kept(database) == []


async def test_an_import_of_which_nothing_is_heard_is_swept_and_cannot_go_on(database: Database) -> None:
    own = await begun(database)
    await bring(database, own, "new")
    await sweep_dead_imports(database, NOW + testset_imports.IMPORT_TIMEOUT)
    still = await kept(database)
    dead = await database.write(testset_imports.claim_dead_import, LATER)
    with pytest.raises(StillRunning, match="given up"):
        await database.write(testset_imports.keep_import_alive, own, LATER)
    await sweep_dead_imports(database, LATER + 2 * testset_imports.IMPORT_TIMEOUT)

    assert (still, dead, await kept(database), await under_way(database)) == (["new"], own, [], 0)


async def test_one_that_says_it_is_at_work_is_left_alone(database: Database) -> None:
    own = await begun(database)
    await bring(database, own, "new")
    await database.write(testset_imports.keep_import_alive, own, LATER)

    await sweep_dead_imports(database, LATER)

    assert (await kept(database), await under_way(database)) == (["new"], 1)
