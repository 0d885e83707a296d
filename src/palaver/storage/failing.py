"""What a database's own errors mean to a caller: it is gone or busy, or its disk is full. All else is a mistake."""

import sqlite3

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from palaver.errors import DiskFull, Overloaded, PalaverError

_FULL = "53100"  # PostgreSQL's code for a full disk.
_PASSING = ("08", "53", "57P", "58")
"""How PostgreSQL's codes begin for what goes by: connections, resources, shutdown, its own system."""
_AGAIN = ("40001", "40P01")
"""Two transactions stood in each other's way: the one that was turned back may try again."""


def meaning(error: BaseException) -> PalaverError | None:
    """The error that a caller is told; None for one that should never happen."""
    if isinstance(error, PoolTimeout):
        return _away()
    if not isinstance(error, DBAPIError):
        return None
    cause = error.orig
    if isinstance(cause, sqlite3.Error):
        return _of_sqlite(cause)
    code = _code(error)
    if code == _FULL:
        return DiskFull("The database's disk is full: nothing was written.")
    gone = code is None and isinstance(error, OperationalError | InterfaceError)
    return _away() if gone or (code or "").startswith(_PASSING) else None


def is_collision(error: BaseException) -> bool:
    """Is it worth the same again?"""
    return isinstance(error, DBAPIError) and _code(error) in _AGAIN


def _code(error: DBAPIError) -> str | None:
    return getattr(error.orig, "sqlstate", None)


def _of_sqlite(error: sqlite3.Error) -> PalaverError | None:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return DiskFull("The disk is full: nothing was written.")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Overloaded("The database is locked by another process: try again in a moment.")
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
        return _away()
    return None


def _away() -> Overloaded:
    return Overloaded("The database cannot be reached: try again in a moment.")
