"""Compare two revisions of a test set: added, removed, changed and moved rows, and their cells.

Rows are paired by id. Rows in the longest common order count as unmoved, so a row inserted in the middle moves no
other.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal, cast

import msgspec
from sqlalchemy import Connection, Integer, column

from palaver.core.dialects.detection import dialect_of
from palaver.storage import pagination
from palaver.storage.pagination import FIRST_PAGE, Page, Window
from palaver.storage.testsets import row_chunks
from palaver.storage.testsets import rows as testset_rows
from palaver.storage.testsets.repository import Revision
from palaver.testsets.delta import RowEntry
from palaver.testsets.revision_builder import read_entries
from palaver.testsets.rows import canonical_json, format_row_id

Change = Literal["added", "removed", "changed", "moved"]
MessageOp = Literal["added", "removed", "changed"]

_MAX_MATCHED_MESSAGES = 400
"""Maximum number of messages, without common prefix and suffix, that are matched; more are paired by position."""


class RowChange(msgspec.Struct, frozen=True):
    """A row that differs. A changed row may have moved as well."""

    id: bytes
    change: Change
    before: bytes | None = None
    """The old hash; None for an added row."""
    after: bytes | None = None
    """The new hash; None for a removed row."""
    moved: bool = False


class Counts(msgspec.Struct, frozen=True):
    """Numbers of rows. A row that both changed and moved counts twice."""

    added: int = 0
    removed: int = 0
    changed: int = 0
    moved: int = 0


class RowChanges(msgspec.Struct, frozen=True):
    """All rows that differ, in the order of the new revision; a removed row is at its old position."""

    counts: Counts
    rows: list[RowChange]


class ColumnNames(msgspec.Struct, frozen=True):
    """Columns that only one of the revisions has."""

    added: list[str]
    removed: list[str]


class MessageChange(msgspec.Struct, frozen=True):
    """A message that differs. `index` is its position in the new conversation or, if it was removed, in the old."""

    index: int
    op: MessageOp


class CellChange(msgspec.Struct, frozen=True, omit_defaults=True, rename={"old": "from", "new": "to"}):
    """A cell that differs. `from` or `to` is omitted if that revision lacks the cell; null is a value."""

    column: str
    old: Any = msgspec.UNSET
    new: Any = msgspec.UNSET
    messages: list[MessageChange] | msgspec.UnsetType = msgspec.UNSET
    """Set if both sides are conversations."""


def diff_rows(before: Sequence[RowEntry], after: Sequence[RowEntry]) -> RowChanges:
    old, new = dict(before), dict(after)
    moved = _moved_ids([row for row, _ in before if row in new], [row for row, _ in after if row in old])
    removed = _removed_by_anchor(before, new)
    rows = list(removed.pop(None, ()))
    changed_count = 0
    for row, new_hash in after:
        old_hash = old.get(row)
        if old_hash is None:
            rows.append(RowChange(row, "added", None, new_hash))
        elif old_hash != new_hash:
            rows.append(RowChange(row, "changed", old_hash, new_hash, row in moved))
            changed_count += 1
        elif row in moved:
            rows.append(RowChange(row, "moved", old_hash, new_hash, moved=True))
        rows += removed.get(row, ())
    common_count = len(old.keys() & new.keys())
    return RowChanges(Counts(len(new) - common_count, len(old) - common_count, changed_count, len(moved)), rows)


def diff_columns(before: Iterable[str], after: Iterable[str]) -> ColumnNames:
    old, new = dict.fromkeys(before), dict.fromkeys(after)
    return ColumnNames([name for name in new if name not in old], [name for name in old if name not in new])


def diff_cells(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[CellChange]:
    """Return the cells that differ. A row that is absent on one side is None."""
    old, new = before or {}, after or {}
    names = [*new, *(name for name in old if name not in new)]
    return [
        _cell_change(name, old.get(name, msgspec.UNSET), new.get(name, msgspec.UNSET))
        for name in names
        if _differs(name, old, new)
    ]


def _differs(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    return name not in old or name not in new or canonical_json(old[name]) != canonical_json(new[name])


def _cell_change(name: str, old: Any, new: Any) -> CellChange:
    sides = [side for side in (old, new) if side is not msgspec.UNSET]
    if not all(isinstance(side, list) and dialect_of(cast("object", side)) is not None for side in sides):
        return CellChange(name, old, new)
    return CellChange(name, old, new, diff_messages(_as_list(old), _as_list(new)))


def _as_list(side: Any) -> list[Any]:
    return [] if side is msgspec.UNSET else side


def diff_messages(before: Sequence[Any], after: Sequence[Any]) -> list[MessageChange]:
    old, new = [canonical_json(message) for message in before], [canonical_json(message) for message in after]
    start = _common_prefix_length(old, new)
    end = _common_prefix_length(old[start:][::-1], new[start:][::-1])
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    differences: list[MessageChange] = []
    for left, left_end, right, right_end in _differing_blocks(old, new):
        pairs = min(left_end - left, right_end - right)
        differences += [MessageChange(start + right + index, "changed") for index in range(pairs)]
        differences += [MessageChange(start + index, "removed") for index in range(left + pairs, left_end)]
        differences += [MessageChange(start + index, "added") for index in range(right + pairs, right_end)]
    return differences


def _differing_blocks(old: Sequence[bytes], new: Sequence[bytes]) -> list[tuple[int, int, int, int]]:
    """Return start and end of each differing block in `old` and `new`. Long lists are one block: matching is slow."""
    if max(len(old), len(new)) > _MAX_MATCHED_MESSAGES:
        return [(0, len(old), 0, len(new))]
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return [block[1:] for block in matcher.get_opcodes() if block[0] != "equal"]


def _common_prefix_length(first: Sequence[bytes], second: Sequence[bytes]) -> int:
    for index, (left, right) in enumerate(zip(first, second, strict=False)):
        if left != right:
            return index
    return min(len(first), len(second))


def _removed_by_anchor(before: Sequence[RowEntry], new: Mapping[bytes, bytes]) -> dict[bytes | None, list[RowChange]]:
    """Return the removed rows, by the nearest row before them that still exists."""
    removed: dict[bytes | None, list[RowChange]] = {}
    anchor = None
    for row, old_hash in before:
        if row in new:
            anchor = row
        else:
            removed.setdefault(anchor, []).append(RowChange(row, "removed", old_hash, None))
    return removed


def _moved_ids(before: Sequence[bytes], after: Sequence[bytes]) -> set[bytes]:
    """Return the ids outside the longest subsequence that has the same order in both."""
    if before == after:
        return set()
    positions = {row: index for index, row in enumerate(before)}
    unmoved = _longest_increasing([positions[row] for row in after])
    return {*after} - {before[index] for index in unmoved}


def _longest_increasing(numbers: Sequence[int]) -> list[int]:
    """Return the longest increasing subsequence, in descending order, by patience sorting."""
    pile_tops: list[int] = []
    predecessors: dict[int, int | None] = {}
    for number in numbers:
        pile = bisect_left(pile_tops, number)
        predecessors[number] = pile_tops[pile - 1] if pile else None
        pile_tops[pile : pile + 1] = [number]
    sequence: list[int] = []
    last = pile_tops[-1] if pile_tops else None
    while last is not None:
        sequence.append(last)
        last = predecessors[last]
    return sequence


_decode = msgspec.json.Decoder().decode
_ORDER_COLUMNS = (column("place", Integer),)


class ChangedRow(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    change: Change
    moved: bool
    cells: Sequence[CellChange]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """All counts and columns, and a page of rows."""

    counts: Counts
    columns: ColumnNames
    rows: Page[ChangedRow]


def diff_revisions(
    db: Connection, project: str, before: Revision, after: Revision, window: Window = FIRST_PAGE
) -> Difference:
    filters = {"testset": after.testset, "from": before.number, "to": after.number}
    scope: Any = {"project": project, "by": _ORDER_COLUMNS, "filters": filters, "order": "oldest"}
    position = pagination.decode_cursor(window, **scope)
    start = position[0] + 1 if position else 0
    old, new = (
        list(row_chunks.iter_entries(read_entries(db, project, revision.testset, revision.number)))
        for revision in (before, after)
    )
    changes = diff_rows(old, new)
    page_changes = changes.rows[start : start + window.limit]
    hashes = [digest for row in page_changes for digest in (row.before, row.after) if digest is not None]
    contents = testset_rows.read_contents(db, project, after.testset, hashes)
    changed_rows = [
        ChangedRow(
            id=format_row_id(row.id),
            change=row.change,
            moved=row.moved,
            cells=diff_cells(_decode_content(contents, row.before), _decode_content(contents, row.after)),
        )
        for row in page_changes
    ]
    end = start + len(page_changes)
    cursor = pagination.encode_cursor([end - 1], **scope) if end < len(changes.rows) else None
    names = ([item["name"] for item in revision.columns] for revision in (before, after))
    return Difference(counts=changes.counts, columns=diff_columns(*names), rows=Page(changed_rows, cursor))


def _decode_content(contents: dict[bytes, bytes], content_hash: bytes | None) -> dict[str, Any] | None:
    return None if content_hash is None else _decode(contents[content_hash])
