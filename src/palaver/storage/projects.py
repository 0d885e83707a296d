"""Projects, which separate data. Deleting one deletes everything in it."""

from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Table, delete, exists, insert, select, tuple_
from sqlalchemy.exc import IntegrityError

from palaver.core.runs import DEFAULT_PROJECT
from palaver.storage.pagination import FIRST_PAGE, Page, Window, fetch_page
from palaver.storage.schema import row_converter
from palaver.storage.spans import retention as span_retention
from palaver.storage.tables import keys, metadata, projects, runs, sessions


class Project(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    created_at: datetime


def insert_project(db: Connection, project: Project) -> bool:
    """Insert a project; False if the name is taken."""
    try:
        with db.begin_nested():
            db.execute(insert(projects).values(msgspec.structs.asdict(project)))
    except IntegrityError:
        return False
    return True


def get_project(db: Connection, name: str) -> Project | None:
    row = db.execute(select(projects).where(projects.c.name == name)).mappings().one_or_none()
    return None if row is None else Project(**row)


def list_projects(db: Connection, window: Window = FIRST_PAGE) -> Page[Project]:
    """List projects by name."""
    query, convert, by = select(projects), row_converter(Project), (projects.c.name,)
    return fetch_page(db, query, convert, project=DEFAULT_PROJECT, by=by, window=window, order="oldest")


def has_active_runs(db: Connection, name: str) -> bool:
    active = select(runs.c.id).where(runs.c.project == name, runs.c.ended_at.is_(None))
    return bool(db.scalar(select(exists(active))))


def revoke_access(db: Connection, name: str) -> list[str]:
    """Delete all keys and sessions of a project before it is deleted; returns the ids of the keys."""
    assert name != DEFAULT_PROJECT
    db.execute(delete(sessions).where(sessions.c.project == name))
    return list(db.scalars(delete(keys).where(keys.c.project == name).returning(keys.c.id)))


def delete_project_batch(db: Connection, name: str, *, limit: int = 100) -> bool:
    """Delete a batch of rows, and finally the project itself; returns whether anything is left.

    In batches, so that others can write in between, and dependent rows first.
    """
    assert name != DEFAULT_PROJECT
    if span_retention.delete_matching(db, name, limit):  # Spans have to be removed from the search index.
        return True
    for table in reversed(metadata.sorted_tables):
        if "project" in table.c and _delete_rows(db, table, name, limit):
            return True
    db.execute(delete(projects).where(projects.c.name == name))
    return False


def _delete_rows(db: Connection, table: Table, name: str, limit: int) -> int:
    key: list[Any] = list(table.primary_key.columns)
    batch = select(*key).where(table.c.project == name).limit(limit)
    return db.execute(delete(table).where(tuple_(*key).in_(batch))).rowcount
