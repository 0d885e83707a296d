"""A rate limit for the calls of an evaluation, shared by all processes.

The evaluation's database row stores the time until which calls are reserved. A process reserves the calls of the next
half second and makes each when it is due. Missed calls are lost: making them later would exceed the rate.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from palaver.evaluation.plan.request import Rate
from palaver.storage.database import Database
from palaver.storage.evaluations import slices

_MAX_BATCH_SIZE, _BATCH_SECONDS = 50, 0.5
"""Maximum number of calls reserved at once, and the seconds that they should last."""
_MAX_LATE_S = 0.05
"""Maximum lateness of a call, in addition to one interval."""


class RateLimiter:
    """The limiter of one evaluation in one process."""

    def __init__(
        self, database: Database, project: str, evaluation: str, rate: Rate, now: Callable[[], datetime]
    ) -> None:
        self._database = database
        self._key = project, evaluation
        self._interval = rate.seconds / rate.calls
        self._count = max(1, min(_MAX_BATCH_SIZE, int(_BATCH_SECONDS / self._interval)))
        self._max_delay = timedelta(seconds=self._interval + _MAX_LATE_S)
        self._now = now
        self._reserved: list[datetime] = []  # In descending order.
        self._lock = asyncio.Lock()

    async def wait(self) -> None:
        async with self._lock:
            oldest = self._now() - self._max_delay
            while self._reserved and self._reserved[-1] < oldest:
                self._reserved.pop()
            if not self._reserved:
                await self._reserve()
            start_at = self._reserved.pop()
        if (seconds := (start_at - self._now()).total_seconds()) > 0:
            await asyncio.sleep(seconds)

    async def _reserve(self) -> None:
        first = await self._database.write(slices.reserve_calls, *self._key, self._interval, self._count, self._now())
        first = first or self._now()  # The evaluation is gone; the worker will notice.
        step = timedelta(seconds=self._interval)
        self._reserved = [first + number * step for number in reversed(range(self._count))]
