"""A turn that is taken in no protocol: something is said in a thread, and a run answers. Nobody has to stay for it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from palaver.core.calls import Call
from palaver.core.origins import Origin
from palaver.discovery.registry import Registry
from palaver.engine.engine import Engine
from palaver.engine.queue import RunQueue
from palaver.engine.run_reader import RunReader
from palaver.errors import Overloaded
from palaver.server.callers import Caller
from palaver.server.joining import Joined, Joining
from palaver.server.settings import Settings
from palaver.server.thread_turns import Look
from palaver.storage.threads.repository import Thread
from palaver.workflows.workflow import Workflow

PROTOCOL = "turns"
"""What such runs say that they were begun by."""


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is given beside what was said; the thread has the rest."""

    variant: str | None = None
    parameters: Mapping[str, Any] = {}
    inputs: Mapping[str, Any] = {}
    background: bool = False
    trace_parent: str | None = None


class Turning:
    """Begins such runs."""

    def __init__(
        self,
        registry: Registry,
        settings: Settings,
        engine: Engine,
        records: RunReader,
        joining: Joining,
        backlog: RunQueue,
    ) -> None:
        self._registry = registry
        self._settings = settings
        self.engine = engine
        self._records = records
        self._joining = joining
        self.backlog = backlog

    async def take(self, caller: Caller, thread: str, look: Look, given: Given, run_id: str | None = None) -> Joined:
        """Say something in a thread and begin to answer it. All that was said is durable, and the run has a name."""
        found = await self._joining.thread(caller.project, thread, None)
        workflow = self._registry.workflow(found.workflow)
        if self.engine.alive >= self._settings.max_streams_total:
            raise Overloaded("This server answers as many calls as it can: try again in a moment.")
        call = Call(
            workflow=workflow.description.name,
            parameters=given.parameters,
            inputs=given.inputs,
            background=given.background,
            trace_parent=given.trace_parent,
        )
        origin = Origin(project=caller.project, key=caller.key, protocol=PROTOCOL, background=given.background)
        asked = Joined(call, None, origin, run_id)
        asked = await self._joining.with_variant(caller.project, workflow, asked, given.variant, found)
        return await self._begin(found, workflow, asked, look)

    async def _begin(self, thread: Thread, workflow: Workflow, asked: Joined, look: Look) -> Joined:
        async with self._joining.in_thread(thread, workflow, workflow.options.turns, asked, look) as joined:
            if asked.call.background:
                self.backlog.begin()  # Where nobody told us that we start.
                await self.backlog.put(workflow, joined.call, joined.origin, joined.run_id)
                return joined
            run, producer = self.engine.open(workflow, joined.call, origin=joined.origin, run_id=joined.run_id)
            await self._records.written()  # Whoever finds the thread taken must find the run that took it.
        run.begin(producer)
        self._records.orphans.left(run)
        return joined
