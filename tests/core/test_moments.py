"""Reading the timestamp of a sortable id."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core.ids import id_timestamp_ms, sortable_id


@given(st.integers(0, (1 << 48) - 1), st.integers(0, (1 << 80) - 1), st.text())
def test_the_timestamp_of_a_sortable_id_is_read_after_any_prefix(
    milliseconds: int, randomness: int, prefix: str
) -> None:
    assert id_timestamp_ms(prefix + sortable_id(milliseconds, randomness)) == milliseconds


@pytest.mark.parametrize("text", ["", "run_1", "run_" + "u" * 26, "é" * 30])
def test_other_texts_have_no_timestamp(text: str) -> None:
    assert id_timestamp_ms(text) is None
