"""When two JSON values are equal."""

from typing import Any

import pytest

from palaver.evaluation.json_equality import json_equal, map_strings


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
def test_these_are_equal(one: Any, other: Any) -> None:
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
def test_these_are_not(one: Any, other: Any) -> None:
    assert not json_equal(one, other)
    assert not json_equal(other, one)


def test_numbers_may_differ_by_a_tolerance_wherever_they_stand() -> None:
    assert json_equal({"a": [1.0]}, {"a": [1.05]}, tolerance=0.1)
    assert not json_equal({"a": [1.0]}, {"a": [1.2]}, tolerance=0.1)
    assert not json_equal(10**400, 1.5, tolerance=1)
    assert not json_equal(True, 1.05, tolerance=1)


def test_strings_are_changed_and_keys_are_not() -> None:
    assert map_strings({"Key": ["A", 1, {"B": "C"}]}, str.casefold) == {"Key": ["a", 1, {"B": "c"}]}
