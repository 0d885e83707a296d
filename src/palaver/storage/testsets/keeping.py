"""Test sets: their names, and what their newest revisions are. Revisions, pieces and rows have files of their own."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Select, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from palaver.errors import NameTaken, NotFound
from palaver.storage import file_uses
from palaver.storage.notices import Change, touch
from palaver.storage.pages import START, Page, Window, page
from palaver.storage.testsets import imports as testset_imports
from palaver.storage.testsets.imports import Import
from palaver.storage.testsets.tables import testset_revisions
from palaver.storage.testsets.tables import testsets as table


class TestSet(msgspec.Struct, frozen=True, kw_only=True):
    """One set, as it is now."""

    id: str
    name: str
    description: str = ""
    head: int = 1
    """The number of its newest revision,"""
    rows: int = 0
    """how many rows that has,"""
    columns: list[dict[str, Any]] = []
    """and which columns."""
    archived: bool = False
    created_at: datetime
    updated_at: datetime


# Finding


def get(db: Connection, project: str, testset: str) -> TestSet:
    """One, archived or not."""
    return _got(db, _of(project), testset)


def locked(db: Connection, project: str, testset: str) -> TestSet:
    """One that is to be changed: nobody else may change it meanwhile."""
    return _got(db, _of(project).with_for_update(), testset)


def _got(db: Connection, query: Select[Any], testset: str) -> TestSet:
    row = db.execute(query.where(table.c.id == testset)).one_or_none()
    if row is None:
        raise missing(testset)
    return _testset(row)


def missing(testset: str) -> NotFound:
    """What to say of one that is not there, or is another project's."""
    return NotFound(f"There is no test set {testset[:80]!r}.")


def find(db: Connection, project: str, name: str) -> TestSet | None:
    """The one of that name that is not archived."""
    row = db.execute(_of(project).where(table.c.name == name, table.c.archived.is_(False))).one_or_none()
    return None if row is None else _testset(row)


def listed(
    db: Connection, project: str, *, search: str | None = None, archived: bool = False, window: Window = START
) -> Page[TestSet]:
    """All of them, last changed first; archived ones too if they are asked for."""
    query = _of(project)
    if not archived:
        query = query.where(table.c.archived.is_(False))
    if search:
        query = query.where(table.c.folded.contains(search.casefold(), autoescape=True))
    filters, by = {"search": search, "archived": archived}, (table.c.updated_at, table.c.id)
    return page(db, query, _testset, project=project, by=by, window=window, filters=filters)


# Changing


def create(db: Connection, project: str, made: TestSet) -> None:
    """Keep a new one; its first revision is for the caller to add."""
    check_free(db, project, made.name)
    try:
        db.execute(insert(table).values(project=project, folded=made.name.casefold(), **msgspec.structs.asdict(made)))
    except IntegrityError:  # Another process was quicker.
        raise _taken(made.name) from None
    touch(db, Change(project, "testset", made.id))


def change(
    db: Connection, project: str, testset: str, *, at: datetime, check: Callable[[TestSet], None], **fields: Any
) -> TestSet:
    """Another name or description, archived or not; `check` may refuse to change what it is given."""
    found = locked(db, project, testset)
    check(found)
    changed = msgspec.structs.replace(found, **fields)
    if changed == found:
        return found
    if not changed.archived and (changed.name != found.name or found.archived):
        check_free(db, project, changed.name)
    try:
        _update(db, project, testset, folded=changed.name.casefold(), updated_at=at, **fields)
    except IntegrityError:
        raise _taken(changed.name) from None
    return msgspec.structs.replace(changed, updated_at=at)


def advance(
    db: Connection, project: str, testset: str, *, head: int, rows: int, columns: list[dict[str, Any]], at: datetime
) -> None:
    """It has a newer revision."""
    _update(db, project, testset, head=head, rows=rows, columns=columns, updated_at=at)


def forget(db: Connection, project: str, testset: str, *, check: Callable[[TestSet], None], at: datetime) -> Import:
    """Let go of a set for ever. What it was made of is to be swept after that, as what is given back."""
    check(locked(db, project, testset))
    db.execute(delete(table).where(*_is(project, testset)))
    file_uses.drop(db, project, [testset])
    of = testset_revisions.c
    db.execute(delete(testset_revisions).where(of.project == project, of.testset == testset))
    touch(db, Change(project, "testset", testset))
    return testset_imports.take_over(db, project, testset, at)


def check_free(db: Connection, project: str, name: str) -> None:
    """Raise if another one has the name."""
    if find(db, project, name) is not None:
        raise _taken(name)


def _taken(name: str) -> NameTaken:
    return NameTaken(f"A test set {name[:80]!r} is there already: take another name.", pointer="/name")


def _update(db: Connection, project: str, testset: str, **fields: Any) -> None:
    db.execute(update(table).where(*_is(project, testset)).values(**fields))
    touch(db, Change(project, "testset", testset))


# Rows


def _of(project: str) -> Select[Any]:
    return select(table).where(table.c.project == project)


def _is(project: str, testset: str) -> tuple[Any, Any]:
    return table.c.project == project, table.c.id == testset


def _testset(row: Row[Any]) -> TestSet:
    return TestSet(**{name: getattr(row, name) for name in TestSet.__struct_fields__})
