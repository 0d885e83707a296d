"""Test sets and their revisions in the database."""

from datetime import UTC, datetime
from typing import Any

import pytest

from palaver.errors import InvalidValue, NameTaken, NotFound
from palaver.storage.database import Database
from palaver.storage.notifications import Change
from palaver.storage.pagination import Window
from palaver.storage.testsets import repository as testset_revisions
from palaver.storage.testsets import repository as testsets
from palaver.storage.testsets.repository import Revision
from palaver.storage.testsets.row_chunks import ChunkRef

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
P = "default"


def make_testset(id: str = "ts_1", name: str = "Refunds", **more: Any) -> testsets.TestSet:
    return testsets.TestSet(id=id, name=name, created_at=NOW, updated_at=NOW, **more)


def make_revision(number: int, digest: str, **more: Any) -> Revision:
    return Revision(testset="ts_1", number=number, digest=digest, rows=0, columns=[], created_at=NOW, **more)


async def test_test_set_is_stored_and_found_by_id_and_name(database: Database) -> None:
    created = make_testset(description="ours", head=3, rows=7, columns=[{"name": "q", "kind": "text"}])
    await database.write(testsets.create_testset, P, created)

    assert await database.read(testsets.get_testset, P, "ts_1") == created
    assert await database.read(testsets.find_testset, P, "Refunds") == created
    assert await database.read(testsets.find_testset, "other", "Refunds") is None
    with pytest.raises(NotFound, match="Test set 'ts_1' not found"):
        await database.read(testsets.get_testset, "other", "ts_1")


async def test_test_set_names_are_unique_per_project(database: Database) -> None:
    await database.write(testsets.create_testset, P, make_testset())
    await database.write(testsets.create_testset, "other", make_testset())
    with pytest.raises(NameTaken):
        await database.write(testsets.create_testset, P, make_testset("ts_2"))


async def test_watchers_are_notified_of_test_set_changes(database: Database) -> None:
    changes: list[Change] = []
    await database.watch(changes.extend)
    await database.write(testsets.create_testset, P, make_testset())
    await database.write(testsets.update_testset, P, "ts_1", at=NOW, check=lambda _: None, name="Other")
    await database.write(testsets.update_testset, P, "ts_1", at=NOW, check=lambda _: None, name="Other")

    assert changes == [Change(P, "testset", "ts_1")] * 2


async def test_revision_is_found_by_number_head_or_digest_prefix(database: Database) -> None:
    first, second = f"b2:{'ab' * 32}", f"b2:{'ab' * 31}cd"
    stored = [
        make_revision(1, first),
        make_revision(2, second, parent=1),
        make_revision(3, first, parent=2, message="again"),
    ]
    for one in stored:
        await database.write(testset_revisions.insert_revision, P, one, [ChunkRef(b"\1" * 16, 5)])

    async def get(name: str | int) -> Revision:
        return await database.read(testset_revisions.get_revision, P, "ts_1", name, 3)

    assert [await get(name) for name in (1, "2", "head", first, second, second[3:])] == [
        stored[0],
        stored[1],
        stored[2],
        stored[2],
        stored[1],
        stored[1],
    ]
    with pytest.raises(InvalidValue, match="ambiguous"):
        await get("abababab")
    for name in (0, 4, "b2:abab", "cdcdcdcd", "HEAD", "b2:" + "g" * 8):
        with pytest.raises(NotFound):
            await get(name)
    assert await database.read(testset_revisions.list_chunks, P, "ts_1", 2) == [ChunkRef(b"\1" * 16, 5)]


async def test_revisions_are_listed_newest_first(database: Database) -> None:
    for number in range(1, 6):
        await database.write(testset_revisions.insert_revision, P, make_revision(number, f"b2:{number:064x}"), [])
    first = await database.read(testset_revisions.list_revisions, P, "ts_1", Window(3))
    second = await database.read(testset_revisions.list_revisions, P, "ts_1", Window(3, first.next))

    assert [one.number for one in (*first.data, *second.data)] == [5, 4, 3, 2, 1]
    assert second.next is None
