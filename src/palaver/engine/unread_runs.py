"""Cancel runs that no client has read for a while."""

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
"""How long a run with on_disconnect="cancel" continues without readers."""
_MAX_POLL_S, _MIN_POLL_S = 0.25, 0.01
_MAX_READ_NOTE_S = 10.0
"""The longest interval at which a reader in another process repeats its note."""


class UnreadRuns:
    """The runs of this process whose client has disconnected."""

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
        self._poll_interval = max(min(seconds / 4, _MAX_POLL_S), _MIN_POLL_S)
        self._monotonic = monotonic
        self._unread_since: dict[Run, float] = {}
        """Since when a run has had no readers in this process (monotonic)."""
        self._last_notes: dict[Run, datetime] = {}
        """The last note of a reader in another process that was seen for a run."""
        self._readers: dict[str, int] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, run: Run) -> None:
        """Watch a run whose client has disconnected. It may continue for a while, depending on `on_disconnect`."""
        self._unread_since[run] = self._monotonic()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._watch_loop())

    @contextmanager
    def reader(self, run: str) -> Generator[None]:
        """Count a reader other than the client that started the run."""
        self._readers[run] = self._readers.get(run, 0) + 1
        try:
            yield
        finally:
            self._readers[run] -= 1
            if not self._readers[run]:
                del self._readers[run]

    def count_readers(self, run: Run) -> int:
        """Return the number of readers in this process, including the client that started the run."""
        has_starter = run.has_consumer and run not in self._unread_since
        return self._readers.get(run.id, 0) + has_starter

    async def _watch_loop(self) -> None:
        while self._unread_since:
            await asyncio.sleep(self._poll_interval)
            for run in list(self._unread_since):
                if run.is_over:
                    del self._unread_since[run]
                    self._last_notes.pop(run, None)
                elif self._readers.get(run.id):
                    self._unread_since[run] = self._monotonic()
                elif self._is_due(run) and not await self._is_read_elsewhere(run):
                    log.info("Cancelling run %s: no client is reading it any more", run.id)
                    run.cancel()

    def _is_due(self, run: Run) -> bool:
        if run.origin.background or run.on_disconnect == "finish":
            return False
        cancels_soon = run.on_disconnect == "cancel" and run not in self._last_notes
        return self._monotonic() - self._unread_since[run] >= (_CANCEL_GRACE_S if cancels_soon else self._seconds)

    async def _is_read_elsewhere(self, run: Run) -> bool:
        try:
            read_at = await self._database.read(runs.get_read_at, run.origin.project, run.id)
        except PalaverError:
            return True  # Unknown: check again later.
        if read_at is None or read_at == self._last_notes.get(run):
            return False
        self._last_notes[run], self._unread_since[run] = read_at, self._monotonic()
        return True
