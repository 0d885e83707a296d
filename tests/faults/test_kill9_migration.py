"""kill -9 at any step of a migration: the database opens with the old schema or the new one, never between.

One process loads the libraries and forks a child for each round. The child counts its steps, which are the lines of our
own code and the moments before and after each statement, and kills itself at one of them; or it is killed from outside
after a while, which may be during a statement.
"""

import random
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import Engine, NullPool, create_engine, make_url, text

from palaver.storage.migrations import upgrade
from palaver.storage.migrations.upgrade import SCHEMA_VERSION, SchemaState
from tests.faults.rounds import round_count
from tests.postgres import Postgres
from tests.storage import next_schema

MIGRATOR_SOURCE = """
import os, signal, sys, time
from pathlib import Path
import alembic.command, alembic.config, msgspec
from palaver.storage import postgres
from palaver.storage.migrations import upgrade

def is_ours(code):
    return code.co_filename.endswith("storage/migrations/upgrade.py")

def is_statement(code):
    return "/sqlalchemy/" in code.co_filename and code.co_name.startswith("do_")

def change(url, at):
    steps = 0
    def trace(frame, event, _):
        nonlocal steps
        if not is_ours(frame.f_code) and not is_statement(frame.f_code):
            return None
        if event != "line" or is_ours(frame.f_code):
            steps += 1
        if steps == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace
    sys.settrace(trace)
    if url.startswith("postgresql"):
        engine = postgres.create_postgres_engine(url)
        upgrade.ensure_server_current(engine, "here")
        engine.dispose()
    else:
        upgrade.upgrade_file(Path(url))
    sys.settrace(None)
    return steps

print("ready", flush=True)
for line in sys.stdin:
    asked = msgspec.json.decode(line)
    upgrade.SCHEMA_VERSION, upgrade.VERSION_LOCATIONS = asked["head"], asked["versions"]
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, str(change(asked["url"], asked["at"])).encode())
        os._exit(0)
    os.close(writing)
    if asked["after"] is not None:
        time.sleep(asked["after"])
        os.kill(child, signal.SIGKILL)
    began = time.monotonic()
    with open(reading, "rb") as pipe:
        steps = pipe.read()
    _, status = os.waitpid(child, 0)
    told = {"killed": os.WIFSIGNALED(status), "steps": int(steps or 0), "seconds": time.monotonic() - began}
    print(msgspec.json.encode(told).decode(), flush=True)
"""


class MigrationResult(msgspec.Struct):
    """How a migration ended."""

    killed: bool
    steps: int
    """Number of steps, if the migration completed."""
    seconds: float


class Migrator:
    """Migrates databases to the newer schema, and is killed at the given moment."""

    def __init__(self, versions: list[str]) -> None:
        self._versions = versions
        self._process = subprocess.Popen(
            [sys.executable, "-c", MIGRATOR_SOURCE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._read() == "ready\n"

    def change(self, url: str, *, head: str, at: int | None = None, after: float | None = None) -> MigrationResult:
        arguments = {"url": url, "head": head, "versions": self._versions, "at": at, "after": after}
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(arguments).decode() + "\n")
        self._process.stdin.flush()
        return msgspec.json.decode(self._read(), type=MigrationResult)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@pytest.fixture
def changer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Migrator]:
    folder = tmp_path / "versions"
    folder.mkdir()
    versions = next_schema.write_script(folder)
    changer = Migrator(versions)
    monkeypatch.setattr(upgrade, "VERSION_LOCATIONS", versions)
    yield changer
    changer.close()


def kill_moments(steps: int, seconds: float, chance: random.Random, sample: int) -> list[dict[str, Any]]:
    """Return when to kill: at each step (in `make test` at some of them, and the last), and at random times."""
    at = [*chance.sample(range(1, steps), min(steps - 1, round_count(sample, steps))), steps]
    after = [chance.uniform(0, seconds * 1.1) for _ in range(round_count(sample // 2, 100))]
    return [*({"at": step} for step in at), *({"after": wait} for wait in after)]


# SQLite


def read_sqlite_snapshot(path: Path) -> tuple[SchemaState, set[Any], list[Any]]:
    """Return the schema version, schema and rows of a file."""
    state = upgrade.file_schema_state(path)
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        schema = set(file.execute("SELECT name, sql FROM sqlite_master"))
        rows = file.execute("SELECT * FROM projects ORDER BY name").fetchall() if state.version else []
    return state, schema, rows


@pytest.mark.parametrize("before", ["nothing", "an old form"])
def test_a_killed_sqlite_migration_leaves_the_old_or_the_new_schema(
    changer: Migrator, before: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(11)
    old = tmp_path / "old.db"
    old.touch()
    head = SCHEMA_VERSION
    if before == "an old form":
        changer.change(str(old), head=SCHEMA_VERSION)
        with closing(sqlite3.connect(old)) as file:
            file.executemany("INSERT INTO projects VALUES (?, ?)", [(f"team-{n}", n) for n in range(2_000)])
            file.commit()
        head = next_schema.HEAD
    monkeypatch.setattr(upgrade, "SCHEMA_VERSION", head)
    new = tmp_path / "new.db"
    shutil.copy(old, new)
    undisturbed = changer.change(str(new), head=head)
    snapshots = [read_sqlite_snapshot(old), read_sqlite_snapshot(new)]
    assert [snapshot[0].version for snapshot in snapshots] == [None if head == SCHEMA_VERSION else SCHEMA_VERSION, head]

    outcomes: list[int] = []
    for number, moment in enumerate(kill_moments(undisturbed.steps, undisturbed.seconds, chance, 16)):
        path = tmp_path / str(number) / "palaver.db"
        path.parent.mkdir()
        shutil.copy(old, path)

        result = changer.change(str(path), head=head, **moment)

        assert result.killed or "after" in moment
        snapshot = read_sqlite_snapshot(path)
        assert snapshot in snapshots, moment
        outcomes.append(snapshots.index(snapshot))
        upgrade.upgrade_file(path)
        assert read_sqlite_snapshot(path) == snapshots[1], moment
        for copy in path.parent.glob("*.backup"):
            assert (read_sqlite_snapshot(copy), stat.S_IMODE(copy.stat().st_mode)) == (snapshots[0], 0o600), moment
        assert list(path.parent.glob("*.part")) == []
        shutil.rmtree(path.parent)

    assert set(outcomes) == {0, 1}  # Otherwise the rounds prove nothing.


# PostgreSQL


COLUMNS_QUERY = """
SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns WHERE table_schema = 'public'
"""


def read_postgres_snapshot(engine: Engine) -> tuple[SchemaState, set[Any], list[Any]]:
    """Return the schema version, schema and rows of a PostgreSQL database."""
    state = upgrade.server_schema_state(engine, "here")
    with engine.connect() as connection:
        schema = {tuple(row) for row in connection.execute(text(COLUMNS_QUERY))}
        schema |= set(connection.scalars(text("SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'")))
        query = text("SELECT * FROM projects ORDER BY name")
        rows = [tuple(row) for row in connection.execute(query)] if state.version else []
    return state, schema, rows


def test_a_killed_postgresql_migration_leaves_the_old_or_the_new_schema(
    changer: Migrator, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(12)
    monkeypatch.setattr(upgrade, "SCHEMA_VERSION", next_schema.HEAD)

    def create_old_database() -> tuple[str, Engine]:
        url = postgres.create()
        changer.change(url, head=SCHEMA_VERSION)
        engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"), poolclass=NullPool)
        with engine.begin() as connection:
            connection.execute(text("INSERT INTO projects SELECT 'team-' || n, n FROM generate_series(1, 2000) AS n"))
        return url, engine

    url, engine = create_old_database()
    snapshots = [read_postgres_snapshot(engine)]
    undisturbed = changer.change(url, head=next_schema.HEAD)
    snapshots.append(read_postgres_snapshot(engine))
    assert [snapshot[0].version for snapshot in snapshots] == [SCHEMA_VERSION, next_schema.HEAD]

    outcomes: list[int] = []
    for moment in kill_moments(undisturbed.steps, undisturbed.seconds, chance, 16):
        if not outcomes or outcomes[-1] == 1:
            postgres.drop(url)
            url, engine = create_old_database()

        result = changer.change(url, head=next_schema.HEAD, **moment)

        assert result.killed or "after" in moment
        snapshot = read_postgres_snapshot(engine)
        assert snapshot in snapshots, moment
        outcomes.append(snapshots.index(snapshot))
    upgrade.ensure_server_current(engine, "here")
    assert read_postgres_snapshot(engine) == snapshots[1]
    postgres.drop(url)

    assert set(outcomes) == {0, 1}
