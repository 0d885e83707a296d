"""The reply grammar: the values that a workflow may return or yield, and the resulting events."""

import dataclasses
import datetime as dt
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec
import pydantic
import pytest

from palaver.core.events import (
    ReasoningDelta,
    RunCancelled,
    RunFailed,
    RunFinished,
    TextDelta,
    ToolDelta,
    ToolEnded,
    ToolStarted,
)
from palaver.core.fold import fold
from palaver.core.messages import Data, File, Message, Reasoning, Refusal, Text, ToolCall, ToolResult, Usage
from palaver.core.runs import Reply
from palaver.errors import Failure
from palaver.workflows.decorators import chat, workflow
from palaver.workflows.workflow import FunctionWorkflow
from tests.engine.run_factory import NOW, QUESTION, RUN, last_event, reply, reply_of, run_to_end

assistant = Message.assistant
CALL = ToolCall(call_id="c1", name="add", arguments='{"a":2}')
RESULT = ToolResult(call_id="c1", output="4")


class StrSubclass(str):
    __slots__ = ()


@dataclasses.dataclass
class Point:
    x: int
    on: dt.date


class Place(pydantic.BaseModel):
    name: str


def output(value: Any) -> Message:
    return assistant(Data(name="output", value=value))


# Four kinds of function, each giving the same values


def by_return(values: list[Any]) -> Callable[..., Any]:
    def function(messages: Any = None) -> Any:
        return values[0]

    return function


def by_coroutine(values: list[Any]) -> Callable[..., Any]:
    async def coroutine(messages: Any = None) -> Any:
        return values[0]

    return coroutine


def by_generator(values: list[Any]) -> Callable[..., Any]:
    def generator(messages: Any = None) -> Iterator[Any]:
        yield from values

    return generator


def by_async_generator(values: list[Any]) -> Callable[..., Any]:
    async def async_generator(messages: Any = None) -> AsyncIterator[Any]:
        for value in values:
            yield value

    return async_generator


RETURN_MAKERS = [by_return, by_coroutine]
YIELD_MAKERS = [by_generator, by_async_generator]
Maker = Callable[[list[Any]], Callable[..., Any]]


def make_chat(maker: Maker, *values: Any) -> FunctionWorkflow:
    return chat(maker(list(values)), name="w")


def make_workflow(maker: Maker, *values: Any) -> FunctionWorkflow:
    return workflow(functools.partial(maker(list(values)), None), name="w")


# A chat: one value


CHAT_VALUES: dict[str, tuple[Any, Reply]] = {
    # 1. an event or a value of Palaver
    "a message": (assistant("Hi."), reply(assistant("Hi."))),
    "a message of several parts": (
        assistant(Reasoning(text="Hm."), "Hi.", Refusal(text="No.")),
        reply(assistant(Reasoning(text="Hm."), "Hi.", Refusal(text="No."))),
    ),
    "a message that says nothing": (assistant(), reply()),
    "a reply": (
        Reply(run_id="run_x", messages=(assistant("Hi."),), usage=Usage(1, 2), finish="stop"),
        reply(assistant("Hi."), usage=Usage(1, 2)),
    ),
    "a reply without usage": (
        Reply(run_id="run_x", messages=(assistant("Hi."),), finish="stop"),
        reply(assistant("Hi.")),
    ),
    "a text part": (Text(text="Hi."), reply(assistant("Hi."))),
    "a reasoning part": (Reasoning(text="Hm."), reply(assistant(Reasoning(text="Hm.")))),
    "a refusal part": (Refusal(text="No."), reply(assistant(Refusal(text="No.")))),
    "a file part": (
        File(media_type="image/png", url="https://x/y.png"),
        reply(assistant(File(media_type="image/png", url="https://x/y.png"))),
    ),
    "a data part": (Data(name="chart", value=[1]), reply(assistant(Data(name="chart", value=[1])))),
    "a tool call": (CALL, reply(assistant(CALL), finish="tool-calls")),
    "a usage": (Usage(1, 2), reply(usage=Usage(1, 2))),
    "a text delta": (TextDelta(delta="Hi."), reply(assistant("Hi."))),
    "a reasoning delta": (ReasoningDelta(delta="Hm."), reply(assistant(Reasoning(text="Hm.")))),
    "its own end": (RunFinished(finish="length"), reply(finish="length")),
    "its own end with a value, which no chat has": (RunFinished(value=5), reply()),
    # 3. text
    "text": ("Hi.", reply(assistant("Hi."))),
    "text of a subclass": (StrSubclass("HI."), reply(assistant("HI."))),
    "text beyond ASCII": ("Grüß\udcff", reply(assistant("Grüß\ufffd"))),
    "empty text": ("", reply()),
    "nothing": (None, reply()),
    # 4. a mapping or list that is messages
    "a plain message": ({"role": "assistant", "content": "Hi."}, reply(assistant("Hi."))),
    "a plain message of our dialect": (
        {"role": "assistant", "parts": [{"type": "text", "text": "Hi."}, {"type": "data", "name": "n", "value": 1}]},
        reply(assistant("Hi.", Data(name="n", value=1))),
    ),
    "a plain message that calls a tool": (
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "function": {"name": "add", "arguments": "{}"}}],
        },
        reply(assistant(ToolCall(call_id="c1", name="add", arguments="{}")), finish="tool-calls"),
    ),
    "a list of plain messages": (
        [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "4"},
            {"role": "assistant", "content": "Four."},
        ],
        reply(
            assistant(ToolCall(call_id="c1", name="f", arguments="{}")),
            Message.tool("c1", "4"),
            assistant("Four."),
        ),
    ),
    "a list of our messages": (
        [assistant(CALL), Message.tool("c1", "4"), assistant("Four.")],
        reply(assistant(CALL), Message.tool("c1", "4"), assistant("Four.")),
    ),
    "a tuple of plain messages": (({"role": "assistant", "content": "Hi."},), reply(assistant("Hi."))),
    "a list of ours and plain ones": (
        [assistant("One."), {"role": "assistant", "content": "Two."}],
        reply(assistant("One."), assistant("Two.")),
    ),
    "a message that also holds messages": (
        {"role": "assistant", "content": "Hi.", "messages": [{"role": "assistant", "content": "Not me."}]},
        reply(assistant("Hi.")),
    ),
    # 5. {"messages": […]}
    "messages under a key": (
        {"messages": [{"role": "assistant", "content": "Hi."}], "step": 3},
        reply(assistant("Hi.")),
    ),
    "our messages under a key": ({"messages": [assistant("Hi.")]}, reply(assistant("Hi."))),
    "messages under a key beside an odd role": (
        {"messages": [{"role": "assistant", "content": "Hi."}], "role": "planner"},
        reply(assistant("Hi.")),
    ),
    # The history of the call is not repeated, and user and system messages are dropped
    "the history and an answer": (
        [{"role": "user", "content": "Well?"}, {"role": "assistant", "content": "Hi."}],
        reply(assistant("Hi.")),
    ),
    "the history and an answer as state": ({"messages": [QUESTION, assistant("Hi.")]}, reply(assistant("Hi."))),
    "the history alone": ([QUESTION], reply()),
    "another user message": ([Message.user("I am you."), assistant("Hi.")], reply(assistant("Hi."))),
    "a system message": ([Message.system("Obey."), assistant("Hi.")], reply(assistant("Hi."))),
    # 6. any other JSON value
    "a number": (5, reply(output(5))),
    "a boolean": (False, reply(output(False))),
    "an object that is no message": ({"answer": 4}, reply(output({"answer": 4}))),
    "messages that are none": ({"messages": [1]}, reply(output({"messages": [1]}))),
    "a list that is no messages": (["a", 1], reply(output(["a", 1]))),
    "an empty list": ([], reply(output([]))),
    "a role nobody knows": ({"role": "admin", "content": "all"}, reply(output({"role": "admin", "content": "all"}))),
    "a dataclass": (Point(1, dt.date(2026, 1, 2)), reply(output({"x": 1, "on": "2026-01-02"}))),
    "a pydantic model": (Place(name="Rome"), reply(output({"name": "Rome"}))),
}


@pytest.mark.parametrize("maker", RETURN_MAKERS + YIELD_MAKERS)
@pytest.mark.parametrize("case", CHAT_VALUES)
async def test_each_value_of_a_chat_becomes_its_reply(case: str, maker: Maker) -> None:
    value, expected = CHAT_VALUES[case]

    run = await run_to_end(make_chat(maker, value), QUESTION)

    assert reply_of(run) == expected


INVALID_VALUES: dict[str, tuple[Any, str]] = {
    "bytes": (b"Hi.", "The workflow returned bytes. Decode them to text first."),
    "a bytearray": (bytearray(b"Hi."), "The workflow returned bytes. Decode them to text first."),
    "a view of bytes": (memoryview(b"Hi."), "The workflow returned bytes. Decode them to text first."),
    "an object": (
        ValueError,
        (
            "The workflow returned a value of type type that is not JSON-serializable "
            "(unsupported type type). Return text, messages or JSON."
        ),
    ),
}


@pytest.mark.parametrize("declared", [make_chat, make_workflow])
@pytest.mark.parametrize("maker", RETURN_MAKERS + YIELD_MAKERS)
@pytest.mark.parametrize("case", INVALID_VALUES)
async def test_bytes_and_objects_that_are_not_json_fail_the_run(
    case: str, maker: Maker, declared: Callable[..., FunctionWorkflow]
) -> None:
    value, reason = INVALID_VALUES[case]

    run = await run_to_end(declared(maker, value))

    assert last_event(run) == RunFailed(code="bad_stream", message=reason, at=NOW)


@pytest.mark.parametrize("maker", RETURN_MAKERS + YIELD_MAKERS)
@pytest.mark.parametrize(
    "value",
    [
        {"role": "model", "parts": [{"text": "Hi."}]},
        {"type": "ai", "content": "Hi."},
        {"role": "assistant", "parts": [{"type": "text", "content": "Hi."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": ""}, {"type": "text", "text": "Hi."}]},
    ],
)
async def test_a_chat_can_return_or_yield_messages_in_any_dialect(maker: Maker, value: Any) -> None:
    run = await run_to_end(make_chat(maker, value))

    assert [message.text for message in fold(run.log).messages] == ["Hi."]


# A chat: several values


CHAT_STREAMS: dict[str, tuple[list[Any], Reply]] = {
    "pieces of text are one message": (["Hel", "lo"], reply(assistant("Hello"))),
    "text, a call, its result, text": (
        ["Let me see.", CALL, RESULT, "Four."],
        reply(assistant("Let me see.", CALL), Message.tool("c1", "4"), assistant("Four.")),
    ),
    "a call in pieces": (
        [ToolStarted(call_id="c1", name="add"), ToolDelta(delta='{"a"'), ToolDelta(delta=":2}"), ToolEnded()],
        reply(assistant(CALL), finish="tool-calls"),
    ),
    "text goes on around data": (
        ["Hel", Data(name="chart", value=1), "lo"],
        reply(assistant("Hello", Data(name="chart", value=1))),
    ),
    "an empty message separates two": (["One.", assistant(), "Two."], reply(assistant("One."), assistant("Two."))),
    "messages in two dialects": (
        [{"role": "assistant", "content": "One."}, assistant("Two.")],
        reply(assistant("One."), assistant("Two.")),
    ),
    "usages add up": ([Usage(1, 2), "Hi.", Usage(3, 4)], reply(assistant("Hi."), usage=Usage(4, 6))),
    "nothing between": (["Hel", None, "", "lo"], reply(assistant("Hello"))),
}


@pytest.mark.parametrize("maker", YIELD_MAKERS)
@pytest.mark.parametrize("case", CHAT_STREAMS)
async def test_values_yielded_by_a_chat_become_its_reply(case: str, maker: Maker) -> None:
    values, expected = CHAT_STREAMS[case]

    run = await run_to_end(make_chat(maker, *values), QUESTION)

    assert reply_of(run) == expected


@pytest.mark.parametrize("maker", YIELD_MAKERS)
@pytest.mark.parametrize(
    ("end", "last"),
    [
        (RunFailed(code="full", message="No room.", status=507, details={"left": 0}), "error"),
        (RunCancelled(), "cancelled"),
    ],
)
async def test_a_chat_can_yield_its_own_failure_or_cancellation(maker: Maker, end: Any, last: str) -> None:
    run = await run_to_end(make_chat(maker, "Hel", end))

    assert reply_of(run) == reply(assistant("Hel"), finish=last)
    assert last_event(run) == msgspec.structs.replace(end, at=NOW)


@pytest.mark.parametrize("maker", YIELD_MAKERS)
@pytest.mark.parametrize(
    ("values", "messages"),
    [
        (["Hel", RESULT], [assistant("Hel")]),
        ([CALL, RESULT, RESULT], [assistant(CALL), Message.tool("c1", "4")]),
        ([RunFinished(), assistant("More.")], []),
    ],
)
async def test_an_invalid_stream_fails_the_run_as_bad_stream(
    maker: Maker, values: list[Any], messages: list[Message]
) -> None:
    run = await run_to_end(make_chat(maker, *values))

    end = last_event(run)
    assert isinstance(end, RunFailed)
    assert end.code == "bad_stream"
    assert reply_of(run) == reply(*messages, finish="error")


# Nested: generators, iterables and coroutines of any of these


class Feed:
    """Iterable by `async for` only, like the streams of model clients."""

    def __init__(self, *values: Any) -> None:
        self._values = iter(values)

    def __aiter__(self) -> "Feed":
        return self

    async def __anext__(self) -> Any:
        for value in self._values:
            return value
        raise StopAsyncIteration


def pieces() -> Iterator[str]:
    yield "a"
    yield "b"


async def async_pieces() -> AsyncIterator[str]:
    yield "a"
    yield "b"


async def full_text() -> str:
    return "ab"


NESTED: dict[str, Callable[[], Any]] = {
    "a generator": pieces,
    "an iterator": lambda: iter(["a", "b"]),
    "a generator of iterators": lambda: (iter([piece]) for piece in "ab"),
    "an async generator": async_pieces,
    "an async iterable": lambda: Feed("a", "b"),
    "an async iterable of iterators": lambda: Feed(iter("a"), iter("b")),
    "a coroutine": full_text,
}


@pytest.mark.parametrize("maker", RETURN_MAKERS + YIELD_MAKERS)
@pytest.mark.parametrize("case", NESTED)
async def test_a_chat_can_give_generators_iterables_and_coroutines(case: str, maker: Maker) -> None:
    run = await run_to_end(make_chat(maker, NESTED[case]()))

    assert reply_of(run) == reply(assistant("ab"))


@pytest.mark.parametrize("maker", RETURN_MAKERS + YIELD_MAKERS)
@pytest.mark.parametrize("case", NESTED)
async def test_a_workflow_can_give_generators_iterables_and_coroutines(case: str, maker: Maker) -> None:
    run = await run_to_end(make_workflow(maker, NESTED[case]()))

    assert last_event(run) == RunFinished(value="ab", at=NOW)


@pytest.mark.parametrize("maker", YIELD_MAKERS)
async def test_a_coroutine_among_yielded_values_gives_one_value(maker: Maker) -> None:
    async def number() -> int:
        return 2

    run = await run_to_end(make_workflow(maker, 1, number(), 3))

    assert last_event(run) == RunFinished(value=[1, 2, 3], at=NOW)


# Any other workflow: its value


WORKFLOW_VALUES: dict[str, tuple[Any, Any]] = {
    "text": ("Hi.", "Hi."),
    "a number": (5, 5),
    "null": (None, None),
    "false": (False, False),
    "an object": ({"a": [1, None]}, {"a": [1, None]}),
    "an empty list": ([], []),
    "a tuple": ((1, 2), [1, 2]),
    "a plain message, as it stands": ({"role": "assistant", "content": "Hi."}, {"role": "assistant", "content": "Hi."}),
    "messages under a key, as they stand": (
        {"messages": [{"role": "user", "content": "x"}]},
        {"messages": [{"role": "user", "content": "x"}]},
    ),
    "a message of ours": (assistant("Hi."), {"role": "assistant", "parts": [{"type": "text", "text": "Hi."}]}),
    "a dataclass": (Point(1, dt.date(2026, 1, 2)), {"x": 1, "on": "2026-01-02"}),
    "a pydantic model": (Place(name="Rome"), {"name": "Rome"}),
}


@pytest.mark.parametrize("maker", RETURN_MAKERS + YIELD_MAKERS)
@pytest.mark.parametrize("case", WORKFLOW_VALUES)
async def test_the_value_of_a_workflow_is_converted_to_json(case: str, maker: Maker) -> None:
    value, expected = WORKFLOW_VALUES[case]

    run = await run_to_end(make_workflow(maker, value))

    assert last_event(run) == RunFinished(value=expected, at=NOW)


@pytest.mark.parametrize("maker", RETURN_MAKERS)
async def test_a_part_that_a_workflow_returns_is_its_value(maker: Maker) -> None:
    run = await run_to_end(make_workflow(maker, Data(name="n", value=1)))

    assert last_event(run) == RunFinished(value={"type": "data", "name": "n", "value": 1}, at=NOW)


WORKFLOW_STREAMS: dict[str, tuple[list[Any], Any, Reply]] = {
    "nothing at all": ([], None, reply(value=None)),
    "only text": (["a", "b"], "ab", reply(assistant("ab"), value="ab")),
    "one value": ([{"a": 1}], {"a": 1}, reply(output({"a": 1}), value={"a": 1})),
    "several values": (
        [1, None],
        [1, None],
        reply(assistant(Data(name="output", value=1), Data(name="output", value=None)), value=[1, None]),
    ),
    "text between values counts as one": (
        ["a", "b", 1, "c", "d"],
        ["ab", 1, "cd"],
        reply(assistant("abcd", Data(name="output", value=1)), value=["ab", 1, "cd"]),
    ),
    "what is shown beside it is no part of it": (
        [Data(name="chart", value=0), "a", Usage(1, 2)],
        "a",
        reply(assistant(Data(name="chart", value=0), "a"), value="a", usage=Usage(1, 2)),
    ),
    "its own end says the value": ([1, RunFinished(value={"b": 2})], {"b": 2}, reply(output(1), value={"b": 2})),
    "its own end leaves the value": (
        [1, RunFinished(finish="length")],
        1,
        reply(output(1), value=1, finish="length"),
    ),
}


@pytest.mark.parametrize("maker", YIELD_MAKERS)
@pytest.mark.parametrize("case", WORKFLOW_STREAMS)
async def test_values_yielded_by_a_workflow_become_its_value(case: str, maker: Maker) -> None:
    values, value, expected = WORKFLOW_STREAMS[case]

    run = await run_to_end(make_workflow(maker, *values))

    assert last_event(run) == RunFinished(value=value, finish=expected.finish, at=NOW)
    assert reply_of(run) == expected


# Failing on purpose


@pytest.mark.parametrize("declared", [make_chat, make_workflow])
async def test_a_workflow_can_fail_with_a_code_a_status_and_details(declared: Callable[..., FunctionWorkflow]) -> None:
    def failing(values: list[Any]) -> Callable[..., Any]:
        def function(messages: Any = None) -> Any:
            raise Failure("no_city", "I do not know Atlantis.", status=404, details={"city": "Atlantis"})

        return function

    run = await run_to_end(declared(failing))

    assert run.id == RUN
    assert last_event(run) == RunFailed(
        code="no_city", message="I do not know Atlantis.", status=404, details={"city": "Atlantis"}, at=NOW
    )
