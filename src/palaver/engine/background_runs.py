"""Background runs: stored durably first, then started by whichever process has capacity.

Every process that serves the workflow polls for them. When a process dies, another one (heartbeat.py) requeues its runs
that may be repeated and ends the others as interrupted.
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
from palaver.storage import background_runs, run_log
from palaver.storage.background_runs import QueuedRun
from palaver.storage.database import Database
from palaver.traces.run_facts import NO_PARENT_ID
from palaver.workflows.workflow import Workflow

log = logging.getLogger("palaver.run")

POLL_INTERVAL_S = 1.0


class RunQueue:
    """The queue of background runs, and this process's share of them."""

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
        self._find_workflow = find_workflow
        self._workflow_names = workflow_names
        self._max_runs = max_runs
        self._now = now
        self._poll_interval = poll_interval
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiters: set[asyncio.Future[None]] = set()
        self._poller = Poller(self._poll, subject="queued runs", log=log, retry_delay=poll_interval)

    async def enqueue(self, workflow: Workflow, call: Call, origin: Origin, run_id: str | None = None) -> RunStarted:
        """Enqueue a run. It is durable when this returns."""
        prepared_call, started = self._engine.prepare(workflow, call, run_id)
        run = NewRun(
            started=started,
            workflow=workflow.description.name,
            call=prepared_call,
            origin=origin,
            process=None,
            status="queued",
            idempotent=workflow.options.idempotent,
        )
        await self._database.write(background_runs.enqueue_runs, [run], self._now())
        self.wake()
        return started

    def start(self) -> None:
        self._poller.start()

    def wake(self) -> None:
        """Poll now: a run was enqueued."""
        self._poller.wake()

    async def stop(self) -> None:
        """Start no more runs and return claimed ones to the queue. The engine ends the active ones."""
        await self._poller.stop()
        for waiter in list(self._waiters):
            waiter.cancel()  # A run may take longer than the shutdown.
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _poll(self) -> float:
        free_slots = 0 if self._engine.is_draining else self._max_runs - len(self._tasks)
        if free_slots > 0:
            await self._claim_runs(free_slots)
        return self._poll_interval

    async def _claim_runs(self, free_slots: int) -> None:
        for queued in await self._database.write(
            background_runs.dequeue_runs, self._process, self._workflow_names(), free_slots, self._now()
        ):
            task = asyncio.get_running_loop().create_task(self._run(queued))
            self._tasks.add(task)
            task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self.wake()

    async def _run(self, queued: QueuedRun) -> None:
        row = queued.stored.row
        try:
            run = self._start(queued)
        except (ShuttingDown, Overloaded):  # This process cannot start it, another one may.
            await self._database.write(background_runs.unclaim_run, row)
            if not self._engine.is_draining:
                await asyncio.sleep(self._poll_interval)
        except Exception as error:  # The code may have changed since and no longer accept the call.
            log.warning("Failed to start queued run %s: %s", row.id, error)
            await self._database.write(
                run_log.fail_queued_run, row.project, row.id, _failure_reason(error), self._now()
            )
        else:
            waiter = asyncio.ensure_future(run.wait_ended())
            self._waiters.add(waiter)
            waiter.add_done_callback(self._waiters.discard)
            await asyncio.wait([waiter])

    def _start(self, queued: QueuedRun) -> Run:
        if self._poller.is_stopping:
            raise ShuttingDown("This process is shutting down.")
        row = queued.stored.row
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
            was_queued=True,
        )
        trace_parent = f"00-{row.trace_id}-{NO_PARENT_ID}-01" if row.trace_id else None
        call = replace(queued.call, trace_parent=queued.call.trace_parent or trace_parent)
        return self._engine.start(self._find_workflow(row.workflow), call, origin=origin, run_id=row.id)


def _failure_reason(error: Exception) -> tuple[str, str]:
    if isinstance(error, PalaverError):
        return error.code, error.message
    return "workflow_failed", "The workflow could not be started."
