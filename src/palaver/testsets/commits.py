"""Commit rows, a delta or an older revision as the next revision of a test set.

A commit is prepared in a read, without blocking other writers. The transaction that follows only checks that the base
is still the latest revision, and inserts new rows and chunks. Large contents are staged beforehand, a batch at a time:
they are invisible until the commit, and swept if it never comes.
"""

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
from palaver.storage.testsets import imports, row_chunks
from palaver.storage.testsets import repository as testsets
from palaver.storage.testsets import rows as testset_rows
from palaver.storage.testsets.imports import ImportClaim, sweep_import
from palaver.storage.testsets.repository import Revision, TestSet
from palaver.storage.testsets.row_chunks import ChunkRef, iter_entries
from palaver.storage.testsets.rows import read_contents
from palaver.testsets import delta as deltas
from palaver.testsets.delta import ColumnChanges, Delta, change_columns
from palaver.testsets.limits import DEFAULT_LIMITS, TestsetLimits
from palaver.testsets.revision_builder import (
    NewId,
    RevisionBuilder,
    RevisionContent,
    RowIdMatcher,
    generate_row_id,
    join_chunks,
    read_entries,
    split_entries,
)
from palaver.testsets.rows import RowData, pack_row_id, row_hash
from palaver.testsets.scripts import check_scripts

BATCH_ROWS = 1_000
"""Rows that are staged in one transaction."""


class StagedImport:
    """Stages row contents for one test set. A second import into the same set is refused meanwhile."""

    def __init__(self, database: Database, project: str, testset: str, now: Callable[[], datetime]) -> None:
        self._database = database
        self._project = project
        self._testset = testset
        self._now = now
        self.claim: ImportClaim

    async def __aenter__(self) -> "StagedImport":
        dead_import = await self._database.write(imports.claim_dead_import, self._now(), self._testset)
        if dead_import is not None:
            await sweep_import(self._database, dead_import)
        self.claim = await self._database.write(imports.begin_import, self._project, self._testset, self._now())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Sweep staged contents that no revision uses."""
        sweep = asyncio.ensure_future(sweep_import(self._database, self.claim))
        await asyncio.shield(sweep)  # Sweep also when the caller was cancelled.

    async def put(self, contents: Mapping[bytes, bytes], metas: Mapping[bytes, Any]) -> None:
        await self._database.write(_insert_staged, self.claim, contents, metas, self._now())


def _insert_staged(
    db: Connection, claim: ImportClaim, contents: Mapping[bytes, bytes], metas: Mapping[bytes, Any], now: datetime
) -> None:
    imports.keep_import_alive(db, claim, now)
    testset_rows.insert_contents(db, claim.project, claim.testset, contents, added=claim.number)
    testset_rows.insert_metas(db, claim.project, claim.testset, metas, added=claim.number)


_COLUMNS_POINTER = "/delta/columns"
NewHashes = Mapping[bytes, bytes]
"""The hash of a row's content after the column changes, by its hash before."""


async def stage_column_changes(
    database: Database,
    staging: StagedImport,
    project: str,
    testset: str,
    base: int,
    changes: ColumnChanges,
    limits: TestsetLimits,
) -> NewHashes:
    entries = await database.read(read_entries, project, testset, base)
    hashes = list(dict.fromkeys(content_hash for _, content_hash in iter_entries(entries)))
    rehashed: dict[bytes, bytes] = {}
    for start in range(0, len(hashes), BATCH_ROWS):
        stored_contents = await database.read(read_contents, project, testset, hashes[start : start + BATCH_ROWS])
        new_hashes, new_contents = change_contents(stored_contents.items(), changes, limits)
        rehashed |= new_hashes
        await staging.put(new_contents, {})
    return rehashed


def change_contents(
    stored_contents: Iterable[tuple[bytes, bytes]], changes: ColumnChanges, limits: TestsetLimits
) -> tuple[dict[bytes, bytes], dict[bytes, bytes]]:
    """Return the new hash by old hash, and the new contents by hash."""
    rehashed: dict[bytes, bytes] = {}
    new_contents: dict[bytes, bytes] = {}
    for old_hash, raw in stored_contents:
        data = change_columns(msgspec.json.decode(raw), changes)
        encoded = json.encode(data)
        limits.check_row(len(encoded), _COLUMNS_POINTER)
        if changes.fill:
            check_scripts(data, _COLUMNS_POINTER)
        rehashed[old_hash] = row_hash(data)
        new_contents[rehashed[old_hash]] = encoded
    return rehashed, new_contents


_decode = msgspec.json.Decoder().decode


class SubmittedRow(NamedTuple):
    """A row sent by a client. Without an id it takes the id of a row with the same data."""

    data: RowData
    id: str | None = None


class CommitInfo(msgspec.Struct, frozen=True, kw_only=True):
    message: str = ""
    key: str | None = None
    at: datetime


class PreparedCommit(msgspec.Struct, frozen=True, kw_only=True):
    base: int | None
    """None for a new set."""
    revision: RevisionContent
    contents: Mapping[bytes, bytes] = {}
    metas: Mapping[bytes, Any] = {}
    staged_by: ImportClaim | None = None
    """The import that has staged further contents."""
    added: Sequence[bytes] = ()
    """Packed ids of the rows that a delta adds, in its order."""


# Prepare


def require_base(db: Connection, project: str, testset: str, base: int) -> TestSet:
    """Return the test set; raise StaleBase unless `base` is its latest revision."""
    current = testsets.get_testset(db, project, testset)
    _check_base(current, base)
    return current


def prepare_rows(
    db: Connection,
    project: str,
    testset: str | None,
    submitted: Sequence[SubmittedRow],
    *,
    base: int | None = None,
    limits: TestsetLimits = DEFAULT_LIMITS,
    new_id: NewId = generate_row_id,
) -> PreparedCommit:
    """Prepare all rows of the next revision, or of a new set."""
    limits.check_rows(len(submitted))
    claimed = _claimed_ids(submitted)
    base_entries = b""
    if testset is not None and base is not None:
        require_base(db, project, testset, base)
        base_entries = read_entries(db, project, testset, base)
    contents: dict[bytes, bytes] = {}
    hashes: list[bytes] = []
    for index, row in enumerate(submitted):
        content_hash, contents[content_hash] = encode_row(row.data, f"/rows/{index}/data", limits)
        hashes.append(content_hash)
    unchanged = (pair for pair in row_chunks.iter_entries(base_entries) if pair[1] in contents)
    ids = RowIdMatcher(unchanged, new_id=new_id, claimed=set(claimed.values()))
    builder = RevisionBuilder(limits)
    for index, (row, content_hash) in enumerate(zip(submitted, hashes, strict=True)):
        builder.add(claimed[index] if index in claimed else ids.id_for(content_hash), content_hash, row.data)
    content = join_chunks(db, project, testset or "", [], builder.finish(), limits)
    return PreparedCommit(base=base, revision=content, contents=contents)


def check_delta(db: Connection, project: str, testset: str, changes: Delta, *, base: int) -> TestSet:
    """Return the test set; raise unless the delta applies to its latest revision."""
    current = require_base(db, project, testset, base)
    base_entries = row_chunks.iter_entries(read_entries(db, project, testset, base))
    deltas.validate_delta(list(base_entries), changes, [column["name"] for column in current.columns])
    return current


def prepare_delta(
    db: Connection,
    project: str,
    testset: str,
    changes: Delta,
    *,
    base: int,
    limits: TestsetLimits = DEFAULT_LIMITS,
    new_id: NewId = generate_row_id,
    rehashed: NewHashes | None = None,
    staged_by: ImportClaim | None = None,
) -> PreparedCommit:
    """Prepare the latest revision with a delta applied.

    Column changes touch every row. For a large set their contents are staged before, and `rehashed` maps the old
    hashes to the new ones.
    """
    current = require_base(db, project, testset, base)
    base_entries = list(row_chunks.iter_entries(read_entries(db, project, testset, base)))
    deltas.validate_delta(base_entries, changes, [column["name"] for column in current.columns])
    contents = _encode_delta_rows(changes, limits)
    if changes.changes_columns and rehashed is None:
        base_contents = testset_rows.read_contents(db, project, testset, [item for _, item in base_entries])
        rehashed, new_contents = change_contents(base_contents.items(), changes.columns, limits)
        contents |= new_contents
    touched = testset_rows.read_contents(db, project, testset, deltas.touched_hashes(base_entries, changes))
    decoded = {content_hash: _decode(data) for content_hash, data in touched.items()}
    applied = deltas.apply_delta(base_entries, changes, contents=decoded, new_id=new_id, rehashed=rehashed)
    for content_hash, data in applied.contents.items():  # Patched rows were not validated yet.
        if content_hash not in contents:
            _, contents[content_hash] = encode_row(data, "/delta/patch", limits)
    entries = b"".join(row + content_hash for row, content_hash in applied.rows)
    content = split_entries(db, project, testset, entries, contents, limits)
    return PreparedCommit(base=base, revision=content, contents=contents, staged_by=staged_by, added=applied.added)


def prepare_restore(db: Connection, project: str, testset: str, name: str | int, *, base: int) -> PreparedCommit:
    """Prepare an older revision as the latest one."""
    current = require_base(db, project, testset, base)
    older = testsets.get_revision(db, project, testset, name, current.head)
    chunk_refs: list[ChunkRef] = testsets.list_chunks(db, project, testset, older.number)
    content = RevisionContent(
        digest=older.digest, rows=older.rows, columns=older.columns, chunk_refs=chunk_refs, new_chunks=[]
    )
    return PreparedCommit(base=base, revision=content)


def encode_row(data: RowData, pointer: str, limits: TestsetLimits) -> tuple[bytes, bytes]:
    """Validate a row; return its hash and its encoded data."""
    encoded = json.encode(data)
    limits.check_row(len(encoded), pointer)
    check_scripts(data, pointer)
    return row_hash(data), encoded


def _encode_delta_rows(changes: Delta, limits: TestsetLimits) -> dict[bytes, bytes]:
    """Validate the replaced and added rows of a delta; returns encoded data by hash."""
    rows = {f"/delta/replace/{index}/data": row.data for index, row in enumerate(changes.replace)}
    rows |= {f"/delta/add/{index}/data": row.data for index, row in enumerate(changes.add)}
    return dict(encode_row(data, pointer, limits) for pointer, data in rows.items())


def _claimed_ids(submitted: Sequence[SubmittedRow]) -> dict[int, bytes]:
    """Return the ids that submitted rows have, by position."""
    claimed: dict[int, bytes] = {}
    packed_ids: set[bytes] = set()
    for index, row in enumerate(submitted):
        if row.id is None:
            continue
        try:
            packed = pack_row_id(row.id)
        except ValueError as error:
            raise InvalidValue(f"{error}.", pointer=f"/rows/{index}/id") from None
        if packed in packed_ids:
            raise InvalidValue(f"Duplicate row id {row.id!r}.", pointer=f"/rows/{index}/id")
        packed_ids.add(packed)
        claimed[index] = packed
    return claimed


def _check_base(testset: TestSet, base: int | None) -> None:
    if base != testset.head:
        message = f"The latest revision of {testset.name!r} is {testset.head}, not {base}. Review it and retry."
        raise StaleBase(message, details={"head": testset.head})


# Commit


def create_testset(
    db: Connection, project: str, testset: TestSet, prepared: PreparedCommit, info: CommitInfo
) -> Revision:
    content = prepared.revision
    new_testset = msgspec.structs.replace(testset, head=1, rows=content.rows, columns=content.columns)
    testsets.create_testset(db, project, new_testset)
    return _add_revision(db, project, testset.id, 1, prepared, info)


def commit(
    db: Connection, project: str, testset: str, prepared: PreparedCommit, info: CommitInfo
) -> tuple[Revision, bool]:
    """Add the next revision; return it and True. If the rows are the same, return the latest one and False."""
    current = testsets.lock_testset(db, project, testset)
    _check_base(current, prepared.base)
    head = testsets.get_revision(db, project, testset, "head", current.head)
    if head.digest == prepared.revision.digest:
        return head, False
    revision = _add_revision(db, project, testset, current.head + 1, prepared, info)
    values = {"head": revision.number, "rows": revision.rows, "columns": revision.columns, "updated_at": info.at}
    testsets.update_testset_row(db, project, testset, **values)
    return revision, True


def _add_revision(
    db: Connection, project: str, testset: str, number: int, prepared: PreparedCommit, info: CommitInfo
) -> Revision:
    if prepared.staged_by is not None:
        imports.keep_import_alive(db, prepared.staged_by, info.at)
        imports.end_import(db, prepared.staged_by)
    content = prepared.revision
    testset_rows.insert_contents(db, project, testset, prepared.contents)
    testset_rows.insert_metas(db, project, testset, prepared.metas)
    row_chunks.insert_chunks(db, project, testset, content.new_chunks)
    revision = Revision(
        testset=testset,
        number=number,
        parent=number - 1 or None,
        digest=content.digest,
        rows=content.rows,
        columns=content.columns,
        message=info.message,
        key=info.key,
        created_at=info.at,
    )
    testsets.insert_revision(db, project, revision, content.chunk_refs)
    return revision
