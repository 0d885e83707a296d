"""Waiting for runs of other processes: woken by notifications, with polling as a fallback."""

import asyncio

import pytest

from palaver.engine import run_reader
from palaver.engine.run_reader import RunWaiters
from palaver.storage.database import MEMORY_URL, open_database


class Told:
    """A database of which only matters whether it hears."""

    receives_notifications = True


async def test_whoever_waits_looks_often_until_it_is_told_for_the_first_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_reader, "POLL_INTERVAL_S", 0.01)
    monkeypatch.setattr(run_reader, "NOTIFIED_POLL_INTERVAL_S", 3600)  # Who looks rarely would wait until the timeout.
    watched = RunWaiters(Told())  # type: ignore[arg-type]

    with watched.waiter("run_1") as news, watched.waiter("run_1") as also:
        async with asyncio.timeout(30):
            for told in ([], ["run_2"], ["run_1"]):
                watched.wake(told)
                await news.wait()
            await also.wait()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await news.wait()


async def test_a_file_is_looked_at_often_whatever_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_reader, "POLL_INTERVAL_S", 0.01)
    monkeypatch.setattr(run_reader, "NOTIFIED_POLL_INTERVAL_S", 3600)
    database = open_database(MEMORY_URL)
    watched = RunWaiters(database)

    async with asyncio.timeout(30):
        with watched.waiter("run_1") as news:
            news.wake()
            for _ in range(3):
                await news.wait()
    await database.close()


async def test_all_are_woken_when_something_may_have_been_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_reader, "POLL_INTERVAL_S", 60)  # Who was not woken would wait until the timeout.
    watched = RunWaiters(Told())  # type: ignore[arg-type]

    async with asyncio.timeout(5):
        with watched.waiter("run_1") as one, watched.waiter("run_2") as other:
            watched.wake_all()
            await one.wait()
            await other.wait()
