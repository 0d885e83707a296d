"""Deltas are applied as a whole, or refused with the name of the invalid row or column."""

from itertools import count
from typing import Any

import msgspec
import pytest

from palaver.errors import InvalidValue
from palaver.testsets.delta import Delta, RowEntry, apply_delta, change_columns, touched_hashes, validate_delta
from palaver.testsets.revision_builder import RowIdMatcher
from palaver.testsets.rows import format_row_id, new_packed_id, pack_row_id, row_hash


def _id(number: int) -> str:
    return format_row_id(new_packed_id(0, number))


BASE: dict[str, dict[str, Any]] = {
    _id(1): {"q": "one", "answer": 1},
    _id(2): {"q": "two", "tmp": True},
    _id(3): {"q": "three", "answer": None},
}


def _apply(delta: dict[str, Any], base: dict[str, dict[str, Any]] = BASE) -> list[tuple[str, dict[str, Any]]]:
    """Apply a delta as the store does and return the new rows in order."""
    pairs: list[RowEntry] = [(pack_row_id(row), row_hash(data)) for row, data in base.items()]
    contents = {row_hash(data): data for data in base.values()}
    changes = msgspec.convert(delta, Delta)
    validate_delta(pairs, changes, list(dict.fromkeys(name for data in base.values() for name in data)))
    numbers = count(100)
    rehashed, stored = None, contents
    if changes.changes_columns:
        new = {old: change_columns(data, changes.columns) for old, data in contents.items()}
        rehashed = {old: row_hash(data) for old, data in new.items()}
        stored = {row_hash(data): data for data in new.values()}
    result = apply_delta(
        pairs,
        changes,
        contents={content: contents[content] for content in touched_hashes(pairs, changes)},
        new_id=lambda: pack_row_id(_id(next(numbers))),
        rehashed=rehashed,
    )
    all_contents = stored | result.contents
    return [(format_row_id(row), all_contents[content]) for row, content in result.rows]


def test_an_empty_delta_changes_nothing() -> None:
    assert _apply({}) == list(BASE.items())


def test_columns_are_renamed_removed_and_filled_for_every_row() -> None:
    columns = {"rename": {"answer": "expected"}, "remove": ["tmp"], "fill": {"lang": "en", "expected": 0}}

    rows = _apply({"columns": columns})

    assert rows == [
        (_id(1), {"q": "one", "expected": 1, "lang": "en"}),
        (_id(2), {"q": "two", "lang": "en", "expected": 0}),
        (_id(3), {"q": "three", "expected": None, "lang": "en"}),
    ]
    assert list(rows[0][1]) == ["q", "expected", "lang"]


def test_two_columns_may_swap_names() -> None:
    rows = _apply({"columns": {"rename": {"q": "answer", "answer": "q"}}})

    assert rows[0] == (_id(1), {"answer": "one", "q": 1})


def test_rows_are_removed_replaced_patched_and_added_in_that_order_after_the_columns() -> None:
    rows = _apply(
        {
            "add": [
                {"data": {"q": "last"}},
                {"data": {"q": "after 3"}, "after": _id(3)},
                {"data": {"q": "after that"}, "after": _id(3)},
                {"data": {"q": "first"}, "after": None},
            ],
            "replace": [{"id": _id(2), "data": {"answer": "kept as sent"}}],
            "patch": [{"id": _id(3), "set": {"expected": 3, "q": "drei"}, "unset": ["note"]}],
            "remove": [_id(1)],
            "columns": {"rename": {"answer": "expected"}},
        }
    )

    assert rows == [
        (_id(103), {"q": "first"}),
        (_id(2), {"answer": "kept as sent"}),
        (_id(3), {"q": "drei", "expected": 3}),
        (_id(101), {"q": "after 3"}),
        (_id(102), {"q": "after that"}),
        (_id(100), {"q": "last"}),
    ]


def test_a_cell_that_is_unset_is_absent_and_null_is_a_value() -> None:
    [_, row, _] = _apply({"patch": [{"id": _id(2), "set": {"q": None}, "unset": ["tmp"]}]})

    assert row == (_id(2), {"q": None})


def test_touched_hashes_are_those_of_removed_and_patched_rows() -> None:
    pairs: list[RowEntry] = [(pack_row_id(_id(n)), row_hash({"n": n % 10})) for n in range(100)]
    delta = msgspec.convert({"remove": [_id(1), _id(11)], "patch": [{"id": _id(5)}], "add": [{"data": {}}]}, Delta)

    assert touched_hashes(pairs, delta) == [row_hash({"n": 1}), row_hash({"n": 5})]


def test_new_contents_are_listed_by_hash_and_new_rows_by_id() -> None:
    pairs: list[RowEntry] = [(pack_row_id(_id(n)), row_hash({"n": 0})) for n in range(4)]
    delta = msgspec.convert(
        {
            "remove": [_id(0)],
            "replace": [{"id": _id(1), "data": {"n": 1}}],
            "patch": [{"id": _id(2), "set": {"m": 2}}],
            "add": [{"data": {"n": 1}}],
        },
        Delta,
    )

    result = apply_delta(pairs, delta, contents={row_hash({"n": 0}): {"n": 0}}, new_id=lambda: pack_row_id(_id(9)))

    assert result.contents == {row_hash({"n": 1}): {"n": 1}, row_hash({"n": 0, "m": 2}): {"n": 0, "m": 2}}
    assert result.added == [pack_row_id(_id(9))]


@pytest.mark.parametrize(
    ("delta", "pointer", "names"),
    [
        ({"remove": [_id(9)]}, "/delta/remove/0", _id(9)),
        ({"remove": ["row_7"]}, "/delta/remove/0", "row_7"),
        ({"replace": [{"id": _id(9), "data": {}}]}, "/delta/replace/0/id", _id(9)),
        ({"patch": [{"id": _id(9)}]}, "/delta/patch/0/id", _id(9)),
        ({"add": [{"data": {}, "after": _id(9)}]}, "/delta/add/0/after", _id(9)),
        ({"remove": [_id(1)], "add": [{"data": {}, "after": _id(1)}]}, "/delta/add/0/after", _id(1)),
        ({"remove": [_id(1)], "patch": [{"id": _id(1)}]}, "/delta/patch/0/id", _id(1)),
        ({"remove": [_id(1), _id(1)]}, "/delta/remove/1", _id(1)),
        ({"replace": [{"id": _id(1), "data": {}}], "patch": [{"id": _id(1)}]}, "/delta/patch/0/id", _id(1)),
        ({"patch": [{"id": _id(1), "set": {"q": 1}, "unset": ["q"]}]}, "/delta/patch/0/unset", "q"),
        ({"columns": {"rename": {"answer": "q"}}}, "/delta/columns/rename/answer", "q"),
        ({"columns": {"rename": {"a/b": "c"}}}, "/delta/columns/rename/a~1b", "a/b"),
        ({"columns": {"rename": {"q": "x", "tmp": "x"}}}, "/delta/columns/rename/tmp", "x"),
        ({"columns": {"remove": ["q", "nothing"]}}, "/delta/columns/remove/1", "nothing"),
        ({"columns": {"rename": {"q": "x"}, "remove": ["q"]}}, "/delta/columns/remove/0", "q"),
    ],
)
def test_an_invalid_delta_is_rejected_with_its_pointer(delta: dict[str, Any], pointer: str, names: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        _apply(delta)

    assert caught.value.pointer == pointer
    assert names in caught.value.message


def test_a_thousand_of_a_hundred_thousand_rows_are_removed() -> None:
    pairs: list[RowEntry] = [(pack_row_id(_id(n)), n.to_bytes(16)) for n in range(100_000)]
    changed = range(0, 100_000, 100)
    delta = Delta(remove=[_id(n) for n in changed])
    validate_delta(pairs, delta, ())

    result = apply_delta(pairs, delta, contents={}, new_id=lambda: b"")

    assert len(result.rows) == 99_000


def test_rows_with_known_content_reuse_their_ids_in_order() -> None:
    same, other = row_hash({"q": 1}), row_hash({"q": 2})
    one, two, three = (pack_row_id(_id(n)) for n in (1, 2, 3))
    new = pack_row_id(_id(100))
    identities = RowIdMatcher([(one, same), (two, other), (three, same)], new_id=lambda: new, claimed={two})

    assert [identities.id_for(content) for content in (same, same, same, other)] == [one, three, new, new]
