"""Test sets as planning wants them: a revision's columns and its rows, out of the database."""

from sqlalchemy import Connection

from palaver.errors import InvalidValue
from palaver.evaluation.planning.plans import WantedRows, WantedTestset
from palaver.evaluation.planning.requests import Revision
from palaver.storage.database import Database
from palaver.storage.testsets import repository as testset_revisions
from palaver.storage.testsets import repository as testsets
from palaver.storage.testsets import rows as testset_pieces
from palaver.testsets import row_pages
from palaver.testsets.row_filter import RowFilter, parse_row_filter
from palaver.testsets.rows import pack_row_id

_AT_ONCE = 1_000
"""Rows that are looked at in one go, so that others who read are not kept waiting."""


class StoredSets:
    """Finds them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def revision(self, project: str, wanted: WantedTestset) -> Revision:
        """The revision that is meant; NotFound where there is none."""
        return await self._database.read(_revision, project, wanted)

    async def rows(self, project: str, revision: Revision, wanted: WantedRows | None) -> bytes:
        """Its rows that pass the filter, in order, each as 16 bytes of its id and 16 of its hash."""
        if wanted is None or wanted.filter is None:
            return await self._database.read(_rows, project, revision.testset, revision.number)
        cells = _read(wanted.filter)
        found: list[bytes] = []
        start: int | None = 0
        while start is not None:
            some, start = await self._database.read(_fitting, project, revision, RowFilter(cells=cells), start)
            found += some
        return b"".join(found)


def _revision(db: Connection, project: str, wanted: WantedTestset) -> Revision:
    testset = testsets.get_testset(db, project, wanted.id)
    found = testset_revisions.get_revision(db, project, testset.id, wanted.revision, testset.head)
    kinds = {column["name"]: column["kind"] for column in found.columns}
    gaps = frozenset(column["name"] for column in found.columns if column["missing"] + column["nulls"] > 0)
    return Revision(
        testset=testset.id, name=testset.name, number=found.number, digest=found.digest, kinds=kinds, gaps=gaps
    )


def _rows(db: Connection, project: str, testset: str, number: int) -> bytes:
    places = testset_revisions.list_chunks(db, project, testset, number)
    pieces = testset_pieces.read_chunks(db, project, testset, [place.digest for place in places])
    return b"".join(pieces[place.digest] for place in places)


def _fitting(
    db: Connection, project: str, revision: Revision, wanted: RowFilter, start: int
) -> tuple[list[bytes], int | None]:
    """Those of the next rows that fit, and where to go on; None at the end."""
    kept = testset_revisions.get_revision(db, project, revision.testset, revision.number, revision.number)
    rows = row_pages.read_rows(db, project, kept, start, _AT_ONCE)
    fitting = [pack_row_id(row.id) + row.hash for row in rows if wanted.fits(row.raw)]
    return fitting, rows[-1].place + 1 if len(rows) == _AT_ONCE else None


def _read(given: str | dict[str, object]) -> dict[str, object]:
    if not isinstance(given, str):
        return given
    try:
        return dict(parse_row_filter(given))
    except InvalidValue as error:
        raise InvalidValue(error.message, pointer="/testset/rows/filter") from None
