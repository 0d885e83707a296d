"""The summary of a run: for each variant and evaluator how many passed, how good it was, and how sure that is.

Without repeats the share of passes has Wilson's interval. With repeats the row is the unit: its share of passes and
its mean score, and both intervals are a bootstrap over rows.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from palaver.evaluation.reading.columns import DONE, ERROR, FAILED, SKIPPED, Counted, Floats, Results, by_row, counted
from palaver.evaluation.reading.figures import (
    EvaluationSummary,
    EvaluatorSummary,
    Interval,
    Latencies,
    SliceSummary,
    VariantSummary,
)
from palaver.evaluation.reading.slices import Cut
from palaver.evaluation.reading.statistics.bootstrap import intervals
from palaver.evaluation.reading.statistics.wilson import wilson

UNSTEADY = 0.1
"""The standard deviation of a row's scores over its repeats above which it is flaky."""


@np.errstate(over="ignore", invalid="ignore")  # Scores may be any numbers.
def summary(results: Results, cut: Sequence[Cut] | None = None) -> EvaluationSummary:
    """All figures of a run; of the slices of a column, too, where they are given."""
    figures = _Figures(results.id)
    parts = [(scores, counted(scores, results.cells, results.failed_as)) for scores in results.scores]
    found: list[list[_Found]] = []
    for place in range(results.shape.variants):
        found.append([])
        for scores, counts in parts:
            status = scores.status[:, place]
            whole = _Part(figures, counts, place, None)
            slices = None if cut is None else [(one.value, _Part(figures, counts, place, one.rows)) for one in cut]
            found[-1].append(_Found(scores.name, status, whole, slices, flaky(counts, place)))
    figures.draw()  # All intervals at once: columns of one length share their draws.
    return EvaluationSummary(
        [
            _variant(results, place, name, [one.told() for one in found[place]])
            for place, name in enumerate(results.variants)
        ]
    )


def flaky(counts: Counted, variant: int) -> NDArray[np.bool_] | None:
    """Which rows' repeats differ: some passed and some did not, or their scores are far apart. None without repeats."""
    passed, score = counts.passed[:, variant], counts.score[:, variant]
    if passed.shape[-1] == 1:
        return None
    differs = (passed == 1).any(axis=-1) & (passed == 0).any(axis=-1)
    mean = by_row(score)[:, np.newaxis]
    deviation = np.sqrt(np.nan_to_num(by_row((score - mean) ** 2)))
    return differs | (deviation > UNSTEADY + 1e-12)


def share(values: Floats) -> float | None:
    """The mean of what is there; None of nothing."""
    return float(values.mean()) if len(values) else None


class _Figures:
    """Columns whose intervals are wanted; they are drawn together."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._columns: list[Floats] = []
        self._drawn: list[Interval | None] = []

    def ask(self, column: Floats) -> int:
        """Want the interval of a column's mean: its number."""
        self._columns.append(column)
        return len(self._columns) - 1

    def draw(self) -> None:
        """Find all that were asked for."""
        self._drawn = intervals(self._columns, self._seed)

    def interval(self, number: int) -> Interval | None:
        """One of them."""
        return self._drawn[number]


class _Part:
    """Some or all rows of a variant, for one evaluator."""

    def __init__(self, figures: _Figures, counts: Counted, variant: int, rows: NDArray[np.int64] | None) -> None:
        passed, score, is_counted = counts.passed[:, variant], counts.score[:, variant], counts.is_counted[:, variant]
        if rows is not None:
            passed, score, is_counted = passed[rows], score[rows], is_counted[rows]
        self._figures = figures
        self._repeats = passed.shape[-1]
        self.n = int(np.count_nonzero(is_counted.any(axis=-1)))
        self._passes, self._scores = _present(by_row(passed)), _present(by_row(score))
        self._pass_interval = figures.ask(self._passes) if self._repeats > 1 else None
        self._mean_interval = figures.ask(self._scores)

    def told(self) -> tuple[float | None, Interval | None, float | None, Interval | None]:
        """Share of passes, mean score, and the interval of each."""
        if self._pass_interval is None:
            pass_ci = wilson(int(self._passes.sum()), len(self._passes))
        else:
            pass_ci = self._figures.interval(self._pass_interval)
        return share(self._passes), pass_ci, share(self._scores), self._figures.interval(self._mean_interval)


class _Found(msgspec.Struct, frozen=True):
    """One evaluator on one variant, before its intervals are drawn."""

    name: str
    status: NDArray[np.int8]
    whole: _Part
    slices: list[tuple[Any, _Part]] | None
    flaky: NDArray[np.bool_] | None

    def told(self) -> EvaluatorSummary:
        pass_rate, pass_ci, mean, mean_ci = self.whole.told()
        return EvaluatorSummary(
            name=self.name,
            n=self.whole.n,
            errors=int(np.count_nonzero(self.status == ERROR)),
            skipped=int(np.count_nonzero(self.status == SKIPPED)),
            pass_rate=pass_rate,
            pass_ci=pass_ci,
            ci="wilson" if self.status.shape[-1] == 1 else "bootstrap",
            mean=mean,
            mean_ci=mean_ci,
            flaky=None if self.flaky is None else int(np.count_nonzero(self.flaky)),
            slices=None if self.slices is None else [_slice(value, part) for value, part in self.slices if part.n],
        )


def _slice(value: Any, part: _Part) -> SliceSummary:
    pass_rate, pass_ci, mean, mean_ci = part.told()
    return SliceSummary(value=value, n=part.n, pass_rate=pass_rate, pass_ci=pass_ci, mean=mean, mean_ci=mean_ci)


def _variant(results: Results, place: int, name: str, evaluators: list[EvaluatorSummary]) -> VariantSummary:
    cells = results.cells
    status = cells.status[:, place]
    seconds, spent = _present(cells.latency[:, place][status == DONE]), _present(cells.cost[:, place])
    low, high = np.quantile(seconds, (0.5, 0.95)) if len(seconds) else (None, None)
    return VariantSummary(
        name=name,
        cells=int(np.count_nonzero((status == DONE) | (status == FAILED))),
        failed=int(np.count_nonzero(status == FAILED)),
        cost=float(spent.sum()) if len(spent) else None,
        latency=Latencies(None if low is None else float(low), None if high is None else float(high)),
        evaluators=evaluators,
    )


def _present(values: Floats) -> Floats:
    return values[~np.isnan(values)]
