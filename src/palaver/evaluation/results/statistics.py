"""Intervals and tests for results: bootstrap, Wilson, McNemar, Holm. 95% throughout.

The percentile bootstrap draws n rows with replacement out of n. The mean of a resample depends only on how often each
value is drawn, so the cheapest of three equivalent ways is used:

- two values: the count of the greater one is binomial;
- few values: their counts are multinomial;
- many values: rows are drawn and counted. All columns of one length share the draws.

If that takes more than MAX_DRAWS draws, the values are first grouped into BIN_COUNT bins, each represented by its
mean. Draws always have the same seed, so equal scores have equal figures: in every process and in every evaluation.
"""

from collections.abc import Sequence
from math import ceil, exp, isfinite, lgamma, log, sqrt

import numpy as np
from numpy.typing import NDArray

from palaver.evaluation.results.figures import Interval

FloatArray = NDArray[np.float64]

RESAMPLES = 2_000
MAX_MULTINOMIAL_VALUES = 64
"""Up to this number of distinct values a multinomial draw is cheaper than drawing rows."""
MAX_DRAWS = 200_000_000
"""Maximum number of rows drawn for one length, over all resamples."""
BIN_COUNT = 4_096
_SEED = 0
_DRAW_BATCH = 100_000
"""Rows drawn at a time; fits the processor's cache."""


def percentile_interval(means: FloatArray) -> Interval:
    """The interval between the lowest and the highest 2.5%."""
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def bootstrap_intervals(columns: Sequence[FloatArray]) -> list[Interval | None]:
    """The interval of the mean of each column; None for an empty one."""
    return [percentile_interval(means) if len(means) else None for means in resample_means(columns)]


def resample_means(columns: Sequence[FloatArray]) -> list[FloatArray]:
    """For each column the means of its resamples, unordered; empty for an empty column."""
    means_by_column: list[FloatArray] = [np.empty(0)] * len(columns)
    by_length: dict[int, list[int]] = {}
    for index, column in enumerate(columns):
        if not len(column):
            continue
        values, counts = np.unique(column, return_counts=True)
        if len(values) > MAX_MULTINOMIAL_VALUES and len(column) * RESAMPLES > MAX_DRAWS:
            values, counts = _bin_values(column)
        elif len(values) > MAX_MULTINOMIAL_VALUES:
            by_length.setdefault(len(column), []).append(index)
            continue
        means_by_column[index] = _resample_few_values(values, counts)
    for length, indexes in by_length.items():
        means = _resample_rows(np.stack([np.sort(columns[index]) for index in indexes]), length)
        for index, column_means in zip(indexes, means, strict=True):
            means_by_column[index] = column_means
    return means_by_column


def _resample_few_values(values: FloatArray, counts: NDArray[np.int64]) -> FloatArray:
    count = int(counts.sum())
    if len(values) == 1:
        return np.full(RESAMPLES, values[0])
    random = np.random.default_rng(_SEED)
    if len(values) == 2:
        draws = random.binomial(count, counts[1] / count, RESAMPLES)
        return values[0] + (values[1] - values[0]) * (draws / count)
    return random.multinomial(count, counts / count, RESAMPLES) @ values / count


def _resample_rows(columns: FloatArray, length: int) -> FloatArray:
    random = np.random.default_rng(_SEED)
    means = np.empty((RESAMPLES, len(columns)))
    max_batch_size = max(1, _DRAW_BATCH // length)
    for first in range(0, RESAMPLES, max_batch_size):
        batch_size = min(max_batch_size, RESAMPLES - first)
        indexes = random.integers(0, length, (batch_size, length))
        indexes += np.arange(batch_size)[:, np.newaxis] * length  # Offsets, so that one bincount covers all resamples.
        draws = np.bincount(indexes.reshape(-1), minlength=batch_size * length).reshape(batch_size, length)
        means[first : first + batch_size] = draws.astype(np.float64) @ columns.T
    return means.T / length


def _bin_values(column: FloatArray) -> tuple[FloatArray, NDArray[np.int64]]:
    halves = column / 2 - column.min() / 2  # Halved: the difference of two huge numbers may overflow.
    bins = np.minimum((halves / halves.max() * BIN_COUNT).astype(np.int64), BIN_COUNT - 1)
    counts, sums = np.bincount(bins, minlength=BIN_COUNT), np.bincount(bins, column, BIN_COUNT)
    return sums[counts > 0] / counts[counts > 0], counts[counts > 0]


def holm_adjust(p_values: Sequence[float]) -> list[float]:
    """Return the p-values after Holm's correction for multiple tests, in the same order."""
    adjusted = [1.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, p_values[index] * (len(p_values) - rank)))
        adjusted[index] = highest
    return adjusted


def mcnemar_test(worse: int, better: int) -> float:
    """Return the two-sided p-value of McNemar's exact test."""
    count, smaller = worse + better, min(worse, better)
    if 2 * smaller == count:  # Perfectly even, also if nothing changed.
        return 1.0
    # Binomial terms from the largest down, each from the one before: no huge numbers.
    largest_term = exp(lgamma(count + 1) - lgamma(smaller + 1) - lgamma(count - smaller + 1) - count * log(2))
    total, term = 0.0, 1.0
    for k in range(smaller, -1, -1):
        total += term
        term *= k / (count - k + 1)
        if term < total * 1e-17:
            break
    return min(1.0, 2 * largest_term * total)


_Z_ROUNDED = 1.96


def cases_needed(difference: float, square: float) -> int | None:
    """The number of similar rows at which the interval would exclude 0; None if no number would.

    That is n with 1.96 * sqrt((q - d²) / n) = |d|: d is the mean difference of pairs, and q the mean of its square,
    which for passes is the share of rows that changed.
    """
    if difference == 0 or not isfinite(difference) or not isfinite(square):
        return None
    ratio = max(0.0, square / difference / difference - 1)  # In this order: the square of a tiny number is 0.
    return max(1, ceil(_Z_ROUNDED * _Z_ROUNDED * ratio - 1e-9)) if ratio < 1e15 else None


Z_95 = 1.959963984540054
"""Standard deviations on each side that cover 95% of a normal distribution."""


def wilson_interval(successes: int, count: int) -> Interval | None:
    """Wilson's interval of a proportion; None for 0 of 0."""
    if count == 0:
        return None
    share = successes / count
    denominator = 1 + Z_95 * Z_95 / count
    centre = (share + Z_95 * Z_95 / (2 * count)) / denominator
    half_width = Z_95 * sqrt(share * (1 - share) / count + Z_95 * Z_95 / (4 * count * count)) / denominator
    # At the ends the formula has rounding errors.
    return (0.0 if successes == 0 else centre - half_width, 1.0 if successes == count else centre + half_width)
