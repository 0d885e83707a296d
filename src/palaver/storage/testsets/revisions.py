"""The revisions of a test set: they are added to, never changed."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Select, insert, select

from palaver.errors import InvalidValue, NotFound
from palaver.storage.pages import START, Page, Window, page
from palaver.storage.testsets import pieces as testset_pieces
from palaver.storage.testsets.pieces import Place
from palaver.storage.testsets.tables import testset_revisions as revisions

_PREFIX = re.compile(r"(?:b2:)?([0-9a-f]{8,64})")
_NUMBER = re.compile(r"[0-9]{1,9}")


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """What a set was at some time, but for its rows."""

    testset: str
    number: int
    parent: int | None = None
    digest: str
    """Made of its rows, in their order."""
    rows: int
    columns: list[dict[str, Any]]
    message: str = ""
    key: str | None = None
    """The id of the key that it was made with."""
    created_at: datetime


_FIELDS = [revisions.c[name] for name in Revision.__struct_fields__]
"""All but its pieces, which are long."""


def get(db: Connection, project: str, testset: str, named: str | int, head: int) -> Revision:
    """The one of that number, that digest, or the beginning of one; `head` is the newest."""
    asked = str(named)
    query = _of(project, testset)
    if asked == "head":
        query = query.where(revisions.c.number == head)
    elif _NUMBER.fullmatch(asked) and len(asked) < 8:
        query = query.where(revisions.c.number == int(asked))
    elif (found := _PREFIX.fullmatch(asked)) is not None:
        first = f"b2:{found[1]}"
        query = query.where(revisions.c.digest >= first, revisions.c.digest < f"{first}g")
    else:
        raise _missing(asked)
    # The same rows may have been the newest more than once: then the latest of those is meant.
    rows = db.execute(query.order_by(revisions.c.number.desc()).limit(2)).all()
    if not rows:
        raise _missing(asked)
    if len({row.digest for row in rows}) > 1:
        raise InvalidValue(f"Several revisions begin with {asked[:80]!r}: give more of it.")
    return _revision(rows[0])


def listed(db: Connection, project: str, testset: str, window: Window = START) -> Page[Revision]:
    """All of them, newest first."""
    query = _of(project, testset)
    by = (revisions.c.number,)
    return page(db, query, _revision, project=project, by=by, window=window, filters={"testset": testset})


def places(db: Connection, project: str, testset: str, number: int) -> list[Place]:
    """The pieces that one is made of."""
    asked = select(revisions.c.pieces).where(*_is(project, testset, number))
    return testset_pieces.unpack(db.execute(asked).scalar_one())


def add(db: Connection, project: str, revision: Revision, pieces: Sequence[Place]) -> None:
    """Keep one."""
    packed = testset_pieces.pack(pieces)
    db.execute(insert(revisions).values(project=project, **msgspec.structs.asdict(revision), pieces=packed))


def _missing(named: str) -> NotFound:
    return NotFound(f"The test set has no revision {named[:80]!r}.")


def _of(project: str, testset: str) -> Select[Any]:
    return select(*_FIELDS).where(revisions.c.project == project, revisions.c.testset == testset)


def _is(project: str, testset: str, number: int) -> tuple[Any, Any, Any]:
    return revisions.c.project == project, revisions.c.testset == testset, revisions.c.number == number


def _revision(row: Row[Any]) -> Revision:
    return Revision(**{name: getattr(row, name) for name in Revision.__struct_fields__})
