"""Differences between revisions: added, removed, changed and moved rows, and their cells."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from palaver.testsets.delta import RowEntry
from palaver.testsets.diff import ColumnNames, Counts, RowChange, diff_cells, diff_columns, diff_messages, diff_rows

HI, HELLO, BYE = ({"role": "user", "content": text} for text in ("hi", "hello", "bye"))


def _pairs(rows: str) -> list[RowEntry]:
    """`a1 b2`: the row a with content 1, and b with 2."""
    return [(row[0].encode(), row[1:].encode()) for row in rows.split()]


def test_rows_are_paired_by_id() -> None:
    result = diff_rows(_pairs("a1 b1 c1 d1 e1"), _pairs("a1 x1 c2 e1 d1"))

    assert result.counts == Counts(added=1, removed=1, changed=1, moved=1)
    assert result.rows == [
        RowChange(b"b", "removed", b"1", None),
        RowChange(b"x", "added", None, b"1"),
        RowChange(b"c", "changed", b"1", b"2"),
        RowChange(b"e", "moved", b"1", b"1", moved=True),
    ]


def test_a_row_moved_to_the_top_is_the_only_moved_row() -> None:
    result = diff_rows(_pairs("a1 b1 c1 d1"), _pairs("d2 a1 b1 c1"))

    assert result.counts == Counts(changed=1, moved=1)
    assert result.rows == [RowChange(b"d", "changed", b"1", b"2", moved=True)]


def test_equal_revisions_do_not_differ() -> None:
    assert diff_rows(_pairs("a1 b1"), _pairs("a1 b1")).rows == []
    assert diff_rows([], []).counts == Counts()


@given(st.permutations(range(7)))
def test_as_few_rows_as_possible_count_as_moved(order: list[int]) -> None:
    before = [(bytes([row]), b"") for row in range(7)]

    result = diff_rows(before, [before[row] for row in order])

    longest = max(
        sum(1 for bit in range(7) if subset >> bit & 1)
        for subset in range(128)
        if (picked := [order[bit] for bit in range(7) if subset >> bit & 1]) == sorted(picked)
    )
    assert result.counts.moved == 7 - longest == len(result.rows)


@given(st.lists(st.integers(0, 9), unique=True), st.lists(st.integers(0, 9), unique=True), st.sets(st.integers(0, 9)))
def test_every_differing_row_is_listed_once(before: list[int], after: list[int], edited: set[int]) -> None:
    old = [(bytes([row]), b"old") for row in before]
    new = [(bytes([row]), b"new" if row in edited else b"old") for row in after]

    result = diff_rows(old, new)

    ids = [row.id for row in result.rows]
    assert len(ids) == len({*ids})
    assert {row.id[0] for row in result.rows if row.change == "added"} == {*after} - {*before}
    assert {row.id[0] for row in result.rows if row.change == "removed"} == {*before} - {*after}
    assert {row.id[0] for row in result.rows if row.change == "changed"} == {*before} & {*after} & edited
    assert result.counts == Counts(
        added=sum(row.change == "added" for row in result.rows),
        removed=sum(row.change == "removed" for row in result.rows),
        changed=sum(row.change == "changed" for row in result.rows),
        moved=sum(row.moved for row in result.rows),
    )


def test_added_and_removed_columns_are_listed() -> None:
    assert diff_columns(["a", "b"], ["c", "b", "d"]) == ColumnNames(added=["c", "d"], removed=["a"])


def _cells(before: dict[str, Any] | None, after: dict[str, Any] | None) -> Any:
    return msgspec.to_builtins(diff_cells(before, after))


def test_an_absent_side_has_no_key_and_null_is_a_value() -> None:
    assert _cells({"same": [1], "a": 1, "b": None, "c": "x"}, {"b": 2, "same": [1], "a": 1.0, "d": None}) == [
        {"column": "b", "from": None, "to": 2},
        {"column": "a", "from": 1, "to": 1.0},
        {"column": "d", "to": None},
        {"column": "c", "from": "x"},
    ]


def test_an_added_row_has_only_new_cells_and_a_removed_one_only_old() -> None:
    assert _cells(None, {"a": 1}) == [{"column": "a", "to": 1}]
    assert _cells({"a": 1}, None) == [{"column": "a", "from": 1}]


def test_the_order_of_keys_is_no_difference() -> None:
    assert _cells({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}) == []


def test_chat_cells_list_the_messages_that_differ() -> None:
    assert _cells({"chat": [HI, HELLO]}, {"chat": [HI, BYE, HELLO]}) == [
        {"column": "chat", "from": [HI, HELLO], "to": [HI, BYE, HELLO], "messages": [{"index": 1, "op": "added"}]}
    ]
    assert _cells(None, {"chat": [HI]}) == [{"column": "chat", "to": [HI], "messages": [{"index": 0, "op": "added"}]}]
    assert _cells({"chat": [HI]}, {"chat": "hi"}) == [{"column": "chat", "from": [HI], "to": "hi"}]


def _ops(before: list[Any], after: list[Any]) -> list[tuple[int, str]]:
    return [(change.index, change.op) for change in diff_messages(before, after)]


def test_changed_removed_and_added_messages_have_their_index() -> None:
    assert _ops([HI, HELLO, BYE], [HI, BYE]) == [(1, "removed")]
    assert _ops([HI, HELLO], [HI, BYE]) == [(1, "changed")]
    assert _ops([HI], [BYE, HELLO, HI]) == [(0, "added"), (1, "added")]
    assert _ops([HI, HELLO], [BYE]) == [(0, "changed"), (1, "removed")]


def test_conversations_of_a_thousand_messages_are_compared() -> None:
    old = [{"role": "user", "content": str(number)} for number in range(1_000)]
    new = [{"role": "user", "content": str(number)} for number in range(1, 1_002)]

    assert len(diff_messages(old, new)) == 1_001
    assert _ops(old, old[:500] + old[501:]) == [(500, "removed")]
