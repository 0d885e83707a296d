"""Check whether the database is there, current, writable, and has room to grow."""

import os
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from palaver.cli.database import sqlite_path
from palaver.cli.doctor.check import Check, ok, problem, warning
from palaver.errors import SettingsError
from palaver.outbound import printable
from palaver.storage import diagnostics
from palaver.storage.diagnostics import DatabaseReport
from palaver.storage.migrations import upgrade
from palaver.storage.paths import MEMORY_URL, redact_url

_MIB = 1024 * 1024
_MIN_FREE_BYTES, _LOW_FREE_BYTES = 100 * _MIB, 1024 * _MIB


class DatabaseChecks(NamedTuple):
    """The checks of the database, and what other checks need of it."""

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
        message = "The database is in memory: all of it is gone with the server."
        return DatabaseChecks([warning("database", message, "Give a file with --db to keep it.")])
    try:
        path = sqlite_path(url)
        if path is None:
            report = diagnostics.inspect_server(url, now)
            return DatabaseChecks(list(_check_opened(report, redact_url(url))), report)
        space_checks = list(_check_free_space(path, free or _free_bytes))
        if not path.exists():
            return DatabaseChecks([*_check_missing_file(path), *space_checks], None, path)
        report = diagnostics.inspect_file(path, now())
    except SettingsError as error:
        return DatabaseChecks(
            [problem("database", printable(error.message, 400), "See that it is there, or give another --db.")]
        )
    return DatabaseChecks([*_check_opened(report, str(path)), *space_checks], report, path)


def _check_missing_file(path: Path) -> Iterator[Check]:
    folder = _existing_folder(path)
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        message = f"{path} is not there, and cannot be made: {folder} is not ours to write."
        yield problem("database", message, "Give another place with --db.")
    else:
        yield ok("database", f"{path} is not there yet: a server makes it when it starts.")


def _check_opened(report: DatabaseReport, location: str) -> Iterator[Check]:
    name = "SQLite" if report.kind == "sqlite" else "PostgreSQL"
    yield ok("database", f"{location} answers: {name} {printable(report.version, 40)}, {_format_bytes(report.bytes)}.")
    try:
        report.state.check(location)
    except SettingsError as error:
        message, _, advice = error.message.partition(": ")
        yield problem("database", f"{message}.", advice[:1].upper() + advice[1:])
        return
    if report.state.is_current:
        yield ok("database", f"Its form is {upgrade.SCHEMA_VERSION}, the one that this Palaver knows.")
    elif report.state.version is None:
        yield ok("database", "It is empty: a server makes its tables when it starts.")
    else:
        known = upgrade.SCHEMA_VERSION
        message = f"Its form is {report.state.version}; this Palaver knows {known}, and a server brings it there."
        yield warning("database", message, "To do so now: palaver backup FILE, then palaver migrate.")
    if report.write_obstacle:
        advice = "End who holds it, or give this user the right to write."
        yield problem("database", f"It cannot be written: {printable(report.write_obstacle)}.", advice)
    else:
        yield ok("database", "It can be written.")
    if report.kind == "sqlite" and report.journal != "wal" and report.state.version is not None:
        message = f"It is written by way of {printable(report.journal, 20)}, not WAL: readers wait for writers."
        yield warning("database", message, "A server changes that when it starts, if the file system can do it.")
    if report.encoding != "UTF8":
        message = f"Its texts are {printable(report.encoding, 40)}: not every text can be kept."
        yield problem("database", message, "Make a database with ENCODING 'UTF8'.")


def _check_free_space(path: Path, free: Callable[[Path], int]) -> Iterator[Check]:
    free_bytes = free(_existing_folder(path))
    size = path.stat().st_size if path.is_file() else 0
    if free_bytes < _MIN_FREE_BYTES:
        yield problem(
            "database", f"Only {_format_bytes(free_bytes)} are free beside {path}: writes will fail.", "Make room."
        )
    elif free_bytes < max(_LOW_FREE_BYTES, size):
        free_text = f"{_format_bytes(free_bytes)} are free beside {path}"
        message = f"{free_text}: little, as a new version keeps a copy before it changes the file."
        yield warning("database", message, "Make room, or keep less: trace_retention_days, trace_max_bytes, run_days.")
    else:
        yield ok("database", f"{_format_bytes(free_bytes)} are free beside it.")


def _existing_folder(path: Path) -> Path:
    """Return the nearest existing parent folder."""
    return next(parent for parent in path.absolute().parents if parent.exists())


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def _format_bytes(count: int) -> str:
    if count < _MIB:
        return f"{count / 1024:.0f} KiB"
    return f"{count / _MIB:.1f} MiB" if count < 1024 * _MIB else f"{count / 1024 / _MIB:.1f} GiB"
