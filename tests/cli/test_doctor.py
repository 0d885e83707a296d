"""`palaver doctor`: each check reports its result and a remedy, and changes nothing."""

import shutil
import socket
import sqlite3
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from palaver.cli.doctor import checks
from palaver.cli.doctor import settings as set_
from palaver.cli.doctor.checks import Check, ClockReading, ok, problem, summarize_checks, warning
from palaver.cli.main import cli
from palaver.server.settings import Settings, read_settings
from palaver.storage.database import open_database
from palaver.storage.diagnostics import DatabaseReport
from palaver.storage.migrations.upgrade import SCHEMA_VERSION, SchemaState
from tests.cli.probe_servers import running_server

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
FREE_BYTES = 10 * 1024**3
PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


@pytest.fixture
def file(database_template: Path, tmp_path: Path) -> Path:
    copy_path = Path(shutil.copy(database_template, tmp_path / "palaver.db"))
    copy_path.chmod(0o600)
    return copy_path


def lines(checks: list[Check]) -> list[tuple[str, str]]:
    """Return the sign and the line of every check that is not ok."""
    return [(check.sign, check.line) for check in checks if check.sign != "ok"]


# Settings


def settings_lines(
    folder: Path, toml: str = "", env: dict[str, str] | None = None, **options: Any
) -> list[tuple[str, str]]:
    (folder / "palaver.toml").write_text(toml, encoding="utf-8")
    settings, _ = read_settings(env=env or {}, folder=folder)
    all_options: dict[str, Any] = {"database": "palaver.db", "has_key": True, **options}
    return lines(list(set_.check_settings(settings, folder=folder, env=env or {}, **all_options)))


def test_valid_settings_give_one_ok_line(tmp_path: Path) -> None:
    (tmp_path / "palaver.toml").write_text("port = 9000\n[jobchat]\nprovider = 'scripted'\n", encoding="utf-8")
    env = {"PALAVER_KEY": "x", "PALAVER_JOBCHAT_MODEL": "m", "PALAVER_WEBHOOK_SECRET": "s", "PALAVER_PORT": "9001"}

    result = list(set_.check_settings(Settings(), folder=tmp_path, env=env, database="", has_key=None))

    assert result == [ok("settings", "Every setting is known, and none contradicts another.")]


FAULTS: list[tuple[str, tuple[str, str]]] = [
    ("max_bdoy = 1", ("problem", "palaver.toml sets max_bdoy, which is no setting. Write max_body.")),
    ("[zebra]", (
        "problem", "palaver.toml sets zebra, which is no setting. Remove it; docs/settings.md lists what there is."
    )),
    ("debug = true", ("warning", "debug is on: callers are told what goes wrong inside. Turn it off when done.")),
    ("trusted_proxies = '0.0.0.0/0'", (
        "problem",
        "trusted_proxies: of 0.0.0.0/0, almost anybody may say where a request comes from. List your proxies alone.",
    )),
    ("trusted_proxies = 'nginx'", (
        "problem", "trusted_proxies: nginx is no address. Write 10.0.0.1 or 10.0.0.0/8."
    )),
    ("allowed_origins = '*'", (
        "problem",
        "allowed_origins: no browser sends *. Write https://example.org: lower case, no path, no *.",
    )),
    ("allowed_origins = 'https://App.example/'", (
        "problem",
        ("allowed_origins: no browser sends https://App.example/."
        " Write https://example.org: lower case, no path, no *."),
    )),
    ("allowed_hosts = 'http://a.test'", (
        "problem",
        "allowed_hosts: no Host header is http://a.test. Write a name in lower case, and :port where it is sent.",
    )),
    ("root_path = 'palaver/'", ("problem", "root_path: no path begins with palaver/. Write it as /palaver.")),
    ("max_body = -1\nmax_string = -1", ("problem", "max_body is -1: there is no such limit. Set it to 0 or more.")),
    ("max_string = 9000000", (
        "warning",
        ("max_string (9000000) is larger than max_body (8388608), and means nothing then."
        " Make max_body larger, or max_string smaller."),
    )),
    ("workers = 2", (
        "problem",
        ("2 workers need PostgreSQL, which many processes can write to at once: give --db postgresql://…, or serve with"
        " one. A server does not start so."),
    )),
    ("[connections.far]\nurl = 'https://a.example'\nheaders = {x = 'env:NOT_SET'}", (
        "problem",
        "The connection 'far' needs the variable 'NOT_SET', which is not set. A server does not start so.",
    )),
    ("otlp_endpoint = 'collector'", (
        "problem",
        ("Setting otlp_endpoint: 'collector' is neither http nor https. Write it as http://… or https://…."
        " A server does not start so."),
    )),
    ("[providers.a]\nkind = 'openai'\nbase_url = 'https://a.example'\nkey = 'env:NOT_SET'", (
        "warning",
        "The provider 'a' has no key: the variable 'NOT_SET' is not set. Set it where the server runs.",
    )),
]  # fmt: skip


@pytest.mark.parametrize(("toml", "expected"), FAULTS, ids=[toml.splitlines()[0] for toml, _ in FAULTS])
def test_unknown_invalid_and_unsafe_settings_are_reported(tmp_path: Path, toml: str, expected: tuple[str, str]) -> None:
    result = settings_lines(tmp_path, toml)

    assert result[0] == expected
    assert len(result) == (2 if "max_body" in toml else 1)


def test_misspelled_environment_variables_are_reported_and_others_are_ignored(tmp_path: Path) -> None:
    env = {
        "PALAVER_PROT": "1",
        "PALAVER_CONNECTIONS": "{}",
        "PALAVER_CONECTIONS": "{}",
        "PALAVER_THING": "x",
        "PALAVER_DB": "x",
        "PORT": "1",
    }

    assert settings_lines(tmp_path, env=env) == [
        ("warning", "PALAVER_CONNECTIONS is not read. Write connections into palaver.toml."),
        ("warning", "PALAVER_PROT is set, and no setting has that name. Is PALAVER_PORT meant?"),
    ]


UNENCRYPTED_WARNING = (
    "warning",
    (
        "Others can reach 0.0.0.0, where keys and texts pass unencrypted."
        " Put a proxy with TLS before it, and name that in trusted_proxies."
    ),
)


@pytest.mark.parametrize(
    ("has_key", "key_problems"),
    [
        (True, []),
        (None, []),
        (False, [("problem", ("Others can reach 0.0.0.0, and there is no key to tell who they are."
                  " Make one with palaver key create, or bind to 127.0.0.1."))]),
    ],
)  # fmt: skip
def test_a_host_that_others_can_reach_needs_a_key(
    tmp_path: Path, has_key: bool | None, key_problems: list[tuple[str, str]]
) -> None:
    assert settings_lines(tmp_path, "host = '0.0.0.0'", has_key=has_key) == [*key_problems, UNENCRYPTED_WARNING]


def test_settings_that_are_unsafe_on_a_public_host_are_reported_only_there(tmp_path: Path) -> None:
    unsafe = "allow_private_urls = true\nrate_per_minute = 0\n"

    assert settings_lines(tmp_path, unsafe) == []
    assert settings_lines(tmp_path, unsafe + "host = '::'\ntrusted_proxies = '10.0.0.1'") == [
        (
            "warning",
            (
                "allow_private_urls is on, and others can reach this server: callers can make it ask your inner"
                " network. Turn it off; connections in palaver.toml may lead anywhere without it."
            ),
        ),
        ("warning", "rate_per_minute is 0: a key may ask without end. Set a number."),
    ]


# The database


def check_database(url: object, room: int = FREE_BYTES) -> list[Check]:
    return checks.check_database(str(url), lambda: NOW, lambda _: room).checks


def test_a_healthy_database_gives_four_ok_lines(file: Path) -> None:
    size = file.stat().st_size // 1024

    assert check_database(file) == [
        ok("database", f"{file} answers: SQLite {sqlite3.sqlite_version}, {size} KiB."),
        ok("database", f"Its form is {SCHEMA_VERSION}, the one that this Palaver knows."),
        ok("database", "It can be written."),
        ok("database", "10.0 GiB are free beside it."),
    ]


def test_a_missing_database_is_ok_and_is_not_created(tmp_path: Path) -> None:
    path = tmp_path / "new" / "palaver.db"

    assert check_database(path)[0] == ok("database", f"{path} is not there yet: a server makes it when it starts.")
    assert not path.parent.exists()


def test_a_database_path_below_a_file_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "palaver.db"

    assert lines(check_database(path)) == [
        (
            "problem",
            (
                f"{path} is not there, and cannot be made: {tmp_path / 'file'} is not ours to write."
                " Give another place with --db."
            ),
        )
    ]


def test_an_in_memory_database_is_a_warning() -> None:
    message = "The database is in memory: all of it is gone with the server."

    assert check_database("sqlite://") == [warning("database", message, "Give a file with --db to keep it.")]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE alembic_version SET version_num = '0003'", (
            "warning",
            (f"Its form is 0003; this Palaver knows {SCHEMA_VERSION}, and a server brings it there."
            " To do so now: palaver backup FILE, then palaver migrate."),
        )),
        ("UPDATE alembic_version SET version_num = '9999'", (
            "problem",
            (f"{{path}} was written by a newer Palaver (form 9999; this one knows {SCHEMA_VERSION})."
            " Use that version, or give another database with --db."),
        )),
        ("DROP TABLE alembic_version", (
            "problem", "{path} is a database of another program. Give another one with --db."
        )),
        ("PRAGMA journal_mode = delete", (
            "warning",
            ("It is written by way of delete, not WAL: readers wait for writers."
            " A server changes that when it starts, if the file system can do it."),
        )),
    ],
)  # fmt: skip
def test_an_unexpected_schema_or_journal_mode_is_reported(
    file: Path, statement: str, expected: tuple[str, str]
) -> None:
    with closing(sqlite3.connect(file)) as db, db:
        db.execute(statement)

    assert lines(check_database(file)) == [(expected[0], expected[1].replace("{path}", str(file)))]


def test_low_disk_space_is_reported(file: Path) -> None:
    assert lines(check_database(file, room=50 * 1024**2)) == [
        ("problem", f"Only 50.0 MiB are free beside {file}: writes will fail. Make room.")
    ]
    assert [sign for sign, _ in lines(check_database(file, room=500 * 1024**2))] == ["warning"]


def test_an_unreachable_database_server_is_reported_without_its_password() -> None:
    (check,) = check_database("postgresql://ann:hunter2@127.0.0.1:1/x")

    assert check.sign == "problem"
    assert check.says.startswith("No database answers at postgresql://ann:***@127.0.0.1:1/x: ")
    assert "hunter2" not in check.line


def test_an_empty_postgresql_database_is_ok(postgres_url: str) -> None:
    signs = [(check.sign, check.says.partition(":")[0]) for check in check_database(postgres_url)]

    assert signs[1:] == [("ok", "It is empty"), ("ok", "It can be written.")]


# Packages and extras

REQUIREMENTS = [
    "alpha>=1.2",
    "beta[fast]>=2; extra == 'jobchat'",
    "gamma>=3.1; extra == 'jobchat'",
    "uvloop>=0.23; sys_platform != 'win32'",
]


def installed(**versions: str) -> Callable[[str], str | None]:
    return {"alpha": "1.10.1", "uvloop": "1.0", **versions}.get


JOB_CHAT_DESCRIPTION = "Job Chat: its two ways to a model, and a parser of JavaScript"


@pytest.mark.parametrize(
    ("lookup", "expected"),
    [
        (installed(), ok("extras", f"jobchat is not installed: it gives {JOB_CHAT_DESCRIPTION}.",
                    "To have it: pip install 'palaver[jobchat]'.")),
        (installed(beta="2", gamma="3.1.0"), ok("extras", f"jobchat is installed: {JOB_CHAT_DESCRIPTION}.")),
        (installed(beta="2"), warning("extras", "jobchat is installed in part: gamma is missing.",
                                 f"For {JOB_CHAT_DESCRIPTION}: pip install 'palaver[jobchat]'.")),
        (installed(beta="2.0rc1", gamma="3.0.9"), warning(
            "extras", "jobchat is installed in part: gamma 3.0.9 is older than 3.1.",
            f"For {JOB_CHAT_DESCRIPTION}: pip install 'palaver[jobchat]'.")),
    ],
    ids=["none", "whole", "in part", "too old"],
)  # fmt: skip
def test_an_extra_is_reported_as_installed_missing_or_incomplete(
    lookup: Callable[[str], str | None], expected: Check
) -> None:
    assert list(checks.check_packages(REQUIREMENTS, lookup)) == [
        ok("packages", "All 1 packages that Palaver needs are here."),
        expected,
    ]


def test_a_missing_or_outdated_required_package_is_a_problem() -> None:
    advice = "Install Palaver again: pip install --upgrade palaver."

    assert [
        next(checks.check_packages(["alpha>=1.2", "delta"], lookup))
        for lookup in (installed(alpha="1.1"), installed(delta="1"), installed())
    ] == [
        problem("packages", "alpha 1.1 is older than 1.2; delta is missing.", advice),
        ok("packages", "All 2 packages that Palaver needs are here."),
        problem("packages", "delta is missing.", advice),
    ]


def test_every_extra_has_a_stated_purpose() -> None:
    project = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]

    assert set(checks.EXTRA_PURPOSES) == set(project["optional-dependencies"])


# The port


@contextmanager
def answering_server(answer: bytes) -> Iterator[int]:
    """A program that answers one connection with these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join(10)


def check_port(port: int, host: str = "127.0.0.1") -> Check:
    (check,) = checks.check_port(Settings(host=host, port=port))
    return check


def test_a_free_port_is_ok() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    assert check_port(port) == ok("port", f"127.0.0.1:{port} is free.")
    assert check_port(0) == ok("port", "Any free port is taken, as port = 0 says.")


def test_another_program_on_the_port_is_a_problem() -> None:
    with answering_server(b"HTTP/1.1 200 OK\r\nServer: other\r\n\r\n{}") as port:
        result = check_port(port)

    assert result == problem("port", f"127.0.0.1:{port} is taken by another program.", "Stop that, or give --port.")


def test_a_palaver_server_on_the_port_is_ok_and_named() -> None:
    body = b'{"version":"9.9.9"}'
    with answering_server(b"HTTP/1.1 200 OK\r\nx-api-version: 9.9.9\r\n\r\n" + body) as port:
        result = check_port(port)

    assert result == ok("port", f"A Palaver 9.9.9 answers on 127.0.0.1:{port}.", "A second one wants another --port.")


def test_an_invalid_port_and_a_host_of_another_machine_are_problems() -> None:
    assert check_port(70_000) == problem(
        "port", "There is no port 70000.", "Set port to one from 1 to 65535, or to 0 for any."
    )
    assert check_port(9000, "192.0.2.1") == problem(
        "port", "This machine has no address 192.0.2.1.", "Set host to one of its own, or 127.0.0.1."
    )


# Clocks

DATABASE_REPORT = DatabaseReport(kind="sqlite", state=SchemaState(SCHEMA_VERSION, is_empty=False), version="1", bytes=1)
CLOCK_REMEDY = "Set it by NTP (timedatectl set-ntp true, or your system's way)."


def clock_lines(
    wall: timedelta, monotonic: float = 1.0, *, now: datetime = NOW, **report_fields: Any
) -> list[tuple[str, str]]:
    report = msgspec.structs.replace(DATABASE_REPORT, **report_fields)
    return lines(list(checks.check_clock(ClockReading(now, 10.0), ClockReading(now + wall, 10.0 + monotonic), report)))


SECOND = timedelta(seconds=1)


def test_a_steady_clock_is_ok() -> None:
    assert clock_lines(SECOND, clock_offset_s=0.2, newest_at=NOW) == []


def test_a_clock_that_jumps_or_is_wrong_is_reported() -> None:
    assert clock_lines(61 * SECOND) == [
        ("warning", f"The clock was set ahead by 60.0 s while we looked. {CLOCK_REMEDY}")
    ]
    assert clock_lines(-9 * SECOND) == [
        ("warning", f"The clock was set back by 10.0 s while we looked. {CLOCK_REMEDY}")
    ]
    assert clock_lines(SECOND, now=datetime(1970, 1, 1, tzinfo=UTC)) == [
        ("problem", f"The clock says 1970-01-01: keys never end, and what is kept has wrong times. {CLOCK_REMEDY}")
    ]
    assert [sign for sign, _ in clock_lines(-SECOND, -1.0)] == ["problem"]


def test_a_database_clock_that_differs_is_reported() -> None:
    assert clock_lines(SECOND, clock_offset_s=-2.5) == [
        ("warning", f"The database's clock is 2.5 s behind. {CLOCK_REMEDY}")
    ]
    assert clock_lines(SECOND, clock_offset_s=60.0) == [
        ("problem", f"The database's clock is 60.0 s ahead. Processes take each other for dead. {CLOCK_REMEDY}")
    ]


def test_rows_from_the_future_are_reported() -> None:
    assert clock_lines(SECOND, newest_at=NOW + timedelta(days=1)) == [
        (
            "warning",
            (
                "The newest row is from 2026-03-05 05:06:07 UTC, which is to come."
                f" A clock was set back, or another machine's is ahead. {CLOCK_REMEDY}"
            ),
        )
    ]


# File modes


def file_mode_lines(folder: Path, database: Path | None = None) -> list[tuple[str, str]]:
    settings, sources = read_settings(env={}, folder=folder)
    return lines(list(checks.check_file_modes(settings, sources, folder=folder, database=database)))


def test_a_database_or_backup_that_others_can_read_is_a_problem(file: Path) -> None:
    assert file_mode_lines(file.parent, file) == []
    copy = file.with_name("palaver.db.0003.20260101T000000.000000Z.backup")
    copy.touch()
    copy.chmod(0o640)
    file.chmod(0o644)

    assert file_mode_lines(file.parent, file) == [
        ("problem", f"Others can read {file}. chmod 600 {file} makes it yours alone."),
        ("problem", f"Others can read {copy}, a copy of the database. chmod 600 {copy} makes it yours alone."),
    ]


SECRET = "db = 'postgresql://ann:hunter2@host/x'\notlp_headers = 'a=b'\n[connections.a]\nurl = 'http://a.example'\n"


@pytest.mark.parametrize(
    ("toml", "mode", "expected"),
    [
        (SECRET + "headers = {x = 'hunter2'}", 0o600, []),
        (SECRET + "headers = {x = 'env:KEY'}", 0o644, [("Others can read {path}, which has secrets in db, otlp_headers."
                                                       " chmod 600 {path} makes it yours alone.")]),
        (SECRET + "headers = {x = 'hunter2'}", 0o604, [("Others can read {path}, which has secrets in db, otlp_headers,"
                                                       " connections. chmod 600 {path} makes it yours alone.")]),
        ("port = 1", 0o644, []),
        ("port = 1", 0o666, ["Others can change {path}, and so what a server does. chmod go-w {path} stops that."]),
    ],
)  # fmt: skip
def test_a_settings_file_that_exposes_secrets_or_is_writable_by_others_is_a_problem(
    tmp_path: Path, toml: str, mode: int, expected: list[str]
) -> None:
    path = tmp_path / "palaver.toml"
    path.write_text(toml, encoding="utf-8")
    path.chmod(mode)

    assert file_mode_lines(tmp_path) == [("problem", line.replace("{path}", str(path))) for line in expected]


# The command


def doctor(*arguments: str, **env: str) -> Result:
    return CliRunner(env=env).invoke(cli, ["doctor", *arguments], standalone_mode=False)


def test_a_good_installation_has_no_problems(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)

    result = doctor("--db", "palaver.db", PALAVER_PORT="0")

    assert result.return_value == 0
    assert f"✓ database  Its form is {SCHEMA_VERSION}, the one that this Palaver knows.\n" in result.output
    assert "problem: " not in result.output


def test_problems_are_listed_with_a_remedy_and_exit_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "palaver.toml").write_text("max_bdoy = 1\nhost = '0.0.0.0'\nport = 0\n", encoding="utf-8")
    (tmp_path / "palaver.toml").chmod(0o600)

    text_run, document = doctor("--db", "new.db"), doctor("--db", "new.db", "--json")

    report_json = msgspec.json.decode(document.output)
    assert (text_run.return_value, document.return_value) == (1, 1)
    assert "✗ settings  problem: palaver.toml sets max_bdoy, which is no setting. Write max_body.\n" in text_run.output
    assert report_json["problems"] == [
        "palaver.toml sets max_bdoy, which is no setting. Write max_body.",
        (
            "Others can reach 0.0.0.0, and there is no key to tell who they are."
            " Make one with palaver key create, or bind to 127.0.0.1."
        ),
    ]
    assert report_json["problems"] == [
        f"{row['says']} {row['do']}" for row in report_json["checks"] if row["sign"] == "problem"
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["palaver.toml"]


def test_a_default_workflow_that_does_not_exist_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "only_echo.py").write_text("from palaver.testing import echo\n", encoding="utf-8")

    result = doctor("only_echo.py", "--json", PALAVER_PORT="0", PALAVER_DEFAULT="tutor")

    assert msgspec.json.decode(result.output)["problems"] == [
        "default is tutor, and no workflow has that name. Known: echo."
    ]


@pytest.mark.parametrize(
    ("signs", "sentence"),
    [
        ([], "No problems found."),
        (["warning"], "No problems, 1 warning."),
        (["problem", "warning", "warning"], "1 problem, 2 warnings."),
        (["problem", "problem"], "2 problems."),
    ],
)
def test_the_summary_counts_problems_and_warnings(signs: list[Any], sentence: str) -> None:
    assert summarize_checks([Check(subject="x", sign=sign, says="x") for sign in ["ok", *signs]]) == sentence


def test_a_running_server_is_named_and_is_not_a_problem(file: Path, tmp_path: Path) -> None:
    with running_server(tmp_path / "web", open_database(str(file))) as url:
        port = url.rpartition(":")[2]
        result = doctor("--db", str(file), "--json", PALAVER_PORT=port)

    messages = [
        row["says"] for row in msgspec.json.decode(result.output)["checks"] if row["subject"] in ("port", "database")
    ]
    assert result.return_value == 0
    assert messages[1:3] == [f"Its form is {SCHEMA_VERSION}, the one that this Palaver knows.", "It can be written."]
    assert messages[-1] == f"A Palaver {version('palaver')} answers on 127.0.0.1:{port}."
