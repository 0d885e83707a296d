"""Where things are kept on this machine, and whether others can read them there."""

import os
import re
import stat
from pathlib import Path

MEMORY_URL = "sqlite://"
"""The URL of a database that is gone with the process."""
DEFAULT_FILE_NAME = "palaver.db"
"""The file of a database, if nobody says otherwise."""

_PASSWORD = re.compile(r"([?&]password=)[^&]*")


def default_path() -> Path:
    """The database of this user: a file in the folder that the system keeps for a program's data."""
    from platformdirs import user_data_path

    return user_data_path("palaver", appauthor=False) / DEFAULT_FILE_NAME


def lock_path(database: Path) -> Path:
    """The file that a server holds locked for as long as it serves from that database."""
    return database.with_name(f"{database.name}.lock")


def workers_lock_path(database: Path) -> Path:
    """The file that workers hold locked together, beside the server or without one."""
    return database.with_name(f"{database.name}.workers.lock")


def redact_url(url: str) -> str:
    """The URL, without a password."""
    scheme, colon, rest = url.partition("://")
    user, at, place = rest.rpartition("@")
    shown = f"{scheme}{colon}{user.partition(':')[0]}{':***' if ':' in user else ''}{at}{place}" if colon else url
    return _PASSWORD.sub(r"\1***", shown)


def permission_warnings(database: Path) -> list[str]:
    """A line with its remedy for each file of a database, and for its folder, that others of this machine can read."""
    if os.name != "posix":  # pragma: no cover - elsewhere modes mean little
        return []
    files = [database, *(database.with_name(database.name + end) for end in ("-wal", "-shm"))]
    found = [(path, 0o600) for path in files if _is_readable_by_others(path)]
    if database.parent == default_path().parent and _is_readable_by_others(database.parent):
        found.append((database.parent, 0o700))  # A folder that somebody else chose is theirs to close.
    return [f"Others can read {path}: chmod {mode:o} {path} makes it yours alone." for path, mode in found]


def _is_readable_by_others(path: Path) -> bool:
    try:
        return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)
    except FileNotFoundError:
        return False
