"""JSON values: equality, paths, leaves, and JSON or code blocks inside a text."""

from typing import Any

import pytest
from msgspec import UNSET

from palaver.core.json import json_equal
from palaver.evaluation.json_values import (
    CodeBlock,
    balanced_json,
    code_blocks,
    find_json,
    format_path,
    iterate_leaves,
    map_strings,
    parse_json,
    parse_path,
    value_at,
)
from tests.growth import assert_linear


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (0, -0.0),
        (10**30, 10**30),
        ("a", "a"),
        (None, None),
        (True, True),
        ([], []),
        ({}, {}),
        ({"a": 1, "b": [2, 3.0]}, {"b": [2.0, 3], "a": 1.0}),
    ],
)
def test_equal_json_values(one: Any, other: Any) -> None:
    assert json_equal(one, other)
    assert json_equal(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (True, 1),
        (False, 0),
        (None, False),
        (None, ""),
        (1, "1"),
        ([], {}),
        ([1, 2], [2, 1]),
        ([1], [1, 1]),
        ({"a": 1}, {"a": 1, "b": None}),
        ({"a": [True]}, {"a": [1]}),
        ("a", "A"),
        (1.0, 1.0000001),
        (10**400, 1e300),
    ],
)
def test_unequal_json_values(one: Any, other: Any) -> None:
    assert not json_equal(one, other)
    assert not json_equal(other, one)


def test_tolerance_applies_to_nested_numbers() -> None:
    assert json_equal({"a": [1.0]}, {"a": [1.05]}, tolerance=0.1)
    assert not json_equal({"a": [1.0]}, {"a": [1.2]}, tolerance=0.1)
    assert not json_equal(10**400, 1.5, tolerance=1)
    assert not json_equal(True, 1.05, tolerance=1)


def test_map_strings_changes_values_but_not_keys() -> None:
    assert map_strings({"Key": ["A", 1, {"B": "C"}]}, str.casefold) == {"Key": ["a", 1, {"B": "c"}]}


VALUE: dict[str, Any] = {
    "a": {"b": [10, {"c": None}], "0": "key"},
    "a.b": "dotted",
    "x/y": "slash",
    "m~n": "tilde",
    "": "empty",
    "with space": 1,
    "list": [[1, 2], [3]],
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.b[0]", 10),
        ("$.a.b[0]", 10),
        ("/a/b/0", 10),
        ("a.b.0", 10),
        ("a.b[-1].c", None),
        ("/a/b/1/c", None),
        ("a.0", "key"),
        ("a[0]", "key"),
        ('["a.b"]', "dotted"),
        ("['a.b']", "dotted"),
        ("$['a.b']", "dotted"),
        ("/a.b", "dotted"),
        ("/x~1y", "slash"),
        ("/m~0n", "tilde"),
        ("/", "empty"),
        ("with space", 1),
        ("list[0][1]", 2),
        ("$.list[1][0]", 3),
        ("$", VALUE),
        ("", VALUE),
        ("a.x", UNSET),
        ("a.b[2]", UNSET),
        ("a.b[-3]", UNSET),
        ("/a/b/-1", UNSET),
        ("/a/b/00000000000000000000", UNSET),
        ("a.b[0].c", UNSET),
        ("/a/b/", UNSET),
    ],
)
def test_value_at_a_path(path: str, expected: Any) -> None:
    assert value_at(VALUE, path) == expected


@pytest.mark.parametrize("value", [None, "text", 5, True, UNSET])
def test_value_at_a_path_in_a_scalar_is_unset(value: Any) -> None:
    assert value_at(value, "a") is UNSET
    assert value_at(value, "$") is value


@pytest.mark.parametrize(
    "path", ["a..b", ".a", "a.", "a[", "a[x]", "a]b", "[1", "a[0]b", "a[1.5]", "$a[", "..", "a['x"]
)
def test_invalid_paths_are_rejected(path: str) -> None:
    with pytest.raises(ValueError, match="invalid path"):
        parse_path(path)


def test_iterate_leaves_yields_scalars_and_empty_containers_with_their_paths() -> None:
    value = {"a": [1, {"b": None}], "c": {}, "d": [], "e.f": 2, "g h": 3, 'i"]': 4, "0": 5}

    result = {format_path(path): leaf for path, leaf in iterate_leaves(value)}

    assert result == {
        "a[0]": 1,
        "a[1].b": None,
        "c": {},
        "d": [],
        '["e.f"]': 2,
        '["g h"]': 3,
        r'["i\"]"]': 4,
        "0": 5,
    }
    assert [path for path, _ in iterate_leaves("alone")] == [()]
    assert format_path(()) == "$"


FENCED_TEXT = """Here it is:

```json
{"a": [1, 2]}
```

and {"b": 2}."""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('  {"a": 1}\n', {"a": 1}),
        ("42", 42),
        ('"text"', "text"),
        ("null", None),
        ("[1]", [1]),
        ("", UNSET),
        ("  ", UNSET),
        ("text", UNSET),
        ('{"a": 1} and more', UNSET),
        ("{'a': 1}", UNSET),
        ("NaN", UNSET),
    ],
)
def test_parse_json_requires_the_complete_text_to_be_json(text: str, value: Any) -> None:
    assert parse_json(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", 42),
        (FENCED_TEXT, {"a": [1, 2]}),
        ('```\n{"a": 1}\n```', {"a": 1}),
        ('~~~json\n{"a": 1}\n~~~', {"a": 1}),
        ('```json\r\n{"a": 1}\r\n```\r\n', {"a": 1}),
        ('```python\nprint("{}")\n```\n```json\n[true]\n```', [True]),
        ('```json\n{"a": 1', UNSET),
        ('Sure: {"a": {"b": "}"}} there', {"a": {"b": "}"}}),
        ('Sure: {"a": "quoted \\" and ["} there', {"a": 'quoted " and ['}),
        ("A set {x, y} and a list [true, null].", [True, None]),
        ('{not json} {"a": 1}', {"a": 1}),
        ('{"open": [1, {"b": 2}', {"b": 2}),
        ('[see {"a": 1}]', {"a": 1}),
        ('He said "{" and then {"a": 1}', {"a": 1}),
        ('As [1] says: {"a": 1}', {"a": 1}),
        ("As [1] says.", [1]),
        ("- [ ] to do", []),
        ("nothing here", UNSET),
        ("", UNSET),
        ("}{][", UNSET),
        ("{" * 500, UNSET),
    ],
)
def test_find_json_in_a_text(text: str, value: Any) -> None:
    assert find_json(text) == value


def test_balanced_json_yields_each_value_with_its_source_text() -> None:
    text = 'a {"x": [1]} b [2, 3] c {y} d []'

    assert list(balanced_json(text)) == [({"x": [1]}, '{"x": [1]}'), ([2, 3], "[2, 3]"), ([], "[]")]


def test_code_blocks_have_their_language_and_whether_they_are_the_whole_text() -> None:
    assert code_blocks("```py title=x\na\n```") == [CodeBlock("py", "a\n", is_whole=True)]
    assert code_blocks("text\n```\na\n```\n~~~js\nb\n~~~") == [
        CodeBlock("", "a\n", is_whole=False),
        CodeBlock("js", "b\n", is_whole=False),
    ]
    assert code_blocks("```js\nnever closed") == [CodeBlock("js", "never closed", is_whole=True)]
    assert code_blocks("some `code` in a line") == []


@pytest.mark.parametrize("text", ["[[", '{"', "[1, ", '["a', "{}"])
def test_find_json_takes_linear_time_for_many_brackets(text: str) -> None:
    assert_linear(find_json, lambda count: text * count + "[", 100_000)
