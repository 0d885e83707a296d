"""Keys, sessions and projects, on every database."""

import sqlite3
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from sqlalchemy import Connection, insert, select

from palaver.core.api_keys import ALL_SCOPES, Scope, hash_secret
from palaver.storage import api_keys, projects
from palaver.storage.api_keys import ApiKey, LoginSession
from palaver.storage.database import Database, open_database
from palaver.storage.pagination import Page, Window
from palaver.storage.projects import Project
from palaver.storage.tables import boards, events, metadata, nodes, runs, threads

NOW = datetime(2026, 11, 15, 12, 30, 0, 123456, tzinfo=UTC)
HOUR = timedelta(hours=1)


def key(name: str, *, project: str = "default", scopes: frozenset[Scope] = ALL_SCOPES, **more: Any) -> ApiKey:
    return ApiKey(
        project=project, id=name, name=f"of {name}", hash=hash_secret(name), scopes=scopes, created_at=NOW, **more
    )


FIRST_KEY = key("aaaaaaaa")
SECOND_KEY = key("bbbbbbbb", project="team-a", scopes=frozenset({"read"}), expires_at=NOW + HOUR, made_by="aaaaaaaa")


async def test_stored_key_is_found_by_id_and_project(database: Database) -> None:
    await database.write(api_keys.insert_key, FIRST_KEY)
    await database.write(api_keys.insert_key, SECOND_KEY)

    assert await database.read(api_keys.find_keys, ["bbbbbbbb"]) == [SECOND_KEY]
    assert sorted(await database.read(api_keys.find_keys, ["bbbbbbbb", "aaaaaaaa", "cccccccc"]), key=str) == [
        FIRST_KEY,
        SECOND_KEY,
    ]
    assert await database.read(api_keys.find_keys, []) == []
    assert await database.read(api_keys.get_key, "team-a", "bbbbbbbb") == SECOND_KEY
    assert await database.read(api_keys.list_all_keys) == [FIRST_KEY, SECOND_KEY]
    assert await database.read(api_keys.list_all_keys, "team-a") == [SECOND_KEY]


async def test_key_of_another_project_is_not_found(database: Database) -> None:
    await database.write(api_keys.insert_key, FIRST_KEY)

    assert await database.read(api_keys.get_key, "team-a", FIRST_KEY.id) is None
    assert await database.write(api_keys.update_key, "team-a", FIRST_KEY.id, {"name": "mine"}) is None
    assert await database.write(api_keys.revoke_key, "team-a", FIRST_KEY.id, at=NOW) is None
    await database.write(api_keys.set_last_used, "team-a", FIRST_KEY.id, at=NOW)
    assert await database.read(api_keys.list_keys, "team-a") == Page([])
    assert await database.read(api_keys.get_key, "default", FIRST_KEY.id) == FIRST_KEY


async def test_database_file_has_the_hash_of_a_key_but_not_the_secret(tmp_path: Any) -> None:
    database = open_database(str(tmp_path / "palaver.db"))
    await database.write(api_keys.insert_key, msgspec.structs.replace(FIRST_KEY, hash=hash_secret("s3cr3t")))
    await database.close()

    encoded = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert hash_secret("s3cr3t") in encoded
    assert b"s3cr3t" not in encoded
    with sqlite3.connect(tmp_path / "palaver.db") as file:
        assert file.execute("SELECT scopes FROM keys").fetchone() == (b'["admin"]',)
    file.close()


async def test_keys_are_listed_newest_first_across_pages(database: Database) -> None:
    created = [
        msgspec.structs.replace(key(f"{n:08d}"), created_at=NOW + HOUR * (n // 2))  # Two at a time.
        for n in range(7)
    ]
    for one in created:
        await database.write(api_keys.insert_key, one)
    await database.write(api_keys.insert_key, SECOND_KEY)

    pages = [await database.read(api_keys.list_keys, "default", Window(limit=3))]
    while pages[-1].next:
        pages.append(await database.read(api_keys.list_keys, "default", Window(3, pages[-1].next)))

    assert [[one.id for one in page.data] for page in pages] == [
        ["00000006", "00000005", "00000004"],
        ["00000003", "00000002", "00000001"],
        ["00000000"],
    ]


async def test_name_and_expiry_of_a_key_can_be_changed(database: Database) -> None:
    await database.write(api_keys.insert_key, SECOND_KEY)

    renamed = await database.write(api_keys.update_key, "team-a", SECOND_KEY.id, {"name": "new", "expires_at": None})
    same = await database.write(api_keys.update_key, "team-a", SECOND_KEY.id, {})

    assert renamed == same == msgspec.structs.replace(SECOND_KEY, name="new", expires_at=None)


async def test_revoked_key_stays_stored_with_its_first_revocation_time(database: Database) -> None:
    await database.write(api_keys.insert_key, FIRST_KEY)

    once = await database.write(api_keys.revoke_key, "default", FIRST_KEY.id, at=NOW)
    twice = await database.write(api_keys.revoke_key, "default", FIRST_KEY.id, at=NOW + HOUR)

    assert once == twice == msgspec.structs.replace(FIRST_KEY, revoked_at=NOW)


async def test_last_use_is_the_latest_recorded_time(database: Database) -> None:
    await database.write(api_keys.insert_key, FIRST_KEY)
    for hours in (1, 3, 2):
        await database.write(api_keys.set_last_used, "default", FIRST_KEY.id, at=NOW + HOUR * hours)

    assert await database.read(api_keys.get_key, "default", FIRST_KEY.id) == msgspec.structs.replace(
        FIRST_KEY, last_used_at=NOW + HOUR * 3
    )


async def test_has_keys_counts_all_keys_and_has_valid_key_only_valid_ones(database: Database) -> None:
    async def key_state(now: datetime) -> tuple[bool, bool]:
        return await database.read(api_keys.has_keys), await database.read(api_keys.has_valid_key, now)

    assert await key_state(NOW) == (False, False)
    await database.write(api_keys.insert_key, SECOND_KEY)
    assert await key_state(NOW) == (True, True)
    assert await key_state(NOW + HOUR) == (True, False)
    await database.write(api_keys.insert_key, FIRST_KEY)
    assert await key_state(NOW + HOUR) == (True, True)
    await database.write(api_keys.revoke_key, "default", FIRST_KEY.id, at=NOW)
    assert await key_state(NOW + HOUR) == (True, False)


@pytest.mark.parametrize(
    ("one", "valid"),
    [
        (FIRST_KEY, True),
        (SECOND_KEY, True),
        (msgspec.structs.replace(SECOND_KEY, expires_at=NOW), False),
        (msgspec.structs.replace(FIRST_KEY, revoked_at=NOW - HOUR), False),
        (msgspec.structs.replace(FIRST_KEY, revoked_at=NOW + HOUR), False),  # By another process, whose clock is ahead.
    ],
)
def test_key_is_invalid_if_expired_or_revoked(one: ApiKey, valid: bool) -> None:
    assert one.is_valid(NOW) is valid


def session(cookie: str, *, of: ApiKey = FIRST_KEY, hours: int = 12) -> LoginSession:
    expires = NOW + HOUR * hours
    return LoginSession(
        hash=hash_secret(cookie), project=of.project, key=of.id, scopes=of.scopes, created_at=NOW, expires_at=expires
    )


async def test_session_is_found_by_its_cookie_hash_until_it_is_deleted(database: Database) -> None:
    await database.write(api_keys.insert_session, session("one"))
    await database.write(api_keys.insert_session, session("two", of=SECOND_KEY))

    assert await database.read(api_keys.find_sessions, [hash_secret("two")]) == [session("two", of=SECOND_KEY)]
    await database.write(api_keys.delete_session, hash_secret("two"))
    await database.write(api_keys.delete_session, hash_secret("two"))
    assert await database.read(api_keys.find_sessions, [hash_secret("one"), hash_secret("two")]) == [session("one")]


async def test_inserting_a_session_deletes_expired_ones(database: Database) -> None:
    await database.write(api_keys.insert_session, session("old", hours=1))
    new_session = msgspec.structs.replace(session("new"), created_at=NOW + HOUR)
    await database.write(api_keys.insert_session, new_session)

    assert await database.read(api_keys.find_sessions, [hash_secret("old"), hash_secret("new")]) == [new_session]


async def test_revoking_a_key_deletes_its_sessions(database: Database) -> None:
    await database.write(api_keys.insert_key, FIRST_KEY)
    await database.write(api_keys.insert_session, session("mine"))
    await database.write(api_keys.insert_session, session("other", of=SECOND_KEY))

    await database.write(api_keys.revoke_key, "default", FIRST_KEY.id, at=NOW)

    assert await database.read(api_keys.find_sessions, [hash_secret("mine"), hash_secret("other")]) == [
        session("other", of=SECOND_KEY)
    ]


async def test_project_names_are_unique(database: Database) -> None:
    team = Project(name="team-a", created_at=NOW)

    assert await database.write(projects.insert_project, team) is True
    assert await database.write(projects.insert_project, Project(name="team-a", created_at=NOW + HOUR)) is False
    assert await database.write(projects.insert_project, Project(name="team-b", created_at=NOW)) is True
    assert await database.read(projects.get_project, "team-a") == team
    assert await database.read(projects.get_project, "team-c") is None
    first = await database.read(projects.list_projects, Window(limit=1))
    remaining = await database.read(projects.list_projects, Window(limit=1, after=first.next))
    assert [one.name for one in first.data] == ["team-a"]
    assert (remaining.data, remaining.next) == ([Project(name="team-b", created_at=NOW)], None)


def fill(db: Connection, project: str) -> None:
    """Insert some rows of a project, including rows that reference others."""
    db.execute(insert(boards).values(_row(boards, project)))
    db.execute(insert(threads).values(_row(threads, project)))
    db.execute(insert(nodes).values(_row(nodes, project)))
    db.execute(insert(runs).values(_row(runs, project) | {"ended_at": NOW}))
    for first in range(5):
        db.execute(insert(events).values(_row(events, project) | {"first": first}))


def _row(table: Any, project: str) -> dict[str, Any]:
    """Return a row of required columns only."""
    created: dict[type, Any] = {str: "x", int: 1, bool: False, bytes: b"{}", datetime: NOW}
    row = {c.name: created.get(_column_type(c), {}) for c in table.columns if not c.nullable}
    return row | {"project": project}


def _column_type(column: Any) -> type:
    try:
        return column.type.python_type if type(column.type).__name__ != "UtcTimestamp" else datetime
    except NotImplementedError:
        return dict


def projects_by_table(db: Connection) -> dict[str, list[str]]:
    """Return the projects that have rows, by table."""
    result = {
        name: sorted(set(db.scalars(select(table.c.project))))
        for name, table in metadata.tables.items()
        if "project" in table.c
    }
    return {name: projects for name, projects in result.items() if projects}


async def test_erasing_a_project_deletes_its_rows_and_no_others(database: Database) -> None:
    for name in ("team-a", "team-b"):
        await database.write(projects.insert_project, Project(name=name, created_at=NOW))
        await database.write(fill, name)
        await database.write(api_keys.insert_key, key(f"{name}-k", project=name))
        await database.write(api_keys.insert_session, session(name, of=key(f"{name}-k", project=name)))

    assert await database.write(projects.revoke_access, "team-a") == ["team-a-k"]
    after_revocation = await database.read(projects_by_table)
    batches = 1
    while await database.write(projects.delete_project_batch, "team-a", limit=2):
        batches += 1

    assert (after_revocation["keys"], after_revocation["sessions"], after_revocation["runs"]) == (
        ["team-b"],
        ["team-b"],
        ["team-a", "team-b"],
    )
    assert await database.read(projects_by_table) == {
        name: ["team-b"] for name in ("boards", "events", "keys", "nodes", "runs", "sessions", "threads")
    }
    assert [one.name for one in (await database.read(projects.list_projects)).data] == ["team-b"]
    assert batches == 8  # Five events in three steps, and a step for each other table and the name.


async def test_project_has_active_runs_while_a_run_has_not_ended(database: Database) -> None:
    await database.write(fill, "team-a")
    ended = await database.read(projects.has_active_runs, "team-a")
    await database.write(lambda db: db.execute(insert(runs).values(_row(runs, "team-a") | {"id": "run_2"})) and None)

    assert (ended, await database.read(projects.has_active_runs, "team-a")) == (False, True)
    assert await database.read(projects.has_active_runs, "team-b") is False


async def test_the_default_project_is_never_erased(database: Database) -> None:
    for work in (projects.revoke_access, projects.delete_project_batch):
        with pytest.raises(AssertionError):
            await database.write(work, "default")
