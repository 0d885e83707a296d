"""CSV cells: parsing rules, quoting, and round trips."""

from typing import Any

import pytest
from hypothesis import given

from palaver.testsets.files.csv_file import format_cell, format_name, parse_cell, quote_cell, quote_name
from palaver.testsets.rows import canonical_json
from tests.testsets.strategies import JSON

DEEP = "[" * 65 + "]" * 65


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # 2: a JSON string
        ('"42"', "42"),
        ('""', ""),
        ('"a\\nb\\u00e9"', "a\nbé"),
        ('"half', '"half'),
        ('"two" words', '"two" words'),
        ('"space behind" ', '"space behind" '),
        ('"\\ud800"', '"\\ud800"'),
        ('"', '"'),
        # 3: words
        ("null", None),
        ("true", True),
        ("false", False),
        ("True", "True"),
        ("NULL", "NULL"),
        (" null", " null"),
        # 4: numbers, only in the form in which they are written
        ("42", 42),
        ("-5", -5),
        ("0", 0),
        ("0.1", 0.1),
        ("1.0", 1.0),
        ("1e22", 1e22),
        ("-0.0", -0.0),
        ("1" + "0" * 40, 10**40),
        ("007", "007"),
        ("1.50", "1.50"),
        ("1e5", "1e5"),
        ("1E22", "1E22"),
        ("+5", "+5"),
        ("-0", "-0"),
        (" 42", " 42"),
        ("42 ", "42 "),
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
        ("1e400", "1e400"),
        ("1_000", "1_000"),
        ("1,000", "1,000"),
        ("-", "-"),
        ("2026-11-16", "2026-11-16"),
        ("٣", "٣"),
        ("9" * 5_000, "9" * 5_000),
        # 5: objects and arrays
        ("{}", {}),
        ('[1, "a", null]', [1, "a", None]),
        (' \n{"a": {"b": 1.50}} ', {"a": {"b": 1.5}}),
        ("[1", "[1"),
        ("[1] and more", "[1] and more"),
        ("{a: 1}", "{a: 1}"),
        ("\xa0[1]", "\xa0[1]"),
        (DEEP[1:-1], None),
        (DEEP, DEEP),
        # 6: text
        ("hello", "hello"),
        (" hello ", " hello "),
        ("nothing", "nothing"),
        ("=1+1", "=1+1"),
    ],
)
def test_cells_are_parsed_by_the_typing_rules(text: str, value: Any) -> None:
    if text == DEEP[1:-1]:
        value = [[]]
        for _ in range(62):
            value = [value]

    result = parse_cell(text)

    assert (type(result), canonical_json(result)) == (type(value), canonical_json(value))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (42, "42"),
        (-5, "-5"),
        (1.0, "1.0"),
        ({"a": [1, "x"]}, '{"a":[1,"x"]}'),
        ("hello", "hello"),
        ("two\nlines\tand tabs", "two\nlines\tand tabs"),
        (" hello ", " hello "),
        ("007", "007"),
        ("1.50", "1.50"),
        ("nothing", "nothing"),
        ("[1] and more", "[1] and more"),
        # would be parsed as another value
        ("", '""'),
        ("42", '"42"'),
        ("null", '"null"'),
        ("[1]", '"[1]"'),
        (" {}", '" {}"'),
        ('"a"', '"\\"a\\""'),
        ('"half', '"half'),
        # would be run as a formula by a spreadsheet
        ("=1+1", '"=1+1"'),
        ("+1", '"+1"'),
        ("-x", '"-x"'),
        ("@x", '"@x"'),
        ("\uff1dx", '"\uff1dx"'),
        ("\uff0bx", '"\uff0bx"'),
        ("\uff0dx", '"\uff0dx"'),
        ("\uff20x", '"\uff20x"'),
        ("  =1", '"  =1"'),
        ("\xa0=1", '"\xa0=1"'),
        ("\tx", '"\\tx"'),
        ("\rx", '"\\rx"'),
        ("\nx", '"\\nx"'),
        ("a=1", "a=1"),
        # control characters
        ("a\rb", '"a\\rb"'),
        ("a\x00b", '"a\\u0000b"'),
        ("a\x7fb", '"a\x7fb"'),
        ("a\x85b", '"a\x85b"'),
    ],
)
def test_formatted_cells_are_parsed_back_to_the_same_value(value: Any, text: str) -> None:
    assert format_cell(value) == text
    assert canonical_json(parse_cell(text)) == canonical_json(value)


@given(JSON)
def test_every_json_value_round_trips_through_a_cell(value: Any) -> None:
    assert canonical_json(parse_cell(format_cell(value))) == canonical_json(value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("question", "question"),
        ("42", "42"),
        ("null", "null"),
        ("a.b", "a.b"),
        ("[1]", "[1]"),
        ("", '""'),
        ('"a', '"\\"a"'),
        ("=a", '"=a"'),
        ("\ufeffa", '"\ufeffa"'),
        ("a\x00", '"a\\u0000"'),
        ("__id__", '"__id__"'),
        ("__meta__", '"__meta__"'),
        ("__empty__", '"__empty__"'),
        ("__other__", "__other__"),
    ],
)
def test_column_names_are_json_strings_only_where_needed(name: str, text: str) -> None:
    assert format_name(name) == text


def test_cells_and_names_are_quoted_only_where_needed() -> None:
    assert [quote_cell(text) for text in ("a", "a,b", 'a"b', "a\nb", "a;b|c\td")] == [
        "a",
        '"a,b"',
        '"a""b"',
        '"a\nb"',
        "a;b|c\td",
    ]
    assert [quote_name(text) for text in ("a b", "a;b", "a\tb", "a|b", "a,b")] == [
        "a b",
        '"a;b"',
        '"a\tb"',
        '"a|b"',
        '"a,b"',
    ]
