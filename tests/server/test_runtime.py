"""The runtime of a server or worker: start and stop of its parts, also when one fails."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from palaver.discovery.registry import Registry
from palaver.errors import Overloaded
from palaver.server.runtime import ProcessRuntime
from palaver.server.settings import Settings
from palaver.storage import background_runs
from palaver.storage.database import Database, open_database
from palaver.testing import echo


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = open_database(str(tmp_path / "palaver.db"))
    yield opened
    await opened.close()


async def process_kinds(database: Database) -> list[str]:
    return [process.kind for process in await database.read(background_runs.list_processes)]


async def test_if_a_part_fails_to_start_those_before_it_are_stopped(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = ProcessRuntime(Registry([echo]), Settings(), database, kind="worker")
    before = asyncio.all_tasks()
    seen: list[list[str]] = []

    async def fail(*, serves_stored: bool) -> None:
        assert serves_stored
        seen.append(await process_kinds(database))
        raise Overloaded("The database is away.")

    with monkeypatch.context() as patch:
        patch.setattr(runtime.connection_sync, "start", fail)
        with pytest.raises(Overloaded):
            await runtime.start()

    assert seen == [["worker"]]
    assert await process_kinds(database) == []
    assert asyncio.all_tasks() == before
    assert not runtime.is_started

    await runtime.start()  # A later attempt starts all of it.
    assert (runtime.is_started, await process_kinds(database)) == (True, ["worker"])
    await runtime.stop()
    assert asyncio.all_tasks() == before


async def test_concurrent_starts_start_the_runtime_once(database: Database) -> None:
    runtime = ProcessRuntime(Registry([echo]), Settings(), database)

    await asyncio.gather(runtime.start(), runtime.start())

    assert await process_kinds(database) == ["server"]
    await runtime.stop()


async def test_a_part_that_fails_to_stop_does_not_prevent_stopping_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = ProcessRuntime(Registry([echo]), Settings(db=str(tmp_path / "palaver.db")))

    async def fail() -> None:
        raise Overloaded("Not now.")

    monkeypatch.setattr(runtime.change_feed, "stop", fail)
    await runtime.start()
    before = asyncio.all_tasks()
    with pytest.raises(Overloaded):
        await runtime.stop()

    assert len(asyncio.all_tasks()) < len(before)
    again = open_database(str(tmp_path / "palaver.db"))
    assert await process_kinds(again) == []
    await again.close()
