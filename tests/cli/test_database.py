"""`palaver migrate`, `backup` and `restore`: output, effects, and the choice of the database."""

import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import Connection, text

from palaver.cli.database import database_url, postgres_command, use_database
from palaver.cli.main import main
from palaver.errors import Overloaded
from palaver.storage.file_lock import FileLock
from palaver.storage.migrations import upgrade
from palaver.storage.migrations.upgrade import SCHEMA_VERSION
from palaver.storage.paths import lock_path
from tests.storage import next_schema

Palaver = Callable[..., tuple[int, str, str]]


@pytest.fixture
def palaver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Palaver:
    """Run a command in an empty folder without a database; return its exit code, stdout and stderr."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("PALAVER_DB", raising=False)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit_info:
            main(list(arguments))
        printed = capsys.readouterr()
        return int(exit_info.value.code or 0), printed.out, printed.err

    return run


@pytest.fixture
def expect_newer_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Make this Palaver expect a newer schema; return its version."""

    def patch_schema() -> str:
        folder = tmp_path / "versions"
        folder.mkdir()
        monkeypatch.setattr(upgrade, "VERSION_LOCATIONS", next_schema.write_script(folder))
        monkeypatch.setattr(upgrade, "SCHEMA_VERSION", next_schema.HEAD)
        return next_schema.HEAD

    return patch_schema


# Which database


def test_the_database_is_chosen_by_option_then_variable_then_file_then_default(
    palaver: Palaver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = [database_url(None)]
    (tmp_path / "palaver.toml").write_text('db = "file.db"', encoding="utf-8")
    urls.append(database_url(None))
    monkeypatch.setenv("PALAVER_DB", "variable.db")
    urls.append(database_url(None))
    urls.append(database_url("option.db"))

    assert urls == [str(tmp_path / "data" / "palaver" / "palaver.db"), "file.db", "variable.db", "option.db"]


async def test_use_database_opens_the_given_database_and_closes_it(tmp_path: Path) -> None:
    def select_one(db: Connection) -> int | None:
        return db.scalar(text("SELECT 1"))

    async with use_database(str(tmp_path / "palaver.db")) as database:
        assert (database.kind, database.path) == ("sqlite", tmp_path / "palaver.db")
        assert await database.read(select_one) == 1

    with pytest.raises(Overloaded, match="The database is closed"):
        await database.read(select_one)


def test_a_suggested_postgresql_command_has_no_password() -> None:
    command_line = postgres_command(
        "pg_dump", "--file=a b", "--dbname=postgresql+psycopg://u:p%40s@h:5432/db?a=1&password=x"
    )

    assert command_line == "pg_dump '--file=a b' '--dbname=postgresql://u@h:5432/db?a=1&password='"


@pytest.mark.parametrize("command", [["migrate"], ["backup", "x.zip"], ["restore", "x.zip"]])
def test_an_unsupported_database_url_is_an_error_with_exit_code_2(palaver: Palaver, command: list[str]) -> None:
    error = (
        "error: Invalid value for '--db': Unsupported database URL 'mysql://root:***@h/x'."
        f" Use a path, sqlite:///path or postgresql://host/name.\nTry 'palaver {command[0]} --help'.\n"
    )
    assert palaver(*command, "--db", "mysql://root:secret@h/x") == (2, "", error)


# migrate


def test_migrate_creates_a_database_and_reports_it(palaver: Palaver, tmp_path: Path) -> None:
    path = tmp_path / "data" / "palaver" / "palaver.db"

    assert palaver("migrate", "--dry-run") == (0, f"Would create {path} (schema version {SCHEMA_VERSION}).\n", "")
    assert not path.exists()
    assert palaver("migrate") == (0, f"Created {path} (schema version {SCHEMA_VERSION}).\n", "")
    assert palaver("migrate") == (0, f"{path} is up to date (schema version {SCHEMA_VERSION}).\n", "")
    assert oct(stat.S_IMODE(path.parent.stat().st_mode)) == "0o700"


def test_migrate_upgrades_a_database_and_reports_versions_and_backup_as_json(
    palaver: Palaver, tmp_path: Path, expect_newer_schema: Callable[[], str]
) -> None:
    palaver("migrate", "--db", "my.db")
    head, path = expect_newer_schema(), tmp_path / "my.db"

    would = f"Would upgrade my.db from schema version {SCHEMA_VERSION} to {head}.\n"
    assert palaver("migrate", "--db", "my.db", "--dry-run") == (0, would, "")
    with FileLock(lock_path(path)):
        refused = (1, "", "error: A server is using my.db. Stop it first.\n")
        assert palaver("migrate", "--db", "my.db") == refused
    code, out, err = palaver("migrate", "--db", "my.db", "--json")

    [copy] = tmp_path.glob("*.backup")
    assert (code, err) == (0, "")
    assert msgspec.json.decode(out) == {
        "database": "my.db",
        "from": SCHEMA_VERSION,
        "to": head,
        "changed": True,
        "copy": copy.name,
    }


def test_migrate_reports_versions_and_backup_as_text(
    palaver: Palaver, tmp_path: Path, expect_newer_schema: Callable[[], str]
) -> None:
    palaver("migrate", "--db", "my.db")
    head = expect_newer_schema()

    code, out, _ = palaver("migrate", "--db", "my.db")

    [copy] = tmp_path.glob("*.backup")
    message = (
        f"Upgraded my.db from schema version {SCHEMA_VERSION} to {head}."
        f" A copy of the previous version is in {copy.name}.\n"
    )
    assert (code, out) == (0, message)


def test_migrate_works_with_postgresql(
    palaver: Palaver, postgres_url: str, expect_newer_schema: Callable[[], str]
) -> None:
    masked_url = postgres_url.replace(postgres_url.partition("palaver:")[2].partition("@")[0], "***")

    created = f"Created {masked_url} (schema version {SCHEMA_VERSION}).\n"
    up_to_date = f"{masked_url} is up to date (schema version {SCHEMA_VERSION}).\n"
    assert palaver("migrate", "--db", postgres_url) == (0, created, "")
    assert palaver("migrate", "--db", postgres_url) == (0, up_to_date, "")
    head = expect_newer_schema()
    assert palaver("migrate", "--db", postgres_url, "--dry-run") == (
        0,
        f"Would upgrade {masked_url} from schema version {SCHEMA_VERSION} to {head}.\n",
        "",
    )


# backup and restore


def test_a_database_is_backed_up_and_restored(palaver: Palaver, tmp_path: Path) -> None:
    palaver("migrate")
    path = tmp_path / "data" / "palaver" / "palaver.db"
    size = f"{path.stat().st_size:,}"

    backed_up = f"Backed up {path} to b.zip ({size} bytes, schema version {SCHEMA_VERSION}).\n"
    assert palaver("backup", "b.zip") == (0, backed_up, "")
    assert palaver("backup", "b.zip") == (1, "", "error: b.zip already exists. Choose another name.\n")
    assert palaver("restore", "b.zip")[0] == 1
    code, out, err = palaver("restore", "b.zip", "--force")

    [previous] = path.parent.glob("*.aside")
    assert (code, err) == (0, "")
    assert out.startswith(f"Restored {path} from the backup of 20")
    assert out.endswith(f" UTC (schema version {SCHEMA_VERSION}). The previous database was renamed to {previous}.\n")


def test_backup_and_restore_report_as_json(palaver: Palaver, tmp_path: Path) -> None:
    palaver("migrate", "--db", "my.db")
    with closing(sqlite3.connect("my.db")) as file:
        file.execute("INSERT INTO projects VALUES ('team-a', 0)")
        file.commit()

    manifest = msgspec.json.decode(palaver("backup", "b.zip", "--db", "sqlite:///my.db", "--json")[1])
    restored = msgspec.json.decode(palaver("restore", "b.zip", "--db", "other.db", "--json")[1])

    assert (manifest["schema"], [part["name"] for part in manifest["files"]]) == (SCHEMA_VERSION, ["palaver.db"])
    assert restored == {"database": "other.db", "schema": SCHEMA_VERSION, "made_at": manifest["made_at"], "aside": []}
    with closing(sqlite3.connect("other.db")) as file:
        assert file.execute("SELECT name FROM projects").fetchall() == [("team-a",)]


def test_backup_and_restore_name_the_program_to_use_for_postgresql(palaver: Palaver) -> None:
    url = "postgresql://palaver:secret@db.example.org/palaver"

    masked_url = "--dbname=postgresql://palaver@db.example.org/palaver"

    backup_error = (
        "error: palaver backup supports SQLite only. For PostgreSQL, run:"
        f" pg_dump --format=custom --file=b.dump {masked_url}\n"
    )
    assert palaver("backup", "b.dump", "--db", url) == (2, "", backup_error)
    restore_error = (
        "error: palaver restore supports SQLite only. For PostgreSQL, run:"
        f" pg_restore --clean --if-exists {masked_url} b.dump\n"
    )
    assert palaver("restore", "b.dump", "--db", url) == (2, "", restore_error)
