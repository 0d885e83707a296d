"""Which failed calls are retried, and when. Errors of the workflow's code or of the request are not."""

import random
from collections.abc import Callable
from typing import Any

from palaver.core.events import RunFailed
from palaver.errors import Overloaded, UpstreamTimeout

TRANSIENT_STATUSES = frozenset({408, 425, 429, 502, 503, 504})
_TRANSIENT_CODES = frozenset({Overloaded.code, UpstreamTimeout.code})
_FIRST_DELAY_S, _MAX_DELAY_S = 0.5, 30.0
"""The delay doubles with each retry, with ±50 % jitter."""


def is_transient(failed: RunFailed) -> bool:
    """Whether to retry. `details.retryable` takes precedence."""
    retryable = failed.details.get("retryable")
    if isinstance(retryable, bool):
        return retryable
    return failed.status in TRANSIENT_STATUSES or failed.code in _TRANSIENT_CODES


def retry_delay(failed: RunFailed, tried: int, chance: Callable[[], float] = random.random) -> float:
    """Seconds until the next attempt; `retry_after` is respected."""
    requested = _requested_delay(failed.details.get("retry_after"))
    if requested is not None:
        return requested
    return min(_MAX_DELAY_S, _FIRST_DELAY_S * 2 ** (tried - 1) * (0.5 + chance()))


def _requested_delay(seconds: Any) -> float | None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < float("inf"):
        return None
    return float(seconds)
