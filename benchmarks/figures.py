"""Figures (measured values with their goals) and their table."""

from collections.abc import Sequence
from typing import Literal

import msgspec

Verdict = Literal["met", "missed"]


class Goal(msgspec.Struct, frozen=True):
    """A bound, and optionally a wider bound that must hold."""

    sense: Literal["≤", "≥"]
    bound: float
    must: float | None = None

    def met(self, value: float) -> bool:
        return value <= self.bound if self.sense == "≤" else value >= self.bound

    def describe(self, unit: str) -> str:
        bound = f"{self.sense} {self.bound:,g} {unit}".strip()
        return bound if self.must is None else f"{bound} (required: {self.sense} {self.must:,g})"


def at_most(bound: float, *, must: float | None = None) -> Goal:
    return Goal("≤", bound, must)


def at_least(bound: float, *, must: float | None = None) -> Goal:
    return Goal("≥", bound, must)


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table."""

    name: str
    value: float
    unit: str = ""
    spread: float | None = None
    """Half the range of the repeats."""
    goal: Goal | None = None
    how: str

    @property
    def verdict(self) -> Verdict | None:
        """Whether the goal was met; None without a goal."""
        if self.goal is None:
            return None
        return "met" if self.goal.met(self.value) else "missed"

    @property
    def measured(self) -> str:
        """Value, spread and unit as text."""
        spread = f" ± {_short(self.spread)}" if self.spread is not None else ""
        return f"{_short(self.value)}{spread} {self.unit}".strip()

    @property
    def aim(self) -> str:
        """Goal and verdict as text."""
        if self.goal is None:
            return ""
        return f"{self.goal.describe(self.unit)}, {'met' if self.verdict == 'met' else '**missed**'}"


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as an aligned Markdown table."""
    rows = [(figure.name, figure.measured, figure.aim, figure.how) for figure in figures]
    head = ("figure", "result", "goal", "method")
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(3)]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|---|"
    return "\n".join([_line(head, widths), rule, *(_line(row, widths) for row in rows)])


def _line(row: tuple[str, ...], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
    return f"| {' | '.join(padded)} | {row[-1]} |"


def _short(value: float) -> str:
    """Round to about three digits."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def half_range(values: Sequence[float]) -> float:
    """Half the range of the values: the ± of a figure."""
    return (max(values) - min(values)) / 2
