"""Runs in the background: kept before anybody is told of them, begun by whichever process is free first.

Every process that serves their workflow looks for them. One that dies gives back those that may begin anew, by way of
whoever notices that it died (processes.py); the others end as interrupted.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from datetime import datetime

from msgspec.structs import replace

from palaver.core.events import RunStarted
from palaver.core.runs import Call, NewRun, Origin
from palaver.engine.engine import Engine
from palaver.engine.poller import Poller
from palaver.engine.run import Run
from palaver.errors import Overloaded, PalaverError, ShuttingDown
from palaver.storage import queue, run_log
from palaver.storage.database import Database
from palaver.storage.queue import QueuedRun
from palaver.traces.run_facts import NO_PARENT_ID
from palaver.workflows.workflow import Workflow

log = logging.getLogger("palaver.run")

POLL_INTERVAL_S = 1.0
"""Seconds after which a process looks again, if nobody tells it that something waits."""


class RunQueue:
    """What waits, and this process's share of the work."""

    def __init__(
        self,
        engine: Engine,
        database: Database,
        *,
        process: str,
        find_workflow: Callable[[str], Workflow],
        workflow_names: Callable[[], Collection[str]],
        max_runs: int,
        now: Callable[[], datetime],
        poll_interval: float = POLL_INTERVAL_S,
    ) -> None:
        self._engine = engine
        self._database = database
        self._process = process
        self._find = find_workflow
        self._names = workflow_names
        self._most = max_runs
        self._now = now
        self._look = poll_interval
        self._going: set[asyncio.Task[None]] = set()
        self._waiters: set[asyncio.Future[None]] = set()
        self._looking = Poller(
            self._look_once, subject="What waits in the background", log=log, retry_delay=poll_interval
        )

    async def enqueue(self, workflow: Workflow, call: Call, origin: Origin, run_id: str | None = None) -> RunStarted:
        """Keep a run that is to begin later: it is durable when this returns."""
        prepared, started = self._engine.prepare(workflow, call, run_id)
        run = NewRun(
            started=started,
            workflow=workflow.description.name,
            call=prepared,
            origin=origin,
            process=None,
            status="queued",
            idempotent=workflow.options.idempotent,
        )
        await self._database.write(queue.enqueue_run, run, self._now())
        self.wake()
        return started

    def start(self) -> None:
        """Look for what waits, from now on."""
        self._looking.start()

    def wake(self) -> None:
        """Something waits."""
        self._looking.wake()

    async def stop(self) -> None:
        """Begin no more, and leave to others what was taken and has not begun; what is going is the engine's to end."""
        await self._looking.stop()
        for waiter in list(self._waiters):
            waiter.cancel()  # A run may go on for longer than whoever wants us to end will wait.
        await asyncio.gather(*self._going, return_exceptions=True)

    async def _look_once(self) -> float:
        free = 0 if self._engine.draining else self._most - len(self._going)
        if free > 0:
            await self._take(free)
        return self._look

    async def _take(self, free: int) -> None:
        for waiting in await self._database.write(queue.dequeue_runs, self._process, self._names(), free, self._now()):
            task = asyncio.get_running_loop().create_task(self._run(waiting))
            self._going.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._going.discard(task)
        self.wake()

    async def _run(self, waiting: QueuedRun) -> None:
        row = waiting.stored.row
        try:
            run = self._start(waiting)
        except (ShuttingDown, Overloaded):  # It is this process that cannot begin it: another one may.
            await self._database.write(queue.unclaim_run, row)
            if not self._engine.draining:
                await asyncio.sleep(self._look)
        except Exception as error:  # Code that has changed since may not take the call any more.
            log.warning("The run %s, which waited, could not begin: %s", row.id, error)
            await self._database.write(
                run_log.fail_queued_run, row.project, row.id, _failure_reason(error), self._now()
            )
        else:
            waiter = asyncio.ensure_future(run.wait_ended())
            self._waiters.add(waiter)
            waiter.add_done_callback(self._waiters.discard)
            await asyncio.wait([waiter])

    def _start(self, waiting: QueuedRun) -> Run:
        if self._looking.is_stopping:
            raise ShuttingDown("This process begins no more runs.")
        row = waiting.stored.row
        origin = Origin(
            project=row.project,
            key=row.key,
            protocol=row.protocol,
            stored=row.stored,
            background=True,
            thread=row.thread,
            answers=row.answers,
            previous=row.previous,
            board=row.board,
            variant=row.variant,
            waited=True,
        )
        traced = f"00-{row.trace_id}-{NO_PARENT_ID}-01" if row.trace_id else None
        call = replace(waiting.call, trace_parent=waiting.call.trace_parent or traced)
        return self._engine.start(self._find(row.workflow), call, origin=origin, run_id=row.id)


def _failure_reason(error: Exception) -> tuple[str, str]:
    if isinstance(error, PalaverError):
        return error.code, error.message
    return "workflow_failed", "The workflow could not begin."
