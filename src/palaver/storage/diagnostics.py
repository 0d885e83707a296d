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
from palaver.storage import api_keys
from palaver.storage.migrations import upgrade
from palaver.storage.migrations.upgrade import SchemaState
from palaver.storage.paths import redact_url
from palaver.storage.tables import processes, projects, runs

_BUSY_TIMEOUT_S = 1.0
_MAX_PROJECTS = 100
_SERVER_FACTS = text(
    "SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on',"
    " CASE WHEN :there THEN has_table_privilege('runs', 'INSERT')"
    " ELSE has_schema_privilege(current_schema(), 'CREATE') END,"
    " current_setting('server_encoding'), current_setting('server_version'), pg_database_size(current_database())"
)


class DatabaseReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen."""

    kind: Literal["sqlite", "postgresql"]
    state: SchemaState
    version: str
    """Of SQLite, or of the server."""
    bytes: int
    write_obstacle: str = ""
    """Why nothing can be written; empty: it can."""
    journal: str = ""
    """How a file is written: wal, or another way."""
    encoding: str = "UTF8"
    """Of texts, on a server."""
    clock_offset_s: float | None = None
    """Seconds by which a server's clock is ahead of ours; None: a file has none of its own."""
    newest_at: datetime | None = None
    """When the newest run was made, or a process last said that it lives; None: nothing is there yet."""
    has_valid_key: bool | None = None
    """Is there a key that opens something? None: its form is not the one we know."""


def inspect_file(path: Path, now: datetime) -> DatabaseReport:
    """A file that is there. A SettingsError says why it cannot be read."""
    state = upgrade.file_schema_state(path)

    def opened() -> sqlite3.Connection:
        made = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=_BUSY_TIMEOUT_S)
        made.isolation_level = None
        return made

    engine = create_engine("sqlite://", creator=opened, poolclass=NullPool, hide_parameters=True)
    try:
        with engine.connect() as db:
            is_current = state.is_current
            return DatabaseReport(
                kind="sqlite",
                state=state,
                version=sqlite3.sqlite_version,
                bytes=path.stat().st_size,
                journal=str(db.scalar(text("PRAGMA journal_mode"))),
                newest_at=_newest_timestamp(db) if is_current else None,
                has_valid_key=api_keys.has_valid_key(db, now) if is_current else None,
                write_obstacle=_write_obstacle(db),
            )
    except DBAPIError as error:
        raise SettingsError(f"{path} cannot be read as a database: {error.orig}.") from None


def _write_obstacle(db: Connection) -> str:
    try:
        db.exec_driver_sql("BEGIN IMMEDIATE")
    except DBAPIError as error:
        return str(error.orig)
    db.rollback()
    return ""


def inspect_server(url: str, now: Callable[[], datetime]) -> DatabaseReport:
    """A database on a server. A SettingsError says why it cannot be asked."""
    from palaver.storage.postgres import create_postgres_engine

    place, engine = redact_url(url), create_postgres_engine(url)
    try:
        state = upgrade.server_schema_state(engine, place)
        with engine.connect() as db:
            read_only, may, encoding, version, size = db.execute(
                _SERVER_FACTS, {"there": state.version is not None}
            ).one()
            why = "it only lets read" if read_only else "" if may else "this user has no right to"
            return DatabaseReport(
                kind="postgresql",
                state=state,
                version=str(version),
                bytes=int(size),
                write_obstacle=why,
                encoding=str(encoding),
                clock_offset_s=_clock_offset(db, now),
                newest_at=_newest_timestamp(db) if state.is_current else None,
                has_valid_key=api_keys.has_valid_key(db, now()) if state.is_current else None,
            )
    except DBAPIError as error:
        raise SettingsError(f"{place} cannot be looked at: {' '.join(str(error.orig).split())[:200]}.") from None
    finally:
        engine.dispose()


def _clock_offset(db: Connection, now: Callable[[], datetime]) -> float:
    """By how much its clock is ahead, taking it that the answer was given half way between asking and hearing."""
    before = now()
    told: datetime = db.execute(text("SELECT clock_timestamp()")).scalar_one()
    after = now()
    return (told.astimezone(UTC) - (before + (after - before) / 2)).total_seconds()


def _newest_timestamp(db: Connection) -> datetime | None:
    found = [db.scalar(select(func.max(processes.c.seen_at)))]
    for project in db.scalars(select(projects.c.name).limit(_MAX_PROJECTS)).all():
        of_project = select(runs.c.created_at).where(runs.c.project == project)
        found.append(db.scalar(of_project.order_by(runs.c.id.desc()).limit(1)))  # Ids grow with time.
    return max((moment for moment in found if moment is not None), default=None)
