"""Questions that may take too long: they are broken off, wherever the database stands in them."""

import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DBAPIError

from palaver.errors import QueryTimeout

_CANCELLED = "57014"
"""PostgreSQL's code for a statement that was broken off."""
_STEPS = 10_000
"""Instructions of SQLite's after which the clock is looked at: some tenth of a millisecond."""


@contextmanager
def within(db: Connection, seconds: float) -> Generator[None]:
    """Whatever is asked inside takes no longer, on PostgreSQL each question by itself; else a QueryTimeout."""
    if db.dialect.name == "postgresql":
        db.execute(select(func.set_config("statement_timeout", f"{max(1, round(seconds * 1000))}", True)))
        try:
            yield
        except DBAPIError as error:
            raise _late(seconds) if getattr(error.orig, "sqlstate", None) == _CANCELLED else error from None
        return
    until = time.monotonic() + seconds
    connection: sqlite3.Connection = db.connection.dbapi_connection  # type: ignore[assignment]  # As the dialect is.
    connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
    try:
        yield
    except DBAPIError as error:
        code = getattr(error.orig, "sqlite_errorcode", None)
        raise _late(seconds) if code == sqlite3.SQLITE_INTERRUPT else error from None
    finally:
        connection.set_progress_handler(None, 0)


def _late(seconds: float) -> QueryTimeout:
    return QueryTimeout(f"The question took longer than {seconds:g} seconds: ask for a shorter time.")
