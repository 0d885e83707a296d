"""Runs that nobody reads: whoever began one has left. After a while it is ended, and what it said is kept.

Readers here are counted. One in another process notes in the database that it reads; whether that changed is asked only
of a run that is about to be ended, and no clock but our own decides.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime

from palaver.engine.run import Run
from palaver.errors import PalaverError
from palaver.storage import runs
from palaver.storage.database import Database

log = logging.getLogger("palaver.run")

_CANCEL_GRACE_S = 1.0
"""Seconds that a run goes on without readers whose author wants it to end with them."""
_MAX_POLL_S, _MIN_POLL_S = 0.25, 0.01
_MAX_READ_NOTE_S = 10.0
"""Seconds after which a reader in another process says again that it reads, at most."""


class AbandonedRuns:
    """The runs of this process that were left."""

    def __init__(
        self,
        database: Database,
        *,
        seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.read_note_interval = min(seconds / 4, _MAX_READ_NOTE_S)
        self._database = database
        self._seconds = seconds
        self._look = max(min(seconds / 4, _MAX_POLL_S), _MIN_POLL_S)
        self._monotonic = monotonic
        self._left: dict[Run, float] = {}
        """Since when nobody reads each of them here."""
        self._heard: dict[Run, datetime] = {}
        """When each was last read elsewhere, as somebody there says."""
        self._readers: dict[str, int] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, run: Run) -> None:
        """Whoever began it does not read it, or no longer. It may go on for a while, or as its author says."""
        self._left[run] = self._monotonic()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._watch())

    @contextmanager
    def reader(self, run: str) -> Generator[None]:
        """Count one who reads it without having begun it."""
        self._readers[run] = self._readers.get(run, 0) + 1
        try:
            yield
        finally:
            self._readers[run] -= 1
            if not self._readers[run]:
                del self._readers[run]

    def count_readers(self, run: Run) -> int:
        """How many read it here."""
        starter = run.has_consumer and run not in self._left
        return self._readers.get(run.id, 0) + starter

    async def _watch(self) -> None:
        while self._left:
            await asyncio.sleep(self._look)
            for run in list(self._left):
                if run.is_over:
                    del self._left[run]
                    self._heard.pop(run, None)
                elif self._readers.get(run.id):
                    self._left[run] = self._monotonic()
                elif self._is_due(run) and not await self._is_read_elsewhere(run):
                    log.info("run %s: nobody reads it any more; it is ended", run.id)
                    run.cancel()

    def _is_due(self, run: Run) -> bool:
        if run.origin.background or run.on_disconnect == "finish":
            return False
        short = run.on_disconnect == "cancel" and run not in self._heard
        return self._monotonic() - self._left[run] >= (_CANCEL_GRACE_S if short else self._seconds)

    async def _is_read_elsewhere(self, run: Run) -> bool:
        try:
            at = await self._database.read(runs.get_read_at, run.origin.project, run.id)
        except PalaverError:
            return True  # Who knows: ask again.
        if at is None or at == self._heard.get(run):
            return False
        self._heard[run], self._left[run] = at, self._monotonic()
        return True
