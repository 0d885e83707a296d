"""Notifications: sent after the commit, delivered to all listening processes, never relied upon."""

import asyncio
import threading
from collections.abc import AsyncIterator

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, text

from palaver.storage import notifications
from palaver.storage.database import Database, LazyDatabase, open_database
from palaver.storage.notifications import Notification, encode_notifications, notify, parse_notification
from palaver.storage.postgres import ListenConnection, NotificationListener

NAMES = st.lists(st.text("abcdefghijklmnopqrstuvwxyz_0123456789é", min_size=1, max_size=64), min_size=1, max_size=600)


class NotificationRecorder:
    """A listener that records the notifications it receives."""

    def __init__(self) -> None:
        self.heard: list[Notification] = []
        self._more = asyncio.Event()

    def __call__(self, notice: Notification) -> None:
        self.heard.append(notice)
        self._more.set()

    async def until(self, notice: Notification) -> None:
        async with asyncio.timeout(60):
            while notice not in self.heard:
                self._more.clear()
                await self._more.wait()


@pytest.fixture
async def two_databases(postgres_url: str) -> AsyncIterator[tuple[Database, Database]]:
    """Two connections to one database, as of two processes."""
    databases = open_database(postgres_url), open_database(postgres_url)
    yield databases
    for database in databases:
        await database.close()


@given(NAMES)
def test_names_are_packed_into_few_payloads_below_the_size_limit(names: list[str]) -> None:
    payloads = list(encode_notifications("grew", names))

    received = [parse_notification(text) for text in payloads]
    assert [name for notice in received if notice is not None for name in notice.names] == names
    assert {notice.kind for notice in received if notice is not None} == {"grew"}
    assert all(len(text.encode()) < 8_000 for text in payloads)
    assert len(payloads) <= sum(len(name.encode()) + 1 for name in names) // 7_000 + 1


def test_payload_of_another_program_is_ignored() -> None:
    assert (parse_notification("hello there"), parse_notification("")) == (None, None)


async def test_notification_of_one_process_is_received_by_another(two_databases: tuple[Database, Database]) -> None:
    local, remote = two_databases
    ears = NotificationRecorder()
    assert not local.receives_notifications

    await local.listen(ears)
    await remote.write(notify, "grew", ["run_1", "run_2"])
    await ears.until(Notification("grew", ["run_1", "run_2"]))

    assert local.receives_notifications
    assert not remote.receives_notifications


async def test_rolled_back_transaction_sends_no_notification(two_databases: tuple[Database, Database]) -> None:
    local, remote = two_databases
    ears = NotificationRecorder()
    await local.listen(ears)

    def fail(db: Connection) -> None:
        notify(db, "grew", ["never"])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await remote.write(fail)
    await remote.write(notify, "key", ["later"])
    await ears.until(Notification("key", ["later"]))

    assert ears.heard == [Notification("key", ["later"])]


async def test_lost_connection_is_reopened_with_a_missed_notification(
    two_databases: tuple[Database, Database],
) -> None:
    local, remote = two_databases
    first, second = NotificationRecorder(), NotificationRecorder()
    await local.listen(first)
    await local.listen(second)

    await remote.write(_terminate_listeners)
    await first.until(Notification("missed", ()))
    await remote.write(notify, "waiting", ["tutor"])
    await second.until(Notification("waiting", ["tutor"]))

    assert first.heard[:1] == second.heard[:1] == [Notification("missed", ())]
    assert local.receives_notifications


def _terminate_listeners(db: Connection) -> None:
    db.execute(
        text(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'palaver listening' AND datname = current_database()"
        )
    )


async def test_idle_check_of_the_listener_loses_no_notifications(
    two_databases: tuple[Database, Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palaver.storage.postgres._IDLE_CHECK_S", 0.01)
    local, remote = two_databases
    ears = NotificationRecorder()

    await local.listen(ears)
    for number in range(20):  # Some of these arrive during an idle check.
        await remote.write(notify, "grew", [str(number)])
        await ears.until(Notification("grew", [str(number)]))

    assert local.receives_notifications


async def test_listener_reconnects_after_connection_errors(postgres_url: str) -> None:
    attempts: list[str] = []

    class Refusing:
        def execute(self, _: str) -> None:
            raise psycopg.OperationalError("no")

        def close(self) -> None:
            attempts.append("closed")

    def connect() -> ListenConnection:
        attempts.append("tried")
        if len(attempts) == 1:
            raise psycopg.OperationalError("nobody there")
        return Refusing() if len(attempts) == 2 else psycopg.connect(postgres_url, autocommit=True)  # type: ignore[return-value]

    listener, ears = NotificationListener(connect), NotificationRecorder()
    await listener.listen(ears)
    receives = listener.receives_notifications
    listener.close()
    await listener.listen(ears)  # After close() it does not listen again.

    assert (receives, listener.receives_notifications, attempts) == (True, False, ["tried", "tried", "closed", "tried"])


async def test_database_can_be_closed_twice_and_stops_listening(postgres_url: str) -> None:
    database, threads_before = open_database(postgres_url), set(threading.enumerate())
    await database.listen(NotificationRecorder())
    [listener] = [one for one in set(threading.enumerate()) - threads_before if one.name == "palaver-listen"]
    was_listening = (listener.is_alive(), database.receives_notifications)

    async with asyncio.timeout(60):
        await database.close()
        await database.close()

    assert was_listening == (True, True)
    assert (listener.is_alive(), database.receives_notifications) == (False, False)


async def test_lazy_database_receives_notifications(postgres_url: str) -> None:
    lazy, ears = LazyDatabase(postgres_url), NotificationRecorder()
    before = lazy.receives_notifications
    await lazy.listen(ears)
    await lazy.write(notify, "cancel", ["run_1"])
    await ears.until(Notification("cancel", ["run_1"]))

    assert (before, lazy.receives_notifications) == (False, True)
    await lazy.close()


@pytest.mark.parametrize("database", ["memory", "file"], indirect=True)
async def test_sqlite_sends_no_notifications(database: Database) -> None:
    ears = NotificationRecorder()

    await database.listen(ears)
    await database.write(notify, "grew", ["run_1"])

    assert (database.kind, database.receives_notifications, ears.heard) == ("sqlite", False, [])


def test_channel_is_the_one_of_other_versions() -> None:
    assert notifications.CHANNEL == "palaver"  # Must not change: processes of older and newer versions share it.
