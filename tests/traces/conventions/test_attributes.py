"""Reading of attribute values: numbers, JSON and indexed names."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from palaver.core.ids import truncate_id
from palaver.traces.conventions.attributes import (
    MAX_ENTRIES,
    AttributeReader,
    collect_indexed,
    group_by_prefix,
    parse_amount,
    parse_container,
    parse_count,
    parse_json,
    parse_label,
)

VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers(), max_size=3)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (31, 31),
        (31.0, 31),
        ("31", 31),
        (" 31 ", 31),
        ("31.0", 31),
        ("1e3", 1000),
        (2**63 - 1, 2**63 - 1),
        (-1, None),
        ("-1", None),
        (1.5, None),
        ("1.5", None),
        (2**63, None),
        ("9" * 30, None),
        (float("nan"), None),
        ("inf", None),
        ("1_000", None),
        ("٣", None),
        ("many", None),
        ("", None),
        (True, None),
        ([31], None),
        ("1" * 65, None),
    ],
    ids=repr,
)
def test_a_count_is_a_non_negative_integer_in_any_notation(value: Any, expected: int | None) -> None:
    assert parse_count(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0002, 0.0002),
        ("0.0002", 0.0002),
        (1, 1.0),
        (-0.0, 0.0),
        (-0.1, None),
        (10**400, None),
        (float("inf"), None),
        ("free", None),
        (False, None),
        (None, None),
    ],
    ids=repr,
)
def test_an_amount_is_a_finite_number_that_is_not_negative(value: Any, expected: float | None) -> None:
    assert parse_amount(value) == expected


def test_the_first_attribute_with_a_valid_value_is_used_and_bad_numbers_are_noted() -> None:
    reader = AttributeReader({"a": -1, "b": "x", "c": 3, "d": None, "e": " ", "f": 42, "g": "-", "h": "0.5"})

    assert reader.count("absent", "a", "b", "c") == 3
    assert reader.amount("d", "g", "h") == 0.5
    assert reader.label("d", "e", "f") == "42"
    assert reader.value("d", "a") == -1
    assert reader.notes == ["number:a", "number:b", "number:g"]
    assert (reader.count("d"), reader.amount("d"), reader.label("e"), reader.value("d"), reader.json("d")) == (
        UNSET,
    ) * 5


def test_a_label_is_trimmed_and_a_long_one_is_shortened_with_a_hash() -> None:
    assert parse_label(" s-1\n") == "s-1"
    assert parse_label("x" * 128) == "x" * 128
    assert parse_label("x" * 129) == truncate_id("x" * 129)
    assert [parse_label(value) for value in (None, "", "  ", True, 1.5, [], 2**80)] == [None] * 7


def test_json_text_is_parsed_and_other_text_is_returned_unchanged() -> None:
    assert [parse_json(value) for value in ('{"a":1}', "4", '"x"', "x", "", 7, None)] == [
        {"a": 1},
        4,
        "x",
        "x",
        "",
        7,
        None,
    ]
    assert [parse_container(value) for value in ('{"a":1}', " [1]", "4", '"x"', "{", "[INST] hi", 7)] == [
        {"a": 1},
        [1],
        "4",
        '"x"',
        "{",
        "[INST] hi",
        7,
    ]
    deep = "[" * 5_000 + "]" * 5_000
    assert parse_json(deep) == parse_container(deep) == deep


def test_escaped_control_characters_are_replaced_and_other_escapes_are_decoded() -> None:
    assert parse_json(r'{"a\u0000":"\u001b[31m\u007F\u009f \n\u000a\u0009\u00e9 \\u0000 \\\u0001"}') == {
        "a\ufffd": "\ufffd[31m\ufffd\ufffd \n\n\t\u00e9 \\u0000 \\\ufffd"
    }
    assert parse_container(r'["\u0000"]') == ["\ufffd"]
    assert parse_json(r"no JSON \u0000") == r"no JSON \u0000"


def test_indexed_attributes_are_collected_in_index_order_without_gaps() -> None:
    attributes = {
        "m.10.role": "tool",
        "m.2.role": "user",
        "m.2.calls.0.name.first": "x",
        "m.7": "itself",
        "m.x.role": "no index",
        "m..role": "nothing",
        "m.-1.role": "negative",
        "m.1234567.role": "seven digits",
        "m.²": "no digit",
        "mm.0.role": "another's",
        "m": "none",
    }

    assert collect_indexed(attributes, "m") == [
        {"role": "user", "calls.0.name.first": "x"},
        {"": "itself"},
        {"role": "tool"},
    ]
    assert collect_indexed(collect_indexed(attributes, "m")[0], "calls") == [{"name.first": "x"}]


def test_attributes_are_grouped_by_their_first_matching_prefix() -> None:
    attributes = {"m.in.0.role": "a", "m.out.0.role": "b", "m.model": "c", "mm": "d"}

    assert group_by_prefix(attributes, ("m.in.", "m.out.", "m.")) == {
        "m.in.": {"m.in.0.role": "a"},
        "m.out.": {"m.out.0.role": "b"},
        "m.": {"m.model": "c"},
    }
    assert group_by_prefix(attributes, ("x.",)) == {}


def test_the_number_of_collected_entries_is_limited() -> None:
    attributes = {f"m.{index}.role": index for index in range(MAX_ENTRIES + 500, 0, -1)}

    assert collect_indexed(attributes, "m") == [{"role": index} for index in range(1, MAX_ENTRIES + 1)]


@given(st.dictionaries(st.text(alphabet="a.01", max_size=6), VALUES, max_size=8))
def test_any_attribute_values_are_read_without_an_error(attributes: dict[str, Any]) -> None:
    reader = AttributeReader(attributes)
    for name in attributes:
        number, cost = reader.count(name), reader.amount(name)
        assert number is UNSET or (type(number) is int and 0 <= number < 2**63)
        assert cost is UNSET or (type(cost) is float and cost >= 0)
        assert reader.label(name) != ""
        parse_container(reader.json(name))
    assert sum(map(len, collect_indexed(attributes, "a"))) <= len(attributes)
