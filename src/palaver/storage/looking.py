"""What there is to see of a database from outside: its form, whether it can be written, its clock, its newest row.

Nothing is made, changed or brought up to date here: a transaction that writes is begun, and given up before it does.
"""

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec
from sqlalchemy import Connection, NullPool, create_engine, func, select, text
from sqlalchemy.exc import DBAPIError

from palaver.errors import SettingsError
from palaver.storage import keys, migrating
from palaver.storage.migrating import State
from palaver.storage.places import redacted
from palaver.storage.tables import processes, projects, runs

_BUSY_SECONDS = 1.0
_MOST_PROJECTS = 100
_RIGHTS = text(
    "SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on',"
    " CASE WHEN :there THEN has_table_privilege('runs', 'INSERT')"
    " ELSE has_schema_privilege(current_schema(), 'CREATE') END,"
    " current_setting('server_encoding'), current_setting('server_version'), pg_database_size(current_database())"
)


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen."""

    kind: Literal["sqlite", "postgresql"]
    state: State
    version: str
    """Of SQLite, or of the server."""
    bytes: int
    locked: str = ""
    """Why nothing can be written; empty: it can."""
    journal: str = ""
    """How a file is written: wal, or another way."""
    encoding: str = "UTF8"
    """Of texts, on a server."""
    ahead: float | None = None
    """Seconds by which a server's clock is ahead of ours; None: a file has none of its own."""
    newest: datetime | None = None
    """When the newest run was made, or a process last said that it lives; None: nothing is there yet."""
    has_key: bool | None = None
    """Is there a key that opens something? None: its form is not the one we know."""


def file(path: Path, now: datetime) -> Look:
    """A file that is there. A SettingsError says why it cannot be read."""
    state = migrating.state_of_file(path)

    def opened() -> sqlite3.Connection:
        made = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=_BUSY_SECONDS)
        made.isolation_level = None
        return made

    engine = create_engine("sqlite://", creator=opened, poolclass=NullPool, hide_parameters=True)
    try:
        with engine.connect() as db:
            is_current = state.is_current
            return Look(
                kind="sqlite",
                state=state,
                version=sqlite3.sqlite_version,
                bytes=path.stat().st_size,
                journal=str(db.scalar(text("PRAGMA journal_mode"))),
                newest=_newest(db) if is_current else None,
                has_key=keys.any_good(db, now) if is_current else None,
                locked=_why_locked(db),
            )
    except DBAPIError as error:
        raise SettingsError(f"{path} cannot be read as a database: {error.orig}.") from None


def _why_locked(db: Connection) -> str:
    try:
        db.exec_driver_sql("BEGIN IMMEDIATE")
    except DBAPIError as error:
        return str(error.orig)
    db.rollback()
    return ""


def server(url: str, now: Callable[[], datetime]) -> Look:
    """A database on a server. A SettingsError says why it cannot be asked."""
    from palaver.storage.postgres import engine_at

    place, engine = redacted(url), engine_at(url)
    try:
        state = migrating.state_of_server(engine, place)
        with engine.connect() as db:
            read_only, may, encoding, version, size = db.execute(_RIGHTS, {"there": state.version is not None}).one()
            why = "it only lets read" if read_only else "" if may else "this user has no right to"
            return Look(
                kind="postgresql",
                state=state,
                version=str(version),
                bytes=int(size),
                locked=why,
                encoding=str(encoding),
                ahead=_ahead(db, now),
                newest=_newest(db) if state.is_current else None,
                has_key=keys.any_good(db, now()) if state.is_current else None,
            )
    except DBAPIError as error:
        raise SettingsError(f"{place} cannot be looked at: {' '.join(str(error.orig).split())[:200]}.") from None
    finally:
        engine.dispose()


def _ahead(db: Connection, now: Callable[[], datetime]) -> float:
    """By how much its clock is ahead, taking it that the answer was given half way between asking and hearing."""
    before = now()
    told: datetime = db.execute(text("SELECT clock_timestamp()")).scalar_one()
    after = now()
    return (told.astimezone(UTC) - (before + (after - before) / 2)).total_seconds()


def _newest(db: Connection) -> datetime | None:
    found = [db.scalar(select(func.max(processes.c.seen_at)))]
    for project in db.scalars(select(projects.c.name).limit(_MOST_PROJECTS)).all():
        of_project = select(runs.c.created_at).where(runs.c.project == project)
        found.append(db.scalar(of_project.order_by(runs.c.id.desc()).limit(1)))  # Ids grow with time.
    return max((moment for moment in found if moment is not None), default=None)
