"""End or requeue the runs of processes that died, and release what they had locked."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from palaver.engine.tracing import RunTracer, load_interrupted_run
from palaver.storage import background_runs, run_log, runs
from palaver.storage.database import Database
from palaver.storage.threads import repository as threads

log = logging.getLogger("palaver.run")


class CrashRecovery:
    def __init__(
        self,
        database: Database,
        *,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        tracer: RunTracer | None,
        on_dead: Callable[[Sequence[str]], Awaitable[None]] | None,
    ) -> None:
        self._database = database
        self._now = now
        self._monotonic = monotonic
        self._tracer = tracer
        self._on_dead = on_dead  # Called with dead process ids before they are removed.
        self._stale_claims: dict[tuple[str, str, str], float] = {}
        """Threads claimed by a run that does not exist, and since when."""

    async def end_runs(self, dead_processes: list[str]) -> None:
        """Requeue or end the runs of dead processes, then remove these. Concurrent calls handle each run once."""
        unfinished = await self._database.read(runs.list_unfinished_runs, dead_processes) if dead_processes else []
        unfinished += await self._database.read(runs.list_orphaned_runs)
        for row in unfinished:
            if await self._database.write(background_runs.requeue_run, row):
                log.warning("The process of run %s died; the run was queued again.", row.id)
            elif await self._database.write(run_log.interrupt_run, row.project, row.id, self._now()):
                log.warning("The process of run %s died; the run was interrupted, and its output was kept.", row.id)
                if self._tracer is not None and (
                    facts := await self._database.read(load_interrupted_run, row.project, row.id)
                ):
                    self._tracer.add_run(facts)
        if self._on_dead is not None:
            await self._on_dead(dead_processes)
        if dead_processes:
            await self._database.write(background_runs.remove_processes, dead_processes)

    async def release_threads(self, *, min_age_s: float) -> None:
        """Release threads claimed for at least `min_age_s` by a run that never started because its process died."""
        now = self._monotonic()
        claims = await self._database.read(threads.list_stale_claims)
        self._stale_claims = {claim: self._stale_claims.get(claim, now) for claim in claims}
        for project, thread, run in [claim for claim, since in self._stale_claims.items() if now - since >= min_age_s]:
            await self._database.write(threads.release_thread, project, thread, run)

    def forget_claims(self) -> None:
        """Measure the age of stale claims anew."""
        self._stale_claims = {}
