"""Limits of a run: seconds, events, bytes, and fair use of the event loop."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest

from palaver.core.events import Event, RunFailed, RunFinished
from palaver.core.messages import Data, Message
from palaver.core.runs import RunLimits
from palaver.errors import PalaverError
from palaver.workflows.context import Context
from palaver.workflows.decorators import chat, workflow
from tests.engine.run_factory import (
    NOW,
    RUN,
    call,
    event_lines,
    last_event,
    new_engine,
    reply,
    reply_of,
    run_to_end,
    wait_ended,
    wait_for_event,
)


def failed_event(code: str, message: str) -> RunFailed:
    return RunFailed(code=code, message=message, at=NOW)


# Seconds


async def test_a_run_that_exceeds_its_time_limit_fails_with_its_partial_answer() -> None:
    cancelled = []

    @chat(limits={"seconds": 0.1})
    async def slow(messages: Any, ctx: Context) -> AsyncIterator[str]:
        yield "Hel"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(ctx.cancelled)
            raise

    run = await run_to_end(slow)

    assert last_event(run) == failed_event("timeout", "The run timed out after 0.1 s.")
    assert reply_of(run) == reply(Message.assistant("Hel"), finish="error")
    assert cancelled == [True]


async def test_sync_code_that_exceeds_the_time_limit_sees_the_cancellation() -> None:
    left = asyncio.Event()
    loop = asyncio.get_running_loop()

    @workflow(limits={"seconds": 0.1})
    def slow(ctx: Context) -> None:
        while not ctx.cancelled:
            pass
        loop.call_soon_threadsafe(left.set)

    run = await run_to_end(slow)
    await wait_for_event(left)

    assert last_event(run) == failed_event("timeout", "The run timed out after 0.1 s.")


async def test_an_unhandled_timeout_in_the_workflow_fails_the_run() -> None:
    @chat
    async def impatient(messages: Any) -> None:
        async with asyncio.timeout(0.001):
            await asyncio.Event().wait()

    run = await run_to_end(impatient)

    assert last_event(run) == failed_event("workflow_failed", f"The workflow failed (run {RUN}).")


async def test_a_timeout_handled_by_the_workflow_does_not_fail_the_run() -> None:
    @chat
    async def prudent(messages: Any) -> str:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            pass
        return "Never mind."

    assert reply_of(await run_to_end(prudent)) == reply(Message.assistant("Never mind."))


async def test_the_limits_of_the_server_apply_to_workflows_without_limits() -> None:
    @chat
    async def slow(messages: Any) -> None:
        await asyncio.Event().wait()

    run = await run_to_end(slow, engine=new_engine(limits=RunLimits(seconds=0.01)))

    assert last_event(run) == failed_event("timeout", "The run timed out after 0.01 s.")


# Events


TOO_MANY_EVENTS_MESSAGE = "The run exceeded its limit of 10 events."


async def test_the_event_limit_applies_to_every_source_of_events() -> None:
    @chat
    async def texts(messages: Any) -> AsyncIterator[str]:
        while True:
            yield "x"

    @chat
    def texts_in_a_thread(messages: Any) -> Iterator[str]:
        while True:
            yield "x"

    @chat
    async def parts(messages: Any) -> AsyncIterator[Any]:
        while True:
            yield Data(name="n")

    @workflow
    async def values() -> AsyncIterator[int]:
        while True:
            yield 1

    @chat
    async def one_list(messages: Any) -> list[Message]:
        return [Message.assistant("x") for _ in range(1000)]

    @chat
    async def nested(messages: Any) -> AsyncIterator[Any]:
        def inner() -> Iterator[str]:
            while True:
                yield "x"

        yield inner()

    @chat
    async def emitted(messages: Any, ctx: Context) -> None:
        while True:
            ctx.log("x")

    @chat
    def emitted_in_a_thread(messages: Any, ctx: Context) -> None:
        while True:
            ctx.log("x")

    engine = new_engine(limits=RunLimits(events=10))
    for each in (texts, texts_in_a_thread, parts, values, one_list, nested, emitted, emitted_in_a_thread):
        run = await run_to_end(each, engine=engine)

        assert last_event(run) == failed_event("too_many_events", TOO_MANY_EVENTS_MESSAGE), each
        assert len(run.log) <= 10 + 5, each


async def test_a_run_with_exactly_the_allowed_number_of_events_finishes() -> None:
    @chat(limits={"events": 10})
    async def exact(messages: Any) -> AsyncIterator[str]:
        for _ in range(8):
            yield "x"

    run = await run_to_end(exact)

    assert last_event(run) == RunFinished(at=NOW)
    assert len(run.log) == 12  # The closing events are not counted.


async def test_code_that_ignores_the_event_limit_adds_no_more_events() -> None:
    errors: list[type[Exception]] = []

    @chat(limits={"events": 10})
    async def deaf(messages: Any, ctx: Context) -> str:
        for _ in range(1000):
            try:
                ctx.log("x")
            except PalaverError as error:
                errors.append(type(error))
        return "Did it."

    run = await run_to_end(deaf)

    assert last_event(run) == failed_event("too_many_events", TOO_MANY_EVENTS_MESSAGE)
    assert len(errors) == 1000 - 9
    assert len(run.log) <= 10 + 6


# Bytes


TOO_LARGE_MESSAGE = "The run exceeded its output limit of 100 bytes."


@pytest.mark.parametrize("size", [101, 10_000])
async def test_the_byte_limit_applies_to_every_source_of_output(size: int) -> None:
    piece = "é" * (size // 2 + 1)

    @chat
    async def text(messages: Any) -> AsyncIterator[str]:
        yield piece
        yield "never said"

    @chat
    async def message(messages: Any) -> AsyncIterator[Any]:
        yield Message.assistant(piece)
        yield "never said"

    @chat
    async def data(messages: Any) -> AsyncIterator[Any]:
        yield Data(name="n", value=piece)
        yield "never said"

    @chat
    def in_a_thread(messages: Any) -> Iterator[Any]:
        yield piece
        yield "never said"

    @chat
    async def emitted(messages: Any, ctx: Context) -> str:
        ctx.emit(Data(name="n", value=piece))
        return "never said"

    @workflow
    async def value() -> AsyncIterator[Any]:
        yield {"text": piece}
        yield "never said"

    engine = new_engine(limits=RunLimits(bytes=100))
    for each in (text, message, data, in_a_thread, emitted, value):
        run = await run_to_end(each, engine=engine)

        assert last_event(run) == failed_event("too_large", TOO_LARGE_MESSAGE), each
        assert "TextDelta never said" not in event_lines(run.log), each


async def test_a_value_above_the_byte_limit_fails_the_run() -> None:
    @workflow(limits={"bytes": 100})
    async def large() -> str:
        return "x" * 100

    run = await run_to_end(large)

    assert last_event(run) == failed_event("too_large", "The returned value exceeds the output limit of 100 bytes.")


async def test_small_pieces_add_up_to_the_byte_limit() -> None:
    @chat(limits={"bytes": 100})
    async def text(messages: Any) -> AsyncIterator[str]:
        while True:
            yield "0123456789"

    run = await run_to_end(text)

    assert last_event(run) == failed_event("too_large", TOO_LARGE_MESSAGE)
    assert reply_of(run) == reply(Message.assistant("0123456789" * 11), finish="error")


# The event loop


@pytest.mark.parametrize("value", ["", None, "x"])
async def test_a_workflow_that_never_awaits_does_not_block_the_event_loop(value: str | None) -> None:
    stop = False

    @chat
    async def busy(messages: Any) -> AsyncIterator[Any]:
        while not stop:
            yield value

    async def attend(events: Sequence[Event]) -> None: ...

    run = new_engine().start(busy, call(), consumer=attend)
    for _ in range(5):
        await asyncio.sleep(0)  # Would never return if the workflow blocked the loop.
    stop = True
    await wait_ended(run)

    assert last_event(run) == RunFinished(at=NOW)
