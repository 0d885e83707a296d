"""Sortable ids, and foreign ids shortened to a bounded length."""

from hypothesis import given
from hypothesis import strategies as st

from palaver.core.ids import MAX_ID_LENGTH, sortable_id, truncate_id

milliseconds = st.integers(0, 2**48 - 1)
randomness = st.integers(0, 2**80 - 1)


def test_a_sortable_id_is_26_characters_of_crockfords_base32() -> None:
    assert sortable_id(0, 0) == "0" * 26
    assert sortable_id(2**48 - 1, 2**80 - 1) == "7" + "z" * 25
    assert sortable_id(1_469_918_176_385, 0) == "01aryz6s41" + "0" * 16  # The time of the ULID spec's own example.


@given(milliseconds, randomness, milliseconds, randomness)
def test_ids_sort_by_time_and_then_by_randomness(at: int, dice: int, later: int, other: int) -> None:
    assert (sortable_id(at, dice) < sortable_id(later, other)) == ((at, dice) < (later, other))


@given(st.integers(0), st.integers(0))
def test_a_sortable_id_always_has_26_characters(at: int, dice: int) -> None:
    assert len(sortable_id(at, dice)) == 26


@given(st.text(st.characters(exclude_categories=[]), max_size=64))
def test_a_short_id_is_not_changed(text: str) -> None:
    assert truncate_id(text) == text


def test_an_id_of_64_characters_is_not_changed() -> None:
    assert truncate_id("i" * 64) == "i" * 64


def test_a_longer_id_becomes_its_first_40_characters_and_12_hash_digits() -> None:
    assert truncate_id("i" * 65) == "i" * 40 + "-7db92d77e8b1"


@given(st.text(st.characters(exclude_categories=[]), min_size=65, max_size=99))
def test_a_truncated_id_is_bounded_idempotent_and_distinct(text: str) -> None:
    short = truncate_id(text)

    assert len(short) == 53 <= MAX_ID_LENGTH
    assert truncate_id(short) == short
    assert truncate_id(text + "x") != short
