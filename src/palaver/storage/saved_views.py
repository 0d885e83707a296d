"""Saved views: filters of a page of the web interface, stored under a name for the project."""

from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, func, insert, select, update

from palaver.errors import NotFound, TooLarge
from palaver.storage.pagination import FIRST_PAGE, Page, Window, fetch_page
from palaver.storage.schema import require_row, row_converter
from palaver.storage.tables import views as table

MAX_VIEWS = 500
"""Maximum number of views per page and project."""


class SavedView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    page: str
    name: str
    body: Any
    """Opaque: only the web interface interprets it."""
    created_at: datetime
    updated_at: datetime


_row_to_view = row_converter(SavedView)


def list_views(db: Connection, project: str, page: str, window: Window = FIRST_PAGE) -> Page[SavedView]:
    """List the views of a page, last saved first."""
    query = select(table).where(table.c.project == project, table.c.page == page)
    order = (table.c.updated_at, table.c.id)
    return fetch_page(db, query, _row_to_view, project=project, by=order, window=window, filters={"page": page})


def insert_view(db: Connection, project: str, view: SavedView) -> None:
    count = select(func.count()).where(table.c.project == project, table.c.page == view.page)
    if db.execute(count).scalar_one() >= MAX_VIEWS:
        raise TooLarge(f"The limit of {MAX_VIEWS} saved views per page has been reached. Delete one first.")
    db.execute(insert(table).values(project=project, **msgspec.structs.asdict(view)))


def replace_view(db: Connection, project: str, view: str, *, name: str, body: Any, at: datetime) -> SavedView:
    conditions = (table.c.project == project, table.c.id == view)
    row = require_row(db, select(table).with_for_update(), table, project, view, "Saved view")
    db.execute(update(table).where(*conditions).values(name=name, body=body, updated_at=at))
    return msgspec.structs.replace(_row_to_view(row), name=name, body=body, updated_at=at)


def delete_view(db: Connection, project: str, view: str) -> None:
    if not db.execute(delete(table).where(table.c.project == project, table.c.id == view)).rowcount:
        raise NotFound(f"Saved view {view[:80]!r} not found.")
