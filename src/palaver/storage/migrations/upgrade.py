"""Create or upgrade the schema of a database; a database of a newer Palaver is refused.

An upgrade is one transaction. A file is copied before it is changed.
"""

import logging
import os
import re
import sqlite3
import time
from collections.abc import Callable, Collection
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, inspect, text
from sqlalchemy.exc import DBAPIError

from palaver.errors import Overloaded, SettingsError
from palaver.storage.driver_errors import translate_error

SCHEMA_VERSION = "0006"
"""The schema version of this Palaver: the last of migrations/versions."""

_TABLES_VERSION = SCHEMA_VERSION
"""The schema version that the table definitions describe."""
VERSION_LOCATIONS = ["palaver.storage:migrations/versions"]

_UPGRADE_LOCK_ID = 6_157_842_603
"""PostgreSQL advisory lock held during an upgrade."""
_BUSY_TIMEOUT_S = 30
_VERSION_TABLE = "alembic_version"
_REQUIRED_TABLES = {"projects", "keys", "runs"}
"""Tables of every schema version: Alembic's table alone may belong to another program."""
log = logging.getLogger("palaver.storage")


class SchemaState(NamedTuple):
    version: str | None
    """None if there is no Palaver schema."""
    is_empty: bool

    @property
    def is_current(self) -> bool:
        return self.version == SCHEMA_VERSION

    def check(self, location: str) -> None:
        """Raise SettingsError for a database of another program or a newer Palaver."""
        if self.version is None and not self.is_empty:
            raise SettingsError(f"{location} is the database of another program. Choose another one with --db.")
        if self.version is not None and self.version > SCHEMA_VERSION:
            raise SettingsError(
                f"{location} was created by a newer version of Palaver (schema version {self.version}, supported:"
                f" {SCHEMA_VERSION}). Upgrade Palaver, or choose another database with --db."
            )


# SQLite files


def ensure_file_current(path: Path) -> None:
    """Upgrade a file if needed, and log where its previous state was copied to."""
    copy = upgrade_file(path)
    if copy is not None:
        log.warning(
            "Upgraded the database %s to schema version %s. A backup of the old database is at %s.",
            path,
            SCHEMA_VERSION,
            copy,
        )


def upgrade_file(path: Path) -> Path | None:
    """Upgrade a file if needed; returns the path of the copy made before, if any."""
    state = file_schema_state(path)
    state.check(str(path))
    if state.is_current:
        return None
    engine = create_engine(URL.create("sqlite", database=str(path.absolute())), poolclass=NullPool)
    event.listen(engine, "connect", _prepare_connection)
    event.listen(engine, "begin", _begin_transaction)
    return _upgrade(engine, str(path), lambda version: _backup_file(path, version))


def file_schema_state(path: Path) -> SchemaState:
    """Read the schema version of a file, with sqlite3 alone: usually this is all there is to do at startup."""
    # Not `mode=ro`: the first connection after a crash has to roll back unfinished transactions.
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as file:
            table_names = {name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            row = (
                file.execute("SELECT version_num FROM alembic_version").fetchone()
                if _VERSION_TABLE in table_names
                else None
            )
    except sqlite3.DatabaseError as error:
        raise SettingsError(f"Cannot read {path} as a database: {error}.") from None
    return _schema_state(table_names, row[0] if row else None)


def _prepare_connection(connection: sqlite3.Connection, _: object) -> None:
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_S * 1000}")
    # When several processes do this to a new file at once, SQLite refuses some of them without waiting.
    deadline = time.monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _begin_transaction(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _backup_file(path: Path, version: str) -> Path:
    """Copy the file atomically, under the lock of the upgrade that follows."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    copy, partial_copy = (path.with_name(f"{path.name}.{version}.{suffix}") for suffix in (f"{stamp}.backup", "part"))
    try:
        partial_copy.unlink(missing_ok=True)  # Left by a killed process.
        os.close(os.open(partial_copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with closing(sqlite3.connect(path)) as file, closing(sqlite3.connect(partial_copy)) as target:
            file.backup(target)
        partial_copy.replace(copy)
    except (OSError, sqlite3.Error) as error:
        partial_copy.unlink(missing_ok=True)
        raise SettingsError(f"{path} was not upgraded because it could not be backed up: {error}.") from None
    return copy


# PostgreSQL


def ensure_server_current(engine: Engine, location: str) -> None:
    """Upgrade a server's database if needed. Of processes that start at once, one upgrades and the others wait."""
    try:
        state = server_schema_state(engine, location)
        state.check(location)
        if not state.is_current:
            _upgrade(engine, location, None)
    except BaseException:
        engine.dispose()
        raise


def server_schema_state(engine: Engine, location: str) -> SchemaState:
    try:
        with engine.connect() as connection:
            return _read_schema_state(connection)
    except DBAPIError as error:
        is_unreachable = isinstance(translate_error(error), Overloaded)
        message = f"Cannot connect to {location}" if is_unreachable else f"Cannot read {location} as a database"
        raise SettingsError(f"{message}: {_one_line(error)}.") from None


# SQLite and PostgreSQL


def _read_schema_state(connection: Connection) -> SchemaState:
    table_names = set(inspect(connection).get_table_names())
    return _schema_state(
        table_names,
        connection.scalar(text("SELECT version_num FROM alembic_version")) if _VERSION_TABLE in table_names else None,
    )


def _schema_state(table_names: Collection[str], version: str | None) -> SchemaState:
    is_ours = (
        version is not None and re.fullmatch(r"\d{4}", version) is not None and _REQUIRED_TABLES.issubset(table_names)
    )
    return SchemaState(version if is_ours else None, version is None and not set(table_names) - {_VERSION_TABLE})


def _upgrade(engine: Engine, location: str, backup: Callable[[str], Path] | None) -> Path | None:
    """Run missing scripts in one transaction; returns the path of the copy made before, if any."""
    copy: Path | None = None
    try:
        with engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock_id)"), {"lock_id": _UPGRADE_LOCK_ID})
            state = _read_schema_state(connection)  # Another process may have upgraded it.
            state.check(location)
            if state.is_current:
                return None
            copy = backup(state.version) if backup is not None and state.version is not None else None
            if state.is_empty and engine.dialect.name == "sqlite" and SCHEMA_VERSION == _TABLES_VERSION:
                _create_tables(connection)
            else:
                _run_scripts(connection)
    except BaseException as error:
        if copy is not None:
            copy.unlink(missing_ok=True)  # The database is unchanged.
        if isinstance(error, DBAPIError):
            message = f"Failed to upgrade {location} to schema version {SCHEMA_VERSION}: {_one_line(error)}."
            raise translate_error(error) or SettingsError(message) from error
        raise
    return copy


def _create_tables(connection: Connection) -> None:
    """Create the current schema in one step, which takes a fraction of the time of all scripts and of Alembic."""
    from palaver.storage.tables import metadata

    metadata.create_all(connection)
    connection.execute(
        text(
            "CREATE TABLE IF NOT EXISTS alembic_version ("
            "version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
        )
    )
    connection.execute(text("INSERT INTO alembic_version (version_num) VALUES (:version)"), {"version": SCHEMA_VERSION})


def _run_scripts(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "palaver.storage:migrations")
    config.set_main_option("path_separator", "newline")
    config.set_main_option("version_locations", "\n".join(VERSION_LOCATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, SCHEMA_VERSION)


def _one_line(error: BaseException) -> str:
    cause = getattr(error, "orig", None) or error
    lines = [line for line in str(cause).splitlines() if "Is the server running" not in line]  # A hint of libpq.
    return " ".join(" ".join(lines).split())[:200].removesuffix(".")
