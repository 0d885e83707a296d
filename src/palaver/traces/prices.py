"""Compute the cost of a span from the operator's price list. Palaver ships no prices, since they change.

`[prices."gpt-4o"]` names a model, `[prices."gpt-4o*"]` a prefix. The longest match wins.
"""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from palaver.core.messages import Usage
from palaver.traces.model import Span

_MILLION = 1_000_000
_WILDCARD = "*"

Dollars = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Price of a model in US dollars per million tokens."""

    input: Dollars
    output: Dollars = 0
    cached: Dollars | None = None
    """Input read from a cache; None means the price of other input. Likewise for cache writes."""
    cache_creation: Dollars | None = None


def find_price(model: str, prices: Mapping[str, Price]) -> Price | None:
    """Return the price with the longest matching name."""
    if model in prices:
        return prices[model]
    matches = [name for name in prices if name.endswith(_WILDCARD) and model.startswith(name[:-1])]
    return prices[max(matches, key=len)] if matches else None


def token_cost(usage: Usage, price: Price) -> float:
    """Return the cost in US dollars. Cached input is part of the input and priced separately."""
    cached, cache_writes = usage.cached_input_tokens or 0, usage.cache_creation_input_tokens or 0
    uncached = max(0, usage.input_tokens - cached - cache_writes)
    dollars = uncached * price.input + usage.output_tokens * price.output
    dollars += cached * (price.input if price.cached is None else price.cached)
    dollars += cache_writes * (price.input if price.cache_creation is None else price.cache_creation)
    return dollars / _MILLION


def compute_cost(usage: Usage | None, model: str | None, prices: Mapping[str, Price]) -> float | None:
    """Return the cost in US dollars, or None without usage, model or price."""
    if not prices or usage is None or model is None:
        return None
    price = find_price(model, prices)
    return None if price is None else token_cost(usage, price)


def add_cost(span: Span, prices: Mapping[str, Price]) -> Span:
    """Set the cost of a span that reports none and whose model has a price."""
    if span.cost is not None or (cost := compute_cost(span.usage, span.model, prices)) is None:
        return span
    return msgspec.structs.replace(span, cost=cost, cost_source="computed")
