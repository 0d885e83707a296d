"""Reading the timestamp of a sortable id."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core.ids import id_timestamp_ms, sortable_id


@given(st.integers(0, (1 << 48) - 1), st.integers(0, (1 << 80) - 1), st.text())
def test_an_id_tells_when_it_was_made(milliseconds: int, randomness: int, prefix: str) -> None:
    assert id_timestamp_ms(prefix + sortable_id(milliseconds, randomness)) == milliseconds


@pytest.mark.parametrize("text", ["", "run_1", "run_" + "u" * 26, "é" * 30])
def test_anything_else_tells_nothing(text: str) -> None:
    assert id_timestamp_ms(text) is None
