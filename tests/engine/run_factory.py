"""Engines with a fixed clock and sequential ids, runs awaited for a bounded time, and their replies."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any

import msgspec

from palaver.core.events import Event, RunFinished
from palaver.core.fold import fold
from palaver.core.messages import Message
from palaver.core.runs import Call, Reply
from palaver.engine.engine import Engine
from palaver.engine.run import Run
from palaver.workflows.workflow import Workflow

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
RUN = f"run_{1:026}"
MSG = f"msg_{1:026}_1"
"""The first message of the first run, and its first text."""
QUESTION = Message.user("Well?")


def new_engine(**options: Any) -> Engine:
    numbers = count(1)
    return Engine(now=lambda: NOW, new_id=lambda: f"run_{next(numbers):026}", **options)


def call(*messages: Message, **options: Any) -> Call:
    return Call(workflow="w", messages=messages, **options)


async def run_to_end(workflow: Workflow, *messages: Message, engine: Engine | None = None, **options: Any) -> Run:
    """Run a call to its end."""
    run = (engine or new_engine()).start(workflow, call(*messages, **options))
    await wait_ended(run)
    return run


async def wait_ended(run: Run) -> Run:
    async with asyncio.timeout(60):
        await run.wait_ended()
    return run


async def wait_for_event(event: asyncio.Event) -> None:
    async with asyncio.timeout(60):
        await event.wait()


async def wait_until(condition: Callable[[], bool]) -> None:
    """Poll until the condition holds."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.001)


def reply_of(run: Run) -> Reply:
    """The reply of a run, without message ids."""
    reply = fold(run.log)
    messages = tuple(msgspec.structs.replace(message, id=None) for message in reply.messages)
    return msgspec.structs.replace(reply, messages=messages)


def reply(*messages: Message, run_id: str = RUN, **options: Any) -> Reply:
    return Reply(run_id=run_id, messages=messages, **{"finish": "stop", **options})


def event_lines(events: Sequence[Event]) -> list[str]:
    """Events as short lines: type and delta."""
    return [f"{type(event).__name__} {getattr(event, 'delta', '')}".strip() for event in events]


def last_event(run: Run) -> Event:
    """The last event, without its number."""
    return msgspec.structs.replace(run.log[-1], seq=-1)


def finished_event(**options: Any) -> RunFinished:
    return RunFinished(at=NOW, **options)
