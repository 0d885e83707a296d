"""Assert how the processor time of a call grows with its input, measured within one run.

A limit in seconds depends on the machine and on coverage; the ratio of two calls depends on the code alone.
"""

import time
from collections.abc import Callable
from typing import TypeVar

GROWTH_FACTOR = 16
"""How much larger the large input is."""
ATTEMPTS = 3
"""A ratio that is too high is measured again: whatever else runs on the machine disturbs caches and clocks."""
MIN_SECONDS = 0.001
"""Shorter calls are measured as if they took so long: below that, the clock says little."""

T = TypeVar("T")


def assert_linear(call: Callable[[T], object], make: Callable[[int], T], size: int) -> None:
    """Assert that `call(make(size))` costs at most a small multiple of its share: a square would cost 16 times that."""
    _assert_ratio(call, make(size // GROWTH_FACTOR), make(size), 4 * GROWTH_FACTOR)


def assert_bounded(call: Callable[[T], object], make: Callable[[int], T], size: int) -> None:
    """Assert that `call(make(16 * size))` costs about as much as `call(make(size))`: it stops somewhere before that."""
    _assert_ratio(call, make(size), make(size * GROWTH_FACTOR), GROWTH_FACTOR / 4)


def _assert_ratio(call: Callable[[T], object], small: T, large: T, most: float) -> None:
    ratios: list[float] = []
    for _ in range(ATTEMPTS):
        base = max(min(processor_seconds(call, small) for _ in range(3)), MIN_SECONDS)
        ratios.append(processor_seconds(call, large) / base)
        if ratios[-1] <= most:
            return
    raise AssertionError(f"{GROWTH_FACTOR} times as much took {ratios} times as long, at most {most} was expected")


def processor_seconds(call: Callable[[T], object], value: T) -> float:
    """Processor time of one call on this thread."""
    since = time.thread_time()
    call(value)
    return time.thread_time() - since
