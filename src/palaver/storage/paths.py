"""Default paths of database and lock files, and their permissions."""

import os
import re
import stat
from pathlib import Path

MEMORY_URL = "sqlite://"
DEFAULT_FILE_NAME = "palaver.db"

_PASSWORD = re.compile(r"([?&]password=)[^&]*")


def default_path() -> Path:
    """Return the path of the user's database in the platform's data directory."""
    from platformdirs import user_data_path

    return user_data_path("palaver", appauthor=False) / DEFAULT_FILE_NAME


def lock_path(database: Path) -> Path:
    """Return the file that a server holds locked while it serves from the database."""
    return database.with_name(f"{database.name}.lock")


def workers_lock_path(database: Path) -> Path:
    """Return the file on which all workers hold a shared lock."""
    return database.with_name(f"{database.name}.workers.lock")


def redact_url(url: str) -> str:
    scheme, colon, remainder = url.partition("://")
    user, at, host = remainder.rpartition("@")
    redacted = f"{scheme}{colon}{user.partition(':')[0]}{':***' if ':' in user else ''}{at}{host}" if colon else url
    return _PASSWORD.sub(r"\1***", redacted)


def permission_warnings(database: Path) -> list[str]:
    """Return a warning with its remedy for each file, and the directory, that other users can read."""
    if os.name != "posix":  # pragma: no cover - elsewhere modes mean little
        return []
    files = [database, *(database.with_name(database.name + suffix) for suffix in ("-wal", "-shm"))]
    readable = [(path, 0o600) for path in files if _is_readable_by_others(path)]
    if database.parent == default_path().parent and _is_readable_by_others(database.parent):
        readable.append((database.parent, 0o700))  # Only the default directory is Palaver's to protect.
    return [f"Other users can read {path}. Run `chmod {mode:o} {path}`." for path, mode in readable]


def _is_readable_by_others(path: Path) -> bool:
    try:
        return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)
    except FileNotFoundError:
        return False
