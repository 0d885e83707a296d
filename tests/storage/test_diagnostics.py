"""Inspecting a database does not change it."""

import asyncio
import hashlib
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from palaver.errors import SettingsError
from palaver.storage import api_keys, background_runs, diagnostics
from palaver.storage.background_runs import Process
from palaver.storage.database import open_database
from palaver.storage.migrations.upgrade import SCHEMA_VERSION, SchemaState

if TYPE_CHECKING:
    from tests.postgres import Postgres

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


@pytest.fixture
def file(database_template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(database_template, tmp_path / "palaver.db"))


def fill_database(url: str) -> None:
    async def fill() -> None:
        database = open_database(url)
        key, _ = api_keys.new_api_key(project="default", name="one", scopes=frozenset({"read"}), now=NOW)
        await database.write(api_keys.insert_key, key)
        process = Process(id="p", kind="server", host="h", pid=1, version="1", started_at=NOW, seen_at=NOW)
        await database.write(background_runs.register_process, process)
        await database.close()

    asyncio.run(fill())


def test_inspecting_a_file_reports_its_state_without_changing_it(file: Path) -> None:
    fill_database(str(file))
    before = hashlib.sha256(file.read_bytes()).hexdigest(), sorted(file.parent.iterdir())

    report = diagnostics.inspect_file(file, NOW)

    assert report == diagnostics.DatabaseReport(
        kind="sqlite",
        state=SchemaState(SCHEMA_VERSION, is_empty=False),
        version=sqlite3.sqlite_version,
        bytes=file.stat().st_size,
        journal="wal",
        newest_at=NOW,
        has_valid_key=True,
    )
    assert (hashlib.sha256(file.read_bytes()).hexdigest(), sorted(file.parent.iterdir())) == before


def test_inspecting_an_old_schema_reports_its_version_without_upgrading(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE alembic_version SET version_num = '0003'")

    report = diagnostics.inspect_file(file, NOW)

    assert (report.state, report.has_valid_key, report.newest_at) == (SchemaState("0003", is_empty=False), None, None)
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("SELECT version_num FROM alembic_version").fetchall() == [("0003",)]


def test_locked_file_is_reported_as_not_writable(file: Path) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        report = diagnostics.inspect_file(file, NOW)

    assert report.write_obstacle == "database is locked"


def test_file_that_is_not_a_database_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    path.write_text("These are notes, and they are long enough to be taken for a header of a file.\n" * 9)

    with pytest.raises(SettingsError, match="as a database: file is not a database"):
        diagnostics.inspect_file(path, NOW)


def test_inspecting_a_server_reports_its_state_and_clock_offset(postgres: "Postgres", postgres_template: str) -> None:
    url = postgres.create(like=postgres_template)
    fill_database(url)

    report = diagnostics.inspect_server(url, lambda: datetime.now(UTC) - timedelta(hours=1))

    assert report.clock_offset_s is not None
    assert abs(report.clock_offset_s - 3600) < 60
    assert (report.kind, report.state, report.write_obstacle, report.encoding) == (
        "postgresql",
        SchemaState(SCHEMA_VERSION, is_empty=False),
        "",
        "UTF8",
    )
    assert (report.newest_at, report.has_valid_key, report.journal) == (NOW, True, "")
    postgres.drop(url)


def test_inspecting_an_empty_server_creates_no_tables(postgres_url: str) -> None:
    report = diagnostics.inspect_server(postgres_url, lambda: datetime.now(UTC))

    assert (report.state, report.write_obstacle, report.newest_at, report.has_valid_key) == (
        SchemaState(None, is_empty=True),
        "",
        None,
        None,
    )
    with psycopg.connect(postgres_url) as db:
        assert db.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)


def test_read_only_server_is_reported_as_not_writable(postgres: "Postgres", postgres_template: str) -> None:
    url = postgres.create(like=postgres_template)
    with psycopg.connect(url, autocommit=True) as db:
        name = url.rpartition("/")[2]
        db.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on".encode())

    assert diagnostics.inspect_server(url, lambda: datetime.now(UTC)).write_obstacle == "the database is read-only"
    postgres.drop(url)
