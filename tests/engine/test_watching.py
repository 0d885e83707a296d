"""Waiting for runs of other processes: woken by what they tell, and looking anyway."""

import asyncio
import time

import pytest

from palaver.engine import watching
from palaver.engine.watching import Watching
from palaver.storage.database import MEMORY, open_database


class Told:
    """A database of which only matters whether it hears."""

    hears = True


async def test_whoever_waits_looks_often_until_it_is_told_for_the_first_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LOOK", 0.01)
    monkeypatch.setattr(watching, "LOOK_RARELY", 1.0)
    watched = Watching(Told())  # type: ignore[arg-type]
    took: list[float] = []

    with watched.of("run_1") as news, watched.of("run_1") as also:
        for told in ([], ["run_2"], ["run_1"], []):
            watched.grew(told)
            since = time.monotonic()
            await news.come()
            took.append(time.monotonic() - since)
        await also.come()

    often, unmoved, woken, rarely = took
    assert (often < 0.9, unmoved < 0.9, woken < 0.9, rarely > 0.9) == (True, True, True, True)


async def test_a_file_is_looked_at_often_whatever_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LOOK", 0.01)
    database = open_database(MEMORY)
    watched = Watching(database)

    async with asyncio.timeout(0.9):
        with watched.of("run_1") as news:
            news.tell()
            for _ in range(3):
                await news.come()
    await database.close()


async def test_all_are_woken_when_something_may_have_been_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LOOK", 60)  # Who was not woken would wait until the timeout.
    watched = Watching(Told())  # type: ignore[arg-type]

    async with asyncio.timeout(5):
        with watched.of("run_1") as one, watched.of("run_2") as other:
            watched.missed()
            await one.come()
            await other.come()
