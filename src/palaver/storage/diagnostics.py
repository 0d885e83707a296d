"""Read-only inspection of a database: schema version, writability, clock, newest row.

Nothing is created or upgraded. Write access is tested by a transaction that is rolled back.
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
    " CASE WHEN :has_schema THEN has_table_privilege('runs', 'INSERT')"
    " ELSE has_schema_privilege(current_schema(), 'CREATE') END,"
    " current_setting('server_encoding'), current_setting('server_version'), pg_database_size(current_database())"
)


class DatabaseReport(msgspec.Struct, frozen=True, kw_only=True):
    kind: Literal["sqlite", "postgresql"]
    state: SchemaState
    version: str
    """The version of SQLite or of the server."""
    bytes: int
    write_obstacle: str = ""
    """Why the database cannot be written; empty if it can."""
    journal: str = ""
    """The journal mode of a file."""
    encoding: str = "UTF8"
    clock_offset_s: float | None = None
    """Seconds by which the server's clock is ahead of this machine's; None for a file."""
    newest_at: datetime | None = None
    """The newest creation time of a run or heartbeat of a process."""
    has_valid_key: bool | None = None
    """Whether a valid API key exists; None if the schema is not current."""


def inspect_file(path: Path, now: datetime) -> DatabaseReport:
    """Inspect an existing file. Raises SettingsError if it cannot be read."""
    state = upgrade.file_schema_state(path)

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=_BUSY_TIMEOUT_S)
        connection.isolation_level = None
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool, hide_parameters=True)
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
        raise SettingsError(f"Cannot read {path} as a database: {error.orig}.") from None


def _write_obstacle(db: Connection) -> str:
    try:
        db.exec_driver_sql("BEGIN IMMEDIATE")
    except DBAPIError as error:
        return str(error.orig)
    db.rollback()
    return ""


def inspect_server(url: str, now: Callable[[], datetime]) -> DatabaseReport:
    """Inspect a database on a server. Raises SettingsError if it cannot be reached."""
    from palaver.storage.postgres import create_postgres_engine

    location, engine = redact_url(url), create_postgres_engine(url)
    try:
        state = upgrade.server_schema_state(engine, location)
        with engine.connect() as db:
            read_only, may_write, encoding, version, size = db.execute(
                _SERVER_FACTS, {"has_schema": state.version is not None}
            ).one()
            obstacle = (
                "the database is read-only" if read_only else "" if may_write else "this user has no write permission"
            )
            return DatabaseReport(
                kind="postgresql",
                state=state,
                version=str(version),
                bytes=int(size),
                write_obstacle=obstacle,
                encoding=str(encoding),
                clock_offset_s=_clock_offset(db, now),
                newest_at=_newest_timestamp(db) if state.is_current else None,
                has_valid_key=api_keys.has_valid_key(db, now()) if state.is_current else None,
            )
    except DBAPIError as error:
        raise SettingsError(f"Cannot inspect {location}: {' '.join(str(error.orig).split())[:200]}.") from None
    finally:
        engine.dispose()


def _clock_offset(db: Connection, now: Callable[[], datetime]) -> float:
    """Return the clock offset, assuming that the server answered half way between request and response."""
    before = now()
    server_time: datetime = db.execute(text("SELECT clock_timestamp()")).scalar_one()
    after = now()
    return (server_time.astimezone(UTC) - (before + (after - before) / 2)).total_seconds()


def _newest_timestamp(db: Connection) -> datetime | None:
    times = [db.scalar(select(func.max(processes.c.seen_at)))]
    for project in db.scalars(select(projects.c.name).limit(_MAX_PROJECTS)).all():
        project_runs = select(runs.c.created_at).where(runs.c.project == project)
        times.append(db.scalar(project_runs.order_by(runs.c.id.desc()).limit(1)))  # Ids grow with time.
    return max((moment for moment in times if moment is not None), default=None)
