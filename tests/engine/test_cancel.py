"""Cancelling a run: its code is notified, its output is recorded, and it ends whatever its code does."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest

from palaver.core.events import Event, RunCancelled, RunFailed, RunFinished
from palaver.core.messages import Message
from palaver.engine.run import Run
from palaver.workflows.context import Context
from palaver.workflows.decorators import chat, workflow
from palaver.workflows.workflow import Workflow
from tests.engine.run_factory import (
    NOW,
    call,
    event_lines,
    last_event,
    new_engine,
    reply,
    reply_of,
    run_to_end,
    wait_ended,
    wait_for_event,
    wait_until,
)

CANCELLED = RunCancelled(at=NOW)


@pytest.fixture
def short_cancel_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palaver.engine.run._CANCEL_RETRY_S", 0.01)


async def run_and_cancel(workflow: Workflow, reached: asyncio.Event, **options: Any) -> Run:
    """Return a run that was cancelled when its code had set `reached`."""
    run = new_engine().start(workflow, call(), **options)
    await wait_for_event(reached)
    run.cancel()
    return await wait_ended(run)


# Async code


async def test_an_async_generator_gets_cancelled_error_in_its_own_task() -> None:
    waits, seen = asyncio.Event(), []

    @chat
    async def slow(messages: Any, ctx: Context) -> AsyncIterator[str]:
        task = asyncio.current_task()
        yield "Hel"
        waits.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append((asyncio.current_task() is task, ctx.cancelled))
            raise
        finally:
            await asyncio.sleep(0)
            seen.append("cleaned up")

    run = await run_and_cancel(slow, waits)

    assert seen == [(True, True), "cleaned up"]
    assert reply_of(run) == reply(Message.assistant("Hel"), finish="cancelled")
    assert last_event(run) == CANCELLED


async def test_a_coroutine_gets_cancelled_error() -> None:
    waits, seen = asyncio.Event(), []

    @workflow
    async def slow() -> None:
        waits.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    run = await run_and_cancel(slow, waits)

    assert (seen, last_event(run)) == (["cancelled"], CANCELLED)


async def test_a_run_cancelled_before_its_code_starts_never_executes_it() -> None:
    executions = []

    @chat
    async def eager(messages: Any) -> None:
        executions.append("ran")

    run = new_engine().start(eager, call())
    run.cancel()
    await wait_ended(run)

    assert (executions, event_lines(run.log)) == ([], ["RunStarted", "RunCancelled"])


async def test_cancelling_twice_or_after_the_end_changes_nothing() -> None:
    waits = asyncio.Event()

    @chat
    async def slow(messages: Any) -> None:
        waits.set()
        await asyncio.Event().wait()

    run = await run_and_cancel(slow, waits)
    run.cancel(RunFailed(code="late"))
    before = list(run.log)
    run.cancel()
    await wait_ended(run)

    assert run.log == before
    assert last_event(run) == CANCELLED


async def test_the_first_cancellation_determines_the_end() -> None:
    waits = asyncio.Event()

    @chat
    async def slow(messages: Any) -> None:
        waits.set()
        await asyncio.Event().wait()

    run = new_engine().start(slow, call())
    await wait_for_event(waits)
    run.cancel(RunFailed(code="shutting_down", message="Bye."))
    run.cancel()
    await wait_ended(run)

    assert last_event(run) == RunFailed(code="shutting_down", message="Bye.", at=NOW)


async def test_a_finished_run_is_not_cancelled() -> None:
    @chat
    async def quick(messages: Any) -> str:
        return "Hi."

    run = await run_to_end(quick)
    run.cancel()

    assert last_event(run) == RunFinished(at=NOW)


# Async code that ignores cancellation


async def test_a_run_whose_code_returns_normally_after_a_cancellation_is_cancelled() -> None:
    waits = asyncio.Event()

    @chat
    async def stubborn(messages: Any) -> AsyncIterator[str]:
        try:
            waits.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            yield "Not heard."

    run = await run_and_cancel(stubborn, waits)

    assert event_lines(run.log) == ["RunStarted", "RunCancelled"]


async def test_a_run_whose_code_raises_another_error_on_cancellation_is_cancelled() -> None:
    waits = asyncio.Event()

    @chat
    async def confused(messages: Any) -> None:
        try:
            waits.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise LookupError("what?") from None

    assert last_event(await run_and_cancel(confused, waits)) == CANCELLED


async def test_a_run_whose_generator_yields_while_it_is_closed_is_cancelled() -> None:
    attending = asyncio.Event()
    gate = asyncio.Event()

    @chat
    async def stubborn(messages: Any) -> AsyncIterator[str]:
        try:
            yield "Hel"
        finally:
            yield "lo"

    async def attend(events: Sequence[Event]) -> None:
        if any(word == "TextDelta Hel" for word in event_lines(events)):
            attending.set()
            await gate.wait()

    run = new_engine().start(stubborn, call(), consumer=attend)
    await wait_for_event(attending)
    run.cancel()
    gate.set()
    await wait_ended(run)

    assert last_event(run) == CANCELLED


async def test_code_that_swallows_a_cancellation_is_cancelled_again(short_cancel_retry: None) -> None:
    waits, cancellations = asyncio.Event(), []

    @chat
    async def stubborn(messages: Any) -> None:
        waits.set()
        for _ in range(2):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancellations.append("cancelled")

    run = await run_and_cancel(stubborn, waits)

    assert (cancellations, last_event(run)) == (["cancelled", "cancelled"], CANCELLED)


async def test_a_run_ends_even_if_its_code_ignores_every_cancellation(
    short_cancel_retry: None, caplog: pytest.LogCaptureFixture
) -> None:
    waits, release, left = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @chat
    async def deaf(messages: Any, ctx: Context) -> AsyncIterator[str]:
        try:
            waits.set()
            while not release.is_set():
                with suppress(asyncio.CancelledError):
                    await release.wait()
            yield "Too late."
        finally:
            left.set()

    run = await run_and_cancel(deaf, waits)
    events = list(run.log)
    release.set()
    await wait_for_event(left)
    await asyncio.sleep(0)

    assert "The workflow deaf is still running after its run was stopped" in caplog.text
    assert event_lines(events) == ["RunStarted", "RunCancelled"]
    assert run.log == events


# While events are sent to the reader


async def test_a_send_is_never_interrupted_by_a_cancellation() -> None:
    gate, sending, received, closed = asyncio.Event(), asyncio.Event(), [], []

    @chat
    async def fast(messages: Any) -> AsyncIterator[str]:
        try:
            yield "one"
            yield "two"
        finally:
            closed.append("closed")

    async def attend(events: Sequence[Event]) -> None:
        if "TextDelta one" in event_lines(events):
            sending.set()
            await gate.wait()
        received.extend(events)

    run = new_engine().start(fast, call(), consumer=attend)
    await wait_for_event(sending)
    run.cancel()
    gate.set()
    await wait_ended(run)

    assert event_lines(received) == ["RunStarted", "TextStarted", "TextDelta one", "TextEnded", "RunCancelled"]
    assert received == run.log
    assert closed == ["closed"]


async def test_a_message_that_is_being_sent_is_completed_when_the_run_is_cancelled() -> None:
    gate, sending, received = asyncio.Event(), asyncio.Event(), []

    @chat
    async def fast(messages: Any) -> AsyncIterator[Any]:
        yield [Message.assistant("one"), Message.assistant("two")]
        yield Message.assistant("three")

    async def attend(events: Sequence[Event]) -> None:
        if "TextDelta one" in event_lines(events):
            sending.set()
            await gate.wait()
        received.extend(events)

    run = new_engine().start(fast, call(), consumer=attend)
    await wait_for_event(sending)
    run.cancel()
    gate.set()
    await wait_ended(run)

    assert event_lines(received) == ["RunStarted", "TextStarted", "TextDelta one", "TextEnded", "RunCancelled"]
    assert received == run.log


async def test_a_blocked_reader_does_not_delay_the_end_of_a_cancelled_run_for_others(short_cancel_retry: None) -> None:
    gate, sending, received = asyncio.Event(), asyncio.Event(), []

    @chat
    async def fast(messages: Any) -> AsyncIterator[str]:
        yield "one"
        yield "two"

    async def attend(events: Sequence[Event]) -> None:
        if "TextDelta one" in event_lines(events) and not gate.is_set():
            sending.set()
            await gate.wait()
        received.extend(events)

    run = new_engine().start(fast, call(), consumer=attend)
    await wait_for_event(sending)
    run.cancel()
    async with asyncio.timeout(60):
        followed = [event async for batch in run.follow() for event in batch]
    gate.set()
    await wait_ended(run)

    assert event_lines(followed) == ["RunStarted", "TextStarted", "TextDelta one", "TextEnded", "RunCancelled"]
    assert received == followed  # The interrupted batch is sent again.


async def test_a_reader_blocked_on_an_emitted_event_does_not_delay_the_end_for_others(short_cancel_retry: None) -> None:
    gate, sending, received = asyncio.Event(), asyncio.Event(), []

    @chat
    async def busy(messages: Any, ctx: Context) -> AsyncIterator[str]:
        ctx.log("one")
        await asyncio.sleep(0)
        yield "two"

    async def attend(events: Sequence[Event]) -> None:
        if "PartAdded" in event_lines(events) and not gate.is_set():
            sending.set()
            await gate.wait()
        received.extend(events)

    run = new_engine().start(busy, call(), consumer=attend)
    await wait_for_event(sending)
    await asyncio.sleep(0)
    run.cancel()
    async with asyncio.timeout(60):
        followed = [event async for batch in run.follow() for event in batch]
    gate.set()
    await wait_ended(run)

    assert event_lines(followed)[-1] == "RunCancelled"
    assert received == followed == run.log


# Sync code


async def test_sync_code_sees_that_it_is_cancelled() -> None:
    loop, waits, left = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    released = threading.Event()

    @workflow
    def patient(ctx: Context) -> str:
        loop.call_soon_threadsafe(waits.set)
        while not ctx.cancelled:
            released.wait(0.001)
        left.set()
        return "unheard"

    run = await run_and_cancel(patient, waits)

    assert last_event(run) == CANCELLED
    assert await asyncio.to_thread(left.wait, 10)


async def test_a_sync_generator_is_closed_at_its_next_yield() -> None:
    loop, waits, release, left = asyncio.get_running_loop(), asyncio.Event(), threading.Event(), threading.Event()
    resumed = []

    @chat
    def slow(messages: Any) -> Iterator[str]:
        try:
            yield "Hel"
            loop.call_soon_threadsafe(waits.set)
            release.wait(10)
            yield "lo"
            resumed.append("went on")
        finally:
            left.set()

    run = await run_and_cancel(slow, waits)
    ended_first = not left.is_set()
    release.set()

    assert await asyncio.to_thread(left.wait, 10)
    assert (ended_first, resumed) == (True, [])
    assert reply_of(run) == reply(Message.assistant("Hel"), finish="cancelled")


async def test_sync_code_that_waits_for_its_reader_is_released_when_cancelled() -> None:
    gate, sending, left = asyncio.Event(), asyncio.Event(), threading.Event()

    @chat
    def endless(messages: Any) -> Iterator[str]:
        try:
            while True:
                yield "word "
        finally:
            left.set()

    async def attend(events: Sequence[Event]) -> None:
        if "TextDelta word" in event_lines(events) and not gate.is_set():
            sending.set()
            await gate.wait()

    run = new_engine().start(endless, call(), consumer=attend)
    await wait_for_event(sending)
    run.cancel()
    gate.set()
    await wait_ended(run)

    assert last_event(run) == CANCELLED
    assert await asyncio.to_thread(left.wait, 10)


async def test_logging_from_sync_code_after_its_run_was_cancelled_raises() -> None:
    loop, waits, release, left = asyncio.get_running_loop(), asyncio.Event(), threading.Event(), threading.Event()
    seen: list[str] = []

    @chat
    def talkative(messages: Any, ctx: Context) -> None:
        loop.call_soon_threadsafe(waits.set)
        release.wait(10)
        for _ in range(100):  # More often than the queue has room for.
            try:
                ctx.log("Hello?")
            except asyncio.CancelledError as error:
                seen.append(str(error))
        left.set()

    run = await run_and_cancel(talkative, waits)
    release.set()

    assert await asyncio.to_thread(left.wait, 10)
    assert seen == ["the run has ended"] * 100
    assert event_lines(run.log) == ["RunStarted", "RunCancelled"]


async def test_no_thread_is_left_when_cancelled_sync_code_has_returned() -> None:
    engine, loop, waits, release = new_engine(), asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    @workflow
    def slow() -> None:
        loop.call_soon_threadsafe(waits.set)
        release.wait(10)

    run = engine.start(slow, call())
    await wait_for_event(waits)
    run.cancel()
    await wait_ended(run)
    busy = engine.thread_pool.busy
    release.set()
    await wait_until(lambda: engine.thread_pool.busy == 0)

    assert busy == 1
    assert [thread for thread in threading.enumerate() if thread.name == "palaver-workflow"] == []


async def test_a_run_that_waits_for_a_thread_can_be_cancelled() -> None:
    engine, loop, waits, release = new_engine(), asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    engine.thread_pool.max_threads = 1
    engine.thread_pool._slots = asyncio.Semaphore(1)

    @workflow
    def slow() -> None:
        loop.call_soon_threadsafe(waits.set)
        release.wait(10)

    first = engine.start(slow, call())
    await wait_for_event(waits)
    second = engine.start(slow, call())
    await asyncio.sleep(0)
    second.cancel()
    await wait_ended(second)
    release.set()
    await wait_ended(first)

    assert (last_event(second), last_event(first)) == (CANCELLED, RunFinished(value=None, at=NOW))


# Cancellation from outside


async def test_cancelling_the_task_of_a_run_from_outside_cancels_the_run() -> None:
    waits = asyncio.Event()

    @chat
    async def slow(messages: Any) -> None:
        waits.set()
        await asyncio.Event().wait()

    run = new_engine().start(slow, call())
    await wait_for_event(waits)
    next(task for task in asyncio.all_tasks() if task.get_name() == run.id).cancel()  # As asyncio.run does at its end.
    await wait_ended(run)

    assert last_event(run) == CANCELLED
