"""A delta: what changes between a revision and the next, applied as a whole or not at all (contract: test sets, A2).

The order is columns, remove, replace, patch, add. Pure, and sparing: a revision is a list of (id, hash), and content is
asked for only of rows that are touched. The steps for whoever keeps the contents:

    check(base, delta, columns)        everything that can be wrong, before anything is done
    touched(base, delta)               the hashes of rows whose content goes: to be loaded
    recolumned(data, delta.columns)    where columns change: for every content of the base, giving `rehashed`
    apply(base, delta, …)              the rows of the next revision, and the contents that are new

Wherever an id or a hash is meant here, it is the packed one of 16 bytes.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from palaver.core import json
from palaver.errors import InvalidValue
from palaver.testsets.rows import RowData, pack_row_id, row_hash

RowEntry = tuple[bytes, bytes]
"""A row of a revision: its id and its hash."""


class Added(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A new row: after the one of that id, at the top for null, else at the end."""

    data: dict[str, Any]
    after: str | msgspec.UnsetType | None = msgspec.UNSET


class Replaced(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row that gets other content."""

    id: str
    data: dict[str, Any]


class Patched(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of which some cells change."""

    id: str
    set: dict[str, Any] = {}
    unset: list[str] = []


class ColumnChanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What happens to every row: first new names, then columns that go, then values where there are none."""

    rename: dict[str, str] = {}
    remove: list[str] = []
    fill: dict[str, Any] = {}


class Delta(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What changes."""

    add: list[Added] = []
    replace: list[Replaced] = []
    patch: list[Patched] = []
    remove: list[str] = []
    columns: ColumnChanges = msgspec.field(default_factory=ColumnChanges)

    @property
    def changes_columns(self) -> bool:
        """Does it touch every row?"""
        return self.columns != ColumnChanges()


class AppliedDelta(msgspec.Struct, frozen=True):
    """The next revision. With changed columns, every other content is new as well: see `recolumned`."""

    rows: list[RowEntry]
    contents: dict[bytes, RowData]
    """By hash, what was replaced, patched or added."""
    gone: list[bytes]
    """The old hash of each row that was removed, replaced or patched, once a row."""
    come: list[bytes]
    """The new hash of each row that was replaced, patched or added, once a row."""
    added: list[bytes]
    """The ids of the new rows, in the order of the delta."""


def validate_delta(
    base: Sequence[RowEntry], delta: Delta, columns: Collection[str], *, pointer: str = "/delta"
) -> None:
    """Raise InvalidValue, naming the id or the column, for what cannot be applied."""
    _check_columns(delta.columns, columns, f"{pointer}/columns")
    known = {row for row, _ in base}
    named: dict[bytes, str] = {}
    for where, text in _changed_rows(delta):
        packed = _require_row(text, known, f"{pointer}/{where}")
        if packed in named:
            raise InvalidValue(
                f"The row {text} is in /{named[packed]} and in /{where}: one change a row.",
                pointer=f"{pointer}/{where}",
            )
        named[packed] = where
    removed = {pack_row_id(text) for text in delta.remove}
    for index, added in enumerate(delta.add):
        if isinstance(added.after, str):
            place = f"{pointer}/add/{index}/after"
            if _require_row(added.after, known, place) in removed:
                raise InvalidValue(f"The row {added.after} is removed: nothing can be put after it.", pointer=place)
    for index, patched in enumerate(delta.patch):
        if both := patched.set.keys() & {*patched.unset}:
            raise InvalidValue(
                f"The column {min(both)!r} is both set and unset.", pointer=f"{pointer}/patch/{index}/unset"
            )


def touched_hashes(base: Sequence[RowEntry], delta: Delta) -> list[bytes]:
    """The hashes of the contents that a checked delta removes, replaces or patches, each once."""
    named = {pack_row_id(text) for _, text in _changed_rows(delta)}
    return list(dict.fromkeys(content for row, content in base if row in named))


def change_columns(data: Mapping[str, Any], columns: ColumnChanges) -> RowData:
    """One content, after its columns changed. All new names are given at once; a cell keeps its place."""
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
    """The next revision, by a delta that was checked.

    `contents` has, by the base's hashes, what `touched` named. `rehashed` tells of every hash of the base which one its
    content has after its columns changed; None where they did not.
    """
    removed = {pack_row_id(text) for text in delta.remove}
    replaced = {pack_row_id(each.id): each.data for each in delta.replace}
    patched = {pack_row_id(each.id): each for each in delta.patch}
    rows: list[RowEntry] = []
    made: dict[bytes, RowData] = {}
    gone: list[bytes] = []
    come: list[bytes] = []
    for row, content in base:
        if row in removed:
            gone.append(content)
            continue
        new = replaced.get(row)
        if new is None and row in patched:
            new = _patch(change_columns(contents[content], delta.columns), patched[row])
        if new is None:
            rows.append((row, content if rehashed is None else rehashed[content]))
            continue
        hashed = row_hash(new)
        made[hashed] = new
        rows.append((row, hashed))
        gone.append(content)
        come.append(hashed)
    fresh = [(new_id(), row_hash(each.data)) for each in delta.add]
    made |= {hashed: each.data for (_, hashed), each in zip(fresh, delta.add, strict=True)}
    come += [hashed for _, hashed in fresh]
    return AppliedDelta(_insert_rows(rows, delta.add, fresh), made, gone, come, [row for row, _ in fresh])


def _changed_rows(delta: Delta) -> Iterator[tuple[str, str]]:
    """Every row that the delta changes, and where it says so."""
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
    left = [name for name in columns if name not in changes.rename]
    taken = {*left}
    for old, new in changes.rename.items():
        place = f"{pointer}/rename/{json.escape_pointer(old)}"
        if old not in columns:
            raise InvalidValue(f"There is no column {old[:80]!r} to rename.", pointer=place)
        if new in taken:
            raise InvalidValue(f"There is a column {new[:80]!r} already: {old[:80]!r} cannot become it.", pointer=place)
        taken.add(new)
    for index, name in enumerate(changes.remove):
        if name not in left:
            raise InvalidValue(f"There is no column {name[:80]!r} to remove.", pointer=f"{pointer}/remove/{index}")
        left.remove(name)


def _patch(data: RowData, patch: Patched) -> RowData:
    data.update(patch.set)
    for name in patch.unset:
        data.pop(name, None)
    return data


def _insert_rows(rows: list[RowEntry], added: Sequence[Added], fresh: Sequence[RowEntry]) -> list[RowEntry]:
    """The rows with the new ones in their places; those after the same row keep the order of the delta."""
    after: dict[bytes | None, list[RowEntry]] = {}
    last: list[RowEntry] = []
    for each, pair in zip(added, fresh, strict=True):
        if each.after is msgspec.UNSET:
            last.append(pair)
        else:
            after.setdefault(pack_row_id(each.after) if isinstance(each.after, str) else None, []).append(pair)
    if not after:
        return rows + last
    found = after.get(None, [])
    for row in rows:
        found.append(row)
        found += after.get(row[0], ())
    return found + last
