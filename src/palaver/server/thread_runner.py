"""Runs that answer in a thread, started by the REST API: POST /api/threads/{id}/turns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from palaver.core.runs import Call, Origin
from palaver.discovery.registry import Registry
from palaver.engine.background_runs import RunQueue
from palaver.engine.engine import Engine
from palaver.engine.run_reader import RunReader
from palaver.errors import Overloaded
from palaver.server.auth import Caller
from palaver.server.conversation_history import HistoryResolver, ResolvedCall, TurnPlan
from palaver.server.settings import Settings

TURNS_PROTOCOL = "turns"
"""`protocol` of the runs that ThreadRunner starts."""


class TurnOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a turn; the thread has the defaults."""

    variant: str | None = None
    parameters: Mapping[str, Any] = {}
    inputs: Mapping[str, Any] = {}
    background: bool = False
    trace_parent: str | None = None


@dataclass(frozen=True, eq=False, repr=False)
class ThreadRunner:
    """Starts runs that continue without the request that started them."""

    registry: Registry
    settings: Settings
    engine: Engine
    run_reader: RunReader
    resolver: HistoryResolver
    run_queue: RunQueue

    async def start_turn(
        self, caller: Caller, thread_id: str, plan: TurnPlan, options: TurnOptions, run_id: str | None = None
    ) -> ResolvedCall:
        """Append messages to a thread and start the run that answers; both are stored when this returns."""
        thread = await self.resolver.get_thread(caller.project, thread_id, None)
        workflow = self.registry.workflow(thread.workflow)
        if self.engine.active_count >= self.settings.max_streams_total:
            raise Overloaded("The server is at its limit of concurrent calls. Try again shortly.")
        call = Call(
            workflow=workflow.description.name,
            parameters=options.parameters,
            inputs=options.inputs,
            background=options.background,
            trace_parent=options.trace_parent,
        )
        origin = Origin(project=caller.project, key=caller.key, protocol=TURNS_PROTOCOL, background=options.background)
        unresolved = ResolvedCall(call, None, origin, run_id)
        unresolved = await self.resolver.apply_variant(caller.project, workflow, unresolved, options.variant, thread)
        async with self.resolver.in_thread(thread, workflow, workflow.options.turns, unresolved, plan) as resolved:
            if options.background:
                self.run_queue.start()  # Servers without lifespan events don't start it.
                await self.run_queue.enqueue(workflow, resolved.call, resolved.origin, resolved.run_id)
                return resolved
            run, producer = self.engine.open(workflow, resolved.call, origin=resolved.origin, run_id=resolved.run_id)
            await self.run_reader.flush()  # A request that finds it locked must find the run that holds it.
        run.start(producer)
        self.run_reader.unread_runs.add(run)
        return resolved
