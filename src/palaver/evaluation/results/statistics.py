"""Intervals and tests for results: bootstrap, Wilson, McNemar, Holm. 95 % throughout."""

import hashlib
from collections.abc import Sequence
from math import ceil, exp, isfinite, lgamma, log, sqrt

import numpy as np
from numpy.typing import NDArray

from palaver.evaluation.results.figures import Interval

FloatArray = NDArray[np.float64]

RESAMPLES = 2_000
MAX_MULTINOMIAL_VALUES = 64
"""Values of which a multinomial draw is cheaper than to draw rows."""
MAX_DRAWS = 200_000_000
"""Rows that are drawn for one length, over all resamples."""
BIN_COUNT = 4_096
_DRAW_BATCH = 100_000
"""Rows that are drawn at once: they stay in the processor's cache."""


def percentile_interval(means: FloatArray) -> Interval:
    """What lies between the lowest and the highest 2.5 % of resampled means."""
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def bootstrap_intervals(columns: Sequence[FloatArray], seed: str) -> list[Interval | None]:
    """The interval of the mean of each column; None of an empty one."""
    return [percentile_interval(means) if len(means) else None for means in resample_means(columns, seed)]


def resample_means(columns: Sequence[FloatArray], seed: str) -> list[FloatArray]:
    """For each column the means of its resamples, without order; none of an empty column."""
    found: list[FloatArray] = [np.empty(0)] * len(columns)
    many: dict[int, list[int]] = {}
    for place, column in enumerate(columns):
        if not len(column):
            continue
        values, counts = np.unique(column, return_counts=True)
        if len(values) > MAX_MULTINOMIAL_VALUES and len(column) * RESAMPLES > MAX_DRAWS:
            values, counts = _bin_values(column)
        elif len(values) > MAX_MULTINOMIAL_VALUES:
            many.setdefault(len(column), []).append(place)
            continue
        found[place] = _resample_few_values(values, counts, seed)
    for length, places in many.items():
        means = _resample_rows(np.stack([columns[place] for place in places]), seed, length)
        for place, row in zip(places, means, strict=True):
            found[place] = row
    return found


def _resample_few_values(values: FloatArray, counts: NDArray[np.int64], seed: str) -> FloatArray:
    count = int(counts.sum())
    if len(values) == 1:
        return np.full(RESAMPLES, values[0])
    random = _make_generator(seed, "few")
    if len(values) == 2:
        drawn = random.binomial(count, counts[1] / count, RESAMPLES)
        return values[0] + (values[1] - values[0]) * (drawn / count)
    return random.multinomial(count, counts / count, RESAMPLES) @ values / count


def _resample_rows(columns: FloatArray, seed: str, length: int) -> FloatArray:
    random = _make_generator(seed, "many")
    means = np.empty((RESAMPLES, len(columns)))
    at_once = max(1, _DRAW_BATCH // length)
    for first in range(0, RESAMPLES, at_once):
        some = min(at_once, RESAMPLES - first)
        places = random.integers(0, length, (some, length))
        places += np.arange(some)[:, np.newaxis] * length  # So that one count tells all resamples apart.
        drawn = np.bincount(places.reshape(-1), minlength=some * length).reshape(some, length)
        means[first : first + some] = drawn.astype(np.float64) @ columns.T
    return means.T / length


def _bin_values(column: FloatArray) -> tuple[FloatArray, NDArray[np.int64]]:
    """Few values in place of many: the mean of each bin, and how many are in it."""
    halves = column / 2 - column.min() / 2  # The difference of two huge numbers may be none.
    bins = np.minimum((halves / halves.max() * BIN_COUNT).astype(np.int64), BIN_COUNT - 1)
    counts, sums = np.bincount(bins, minlength=BIN_COUNT), np.bincount(bins, column, BIN_COUNT)
    return sums[counts > 0] / counts[counts > 0], counts[counts > 0]


def _make_generator(seed: str, way: str) -> np.random.Generator:
    digest = hashlib.blake2b(f"{way}:{seed}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))


def holm_adjust(ps: Sequence[float]) -> list[float]:
    """The adjusted p of each, in the same order: the smallest times their number, the next times one less."""
    adjusted = [1.0] * len(ps)
    least = 0.0
    for rank, place in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        least = max(least, min(1.0, ps[place] * (len(ps) - rank)))
        adjusted[place] = least
    return adjusted


def mcnemar_test(worse: int, better: int) -> float:
    """The two-sided p: how likely so uneven a split is, if each changed row had fallen either way by a fair coin."""
    count, least = worse + better, min(worse, better)
    if 2 * least == count:  # As even as can be; and nothing changed at all.
        return 1.0
    # The terms of the binomial distribution from the greatest down, each by the one before: no huge numbers.
    first = exp(lgamma(count + 1) - lgamma(least + 1) - lgamma(count - least + 1) - count * log(2))
    total, term = 0.0, 1.0
    for k in range(least, -1, -1):
        total += term
        term *= k / (count - k + 1)
        if term < total * 1e-17:
            break
    return min(1.0, 2 * first * total)


_Z_ROUNDED = 1.96


def cases_needed(difference: float, square: float) -> int | None:
    """The rows at which the interval would no longer hold 0, if they were like those at hand; None: no number would do.

    That is n with 1.96 * sqrt((q - d²) / n) = |d|: d the mean difference of pairs, and q the mean of its square, which
    for passes is the share of rows that changed.
    """
    if difference == 0 or not isfinite(difference) or not isfinite(square):
        return None
    ratio = max(0.0, square / difference / difference - 1)  # In this order: the square of something tiny is 0.
    return max(1, ceil(_Z_ROUNDED * _Z_ROUNDED * ratio - 1e-9)) if ratio < 1e15 else None


Z_95 = 1.959963984540054
"""So many standard deviations to each side hold 95 % of a normal distribution."""


def wilson_interval(successes: int, count: int) -> Interval | None:
    """The interval of a share; None of nothing."""
    if count == 0:
        return None
    share = successes / count
    shrunk = 1 + Z_95 * Z_95 / count
    centre = (share + Z_95 * Z_95 / (2 * count)) / shrunk
    width = Z_95 * sqrt(share * (1 - share) / count + Z_95 * Z_95 / (4 * count * count)) / shrunk
    # At the ends the formula is exact only up to rounding.
    return (0.0 if successes == 0 else centre - width, 1.0 if successes == count else centre + width)
