"""One run: its context, the order of its events, failures, and cleanup."""

import asyncio
import contextvars
import logging
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from msgspec import UNSET

from palaver.core.events import (
    PartAdded,
    RunFailed,
    RunFinished,
    RunStarted,
    TextDelta,
    TextEnded,
    TextStarted,
    UsageAdded,
)
from palaver.core.messages import Data, Message, Text, Usage
from palaver.errors import Failure
from palaver.workflows.context import Context
from palaver.workflows.decorators import chat, workflow
from tests.engine.run_factory import (
    MSG,
    NOW,
    QUESTION,
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

assistant = Message.assistant


async def test_a_run_logs_its_start_its_text_and_its_end() -> None:
    @chat
    async def tutor(messages: list[Message]) -> AsyncIterator[str]:
        yield "Hel"
        yield "lo"

    run = await run_to_end(tutor, QUESTION, session="s-1", trace_parent=f"00-{'a' * 32}-{'b' * 16}-01")

    started = run.log[0]
    assert isinstance(started, RunStarted)
    assert run.log == [
        RunStarted(0, run_id=RUN, session="s-1", at=NOW, trace_id="a" * 32, span_id=started.span_id),
        TextStarted(1, item=MSG, message=MSG),
        TextDelta(2, item=MSG, delta="Hel"),
        TextDelta(3, item=MSG, delta="lo"),
        TextEnded(4, item=MSG, text="Hello"),
        RunFinished(5, at=NOW),
    ]
    assert (run.id, run.name, run.started.session, run.is_finished, run.on_disconnect) == (
        RUN,
        "tutor",
        "s-1",
        True,
        None,
    )
    assert run.started == RunStarted(0, run_id=RUN, session="s-1", at=NOW, trace_id="a" * 32, span_id=started.span_id)


async def test_the_value_of_a_workflow_is_in_its_last_event() -> None:
    @workflow
    async def double(x: int) -> int:
        return 2 * x

    run = await run_to_end(double, inputs={"x": 4})

    assert [type(event) for event in run.log] == [RunStarted, RunFinished]
    assert last_event(run) == RunFinished(value=8, at=NOW)


async def test_a_chat_has_no_value() -> None:
    @chat
    async def silent(messages: Any) -> None: ...

    run = await run_to_end(silent)

    assert last_event(run) == RunFinished(value=UNSET, at=NOW)


# Arguments of a workflow


async def test_a_chat_gets_its_history_in_the_dialect_of_its_annotation() -> None:
    received: list[Any] = []

    @chat
    async def ours(messages: list[Message]) -> None:
        received.append(messages)

    @chat
    async def plain(messages: list[dict[str, Any]]) -> None:
        received.append(messages)

    @chat
    async def unannotated(messages) -> None:
        received.append(messages)

    for each in (ours, plain, unannotated):
        await run_to_end(each, QUESTION)

    assert received == [[QUESTION], [{"role": "user", "content": "Well?"}], [{"role": "user", "content": "Well?"}]]


async def test_a_workflow_with_a_context_parameter_gets_its_context() -> None:
    seen: dict[str, Any] = {}

    @chat(flags={"is_beta": True})
    async def curious(messages: Any, ctx: Context) -> None:
        seen.update(vars(ctx))

    run = await run_to_end(curious, QUESTION, session="s-1", options={"temperature": 1}, client_tools=frozenset({"f"}))

    known = ("run_id", "session", "messages", "options", "client_tools", "secrets", "flags", "cancelled")
    assert {key: seen[key] for key in known} == {
        "run_id": run.id,
        "session": "s-1",
        "messages": (QUESTION,),
        "options": {"temperature": 1},
        "client_tools": frozenset({"f"}),
        "secrets": {},
        "flags": {"is_beta": True, "is_chat": True},
        "cancelled": False,
    }


WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO")


@chat
def function_chat(messages: Any) -> str:
    return WHO.get()


@chat
def generator_chat(messages: Any) -> Iterator[str]:
    yield WHO.get()


@chat
async def coroutine_chat(messages: Any) -> str:
    return WHO.get()


@chat
async def async_generator_chat(messages: Any) -> AsyncIterator[Any]:
    yield WHO.get()[:1]
    yield (WHO.get()[1:] for _ in range(1))


CONTEXT_CHATS = [function_chat, generator_chat, coroutine_chat, async_generator_chat]


@pytest.mark.parametrize("kind", CONTEXT_CHATS, ids=lambda kind: kind.description.name)
async def test_a_workflow_sees_the_context_variables_of_its_caller(kind: Any) -> None:
    WHO.set("me")

    assert reply_of(await run_to_end(kind)) == reply(assistant("me"))


async def test_sync_code_runs_in_one_thread_outside_the_event_loop() -> None:
    @workflow
    def threads() -> Iterator[int]:
        for _ in range(3):
            yield threading.get_ident()

    run = await run_to_end(threads)

    value: Any = reply_of(run).value
    assert len(set(value)) == 1
    assert value[0] != threading.get_ident()


async def test_a_blocked_workflow_does_not_delay_another() -> None:
    release = threading.Event()

    @workflow
    def blocked() -> bool:
        return release.wait(10)

    @workflow
    async def quick() -> str:
        return "here"

    engine = new_engine()
    slow = engine.start(blocked, call())
    fast = await run_to_end(quick, engine=engine)
    finished_while_blocked = slow.is_finished
    release.set()
    await wait_ended(slow)

    assert (last_event(fast), finished_while_blocked) == (RunFinished(value="here", at=NOW), False)
    assert last_event(slow) == RunFinished(value=True, at=NOW)


# Order


def output_texts(run: Any) -> list[str]:
    """Return the output in order: deltas by their text, parts by their value."""
    steps = [event for event in run.log if isinstance(event, TextDelta | PartAdded)]
    return [str(step.delta if isinstance(step, TextDelta) else getattr(step.part, "value", "")) for step in steps]


@chat
def emitting_function(messages: Any, ctx: Context) -> str:
    ctx.log("1")
    ctx.emit(Data(name="n", value="2"))
    return "3"


@chat
def emitting_generator(messages: Any, ctx: Context) -> Iterator[str]:
    ctx.log("1")
    yield "2"
    ctx.emit(Data(name="n", value="3"))
    yield "4"
    ctx.log("5")


@chat
async def emitting_coroutine(messages: Any, ctx: Context) -> str:
    ctx.log("1")
    await asyncio.sleep(0)
    ctx.emit(Data(name="n", value="2"))
    return "3"


@chat
async def emitting_async_generator(messages: Any, ctx: Context) -> AsyncIterator[str]:
    ctx.log("1")
    yield "2"
    ctx.emit(Data(name="n", value="3"))
    yield "4"
    await asyncio.sleep(0)
    ctx.log("5")


@chat
async def emitting_nested(messages: Any, ctx: Context) -> AsyncIterator[Any]:
    def inner() -> Iterator[str]:
        ctx.log("2")
        yield "3"
        ctx.log("4")

    yield "1"
    yield inner()
    ctx.log("5")


@chat
def emitting_through_a_new_thread(messages: Any, ctx: Context) -> Iterator[str]:
    for number in range(1, 6):
        if number % 2:
            yield str(number)
        else:
            helper = threading.Thread(target=ctx.log, args=(str(number),))
            helper.start()
            helper.join(10)


@chat
async def emitting_from_a_worker_thread(messages: Any, ctx: Context) -> AsyncIterator[str]:
    yield "1"
    await asyncio.to_thread(ctx.log, "2")
    yield "3"


EMITTING_CHATS = [
    (emitting_function, 3),
    (emitting_generator, 5),
    (emitting_coroutine, 3),
    (emitting_async_generator, 5),
    (emitting_nested, 5),
    (emitting_through_a_new_thread, 5),
    (emitting_from_a_worker_thread, 3),
]


@pytest.mark.parametrize("attended", [False, True])
@pytest.mark.parametrize(("kind", "steps"), EMITTING_CHATS, ids=[kind.description.name for kind, _ in EMITTING_CHATS])
async def test_emitted_and_yielded_events_stay_in_order(kind: Any, steps: int, attended: bool) -> None:
    received: list[Any] = []

    async def attend(events: Any) -> None:
        await asyncio.sleep(0)
        received.extend(events)

    run = await wait_ended(new_engine().start(kind, call(), consumer=attend if attended else None))

    assert output_texts(run) == [str(number) for number in range(1, steps + 1)]
    assert [event.seq for event in run.log] == list(range(len(run.log)))
    assert received == (run.log if attended else [])


# What may be emitted


async def test_emitted_messages_parts_and_usage_are_in_the_reply_but_not_in_the_value() -> None:
    @workflow
    async def busy(ctx: Context) -> int:
        ctx.emit(assistant("Working."))
        ctx.emit(Text(text="Still."))
        ctx.emit(Usage(1, 2))
        ctx.emit(Message.user("I am you."))
        return 5

    @workflow
    def busy_in_a_thread(ctx: Context) -> int:
        ctx.emit(assistant("Working."))
        ctx.emit(Text(text="Still."))
        ctx.emit(Usage(1, 2))
        ctx.emit(Message.user("I am you."))
        return 5

    for each in (busy, busy_in_a_thread):
        run = await run_to_end(each)

        assert reply_of(run) == reply(assistant("Working."), assistant("Still."), value=5, usage=Usage(1, 2))
        assert run.warnings == ["dropped a user message from a chat's reply"]
        assert UsageAdded in {type(event) for event in run.log}


@pytest.mark.parametrize("in_a_thread", [False, True])
async def test_emitting_any_other_value_fails_the_run(in_a_thread: bool) -> None:
    @chat
    async def wrong(messages: Any, ctx: Context) -> None:
        ctx.emit("text")

    @chat
    def wrong_in_a_thread(messages: Any, ctx: Context) -> None:
        ctx.emit("text")

    run = await run_to_end(wrong_in_a_thread if in_a_thread else wrong)

    assert last_event(run) == RunFailed(
        code="bad_stream", message="ctx.emit() accepts events, parts, messages and usage, not str.", at=NOW
    )


@pytest.mark.parametrize("in_a_thread", [False, True])
async def test_nothing_can_be_emitted_after_the_end(in_a_thread: bool) -> None:
    contexts: list[Context] = []

    @chat
    async def keeps(messages: Any, ctx: Context) -> None:
        contexts.append(ctx)

    run = await run_to_end(keeps)

    async def on_the_loop(log: Any, line: str) -> None:
        log(line)

    invoke = asyncio.to_thread if in_a_thread else on_the_loop
    with pytest.raises(RuntimeError, match="after the run has ended"):
        await invoke(contexts[0].log, "late")
    assert event_lines(run.log) == ["RunStarted", "RunFinished"]


async def test_a_workflow_can_set_its_finish_reason() -> None:
    @chat
    async def short(messages: Any, ctx: Context) -> str:
        ctx.finish("length")
        return "Hel"

    assert reply_of(await run_to_end(short)) == reply(assistant("Hel"), finish="length")


# Failures


@chat
async def broken_async_generator(messages: Any) -> AsyncIterator[str]:
    yield "Hel"
    raise LookupError("secret")


@chat
def broken_generator(messages: Any) -> Iterator[str]:
    yield "Hel"
    raise LookupError("secret")


@pytest.mark.parametrize("kind", [broken_async_generator, broken_generator], ids=lambda kind: kind.description.name)
async def test_output_before_an_exception_remains_in_the_reply(kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    run = await run_to_end(kind)

    assert reply_of(run) == reply(assistant("Hel"), finish="error")
    assert last_event(run) == RunFailed(code="workflow_failed", message=f"The workflow failed (run {RUN}).", at=NOW)
    assert "LookupError: secret" in caplog.text


async def test_debug_mode_adds_the_exception_to_the_message() -> None:
    run = await run_to_end(broken_async_generator, engine=new_engine(debug=True))

    assert last_event(run) == RunFailed(
        code="workflow_failed", message=f"The workflow failed (run {RUN}). LookupError: secret", at=NOW
    )


EXCEPTIONS = [
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    StopIteration(1),
    StopAsyncIteration(),
    asyncio.CancelledError("mine"),
    TimeoutError("mine"),
    BaseExceptionGroup("several", [SystemExit(3), LookupError("x")]),
]


@pytest.mark.parametrize("kind", ["function", "generator", "coroutine", "async generator"])
@pytest.mark.parametrize("error", EXCEPTIONS, ids=lambda error: type(error).__name__)
async def test_any_exception_of_a_workflow_fails_only_its_run(error: BaseException, kind: str) -> None:
    async def coroutine(messages: Any) -> str:
        raise error

    def function(messages: Any) -> str:
        raise error

    def generator(messages: Any) -> Iterator[str]:
        yield "Hel"
        raise error

    async def async_generator(messages: Any) -> AsyncIterator[str]:
        yield "Hel"
        raise error

    kinds = {"function": function, "generator": generator, "coroutine": coroutine, "async generator": async_generator}
    run = await run_to_end(chat(kinds[kind], name="w"))

    assert last_event(run) == RunFailed(code="workflow_failed", message=f"The workflow failed (run {RUN}).", at=NOW)
    assert isinstance(error, SystemExit) or sys.exc_info() == (None, None, None)


async def test_a_failure_inside_a_task_group_is_unwrapped() -> None:
    @chat
    async def grouped(messages: Any) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())

    async def fails() -> None:
        raise Failure("full", "No room.")

    run = await run_to_end(grouped)

    assert last_event(run) == RunFailed(code="full", message="No room.", at=NOW)


async def test_a_type_error_fails_the_run_and_an_input_may_be_named_self() -> None:
    @workflow
    def takes_self(**inputs: Any) -> Any:
        return inputs

    async def refuses(**inputs: Any) -> None:
        raise TypeError("unexpected")

    run = await run_to_end(workflow(refuses), inputs={"self": 1})
    fine = await run_to_end(takes_self, inputs={"self": 1})

    assert last_event(run) == RunFailed(code="workflow_failed", message=f"The workflow failed (run {RUN}).", at=NOW)
    assert last_event(fine) == RunFinished(value={"self": 1}, at=NOW)


# Cleaning up


async def test_a_generator_is_closed_when_its_run_fails() -> None:
    closed: list[str] = []
    thread_closed = asyncio.Event()
    loop = asyncio.get_running_loop()

    @chat
    async def wrong(messages: Any) -> AsyncIterator[Any]:
        try:
            yield b"bytes"
        finally:
            await asyncio.sleep(0)
            closed.append("async")

    @chat
    def wrong_in_a_thread(messages: Any) -> Iterator[Any]:
        try:
            while True:
                yield b"bytes"
        finally:
            closed.append("sync")
            loop.call_soon_threadsafe(thread_closed.set)

    @chat
    async def wrong_inside(messages: Any) -> AsyncIterator[Any]:
        async def inner() -> AsyncIterator[bytes]:
            try:
                yield b"bytes"
            finally:
                closed.append("inner")

        yield inner()

    for each in (wrong, wrong_in_a_thread, wrong_inside):
        run = await run_to_end(each)
        assert last_event(run) == RunFailed(
            code="bad_stream", message="The workflow returned bytes. Decode them to text first.", at=NOW
        )
    await wait_for_event(thread_closed)

    assert sorted(closed) == ["async", "inner", "sync"]


async def test_a_failed_run_cancels_the_context_of_its_sync_code() -> None:
    contexts: list[Context] = []

    @chat
    def wrong(messages: Any, ctx: Context) -> Iterator[Any]:
        contexts.append(ctx)
        yield b"bytes"

    await run_to_end(wrong)

    assert contexts[0].cancelled


async def test_an_async_iterable_with_aclose_is_closed_when_its_run_fails() -> None:
    class Feed:
        closed = False

        def __aiter__(self) -> "Feed":
            return self

        async def __anext__(self) -> bytes:
            return b"bytes"

        async def aclose(self) -> None:
            self.closed = True

    feed = Feed()

    @chat
    async def relays(messages: Any) -> AsyncIterator[Any]:
        yield feed

    await run_to_end(relays)

    assert feed.closed


async def test_a_repeated_warning_is_recorded_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    @chat
    async def odd(messages: Any) -> AsyncIterator[Any]:
        for number in range(3):
            yield number

    with caplog.at_level(logging.INFO, "palaver.run"):
        run = await run_to_end(odd)

    warning = "a chat returned a value of type int, which is not a message; it is shown as data"
    assert run.warnings == [warning]
    assert [record.getMessage() for record in caplog.records] == [f"run {RUN}: {warning}"]


async def test_a_run_object_has_no_instance_dictionary() -> None:
    """Slots instead of a dictionary: 1.3 KiB less for each idle stream."""

    @chat
    async def brief(messages: list[Message]) -> str:
        return "Hi."

    run = await run_to_end(brief, Message("user", (Text("Hello"),)))

    assert not hasattr(run, "__dict__")
