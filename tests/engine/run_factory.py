"""Runs with a fixed clock and counting ids, awaited for a bounded time, and what they came to."""

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
ASKED = Message.user("Well?")


def new_engine(**given: Any) -> Engine:
    numbers = count(1)
    return Engine(now=lambda: NOW, new_id=lambda: f"run_{next(numbers):026}", **given)


def call(*messages: Message, **given: Any) -> Call:
    return Call(workflow="w", messages=messages, **given)


async def ran(workflow: Workflow, *messages: Message, engine: Engine | None = None, **given: Any) -> Run:
    """The run of one call, when it is over."""
    run = (engine or new_engine()).start(workflow, call(*messages, **given))
    await over(run)
    return run


async def over(run: Run) -> Run:
    async with asyncio.timeout(10):
        await run.wait_ended()
    return run


async def until(event: asyncio.Event) -> None:
    async with asyncio.timeout(10):
        await event.wait()


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait, for what tells nobody when it happens."""
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.001)


def came_to(run: Run) -> Reply:
    """The fold of a run, without the ids of its messages."""
    reply = fold(run.log)
    messages = tuple(msgspec.structs.replace(message, id=None) for message in reply.messages)
    return msgspec.structs.replace(reply, messages=messages)


def reply(*messages: Message, run_id: str = RUN, **given: Any) -> Reply:
    return Reply(run_id=run_id, messages=messages, **{"finish": "stop", **given})


def said(events: Sequence[Event]) -> list[str]:
    """Kinds and texts of events, as short words."""
    return [f"{type(event).__name__} {getattr(event, 'delta', '')}".strip() for event in events]


def end_of(run: Run) -> Event:
    """The last event, without its number."""
    return msgspec.structs.replace(run.log[-1], seq=-1)


def finished(**given: Any) -> RunFinished:
    return RunFinished(at=NOW, **given)
