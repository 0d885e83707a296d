"""Figures: what is told of a run, and of two beside each other. Values only; how they are found is elsewhere.

All intervals are of 95 %.
"""

from typing import Any, Literal

import msgspec

Interval = tuple[float, float]
Measure = Literal["pass_rate", "mean"]
Verdict = Literal["worse", "better", "same", "unclear"]


# A run


class Latencies(msgspec.Struct, frozen=True):
    """Seconds that calls took which came to an end: the middle one, and that which one in twenty exceeds."""

    p50: float | None
    p95: float | None


class SliceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The same figures of rows that have one value in a column."""

    value: Any
    n: int
    pass_rate: float | None
    pass_ci: Interval | None
    mean: float | None
    mean_ci: Interval | None


class EvaluatorSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What one evaluator says of a variant."""

    name: str
    n: int
    """Rows that count: scored at least once, or failed."""
    errors: int
    """Cells that it could not score. They count nowhere else."""
    skipped: int
    pass_rate: float | None
    """Null where it never said whether anything passed."""
    pass_ci: Interval | None
    ci: Literal["wilson", "bootstrap"]
    """How `pass_ci` was found; `mean_ci` is always a bootstrap."""
    mean: float | None
    mean_ci: Interval | None
    flaky: int | None
    """Rows whose repeats differ; null without repeats."""
    slices: list[SliceSummary] | None = None


class VariantSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A variant, and what each evaluator says of it."""

    name: str
    cells: int
    """That were run, failed ones among them."""
    failed: int
    cost: float | None
    latency: Latencies
    evaluators: list[EvaluatorSummary]


class EvaluationSummary(msgspec.Struct, frozen=True):
    """The figures of a run, as far as it has come."""

    variants: list[VariantSummary]


# Two of them


class RowChange(msgspec.Struct, frozen=True, kw_only=True):
    """A row that passed in one and not in the other."""

    row: str
    base: float
    """Its mean score, or its share of passes where there are no scores."""
    candidate: float


class ScoreDifference(msgspec.Struct, frozen=True, kw_only=True):
    """How the mean scores of pairs differ, where they say more than passes."""

    base: float
    candidate: float
    difference: float
    ci: Interval


class EvaluatorComparison(msgspec.Struct, frozen=True, kw_only=True):
    """What one evaluator says of the candidate beside the base, over rows that both have."""

    name: str
    measure: Measure
    """What `base` and `candidate` are: the share of passes; of an evaluator that only scores, the mean."""
    paired: int
    unpaired: int
    """Rows of the same content that count in one of them only."""
    base: float | None
    candidate: float | None
    difference: float | None
    ci: Interval | None
    test: Literal["mcnemar-exact", "paired-bootstrap"]
    p: float | None
    p_adjusted: float | None
    """By Holm, over all evaluators."""
    verdict: Verdict
    regressions: int
    """Rows that passed in the base and do not in the candidate; by majority over repeats."""
    fixes: int
    cases_needed: int | None
    """Of what is unclear: how many rows like these would tell; null where no number would."""
    score: ScoreDifference | None = None
    worst: list[RowChange] = []
    """Regressions, those that lost most first; not all of many."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate beside a base."""

    base: str
    """As it was asked for: `ev_2a:base`."""
    candidate: str
    margin: float
    evaluators: list[EvaluatorComparison]
    changed: list[str] = []
    """Rows of both whose content is not the same: they are in no figure. Not all of many."""
    changed_count: int = 0
    only_in_base: list[str] = []
    """Evaluators that the other has not."""
    only_in_candidate: list[str] = []
