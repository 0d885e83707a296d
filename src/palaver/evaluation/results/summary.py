"""The summary of an evaluation: pass rates, means and intervals per variant, evaluator and slice.

Without repeats pass rates have Wilson intervals. With repeats the row is the unit, and all intervals are a bootstrap
over rows. A slice holds the rows with one value in a column; numbers are split at their quartiles. Rows without the
column are in no slice; null is a value.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from palaver.core import json
from palaver.evaluation.results.arrays import (
    ABSENT,
    DONE,
    ERROR,
    FAILED,
    SCORED,
    SKIPPED,
    CountedScores,
    FloatArray,
    ResultArrays,
    ScoreArrays,
    count_scores,
    row_means,
)
from palaver.evaluation.results.figures import (
    EvaluationSummary,
    EvaluatorSummary,
    Interval,
    Latencies,
    SliceSummary,
    VariantSummary,
    reason_text,
)
from palaver.evaluation.results.statistics import bootstrap_intervals, wilson_interval
from palaver.testsets.rows import canonical_json

MAX_SLICES = 20
MAX_VALUE_LENGTH = 200
"""Maximum number of characters of a value that are shown."""


class RowSlice(NamedTuple):
    value: Any
    """The value of its rows; for numbers their range, as text."""
    rows: NDArray[np.int64]


def slice_rows(values: Iterable[Any]) -> list[RowSlice]:
    """Slice rows by a column's values, UNSET for rows without the column."""
    cells = list(values)
    present = [value for value in cells if value is not UNSET and value is not None]
    if present and all(_is_number(value) for value in present) and len(set(present)) > 4:
        return _slice_by_quartile(cells)
    return _slice_by_value(cells)


def _slice_by_value(cells: Sequence[Any]) -> list[RowSlice]:
    indexes: dict[bytes, list[int]] = {}
    labels: dict[bytes, Any] = {}
    for index, value in enumerate(cells):
        if value is UNSET:
            continue
        key = canonical_json(value)
        if key not in labels:
            labels[key] = _shorten_value(value)
        indexes.setdefault(key, []).append(index)
    # The sort is stable: of equally frequent values the first ones are listed.
    frequent = sorted(indexes, key=lambda key: -len(indexes[key]))[:MAX_SLICES]
    return [RowSlice(labels[key], np.array(indexes[key], np.int64)) for key in frequent]


def _slice_by_quartile(cells: Sequence[Any]) -> list[RowSlice]:
    """Up to four slices of similar size, and one for null. Equal numbers are never separated."""
    rows = np.array([index for index, value in enumerate(cells) if _is_number(value)], np.int64)
    numbers = np.array([float(cells[index]) for index in rows])
    edges = np.unique(np.quantile(numbers, (0.25, 0.5, 0.75)))
    bins = np.searchsorted(edges, numbers, side="left")
    slices: list[RowSlice] = []
    for index in range(len(edges) + 1):
        rows_in_bin = rows[bins == index]
        if len(rows_in_bin):
            values = sorted((cells[row] for row in rows_in_bin), key=float)
            low, high = json.encode(values[0]).decode(), json.encode(values[-1]).decode()
            slices.append(RowSlice(low if low == high else f"{low} to {high}", rows_in_bin))
    null_rows = [index for index, value in enumerate(cells) if value is None]
    return [*slices, RowSlice(None, np.array(null_rows, np.int64))] if null_rows else slices


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _shorten_value(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= MAX_VALUE_LENGTH else f"{value[: MAX_VALUE_LENGTH - 1]}…"
    if value is None or isinstance(value, bool | int | float):
        return value
    return _shorten_value(json.encode(value).decode())


FLAKY_DEVIATION = 0.1
"""A row is flaky if the standard deviation of its scores over repeats exceeds this."""


@np.errstate(over="ignore", invalid="ignore")  # Scores may be any numbers.
def summarize(results: ResultArrays, slices: Sequence[RowSlice] | None = None) -> EvaluationSummary:
    """All figures of an evaluation, and of the given slices."""
    intervals = _IntervalBatch()
    counted = [(scores, count_scores(scores, results.cells, results.failed_as)) for scores in results.scores]
    by_variant: list[list[_EvaluatorOnVariant]] = []
    for index in range(results.shape.variants):
        by_variant.append([])
        for scores, counts in counted:
            status = scores.status[:, index]
            all_rows = _RowsSummary(intervals, counts, index, None)
            by_slice = (
                None
                if slices is None
                else [(part.value, _RowsSummary(intervals, counts, index, part.rows)) for part in slices]
            )
            flaky = flaky_rows(counts, index)
            unscored = _count_unscored(results, scores, index)
            reason = _frequent_reason(results, scores.evaluator, index) if unscored else None
            by_variant[-1].append(_EvaluatorOnVariant(scores.name, status, all_rows, by_slice, flaky, unscored, reason))
    intervals.draw()  # All intervals at once: columns of one length share their draws.
    return EvaluationSummary(
        [
            _summarize_variant(results, index, name, [evaluator.summarize() for evaluator in by_variant[index]])
            for index, name in enumerate(results.variants)
        ]
    )


def _count_unscored(results: ResultArrays, scores: ScoreArrays, variant: int) -> int:
    """Count the cells with an answer that the evaluator did not score."""
    status = scores.status[:, variant]
    is_unscored = (status == SKIPPED) | (status == ERROR)
    others = (other.name for other in results.scores if other.evaluator == scores.evaluator)
    if not any(name.startswith(f"{scores.name}.") for name in others):
        # A named score may be missing. An evaluator that returns named scores has none of its own.
        is_unscored |= (status == ABSENT) & (results.cells.status[:, variant] == DONE)
    return int(np.count_nonzero(is_unscored))


def _frequent_reason(results: ResultArrays, evaluator: int, variant: int) -> str | None:
    """Return the most frequent reason why the evaluator did not score, in words."""
    most_frequent = results.reasons.get((evaluator, variant), Counter()).most_common(1)
    return reason_text(most_frequent[0][0][1]) if most_frequent else None


def flaky_rows(counts: CountedScores, variant: int) -> NDArray[np.bool_] | None:
    """Rows whose repeats differ in passing, or by more than FLAKY_DEVIATION in score. None without repeats."""
    passed, score = counts.passed[:, variant], counts.score[:, variant]
    if passed.shape[-1] == 1:
        return None
    differs = (passed == 1).any(axis=-1) & (passed == 0).any(axis=-1)
    mean = row_means(score)[:, np.newaxis]
    deviation = np.sqrt(np.nan_to_num(row_means((score - mean) ** 2)))
    return differs | (deviation > FLAKY_DEVIATION + 1e-12)


def mean_or_none(values: FloatArray) -> float | None:
    return float(values.mean()) if len(values) else None


class _IntervalBatch:
    """Collects columns whose intervals are then drawn in one go."""

    def __init__(self) -> None:
        self._columns: list[FloatArray] = []
        self._intervals: list[Interval | None] = []

    def add(self, column: FloatArray) -> int:
        self._columns.append(column)
        return len(self._columns) - 1

    def draw(self) -> None:
        self._intervals = bootstrap_intervals(self._columns)

    def interval(self, index: int) -> Interval | None:
        return self._intervals[index]


class _RowsSummary:
    """Some or all rows of a variant, for one evaluator."""

    def __init__(
        self, intervals: _IntervalBatch, counts: CountedScores, variant: int, rows: NDArray[np.int64] | None
    ) -> None:
        passed, score, is_counted = counts.passed[:, variant], counts.score[:, variant], counts.is_counted[:, variant]
        if rows is not None:
            passed, score, is_counted = passed[rows], score[rows], is_counted[rows]
        self._intervals = intervals
        self.n = int(np.count_nonzero(is_counted.any(axis=-1)))
        self._passes, self._scores = _drop_nan(row_means(passed)), _drop_nan(row_means(score))
        self._pass_interval = intervals.add(self._passes) if passed.shape[-1] > 1 else None
        self._mean_interval = intervals.add(self._scores)

    def figures(self) -> dict[str, Any]:
        """Return the figures that summaries of evaluators and of slices share."""
        if self._pass_interval is None:
            pass_ci = wilson_interval(int(self._passes.sum()), len(self._passes))
        else:
            pass_ci = self._intervals.interval(self._pass_interval)
        return {
            "n": self.n,
            "pass_rate": mean_or_none(self._passes),
            "pass_ci": pass_ci,
            "mean": mean_or_none(self._scores),
            "mean_ci": self._intervals.interval(self._mean_interval),
        }


class _EvaluatorOnVariant(msgspec.Struct, frozen=True):
    """One evaluator on one variant, before its intervals are drawn."""

    name: str
    status: NDArray[np.int8]
    all_rows: _RowsSummary
    slices: list[tuple[Any, _RowsSummary]] | None
    flaky: NDArray[np.bool_] | None
    unscored: int
    unscored_reason: str | None

    def summarize(self) -> EvaluatorSummary:
        return EvaluatorSummary(
            name=self.name,
            scored=int(np.count_nonzero(self.status == SCORED)),
            unscored=self.unscored,
            unscored_reason=self.unscored_reason,
            errors=int(np.count_nonzero(self.status == ERROR)),
            skipped=int(np.count_nonzero(self.status == SKIPPED)),
            ci="wilson" if self.status.shape[-1] == 1 else "bootstrap",
            flaky=None if self.flaky is None else int(np.count_nonzero(self.flaky)),
            slices=None
            if self.slices is None
            else [SliceSummary(value=value, **part.figures()) for value, part in self.slices if part.n],
            **self.all_rows.figures(),
        )


def _summarize_variant(
    results: ResultArrays, index: int, name: str, evaluators: list[EvaluatorSummary]
) -> VariantSummary:
    cells = results.cells
    status = cells.status[:, index]
    seconds, costs = _drop_nan(cells.latency[:, index][status == DONE]), _drop_nan(cells.cost[:, index])
    p50, p95 = np.quantile(seconds, (0.5, 0.95)) if len(seconds) else (None, None)
    return VariantSummary(
        name=name,
        cells=int(np.count_nonzero((status == DONE) | (status == FAILED))),
        failed=int(np.count_nonzero(status == FAILED)),
        cost=float(costs.sum()) if len(costs) else None,
        latency=Latencies(None if p50 is None else float(p50), None if p95 is None else float(p95)),
        evaluators=evaluators,
    )


def _drop_nan(values: FloatArray) -> FloatArray:
    return values[~np.isnan(values)]
