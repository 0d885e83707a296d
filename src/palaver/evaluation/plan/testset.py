"""Resolve the test set revision of a request and select its rows."""

import hashlib
from heapq import nsmallest
from typing import Protocol

import msgspec
from sqlalchemy import Connection

from palaver.errors import InvalidValue
from palaver.evaluation.plan.column_map import ColumnKinds
from palaver.evaluation.plan.plan import ROW_BYTES
from palaver.evaluation.plan.request import RowSelection, TestsetInput
from palaver.storage.database import Database
from palaver.storage.testsets import repository as testsets
from palaver.storage.testsets import row_chunks
from palaver.testsets import row_pages
from palaver.testsets.row_pages import RowFilter, parse_row_filter
from palaver.testsets.rows import pack_row_id

_ID_BYTES = 16


def select_rows(rows: bytes, selection: RowSelection | None) -> bytes:
    """Select rows by id, sample and limit. `rows` are packed, in order, and already filtered."""
    if selection is None:
        return rows
    if selection.ids is not None:
        rows = _select_by_id(rows, selection.ids)
    if selection.sample is not None:
        rows = _sample_rows(rows, selection.sample, selection.seed)
    return rows if selection.limit is None else rows[: selection.limit * ROW_BYTES]


def _select_by_id(rows: bytes, ids: tuple[str, ...]) -> bytes:
    offsets = {rows[offset : offset + _ID_BYTES]: offset for offset in range(0, len(rows), ROW_BYTES)}
    selected: set[int] = set()
    for index, row_id in enumerate(ids):
        try:
            offset = offsets.get(pack_row_id(row_id))
        except ValueError:
            offset = None
        if offset is None:
            raise InvalidValue(f"Row {row_id[:80]!r} not found in the revision.", pointer=f"/testset/rows/ids/{index}")
        selected.add(offset)
    return b"".join(rows[offset : offset + ROW_BYTES] for offset in sorted(selected))


def _sample_rows(rows: bytes, count: int, seed: int) -> bytes:
    """Select the rows whose hashed ids sort first. A row keeps its rank when other rows are added or removed.

    So two revisions of one set share most of a sample, and can be compared row by row.
    """
    key = seed.to_bytes(8)

    def rank(offset: int) -> bytes:
        return hashlib.blake2b(rows[offset : offset + _ID_BYTES], key=key, digest_size=8).digest()

    offsets = range(0, len(rows), ROW_BYTES)
    sample = offsets if count >= len(offsets) else sorted(nsmallest(count, offsets, key=rank))
    return b"".join(rows[offset : offset + ROW_BYTES] for offset in sample)


class RevisionSummary(msgspec.Struct, frozen=True, kw_only=True):
    testset: str
    name: str
    number: int
    digest: str
    kinds: ColumnKinds
    gaps: frozenset[str] = frozenset()
    """Columns that are missing or null in some rows."""


class RevisionSource(Protocol):
    async def revision(self, project: str, request: TestsetInput) -> RevisionSummary:
        """The requested revision. Raises NotFound."""
        ...

    async def rows(self, project: str, revision: RevisionSummary, selection: RowSelection | None) -> bytes:
        """The packed rows that match the filter, in order."""
        ...


_ROW_BATCH = 1_000
"""Rows filtered in one read, so that other readers are not blocked."""


class StoredTestsets:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def revision(self, project: str, request: TestsetInput) -> RevisionSummary:
        return await self._database.read(_read_revision, project, request)

    async def rows(self, project: str, revision: RevisionSummary, selection: RowSelection | None) -> bytes:
        if selection is None or selection.filter is None:
            return await self._database.read(_read_all_rows, project, revision.testset, revision.number)
        cells = _parse_filter(selection.filter)
        matching: list[bytes] = []
        start: int | None = 0
        while start is not None:
            batch, start = await self._database.read(
                _read_matching_rows, project, revision, RowFilter(cells=cells), start
            )
            matching += batch
        return b"".join(matching)


def _read_revision(db: Connection, project: str, request: TestsetInput) -> RevisionSummary:
    testset = testsets.get_testset(db, project, request.id)
    revision = testsets.get_revision(db, project, testset.id, request.revision, testset.head)
    kinds = {column["name"]: column["kind"] for column in revision.columns}
    gaps = frozenset(column["name"] for column in revision.columns if column["missing"] + column["nulls"] > 0)
    return RevisionSummary(
        testset=testset.id, name=testset.name, number=revision.number, digest=revision.digest, kinds=kinds, gaps=gaps
    )


def _read_all_rows(db: Connection, project: str, testset: str, number: int) -> bytes:
    chunks = testsets.list_chunks(db, project, testset, number)
    contents = row_chunks.read_chunks(db, project, testset, [chunk.digest for chunk in chunks])
    return b"".join(contents[chunk.digest] for chunk in chunks)


def _read_matching_rows(
    db: Connection, project: str, revision: RevisionSummary, row_filter: RowFilter, start: int
) -> tuple[list[bytes], int | None]:
    """Matching rows of the next batch, and where to continue; None at the end."""
    stored = testsets.get_revision(db, project, revision.testset, revision.number, revision.number)
    rows = row_pages.read_rows(db, project, stored, start, _ROW_BATCH)
    matching = [pack_row_id(row.id) + row.hash for row in rows if row_filter.matches(row.raw)]
    return matching, rows[-1].position + 1 if len(rows) == _ROW_BATCH else None


def _parse_filter(document: str | dict[str, object]) -> dict[str, object]:
    if not isinstance(document, str):
        return document
    try:
        return dict(parse_row_filter(document))
    except InvalidValue as error:
        raise InvalidValue(error.message, pointer="/testset/rows/filter") from None
