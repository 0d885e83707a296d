"""Deltas: changes between a revision and the next, applied as a whole or not at all (contract A2).

The order is columns, remove, replace, patch, add. A revision is a list of (id, hash), so contents are needed only for
rows that change. The steps of a caller:

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
    """A new row: after the row `after`, first if that is null, last by default."""

    data: dict[str, Any]
    after: str | msgspec.UnsetType | None = msgspec.UNSET


class Replaced(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """New content of a row."""

    id: str
    data: dict[str, Any]


class Patched(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changed cells of a row."""

    id: str
    set: dict[str, Any] = {}
    unset: list[str] = []


class ColumnChanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes of every row, in this order: rename columns, remove columns, fill missing cells."""

    rename: dict[str, str] = {}
    remove: list[str] = []
    fill: dict[str, Any] = {}


class Delta(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes between a revision and the next."""

    add: list[Added] = []
    replace: list[Replaced] = []
    patch: list[Patched] = []
    remove: list[str] = []
    columns: ColumnChanges = msgspec.field(default_factory=ColumnChanges)

    @property
    def changes_columns(self) -> bool:
        """Whether every row changes."""
        return self.columns != ColumnChanges()


class AppliedDelta(msgspec.Struct, frozen=True):
    """The next revision. If columns changed, all other contents change as well: see `change_columns`."""

    rows: list[RowEntry]
    contents: dict[bytes, RowData]
    """Replaced, patched and added data, by hash."""
    removed_hashes: list[bytes]
    """The old hash of each row that was removed, replaced or patched."""
    added_hashes: list[bytes]
    """The new hash of each row that was replaced, patched or added."""
    added: list[bytes]
    """Ids of the new rows, in the order of the delta."""


def validate_delta(
    base: Sequence[RowEntry], delta: Delta, columns: Collection[str], *, pointer: str = "/delta"
) -> None:
    """Raise InvalidValue, naming the row or column, for a delta that cannot be applied."""
    _check_columns(delta.columns, columns, f"{pointer}/columns")
    known = {row for row, _ in base}
    changed: dict[bytes, str] = {}
    for where, text in _changed_rows(delta):
        packed = _require_row(text, known, f"{pointer}/{where}")
        if packed in changed:
            raise InvalidValue(
                f"The row {text} is in /{changed[packed]} and in /{where}: one change a row.",
                pointer=f"{pointer}/{where}",
            )
        changed[packed] = where
    removed = {pack_row_id(text) for text in delta.remove}
    for index, added in enumerate(delta.add):
        if isinstance(added.after, str):
            after_pointer = f"{pointer}/add/{index}/after"
            if _require_row(added.after, known, after_pointer) in removed:
                raise InvalidValue(
                    f"The row {added.after} is removed: nothing can be put after it.", pointer=after_pointer
                )
    for index, patched in enumerate(delta.patch):
        if both := patched.set.keys() & {*patched.unset}:
            raise InvalidValue(
                f"The column {min(both)!r} is both set and unset.", pointer=f"{pointer}/patch/{index}/unset"
            )


def touched_hashes(base: Sequence[RowEntry], delta: Delta) -> list[bytes]:
    """The hashes of the contents that the delta removes, replaces or patches, without duplicates."""
    ids = {pack_row_id(text) for _, text in _changed_rows(delta)}
    return list(dict.fromkeys(content for row, content in base if row in ids))


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
    replaced = {pack_row_id(each.id): each.data for each in delta.replace}
    patched = {pack_row_id(each.id): each for each in delta.patch}
    rows: list[RowEntry] = []
    new_contents: dict[bytes, RowData] = {}
    removed_hashes: list[bytes] = []
    added_hashes: list[bytes] = []
    for row, content in base:
        if row in removed:
            removed_hashes.append(content)
            continue
        new = replaced.get(row)
        if new is None and row in patched:
            new = _patch(change_columns(contents[content], delta.columns), patched[row])
        if new is None:
            rows.append((row, content if rehashed is None else rehashed[content]))
            continue
        hashed = row_hash(new)
        new_contents[hashed] = new
        rows.append((row, hashed))
        removed_hashes.append(content)
        added_hashes.append(hashed)
    new_rows = [(new_id(), row_hash(each.data)) for each in delta.add]
    new_contents |= {hashed: each.data for (_, hashed), each in zip(new_rows, delta.add, strict=True)}
    added_hashes += [hashed for _, hashed in new_rows]
    return AppliedDelta(
        _insert_rows(rows, delta.add, new_rows),
        new_contents,
        removed_hashes,
        added_hashes,
        [row for row, _ in new_rows],
    )


def _changed_rows(delta: Delta) -> Iterator[tuple[str, str]]:
    """Each row that the delta changes, with its place in the delta."""
    yield from ((f"remove/{index}", text) for index, text in enumerate(delta.remove))
    yield from ((f"replace/{index}/id", each.id) for index, each in enumerate(delta.replace))
    yield from ((f"patch/{index}/id", each.id) for index, each in enumerate(delta.patch))


def _require_row(text: str, known: Collection[bytes], pointer: str) -> bytes:
    try:
        packed = pack_row_id(text)
    except ValueError:
        packed = b""
    if packed not in known:
        raise InvalidValue(f"The base has no row {text[:80]!r}.", pointer=pointer)
    return packed


def _check_columns(changes: ColumnChanges, columns: Collection[str], pointer: str) -> None:
    remaining = [name for name in columns if name not in changes.rename]
    names = {*remaining}
    for old, new in changes.rename.items():
        column_pointer = f"{pointer}/rename/{json.escape_pointer(old)}"
        if old not in columns:
            raise InvalidValue(f"There is no column {old[:80]!r} to rename.", pointer=column_pointer)
        if new in names:
            raise InvalidValue(
                f"There is a column {new[:80]!r} already: {old[:80]!r} cannot become it.", pointer=column_pointer
            )
        names.add(new)
    for index, name in enumerate(changes.remove):
        if name not in remaining:
            raise InvalidValue(f"There is no column {name[:80]!r} to remove.", pointer=f"{pointer}/remove/{index}")
        remaining.remove(name)


def _patch(data: RowData, patch: Patched) -> RowData:
    data.update(patch.set)
    for name in patch.unset:
        data.pop(name, None)
    return data


def _insert_rows(rows: list[RowEntry], added: Sequence[Added], new_rows: Sequence[RowEntry]) -> list[RowEntry]:
    """Insert new rows at their positions. Rows after the same row keep the order of the delta."""
    after: dict[bytes | None, list[RowEntry]] = {}
    appended: list[RowEntry] = []
    for each, pair in zip(added, new_rows, strict=True):
        if each.after is msgspec.UNSET:
            appended.append(pair)
        else:
            after.setdefault(pack_row_id(each.after) if isinstance(each.after, str) else None, []).append(pair)
    if not after:
        return rows + appended
    inserted = after.get(None, [])
    for row in rows:
        inserted.append(row)
        inserted += after.get(row[0], ())
    return inserted + appended
