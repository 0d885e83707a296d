"""Deltas: changes between a revision and the next, applied as a whole or not at all.

The order is columns, remove, replace, patch, add. A revision is a list of (id, hash), so contents are needed only for
rows that change. A caller calls, in this order:

    validate_delta(base, delta, columns)   raise for anything that cannot be applied
    touched_hashes(base, delta)            hashes of the contents to load
    change_columns(data, delta.columns)    for every content of the base, if columns change
    apply_delta(base, delta, …)            the rows of the next revision, and the new contents

Ids and hashes are packed here: 16 bytes each.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from palaver.core import json
from palaver.errors import InvalidValue
from palaver.testsets.rows import RowData, pack_row_id, row_hash

RowEntry = tuple[bytes, bytes]
"""Packed id and hash of a row."""


class Added(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row to add: after the row `after`, at the beginning if `after` is null, or at the end if it is omitted."""

    data: dict[str, Any]
    """Values by column."""
    after: str | msgspec.UnsetType | None = msgspec.UNSET
    """Id of a row of the base revision, or null."""


class Replaced(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The new content of a row."""

    id: str
    """Id of the row."""
    data: dict[str, Any]
    """Values by column."""


class Patched(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes to the cells of a row."""

    id: str
    """Id of the row."""
    set: dict[str, Any] = {}
    """New values by column."""
    unset: list[str] = []
    """Columns to remove from the row."""


class ColumnChanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes to every row, applied in this order: rename columns, remove columns, fill missing cells."""

    rename: dict[str, str] = {}
    """New names by old name."""
    remove: list[str] = []
    """Names of the columns to remove."""
    fill: dict[str, Any] = {}
    """Values by column, for rows without the column."""


class Delta(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes from one revision to the next."""

    add: list[Added] = []
    replace: list[Replaced] = []
    patch: list[Patched] = []
    remove: list[str] = []
    """Ids of the rows to remove."""
    columns: ColumnChanges = msgspec.field(default_factory=ColumnChanges)

    @property
    def changes_columns(self) -> bool:
        """Whether columns change, and so every row."""
        return self.columns != ColumnChanges()


class AppliedDelta(msgspec.Struct, frozen=True):
    """The next revision. If columns changed, all other contents change as well: see `change_columns`."""

    rows: list[RowEntry]
    contents: dict[bytes, RowData]
    """Replaced, patched and added data, by hash."""
    added: list[bytes]
    """Ids of the new rows, in the order of the delta."""


def validate_delta(
    base: Sequence[RowEntry], delta: Delta, columns: Collection[str], *, pointer: str = "/delta"
) -> None:
    """Raise InvalidValue, naming the row or column, for a delta that cannot be applied."""
    _check_columns(delta.columns, columns, f"{pointer}/columns")
    base_ids = {row for row, _ in base}
    pointers: dict[bytes, str] = {}
    for change_pointer, text in _changed_rows(delta):
        packed = _require_row(text, base_ids, f"{pointer}/{change_pointer}")
        if packed in pointers:
            raise InvalidValue(
                f"Row {text!r} is in both /{pointers[packed]} and /{change_pointer}. A row can only be changed once.",
                pointer=f"{pointer}/{change_pointer}",
            )
        pointers[packed] = change_pointer
    removed = {pack_row_id(text) for text in delta.remove}
    for index, added in enumerate(delta.add):
        if isinstance(added.after, str):
            after_pointer = f"{pointer}/add/{index}/after"
            if _require_row(added.after, base_ids, after_pointer) in removed:
                raise InvalidValue(
                    f"Cannot add a row after {added.after!r} because that row is removed.", pointer=after_pointer
                )
    for index, patched in enumerate(delta.patch):
        if conflicting := patched.set.keys() & {*patched.unset}:
            raise InvalidValue(
                f"Column {min(conflicting)!r} can't be both set and unset.", pointer=f"{pointer}/patch/{index}/unset"
            )


def touched_hashes(base: Sequence[RowEntry], delta: Delta) -> list[bytes]:
    """Return the hashes of the contents that the delta removes, replaces or patches, without duplicates."""
    ids = {pack_row_id(text) for _, text in _changed_rows(delta)}
    return list(dict.fromkeys(content_hash for row, content_hash in base if row in ids))


def change_columns(data: Mapping[str, Any], columns: ColumnChanges) -> RowData:
    """Apply column changes to one row. All renames happen at once; a cell keeps its position."""
    changed = {columns.rename.get(name, name): value for name, value in data.items()} if columns.rename else {**data}
    for name in columns.remove:
        changed.pop(name, None)
    for name, value in columns.fill.items():
        changed.setdefault(name, value)
    return changed


def apply_delta(
    base: Sequence[RowEntry],
    delta: Delta,
    *,
    contents: Mapping[bytes, Mapping[str, Any]],
    new_id: Callable[[], bytes],
    rehashed: Mapping[bytes, bytes] | None = None,
) -> AppliedDelta:
    """Apply a validated delta.

    `contents` holds, by hash, what `touched_hashes` returned. `rehashed` maps every hash of the base to its hash after
    the column changes, or is None without column changes.
    """
    removed = {pack_row_id(text) for text in delta.remove}
    replaced = {pack_row_id(row.id): row.data for row in delta.replace}
    patched = {pack_row_id(patch.id): patch for patch in delta.patch}
    rows: list[RowEntry] = []
    new_contents: dict[bytes, RowData] = {}
    for row, old_hash in base:
        if row in removed:
            continue
        new_data = replaced.get(row)
        if new_data is None and row in patched:
            new_data = _patch(change_columns(contents[old_hash], delta.columns), patched[row])
        if new_data is None:
            rows.append((row, old_hash if rehashed is None else rehashed[old_hash]))
            continue
        new_hash = row_hash(new_data)
        new_contents[new_hash] = new_data
        rows.append((row, new_hash))
    new_rows = [(new_id(), row_hash(added.data)) for added in delta.add]
    new_contents |= {new_hash: added.data for (_, new_hash), added in zip(new_rows, delta.add, strict=True)}
    return AppliedDelta(_insert_rows(rows, delta.add, new_rows), new_contents, [row for row, _ in new_rows])


def _changed_rows(delta: Delta) -> Iterator[tuple[str, str]]:
    """Yield the pointer within the delta, and the id, of each row that the delta changes."""
    yield from ((f"remove/{index}", text) for index, text in enumerate(delta.remove))
    yield from ((f"replace/{index}/id", row.id) for index, row in enumerate(delta.replace))
    yield from ((f"patch/{index}/id", row.id) for index, row in enumerate(delta.patch))


def _require_row(text: str, base_ids: Collection[bytes], pointer: str) -> bytes:
    try:
        packed = pack_row_id(text)
    except ValueError:
        packed = b""
    if packed not in base_ids:
        raise InvalidValue(f"Row {text[:80]!r} not found in the base revision.", pointer=pointer)
    return packed


def _check_columns(changes: ColumnChanges, columns: Collection[str], pointer: str) -> None:
    remaining = [name for name in columns if name not in changes.rename]
    names = {*remaining}
    for old, new in changes.rename.items():
        column_pointer = f"{pointer}/rename/{json.escape_pointer(old)}"
        if old not in columns:
            raise InvalidValue(f"Cannot rename column {old[:80]!r}: not found.", pointer=column_pointer)
        if new in names:
            raise InvalidValue(
                f"Cannot rename column {old[:80]!r} to {new[:80]!r}: the name is already in use.",
                pointer=column_pointer,
            )
        names.add(new)
    for index, name in enumerate(changes.remove):
        if name not in remaining:
            raise InvalidValue(f"Cannot remove column {name[:80]!r}: not found.", pointer=f"{pointer}/remove/{index}")
        remaining.remove(name)


def _patch(data: RowData, patch: Patched) -> RowData:
    data.update(patch.set)
    for name in patch.unset:
        data.pop(name, None)
    return data


def _insert_rows(rows: list[RowEntry], added: Sequence[Added], new_rows: Sequence[RowEntry]) -> list[RowEntry]:
    """Insert new rows at their positions. Rows after the same row keep the order of the delta."""
    entries_after: dict[bytes | None, list[RowEntry]] = {}
    appended: list[RowEntry] = []
    for row, entry in zip(added, new_rows, strict=True):
        if row.after is msgspec.UNSET:
            appended.append(entry)
        else:
            entries_after.setdefault(pack_row_id(row.after) if isinstance(row.after, str) else None, []).append(entry)
    if not entries_after:
        return rows + appended
    inserted = entries_after.get(None, [])
    for entry in rows:
        inserted.append(entry)
        inserted += entries_after.get(entry[0], ())
    return inserted + appended
