"""Those in this process who want to know what its own writes change."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from palaver.storage.notices import Change, Touched


class Watchers:
    """They are told in their own loops, by whichever thread has written."""

    def __init__(self) -> None:
        self._all: list[tuple[asyncio.AbstractEventLoop, Touched]] = []

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, touched: Touched) -> None:
        """Tell this one from now on, in the loop that runs here."""
        self._all.append((asyncio.get_running_loop(), touched))

    def tell(self, changes: Sequence[Change]) -> None:
        """Tell all of them."""
        for loop, touched in self._all:
            with suppress(RuntimeError):  # That loop is closed.
                loop.call_soon_threadsafe(touched, changes)
