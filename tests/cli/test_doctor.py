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
from palaver.discovery.workflow_loader import load_installed
from palaver.errors import PalaverError
from palaver.server.settings import Settings, read_settings
from palaver.storage.database import open_database
from palaver.storage.diagnostics import DatabaseReport
from palaver.storage.migrations.upgrade import SCHEMA_VERSION, SchemaState
from palaver.workflows.workflow import Workflow
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

    assert result == [ok("settings", "All settings are valid.")]


FAULTS: list[tuple[str, tuple[str, str]]] = [
    ("max_bdoy = 1", ("problem", "Unknown setting 'max_bdoy' in palaver.toml. Did you mean 'max_body'?")),
    ("[zebra]", (
        "problem", "Unknown setting 'zebra' in palaver.toml. See docs/reference/settings.md for all settings."
    )),
    ("debug = true", ("warning", "debug is on. Responses include internal error details. Turn it off in production.")),
    ("trusted_proxies = '0.0.0.0/0'", (
        "problem",
        "trusted_proxies: 0.0.0.0/0 is too broad. Almost any client can forge its address. List only your proxies.",
    )),
    ("trusted_proxies = 'nginx'", (
        "problem", "trusted_proxies: 'nginx' is not an IP address or network. Use e.g. 10.0.0.1 or 10.0.0.0/8."
    )),
    ("allowed_origins = '*'", (
        "problem",
        "allowed_origins: '*' is not a valid origin. Use e.g. https://example.org (lower case, no path, no wildcard).",
    )),
    ("allowed_origins = 'https://App.example/'", (
        "problem",
        ("allowed_origins: 'https://App.example/' is not a valid origin."
        " Use e.g. https://example.org (lower case, no path, no wildcard)."),
    )),
    ("allowed_hosts = 'http://a.test'", (
        "problem",
        ("allowed_hosts: 'http://a.test' is not a valid Host header."
        " Use a lower-case name, with :port if it is not the default."),
    )),
    ("root_path = 'palaver/'", ("problem", "root_path: 'palaver/' is not a valid prefix. Use e.g. /palaver.")),
    ("max_body = -1\nmax_string = -1", ("problem", "max_body is -1, but must not be negative. Set it to 0 or more.")),
    ("max_string = 9000000", (
        "warning",
        ("max_string (9000000) exceeds max_body (8388608) and has no effect."
        " Increase max_body or decrease max_string."),
    )),
    ("workers = 2", (
        "problem",
        ("--workers 2 requires PostgreSQL. Pass --db postgresql://… or use a single worker."
        " The server will not start."),
    )),
    ("[connections.far]\nurl = 'https://a.example'\nheaders = {x = 'env:NOT_SET'}", (
        "problem",
        "Connection 'far': the environment variable 'NOT_SET' is not set. The server will not start.",
    )),
    ("otlp_endpoint = 'collector'", (
        "problem",
        ("Invalid otlp_endpoint: Unsupported URL 'collector': must start with http:// or https://."
        " The server will not start."),
    )),
    ("[providers.a]\nkind = 'openai'\nbase_url = 'https://a.example'\nkey = 'env:NOT_SET'", (
        "warning",
        "Provider 'a' has no API key: environment variable 'NOT_SET' is not set. Set it in the server's environment.",
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
        ("warning", "PALAVER_CONNECTIONS is ignored. Set connections in palaver.toml instead."),
        ("warning", "Unknown environment variable 'PALAVER_PROT'. Did you mean 'PALAVER_PORT'?"),
    ]


def refused_exposure(database: Path) -> str:
    return (
        f"Refusing to listen on 0.0.0.0: no valid API key found in {database.absolute()}."
        f" Run `palaver key create --db {database.absolute()}` or use --host 127.0.0.1."
    )


UNENCRYPTED_WARNING = (
    "warning",
    (
        "0.0.0.0 is reachable from other machines without TLS. Keys and data are sent unencrypted."
        " Put a TLS proxy in front and add it to trusted_proxies."
    ),
)


@pytest.mark.parametrize(
    ("has_key", "key_problems"),
    [
        (True, []),
        (None, []),
        (False, [("problem", refused_exposure(Path("palaver.db")))]),
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
                "allow_private_urls is on. Clients can make this server send requests to your internal network."
                " Turn it off. Connections in palaver.toml work without it."
            ),
        ),
        ("warning", "rate_per_minute is 0. API keys have no rate limit. Set a limit."),
    ]


# The database


def check_database(url: object, room: int = FREE_BYTES) -> list[Check]:
    return checks.check_database(str(url), lambda: NOW, lambda _: room).checks


def test_a_healthy_database_gives_four_ok_lines(file: Path) -> None:
    size = file.stat().st_size // 1024

    assert check_database(file) == [
        ok("database", f"Connected to {file}: SQLite {sqlite3.sqlite_version}, {size} KiB."),
        ok("database", f"Schema version {SCHEMA_VERSION} (up to date)."),
        ok("database", "The database is writable."),
        ok("database", "10.0 GiB of disk space available."),
    ]


def test_a_missing_database_is_ok_and_is_not_created(tmp_path: Path) -> None:
    path = tmp_path / "new" / "palaver.db"

    assert check_database(path)[0] == ok("database", f"{path} does not exist yet. The server will create it.")
    assert not path.parent.exists()


def test_a_database_path_below_a_file_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "palaver.db"

    assert lines(check_database(path)) == [
        (
            "problem",
            f"Cannot create {path}: no write permission for {tmp_path / 'file'}. Pass another path with --db.",
        )
    ]


def test_an_in_memory_database_is_a_warning() -> None:
    message = "The database is in memory. All data is lost when the server stops."

    assert check_database("sqlite://") == [warning("database", message, "Pass a file with --db to keep the data.")]


def test_an_unsupported_database_is_a_problem() -> None:
    message = "Unsupported database ':memory:'. Use sqlite:// for an in-memory database."

    assert lines(check_database(":memory:")) == [("problem", message)]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE alembic_version SET version_num = '0003'", (
            "warning",
            (f"Schema version 0003. The server will upgrade it to {SCHEMA_VERSION}."
            " To upgrade it now, run `palaver backup FILE`, then `palaver migrate`."),
        )),
        ("UPDATE alembic_version SET version_num = '9999'", (
            "problem",
            (f"{{path}} was created by a newer version of Palaver (schema version 9999, supported: {SCHEMA_VERSION})."
            " Upgrade Palaver, or choose another database with --db."),
        )),
        ("DROP TABLE alembic_version", (
            "problem", "{path} is the database of another program. Choose another one with --db."
        )),
        ("PRAGMA journal_mode = delete", (
            "warning",
            ("Journal mode is delete, not WAL. Readers wait for writers."
            " The server switches to WAL when it starts, if the file system supports it."),
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
        ("problem", f"Only 50.0 MiB of disk space left for {file}. Writes will soon fail. Free up space.")
    ]
    assert [sign for sign, _ in lines(check_database(file, room=500 * 1024**2))] == ["warning"]


def test_an_unreachable_database_server_is_reported_without_its_password() -> None:
    (check,) = check_database("postgresql://ann:hunter2@127.0.0.1:1/x")

    assert check.sign == "problem"
    assert check.says.startswith("Cannot connect to postgresql://ann:***@127.0.0.1:1/x: ")
    assert "hunter2" not in check.line
    assert "Is the server running" not in check.line


def test_an_empty_postgresql_database_is_ok(postgres_url: str) -> None:
    signs = [(check.sign, check.says.partition(".")[0]) for check in check_database(postgres_url)]

    assert signs[1:] == [("ok", "The database is empty"), ("ok", "The database is writable")]


# Packages and extras

REQUIREMENTS = [
    "alpha>=1.2",
    "beta[fast]>=2; extra == 'jobchat'",
    "gamma>=3.1; extra == 'jobchat'",
    "uvloop>=0.23; sys_platform != 'win32'",
]


def installed(**versions: str) -> Callable[[str], str | None]:
    return {"alpha": "1.10.1", "uvloop": "1.0", **versions}.get


JOB_CHAT_DESCRIPTION = "the model clients and JavaScript parser of Job Chat"
INSTALL_JOB_CHAT = "Run `pip install 'palaver[jobchat]'`."


@pytest.mark.parametrize(
    ("lookup", "expected"),
    [
        (installed(), ok("extras", "Optional extras not installed: jobchat.",
                    "To add one, run e.g. `pip install 'palaver[jobchat]'`.")),
        (installed(beta="2", gamma="3.1.0"), ok("extras", f"jobchat is installed ({JOB_CHAT_DESCRIPTION}).")),
        (installed(beta="2"), warning("extras", "jobchat is partially installed: gamma is missing.",
                                 INSTALL_JOB_CHAT)),
        (installed(beta="2.0rc1", gamma="3.0.9"), warning(
            "extras", "jobchat is partially installed: gamma 3.0.9 is older than 3.1.",
            INSTALL_JOB_CHAT)),
    ],
    ids=["none", "whole", "in part", "too old"],
)  # fmt: skip
def test_an_extra_is_reported_as_installed_missing_or_incomplete(
    lookup: Callable[[str], str | None], expected: Check
) -> None:
    assert list(checks.check_packages(REQUIREMENTS, lookup)) == [
        ok("packages", "All 1 required packages are installed."),
        expected,
    ]


def test_a_missing_or_outdated_required_package_is_a_problem() -> None:
    advice = "Run `pip install --upgrade palaver`."

    assert [
        next(checks.check_packages(["alpha>=1.2", "delta"], lookup))
        for lookup in (installed(alpha="1.1"), installed(delta="1"), installed())
    ] == [
        problem("packages", "alpha 1.1 is older than 1.2; delta is missing.", advice),
        ok("packages", "All 2 required packages are installed."),
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

    assert check_port(port) == ok("port", f"127.0.0.1:{port} is available.")
    assert check_port(0) == ok("port", "port = 0: a free port will be chosen.")


def test_another_program_on_the_port_is_a_problem() -> None:
    with answering_server(b"HTTP/1.1 200 OK\r\nServer: other\r\n\r\n{}") as port:
        result = check_port(port)

    message = f"127.0.0.1:{port} is in use by another program."
    assert result == problem("port", message, "Stop it, or pass another --port.")


def test_a_palaver_server_on_the_port_is_ok_and_named() -> None:
    body = b'{"version":"9.9.9"}'
    with answering_server(b"HTTP/1.1 200 OK\r\nx-api-version: 9.9.9\r\n\r\n" + body) as port:
        result = check_port(port)

    message = f"Palaver 9.9.9 is running on 127.0.0.1:{port}."
    assert result == ok("port", message, "A second server needs another --port.")


def test_an_invalid_port_and_a_host_of_another_machine_are_problems() -> None:
    assert check_port(70_000) == problem(
        "port", "Invalid port 70000.", "Set port to 1-65535, or to 0 for any free port."
    )
    assert check_port(9000, "192.0.2.1") == problem(
        "port", "192.0.2.1 is not an address of this machine.", "Set host to a local address, e.g. 127.0.0.1."
    )


# Clocks

DATABASE_REPORT = DatabaseReport(kind="sqlite", state=SchemaState(SCHEMA_VERSION, is_empty=False), version="1", bytes=1)
CLOCK_REMEDY = "Enable NTP, e.g. with `timedatectl set-ntp true`."


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
        ("warning", f"The system clock jumped forward by 60.0 s during the check. {CLOCK_REMEDY}")
    ]
    assert clock_lines(-9 * SECOND) == [
        ("warning", f"The system clock jumped back by 10.0 s during the check. {CLOCK_REMEDY}")
    ]
    assert clock_lines(SECOND, now=datetime(1970, 1, 1, tzinfo=UTC)) == [
        (
            "problem",
            (
                "The system clock is wrong (1970-01-01). API keys won't expire, and timestamps will be wrong."
                f" {CLOCK_REMEDY}"
            ),
        )
    ]
    assert [sign for sign, _ in clock_lines(-SECOND, -1.0)] == ["problem"]


def test_a_database_clock_that_differs_is_reported() -> None:
    assert clock_lines(SECOND, clock_offset_s=-2.5) == [
        ("warning", f"The database clock is 2.5 s behind. {CLOCK_REMEDY}")
    ]
    assert clock_lines(SECOND, clock_offset_s=60.0) == [
        ("problem", f"The database clock is 60.0 s ahead. Processes may consider each other dead. {CLOCK_REMEDY}")
    ]


def test_rows_from_the_future_are_reported() -> None:
    assert clock_lines(SECOND, newest_at=NOW + timedelta(days=1)) == [
        (
            "warning",
            (
                "The newest row has a timestamp in the future: 2026-03-05 05:06:07 UTC."
                f" This machine's clock was set back, or another machine's is ahead. {CLOCK_REMEDY}"
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
        ("problem", f"Other users can read {file}. Run `chmod 600 {file}`."),
        ("problem", f"Other users can read {copy}, a copy of the database. Run `chmod 600 {copy}`."),
    ]


SECRET = "db = 'postgresql://ann:hunter2@host/x'\notlp_headers = 'a=b'\n[connections.a]\nurl = 'http://a.example'\n"


@pytest.mark.parametrize(
    ("toml", "mode", "expected"),
    [
        (SECRET + "headers = {x = 'hunter2'}", 0o600, []),
        (SECRET + "headers = {x = 'env:KEY'}", 0o644, [
            "Other users can read {path}, which contains secrets (db, otlp_headers). Run `chmod 600 {path}`."
        ]),
        (SECRET + "headers = {x = 'hunter2'}", 0o604, [
            ("Other users can read {path}, which contains secrets (db, otlp_headers, connections)."
            " Run `chmod 600 {path}`.")
        ]),
        ("port = 1", 0o644, []),
        ("port = 1", 0o666, [
            "Other users can modify {path}, and so change the server's settings. Run `chmod go-w {path}`."
        ]),
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
    assert f"✓ database  Schema version {SCHEMA_VERSION} (up to date).\n" in result.output
    assert "problem: " not in result.output


def test_only_settings_that_differ_from_their_defaults_are_listed_unless_all_are_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PALAVER_DB", raising=False)
    count = len(msgspec.structs.fields(Settings))

    def listed(*arguments: str, **env: str) -> list[str]:
        _, _, rest = doctor(*arguments, **env).output.partition("\nSettings\n")
        return rest.partition("\n\n")[0].splitlines()

    assert listed() == [f"  All {count} settings have their default values (--all lists them)."]
    assert listed(PALAVER_PORT="0", PALAVER_DEBUG="true") == [
        "  port   0                env",
        "  debug  true             env",
        f"  {count - 2} others have their default values (--all lists them).",
    ]
    assert len(listed("--all")) == count


def test_an_installed_workflow_without_its_extra_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_without_extra(name: str) -> Workflow:
        if name == "job_chat":
            raise PalaverError("Job Chat requires additional packages. Install them with: pip …") from ImportError()
        if name == "echo":
            raise PalaverError("It is broken.")
        return load_installed(name)

    monkeypatch.setattr("palaver.cli.doctor.command.load_installed", load_without_extra)
    report_json = msgspec.json.decode(doctor("--json", PALAVER_PORT="0").output)

    assert [row["name"] for row in report_json["workflows"]] == ["calculator", "eliza", "headline"]
    assert [check for check in report_json["checks"] if check["subject"] == "workflows"] == [
        {
            "subject": "workflows",
            "sign": "problem",
            "says": "echo is not available: It is broken.",
            "do": "",
        },
        {
            "subject": "workflows",
            "sign": "ok",
            "says": "job_chat is not available: Job Chat requires additional packages.",
            "do": "Install them with: pip …",
        },
    ]


def test_problems_are_listed_with_a_remedy_and_exit_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "palaver.toml").write_text("max_bdoy = 1\nhost = '0.0.0.0'\nport = 0\n", encoding="utf-8")
    (tmp_path / "palaver.toml").chmod(0o600)

    text_run, document = doctor("--db", "new.db"), doctor("--db", "new.db", "--json")

    report_json = msgspec.json.decode(document.output)
    assert (text_run.return_value, document.return_value) == (1, 1)
    (typo, _) = report_json["problems"]
    assert f"✗ settings  problem: {typo}\n" in text_run.output
    assert report_json["problems"] == [
        "Unknown setting 'max_bdoy' in palaver.toml. Did you mean 'max_body'?",
        refused_exposure(tmp_path / "new.db"),
    ]
    assert report_json["problems"] == [
        f"{row['says']} {row['do']}" for row in report_json["checks"] if row["sign"] == "problem"
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["palaver.toml"]


def test_a_default_workflow_that_does_not_exist_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "only_echo.py").write_text("from palaver.testing import echo\n", encoding="utf-8")

    result = doctor("only_echo.py", "--json", PALAVER_PORT="0", PALAVER_DEFAULT="tutor")

    assert msgspec.json.decode(result.output)["problems"] == ["Default workflow 'tutor' not found. Available: echo."]


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
    assert messages[1:3] == [f"Schema version {SCHEMA_VERSION} (up to date).", "The database is writable."]
    assert messages[-1] == f"Palaver {version('palaver')} is running on 127.0.0.1:{port}."
