"""Random ids that sort by creation time."""

import os
import time
from functools import lru_cache

from palaver.core.ids import sortable_id

_REFILL_BYTES = 2048


class RandomHex:
    """Random hex digits, read from the operating system in bulk: each read is a system call.

    The supply is discarded after a fork, so that parent and child never share digits.
    """

    def __init__(self) -> None:
        self._lot = ""
        self._at = 0
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._empty)

    def hex(self, digits: int) -> str:
        at = self._at
        self._at = end = at + digits
        if end > len(self._lot):
            self._lot, self._at, at, end = os.urandom(_REFILL_BYTES).hex(), digits, 0, digits
        return self._lot[at:end]

    def _empty(self) -> None:
        self._lot, self._at = "", 0


random_hex = RandomHex().hex


def new_id(prefix: str) -> str:
    """Return the prefix and 26 characters: ten that sort by time and sixteen random hex digits."""
    return f"{prefix}_{sortable_id(time.time_ns() // 1_000_000, 0)[:10]}{random_hex(16)}"


def new_run_id() -> str:
    """Return `run_` and 26 characters, as `new_id` does."""
    return _run_id_prefix(time.time_ns() // 1_000_000) + random_hex(16)


@lru_cache(4)  # Under load many runs start in one millisecond.
def _run_id_prefix(milliseconds: int) -> str:
    return "run_" + sortable_id(milliseconds, 0)[:10]
