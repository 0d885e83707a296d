"""The PostgreSQL fixture: a real server, empty databases, and restarts."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest

from tests import postgres as module
from tests.postgres import Postgres, Unavailable, programs

TABLE_COUNT_QUERY = "select count(*) from pg_tables where schemaname not in ('pg_catalog', 'information_schema')"


def query_value(url: str, query: LiteralString) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()
        return row and row[0]


def execute(url: str, *statements: LiteralString) -> None:
    with psycopg.connect(url) as connection:
        for statement in statements:
            connection.execute(statement)


def test_the_server_answers(postgres_url: str) -> None:
    assert query_value(postgres_url, "select 1") == 1


@pytest.mark.parametrize("turn", ["first", "second"])
def test_a_fresh_database_is_empty(postgres_url: str, turn: str) -> None:
    assert query_value(postgres_url, TABLE_COUNT_QUERY) == 0

    execute(postgres_url, "create table notes (text text)")

    assert query_value(postgres_url, TABLE_COUNT_QUERY) == 1


def test_a_database_can_be_dropped_while_a_client_is_connected(postgres: Postgres) -> None:
    url = postgres.create()

    with psycopg.connect(url) as connection:
        postgres.drop(url)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")

    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


def test_text_is_sorted_by_locale_and_not_by_bytes(postgres_url: str) -> None:
    assert (
        query_value(postgres_url, "select string_agg(x, '' order by x) from unnest(array['B', 'a', 'C']) as x") == "aBC"
    )
    assert (
        query_value(
            postgres_url, """select string_agg(x, '' order by x collate "C") from unnest(array['B', 'a']) as x"""
        )
        == "Ba"
    )


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_the_server_restarts_on_the_same_port_with_its_data(postgres: Postgres, postgres_url: str, ending: str) -> None:
    execute(postgres_url, "create table notes (text text)", "insert into notes values ('kept')")
    port = postgres.port

    with psycopg.connect(postgres_url) as connection:
        getattr(postgres, ending)()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(postgres_url)
    postgres.start()

    assert postgres.port == port
    assert query_value(postgres_url, "select text from notes") == "kept"


def test_a_restart_keeps_the_data(postgres: Postgres, postgres_url: str) -> None:
    execute(postgres_url, "create table notes (text text)")

    postgres.restart()

    assert query_value(postgres_url, TABLE_COUNT_QUERY) == 1


def test_creating_a_database_starts_a_stopped_server(postgres: Postgres) -> None:
    postgres.stop()

    url = postgres.create()

    assert query_value(url, "select 1") == 1
    postgres.drop(url)


HOLDER_SOURCE = """
from tests.postgres import Postgres
with Postgres() as postgres:
    print(postgres._server.pid, postgres._folder, flush=True)
    input()
"""


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_the_server_stops_when_the_process_that_started_it_ends(postgres: Postgres, sign: signal.Signals) -> None:
    root = Path(__file__).parent.parent
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER_SOURCE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=root,
    ) as holder:
        assert holder.stdout is not None
        pid, folder = holder.stdout.readline().split()
        assert Path(folder).is_dir()
        holder.send_signal(sign)
        holder.wait(30)

    assert _has_ended(int(pid), Path(folder))


def _has_ended(pid: int, folder: Path) -> bool:
    end = time.monotonic() + 30
    while folder.exists() or _alive(pid):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # Dead, but not reaped yet: in a container without an init.
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text("utf-8") if Path("/proc/self").exists() else True


def test_a_missing_server_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(module, "DEBIAN_PROGRAMS", tmp_path)

    with pytest.raises(Unavailable):
        programs()

    assert module.main(["install"]) is None
    assert capsys.readouterr().err == (
        'No PostgreSQL server here: install the package "postgresql" (version 13 or newer), or put its initdb and'
        " postgres on the PATH. Until then the tests that need it are skipped.\n"
    )


def test_the_newest_complete_installation_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(module, "DEBIAN_PROGRAMS", tmp_path)
    for version, names in {"9.6": ["initdb", "postgres"], "15": ["initdb", "postgres"], "17": ["initdb"]}.items():
        folder = tmp_path / version / "bin"
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).touch(0o755)

    assert programs() == tmp_path / "15" / "bin"
