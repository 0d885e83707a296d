"""A run cancelled at any moment has one valid log, delivered once and in order, and leaks nothing."""

import asyncio
import gc
import random
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest

from palaver.core.events import TERMINAL_EVENTS, Event
from palaver.core.messages import Data, Message
from palaver.engine.run import Run
from palaver.workflows.context import Context
from palaver.workflows.decorators import chat
from tests.engine.run_factory import call, new_engine, wait_ended, wait_until


class Reader:
    """A slow reader that counts calls that overlap."""

    def __init__(self, chance: random.Random) -> None:
        self.told: list[Event] = []
        self.overlaps = 0
        self._chance = chance
        self._busy = False

    async def attend(self, events: Sequence[Event]) -> None:
        self.overlaps += self._busy
        self._busy = True
        for _ in range(self._chance.choice([0, 0, 1, 3])):
            await asyncio.sleep(0)
        self.told += events
        self._busy = False


@chat
async def async_chat(messages: Any, ctx: Context, seed: int) -> AsyncIterator[Any]:
    chance = random.Random(seed)

    async def chatter() -> None:
        for number in range(15):
            ctx.log(str(number))
            for _ in range(chance.choice([0, 1, 2])):
                await asyncio.sleep(0)

    def nested() -> Iterator[Any]:
        ctx.log("nested")
        yield "nested "
        yield (piece for piece in "abc")

    async with asyncio.TaskGroup() as group:
        group.create_task(chatter())
        for number in range(15):
            match chance.randrange(6):
                case 0:
                    yield Data(name="n", value=number)
                case 1:
                    yield nested()
                case 2:
                    yield Message.assistant("whole")
                case 3:
                    await asyncio.to_thread(ctx.log, "from a thread")
                case _:
                    yield "word "
            for _ in range(chance.choice([0, 0, 1])):
                await asyncio.sleep(0)


@chat
def sync_chat(messages: Any, ctx: Context, seed: int) -> Iterator[Any]:
    chance = random.Random(seed)
    for number in range(40):
        if ctx.cancelled:
            return
        if chance.random() < 0.3:
            ctx.log(str(number))
        yield "word "


async def cancel_at_random_moment(run: Run, seed: int) -> list[Event]:
    """Follow the run and cancel it at a random moment or after its end."""
    chance = random.Random(-seed)
    follower = asyncio.create_task(read_events(run))
    for _ in range(chance.choice([0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 10_000])):
        if run.is_finished:
            break
        await asyncio.sleep(0)
    run.cancel()
    await wait_ended(run)
    return await follower


async def read_events(run: Run) -> list[Event]:
    return [event async for batch in run.follow() for event in batch]


@pytest.mark.parametrize("kind", [async_chat, sync_chat], ids=lambda kind: kind.description.name)
async def test_a_run_cancelled_at_any_moment_has_one_valid_log_for_all_readers(kind: Any) -> None:
    engine = new_engine()
    before = len(asyncio.all_tasks())
    for seed in range(1, 60):
        reader = Reader(random.Random(seed))
        run = engine.start(kind, call(inputs={"seed": seed}), consumer=reader.attend)
        followed_events = await cancel_at_random_moment(run, seed)

        assert reader.told == run.log == followed_events, seed
        assert reader.overlaps == 0, seed
        assert [event.seq for event in run.log] == list(range(len(run.log))), seed
        assert [isinstance(event, TERMINAL_EVENTS) for event in run.log[:-1]] == [False] * (len(run.log) - 1), seed
        assert isinstance(run.log[-1], TERMINAL_EVENTS), seed
    await wait_until(lambda: engine.thread_pool.busy == 0)
    await wait_until(lambda: len(asyncio.all_tasks()) <= before)
    await wait_until(lambda: not [t for t in threading.enumerate() if t.name == "palaver-workflow"])
    gc.collect()  # Makes asyncio report exceptions that were never retrieved.

    assert engine.active_count == 0
