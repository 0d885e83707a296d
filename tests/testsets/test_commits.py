"""Commits: rows and deltas give the same revision; of two concurrent commits the second is refused."""

import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from sqlalchemy import func, select

from palaver.errors import StaleBase
from palaver.storage.database import Database
from palaver.storage.pagination import Window
from palaver.storage.testsets import repository as testset_revisions
from palaver.storage.testsets import repository as testsets
from palaver.storage.testsets.repository import Revision
from palaver.storage.testsets.tables import testset_contents, testset_pieces
from palaver.testsets import commits, diff, row_pages
from palaver.testsets.commits import CommitInfo, PreparedCommit, SubmittedRow
from palaver.testsets.delta import Delta
from palaver.testsets.row_pages import RowFilter
from palaver.testsets.rows import RowData, new_packed_id

P, TS = "default", "ts_1"
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
INFO = CommitInfo(at=NOW)


def id_counter(seed: int = 1) -> Callable[[], bytes]:
    """A generator of row ids that are the same in every test."""
    rng = random.Random(seed)
    return lambda: new_packed_id(1, rng.getrandbits(80))


async def create_testset(database: Database, rows: list[RowData]) -> Revision:
    prepared = await database.read(
        commits.prepare_rows, P, None, [SubmittedRow(row) for row in rows], new_id=id_counter()
    )
    new_set = testsets.TestSet(id=TS, name="Refunds", created_at=NOW, updated_at=NOW)
    return await database.write(commits.create_testset, P, new_set, prepared, INFO)


async def commit_prepared(database: Database, prepared: PreparedCommit) -> tuple[Revision, bool]:
    return await database.write(commits.commit, P, TS, prepared, INFO)


async def commit_delta(database: Database, base: int, **changes: Any) -> Revision:
    parsed = msgspec.convert(changes, Delta)
    prepared = await database.read(commits.prepare_delta, P, TS, parsed, base=base, new_id=id_counter(base + 1))
    return (await commit_prepared(database, prepared))[0]


async def row_data(database: Database, revision: Revision) -> list[RowData]:
    return [row.data async for rows in row_pages.iterate_rows(database, P, revision) for row in rows]


async def row_ids(database: Database, revision: Revision) -> list[str]:
    return [row.id async for rows in row_pages.iterate_rows(database, P, revision) for row in rows]


async def count_rows(database: Database, table: Any) -> int:
    return await database.read(lambda db: db.scalar(select(func.count()).select_from(table)) or 0)


def numbered_rows(total: int) -> list[RowData]:
    return [{"q": f"question {index}", "n": index} for index in range(total)]


async def test_a_delta_stores_only_the_changed_piece_and_content(database: Database) -> None:
    first = await create_testset(database, numbered_rows(6_000))
    before = await count_rows(database, testset_pieces), await count_rows(database, testset_contents)
    names = await row_ids(database, first)
    second = await commit_delta(database, 1, patch=[{"id": names[3_000], "set": {"q": "other"}}])

    after = await count_rows(database, testset_pieces), await count_rows(database, testset_contents)
    assert (after[0] - before[0], after[1] - before[1]) == (1, 1)
    assert await row_ids(database, second) == names
    assert [row["q"] for row in await row_data(database, second)][2_999:3_002] == [
        "question 2999",
        "other",
        "question 3001",
    ]


async def test_deltas_yield_the_same_revision_as_committing_all_rows(database: Database) -> None:
    chance = random.Random(3)
    before = [{"q": str(index), **({"odd": None} if index % 2 else {})} for index in range(2_500)]
    revision = await create_testset(database, before)
    for _ in range(5):
        names = chance.sample(await row_ids(database, revision), 9)
        revision = await commit_delta(
            database,
            revision.number,
            remove=names[:3],
            replace=[{"id": name, "data": {"late": 1, "q": 2}} for name in names[3:6]],
            patch=[{"id": names[6], "set": {"q": [1]}, "unset": ["odd"]}],
            add=[{"data": {"new": True}, "after": names[7]}, {"data": {"new": "yes"}}],
        )
    everything = list(zip(await row_ids(database, revision), await row_data(database, revision), strict=True))
    submitted = [SubmittedRow(row, name) for name, row in everything]
    same = await database.read(commits.prepare_rows, P, None, submitted)

    assert same.revision.digest == revision.digest
    assert same.revision.columns == revision.columns
    assert [index.rows for index in same.revision.chunk_refs] == [
        index.rows for index in await database.read(testset_revisions.list_chunks, P, TS, revision.number)
    ]


async def test_column_changes_apply_to_all_rows(database: Database) -> None:
    await create_testset(database, [*numbered_rows(1_500), {"q": "no number"}])
    columns = {"rename": {"n": "number"}, "remove": ["q"], "fill": {"number": -1, "lang": "en"}}
    second = await commit_delta(database, 1, columns=columns)
    result = await row_data(database, second)

    assert result[:2] == [{"number": 0, "lang": "en"}, {"number": 1, "lang": "en"}]
    assert result[-1] == {"number": -1, "lang": "en"}
    assert [(one["name"], one["kind"], one["present"]) for one in second.columns] == [
        ("number", "number", 1_501),
        ("lang", "text", 1_501),
    ]


async def test_of_two_commits_from_one_base_the_second_is_refused(database: Database) -> None:
    await create_testset(database, numbered_rows(3))
    one, other = [
        await database.read(commits.prepare_delta, P, TS, msgspec.convert({"add": [{"data": {"n": n}}]}, Delta), base=1)
        for n in (8, 9)
    ]
    await commit_prepared(database, one)
    with pytest.raises(StaleBase, match="The latest revision of 'Refunds' is 2, not 1") as refused:
        await commit_prepared(database, other)

    assert refused.value.details == {"head": 2}
    assert [row["n"] for row in await row_data(database, await _head(database))] == [0, 1, 2, 8]


async def _head(database: Database) -> Revision:
    head = (await database.read(testsets.get_testset, P, TS)).head
    return await database.read(testset_revisions.get_revision, P, TS, "head", head)


async def test_adding_and_removing_a_row_restores_digest_and_columns(database: Database) -> None:
    first = await create_testset(database, numbered_rows(1_200))
    second = await commit_delta(database, 1, add=[{"data": {"n": -1}}])
    third = await commit_delta(database, 2, remove=[(await row_ids(database, second))[-1]])

    assert (third.number, third.digest, third.columns) == (3, first.digest, first.columns)


async def test_a_slow_search_continues_on_the_next_page(database: Database) -> None:
    revision = await create_testset(database, numbered_rows(500))
    clock = iter(range(0, 1_000, 3))
    result: list[int] = []
    after: str | None = None
    pages = 0
    while pages == 0 or after is not None:
        page = await database.read(
            row_pages.list_rows, P, revision, RowFilter("question 33"), Window(5, after), clock=lambda: next(clock)
        )
        result += [row.position for row in page.data]
        after, pages = page.next, pages + 1

    assert result == [33, *range(330, 340)]
    assert pages >= 5


async def test_a_page_of_large_rows_holds_fewer_rows(database: Database) -> None:
    revision = await create_testset(database, [{"text": str(index) * 700_000} for index in range(9)] * 4)
    first = await database.read(row_pages.list_rows, P, revision, RowFilter(), Window(100))
    second = await database.read(row_pages.list_rows, P, revision, RowFilter(), Window(100, first.next))

    assert 20 < len(first.data) < 30
    assert [row.position for row in (*first.data, *second.data)] == list(range(36))


async def test_revision_diffs_are_paginated(database: Database) -> None:
    first = await create_testset(database, numbered_rows(10))
    names = await row_ids(database, first)
    second = await commit_delta(database, 1, remove=names[:7])
    pages = [await database.read(diff.diff_revisions, P, first, second, Window(4))]
    pages.append(await database.read(diff.diff_revisions, P, first, second, Window(4, pages[0].rows.next)))

    assert [row.id for page in pages for row in page.rows.data] == names[:7]
    assert pages[1].rows.next is None
    assert pages[0].counts.removed == 7
