"""Connected services: their URLs, options and the evidence of the last check (JSON that only the caller interprets)."""

from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from palaver.errors import NameTaken, TooLarge
from palaver.storage import notifications
from palaver.storage.notifications import ALL_PROJECTS, Change
from palaver.storage.tables import connections as table

MAX_CONNECTIONS = 200
"""Maximum number of connections per project."""


class ConnectionOptions(msgspec.Struct, frozen=True, kw_only=True):
    is_chat: bool | None = None
    dialect: str | None = None
    model: str | None = None
    timeout_seconds: float = 60


class ConnectionVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A connection without its evidence; equal if nothing has changed."""

    name: str
    url: str
    created_at: datetime
    checked_at: datetime | None = None


class StoredConnection(ConnectionVersion, frozen=True, kw_only=True):
    options: ConnectionOptions = ConnectionOptions()
    evidence: Any = None

    @property
    def version(self) -> ConnectionVersion:
        return ConnectionVersion(name=self.name, url=self.url, created_at=self.created_at, checked_at=self.checked_at)


def insert_connection(db: Connection, project: str, connection: StoredConnection) -> None:
    """Insert a connection. Raises NameTaken, or TooLarge if there are too many."""
    if get_connection(db, project, connection.name) is not None:
        raise _name_taken(connection.name)
    if (db.scalar(select(func.count()).where(table.c.project == project)) or 0) >= MAX_CONNECTIONS:
        raise TooLarge(f"The limit of {MAX_CONNECTIONS} connections has been reached. Remove one first.")
    try:
        with db.begin_nested():
            db.execute(insert(table).values(project=project, **msgspec.structs.asdict(connection)))
    except IntegrityError:  # Inserted by another process in the meantime.
        raise _name_taken(connection.name) from None
    _notify_changed(db, connection.name)


def get_connection(db: Connection, project: str, name: str) -> StoredConnection | None:
    row = db.execute(select(table).where(_is_connection(project, name))).one_or_none()
    return None if row is None else _row_to_connection(row)


def list_connections(db: Connection, project: str) -> list[StoredConnection]:
    """List the connections of a project by name."""
    # Sorted here: the databases differ in their collations.
    rows = db.execute(select(table).where(table.c.project == project))
    return sorted((_row_to_connection(row) for row in rows), key=lambda connection: connection.name)


def list_connection_versions(db: Connection, project: str) -> list[ConnectionVersion]:
    """List the connections of a project by name, without their evidence."""
    columns = [table.c[name] for name in ConnectionVersion.__struct_fields__]
    rows = db.execute(select(*columns).where(table.c.project == project))
    return sorted((ConnectionVersion(**row) for row in rows.mappings()), key=lambda connection: connection.name)


def update_evidence(db: Connection, project: str, version: ConnectionVersion, evidence: Any, *, at: datetime) -> bool:
    """Store new evidence; False if the connection was replaced in the meantime."""
    statement = update(table).where(_is_connection(project, version.name), table.c.created_at == version.created_at)
    if not db.execute(statement.values(evidence=evidence, checked_at=at)).rowcount:
        return False
    _notify_changed(db, version.name)
    return True


def delete_connection(db: Connection, project: str, name: str) -> bool:
    """Delete a connection; False if it does not exist."""
    if not db.execute(delete(table).where(_is_connection(project, name))).rowcount:
        return False
    _notify_changed(db, name)
    return True


def _notify_changed(db: Connection, name: str) -> None:
    notifications.notify(db, "connection", [name])
    notifications.mark_changed(db, Change(ALL_PROJECTS, "workflow", name))  # All projects see the same workflows.


def _name_taken(name: str) -> NameTaken:
    return NameTaken(f"The name {name!r} is already in use by a connection.", pointer="/name")


def _is_connection(project: str, name: str) -> Any:
    return (table.c.project == project) & (table.c.name == name)


def _row_to_connection(row: Row[Any]) -> StoredConnection:
    return StoredConnection(
        name=row.name,
        url=row.url,
        created_at=row.created_at,
        checked_at=row.checked_at,
        options=msgspec.convert(row.options, ConnectionOptions),
        evidence=row.evidence,
    )
