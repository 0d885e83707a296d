"""When two JSON values are equal."""

from typing import Any

import pytest

from palaver.evaluation.values.equality import same, with_texts


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
    assert same(one, other)
    assert same(other, one)


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
    assert not same(one, other)
    assert not same(other, one)


def test_numbers_may_differ_by_a_tolerance_wherever_they_stand() -> None:
    assert same({"a": [1.0]}, {"a": [1.05]}, tolerance=0.1)
    assert not same({"a": [1.0]}, {"a": [1.2]}, tolerance=0.1)
    assert not same(10**400, 1.5, tolerance=1)
    assert not same(True, 1.05, tolerance=1)


def test_strings_are_changed_and_keys_are_not() -> None:
    assert with_texts({"Key": ["A", 1, {"B": "C"}]}, str.casefold) == {"Key": ["a", 1, {"B": "c"}]}
