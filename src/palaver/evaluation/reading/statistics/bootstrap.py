"""The percentile bootstrap of means: what the mean might have been with other rows like these.

A resample is n rows drawn with replacement out of the n at hand. Its mean depends only on how often each value was
drawn, so it can be had in three ways that have the same distribution, and the cheapest is taken:

- two values: how often the greater one is drawn is binomial, n times with its share: one number for each resample;
- few values: how often each of them is drawn is multinomial, with their shares;
- many values: n places are drawn, and counted. The places know nothing of the values, so that all columns of one
  length are weighed with the same draws: each interval by itself is what it would have been with draws of its own.

Only above `MOST` draws (100,000 rows of many values) values are first gathered into narrow bins, each of which stands
for its own mean: what is lost is the spread within a bin, 1/4096 of the range.

Draws are seeded by a text, in every process alike: figures of a run repeat, and do not depend on what else is asked.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from palaver.evaluation.reading.figures import Interval

Floats = NDArray[np.float64]

RESAMPLES = 2_000
FEW = 64
"""Values of which a multinomial draw is cheaper than to draw rows."""
MOST = 200_000_000
"""Rows that are drawn for one length, over all resamples."""
BINS = 4_096
_AT_ONCE = 100_000
"""Rows that are drawn at once: they stay in the processor's cache."""


def interval_of(means: Floats) -> Interval:
    """What lies between the lowest and the highest 2.5 % of resampled means."""
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def intervals(columns: Sequence[Floats], seed: str) -> list[Interval | None]:
    """The interval of the mean of each column; None of an empty one."""
    return [interval_of(means) if len(means) else None for means in resampled(columns, seed)]


def resampled(columns: Sequence[Floats], seed: str) -> list[Floats]:
    """For each column the means of its resamples, without order; none of an empty column."""
    found: list[Floats] = [np.empty(0)] * len(columns)
    many: dict[int, list[int]] = {}
    for place, column in enumerate(columns):
        if not len(column):
            continue
        values, counts = np.unique(column, return_counts=True)
        if len(values) > FEW and len(column) * RESAMPLES > MOST:
            values, counts = _binned(column)
        elif len(values) > FEW:
            many.setdefault(len(column), []).append(place)
            continue
        found[place] = _of_few(values, counts, seed)
    for length, places in many.items():
        means = _of_many(np.stack([columns[place] for place in places]), seed, length)
        for place, row in zip(places, means, strict=True):
            found[place] = row
    return found


def _of_few(values: Floats, counts: NDArray[np.int64], seed: str) -> Floats:
    count = int(counts.sum())
    if len(values) == 1:
        return np.full(RESAMPLES, values[0])
    random = _random(seed, "few")
    if len(values) == 2:
        drawn = random.binomial(count, counts[1] / count, RESAMPLES)
        return values[0] + (values[1] - values[0]) * (drawn / count)
    return random.multinomial(count, counts / count, RESAMPLES) @ values / count


def _of_many(columns: Floats, seed: str, length: int) -> Floats:
    random = _random(seed, "many")
    means = np.empty((RESAMPLES, len(columns)))
    at_once = max(1, _AT_ONCE // length)
    for first in range(0, RESAMPLES, at_once):
        some = min(at_once, RESAMPLES - first)
        places = random.integers(0, length, (some, length))
        places += np.arange(some)[:, np.newaxis] * length  # So that one count tells all resamples apart.
        drawn = np.bincount(places.reshape(-1), minlength=some * length).reshape(some, length)
        means[first : first + some] = drawn.astype(np.float64) @ columns.T
    return means.T / length


def _binned(column: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Few values in place of many: the mean of each bin, and how many are in it."""
    halves = column / 2 - column.min() / 2  # The difference of two huge numbers may be none.
    bins = np.minimum((halves / halves.max() * BINS).astype(np.int64), BINS - 1)
    counts, sums = np.bincount(bins, minlength=BINS), np.bincount(bins, column, BINS)
    return sums[counts > 0] / counts[counts > 0], counts[counts > 0]


def _random(seed: str, way: str) -> np.random.Generator:
    digest = hashlib.blake2b(f"{way}:{seed}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))
