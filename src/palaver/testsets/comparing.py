"""Where two revisions of a set differ, a page at a time: rows first, and of those that are shown, the cells."""

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Integer, column

from palaver.storage import pages
from palaver.storage.pages import START, Page, Window
from palaver.storage.testsets import pieces as testset_pieces
from palaver.storage.testsets import rows as testset_rows
from palaver.storage.testsets.revisions import Revision
from palaver.testsets import diff
from palaver.testsets.diff import CellChange, Change, ColumnNames, Counts
from palaver.testsets.gathering import entries_of
from palaver.testsets.rows import row_id

_decode = msgspec.json.Decoder().decode
_BY = (column("place", Integer),)


class ChangedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row that is not as it was."""

    id: str
    change: Change
    moved: bool
    cells: Sequence[CellChange]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """All counts and columns, and a page of rows."""

    counts: Counts
    columns: ColumnNames
    rows: Page[ChangedRow]


def difference(db: Connection, project: str, before: Revision, after: Revision, window: Window = START) -> Difference:
    """What is otherwise in `after`."""
    filters = {"testset": after.testset, "from": before.number, "to": after.number}
    bound: Any = {"project": project, "by": _BY, "filters": filters, "order": "oldest"}
    begun = pages.begin(window, **bound)
    start = begun[0] + 1 if begun else 0
    old, new = (
        list(testset_pieces.split(entries_of(db, project, each.testset, each.number))) for each in (before, after)
    )
    found = diff.changes(old, new)
    some = found.rows[start : start + window.limit]
    wanted = [hashed for row in some for hashed in (row.before, row.after) if hashed is not None]
    contents = testset_rows.contents(db, project, after.testset, wanted)
    shown = [
        ChangedRow(
            id=row_id(row.id),
            change=row.change,
            moved=row.moved,
            cells=diff.cells(_data(contents, row.before), _data(contents, row.after)),
        )
        for row in some
    ]
    end = start + len(some)
    cursor = pages.follow([end - 1], **bound) if end < len(found.rows) else None
    names = ([one["name"] for one in each.columns] for each in (before, after))
    return Difference(counts=found.counts, columns=diff.columns(*names), rows=Page(shown, cursor))


def _data(contents: dict[bytes, bytes], hashed: bytes | None) -> dict[str, Any] | None:
    return None if hashed is None else _decode(contents[hashed])
