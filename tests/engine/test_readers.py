"""Readers of a run: the first one sets the pace, any number may follow, and all see the same events in order."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest

from palaver.core.events import Event
from palaver.core.messages import Message
from palaver.engine.run import Run
from palaver.workflows.context import Context
from palaver.workflows.decorators import chat, workflow
from tests.engine.run_factory import call, event_lines, new_engine, run_to_end, wait_ended, wait_for_event


@chat
async def three_numbers(messages: Any) -> AsyncIterator[str]:
    for number in range(3):
        yield str(number)


async def follow(run: Run, after: int = -1) -> list[Event]:
    async with asyncio.timeout(60):
        return [event async for batch in run.follow(after) for event in batch]


# The reader that started it


async def test_the_first_reader_receives_every_event_once_and_in_order() -> None:
    batches: list[Sequence[Event]] = []

    async def attend(events: Sequence[Event]) -> None:
        batches.append(events)

    run = await wait_ended(new_engine().start(three_numbers, call(), consumer=attend))

    assert [event for batch in batches for event in batch] == run.log
    assert [event_lines(batch) for batch in batches] == [
        ["RunStarted"],
        ["TextStarted", "TextDelta 0"],
        ["TextDelta 1"],
        ["TextDelta 2"],
        ["TextEnded", "RunFinished"],
    ]


async def test_a_run_is_finished_when_its_last_events_are_delivered_and_not_before() -> None:
    runs: list[Run] = []
    seen: list[tuple[bool, str]] = []

    async def attend(events: Sequence[Event]) -> None:
        seen.append((runs[0].is_finished, event_lines(events)[-1]))

    runs.append(new_engine().start(three_numbers, call(), consumer=attend))
    await wait_ended(runs[0])

    assert seen == [
        (False, "RunStarted"),
        (False, "TextDelta 0"),
        (False, "TextDelta 1"),
        (False, "TextDelta 2"),
        (True, "RunFinished"),
    ]


async def test_an_async_workflow_runs_at_the_pace_of_its_first_reader() -> None:
    steps = asyncio.Semaphore(0)
    yielded: list[int] = []

    @chat
    async def endless(messages: Any) -> AsyncIterator[str]:
        for number in range(10):
            yielded.append(number)
            yield str(number)

    delivered = asyncio.Event()

    async def attend(events: Sequence[Event]) -> None:
        delivered.set()
        await steps.acquire()

    run = new_engine().start(endless, call(), consumer=attend)
    ahead: list[int] = []
    for _ in range(6):
        await wait_for_event(delivered)
        delivered.clear()
        for _ in range(20):
            await asyncio.sleep(0)
        ahead.append(len(yielded))
        steps.release()
    for _ in range(20):
        steps.release()
    await wait_ended(run)

    assert ahead == [0, 1, 2, 3, 4, 5]


async def test_a_sync_workflow_is_never_more_than_a_few_values_ahead() -> None:
    gate, stuck = asyncio.Event(), threading.Event()
    yielded_count = 0

    @chat
    def endless(messages: Any) -> Iterator[str]:
        nonlocal yielded_count
        for _ in range(200):
            yielded_count += 1
            if yielded_count > 50:
                stuck.set()
            yield "x"

    async def attend(events: Sequence[Event]) -> None:
        if "TextDelta x" in event_lines(events):
            await gate.wait()

    run = new_engine().start(endless, call(), consumer=attend)
    got_ahead = await asyncio.to_thread(stuck.wait, 0.2)
    before = yielded_count
    gate.set()
    await wait_ended(run)

    assert (got_ahead, yielded_count) == (False, 200)
    assert before <= 20


async def test_a_message_of_several_parts_is_delivered_in_one_batch() -> None:
    batches: list[list[str]] = []

    @chat
    async def one(messages: Any) -> Message:
        return Message.assistant("a", "b")

    async def attend(events: Sequence[Event]) -> None:
        batches.append(event_lines(events))

    await wait_ended(new_engine().start(one, call(), consumer=attend))

    assert batches == [
        ["RunStarted"],
        ["TextStarted", "TextDelta a", "TextEnded", "TextStarted", "TextDelta b", "TextEnded"],
        ["RunFinished"],
    ]


async def test_emitted_events_are_delivered_while_the_workflow_is_running() -> None:
    delivered, resume = asyncio.Event(), asyncio.Event()

    @workflow
    async def working(ctx: Context) -> str:
        ctx.log("Working.")
        await resume.wait()
        return "done"

    async def attend(events: Sequence[Event]) -> None:
        if "PartAdded" in event_lines(events):
            delivered.set()

    run = new_engine().start(working, call(), consumer=attend)
    await wait_for_event(delivered)
    resume.set()
    await wait_ended(run)

    assert event_lines(run.log) == ["RunStarted", "PartAdded", "RunFinished"]


class SlowReader:
    """A slow reader that counts calls that overlap."""

    def __init__(self) -> None:
        self.told: list[Event] = []
        self.overlaps = 0
        self._busy = False

    async def attend(self, events: Sequence[Event]) -> None:
        self.overlaps += self._busy
        self._busy = True
        for _ in range(3):
            await asyncio.sleep(0)
        self.told += events
        self._busy = False


@pytest.mark.parametrize("pause", [0, 1, 2, 5])
async def test_events_emitted_by_another_task_are_delivered_in_order_without_overlap(pause: int) -> None:
    @chat
    async def two_voices(messages: Any, ctx: Context) -> AsyncIterator[str]:
        async def chatter() -> None:
            for number in range(20):
                ctx.log(str(number))
                for _ in range(pause):
                    await asyncio.sleep(0)

        task = asyncio.create_task(chatter())
        for number in range(20):
            yield str(number)
            if number % 3 == 0:
                await asyncio.sleep(0)
        await task

    reader = SlowReader()
    run = await wait_ended(new_engine().start(two_voices, call(), consumer=reader.attend))

    assert reader.told == run.log
    assert reader.overlaps == 0
    assert len(run.log) == 20 + 20 + 2 + 2


# Followers


async def test_several_readers_can_follow_from_any_position() -> None:
    resume = asyncio.Event()

    @chat
    async def paced(messages: Any) -> AsyncIterator[str]:
        yield "0"
        await resume.wait()
        yield "1"

    run = new_engine().start(paced, call())
    readers = [asyncio.create_task(follow(run, after)) for after in (-1, 0, 2, 99, -7)]
    for _ in range(10):
        await asyncio.sleep(0)
    resume.set()
    followed = await asyncio.gather(*readers)

    assert followed == [run.log, run.log[1:], run.log[3:], [], run.log]


async def test_a_reader_that_starts_after_the_end_receives_the_whole_log() -> None:
    run = await run_to_end(three_numbers)

    assert await follow(run) == run.log
    assert await follow(run, after=3) == run.log[4:]
    assert await follow(run, after=len(run.log) - 1) == []


async def test_a_run_never_waits_for_a_follower() -> None:
    resume = asyncio.Event()

    @chat
    async def paced(messages: Any) -> AsyncIterator[str]:
        yield "0"
        await resume.wait()
        yield "1"

    run = new_engine().start(paced, call())
    followed = run.follow()
    async with asyncio.timeout(60):
        first = await anext(followed)
    resume.set()
    await wait_ended(run)

    assert event_lines(first) == ["RunStarted", "TextStarted", "TextDelta 0"]
    assert [event_lines(batch) async for batch in followed] == [["TextDelta 1", "TextEnded", "RunFinished"]]


async def test_a_cancelled_follower_is_removed_from_the_waiters() -> None:
    waits = asyncio.Event()

    @chat
    async def silent(messages: Any) -> None:
        await waits.wait()

    run = new_engine().start(silent, call())
    reader = asyncio.create_task(follow(run, after=0))
    for _ in range(5):
        await asyncio.sleep(0)
    waiting = len(run._waiters)
    reader.cancel()
    await asyncio.wait([reader])
    remaining = len(run._waiters)
    waits.set()
    await wait_ended(run)

    assert (waiting, remaining) == (1, 0)


async def test_followers_receive_emitted_events_at_once() -> None:
    resume = asyncio.Event()

    @workflow
    async def working(ctx: Context) -> None:
        ctx.log("Working.")
        await resume.wait()

    run = new_engine().start(working, call())
    followed = run.follow(after=0)
    async with asyncio.timeout(60):
        batch = await anext(followed)
    resume.set()
    await wait_ended(run)
    await followed.aclose()

    assert event_lines(batch) == ["PartAdded"]
