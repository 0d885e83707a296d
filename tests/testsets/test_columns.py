"""Columns: derived from all rows, in order of first appearance."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings

from palaver.errors import TooLarge
from palaver.testsets.columns import Column, ColumnCounter, value_kind
from tests.testsets.strategies import ROWS

CHAT = [{"role": "user", "content": "hi"}]
MESSAGE = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
SCRIPT = {"turns": [{"user": "hi"}]}


def count_columns(rows: Iterable[dict[str, Any]]) -> list[Column]:
    counter = ColumnCounter()
    for data in rows:
        counter.add(data)
    return counter.columns()


def test_columns_are_in_order_of_first_appearance() -> None:
    rows: list[dict[str, Any]] = [{"b": 1}, {"a.b": "x", "b": None}, {"": True}]

    assert count_columns(rows) == [
        Column("b", "number", present=1, missing=1, nulls=1),
        Column("a.b", "text", present=1, missing=2, nulls=0),
        Column("", "boolean", present=1, missing=2, nulls=0),
    ]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([CHAT, CHAT], "chat"),
        ([[{"type": "human", "content": "hi"}]], "chat"),
        ([MESSAGE, {"role": "user", "content": "x"}], "message"),
        ([SCRIPT], "script"),
        (["a", "", None], "text"),
        ([1, 2.5, 10**30], "number"),
        ([True, False], "boolean"),
        ([1, True], "mixed"),
        ([{}, [], {"a": 1}], "json"),
        ([CHAT, {"a": 1}], "json"),
        ([CHAT, []], "chat"),
        ([CHAT, "", None], "chat"),
        ([CHAT, "", []], "chat"),
        ([SCRIPT, ""], "script"),
        ([[], []], "json"),
        ([[], ""], "mixed"),
        ([CHAT, "", "a"], "mixed"),
        (["", "a"], "text"),
        ([1, ""], "mixed"),
        ([CHAT, "a"], "mixed"),
        (["1", 1], "mixed"),
        ([None, None], "mixed"),
        ([[{"role": "admin", "content": "nobody we know"}]], "json"),
    ],
)
def test_the_kind_of_a_column_fits_all_its_values(values: list[Any], kind: str) -> None:
    assert [column.kind for column in count_columns([{"x": value} for value in values])] == [kind]


def test_a_column_of_conversations_as_text_looks_like_chat() -> None:
    text = ' [{"role": "user", "content": "hi"}]'

    [column] = count_columns([{"x": text}, {"x": text}, {}, {"x": None}])
    assert column == Column("x", "text", present=2, missing=1, nulls=1, looks_like="chat")
    [column] = count_columns([{"x": text}, {"x": "plain"}])
    assert column.looks_like is None
    [column] = count_columns([{"x": text}, {"x": CHAT}])
    assert (column.kind, column.looks_like) == ("mixed", None)


def test_an_empty_text_among_conversations_counts_as_null() -> None:
    [column] = count_columns([{"x": CHAT}, {"x": ""}, {"x": []}, {"x": None}, {}])

    assert column == Column("x", "chat", present=2, missing=1, nulls=2)


def test_too_many_columns_are_refused() -> None:
    columns = ColumnCounter(max_columns=2)
    columns.add({"a": 1, "b": 2})

    with pytest.raises(TooLarge, match="column 'c' exceeds the limit of 2 columns"):
        columns.add({"c": 3})


@settings(max_examples=40)
@given(ROWS, ROWS)
def test_column_counts_can_be_restored_and_merged(first: list[Any], second: list[Any]) -> None:
    columns, other = ColumnCounter(), ColumnCounter()
    for data in first:
        columns.add(data)
    for data in second:
        other.add(data)

    restored = ColumnCounter(columns.counts())
    assert restored.columns() == columns.columns()
    restored.merge(other)
    assert restored.columns() == count_columns([*first, *second])


def test_the_kind_of_each_json_value() -> None:
    assert [value_kind(value) for value in (None, True, 0, "", [], {})] == [
        "null",
        "boolean",
        "number",
        "text",
        "json",
        "json",
    ]
