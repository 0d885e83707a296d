"""Views: what somebody asked of a page of the web, kept under a name for everyone in the project."""

from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, delete, func, insert, select, update

from palaver.errors import NotFound, TooLarge
from palaver.storage.pages import START, Page, Window, page
from palaver.storage.tables import views as table

MOST = 500
"""Of one page, in one project."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """One of them."""

    id: str
    page: str
    name: str
    body: Any
    """What the page makes of it is the page's alone."""
    created_at: datetime
    updated_at: datetime


def listed(db: Connection, project: str, of: str, window: Window = START) -> Page[View]:
    """Those of a page, last saved first."""
    query = select(table).where(table.c.project == project, table.c.page == of)
    order = (table.c.updated_at, table.c.id)
    return page(db, query, _view, project=project, by=order, window=window, filters={"page": of})


def create(db: Connection, project: str, view: View) -> None:
    """Keep a new one."""
    of_page = select(func.count()).where(table.c.project == project, table.c.page == view.page)
    if db.execute(of_page).scalar_one() >= MOST:
        raise TooLarge(f"There are {MOST} views of this page already: delete one first.")
    db.execute(insert(table).values(project=project, **msgspec.structs.asdict(view)))


def replace(db: Connection, project: str, view: str, *, name: str, body: Any, at: datetime) -> View:
    """Put something else in its place."""
    here = (table.c.project == project, table.c.id == view)
    found = db.execute(select(table).where(*here).with_for_update()).one_or_none()
    if found is None:
        raise _missing(view)
    db.execute(update(table).where(*here).values(name=name, body=body, updated_at=at))
    return msgspec.structs.replace(_view(found), name=name, body=body, updated_at=at)


def remove(db: Connection, project: str, view: str) -> None:
    """Let go of it."""
    if not db.execute(delete(table).where(table.c.project == project, table.c.id == view)).rowcount:
        raise _missing(view)


def _missing(view: str) -> NotFound:
    return NotFound(f"There is no view {view[:80]!r}.")


def _view(row: Row[Any]) -> View:
    return View(
        id=row.id, page=row.page, name=row.name, body=row.body, created_at=row.created_at, updated_at=row.updated_at
    )
