"""Values of summaries and comparisons. All intervals are 95%."""

from typing import Any, Literal

import msgspec

Interval = tuple[float, float]
Measure = Literal["pass_rate", "mean"]
Verdict = Literal["worse", "better", "same", "unclear"]


# Summaries


class Latencies(msgspec.Struct, frozen=True):
    """Latency of completed calls in seconds: median and 95th percentile."""

    p50: float | None
    p95: float | None


class SliceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of the rows that have one value in a column."""

    value: Any
    n: int
    pass_rate: float | None
    pass_ci: Interval | None
    mean: float | None
    mean_ci: Interval | None


class EvaluatorSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one evaluator for a variant."""

    name: str
    n: int
    """Rows that count: scored at least once, or failed."""
    errors: int
    """Cells with an evaluator error. They don't count elsewhere."""
    skipped: int
    pass_rate: float | None
    """Null if the evaluator only gives scores."""
    pass_ci: Interval | None
    ci: Literal["wilson", "bootstrap"]
    """The method of `pass_ci`; `mean_ci` is always a bootstrap."""
    mean: float | None
    mean_ci: Interval | None
    flaky: int | None
    """Rows whose repeats differ; null without repeats."""
    slices: list[SliceSummary] | None = None


class VariantSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a variant, with those of each evaluator."""

    name: str
    cells: int
    """Cells that were run, including failed ones."""
    failed: int
    cost: float | None
    latency: Latencies
    evaluators: list[EvaluatorSummary]


class EvaluationSummary(msgspec.Struct, frozen=True):
    """Figures of an evaluation, based on the results so far."""

    variants: list[VariantSummary]


# Comparisons


class RowChange(msgspec.Struct, frozen=True, kw_only=True):
    """A row that passed in base and fails in candidate."""

    row: str
    base: float
    """The mean score, or the pass share if there are no scores."""
    candidate: float


class ScoreDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Difference of the mean scores of paired rows, if scores are more than passed or failed."""

    base: float
    candidate: float
    difference: float
    ci: Interval


class EvaluatorComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Comparison of base and candidate by one evaluator, over the rows that both have."""

    name: str
    measure: Measure
    """Whether `base` and `candidate` are pass rates, or means if the evaluator only gives scores."""
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
    """P-value after Holm's correction over all evaluators."""
    verdict: Verdict
    regressions: int
    """Rows that passed in base and fail in candidate, by majority over repeats."""
    fixes: int
    cases_needed: int | None
    """If the verdict is unclear: the number of similar rows that would decide it; null if no number would."""
    score: ScoreDifference | None = None
    worst: list[RowChange] = []
    """Regressed rows, the largest loss first; possibly truncated."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Comparison of a candidate with a base."""

    base: str
    """Reference of the base variant, such as `ev_2a:base`."""
    candidate: str
    margin: float
    evaluators: list[EvaluatorComparison]
    changed: list[str] = []
    """Rows whose content differs. They are left out of all figures; possibly truncated."""
    changed_count: int = 0
    only_in_base: list[str] = []
    """Evaluators that the candidate lacks."""
    only_in_candidate: list[str] = []

    def display_names(self) -> tuple[str, str]:
        """Return names of candidate and base for reports: those of their variants, without ids of evaluations."""
        (evaluation, _, candidate), (base_evaluation, _, base) = self.candidate.partition(":"), self.base.partition(":")
        return candidate, base if base_evaluation == evaluation else f"{base} (baseline)"
