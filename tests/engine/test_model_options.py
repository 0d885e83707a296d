"""Options that the engine applies: stop sequences, and the format of the reply."""

import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from palaver.core.events import RunCancelled, RunFailed, RunFinished, TextDelta
from palaver.core.messages import Message, Text, Usage
from palaver.workflows.context import Context
from palaver.workflows.decorators import chat, workflow
from tests.engine.run_factory import NOW, QUESTION, last_event, reply, reply_of, run_to_end

assistant = Message.assistant
JSON: Any = {"text": {"format": {"type": "json_object"}}}


def stops(*stop: str) -> Any:
    return {"stop": list(stop)}


async def test_a_run_ends_at_a_stop_sequence_and_closes_its_workflow() -> None:
    closed: list[str] = []

    @chat
    async def tutor(messages: list[Message]) -> AsyncIterator[str]:
        try:
            for piece in ("One. E", "ND", " Two."):
                yield piece
        finally:
            closed.append("closed")

    run = await run_to_end(tutor, QUESTION, options=stops("END"))

    assert reply_of(run) == reply(assistant("One. "))
    assert [event.seq for event in run.log] == list(range(len(run.log)))
    assert closed == ["closed"]


async def test_a_workflow_that_returns_its_text_is_cut_too() -> None:
    @chat
    def tutor(messages: list[Message], ctx: Context) -> str:
        assert ctx.options.get("stop") == ["END"]
        return "One. END Two."

    assert reply_of(await run_to_end(tutor, QUESTION, options=stops("END"))) == reply(assistant("One. "))


@pytest.mark.parametrize("is_sync", [False, True])
async def test_emitted_text_ends_at_a_stop_sequence(is_sync: bool) -> None:
    stopped = threading.Event()

    @chat
    def in_thread(messages: list[Message], ctx: Context) -> Iterator[str]:
        ctx.emit(Text(text="One. END"))
        while not ctx.cancelled:
            yield " Two."
        stopped.set()

    @chat
    async def on_loop(messages: list[Message], ctx: Context) -> AsyncIterator[str]:
        ctx.emit(Text(text="One. END"))
        ctx.emit(Text(text="Two."))
        ctx.emit(Usage(input_tokens=1, output_tokens=2))
        yield " Three."

    run = await run_to_end(in_thread if is_sync else on_loop, QUESTION, options=stops("END"))

    assert [event.delta for event in run.log if isinstance(event, TextDelta)] == ["One. "]
    assert last_event(run) == RunFinished(at=NOW)
    assert [event.seq for event in run.log] == list(range(len(run.log)))


async def test_a_reply_of_another_format_fails_the_run_and_is_kept() -> None:
    @chat
    async def tutor(messages: list[Message]) -> AsyncIterator[str]:
        yield "[1]"

    run = await run_to_end(tutor, QUESTION, options=JSON)

    assert reply_of(run).messages == (assistant("[1]"),)
    assert last_event(run) == RunFailed(
        code="format_mismatch",
        message="The reply does not match the required format: it is not a JSON object.",
        at=NOW,
    )


async def test_text_held_back_for_a_stop_sequence_is_part_of_the_format() -> None:
    @chat
    async def tutor(messages: list[Message]) -> AsyncIterator[str]:
        yield '{"a": 1}'

    assert reply_of(await run_to_end(tutor, QUESTION, options={**JSON, **stops("}\n")})) == reply(assistant('{"a": 1}'))


async def test_the_value_of_a_workflow_is_checked() -> None:
    @workflow
    def numbers(count: int) -> list[int]:
        return list(range(count))

    run = await run_to_end(numbers, inputs={"count": 2}, options=JSON)

    assert isinstance(run.log[-1], RunFailed)


async def test_a_cancelled_run_is_not_checked() -> None:
    @chat
    async def tutor(messages: list[Message]) -> AsyncIterator[object]:
        yield "No JSON."
        yield RunCancelled()

    assert last_event(await run_to_end(tutor, QUESTION, options=JSON)) == RunCancelled(at=NOW)
