"""Paths into JSON: three ways to write them, and UNSET for what is not there."""

from typing import Any

import pytest
from msgspec import UNSET

from palaver.evaluation.json_path import format_path, leaves, parse_path, value_at

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
    ("path", "found"),
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
def test_what_stands_at_a_path(path: str, found: Any) -> None:
    assert value_at(VALUE, path) == found


@pytest.mark.parametrize("value", [None, "text", 5, True, UNSET])
def test_nothing_stands_in_what_is_no_container(value: Any) -> None:
    assert value_at(value, "a") is UNSET
    assert value_at(value, "$") is value


@pytest.mark.parametrize(
    "path", ["a..b", ".a", "a.", "a[", "a[x]", "a]b", "[1", "a[0]b", "a[1.5]", "$a[", "..", "a['x"]
)
def test_what_is_no_path_is_told(path: str) -> None:
    with pytest.raises(ValueError, match="is no path"):
        parse_path(path)


def test_leaves_are_all_that_holds_nothing_else_and_can_be_found_again_by_their_written_paths() -> None:
    value = {"a": [1, {"b": None}], "c": {}, "d": [], "e.f": 2, "g h": 3, 'i"]': 4, "0": 5}

    found = {format_path(path): leaf for path, leaf in leaves(value)}

    assert found == {
        "a[0]": 1,
        "a[1].b": None,
        "c": {},
        "d": [],
        '["e.f"]': 2,
        '["g h"]': 3,
        r'["i\"]"]': 4,
        "0": 5,
    }
    assert [path for path, _ in leaves("alone")] == [()]
    assert format_path(()) == "$"
