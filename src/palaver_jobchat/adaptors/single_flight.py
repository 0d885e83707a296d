"""Work that many wait for is done once: whoever comes while it is under way joins.

A flight belongs to none of those who wait. One who goes away does not end it, and one who has waited long enough goes
on without. What failed is left alone for a while.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")

_MOST_REMEMBERED = 1000
log = logging.getLogger("palaver_jobchat")


class SingleFlight:
    """All that is under way, and what failed lately."""

    def __init__(self, *, now: Callable[[], float], longest: float, rest: float = 60.0) -> None:
        self._now = now
        self._longest = longest
        self._rest = rest
        self._flying: dict[str, asyncio.Task[Any]] = {}
        self._failed: dict[str, float] = {}

    def join(self, title: str, work: Callable[[], Coroutine[Any, Any, T]]) -> "asyncio.Task[T | None] | None":
        """The flight of this title, begun if need be. Nothing where it failed a short while ago."""
        if flying := self._flying.get(title):
            return flying
        failed = self._failed.get(title)
        if failed is not None and self._now() - failed < self._rest:
            return None
        # A context of its own: it may outlive the chat that happened to begin it.
        task = asyncio.create_task(self._fly(title, work), context=Context())
        self._flying[title] = task
        task.add_done_callback(lambda _: self._flying.pop(title, None))
        return task

    async def _fly(self, title: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        self._failed.pop(title, None)
        try:
            async with asyncio.timeout(self._longest):
                return await work()
        except Exception as error:  # What strangers send can fail in every way; those who wait go on without.
            reason = f"took more than {self._longest:g} s" if isinstance(error, TimeoutError) else str(error)
            log.warning("%s: %s. Not tried again for %g s.", title, reason or type(error).__name__, self._rest)
        self._failed[title] = self._now()
        if len(self._failed) > _MOST_REMEMBERED:
            del self._failed[next(iter(self._failed))]
        return None


async def wait_for(task: "asyncio.Task[T | None] | None", deadline: float | None = None) -> T | None:
    """What a flight brings; nothing if it brings nothing, or not until then (by the clock of the event loop)."""
    if task is None:
        return None
    left = None if deadline is None else max(0.0, deadline - asyncio.get_running_loop().time())
    # Not `shield`: this neither ends the flight with the one who waits, nor the one who waits with the flight.
    await asyncio.wait({task}, timeout=left)
    return task.result() if task.done() and not task.cancelled() else None
