"""Extraction agrees with a slow, literal reference implementation (reference_search.py)."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from palaver.core.extraction import dialect_of, extract_chat_messages, is_chat_messages, read_conversation
from tests.core.extraction import near_misses, reference_search

Search = Callable[[Any], Any]


def identities(elements: list[Any] | None) -> list[int] | None:
    """The ids of the elements, to compare identity instead of equality."""
    return None if elements is None else [id(element) for element in elements]


def strict_searches(prefer: Any) -> tuple[Search, Search]:
    return (
        lambda value: identities(extract_chat_messages(value, prefer)),
        lambda value: identities(reference_search.extract_chat_messages(value, prefer)),
    )


def wide_searches(prefer: Any) -> tuple[Search, Search]:
    def search(value: Any) -> Any:
        read = read_conversation(value, prefer)
        return read and (read.dialect, read.path, read.side or "neutral")

    def reference(value: Any) -> Any:
        match = reference_search.find(value, prefer)
        return match and (match.dialect, match.path, match.side)

    return search, reference


COMPARISONS: dict[str, tuple[Callable[[Any], Any], Search, Search]] = {
    "the strict test of a list": (near_misses.messages, is_chat_messages, reference_search.is_chat_messages),
    "the dialect of one element": (near_misses.message, dialect_of, reference_search.dialect_of),
    "the dialect of a list": (near_misses.messages, dialect_of, reference_search.dialect_of),
    **{
        f"the strict search, prefer {prefer}": (near_misses.value, *strict_searches(prefer))
        for prefer in near_misses.PREFERENCES
    },
    **{
        f"the wide search, prefer {prefer}": (near_misses.value, *wide_searches(prefer))
        for prefer in near_misses.PREFERENCES
    },
}


@pytest.mark.parametrize("name", COMPARISONS)
def test_generated_values_give_the_same_results_as_the_reference(name: str) -> None:
    created, search, reference = COMPARISONS[name]

    different = [value for value in near_misses.samples(created, 3000) if search(value) != reference(value)]

    assert sorted(different, key=lambda value: len(repr(value)))[:5] == []


@given(near_misses.strategy_for(near_misses.messages))
def test_strict_detection_agrees_with_the_reference(value: Any) -> None:
    assert is_chat_messages(value) == reference_search.is_chat_messages(value)


@given(near_misses.strategy_for(near_misses.messages))
def test_the_dialect_of_a_list_agrees_with_the_reference(value: Any) -> None:
    assert dialect_of(value) == reference_search.dialect_of(value)


@pytest.mark.parametrize("prefer", near_misses.PREFERENCES)
@given(value=near_misses.strategy_for(near_misses.value))
def test_both_searches_agree_with_the_reference(prefer: Any, value: Any) -> None:
    strict, strict_reference = strict_searches(prefer)
    wide, wide_reference = wide_searches(prefer)

    assert (strict(value), wide(value)) == (strict_reference(value), wide_reference(value))
