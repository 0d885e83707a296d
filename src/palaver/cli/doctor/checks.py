"""Checks of the packages, the database, the port, the clock and file modes, and printing of results."""

import errno
import os
import re
import shutil
import socket
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, Literal, NamedTuple

import click
import msgspec

from palaver.cli.database import sqlite_path
from palaver.cli.output import format_count
from palaver.core import json
from palaver.errors import SettingsError
from palaver.outbound import printable
from palaver.server.settings import Settings, Source
from palaver.storage import diagnostics
from palaver.storage.diagnostics import DatabaseReport
from palaver.storage.migrations import upgrade
from palaver.storage.paths import MEMORY_URL, permission_warnings, redact_url

CheckLevel = Literal["ok", "warning", "problem"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One result. The field names are JSON keys of `palaver doctor --json`."""

    subject: str
    """settings, database, extras …"""
    sign: CheckLevel
    says: str
    do: str = ""
    """What to do; empty if nothing is needed."""

    @property
    def line(self) -> str:
        return f"{self.says} {self.do}".rstrip()


def ok(subject: str, message: str, do: str = "") -> Check:
    """Make a check that passed; `do` is optional advice."""
    return Check(subject=subject, sign="ok", says=message, do=do)


def warning(subject: str, message: str, do: str) -> Check:
    """Make a check of something that works, but perhaps not as intended."""
    return Check(subject=subject, sign="warning", says=message, do=do)


def problem(subject: str, message: str, do: str) -> Check:
    """Make a check of something that does not work, or is not safe."""
    return Check(subject=subject, sign="problem", says=message, do=do)


def split_advice(message: str) -> tuple[str, str]:
    """Split an error message into the problem, which is its first sentence, and the remedy."""
    separator = ". " if ". " in message else ": "
    statement, _, advice = message.partition(separator)
    return f"{statement.removesuffix('.')}.", advice[:1].upper() + advice[1:]


_SIGNS: dict[CheckLevel, tuple[str, str]] = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "problem": ("✗", "red")}


def print_checks(checks: Sequence[Check]) -> None:
    width = max(len(check.subject) for check in checks)
    for check in checks:
        mark, colour = _SIGNS[check.sign]
        label = "" if check.sign == "ok" else f"{check.sign}: "
        sign = click.style(f"{mark} {check.subject:<{width}}", fg=colour)
        click.echo(f"{sign}  {label}{printable(check.line, 600)}")
    click.echo(f"\n{summarize_checks(checks)}")


def summarize_checks(checks: Sequence[Check]) -> str:
    """Return the numbers of problems and warnings as a sentence."""
    problems, warnings = (sum(check.sign == sign for check in checks) for sign in ("problem", "warning"))
    if not problems and not warnings:
        return "No problems found."
    warning_part = f", {format_count(warnings, 'warning')}" if warnings else ""
    return f"{format_count(problems, 'problem') if problems else 'No problems'}{warning_part}."


EXTRA_PURPOSES = {
    "pydantic": "Pydantic models in signatures",
    "langchain": "LangChain runnables and LangGraph graphs as workflows",
    "openai-agents": "OpenAI Agents SDK agents as workflows",
    "pydantic-ai": "Pydantic AI agents as workflows",
    "jobchat": "the model clients and JavaScript parser of Job Chat",
    "embeddings": "model2vec embeddings for semantic search in Job Chat and semantic_similarity without a provider",
    "parquet": "import and export of Parquet test sets",
}

_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*(?:>=\s*(?P<min_version>[0-9.]+))?[^;]*"
    r"(?:;\s*(?:extra\s*==\s*['\"](?P<extra>[^'\"]+)['\"]|(?P<marker>.+)))?"
)
VersionLookup = Callable[[str], str | None]


class Requirement(NamedTuple):
    name: str
    min_version: str
    """Empty if any version will do."""
    extra: str | None
    """The extra that requires the package; None if it is always required."""


def installed_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def check_packages(lines: Sequence[str] | None = None, lookup: VersionLookup = installed_version) -> Iterator[Check]:
    """Yield one check for all required packages, and one per extra."""
    requirements = list(_parse_requirements(requires("palaver") or () if lines is None else lines))
    faults = [
        fault
        for requirement in requirements
        if requirement.extra is None and (fault := _requirement_fault(requirement, lookup))
    ]
    if faults:
        yield problem("packages", f"{'; '.join(faults)}.", "Run `pip install --upgrade palaver`.")
    else:
        count = sum(requirement.extra is None for requirement in requirements)
        yield ok("packages", f"All {count} required packages are installed.")
    if lookup("uvloop") is None and os.name != "nt":
        yield problem("packages", "uvloop is not installed. Streaming will be slower.", "Run `pip install uvloop`.")
    yield from _check_extras(requirements, lookup)


def _check_extras(requirements: Sequence[Requirement], lookup: VersionLookup) -> Iterator[Check]:
    missing: list[str] = []
    for extra in sorted({requirement.extra for requirement in requirements if requirement.extra is not None}):
        required = [requirement for requirement in requirements if requirement.extra == extra]
        faults = [fault for requirement in required if (fault := _requirement_fault(requirement, lookup))]
        if not faults:
            yield ok("extras", f"{extra} is installed ({EXTRA_PURPOSES.get(extra, 'more features')}).")
        elif all(lookup(requirement.name) is None for requirement in required):
            missing.append(extra)
        else:
            install = f"Run `pip install 'palaver[{extra}]'`."
            yield warning("extras", f"{extra} is partially installed: {'; '.join(faults)}.", install)
    if missing:
        advice = f"To add one, run e.g. `pip install 'palaver[{missing[0]}]'`."
        yield ok("extras", f"Optional extras not installed: {', '.join(missing)}.", advice)


def _requirement_fault(requirement: Requirement, lookup: VersionLookup) -> str:
    installed = lookup(requirement.name)
    if installed is None:
        return f"{requirement.name} is missing"
    if requirement.min_version and _version_tuple(installed) < _version_tuple(requirement.min_version):
        return f"{requirement.name} {installed} is older than {requirement.min_version}"
    return ""


def _parse_requirements(lines: Sequence[str]) -> Iterator[Requirement]:
    for line in lines:
        match = _REQUIREMENT.fullmatch(line.strip())
        # Packages that only some systems need (uvloop) are checked by name in `check_packages`.
        if match is not None and match["marker"] is None:
            yield Requirement(match["name"], match["min_version"] or "", match["extra"])


def _version_tuple(text: str) -> tuple[int, ...]:
    """Parse the leading numbers of a version: 2, 0 of `2.0rc1`. Trailing zeros are dropped."""
    numbers: list[int] = []
    for part in text.split("."):
        digits = re.match(r"\d+", part)
        if digits is None:
            break
        numbers.append(int(digits[0]))
        if digits[0] != part:
            break
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


_MIB = 1024 * 1024
_MIN_FREE_BYTES, _LOW_FREE_BYTES = 100 * _MIB, 1024 * _MIB


class DatabaseChecks(NamedTuple):
    """The checks of the database, and the data that other checks need."""

    checks: list[Check]
    report: DatabaseReport | None = None
    path: Path | None = None

    @property
    def has_key(self) -> bool | None:
        """Whether there is a valid key; None if unknown."""
        if self.report is None:
            return False if self.path is not None else None  # A missing file has no key.
        return False if self.report.state.is_empty else self.report.has_valid_key


def check_database(url: str, now: Callable[[], datetime], free: Callable[[Path], int] | None = None) -> DatabaseChecks:
    """Check the database without creating, changing or migrating it."""
    if url in (MEMORY_URL, "sqlite:///:memory:"):
        message = "The database is in memory. All data is lost when the server stops."
        return DatabaseChecks([warning("database", message, "Pass a file with --db to keep the data.")])
    try:
        path = sqlite_path(url)
    except SettingsError as error:
        return DatabaseChecks([problem("database", *split_advice(printable(error.message, 400)))])
    try:
        if path is None:
            report = diagnostics.inspect_server(url, now)
            return DatabaseChecks(list(_check_opened(report, redact_url(url))), report)
        space_checks = list(_check_free_space(path, free or _free_bytes))
        if not path.exists():
            return DatabaseChecks([*_check_missing_file(path), *space_checks], None, path)
        report = diagnostics.inspect_file(path, now())
    except SettingsError as error:
        advice = "Make sure that the database is available, or pass another one with --db."
        return DatabaseChecks([problem("database", printable(error.message, 400), advice)])
    return DatabaseChecks([*_check_opened(report, str(path)), *space_checks], report, path)


def _check_missing_file(path: Path) -> Iterator[Check]:
    folder = _existing_folder(path)
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        message = f"Cannot create {path}: no write permission for {folder}."
        yield problem("database", message, "Pass another path with --db.")
    else:
        yield ok("database", f"{path} does not exist yet. The server will create it.")


def _check_opened(report: DatabaseReport, location: str) -> Iterator[Check]:
    name = "SQLite" if report.kind == "sqlite" else "PostgreSQL"
    yield ok(
        "database", f"Connected to {location}: {name} {printable(report.version, 40)}, {_format_bytes(report.bytes)}."
    )
    try:
        report.state.check(location)
    except SettingsError as error:
        yield problem("database", *split_advice(error.message))
        return
    if report.state.is_current:
        yield ok("database", f"Schema version {upgrade.SCHEMA_VERSION} (up to date).")
    elif report.state.version is None:
        yield ok("database", "The database is empty. The server will create its tables.")
    else:
        current = upgrade.SCHEMA_VERSION
        message = f"Schema version {report.state.version}. The server will upgrade it to {current}."
        yield warning("database", message, "To upgrade it now, run `palaver backup FILE`, then `palaver migrate`.")
    if report.write_obstacle:
        advice = "Stop the process that has it locked, or grant this user write permission."
        yield problem("database", f"The database is not writable: {printable(report.write_obstacle)}.", advice)
    else:
        yield ok("database", "The database is writable.")
    if report.kind == "sqlite" and report.journal != "wal" and report.state.version is not None:
        message = f"Journal mode is {printable(report.journal, 20)}, not WAL. Readers wait for writers."
        yield warning("database", message, "The server switches to WAL when it starts, if the file system supports it.")
    if report.encoding != "UTF8":
        message = f"The database encoding is {printable(report.encoding, 40)}. Some text cannot be stored."
        yield problem("database", message, "Create a database with ENCODING 'UTF8'.")


def _check_free_space(path: Path, measure: Callable[[Path], int]) -> Iterator[Check]:
    free_bytes = measure(_existing_folder(path))
    size = path.stat().st_size if path.is_file() else 0
    free_text = f"Only {_format_bytes(free_bytes)} of disk space left for {path}"
    if free_bytes < _MIN_FREE_BYTES:
        yield problem("database", f"{free_text}. Writes will soon fail.", "Free up space.")
    elif free_bytes < max(_LOW_FREE_BYTES, size):
        message = f"{free_text}. A schema upgrade needs space for a copy of the file."
        advice = "Free up space, or reduce trace_retention_days, trace_max_bytes or run_days."
        yield warning("database", message, advice)
    else:
        yield ok("database", f"{_format_bytes(free_bytes)} of disk space available.")


def _existing_folder(path: Path) -> Path:
    return next(parent for parent in path.absolute().parents if parent.exists())


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def _format_bytes(count: int) -> str:
    if count < _MIB:
        return f"{count / 1024:.0f} KiB"
    return f"{count / _MIB:.1f} MiB" if count < 1024 * _MIB else f"{count / 1024 / _MIB:.1f} GiB"


_CONNECT_TIMEOUT_S = 2.0
_LOOPBACK_BY_WILDCARD = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - an address to compare with, not to listen on


def check_port(settings: Settings) -> Iterator[Check]:
    """Check whether the port is free and, if not, whether a Palaver server uses it."""
    host, port = settings.host, settings.port
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if port == 0:
        yield ok("port", "port = 0: a free port will be chosen.")
        return
    if not 0 < port < 65536:
        yield problem("port", f"Invalid port {port}.", "Set port to 1-65535, or to 0 for any free port.")
        return
    error = _bind_error(host, port)
    if error is None:
        yield ok("port", f"{address} is available.")
        return
    match error.errno:
        case errno.EADDRINUSE:
            yield _check_used_port(host, port, address)
        case errno.EACCES:
            advice = "Use a port above 1023 (--port), and put a proxy in front for lower ports."
            yield problem("port", f"Cannot listen on {address}: permission denied.", advice)
        case errno.EADDRNOTAVAIL:
            yield problem(
                "port", f"{host} is not an address of this machine.", "Set host to a local address, e.g. 127.0.0.1."
            )
        case _:
            reason = error.strerror or str(error)
            yield problem("port", f"Cannot listen on {address}: {printable(reason)}.", "Change the host or the port.")


def _bind_error(host: str, port: int) -> OSError | None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            if os.name == "posix":  # As servers do. On Windows the option lets two servers share a port.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        return error
    return None


def _check_used_port(host: str, port: int, address: str) -> Check:
    version = _palaver_version_at(_LOOPBACK_BY_WILDCARD.get(host, host), port)
    if isinstance(version, str):
        return ok(
            "port",
            f"Palaver {printable(version, 40)} is running on {address}.",
            "A second server needs another --port.",
        )
    return problem("port", f"{address} is in use by another program.", "Stop it, or pass another --port.")


def _palaver_version_at(host: str, port: int) -> str | None:
    """Return the version of the Palaver server that answers there, or None."""
    name = f"[{host}]" if ":" in host else host
    request = f"GET /livez HTTP/1.1\r\nHost: {name}:{port}\r\nConnection: close\r\n\r\n".encode()
    received = b""
    with suppress(OSError), socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S) as connection:
        connection.sendall(request)
        while len(received) < 65_536 and (chunk := connection.recv(4096)):
            received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    document: Any = json.parse_or_text(body.decode("utf-8", "replace"))
    match document:
        case {"version": str(version)} if b"\r\nx-api-version:" in head.lower():
            return version
        case _:
            return None


_EARLIEST_PLAUSIBLE = datetime(2025, 1, 1, tzinfo=UTC)
"""A time before the first release of Palaver."""
_MAX_JUMP_S, _MAX_SKEW_S, _MAX_DATABASE_SKEW_S = 1.0, 1.0, 10.0
_MAX_FUTURE = timedelta(minutes=1)
_SET_CLOCK_HINT = "Enable NTP, e.g. with `timedatectl set-ntp true`."


class ClockReading(NamedTuple):
    """The time of both clocks at one moment."""

    wall: datetime
    monotonic: float


def check_clock(first: ClockReading, last: ClockReading, report: DatabaseReport | None) -> Iterator[Check]:
    """Compare clock readings before and after the other checks, and with the database's clock."""
    jump_s = (last.wall - first.wall).total_seconds() - (last.monotonic - first.monotonic)
    if last.wall < _EARLIEST_PLAUSIBLE:
        message = (
            f"The system clock is wrong ({last.wall:%Y-%m-%d}). API keys won't expire, and timestamps will be wrong."
        )
        yield problem("clock", message, _SET_CLOCK_HINT)
    elif last.monotonic < first.monotonic:
        message = "The system's monotonic clock went backwards. Timeouts are unreliable."
        yield problem("clock", message, "Check the hardware or hypervisor.")
    elif abs(jump_s) > _MAX_JUMP_S:
        direction = "forward" if jump_s > 0 else "back"
        message = f"The system clock jumped {direction} by {abs(jump_s):.1f} s during the check."
        yield warning("clock", message, _SET_CLOCK_HINT)
    else:
        yield ok("clock", f"System clock OK ({last.wall:%Y-%m-%d %H:%M:%S} UTC).")
    if report is not None and report.clock_offset_s is not None:
        yield _check_database_clock(report.clock_offset_s)
    if report is not None and report.newest_at is not None and report.newest_at - last.wall > _MAX_FUTURE:
        message = f"The newest row has a timestamp in the future: {report.newest_at:%Y-%m-%d %H:%M:%S} UTC."
        yield warning(
            "clock", message, f"This machine's clock was set back, or another machine's is ahead. {_SET_CLOCK_HINT}"
        )


def _check_database_clock(offset_s: float) -> Check:
    message = f"The database clock is {abs(offset_s):.1f} s {'ahead' if offset_s > 0 else 'behind'}."
    if abs(offset_s) > _MAX_DATABASE_SKEW_S:
        return problem("clock", message, f"Processes may consider each other dead. {_SET_CLOCK_HINT}")
    if abs(offset_s) > _MAX_SKEW_S:
        return warning("clock", message, _SET_CLOCK_HINT)
    return ok("clock", f"Database clock OK (differs by {abs(offset_s) * 1000:.0f} ms).")


_OTHERS_READ_BITS, _OTHERS_WRITE_BITS = 0o044, 0o022


def check_file_modes(
    settings: Settings, sources: dict[str, Source], *, folder: Path, database: Path | None
) -> Iterator[Check]:
    """Check for files that other users can read or change."""
    if os.name != "posix":  # pragma: no cover - modes mean little on other systems
        return
    checks = [*_check_database_modes(database), *_check_settings_modes(settings, sources, folder / "palaver.toml")]
    yield from checks or [ok("files", "Other users can't read the database or secrets, or change the settings.")]


def _check_database_modes(path: Path | None) -> Iterator[Check]:
    if path is None or not path.exists():
        return
    for exposure in permission_warnings(path):
        yield problem("files", *split_advice(exposure))
    for backup in sorted(path.parent.glob(f"{path.name}.*.backup")):
        if _file_mode(backup) & _OTHERS_READ_BITS:
            yield _readable_problem(backup, "a copy of the database")


def _check_settings_modes(settings: Settings, sources: dict[str, Source], path: Path) -> Iterator[Check]:
    if not path.is_file():
        return
    secret_names = [name for name in _secret_settings(settings) if sources[name] == "file"]
    if secret_names and _file_mode(path) & _OTHERS_READ_BITS:
        yield _readable_problem(path, f"which contains secrets ({', '.join(secret_names)})")
    if _file_mode(path) & _OTHERS_WRITE_BITS:
        yield problem(
            "files", f"Other users can modify {path}, and so change the server's settings.", f"Run `chmod go-w {path}`."
        )


def _secret_settings(settings: Settings) -> Iterator[str]:
    if redact_url(settings.db) != settings.db:
        yield "db"
    if settings.otlp_headers:
        yield "otlp_headers"
    values = [value for connection in settings.connections.values() for value in connection.headers.values()]
    if any(not value.startswith("env:") for value in values):
        yield "connections"


def check_key_file(path: Path) -> Iterator[Check]:
    if os.name == "posix" and _file_mode(path) & _OTHERS_READ_BITS:
        yield _readable_problem(path, "which contains an API key")


def _readable_problem(path: Path, description: str) -> Check:
    return problem("files", f"Other users can read {path}, {description}.", f"Run `chmod 600 {path}`.")


def _file_mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0
