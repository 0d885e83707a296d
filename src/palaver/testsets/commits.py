"""Commit rows, a delta or an older revision as the next revision of a test set."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection

from palaver.core import json
from palaver.errors import InvalidValue, StaleBase
from palaver.storage.database import Database
from palaver.storage.testsets import imports as testset_imports
from palaver.storage.testsets import repository as testset_revisions
from palaver.storage.testsets import repository as testsets
from palaver.storage.testsets import rows as testset_pieces
from palaver.storage.testsets import rows as testset_rows
from palaver.storage.testsets.imports import ImportClaim, sweep_import
from palaver.storage.testsets.repository import Revision, TestSet
from palaver.storage.testsets.rows import ChunkRef, iter_entries, read_contents
from palaver.testsets import delta as deltas
from palaver.testsets.delta import ColumnChanges, Delta, change_columns
from palaver.testsets.limits import DEFAULT_LIMITS, TestsetLimits
from palaver.testsets.revision_builder import (
    NewId,
    RevisionBuilder,
    RevisionContent,
    RowIdMatcher,
    generate_row_id,
    join_pieces,
    read_entries,
    split_entries,
)
from palaver.testsets.rows import RowData, pack_row_id, row_hash
from palaver.testsets.scripts import check_scripts

BATCH_ROWS = 1_000
"""Rows that are brought at once."""


class StagedImport:
    """One import into one set; a second one meanwhile is refused."""

    def __init__(self, database: Database, project: str, testset: str, now: Callable[[], datetime]) -> None:
        self._database = database
        self._project = project
        self._testset = testset
        self._now = now
        self.own: ImportClaim

    async def __aenter__(self) -> "StagedImport":
        """Begin."""
        dead = await self._database.write(testset_imports.claim_dead_import, self._now(), self._testset)
        if dead is not None:
            await sweep_import(self._database, dead)
        self.own = await self._database.write(testset_imports.begin_import, self._project, self._testset, self._now())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Sweep what was brought, unless a revision has it now."""
        sweeping = asyncio.ensure_future(sweep_import(self._database, self.own))
        await asyncio.shield(sweeping)  # Whoever waits may be gone: that is no reason to leave it.

    async def put(self, contents: Mapping[bytes, bytes], metas: Mapping[bytes, Any]) -> None:
        """Bring some more."""
        await self._database.write(_put, self.own, contents, metas, self._now())


def _put(
    db: Connection, own: ImportClaim, contents: Mapping[bytes, bytes], metas: Mapping[bytes, Any], at: datetime
) -> None:
    testset_imports.keep_import_alive(db, own, at)
    testset_rows.insert_contents(db, own.project, own.testset, contents, added=own.number)
    testset_rows.insert_metas(db, own.project, own.testset, metas, added=own.number)


_COLUMNS_POINTER = "/delta/columns"
NewHashes = Mapping[bytes, bytes]
"""By the hash that a content had, the one that it has with changed columns."""


async def stage_column_changes(
    database: Database,
    staging: StagedImport,
    project: str,
    testset: str,
    base: int,
    changes: ColumnChanges,
    limits: TestsetLimits,
) -> NewHashes:
    """Bring in what all rows of a revision hold once their columns have changed."""
    entries = await database.read(read_entries, project, testset, base)
    every = list(dict.fromkeys(hashed for _, hashed in iter_entries(entries)))
    rehashed: dict[bytes, bytes] = {}
    for start in range(0, len(every), BATCH_ROWS):
        kept = await database.read(read_contents, project, testset, every[start : start + BATCH_ROWS])
        some, new = change_contents(kept.items(), changes, limits)
        rehashed |= some
        await staging.put(new, {})
    return rehashed


def change_contents(
    kept: Iterable[tuple[bytes, bytes]], changes: ColumnChanges, limits: TestsetLimits
) -> tuple[dict[bytes, bytes], dict[bytes, bytes]]:
    """The new hash of each content, and the contents by that."""
    rehashed: dict[bytes, bytes] = {}
    new: dict[bytes, bytes] = {}
    for old, raw in kept:
        data = change_columns(msgspec.json.decode(raw), changes)
        written = json.encode(data)
        limits.check_row(len(written), _COLUMNS_POINTER)
        if changes.fill:
            check_scripts(data, _COLUMNS_POINTER)
        rehashed[old] = row_hash(data)
        new[rehashed[old]] = written
    return rehashed, new


_decode = msgspec.json.Decoder().decode


class SubmittedRow(NamedTuple):
    """A row that is sent; without an id, it takes the one of a row with the same data."""

    data: RowData
    id: str | None = None


class CommitInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Who wrote a revision, when, and what they say of it."""

    message: str = ""
    key: str | None = None
    at: datetime


class PreparedCommit(msgspec.Struct, frozen=True, kw_only=True):
    """A commit, ready to be made."""

    base: int | None
    """None: the set is new."""
    gathered: RevisionContent
    contents: Mapping[bytes, bytes] = {}
    metas: Mapping[bytes, Any] = {}
    brought_by: ImportClaim | None = None
    """The import that has brought further contents already."""
    added: Sequence[bytes] = ()
    """The ids of new rows, packed, where a delta adds some."""


# Preparing


def require_base(db: Connection, project: str, testset: str, base: int) -> TestSet:
    """The set, if that is its newest revision."""
    found = testsets.get_testset(db, project, testset)
    _check_base(found, base)
    return found


def prepare_rows(
    db: Connection,
    project: str,
    testset: str | None,
    given: Sequence[SubmittedRow],
    *,
    base: int | None = None,
    limits: TestsetLimits = DEFAULT_LIMITS,
    new: NewId = generate_row_id,
) -> PreparedCommit:
    """All rows of the next revision, or of a new set."""
    limits.check_rows(len(given))
    claimed = _claimed_ids(given)
    before = b""
    if testset is not None and base is not None:
        require_base(db, project, testset, base)
        before = read_entries(db, project, testset, base)
    contents: dict[bytes, bytes] = {}
    hashes: list[bytes] = []
    for place, row in enumerate(given):
        hashed, contents[hashed] = encode_row(row.data, f"/rows/{place}/data", limits)
        hashes.append(hashed)
    same = (pair for pair in testset_pieces.iter_entries(before) if pair[1] in contents)  # Others are nobody's here.
    ids = RowIdMatcher(same, new_id=new, claimed=set(claimed.values()))
    gathering = RevisionBuilder(limits)
    for place, (row, hashed) in enumerate(zip(given, hashes, strict=True)):
        gathering.add(claimed[place] if place in claimed else ids.of(hashed), hashed, row.data)
    gathered = join_pieces(db, project, testset or "", [], gathering.done(), limits)
    return PreparedCommit(base=base, gathered=gathered, contents=contents)


def check_delta(db: Connection, project: str, testset: str, changes: Delta, *, base: int) -> TestSet:
    """The set, if that can be applied to its newest revision."""
    found = require_base(db, project, testset, base)
    before = testset_pieces.iter_entries(read_entries(db, project, testset, base))
    deltas.validate_delta(list(before), changes, [column["name"] for column in found.columns])
    return found


def prepare_delta(
    db: Connection,
    project: str,
    testset: str,
    changes: Delta,
    *,
    base: int,
    limits: TestsetLimits = DEFAULT_LIMITS,
    new: NewId = generate_row_id,
    rehashed: NewHashes | None = None,
    brought_by: ImportClaim | None = None,
) -> PreparedCommit:
    """What a delta makes of the newest revision.

    Where columns change, every row does. Of a large set, what rows hold then is brought in before, and told here.
    """
    found = require_base(db, project, testset, base)
    before = list(testset_pieces.iter_entries(read_entries(db, project, testset, base)))
    deltas.validate_delta(before, changes, [column["name"] for column in found.columns])
    contents = _encode_delta_rows(changes, limits)
    if changes.changes_columns and rehashed is None:
        every = testset_rows.read_contents(db, project, testset, [hashed for _, hashed in before])
        rehashed, all_new = change_contents(every.items(), changes.columns, limits)
        contents |= all_new
    touched = testset_rows.read_contents(db, project, testset, deltas.touched_hashes(before, changes))
    kept = {hashed: _decode(data) for hashed, data in touched.items()}
    applied = deltas.apply_delta(before, changes, contents=kept, new_id=new, rehashed=rehashed)
    for hashed, data in applied.contents.items():  # What was not checked yet was patched.
        if hashed not in contents:
            _, contents[hashed] = encode_row(data, "/delta/patch", limits)
    entries = b"".join(row + hashed for row, hashed in applied.rows)
    gathered = split_entries(db, project, testset, entries, contents, limits)
    return PreparedCommit(base=base, gathered=gathered, contents=contents, brought_by=brought_by, added=applied.added)


def prepare_restore(db: Connection, project: str, testset: str, named: str | int, *, base: int) -> PreparedCommit:
    """An older revision, to be the newest again."""
    found = require_base(db, project, testset, base)
    older = testset_revisions.get_revision(db, project, testset, named, found.head)
    places: list[ChunkRef] = testset_revisions.list_chunks(db, project, testset, older.number)
    gathered = RevisionContent(digest=older.digest, rows=older.rows, columns=older.columns, places=places, pieces=[])
    return PreparedCommit(base=base, gathered=gathered)


def encode_row(data: RowData, pointer: str, limits: TestsetLimits) -> tuple[bytes, bytes]:
    """The hash of a row's data and the data as it is kept; or what is wrong with it."""
    kept = json.encode(data)
    limits.check_row(len(kept), pointer)
    check_scripts(data, pointer)
    return row_hash(data), kept


def _encode_delta_rows(changes: Delta, limits: TestsetLimits) -> dict[bytes, bytes]:
    """The data that a delta brings along as a whole, as it is kept, by hash."""
    brought = {f"/delta/replace/{place}/data": row.data for place, row in enumerate(changes.replace)}
    brought |= {f"/delta/add/{place}/data": row.data for place, row in enumerate(changes.add)}
    return dict(encode_row(data, pointer, limits) for pointer, data in brought.items())


def _claimed_ids(given: Sequence[SubmittedRow]) -> dict[int, bytes]:
    """The ids that rows bring along, by place."""
    claimed: dict[int, bytes] = {}
    seen: set[bytes] = set()
    for place, row in enumerate(given):
        if row.id is None:
            continue
        try:
            packed = pack_row_id(row.id)
        except ValueError as error:
            raise InvalidValue(f"{error}.".capitalize(), pointer=f"/rows/{place}/id") from None
        if packed in seen:
            raise InvalidValue(f"The row {row.id} is there twice.", pointer=f"/rows/{place}/id")
        seen.add(packed)
        claimed[place] = packed
    return claimed


def _check_base(testset: TestSet, base: int | None) -> None:
    if base != testset.head:
        told = f"The newest revision of {testset.name!r} is {testset.head}, not {base}: look at it first."
        raise StaleBase(told, details={"head": testset.head})


# Committing


def create_testset(
    db: Connection, project: str, testset: TestSet, prepared: PreparedCommit, written: CommitInfo
) -> Revision:
    """A new set, with its first revision."""
    gathered = prepared.gathered
    made = msgspec.structs.replace(testset, head=1, rows=gathered.rows, columns=gathered.columns)
    testsets.create_testset(db, project, made)
    return _add_revision(db, project, testset.id, 1, prepared, written)


def commit(
    db: Connection, project: str, testset: str, prepared: PreparedCommit, written: CommitInfo
) -> tuple[Revision, bool]:
    """The next revision; or the newest one and False, if it has the same rows."""
    found = testsets.lock_testset(db, project, testset)
    _check_base(found, prepared.base)
    head = testset_revisions.get_revision(db, project, testset, "head", found.head)
    if head.digest == prepared.gathered.digest:
        return head, False
    made = _add_revision(db, project, testset, found.head + 1, prepared, written)
    testsets.advance_head(db, project, testset, head=made.number, rows=made.rows, columns=made.columns, at=written.at)
    return made, True


def _add_revision(
    db: Connection, project: str, testset: str, number: int, prepared: PreparedCommit, written: CommitInfo
) -> Revision:
    if prepared.brought_by is not None:
        testset_imports.keep_import_alive(db, prepared.brought_by, written.at)
        testset_imports.end_import(db, prepared.brought_by)
    gathered = prepared.gathered
    testset_rows.insert_contents(db, project, testset, prepared.contents)
    testset_rows.insert_metas(db, project, testset, prepared.metas)
    testset_pieces.insert_chunks(db, project, testset, gathered.pieces)
    made = Revision(
        testset=testset,
        number=number,
        parent=number - 1 or None,
        digest=gathered.digest,
        rows=gathered.rows,
        columns=gathered.columns,
        message=written.message,
        key=written.key,
        created_at=written.at,
    )
    testset_revisions.insert_revision(db, project, made, gathered.places)
    return made
