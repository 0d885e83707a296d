"""Waiting for runs of other processes: woken by notifications, with polling as a fallback."""

import asyncio

import pytest

from palaver.engine import run_reader
from palaver.engine.run_reader import RunWaiters
from palaver.storage.database import MEMORY_URL, open_database


class NotifyingDatabase:
    """A database that receives notifications; nothing else of it is used."""

    receives_notifications = True


async def test_a_waiter_polls_often_until_its_first_notification(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_reader, "POLL_INTERVAL_S", 0.01)
    monkeypatch.setattr(
        run_reader, "NOTIFIED_POLL_INTERVAL_S", 3600
    )  # A waiter that polls rarely would wait until the timeout.
    waiters = RunWaiters(NotifyingDatabase())  # type: ignore[arg-type]

    with waiters.waiter("run_1") as waiter, waiters.waiter("run_1") as second_waiter:
        async with asyncio.timeout(60):
            for run_ids in ([], ["run_2"], ["run_1"]):
                waiters.wake(run_ids)
                await waiter.wait()
            await second_waiter.wait()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await waiter.wait()


async def test_a_waiter_of_a_database_without_notifications_always_polls_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_reader, "POLL_INTERVAL_S", 0.01)
    monkeypatch.setattr(run_reader, "NOTIFIED_POLL_INTERVAL_S", 3600)
    database = open_database(MEMORY_URL)
    waiters = RunWaiters(database)

    async with asyncio.timeout(60):
        with waiters.waiter("run_1") as waiter:
            waiter.wake()
            for _ in range(3):
                await waiter.wait()
    await database.close()


async def test_wake_all_wakes_every_waiter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_reader, "POLL_INTERVAL_S", 60)  # A waiter that is not woken would wait until the timeout.
    waiters = RunWaiters(NotifyingDatabase())  # type: ignore[arg-type]

    async with asyncio.timeout(60):
        with waiters.waiter("run_1") as one, waiters.waiter("run_2") as other:
            waiters.wake_all()
            await one.wait()
            await other.wait()
