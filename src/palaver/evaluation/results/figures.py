"""Values of summaries and comparisons. All intervals are 95 %."""

from typing import Any, Literal

import msgspec

Interval = tuple[float, float]
Measure = Literal["pass_rate", "mean"]
Verdict = Literal["worse", "better", "same", "unclear"]


# Summaries


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
    """Cells that it could not score. They don't count elsewhere."""
    skipped: int
    pass_rate: float | None
    """Null if it never says whether a case passed."""
    pass_ci: Interval | None
    ci: Literal["wilson", "bootstrap"]
    """The method of `pass_ci`; `mean_ci` is always a bootstrap."""
    mean: float | None
    mean_ci: Interval | None
    flaky: int | None
    """Rows whose repeats differ; null without repeats."""
    slices: list[SliceSummary] | None = None


class VariantSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A variant, and what each evaluator says of it."""

    name: str
    cells: int
    """Cells that were run, including failed ones."""
    failed: int
    cost: float | None
    latency: Latencies
    evaluators: list[EvaluatorSummary]


class EvaluationSummary(msgspec.Struct, frozen=True):
    """The figures of a run, as far as it has come."""

    variants: list[VariantSummary]


# Comparisons


class RowChange(msgspec.Struct, frozen=True, kw_only=True):
    """A row that passed in one and not in the other."""

    row: str
    base: float
    """The mean score, or the pass share if there are no scores."""
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
    """What `base` and `candidate` are: pass rates, or means if the evaluator only scores."""
    paired: int
    unpaired: int
    """Rows of equal content that count on one side only."""
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
    """Rows that passed in the base and not in the candidate, by majority over repeats."""
    fixes: int
    cases_needed: int | None
    """For an unclear verdict: how many similar rows would decide it; null if no number would."""
    score: ScoreDifference | None = None
    worst: list[RowChange] = []
    """Regressions, the largest loss first; possibly truncated."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate beside a base."""

    base: str
    """The reference `ev_2a:base`."""
    candidate: str
    margin: float
    evaluators: list[EvaluatorComparison]
    changed: list[str] = []
    """Rows whose content differs. They count in no figure; possibly truncated."""
    changed_count: int = 0
    only_in_base: list[str] = []
    """Evaluators that the candidate lacks."""
    only_in_candidate: list[str] = []
