"""Is the database there, in the form that this Palaver knows, to be written, with room to grow?"""

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


class DatabaseReport(NamedTuple):
    """What was seen of the database, for whoever else has to know."""

    checks: list[Check]
    look: DatabaseReport | None = None
    path: Path | None = None

    @property
    def has_key(self) -> bool | None:
        """Is there a key that opens something? None: nobody can tell."""
        if self.look is None:
            return False if self.path is not None else None  # A file that is not there yet has none.
        return False if self.look.state.is_empty else self.look.has_valid_key


def check_database(url: str, now: Callable[[], datetime], free: Callable[[Path], int] | None = None) -> DatabaseReport:
    """Look at it. Nothing is made, changed or brought up to date."""
    if url in (MEMORY_URL, "sqlite:///:memory:"):
        says = "The database is in memory: all of it is gone with the server."
        return DatabaseReport([warning("database", says, "Give a file with --db to keep it.")])
    try:
        path = sqlite_path(url)
        if path is None:
            look = diagnostics.inspect_server(url, now)
            return DatabaseReport(list(_check_opened(look, redact_url(url))), look)
        room = list(_check_free_space(path, free or _free_bytes))
        if not path.exists():
            return DatabaseReport([*_check_missing_file(path), *room], None, path)
        look = diagnostics.inspect_file(path, now())
    except SettingsError as error:
        return DatabaseReport(
            [problem("database", printable(error.message, 400), "See that it is there, or give another --db.")]
        )
    return DatabaseReport([*_check_opened(look, str(path)), *room], look, path)


def _check_missing_file(path: Path) -> Iterator[Check]:
    folder = _existing_folder(path)
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        says = f"{path} is not there, and cannot be made: {folder} is not ours to write."
        yield problem("database", says, "Give another place with --db.")
    else:
        yield ok("database", f"{path} is not there yet: a server makes it when it starts.")


def _check_opened(look: DatabaseReport, place: str) -> Iterator[Check]:
    name = "SQLite" if look.kind == "sqlite" else "PostgreSQL"
    yield ok("database", f"{place} answers: {name} {printable(look.version, 40)}, {_format_bytes(look.bytes)}.")
    try:
        look.state.check(place)
    except SettingsError as error:
        says, _, do = error.message.partition(": ")
        yield problem("database", f"{says}.", do[:1].upper() + do[1:])
        return
    if look.state.is_current:
        yield ok("database", f"Its form is {upgrade.SCHEMA_VERSION}, the one that this Palaver knows.")
    elif look.state.version is None:
        yield ok("database", "It is empty: a server makes its tables when it starts.")
    else:
        known = upgrade.SCHEMA_VERSION
        says = f"Its form is {look.state.version}; this Palaver knows {known}, and a server brings it there."
        yield warning("database", says, "To do so now: palaver backup FILE, then palaver migrate.")
    if look.write_obstacle:
        do = "End who holds it, or give this user the right to write."
        yield problem("database", f"It cannot be written: {printable(look.write_obstacle)}.", do)
    else:
        yield ok("database", "It can be written.")
    if look.kind == "sqlite" and look.journal != "wal" and look.state.version is not None:
        says = f"It is written by way of {printable(look.journal, 20)}, not WAL: readers wait for writers."
        yield warning("database", says, "A server changes that when it starts, if the file system can do it.")
    if look.encoding != "UTF8":
        says = f"Its texts are {printable(look.encoding, 40)}: not every text can be kept."
        yield problem("database", says, "Make a database with ENCODING 'UTF8'.")


def _check_free_space(path: Path, free: Callable[[Path], int]) -> Iterator[Check]:
    left = free(_existing_folder(path))
    size = path.stat().st_size if path.is_file() else 0
    if left < _MIN_FREE_BYTES:
        yield problem("database", f"Only {_format_bytes(left)} are free beside {path}: writes will fail.", "Make room.")
    elif left < max(_LOW_FREE_BYTES, size):
        free_text = f"{_format_bytes(left)} are free beside {path}"
        says = f"{free_text}: little, as a new version keeps a copy before it changes the file."
        yield warning("database", says, "Make room, or keep less: trace_retention_days, trace_max_bytes, run_days.")
    else:
        yield ok("database", f"{_format_bytes(left)} are free beside it.")


def _existing_folder(path: Path) -> Path:
    """The folder that it is in, or would be made in."""
    return next(parent for parent in path.absolute().parents if parent.exists())


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def _format_bytes(count: int) -> str:
    if count < _MIB:
        return f"{count / 1024:.0f} KiB"
    return f"{count / _MIB:.1f} MiB" if count < 1024 * _MIB else f"{count / 1024 / _MIB:.1f} GiB"
