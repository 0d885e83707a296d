"""Services elsewhere that were connected over HTTP: where they are, and what they said when they were last asked.

What is kept of the latter is whatever the caller gives: a JSON value that only the caller can read.
"""

from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from palaver.errors import NameTaken, TooLarge
from palaver.storage import notices
from palaver.storage.notices import EVERYWHERE, Change
from palaver.storage.tables import connections as table

MOST = 200
"""How many a project may have."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What whoever added it said about it."""

    is_chat: bool | None = None
    dialect: str | None = None
    model: str | None = None
    timeout_seconds: float = 60


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """One, without what it said: by its times one sees whether anything is new."""

    name: str
    url: str
    created_at: datetime
    checked_at: datetime | None = None


class Added(Mark, frozen=True, kw_only=True):
    """All of one."""

    options: Options = Options()
    evidence: Any = None

    @property
    def mark(self) -> Mark:
        """What tells it from an older state of itself."""
        return Mark(name=self.name, url=self.url, created_at=self.created_at, checked_at=self.checked_at)


def add(db: Connection, project: str, added: Added) -> None:
    """Keep a new one, if its name is free and there is room."""
    if get(db, project, added.name) is not None:
        raise _taken(added.name)
    if (db.scalar(select(func.count()).where(table.c.project == project)) or 0) >= MOST:
        raise TooLarge(f"There are {MOST} connections already: remove one first.")
    try:
        with db.begin_nested():
            db.execute(insert(table).values(project=project, **_columns(added)))
    except IntegrityError:  # Another process was quicker.
        raise _taken(added.name) from None
    _tell(db, added.name)


def get(db: Connection, project: str, name: str) -> Added | None:
    """The one of that name."""
    row = db.execute(select(table).where(_is(project, name))).one_or_none()
    return None if row is None else _added(row)


def listed(db: Connection, project: str) -> list[Added]:
    """All of a project, by name."""
    # Sorted here: the two databases do not agree on what comes first.
    rows = db.execute(select(table).where(table.c.project == project))
    return sorted((_added(row) for row in rows), key=lambda one: one.name)


def marks(db: Connection, project: str) -> list[Mark]:
    """The same, without what they said."""
    columns = [table.c[name] for name in Mark.__struct_fields__]
    rows = db.execute(select(*columns).where(table.c.project == project))
    return sorted((Mark(**row) for row in rows.mappings()), key=lambda one: one.name)


def check(db: Connection, project: str, mark: Mark, evidence: Any, *, at: datetime) -> bool:
    """Keep what one said when it was asked again; False if it is no longer the same one."""
    theirs = update(table).where(_is(project, mark.name), table.c.created_at == mark.created_at)
    if not db.execute(theirs.values(evidence=evidence, checked_at=at)).rowcount:
        return False
    _tell(db, mark.name)
    return True


def remove(db: Connection, project: str, name: str) -> bool:
    """Forget it; False if there was none."""
    if not db.execute(delete(table).where(_is(project, name))).rowcount:
        return False
    _tell(db, name)
    return True


def _tell(db: Connection, name: str) -> None:
    notices.tell(db, "connection", [name])
    notices.touch(db, Change(EVERYWHERE, "workflow", name))  # All projects see the same ones.


def _taken(name: str) -> NameTaken:
    return NameTaken(f"There is a connection {name!r} already: take another name.", pointer="/name")


def _is(project: str, name: str) -> Any:
    return (table.c.project == project) & (table.c.name == name)


def _added(row: Row[Any]) -> Added:
    return Added(
        name=row.name,
        url=row.url,
        created_at=row.created_at,
        checked_at=row.checked_at,
        options=msgspec.convert(row.options, Options),
        evidence=row.evidence,
    )


def _columns(added: Added) -> dict[str, Any]:
    return {name: getattr(added, name) for name in Added.__struct_fields__}
