"""Housekeeping: now and then, what nobody needs any more is let go of, a little at a time."""

import asyncio
import logging
from collections.abc import Callable
from datetime import date, datetime, timedelta

from palaver.core.retention import Keep
from palaver.errors import PalaverError
from palaver.storage import housekeeping
from palaver.storage.database import Database
from palaver.storage.spans import days as span_days
from palaver.storage.spans import retention as span_retention
from palaver.storage.testsets import sweeping as testset_sweeping

log = logging.getLogger("palaver.storage")

EVERY = 60.0
"""Seconds."""
_IN_MEMORY = 1_000
"""So many runs at most are kept in a database in memory, which nobody else would ever empty,"""
_SPANS_IN_MEMORY = 10_000
"""and so many spans."""
_FOR_EVER = Keep()


class Housekeeping:
    """Keeps one database tidy. It does no harm if several processes do so."""

    def __init__(
        self,
        database: Database,
        *,
        run_days: float,
        spans: Keep = _FOR_EVER,
        now: Callable[[], datetime],
        every: float = EVERY,
    ) -> None:
        self._database = database
        self._run_days = run_days
        self._spans = spans
        self._now = now
        self._every = every
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """From now on."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work_on())

    async def end(self) -> None:
        """No more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def tidy(self) -> None:
        """Let go of all that is due."""
        now = self._now()
        await self._all(housekeeping.forget_files, now)
        await self._database.write(housekeeping.forget_answers, now)
        await testset_sweeping.sweep_dead(self._database, now)
        if self._run_days:
            await self._all(housekeeping.forget_old_runs, now - timedelta(days=self._run_days))
        await self._tidy_spans(now.date())
        if self._database.place is None and self._database.kind == "sqlite":
            await self._all(housekeeping.forget_all_but, _IN_MEMORY)
            await self._all(span_retention.let_go_all_but, _SPANS_IN_MEMORY)

    async def _tidy_spans(self, today: date) -> None:
        """Let go of days that are too old, then of as many more as it takes; and make room for the days to come."""
        if self._database.kind == "postgresql":
            await self._database.write(span_days.make_ahead, today)
        for before, project in await self._database.read(span_retention.due, self._spans, today):
            await self._all(span_retention.let_go, before, project)
        if self._spans.bytes:
            first = await self._database.read(span_days.over, self._spans.bytes)
            if first is not None:
                await self._all(span_retention.let_go, first)

    async def _all(self, work: Callable[..., int], *given: object) -> None:
        while await self._database.write(work, *given):  # noqa: ASYNC110 - in pieces
            await asyncio.sleep(0)  # Others want to write, too.

    async def _work_on(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            try:
                await self.tidy()
            except PalaverError as error:
                log.debug("What is old could not be let go of: %s", error.message)
            except Exception:
                log.exception("Housekeeping failed")
