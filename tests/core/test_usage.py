"""Token usage: addition, and unknown counts."""

from hypothesis import given

from palaver.core.messages import Usage
from tests.core.strategies import usages


def test_usages_add_up_field_by_field() -> None:
    first = Usage(input_tokens=1, output_tokens=2, cached_input_tokens=3, cost=0.5)
    second = Usage(input_tokens=10, output_tokens=20, cached_input_tokens=30, reasoning_tokens=40)

    assert first + second == Usage(
        input_tokens=11, output_tokens=22, cached_input_tokens=33, reasoning_tokens=40, cost=0.5
    )


@given(usages, usages)
def test_addition_is_commutative_and_zero_usage_changes_nothing(one: Usage, other: Usage) -> None:
    assert one + other == other + one
    assert one + Usage(input_tokens=0, output_tokens=0) == one
    assert (one + other).total_tokens == one.total_tokens + other.total_tokens
