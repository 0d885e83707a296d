"""What changed between two revisions: rows that came, went, changed or moved, and cells (contract: test sets, A2).

Rows are paired by id. Those in both that keep their order are the longest that do, so that as few as possible count as
moved: a row put in the middle moves nobody.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal, cast

import msgspec

from palaver.core.recognition import dialect_of
from palaver.testsets.delta import Pair
from palaver.testsets.rows import canonical

Change = Literal["added", "removed", "changed", "moved"]
Op = Literal["added", "removed", "changed"]

_MOST_MATCHED = 400
"""Messages, between what two conversations begin and end with alike, that are matched; more are paired by place."""


class RowChange(msgspec.Struct, frozen=True):
    """A row that is not as it was. `moved` may be true of a changed one, too."""

    id: bytes
    change: Change
    before: bytes | None = None
    """Its old hash; None for an added row."""
    after: bytes | None = None
    """Its new hash; None for a removed row."""
    moved: bool = False


class Counts(msgspec.Struct, frozen=True):
    """How many. A row that both changed and moved counts twice."""

    added: int = 0
    removed: int = 0
    changed: int = 0
    moved: int = 0


class Changes(msgspec.Struct, frozen=True):
    """All rows that differ, in the order of the new revision; a removed one stands where it stood in the old."""

    counts: Counts
    rows: list[RowChange]


class ColumnNames(msgspec.Struct, frozen=True):
    """Columns that only one of them has."""

    added: list[str]
    removed: list[str]


class MessageChange(msgspec.Struct, frozen=True):
    """A message of a conversation that differs: `index` is in the new list, or in the old for a removed one."""

    index: int
    op: Op


class CellChange(msgspec.Struct, frozen=True, omit_defaults=True, rename={"old": "from", "new": "to"}):
    """A cell that differs. An absent side has no key: null is a value."""

    column: str
    old: Any = msgspec.UNSET
    new: Any = msgspec.UNSET
    messages: list[MessageChange] | msgspec.UnsetType = msgspec.UNSET
    """Where what there is on either side is a conversation."""


def changes(before: Sequence[Pair], after: Sequence[Pair]) -> Changes:
    """The rows that differ."""
    old, new = dict(before), dict(after)
    moved = _moved([row for row, _ in before if row in new], [row for row, _ in after if row in old])
    gone = _anchored(before, new)
    rows = list(gone.pop(None, ()))
    changed = 0
    for row, content in after:
        was = old.get(row)
        if was is None:
            rows.append(RowChange(row, "added", None, content))
        elif was != content:
            rows.append(RowChange(row, "changed", was, content, row in moved))
            changed += 1
        elif row in moved:
            rows.append(RowChange(row, "moved", was, content, moved=True))
        rows += gone.get(row, ())
    kept = len(old.keys() & new.keys())
    return Changes(Counts(len(new) - kept, len(old) - kept, changed, len(moved)), rows)


def columns(before: Iterable[str], after: Iterable[str]) -> ColumnNames:
    """The columns that came and went."""
    old, new = dict.fromkeys(before), dict.fromkeys(after)
    return ColumnNames([name for name in new if name not in old], [name for name in old if name not in new])


def cells(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[CellChange]:
    """The cells of a row that differ; None where the row is absent on that side."""
    old, new = before or {}, after or {}
    names = [*new, *(name for name in old if name not in new)]
    return [
        _cell(name, old.get(name, msgspec.UNSET), new.get(name, msgspec.UNSET))
        for name in names
        if _differs(name, old, new)
    ]


def _differs(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    return name not in old or name not in new or canonical(old[name]) != canonical(new[name])


def _cell(name: str, old: Any, new: Any) -> CellChange:
    sides = [side for side in (old, new) if side is not msgspec.UNSET]
    if not all(isinstance(side, list) and dialect_of(cast("object", side)) is not None for side in sides):
        return CellChange(name, old, new)
    return CellChange(name, old, new, messages(_listed(old), _listed(new)))


def _listed(side: Any) -> list[Any]:
    return [] if side is msgspec.UNSET else side


def messages(before: Sequence[Any], after: Sequence[Any]) -> list[MessageChange]:
    """The messages of two conversations that differ, in order."""
    old, new = [canonical(each) for each in before], [canonical(each) for each in after]
    start = _alike(old, new)
    end = _alike(old[start:][::-1], new[start:][::-1])
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    found: list[MessageChange] = []
    for left, left_end, right, right_end in _blocks(old, new):
        pairs = min(left_end - left, right_end - right)
        found += [MessageChange(start + right + place, "changed") for place in range(pairs)]
        found += [MessageChange(start + place, "removed") for place in range(left + pairs, left_end)]
        found += [MessageChange(start + place, "added") for place in range(right + pairs, right_end)]
    return found


def _blocks(old: Sequence[bytes], new: Sequence[bytes]) -> list[tuple[int, int, int, int]]:
    """Stretches in which they differ. Matching is quadratic at worst, so that of very many is not attempted."""
    if max(len(old), len(new)) > _MOST_MATCHED:
        return [(0, len(old), 0, len(new))]
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return [block[1:] for block in matcher.get_opcodes() if block[0] != "equal"]


def _alike(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """How many they have in common at the beginning."""
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return place
    return min(len(one), len(other))


def _anchored(before: Sequence[Pair], new: Mapping[bytes, bytes]) -> dict[bytes | None, list[RowChange]]:
    """The removed rows by the one that stands before them and is still there."""
    found: dict[bytes | None, list[RowChange]] = {}
    anchor = None
    for row, content in before:
        if row in new:
            anchor = row
        else:
            found.setdefault(anchor, []).append(RowChange(row, "removed", content, None))
    return found


def _moved(before: Sequence[bytes], after: Sequence[bytes]) -> set[bytes]:
    """The ids outside of the longest run of them that has the same order in both."""
    if before == after:
        return set()
    places = {row: place for place, row in enumerate(before)}
    staying = _longest_rising([places[row] for row in after])
    return {*after} - {before[place] for place in staying}


def _longest_rising(numbers: Sequence[int]) -> list[int]:
    """The longest subsequence that rises, by patience: piles with their smallest end, and who stood before whom."""
    ends: list[int] = []
    below: dict[int, int | None] = {}
    for number in numbers:
        pile = bisect_left(ends, number)
        below[number] = ends[pile - 1] if pile else None
        ends[pile : pile + 1] = [number]
    found: list[int] = []
    last = ends[-1] if ends else None
    while last is not None:
        found.append(last)
        last = below[last]
    return found
