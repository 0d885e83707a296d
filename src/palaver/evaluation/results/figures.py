"""Values of summaries and comparisons. All intervals are 95%."""

import re
from typing import Any, Literal

import msgspec

Interval = tuple[float, float]
Measure = Literal["pass_rate", "mean"]
Verdict = Literal["worse", "better", "same", "unclear"]


_REASON_CODE = re.compile(r"[a-z][a-z0-9_]*: ")


def reason_text(reason: str) -> str:
    """Return the first line of a skip's or an error's reason in words, without its code."""
    code = _REASON_CODE.match(reason)
    words = reason if code is None else reason[code.end() :]
    return words.partition("\n")[0].removesuffix(".")


# Summaries


class Latencies(msgspec.Struct, frozen=True):
    """Latency of completed calls in seconds: median and 95th percentile."""

    p50: float | None
    p95: float | None


class SliceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of the rows with the same value in a column."""

    value: Any
    n: int
    pass_rate: float | None
    pass_ci: Interval | None
    mean: float | None
    mean_ci: Interval | None


class EvaluatorSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of one evaluator for a variant."""

    name: str
    n: int
    """Number of rows that count: scored at least once, or failed."""
    scored: int
    """Number of cells with a score."""
    unscored: int
    """Number of cells with an answer but without a score. They are left out of the other figures."""
    unscored_reason: str | None
    """The most frequent reason why cells have no score."""
    errors: int
    """Number of cells with an evaluator error."""
    skipped: int
    """Number of cells that the evaluator skipped."""
    pass_rate: float | None
    """Null if the evaluator only gives scores."""
    pass_ci: Interval | None
    ci: Literal["wilson", "bootstrap"]
    """The method of `pass_ci`; `mean_ci` is always a bootstrap."""
    mean: float | None
    mean_ci: Interval | None
    flaky: int | None
    """Number of rows whose repeats differ; null without repeats."""
    slices: list[SliceSummary] | None = None


class VariantSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of a variant, including those of each evaluator."""

    name: str
    cells: int
    """Number of cells that were run, including failed ones."""
    failed: int
    cost: float | None
    latency: Latencies
    evaluators: list[EvaluatorSummary]


class EvaluationSummary(msgspec.Struct, frozen=True):
    """Statistics of an evaluation, based on the results so far."""

    variants: list[VariantSummary]


# Comparisons


class RowChange(msgspec.Struct, frozen=True, kw_only=True):
    """A row that passed in base and fails in candidate."""

    row: str
    base: float
    """The mean score or, without scores, the share of repeats that passed."""
    candidate: float


class ScoreDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Difference between the mean scores of paired rows, unless all scores are 0 or 1."""

    base: float
    candidate: float
    difference: float
    ci: Interval


class EvaluatorComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Comparison of base and candidate by one evaluator, over the rows that both have."""

    name: str
    measure: Measure
    """Whether `base` and `candidate` are pass rates or, if the evaluator only gives scores, mean scores."""
    paired: int
    unpaired: int
    """Number of rows that exist or count on one side only."""
    base: float | None
    candidate: float | None
    difference: float | None
    ci: Interval | None
    test: Literal["mcnemar-exact", "paired-bootstrap"]
    p: float | None
    p_adjusted: float | None
    """P-value after Holm's correction for all evaluators."""
    verdict: Verdict
    regressions: int
    """Number of rows that passed in base and fail in candidate, by majority of their repeats."""
    fixes: int
    cases_needed: int | None
    """If the verdict is unclear, how many similar rows would decide it; null if no number would."""
    score: ScoreDifference | None = None
    worst: list[RowChange] = []
    """Regressed rows, largest loss first. The list may be truncated."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Comparison of a candidate with a base."""

    base: str
    """Reference to the base variant, such as `ev_2a:base`."""
    candidate: str
    margin: float
    evaluators: list[EvaluatorComparison]
    changed: list[str] = []
    """Ids of rows whose content differs; they are left out of all figures. The list may be truncated."""
    changed_count: int = 0
    only_in_base: list[str] = []
    """Evaluators that the candidate lacks."""
    only_in_candidate: list[str] = []

    def display_names(self) -> tuple[str, str]:
        """Return names of candidate and base for reports: those of their variants, without ids of evaluations."""
        (evaluation, _, candidate), (base_evaluation, _, base) = self.candidate.partition(":"), self.base.partition(":")
        return candidate, base if base_evaluation == evaluation else f"{base} (baseline)"
