"""Write the results of a slice in batches, at most a tenth of a second late."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime

from palaver.errors import PalaverError
from palaver.storage.database import Database
from palaver.storage.evaluations import results
from palaver.storage.evaluations.results import NewResult, RecordOutcome, StopConditions
from palaver.storage.evaluations.slices import Slice

log = logging.getLogger("palaver.evaluation")

BATCH_DELAY_S = 0.05
"""Half of the tenth of a second; the other half is for the write."""
RETRY_INTERVAL_S = 1.0


class ResultWriter:
    """Buffers results of a slice until they are stored."""

    def __init__(
        self,
        database: Database,
        process: str,
        one: Slice,
        stops: StopConditions,
        *,
        now: Callable[[], datetime],
        recorded: Callable[[RecordOutcome], None],
        delay: float = BATCH_DELAY_S,
    ) -> None:
        self._database = database
        self._process = process
        self._slice = one
        self._stops = stops
        self._now = now
        self._recorded = recorded
        self._delay = delay
        self._is_patient = True
        self._waiting: list[NewResult] = []
        self._writing: asyncio.Task[None] | None = None

    def add(self, result: NewResult) -> None:
        self._waiting.append(result)
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write_on())

    async def flush(self, *, patient: bool = True) -> None:
        """Wait until all results are stored. Without `patient`, give up if the database is unavailable."""
        self._delay, self._is_patient = 0, patient
        while self._writing is not None:
            await asyncio.wait([self._writing])

    def drop(self) -> None:
        """Discard the buffer: the slice belongs to another process."""
        self._waiting.clear()

    async def _write_on(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(self._delay)
                some, self._waiting = self._waiting, []
                if some and not await self._write(some):
                    if not self._is_patient:
                        return
                    self._waiting = some + self._waiting
                    await asyncio.sleep(RETRY_INTERVAL_S)
        finally:
            self._writing = None

    async def _write(self, some: list[NewResult]) -> bool:
        """Store results; False if the database is unavailable."""
        try:
            recorded = await self._database.write(
                results.record_results, self._process, self._slice, some, self._stops, self._now()
            )
        except PalaverError as error:
            log.warning("Results cannot be recorded, which is tried again: %s", error.message)
            return False
        self._recorded(recorded)
        return True
