"""Notifications: sent after the commit, delivered to all listening processes, never relied upon."""

import asyncio
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


class Ears:
    """What was heard."""

    def __init__(self) -> None:
        self.heard: list[Notification] = []
        self._more = asyncio.Event()

    def __call__(self, notice: Notification) -> None:
        self.heard.append(notice)
        self._more.set()

    async def until(self, notice: Notification) -> None:
        async with asyncio.timeout(10):
            while notice not in self.heard:
                self._more.clear()
                await self._more.wait()


@pytest.fixture
async def two(postgres_url: str) -> AsyncIterator[tuple[Database, Database]]:
    """Two processes' ways to one database."""
    databases = open_database(postgres_url), open_database(postgres_url)
    yield databases
    for database in databases:
        await database.close()


@given(NAMES)
def test_names_go_into_few_texts_that_the_server_takes(names: list[str]) -> None:
    texts = list(encode_notifications("grew", names))

    received = [parse_notification(text) for text in texts]
    assert [name for notice in received if notice is not None for name in notice.names] == names
    assert {notice.kind for notice in received if notice is not None} == {"grew"}
    assert all(len(text.encode()) < 8_000 for text in texts)
    assert len(texts) <= sum(len(name.encode()) + 1 for name in names) // 7_000 + 1


def test_what_is_none_of_ours_is_passed_over() -> None:
    assert (parse_notification("hello there"), parse_notification("")) == (None, None)


async def test_what_one_process_tells_another_one_hears(two: tuple[Database, Database]) -> None:
    local, remote = two
    ears = Ears()
    assert not local.receives_notifications

    await local.listen(ears)
    await remote.write(notify, "grew", ["run_1", "run_2"])
    await ears.until(Notification("grew", ["run_1", "run_2"]))

    assert local.receives_notifications
    assert not remote.receives_notifications


async def test_what_was_turned_back_was_never_told(two: tuple[Database, Database]) -> None:
    local, remote = two
    ears = Ears()
    await local.listen(ears)

    def fail(db: Connection) -> None:
        notify(db, "grew", ["never"])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await remote.write(fail)
    await remote.write(notify, "key", ["later"])
    await ears.until(Notification("key", ["later"]))

    assert ears.heard == [Notification("key", ["later"])]


async def test_a_line_that_is_lost_is_made_anew_and_says_that_something_may_be_missed(
    two: tuple[Database, Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    local, remote = two
    first, second = Ears(), Ears()
    await local.listen(first)
    await local.listen(second)

    await remote.write(_cut)
    await first.until(Notification("missed", ()))
    await remote.write(notify, "waiting", ["tutor"])
    await second.until(Notification("waiting", ["tutor"]))

    assert first.heard[:1] == second.heard[:1] == [Notification("missed", ())]
    assert local.receives_notifications


def _cut(db: Connection) -> None:
    db.execute(
        text(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'palaver listening' AND datname = current_database()"
        )
    )


async def test_a_listener_that_hears_nothing_asks_whether_anybody_is_there(
    two: tuple[Database, Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palaver.storage.postgres._IDLE_CHECK_S", 0.01)
    local, remote = two
    ears = Ears()

    await local.listen(ears)
    for number in range(20):  # Some of these come while it asks.
        await remote.write(notify, "grew", [str(number)])
        await ears.until(Notification("grew", [str(number)]))

    assert local.receives_notifications


async def test_a_server_that_is_away_or_refuses_is_tried_again(postgres_url: str) -> None:
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

    listener, ears = NotificationListener(connect), Ears()
    await listener.listen(ears)
    receives = listener.receives_notifications
    listener.close()
    await listener.listen(ears)  # Too late: it stays silent.

    assert (receives, listener.receives_notifications, attempts) == (True, False, ["tried", "tried", "closed", "tried"])


async def test_closing_takes_no_time_and_ends_the_thread(postgres_url: str) -> None:
    database = open_database(postgres_url)
    await database.listen(Ears())

    async with asyncio.timeout(30):
        await database.close()
        await database.close()

    assert not database.receives_notifications


async def test_a_database_opened_later_hears_like_any_other(postgres_url: str) -> None:
    later, ears = LazyDatabase(postgres_url), Ears()
    before = later.receives_notifications
    await later.listen(ears)
    await later.write(notify, "cancel", ["run_1"])
    await ears.until(Notification("cancel", ["run_1"]))

    assert (before, later.receives_notifications) == (False, True)
    await later.close()


async def test_a_file_tells_nobody_and_nobody_minds(database: Database) -> None:
    if database.kind == "postgresql":
        return
    ears = Ears()

    await database.listen(ears)
    await database.write(notify, "grew", ["run_1"])

    assert (database.receives_notifications, ears.heard) == (False, [])
    assert notifications.CHANNEL == "palaver"  # For ever: an older process beside a newer one listens there.
