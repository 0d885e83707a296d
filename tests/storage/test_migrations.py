"""Databases of every earlier version are upgraded; databases of other programs are not changed."""

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, insert, inspect, select, text

from palaver.errors import Overloaded, SettingsError
from palaver.storage.database import open_database
from palaver.storage.migrations import upgrade
from palaver.storage.migrations.upgrade import SCHEMA_VERSION, SchemaState
from palaver.storage.postgres import create_postgres_engine
from palaver.storage.tables import metadata
from tests.storage import next_schema


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "palaver.db"


@pytest.fixture
def newer_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make this Palaver know a newer schema version for the rest of the test."""
    folder = tmp_path / "versions"
    folder.mkdir()
    monkeypatch.setattr(upgrade, "VERSION_LOCATIONS", next_schema.write_script(folder))
    monkeypatch.setattr(upgrade, "SCHEMA_VERSION", next_schema.HEAD)
    return next_schema.HEAD


async def create_database(url: str, form: str = SCHEMA_VERSION) -> None:
    """Create a database with one project, of the current or an older schema version."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upgrade, "SCHEMA_VERSION", form)
        opened = open_database(url)
        await opened.write(lambda db: db.execute(text("INSERT INTO projects (name, created_at) VALUES ('team-a', 7)")))
        await opened.close()


def rows(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as file:
        return file.execute(query).fetchall()


def content(path: Path) -> bytes:
    return path.read_bytes()


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


# A file


async def test_new_file_and_folder_are_readable_only_by_their_owner(path: Path) -> None:
    umask = os.umask(0)
    try:
        opened = open_database(str(path))
        await opened.write(lambda db: db.execute(text("DELETE FROM projects")))
        modes = {file.name: mode(file) for file in (path.parent, *path.parent.iterdir())}
        await opened.close()
    finally:
        os.umask(umask)

    assert modes == {"data": "0o700", "palaver.db": "0o600", "palaver.db-wal": "0o600", "palaver.db-shm": "0o600"}
    assert upgrade.file_schema_state(path) == SchemaState(SCHEMA_VERSION, is_empty=False)
    assert [file.name for file in path.parent.iterdir()] == ["palaver.db"]


async def test_file_of_the_current_version_is_not_changed(path: Path) -> None:
    await create_database(str(path))
    before = content(path)

    assert upgrade.upgrade_file(path) is None
    assert content(path) == before


async def test_old_file_is_upgraded_and_a_backup_copy_is_made(
    path: Path, newer_version: str, caplog: pytest.LogCaptureFixture
) -> None:
    await create_database(str(path))
    umask = os.umask(0)
    try:
        await open_database(str(path)).close()
    finally:
        os.umask(umask)

    [copy] = path.parent.glob("*.backup")
    assert copy.name.startswith(f"palaver.db.{SCHEMA_VERSION}.20")
    assert caplog.messages == [
        f"Upgraded the database {path} to schema version {newer_version}. A backup of the old database is at {copy}."
    ]
    assert rows(path, "SELECT name, created_at, title FROM projects") == [("team-a", 7, "Project team-a")]
    assert rows(path, "SELECT * FROM marks") == [("team-a", 1)]
    assert mode(copy) == "0o600"
    assert upgrade.file_schema_state(copy) == SchemaState(SCHEMA_VERSION, is_empty=False)
    assert rows(copy, "SELECT * FROM projects") == [("team-a", 7)]
    assert upgrade.upgrade_file(path) is None  # The second time there is nothing to do.
    assert sorted(file.name for file in path.parent.iterdir()) == ["palaver.db", copy.name]


async def test_failed_upgrade_leaves_the_file_unchanged(path: Path, newer_version: str, tmp_path: Path) -> None:
    await create_database(str(path))
    script = tmp_path / "versions" / "9999_the_next.py"
    script.write_text(script.read_text().replace("ix_marks_place", "ix_threads_latest"), encoding="utf-8")
    before = rows(path, "SELECT sql FROM sqlite_master")

    with pytest.raises(SettingsError) as refused:
        open_database(str(path))

    message = "index ix_threads_latest already exists"
    assert refused.value.message == f"Failed to upgrade {path} to schema version {newer_version}: {message}."
    assert rows(path, "SELECT sql FROM sqlite_master") == before
    assert upgrade.file_schema_state(path) == SchemaState(SCHEMA_VERSION, is_empty=False)
    assert list(path.parent.glob("*.backup")) == []


async def test_file_is_not_upgraded_if_no_backup_copy_can_be_made(
    path: Path, newer_version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create_database(str(path))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(SettingsError) as refused:
        open_database(str(path))

    assert refused.value.message == (
        f"{path} was not upgraded because it could not be backed up: [Errno 28] No space left on device."
    )
    assert upgrade.file_schema_state(path) == SchemaState(SCHEMA_VERSION, is_empty=False)
    assert [file.name for file in path.parent.iterdir()] == ["palaver.db"]


async def test_file_of_a_newer_version_is_rejected(path: Path) -> None:
    await create_database(str(path))
    with closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE alembic_version SET version_num = '9999'")
        file.commit()
    before = content(path)

    with pytest.raises(SettingsError) as refused:
        open_database(str(path))

    assert refused.value.message == (
        f"{path} was created by a newer version of Palaver (schema version 9999, supported: {SCHEMA_VERSION})."
        " Upgrade Palaver, or choose another database with --db."
    )
    assert content(path) == before


@pytest.mark.parametrize(
    "foreign",
    [
        ["CREATE TABLE recipes (name TEXT)"],
        # Other programs use Alembic too, and some number their revisions the same way.
        ["CREATE TABLE alembic_version (version_num TEXT)", "INSERT INTO alembic_version VALUES ('0584bdc529eb')"],
        [
            "CREATE TABLE alembic_version (version_num TEXT)",
            "INSERT INTO alembic_version VALUES ('0001')",
            "CREATE TABLE recipes (name TEXT)",
        ],
    ],
)
def test_a_file_of_another_program_is_refused(tmp_path: Path, foreign: list[str]) -> None:
    path = tmp_path / "recipes.db"
    with closing(sqlite3.connect(path)) as file:
        for statement in foreign:
            file.execute(statement)
        file.commit()
    before = content(path)

    with pytest.raises(SettingsError) as refused:
        open_database(str(path))

    assert refused.value.message == f"{path} is the database of another program. Choose another one with --db."
    assert content(path) == before


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "palaver.db"
    path.write_bytes(b"this was a database once, and is one no more" * 100)

    with pytest.raises(SettingsError) as refused:
        open_database(str(path))

    assert refused.value.message == f"Cannot read {path} as a database: file is not a database."


def test_file_name_with_url_query_characters_is_opened_literally(tmp_path: Path) -> None:
    path = tmp_path / "a?mode=memory&b%20c.db"
    path.touch()

    upgrade.ensure_file_current(path)

    assert upgrade.file_schema_state(path) == SchemaState(SCHEMA_VERSION, is_empty=False)


def test_locked_file_is_reported_as_locked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrade, "_BUSY_TIMEOUT_S", 0)
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(SettingsError) as refused:
            upgrade.ensure_file_current(path)
        other.rollback()
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Overloaded) as busy:
            upgrade.ensure_file_current(path)

    assert refused.value.message == f"Cannot read {path} as a database: database is locked."
    assert busy.value.message == "The database is locked by another process. Try again shortly."


def test_setting_wal_mode_is_retried_while_the_database_is_busy() -> None:
    statements: list[str] = []

    class Busy:
        isolation_level = ""

        def execute(self, statement: str) -> None:
            statements.append(statement)
            if statements.count("PRAGMA journal_mode = WAL") in (1, 2):
                error = sqlite3.OperationalError("database is locked")
                error.sqlite_errorcode = sqlite3.SQLITE_BUSY
                raise error

    upgrade._prepare_connection(Busy(), None)  # type: ignore[arg-type]

    assert statements == ["PRAGMA busy_timeout = 30000", *["PRAGMA journal_mode = WAL"] * 3]


async def test_file_upgraded_by_another_process_meanwhile_is_not_changed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create_database(str(path))
    monkeypatch.setattr(upgrade, "file_schema_state", lambda _: SchemaState(None, is_empty=True))  # An outdated state.

    assert upgrade.upgrade_file(path) is None
    assert rows(path, "SELECT name FROM projects") == [("team-a",)]


KILLED_WRITER_SCRIPT = """
import os, signal, sqlite3, sys
file = sqlite3.connect(sys.argv[1], isolation_level=None)
file.execute("PRAGMA cache_size = 5")
file.execute("BEGIN")
file.execute("CREATE TABLE recipes (name TEXT)")
file.executemany("INSERT INTO recipes VALUES (?)", [("x" * 500,)] * 1000)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_unfinished_transaction_of_a_killed_process_is_rolled_back(path: Path) -> None:
    path.parent.mkdir()
    subprocess.run([sys.executable, "-c", KILLED_WRITER_SCRIPT, str(path)], check=False)
    assert path.with_name("palaver.db-journal").exists()

    upgrade.ensure_file_current(path)

    assert upgrade.file_schema_state(path) == SchemaState(SCHEMA_VERSION, is_empty=False)


# Concurrent processes

OPEN_SCRIPT = """
import sys
from palaver.storage.database import open_database
from palaver.storage.migrations import upgrade
import alembic.command, asyncio

upgrade.SCHEMA_VERSION, url, *upgrade.VERSION_LOCATIONS = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
asyncio.run(open_database(url).close())
"""


def open_concurrently(url: str, versions: list[str], head: str, count: int = 4) -> None:
    """Let several processes open the same database at the same moment."""
    command = [sys.executable, "-W", "error", "-c", OPEN_SCRIPT, head, url, *versions]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        outputs = [process.communicate(timeout=60)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert [process.returncode for process in processes] == [0] * count, outputs


def test_concurrent_processes_create_and_upgrade_a_file_once(path: Path, newer_version: str) -> None:
    open_concurrently(str(path), upgrade.VERSION_LOCATIONS[:1], SCHEMA_VERSION)
    assert upgrade.file_schema_state(path) == SchemaState(SCHEMA_VERSION, is_empty=False)
    with closing(sqlite3.connect(path)) as file:
        file.execute("INSERT INTO projects (name, created_at) VALUES ('team-a', 7)")
        file.commit()

    open_concurrently(str(path), upgrade.VERSION_LOCATIONS, newer_version)

    assert upgrade.file_schema_state(path) == SchemaState(newer_version, is_empty=False)
    assert rows(path, "SELECT * FROM marks") == [("team-a", 1)]
    [copy] = path.parent.glob("*.backup")
    assert upgrade.file_schema_state(copy) == SchemaState(SCHEMA_VERSION, is_empty=False)


async def test_concurrent_processes_upgrade_a_server_database_once(postgres_url: str, newer_version: str) -> None:
    open_concurrently(postgres_url, upgrade.VERSION_LOCATIONS[:1], SCHEMA_VERSION)
    await create_database(postgres_url)

    open_concurrently(postgres_url, upgrade.VERSION_LOCATIONS, newer_version)

    opened = open_database(postgres_url)
    result = await opened.read(lambda db: [tuple(row) for row in db.execute(text("SELECT name, title FROM projects"))])
    await opened.close()
    assert result == [("team-a", "Project team-a")]


# A server


@pytest.fixture
def server_engine(postgres_url: str) -> Iterator[Engine]:
    engine = create_postgres_engine(postgres_url)
    yield engine
    engine.dispose()


def test_empty_server_database_gets_the_current_schema(server_engine: Engine) -> None:
    empty = upgrade.server_schema_state(server_engine, "here")
    upgrade.ensure_server_current(server_engine, "here")

    assert (empty, upgrade.server_schema_state(server_engine, "here")) == (
        SchemaState(None, True),
        SchemaState(SCHEMA_VERSION, False),
    )


INVALID_VERSION_TABLE = "CREATE TABLE alembic_version (name TEXT)"
FOREIGN_TABLE = "CREATE TABLE recipes (name TEXT)"
NEWER_SCHEMA = """
CREATE TABLE alembic_version (version_num TEXT);
INSERT INTO alembic_version VALUES ('9999');
CREATE TABLE projects (name TEXT); CREATE TABLE keys (name TEXT); CREATE TABLE runs (name TEXT);
"""


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (FOREIGN_TABLE, "here is the database of another program."),
        (NEWER_SCHEMA, "here was created by a newer version of Palaver (schema version 9999, "),
        (INVALID_VERSION_TABLE, 'Cannot read here as a database: column "version_num" does not exist'),
    ],
)
def test_server_database_that_is_foreign_or_newer_is_rejected(
    server_engine: Engine, statement: str, message: str
) -> None:
    with server_engine.begin() as connection:
        connection.execute(text(statement))

    with pytest.raises(SettingsError) as refused:
        upgrade.ensure_server_current(server_engine, "here")

    assert refused.value.message.startswith(message)


def test_error_for_an_unreachable_server_hides_the_password() -> None:
    with pytest.raises(SettingsError) as refused:
        open_database("postgresql://palaver:secret@127.0.0.1:1/palaver")

    assert refused.value.message.startswith("Cannot connect to postgresql://palaver:***@127.0.0.1:1/palaver: ")
    assert "secret" not in refused.value.message


def test_missing_permission_to_create_tables_is_reported(server_engine: Engine, postgres_url: str) -> None:
    with server_engine.begin() as connection:
        connection.execute(text("REVOKE CREATE ON SCHEMA public FROM PUBLIC"))
        connection.execute(text("CREATE ROLE guest LOGIN PASSWORD 'guest'"))
    try:
        location = postgres_url.rpartition("@")[2]
        with pytest.raises(SettingsError) as refused:
            open_database(f"postgresql://guest:guest@{location}")
    finally:
        with server_engine.begin() as connection:
            connection.execute(text("DROP ROLE guest"))

    message = (
        f"Failed to upgrade postgresql://guest:***@{location} to schema version {SCHEMA_VERSION}:"
        " permission denied for schema public"
    )
    assert refused.value.message.startswith(message)


# Migration scripts


def test_schema_version_is_the_head_of_the_migration_scripts() -> None:
    config = Config()
    config.set_main_option("script_location", "palaver.storage:migrations")
    config.set_main_option("path_separator", "newline")

    assert ScriptDirectory.from_config(config).get_heads() == [SCHEMA_VERSION]


@pytest.fixture(params=["file", "postgresql"])
def migrated_engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """A database created by the migration scripts."""
    if request.param == "file":
        engine = create_engine(f"sqlite:///{tmp_path / 'palaver.db'}")
        with engine.begin() as connection:
            upgrade._run_scripts(connection)
    else:
        engine = create_postgres_engine(request.getfixturevalue("postgres_url"))
        upgrade.ensure_server_current(engine, "here")
    yield engine
    engine.dispose()


def test_migrated_schema_matches_the_table_definitions(migrated_engine: Engine) -> None:
    with migrated_engine.connect() as connection:
        options = {"compare_type": True, "compare_server_default": True, "include_name": _is_ours}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, metadata) == []


def test_migrated_schema_equals_created_schema_in_column_order_keys_and_indexes(migrated_engine: Engine) -> None:
    """Compare what Alembic does not: column order, keys and the conditions of indexes."""
    with migrated_engine.begin() as connection:
        by_scripts = _describe_schema(connection)
        metadata.drop_all(connection)
        metadata.create_all(connection)
        by_code = _describe_schema(connection)

    assert by_scripts == by_code
    assert set(by_scripts) == set(metadata.tables)


def test_a_new_file_has_the_schema_and_the_version_that_the_scripts_would_give_it(tmp_path: Path) -> None:
    new, scripted = (create_engine(f"sqlite:///{tmp_path / name}") for name in ("new.db", "scripted.db"))
    (tmp_path / "new.db").touch()
    upgrade.ensure_file_current(tmp_path / "new.db")
    with scripted.begin() as connection:
        upgrade._run_scripts(connection)

    schemas: list[Any] = []
    for engine in (new, scripted):
        with engine.connect() as connection:
            names = text("SELECT type, name FROM sqlite_master ORDER BY type, name")
            version = text("SELECT * FROM alembic_version")
            columns = inspect(connection).get_columns("alembic_version")
            schemas.append(
                (
                    _describe_schema(connection),
                    connection.execute(names).all(),
                    connection.execute(version).all(),
                    str(columns),
                )
            )
        engine.dispose()
    assert schemas[0] == schemas[1]


def _describe_schema(connection: Connection) -> dict[str, Any]:
    inspector = inspect(connection)
    return {
        table: (
            [(column["name"], str(column["type"]), column["nullable"]) for column in inspector.get_columns(table)],
            inspector.get_pk_constraint(table),
            sorted(map(str, inspector.get_foreign_keys(table))),
            sorted(map(_describe_index, inspector.get_indexes(table))),
            sorted(map(str, inspector.get_unique_constraints(table))),
        )
        for table in inspector.get_table_names()
        if table != "alembic_version" and _is_ours(table)
    }


def _is_ours(name: str | None, *_: object) -> bool:
    """Return whether it is a table of the schema, and not one that SQLite manages for full-text search."""
    return not f"{name}".startswith("span_words")


def _describe_index(index: Any) -> str:
    options = {name: str(value) for name, value in index.get("dialect_options", {}).items()}
    return str({**index, "dialect_options": options})


def test_each_table_can_be_read_and_file_pieces_stores_a_row(migrated_engine: Engine) -> None:
    with migrated_engine.begin() as connection:
        for table in metadata.sorted_tables:
            assert connection.execute(select(table)).all() == []
        connection.execute(insert(metadata.tables["file_pieces"]).values(project="a", sha256="b", place=0, data=b"c"))
        assert connection.execute(select(metadata.tables["file_pieces"])).all() == [("a", "b", 0, b"c")]


@pytest.mark.parametrize("kind", ["file", "postgresql"])
async def test_database_of_the_first_version_is_upgraded_and_keeps_its_rows(
    kind: str, path: Path, request: pytest.FixtureRequest
) -> None:
    url = str(path) if kind == "file" else request.getfixturevalue("postgres_url")
    await create_database(url, form="0001")

    opened = open_database(url)
    projects = await opened.read(lambda db: [tuple(row) for row in db.execute(text("SELECT name FROM projects"))])
    spans = await opened.read(lambda db: db.execute(text("SELECT count(*) FROM spans")).scalar_one())
    await opened.close()

    assert (projects, spans) == ([("team-a",)], 0)
