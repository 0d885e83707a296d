"""Housekeeping: now and then, what nobody needs any more is let go of, a little at a time."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from palaver.errors import PalaverError
from palaver.storage import housekeeping
from palaver.storage.database import Database

log = logging.getLogger("palaver.storage")

EVERY = 60.0
"""Seconds."""
_IN_MEMORY = 1_000
"""So many runs at most are kept in a database in memory, which nobody else would ever empty."""


class Housekeeping:
    """Keeps one database tidy. It does no harm if several processes do so."""

    def __init__(
        self, database: Database, *, run_days: float, now: Callable[[], datetime], every: float = EVERY
    ) -> None:
        self._database = database
        self._run_days = run_days
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
        if self._run_days:
            await self._all(housekeeping.forget_old_runs, now - timedelta(days=self._run_days))
        if self._database.place is None and self._database.kind == "sqlite":
            await self._all(housekeeping.forget_all_but, _IN_MEMORY)

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
