"""Translate driver errors into Palaver's, and bound the time a query may take."""

import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from palaver.errors import DiskFull, Overloaded, PalaverError, QueryTimeout

_DISK_FULL_STATE = "53100"
_TRANSIENT_STATES = ("08", "53", "57P", "58")
"""Prefixes of transient SQLSTATEs: connection, resources, shutdown, system."""
_RETRY_STATES = ("40001", "40P01")
"""Serialization failure and deadlock."""


def translate_error(error: BaseException) -> PalaverError | None:
    """Return the PalaverError for a driver error; None for an unexpected one."""
    if isinstance(error, PoolTimeout):
        return _unreachable()
    if not isinstance(error, DBAPIError):
        return None
    cause = error.orig
    if isinstance(cause, sqlite3.Error):
        return _translate_sqlite(cause)
    code = _sqlstate(error)
    if code == _DISK_FULL_STATE:
        return DiskFull("The disk of the database server is full. Nothing was written.")
    is_disconnected = code is None and isinstance(error, OperationalError | InterfaceError)
    return _unreachable() if is_disconnected or (code or "").startswith(_TRANSIENT_STATES) else None


def is_serialization_failure(error: BaseException) -> bool:
    """Whether the transaction should be retried (serialization failure or deadlock)."""
    return isinstance(error, DBAPIError) and _sqlstate(error) in _RETRY_STATES


def _sqlstate(error: DBAPIError) -> str | None:
    return getattr(error.orig, "sqlstate", None)


def _translate_sqlite(error: sqlite3.Error) -> PalaverError | None:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return DiskFull("The disk is full. Nothing was written.")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Overloaded("The database is locked by another process. Try again shortly.")
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
        return _unreachable()
    return None


def _unreachable() -> Overloaded:
    return Overloaded("The database is unreachable. Try again shortly.")


_CANCELLED_STATE = "57014"
_PROGRESS_STEPS = 10_000
"""SQLite instructions between checks of the clock: about a tenth of a millisecond."""


@contextmanager
def query_timeout(db: Connection, seconds: float) -> Generator[None]:
    """Raise QueryTimeout when queries inside take longer; on PostgreSQL the limit applies to each query."""
    if db.dialect.name == "postgresql":
        db.execute(select(func.set_config("statement_timeout", f"{max(1, round(seconds * 1000))}", True)))
        try:
            yield
        except DBAPIError as error:
            raise (
                _timeout_error(seconds) if getattr(error.orig, "sqlstate", None) == _CANCELLED_STATE else error
            ) from None
        return
    deadline = time.monotonic() + seconds
    connection: sqlite3.Connection = db.connection.dbapi_connection  # type: ignore[assignment]
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _PROGRESS_STEPS)
    try:
        yield
    except DBAPIError as error:
        code = getattr(error.orig, "sqlite_errorcode", None)
        raise _timeout_error(seconds) if code == sqlite3.SQLITE_INTERRUPT else error from None
    finally:
        connection.set_progress_handler(None, 0)


def _timeout_error(seconds: float) -> QueryTimeout:
    return QueryTimeout(f"Query timed out after {seconds:g} s. Narrow the time range.")
