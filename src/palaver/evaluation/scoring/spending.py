"""Spending: what evaluators spend on models, counted apart from what the workflow itself spends.

Whoever asks a model says so here; whoever asked for the score finds the sum. Nobody in between has to carry it: not an
author's evaluator that asks a judge, not one that asks other evaluators.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from palaver.core.usage import Usage

_counting: ContextVar["Spent | None"] = ContextVar("spent", default=None)


class Spent:
    """What was spent so far."""

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.cost: float | None = None

    def add(self, usage: Usage | None, cost: float | None) -> None:
        """So much more; None is unknown, not nothing."""
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage
        if cost is not None:
            self.cost = cost + (self.cost or 0.0)


@contextmanager
def counting() -> Generator[Spent]:
    """Count what is spent inside; a count around this one has it, too."""
    outer, inner = _counting.get(), Spent()
    token = _counting.set(inner)
    try:
        yield inner
    finally:
        _counting.reset(token)
        if outer is not None:
            outer.add(inner.usage, inner.cost)


def spend(usage: Usage | None, cost: float | None) -> None:
    """A model was asked, and this is what it took."""
    if (spent := _counting.get()) is not None:
        spent.add(usage, cost)
