"""Connections that were added over HTTP, on every database."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from palaver.core.events import RunStarted
from palaver.core.runs import Call, NewRun, Origin
from palaver.errors import NameTaken, TooLarge
from palaver.storage import background_runs, connections, runs
from palaver.storage.connections import ConnectionOptions, ConnectionVersion, StoredConnection
from palaver.storage.database import Database, open_database
from palaver.storage.notifications import Notification

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)
TUTOR = StoredConnection(
    name="tutor",
    url="https://a.example/tutor",
    created_at=NOON,
    checked_at=NOON,
    options=ConnectionOptions(is_chat=True, dialect="responses", model="large", timeout_seconds=2.5),
    evidence={"dialect": "responses", "said": "ä\0"},
)
BARE = StoredConnection(name="Bare", url="https://b.example", created_at=NOON)


async def test_connection_is_stored_and_listed_with_its_version(database: Database) -> None:
    await database.write(connections.insert_connection, "default", TUTOR)
    await database.write(connections.insert_connection, "default", BARE)

    assert await database.read(connections.get_connection, "default", "tutor") == TUTOR
    assert await database.read(connections.list_connections, "default") == [BARE, TUTOR]
    assert await database.read(connections.list_connection_versions, "default") == [
        ConnectionVersion(name="Bare", url="https://b.example", created_at=NOON),
        ConnectionVersion(name="tutor", url="https://a.example/tutor", created_at=NOON, checked_at=NOON),
    ]
    assert (BARE.version, TUTOR.version) == tuple(await database.read(connections.list_connection_versions, "default"))


async def test_connections_are_separate_per_project(database: Database) -> None:
    await database.write(connections.insert_connection, "default", TUTOR)
    await database.write(connections.insert_connection, "team-a", replace(TUTOR, url="https://c.example"))

    assert await database.write(connections.delete_connection, "team-b", "tutor") is False
    assert await database.write(connections.delete_connection, "team-a", "tutor") is True
    assert await database.read(connections.get_connection, "team-a", "tutor") is None
    assert await database.read(connections.list_connections, "default") == [TUTOR]


async def test_connection_names_are_unique_even_for_concurrent_inserts(database: Database) -> None:
    await database.write(connections.insert_connection, "default", TUTOR)
    with pytest.raises(NameTaken, match="The name 'tutor' is already in use by a connection") as caught:
        await database.write(connections.insert_connection, "default", TUTOR)
    results = await asyncio.gather(
        *(database.write(connections.insert_connection, "default", BARE) for _ in range(4)), return_exceptions=True
    )

    assert caught.value.pointer == "/name"
    assert sorted(type(one).__name__ for one in results) == ["NameTaken", "NameTaken", "NameTaken", "NoneType"]


async def test_number_of_connections_per_project_is_limited(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert connections.MAX_CONNECTIONS == 200
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 1)
    await database.write(connections.insert_connection, "default", TUTOR)

    with pytest.raises(TooLarge, match="limit of 1 "):
        await database.write(connections.insert_connection, "default", BARE)
    await database.write(connections.insert_connection, "team-a", BARE)


async def test_evidence_is_updated_only_for_the_same_version_of_a_connection(database: Database) -> None:
    await database.write(connections.insert_connection, "default", TUTOR)
    another = replace(TUTOR.version, created_at=LATER)

    assert await database.write(connections.update_evidence, "default", TUTOR.version, {"said": 2}, at=LATER) is True
    assert await database.write(connections.update_evidence, "default", another, {"said": 3}, at=LATER) is False
    assert await database.read(connections.get_connection, "default", "tutor") == replace(
        TUTOR, evidence={"said": 2}, checked_at=LATER
    )


async def test_other_processes_are_notified_of_changed_connections(postgres_url: str) -> None:
    first, second = open_database(postgres_url), open_database(postgres_url)
    received: list[Notification] = []
    await first.listen(received.append)

    await second.write(connections.insert_connection, "default", TUTOR)
    await second.write(connections.update_evidence, "default", TUTOR.version, {}, at=LATER)
    await second.write(connections.delete_connection, "default", "tutor")
    await second.write(connections.delete_connection, "default", "tutor")
    await second.write(connections.insert_connection, "default", BARE)
    async with asyncio.timeout(60):
        while Notification("connection", ["Bare"]) not in received:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    assert {notice.kind for notice in received} == {"connection"}
    assert {name for notice in received for name in notice.names} == {"tutor", "Bare"}
    for database in (first, second):
        await database.close()


def queued_run(number: int, workflow: str, project: str) -> NewRun:
    return NewRun(
        started=RunStarted(0, f"run_{number}", "s-1", NOON, ""),
        workflow=workflow,
        call=Call(workflow=workflow),
        origin=Origin(project=project, background=True),
        process=None,
        status="queued",
    )


async def test_queued_runs_of_a_removed_connection_fail_in_batches(database: Database) -> None:
    created = [queued_run(number, "tutor", project) for number, project in enumerate(["default", "team-a", "default"])]
    await database.write(background_runs.enqueue_runs, [*created, queued_run(9, "other", "default")], NOON)
    error = ("workflow_not_found", "It was removed.")

    has_more = [
        await database.write(background_runs.fail_queued_runs, "tutor", error, LATER, limit=2) for _ in range(3)
    ]

    assert has_more == [True, False, False]
    ended = [
        await database.read(runs.get_run, project, run)
        for run, project in [("run_0", "default"), ("run_1", "team-a"), ("run_2", "default"), ("run_9", "default")]
    ]
    assert [(row.status, row.ended_at) for row in ended if row] == [("failed", LATER)] * 3 + [("queued", None)]
