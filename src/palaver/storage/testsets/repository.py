"""Test sets and their revisions."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Select, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from palaver.errors import InvalidValue, NameTaken, NotFound
from palaver.storage import files
from palaver.storage.notifications import Change, mark_changed
from palaver.storage.pagination import FIRST_PAGE, Page, Window, fetch_page
from palaver.storage.schema import require_row, row_converter
from palaver.storage.testsets import imports, row_chunks
from palaver.storage.testsets.imports import ImportClaim
from palaver.storage.testsets.row_chunks import ChunkRef
from palaver.storage.testsets.tables import testset_revisions as revisions
from palaver.storage.testsets.tables import testsets as table


class TestSet(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    description: str = ""
    head: int = 1
    """The number of the newest revision."""
    rows: int = 0
    """Number of rows of the newest revision. The columns are also those of that revision."""
    columns: list[dict[str, Any]] = []
    archived: bool = False
    created_at: datetime
    updated_at: datetime


_row_to_testset = row_converter(TestSet)


# Queries


def get_testset(db: Connection, project: str, testset: str) -> TestSet:
    """Return a test set, archived or not. Raises NotFound."""
    return _row_to_testset(require_row(db, select(table), table, project, testset, "Test set"))


def lock_testset(db: Connection, project: str, testset: str) -> TestSet:
    """Return a test set, locked until the transaction ends."""
    return _row_to_testset(require_row(db, select(table).with_for_update(), table, project, testset, "Test set"))


def find_testset(db: Connection, project: str, name: str) -> TestSet | None:
    """Return the test set of that name, unless it is archived."""
    row = db.execute(_select_testsets(project).where(table.c.name == name, table.c.archived.is_(False))).one_or_none()
    return None if row is None else _row_to_testset(row)


def list_testsets(
    db: Connection, project: str, *, search: str | None = None, archived: bool = False, window: Window = FIRST_PAGE
) -> Page[TestSet]:
    """List test sets, last changed first."""
    query = _select_testsets(project)
    if not archived:
        query = query.where(table.c.archived.is_(False))
    if search:
        query = query.where(table.c.folded.contains(search.casefold(), autoescape=True))
    filters, by = {"search": search, "archived": archived}, (table.c.updated_at, table.c.id)
    return fetch_page(db, query, _row_to_testset, project=project, by=by, window=window, filters=filters)


# Changes


def create_testset(db: Connection, project: str, testset: TestSet) -> None:
    """Insert a test set; the caller adds its first revision."""
    check_name_free(db, project, testset.name)
    try:
        db.execute(
            insert(table).values(project=project, folded=testset.name.casefold(), **msgspec.structs.asdict(testset))
        )
    except IntegrityError:  # Created by another process in the meantime.
        raise _name_taken(testset.name) from None
    mark_changed(db, Change(project, "testset", testset.id))


def update_testset(
    db: Connection, project: str, testset: str, *, at: datetime, check: Callable[[TestSet], None], **fields: Any
) -> TestSet:
    """Change name, description or archived; `check` may raise to refuse."""
    current = lock_testset(db, project, testset)
    check(current)
    changed = msgspec.structs.replace(current, **fields)
    if changed == current:
        return current
    if not changed.archived and (changed.name != current.name or current.archived):
        check_name_free(db, project, changed.name)
    try:
        update_testset_row(db, project, testset, folded=changed.name.casefold(), updated_at=at, **fields)
    except IntegrityError:
        raise _name_taken(changed.name) from None
    return msgspec.structs.replace(changed, updated_at=at)


def delete_testset(
    db: Connection, project: str, testset: str, *, check: Callable[[TestSet], None], at: datetime
) -> ImportClaim:
    """Delete a test set. Returns the claim under which its rows have to be swept afterwards."""
    check(lock_testset(db, project, testset))
    db.execute(delete(table).where(*_testset_conditions(project, testset)))
    files.remove_references(db, project, [testset])
    db.execute(delete(revisions).where(revisions.c.project == project, revisions.c.testset == testset))
    mark_changed(db, Change(project, "testset", testset))
    return imports.claim_deleted_testset(db, project, testset, at)


def check_name_free(db: Connection, project: str, name: str) -> None:
    """Raise NameTaken if another test set has the name."""
    if find_testset(db, project, name) is not None:
        raise _name_taken(name)


def _name_taken(name: str) -> NameTaken:
    return NameTaken(f"The test set name {name[:80]!r} is already in use.", pointer="/name")


def update_testset_row(db: Connection, project: str, testset: str, **fields: Any) -> None:
    db.execute(update(table).where(*_testset_conditions(project, testset)).values(**fields))
    mark_changed(db, Change(project, "testset", testset))


# Database rows


def _select_testsets(project: str) -> Select[Any]:
    return select(table).where(table.c.project == project)


def _testset_conditions(project: str, testset: str) -> tuple[Any, Any]:
    return table.c.project == project, table.c.id == testset


_DIGEST_PREFIX_PATTERN = re.compile(r"(?:b2:)?([0-9a-f]{8,64})")
_REVISION_NUMBER_PATTERN = re.compile(r"[0-9]{1,9}")


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    testset: str
    number: int
    parent: int | None = None
    digest: str
    """The digest of its rows in order."""
    rows: int
    columns: list[dict[str, Any]]
    message: str = ""
    key: str | None = None
    """The id of the API key that created it."""
    created_at: datetime


_REVISION_COLUMNS = [revisions.c[name] for name in Revision.__struct_fields__]
"""All columns except the chunks, which are long."""
_row_to_revision = row_converter(Revision)


def get_revision(db: Connection, project: str, testset: str, name: str | int, head: int) -> Revision:
    """Return a revision by number, digest, prefix of a digest, or `head`. Raises NotFound or InvalidValue."""
    text = str(name)
    query = _select_revisions(project, testset)
    if text == "head":
        query = query.where(revisions.c.number == head)
    elif _REVISION_NUMBER_PATTERN.fullmatch(text) and len(text) < 8:
        query = query.where(revisions.c.number == int(text))
    elif (match := _DIGEST_PREFIX_PATTERN.fullmatch(text)) is not None:
        digest_prefix = f"b2:{match[1]}"
        query = query.where(revisions.c.digest >= digest_prefix, revisions.c.digest < f"{digest_prefix}g")
    else:
        raise _revision_not_found(text)
    # Several revisions may have the same rows: the latest one is meant.
    rows = db.execute(query.order_by(revisions.c.number.desc()).limit(2)).all()
    if not rows:
        raise _revision_not_found(text)
    if len({row.digest for row in rows}) > 1:
        raise InvalidValue(f"The revision {text[:80]!r} is ambiguous. Use a longer prefix.")
    return _row_to_revision(rows[0])


def list_revisions(db: Connection, project: str, testset: str, window: Window = FIRST_PAGE) -> Page[Revision]:
    """List revisions, newest first."""
    query = _select_revisions(project, testset)
    by = (revisions.c.number,)
    return fetch_page(db, query, _row_to_revision, project=project, by=by, window=window, filters={"testset": testset})


def list_chunks(db: Connection, project: str, testset: str, number: int) -> list[ChunkRef]:
    query = _select_revisions(project, testset).with_only_columns(revisions.c.pieces)
    return row_chunks.unpack_chunks(db.execute(query.where(revisions.c.number == number)).scalar_one())


def insert_revision(db: Connection, project: str, revision: Revision, chunks: Sequence[ChunkRef]) -> None:
    packed = row_chunks.pack_chunks(chunks)
    db.execute(insert(revisions).values(project=project, **msgspec.structs.asdict(revision), pieces=packed))


def _revision_not_found(name: str) -> NotFound:
    return NotFound(f"Revision {name[:80]!r} not found in this test set.")


def _select_revisions(project: str, testset: str) -> Select[Any]:
    return select(*_REVISION_COLUMNS).where(revisions.c.project == project, revisions.c.testset == testset)
