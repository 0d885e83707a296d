"""Limiting: calls of an evaluation that may make only so many in so many seconds, in whatever processes they are made.

The evaluation's row says until when calls have been given out. A process takes the next few at once, half a second's
worth, and makes each when it is due. What it was too busy to make in time is lost: made later, they would be too many.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from palaver.evaluation.plan.request import Rate
from palaver.storage.database import Database
from palaver.storage.evaluations import slices

_MAX_BATCH, _BATCH_SECONDS = 50, 0.5
"""Calls that are taken at once, and seconds for which they are enough."""
_MAX_LATE_S = 0.05
"""Seconds that a call may be late, and one interval."""


class RateLimiter:
    """One evaluation's, in one process."""

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
        """Until the next call may be made."""
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
        first = first or self._now()  # It is gone: whoever runs it will be told so.
        step = timedelta(seconds=self._interval)
        self._due = [first + number * step for number in reversed(range(self._count))]
