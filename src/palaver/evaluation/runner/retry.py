"""Retrying: which calls are worth another try, and when. What an author raised, or a caller got wrong, is not."""

import random
from collections.abc import Callable
from typing import Any

from palaver.core.events import RunFailed
from palaver.errors import Overloaded, UpstreamTimeout

TRANSIENT_STATUSES = frozenset({408, 425, 429, 502, 503, 504})
"""Statuses of what goes by."""
_TRANSIENT_CODES = frozenset({Overloaded.code, UpstreamTimeout.code})
_FIRST_DELAY_S, _MAX_DELAY_S = 0.5, 30.0
"""Seconds until the first retry, and at most until any; each doubles, give or take a half."""


def is_transient(failed: RunFailed) -> bool:
    """Is it worth another try? `details.retryable` has the last word."""
    said = failed.details.get("retryable")
    if isinstance(said, bool):
        return said
    return failed.status in TRANSIENT_STATUSES or failed.code in _TRANSIENT_CODES


def retry_delay(failed: RunFailed, tried: int, chance: Callable[[], float] = random.random) -> float:
    """Seconds until the next try after so many; if somebody said how long to wait, that is obeyed."""
    asked = _requested_delay(failed.details.get("retry_after"))
    if asked is not None:
        return asked
    return min(_MAX_DELAY_S, _FIRST_DELAY_S * 2 ** (tried - 1) * (0.5 + chance()))


def _requested_delay(seconds: Any) -> float | None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < float("inf"):
        return None
    return float(seconds)
