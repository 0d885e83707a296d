"""Pricing: what a call cost where its reply does not say so, by the operator's list and what its models told of it.

A reply has tokens, and not whose. Frameworks tell of each call of a model while the run goes on (core/steps.py), as
they do for its trace, so both come to the same. Of a run that is not traced nothing is told: its cost stays unknown.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from palaver.core.steps import Step
from palaver.core.usage import Usage
from palaver.traces.prices import Price, computed

Prices = Mapping[str, Price]
_MODELS = ("llm", "embedding")
"""What is inside an agent is never added to the agent's own total."""


def with_cost(usage: Usage, steps: Sequence[Step], prices: Prices) -> Usage:
    """The usage of a call in which these steps were, with what they cost, as far as that is known."""
    calls = [step for step in steps if step.kind in _MODELS]
    costs = [cost for step in calls if (cost := _cost(step, prices)) is not None]
    return msgspec.structs.replace(usage, cost=sum(costs)) if costs else usage


def _cost(step: Step, prices: Prices) -> float | None:
    model: str | None = None
    usage: Usage | None = None
    for tell in step.tells:
        with suppress(Exception):  # It is the framework's word, or our reading of it.
            told = tell()
            model, usage = told.model or model, told.usage or usage
    return usage.cost if usage is not None and usage.cost is not None else computed(usage, model, prices)
