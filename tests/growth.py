"""Assert how the processor time of a call grows with its input, measured within one run.

A limit in seconds depends on the machine and on coverage; the ratio of two calls depends on the code alone.
"""

import time
from collections.abc import Callable
from typing import TypeVar

GROWTH_FACTOR = 16
"""Ratio of the large input to the small one."""
ATTEMPTS = 3
"""A ratio that is too high is measured again: other processes disturb caches and clocks."""
MIN_SECONDS = 0.001
"""Shorter calls count as this long: the clock is not precise enough."""

T = TypeVar("T")


def assert_linear(call: Callable[[T], object], make: Callable[[int], T], size: int) -> None:
    """Assert that the cost of `call(make(size))` is at most 4 times linear; quadratic cost would be 16 times linear."""
    _assert_ratio(call, make(size // GROWTH_FACTOR), make(size), 4 * GROWTH_FACTOR)


def assert_bounded(call: Callable[[T], object], make: Callable[[int], T], size: int) -> None:
    """Assert that `call(make(16 * size))` costs at most 4 times as much as `call(make(size))`."""
    _assert_ratio(call, make(size), make(size * GROWTH_FACTOR), GROWTH_FACTOR / 4)


def _assert_ratio(call: Callable[[T], object], small: T, large: T, max_ratio: float) -> None:
    ratios: list[float] = []
    for _ in range(ATTEMPTS):
        base = max(min(processor_seconds(call, small) for _ in range(3)), MIN_SECONDS)
        ratios.append(processor_seconds(call, large) / base)
        if ratios[-1] <= max_ratio:
            return
    raise AssertionError(f"{GROWTH_FACTOR} times as much took {ratios} times as long, at most {max_ratio} was expected")


def processor_seconds(call: Callable[[T], object], value: T) -> float:
    """Processor time of one call on this thread."""
    start = time.thread_time()
    call(value)
    return time.thread_time() - start
