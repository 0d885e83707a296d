"""Chance: random hex digits from the operating system, drawn in lots, because each draw is a call into the kernel."""

import os
import time

from palaver.core.ids import sortable

_LOT = 2048


class Chance:
    """A supply of random digits. A process that forks throws its supply away: no two may have the same."""

    def __init__(self) -> None:
        self._lot = ""
        self._at = 0
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._empty)

    def hex(self, digits: int) -> str:
        """So many digits that nobody can guess."""
        at = self._at
        self._at = end = at + digits
        if end > len(self._lot):
            self._lot, self._at, at, end = os.urandom(_LOT).hex(), digits, 0, digits
        return self._lot[at:end]

    def _empty(self) -> None:
        self._lot, self._at = "", 0


draw = Chance().hex


def new_id(prefix: str) -> str:
    """`conv_` and the like, and 26 characters: ten that sort by time, and sixteen that nobody can guess."""
    return f"{prefix}_{sortable(time.time_ns() // 1_000_000, 0)[:10]}{draw(16)}"
