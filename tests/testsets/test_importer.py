"""Imports: the result does not depend on chunk boundaries, and uncommitted rows disappear."""

import asyncio
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import func, select

from palaver.errors import StaleBase, StillRunning
from palaver.storage.database import Database, open_database
from palaver.storage.testsets import imports as testset_imports
from palaver.storage.testsets import repository as testset_revisions
from palaver.storage.testsets import repository as testsets
from palaver.storage.testsets.imports import sweep_dead_imports
from palaver.storage.testsets.repository import Revision
from palaver.storage.testsets.tables import TESTSET_TABLES, testset_contents
from palaver.storage.testsets.tables import testset_imports as under_way
from palaver.testsets import commits, files, row_pages
from palaver.testsets.commits import CommitInfo, SubmittedRow
from palaver.testsets.delta import Added, Delta
from palaver.testsets.importer import ImportTarget, import_file
from palaver.testsets.rows import new_packed_id

P, TS = "default", "ts_1"
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def jsonl_rows(first: int, last: int) -> bytes:
    rows = ({"q": f"question {n}", **({"odd": None} if n % 2 else {"even": n})} for n in range(first, last))
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


def id_counter(seed: int = 1) -> Callable[[], bytes]:
    rng = random.Random(seed)
    return lambda: new_packed_id(1, rng.getrandbits(80))


async def split_body(body: bytes, size: int = 997) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


def open_import(
    database: Database, body: bytes, target: ImportTarget, new_id: Callable[[], bytes], **options: Any
) -> Any:
    return import_file(
        database,
        P,
        target,
        files.open_reader("jsonl"),
        options.pop("chunks", split_body(body)),
        now=lambda: NOW,
        new_id=new_id,
    )


async def create_testset(database: Database, body: bytes, new_id: Callable[[], bytes] | None = None) -> Revision:
    async with open_import(database, body, ImportTarget(testset=TS, is_new=True), new_id or id_counter()) as imported:
        new_set = testsets.TestSet(id=TS, name="Refunds", created_at=NOW, updated_at=NOW)
        return await database.write(commits.create_testset, P, new_set, imported.prepared, CommitInfo(at=NOW))


async def import_into_testset(
    database: Database, body: bytes, new_id: Callable[[], bytes], **target_fields: Any
) -> Revision:
    async with open_import(database, body, ImportTarget(testset=TS, **target_fields), new_id) as imported:
        return (await database.write(commits.commit, P, TS, imported.prepared, CommitInfo(at=NOW)))[0]


async def row_data(database: Database, revision: Revision) -> list[Any]:
    return [row.data async for rows in row_pages.iterate_rows(database, P, revision) for row in rows]


async def test_importing_two_files_yields_the_same_revision_as_all_rows_at_once(database: Database) -> None:
    new = id_counter()
    await create_testset(database, jsonl_rows(0, 1_700), new)
    revision = await import_into_testset(database, jsonl_rows(1_700, 4_000), new)
    all_rows = [SubmittedRow(msgspec.json.decode(line)) for line in jsonl_rows(0, 4_000).splitlines()]
    prepared = await database.read(commits.prepare_rows, P, None, all_rows, new_id=id_counter())

    assert (revision.digest, revision.columns) == (prepared.revision.digest, prepared.revision.columns)
    assert await database.read(testset_revisions.list_chunks, P, TS, 2) == prepared.revision.chunk_refs
    assert [row["q"] for row in await row_data(database, revision)] == [f"question {n}" for n in range(4_000)]


async def test_a_commit_during_an_import_is_not_lost_and_the_import_is_refused(database: Database) -> None:
    await create_testset(database, jsonl_rows(0, 3))
    prepared = await database.read(
        commits.prepare_delta, P, TS, Delta(add=[Added({"q": "question 9", "odd": None})]), base=1
    )
    async with open_import(database, jsonl_rows(9, 12), ImportTarget(testset=TS), id_counter(2)) as result:
        await database.write(commits.commit, P, TS, prepared, CommitInfo(at=NOW))
        with pytest.raises(StaleBase):
            await database.write(commits.commit, P, TS, result.prepared, CommitInfo(at=NOW))
    head = await database.read(testset_revisions.get_revision, P, TS, "head", 2)

    assert [row["q"] for row in await row_data(database, head)][-1] == "question 9"
    assert await database.read(lambda db: db.scalar(select(func.count()).select_from(testset_contents))) == 4
    assert await database.read(lambda db: db.scalar(select(func.count()).select_from(under_way))) == 0


async def test_a_swept_import_cannot_be_committed(database: Database) -> None:
    await create_testset(database, jsonl_rows(0, 3))
    async with open_import(database, jsonl_rows(9, 12), ImportTarget(testset=TS), id_counter(2)) as result:
        await sweep_dead_imports(database, NOW + 2 * testset_imports.IMPORT_TIMEOUT)
        with pytest.raises(StillRunning, match="aborted"):
            await database.write(commits.commit, P, TS, result.prepared, CommitInfo(at=NOW))

    assert (await database.read(testsets.get_testset, P, TS)).head == 1


async def test_imported_rows_reuse_the_ids_of_rows_with_the_same_data(database: Database) -> None:
    first = await create_testset(database, b'{"n":1}\n{"n":1}\n{"n":2}\n')
    before = [row.id async for rows in row_pages.iterate_rows(database, P, first) for row in rows]
    body = f'{{"n":1}}\n{{"__id__":"{before[0]}","n":7}}\n{{"n":1}}\n{{"n":1}}\n'.encode()
    second = await import_into_testset(database, body, id_counter(2), mode="replace")
    after = [row.id async for rows in row_pages.iterate_rows(database, P, second) for row in rows]

    assert len(set(after)) == 4
    assert set(before[:2]) <= set(after)
    assert before[2] not in after


CRASHING_IMPORT_SCRIPT = """
import asyncio, os, signal, sys
from datetime import UTC, datetime
from palaver.storage.database import open_database
from palaver.testsets import files
from palaver.testsets.importer import ImportTarget, import_file

async def chunks():
    for n in range(4):
        yield b"".join(b'{"q":"question %d"}\\n' % (n * 5000 + place) for place in range(20_000))
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    database = open_database(sys.argv[1])
    into = ImportTarget(testset="ts_1", is_new=True)
    now = lambda: datetime.now(UTC)
    async with import_file(database, "default", into, files.open_reader("jsonl"), chunks(), now=now):
        pass

asyncio.run(main())
"""


async def test_rows_of_a_killed_import_are_swept_after_the_timeout(tmp_path: Path) -> None:
    path = str(tmp_path / "palaver.db")
    command = [sys.executable, "-c", CRASHING_IMPORT_SCRIPT, path]
    await asyncio.to_thread(subprocess.run, command, check=False, timeout=60)
    database = open_database(path)

    async def counted() -> list[int]:
        def each(db: Any) -> list[int]:
            return [db.scalar(select(func.count()).select_from(table)) for table in TESTSET_TABLES]

        return await database.read(each)

    remaining = await counted()
    await sweep_dead_imports(database, datetime.now(UTC) + testset_imports.IMPORT_TIMEOUT + timedelta(seconds=60))
    swept = await counted()
    await database.close()

    assert (remaining[:3], remaining[3] > 1_000, remaining[5]) == ([0, 0, 0], True, 1)
    assert swept == [0] * 6
