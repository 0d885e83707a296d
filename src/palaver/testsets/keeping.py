"""Commits: all rows, a delta, or an older revision again; each makes the next revision of a set, or none at all.

What a commit needs is read and computed first, beside others who write; the transaction that follows only checks that
nobody was quicker, and adds what is new. Nothing that is there is ever changed.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection

from palaver.core import jsons
from palaver.errors import InvalidValue, StaleBase
from palaver.storage.testsets import imports as testset_imports
from palaver.storage.testsets import keeping as testsets
from palaver.storage.testsets import pieces as testset_pieces
from palaver.storage.testsets import revisions as testset_revisions
from palaver.storage.testsets import rows as testset_rows
from palaver.storage.testsets.imports import Import
from palaver.storage.testsets.keeping import TestSet
from palaver.storage.testsets.pieces import Place
from palaver.storage.testsets.revisions import Revision
from palaver.testsets import delta as deltas
from palaver.testsets.delta import Delta
from palaver.testsets.gathering import Gathered, Gathering, NewId, cut_anew, entries_of, joined, new_id
from palaver.testsets.identity import Identities
from palaver.testsets.limits import LIMITS, Limits
from palaver.testsets.recolumning import Rehashed, changed
from palaver.testsets.rows import Data, packed_id, row_hash
from palaver.testsets.scripts import check_scripts

_decode = msgspec.json.Decoder().decode


class Given(NamedTuple):
    """A row that is sent; without an id, it takes the one of a row with the same data."""

    data: Data
    id: str | None = None


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """Who wrote a revision, when, and what they say of it."""

    message: str = ""
    key: str | None = None
    at: datetime


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A commit, ready to be made."""

    base: int | None
    """None: the set is new."""
    gathered: Gathered
    contents: Mapping[bytes, bytes] = {}
    metas: Mapping[bytes, Any] = {}
    brought_by: Import | None = None
    """The import that has brought further contents already."""
    added: Sequence[bytes] = ()
    """The ids of new rows, packed, where a delta adds some."""


# Preparing


def based(db: Connection, project: str, testset: str, base: int) -> TestSet:
    """The set, if that is its newest revision."""
    found = testsets.get(db, project, testset)
    _check_base(found, base)
    return found


def rows(
    db: Connection,
    project: str,
    testset: str | None,
    given: Sequence[Given],
    *,
    base: int | None = None,
    limits: Limits = LIMITS,
    new: NewId = new_id,
) -> Prepared:
    """All rows of the next revision, or of a new set."""
    limits.check_rows(len(given))
    claimed = _claimed(given)
    before = b""
    if testset is not None and base is not None:
        based(db, project, testset, base)
        before = entries_of(db, project, testset, base)
    contents: dict[bytes, bytes] = {}
    hashes: list[bytes] = []
    for place, row in enumerate(given):
        hashed, contents[hashed] = checked(row.data, f"/rows/{place}/data", limits)
        hashes.append(hashed)
    same = (pair for pair in testset_pieces.split(before) if pair[1] in contents)  # Others are nobody's here.
    ids = Identities(same, new_id=new, claimed=set(claimed.values()))
    gathering = Gathering(limits)
    for place, (row, hashed) in enumerate(zip(given, hashes, strict=True)):
        gathering.add(claimed[place] if place in claimed else ids.of(hashed), hashed, row.data)
    gathered = joined(db, project, testset or "", [], gathering.done(), limits)
    return Prepared(base=base, gathered=gathered, contents=contents)


def check_delta(db: Connection, project: str, testset: str, changes: Delta, *, base: int) -> TestSet:
    """The set, if that can be applied to its newest revision."""
    found = based(db, project, testset, base)
    before = testset_pieces.split(entries_of(db, project, testset, base))
    deltas.check(list(before), changes, [column["name"] for column in found.columns])
    return found


def delta(
    db: Connection,
    project: str,
    testset: str,
    changes: Delta,
    *,
    base: int,
    limits: Limits = LIMITS,
    new: NewId = new_id,
    rehashed: Rehashed | None = None,
    brought_by: Import | None = None,
) -> Prepared:
    """What a delta makes of the newest revision.

    Where columns change, every row does. Of a large set, what rows hold then is brought in before, and told here.
    """
    found = based(db, project, testset, base)
    before = list(testset_pieces.split(entries_of(db, project, testset, base)))
    deltas.check(before, changes, [column["name"] for column in found.columns])
    contents = _checked_all(changes, limits)
    if changes.changes_columns and rehashed is None:
        every = testset_rows.contents(db, project, testset, [hashed for _, hashed in before])
        rehashed, all_new = changed(every.items(), changes.columns, limits)
        contents |= all_new
    touched = testset_rows.contents(db, project, testset, deltas.touched(before, changes))
    kept = {hashed: _decode(data) for hashed, data in touched.items()}
    applied = deltas.apply(before, changes, contents=kept, new_id=new, rehashed=rehashed)
    for hashed, data in applied.contents.items():  # What was not checked yet was patched.
        if hashed not in contents:
            _, contents[hashed] = checked(data, "/delta/patch", limits)
    entries = b"".join(row + hashed for row, hashed in applied.rows)
    gathered = cut_anew(db, project, testset, entries, contents, limits)
    return Prepared(base=base, gathered=gathered, contents=contents, brought_by=brought_by, added=applied.added)


def restored(db: Connection, project: str, testset: str, named: str | int, *, base: int) -> Prepared:
    """An older revision, to be the newest again."""
    found = based(db, project, testset, base)
    older = testset_revisions.get(db, project, testset, named, found.head)
    places: list[Place] = testset_revisions.places(db, project, testset, older.number)
    gathered = Gathered(digest=older.digest, rows=older.rows, columns=older.columns, places=places, pieces=[])
    return Prepared(base=base, gathered=gathered)


def checked(data: Data, pointer: str, limits: Limits) -> tuple[bytes, bytes]:
    """The hash of a row's data and the data as it is kept; or what is wrong with it."""
    kept = jsons.encode(data)
    limits.check_row(len(kept), pointer)
    check_scripts(data, pointer)
    return row_hash(data), kept


def _checked_all(changes: Delta, limits: Limits) -> dict[bytes, bytes]:
    """The data that a delta brings along as a whole, as it is kept, by hash."""
    brought = {f"/delta/replace/{place}/data": row.data for place, row in enumerate(changes.replace)}
    brought |= {f"/delta/add/{place}/data": row.data for place, row in enumerate(changes.add)}
    return dict(checked(data, pointer, limits) for pointer, data in brought.items())


def _claimed(given: Sequence[Given]) -> dict[int, bytes]:
    """The ids that rows bring along, by place."""
    claimed: dict[int, bytes] = {}
    seen: set[bytes] = set()
    for place, row in enumerate(given):
        if row.id is None:
            continue
        try:
            packed = packed_id(row.id)
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


def create(db: Connection, project: str, testset: TestSet, prepared: Prepared, written: Written) -> Revision:
    """A new set, with its first revision."""
    gathered = prepared.gathered
    made = msgspec.structs.replace(testset, head=1, rows=gathered.rows, columns=gathered.columns)
    testsets.create(db, project, made)
    return _add(db, project, testset.id, 1, prepared, written)


def commit(db: Connection, project: str, testset: str, prepared: Prepared, written: Written) -> tuple[Revision, bool]:
    """The next revision; or the newest one and False, if it has the same rows."""
    found = testsets.locked(db, project, testset)
    _check_base(found, prepared.base)
    head = testset_revisions.get(db, project, testset, "head", found.head)
    if head.digest == prepared.gathered.digest:
        return head, False
    made = _add(db, project, testset, found.head + 1, prepared, written)
    testsets.advance(db, project, testset, head=made.number, rows=made.rows, columns=made.columns, at=written.at)
    return made, True


def _add(db: Connection, project: str, testset: str, number: int, prepared: Prepared, written: Written) -> Revision:
    if prepared.brought_by is not None:
        testset_imports.stay(db, prepared.brought_by, written.at)
        testset_imports.end(db, prepared.brought_by)
    gathered = prepared.gathered
    testset_rows.add(db, project, testset, prepared.contents)
    testset_rows.add_metas(db, project, testset, prepared.metas)
    testset_pieces.add(db, project, testset, gathered.pieces)
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
    testset_revisions.add(db, project, made, gathered.places)
    return made
