"""Prices: the cost of a span that reports none."""

from datetime import UTC, datetime
from typing import Any

import pytest

from palaver.core.messages import Usage
from palaver.traces.model import Span
from palaver.traces.prices import Price, add_cost, find_price, token_cost

START = datetime(2026, 11, 15, tzinfo=UTC)
PRICES = {
    "gpt-4o": Price(input=2.5, output=10, cached=1.25),
    "gpt-4o*": Price(input=5),
    "gpt-*": Price(input=7),
    "claude-x": Price(input=3, output=15, cached=0.3, cache_creation=3.75),
}


def span(**fields: Any) -> Span:
    return Span(trace_id="a" * 32, span_id="b" * 16, start=START, **fields)


@pytest.mark.parametrize(
    ("model", "expected"),
    [("gpt-4o", 2.5), ("gpt-4o-2024-08-06", 5), ("gpt-5", 7), ("claude-x", 3), ("claude-xl", None), ("", None)],
)
def test_the_longest_matching_model_name_sets_the_price(model: str, expected: float | None) -> None:
    match = find_price(model, PRICES)

    assert (None if match is None else match.input) == expected


@pytest.mark.parametrize(
    ("usage", "model", "expected"),
    [
        (Usage(1_000_000, 100_000), "gpt-4o", 3.5),
        (Usage(1_000_000, 0, cached_input_tokens=400_000), "gpt-4o", 2.0),
        (Usage(1_000_000, 0, cached_input_tokens=400_000), "gpt-5", 7.0),
        (Usage(1_000_000, 0, cached_input_tokens=200_000, cache_creation_input_tokens=100_000), "claude-x", 2.535),
        (Usage(1_000_000, 0, cache_creation_input_tokens=100_000), "gpt-4o", 2.5),
        (Usage(10, 0, cached_input_tokens=1_000_000), "gpt-4o", 1.25),
        (Usage(0, 0), "gpt-4o", 0.0),
    ],
)
def test_cached_input_tokens_are_charged_at_the_cached_price(usage: Usage, model: str, expected: float) -> None:
    price = find_price(model, PRICES)

    assert price is not None
    assert token_cost(usage, price) == pytest.approx(expected)


def test_cost_is_computed_only_if_none_is_reported_and_the_price_is_known() -> None:
    usage = Usage(1_000_000, 100_000)
    computed = add_cost(span(model="gpt-4o", usage=usage), PRICES)

    assert (computed.cost, computed.cost_source) == (3.5, "computed")
    for unchanged in (
        span(model="gpt-4o", usage=usage, cost=0.5, cost_source="reported"),
        span(model="gpt-4o", usage=usage, cost=0.0, cost_source="reported"),
        span(model="gpt-4o"),
        span(usage=usage),
        span(model="llama", usage=usage),
    ):
        assert add_cost(unchanged, PRICES) is unchanged
    assert add_cost(span(model="gpt-4o", usage=usage), {}).cost is None
