"""Prices: what a span cost where nobody says so, by the operator's own list. None comes with us: they change.

`[prices."gpt-4o"]` names a model, `[prices."gpt-4o*"]` all whose names begin so. Of those that fit the longest counts.
"""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from palaver.core.messages import Usage
from palaver.traces.model import Span

_MILLION = 1_000_000
_ANY = "*"

Dollars = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model costs: US dollars for a million tokens."""

    input: Dollars
    output: Dollars = 0
    cached: Dollars | None = None
    """Input that was read from a cache; None: as any other. So for what was put there."""
    cache_creation: Dollars | None = None


def find_price(model: str, prices: Mapping[str, Price]) -> Price | None:
    """The price that fits a model best, if any does."""
    if model in prices:
        return prices[model]
    fitting = [name for name in prices if name.endswith(_ANY) and model.startswith(name[:-1])]
    return prices[max(fitting, key=len)] if fitting else None


def token_cost(usage: Usage, price: Price) -> float:
    """What so many tokens cost. Cached input is counted as part of the input, and priced by itself."""
    cached, created = usage.cached_input_tokens or 0, usage.cache_creation_input_tokens or 0
    fresh = max(0, usage.input_tokens - cached - created)
    dollars = fresh * price.input + usage.output_tokens * price.output
    dollars += cached * (price.input if price.cached is None else price.cached)
    dollars += created * (price.input if price.cache_creation is None else price.cache_creation)
    return dollars / _MILLION


def compute_cost(usage: Usage | None, model: str | None, prices: Mapping[str, Price]) -> float | None:
    """What a model's tokens cost by the list; None where one of the three is not known."""
    if not prices or usage is None or model is None:
        return None
    price = find_price(model, prices)
    return None if price is None else token_cost(usage, price)


def add_cost(span: Span, prices: Mapping[str, Price]) -> Span:
    """The record with its cost, where none was reported and there is a price for its model."""
    if span.cost is not None or (cost := compute_cost(span.usage, span.model, prices)) is None:
        return span
    return msgspec.structs.replace(span, cost=cost, cost_source="computed")
