"""A rate limit for the calls of an evaluation, shared by all processes.

The evaluation's row stores until when calls are assigned. A process reserves the calls of the next half second and
makes each when it is due. Reserved calls that are missed are lost: making them later would exceed the rate.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from palaver.evaluation.plan.request import Rate
from palaver.storage.database import Database
from palaver.storage.evaluations import slices

_MAX_BATCH, _BATCH_SECONDS = 50, 0.5
"""Calls reserved at once, and the seconds that they should last."""
_MAX_LATE_S = 0.05
"""How late a call may be, in addition to one interval."""


class RateLimiter:
    """The limiter of one evaluation in one process."""

    def __init__(
        self, database: Database, project: str, evaluation: str, rate: Rate, now: Callable[[], datetime]
    ) -> None:
        self._database = database
        self._of = project, evaluation
        self._interval = rate.seconds / rate.calls
        self._count = max(1, min(_MAX_BATCH, int(_BATCH_SECONDS / self._interval)))
        self._late = timedelta(seconds=self._interval + _MAX_LATE_S)
        self._now = now
        self._due: list[datetime] = []  # The next one last.
        self._asking = asyncio.Lock()

    async def wait(self) -> None:
        """Wait until the next call may be made."""
        async with self._asking:
            oldest = self._now() - self._late
            while self._due and self._due[-1] < oldest:
                self._due.pop()
            if not self._due:
                await self._ask()
            due = self._due.pop()
        if (seconds := (due - self._now()).total_seconds()) > 0:
            await asyncio.sleep(seconds)

    async def _ask(self) -> None:
        first = await self._database.write(slices.reserve_calls, *self._of, self._interval, self._count, self._now())
        first = first or self._now()  # The evaluation is gone; the worker will notice.
        step = timedelta(seconds=self._interval)
        self._due = [first + number * step for number in reversed(range(self._count))]
