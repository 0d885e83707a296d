"""Periodic deletion of expired data, in small batches."""

import asyncio
import logging
from collections.abc import Callable
from datetime import date, datetime, timedelta

from palaver.core.runs import RetentionPolicy
from palaver.engine.poller import log_errors
from palaver.storage import files, idempotency, retention
from palaver.storage.database import Database
from palaver.storage.spans import partitions as span_days
from palaver.storage.spans import retention as span_retention
from palaver.storage.testsets import imports as testset_imports

log = logging.getLogger("palaver.storage")

RETENTION_INTERVAL_S = 60.0
_MAX_RUNS_IN_MEMORY = 1_000
_MAX_SPANS_IN_MEMORY = 10_000
_UNLIMITED = RetentionPolicy()


class RetentionTask:
    """Deletes expired data of one database. Several processes may do so at the same time."""

    def __init__(
        self,
        database: Database,
        *,
        run_days: float,
        spans: RetentionPolicy = _UNLIMITED,
        now: Callable[[], datetime],
        interval: float = RETENTION_INTERVAL_S,
    ) -> None:
        self._database = database
        self._run_days = run_days
        self._spans = spans
        self._now = now
        self._interval = interval
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._loop())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def run_once(self) -> None:
        """Delete everything that is due."""
        now = self._now()
        await self._delete_all(files.delete_unused_files, now - files.UNUSED_FILE_TTL)
        await self._database.write(idempotency.delete_expired_responses, now)
        await testset_imports.sweep_dead_imports(self._database, now)
        if self._run_days:
            await self._delete_all(retention.delete_old_runs, now - timedelta(days=self._run_days))
        await self._delete_spans(now.date())
        if self._database.path is None and self._database.kind == "sqlite":
            await self._delete_all(retention.delete_all_but_newest, _MAX_RUNS_IN_MEMORY)
            await self._delete_all(span_retention.delete_oldest, _MAX_SPANS_IN_MEMORY)

    async def _delete_spans(self, today: date) -> None:
        """Delete expired days, then the oldest days over the size limit; create upcoming partitions."""
        if self._database.kind == "postgresql":
            await self._database.write(span_days.create_upcoming_partitions, today)
        for cutoff, project in await self._database.read(span_retention.list_expired, self._spans, today):
            await self._delete_all(span_retention.delete_before, cutoff, project)
        if self._spans.bytes:
            first_day = await self._database.read(span_days.first_day_within, self._spans.bytes)
            if first_day is not None:
                await self._delete_all(span_retention.delete_before, first_day)

    async def _delete_all(self, delete_batch: Callable[..., int], *args: object) -> None:
        while await self._database.write(delete_batch, *args):  # noqa: ASYNC110 - in batches
            await asyncio.sleep(0)  # Let other writers in.

    async def _loop(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            with log_errors(log, "Failed to delete expired data", "Failed to delete expired data"):
                await self.run_once()
