"""Services elsewhere that were connected over HTTP: where they are, and what they said when they were last asked.

What is kept of the latter is whatever the caller gives: a JSON value that only the caller can read.
"""

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
"""How many a project may have."""


class ConnectionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What whoever added it said about it."""

    is_chat: bool | None = None
    dialect: str | None = None
    model: str | None = None
    timeout_seconds: float = 60


class ConnectionVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One, without what it said: by its times one sees whether anything is new."""

    name: str
    url: str
    created_at: datetime
    checked_at: datetime | None = None


class StoredConnection(ConnectionVersion, frozen=True, kw_only=True):
    """All of one."""

    options: ConnectionOptions = ConnectionOptions()
    evidence: Any = None

    @property
    def mark(self) -> ConnectionVersion:
        """What tells it from an older state of itself."""
        return ConnectionVersion(name=self.name, url=self.url, created_at=self.created_at, checked_at=self.checked_at)


def insert_connection(db: Connection, project: str, added: StoredConnection) -> None:
    """Keep a new one, if its name is free and there is room."""
    if get_connection(db, project, added.name) is not None:
        raise _name_taken(added.name)
    if (db.scalar(select(func.count()).where(table.c.project == project)) or 0) >= MAX_CONNECTIONS:
        raise TooLarge(f"There are {MAX_CONNECTIONS} connections already: remove one first.")
    try:
        with db.begin_nested():
            db.execute(insert(table).values(project=project, **_connection_columns(added)))
    except IntegrityError:  # Another process was quicker.
        raise _name_taken(added.name) from None
    _notify_changed(db, added.name)


def get_connection(db: Connection, project: str, name: str) -> StoredConnection | None:
    """The one of that name."""
    row = db.execute(select(table).where(_is_connection(project, name))).one_or_none()
    return None if row is None else _row_to_connection(row)


def list_connections(db: Connection, project: str) -> list[StoredConnection]:
    """All of a project, by name."""
    # Sorted here: the two databases do not agree on what comes first.
    rows = db.execute(select(table).where(table.c.project == project))
    return sorted((_row_to_connection(row) for row in rows), key=lambda one: one.name)


def list_connection_versions(db: Connection, project: str) -> list[ConnectionVersion]:
    """The same, without what they said."""
    columns = [table.c[name] for name in ConnectionVersion.__struct_fields__]
    rows = db.execute(select(*columns).where(table.c.project == project))
    return sorted((ConnectionVersion(**row) for row in rows.mappings()), key=lambda one: one.name)


def update_evidence(db: Connection, project: str, mark: ConnectionVersion, evidence: Any, *, at: datetime) -> bool:
    """Keep what one said when it was asked again; False if it is no longer the same one."""
    theirs = update(table).where(_is_connection(project, mark.name), table.c.created_at == mark.created_at)
    if not db.execute(theirs.values(evidence=evidence, checked_at=at)).rowcount:
        return False
    _notify_changed(db, mark.name)
    return True


def delete_connection(db: Connection, project: str, name: str) -> bool:
    """Forget it; False if there was none."""
    if not db.execute(delete(table).where(_is_connection(project, name))).rowcount:
        return False
    _notify_changed(db, name)
    return True


def _notify_changed(db: Connection, name: str) -> None:
    notifications.notify(db, "connection", [name])
    notifications.mark_changed(db, Change(ALL_PROJECTS, "workflow", name))  # All projects see the same ones.


def _name_taken(name: str) -> NameTaken:
    return NameTaken(f"There is a connection {name!r} already: take another name.", pointer="/name")


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


def _connection_columns(added: StoredConnection) -> dict[str, Any]:
    return {name: getattr(added, name) for name in StoredConnection.__struct_fields__}
