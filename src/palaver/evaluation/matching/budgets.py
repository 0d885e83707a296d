"""Budgets: how far something stays within what it may cost."""

from collections.abc import Mapping

from palaver.evaluation.scoring.scores import Score


def within(spent: Mapping[str, tuple[float, float]]) -> Score:
    """By name, what was spent and what may be. The score is the smallest share of budget to spending, at most 1."""
    shares = {name: min(1.0, budget / actual) if actual > 0 else 1.0 for name, (actual, budget) in spent.items()}
    over = [f"{name} {_told(actual)} of {_told(budget)}" for name, (actual, budget) in spent.items() if actual > budget]
    return Score(
        not over,
        min(shares.values()),
        reason=f"over the budget: {', '.join(over)}" if over else "",
        details={name: actual for name, (actual, _) in spent.items()},
    )


def _told(number: float) -> str:
    return f"{number:.6g}"
