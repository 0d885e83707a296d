"""LangChain messages as Responses items, and its streams as events, without a server."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool

from palaver import Failure
from palaver.frameworks.langchain import message_to_items, stream_to_responses
from tests.frameworks.langchain_models import Scripted, call, tool_call_chunks, tool_call_message, words


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def agent() -> Any:
    turns = [
        [*words("Let ", "me."), *tool_call_chunks((0, "c1", "add", '{"a":1,'), (0, None, None, '"b":2}'))],
        words("3."),
    ]
    return create_agent(Scripted(turns=turns), [add])


ASKED: Any = {"messages": [HumanMessage("Well?")]}


def shown(item: dict[str, Any]) -> Any:
    """An item in few words, without the ids that LangChain makes."""
    match item["type"]:
        case "message":
            return item["content"][0]["text"]
        case "function_call":
            return item["call_id"], item["name"], item["arguments"], item["status"]
        case "function_call_output":
            return item["call_id"], item["output"]
        case other:
            return other


ANSWER = ["Let me.", ("c1", "add", '{"a":1,"b":2}', "completed"), ("c1", "3"), "3."]


async def events(stream: Any, **given: Any) -> list[dict[str, Any]]:
    return [event async for event in stream_to_responses(stream, **given)]


def kinds(told: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in told]


# Items


def test_the_items_of_a_message() -> None:
    thought = {"type": "thinking", "thinking": "Hm."}
    message = tool_call_message(call("f", "c1", a=1), content=[thought, "So:"], id="m1")

    assert message_to_items(message) == [
        {
            "type": "reasoning",
            "id": "rs_m1",
            "status": "completed",
            "summary": [{"type": "summary_text", "text": "Hm."}],
        },
        {
            "type": "message",
            "id": "m1",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "So:", "annotations": [], "logprobs": []}],
        },
        {
            "type": "function_call",
            "id": "fc_c1",
            "call_id": "c1",
            "name": "f",
            "arguments": '{"a":1}',
            "status": "completed",
        },
    ]


def test_the_item_of_a_result_needs_no_call() -> None:
    assert message_to_items(ToolMessage([{"type": "text", "text": "4"}], tool_call_id="c1", status="error")) == [
        {
            "type": "function_call_output",
            "id": "fco_c1",
            "call_id": "c1",
            "output": '[{"type":"text","text":"4"}]',
            "status": "completed",
            "palaver:is_error": True,
        }
    ]


def test_a_call_that_is_not_json_is_incomplete() -> None:
    bad: Any = {"type": "invalid_tool_call", "id": "c1", "name": "f", "args": "{bad", "error": None}

    assert [shown(item) for item in message_to_items(AIMessage("", invalid_tool_calls=[bad]))] == [
        ("c1", "f", "{bad", "incomplete")
    ]


@pytest.mark.parametrize(
    "message", [HumanMessage("a"), SystemMessage("a"), AIMessage("")], ids=["user", "system", "no"]
)
def test_a_message_that_is_no_answer_has_no_items(message: Any) -> None:
    assert message_to_items(message) == []


# Streams


STREAMS: dict[str, Any] = {
    "messages": lambda: agent().astream(ASKED, stream_mode="messages"),
    "updates": lambda: agent().astream(ASKED, stream_mode="updates"),
    "both": lambda: agent().astream(ASKED, stream_mode=["messages", "updates"]),
    "with subgraphs": lambda: agent().astream(ASKED, stream_mode=["messages", "updates", "values"], subgraphs=True),
    "events": lambda: agent().astream_events(ASKED, version="v2"),
    "messages in a row": lambda: iter(
        [
            HumanMessage("Well?"),
            tool_call_message(call("add", "c1", a=1, b=2), content="Let me."),
            ToolMessage("3", tool_call_id="c1"),
            AIMessage("3."),
        ]
    ),
    "a list of them": lambda: [
        [
            tool_call_message(call("add", "c1", a=1, b=2), content="Let me."),
            ToolMessage("3", tool_call_id="c1"),
            AIMessage("3."),
        ]
    ],
}


@pytest.mark.parametrize("case", STREAMS)
async def test_any_stream_gives_the_same_items(case: str) -> None:
    output = await events(STREAMS[case](), model="adder")
    response = output[-1]["response"]

    assert [shown(item) for item in response["output"]] == ANSWER
    assert [event["item"] for event in output if event["type"] == "response.output_item.done"] == response["output"]
    assert [event["sequence_number"] for event in output] == list(range(len(output)))
    assert (output[0]["type"], output[-1]["type"]) == ("response.created", "response.completed")
    assert (response["status"], response["model"]) == ("completed", "adder")


async def test_a_stream_event_by_event() -> None:
    output = await events([AIMessageChunk(content="Hel", id="m"), AIMessageChunk(content="lo", id="m")])

    assert kinds(output) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event["delta"] for event in output if "delta" in event] == ["Hel", "lo"]


async def test_an_empty_stream_is_an_empty_response() -> None:
    output = await events([])

    assert kinds(output) == ["created", "in_progress", "completed"]
    assert output[-1]["response"]["output"] == []


async def test_a_stream_for_mlflows_clients() -> None:
    output = await events([AIMessage("a")], profile="invocations")

    assert [event["type"] for event in output][-2:] == ["responses.completed", "response.completed"]


async def test_a_stream_that_was_cut_says_so() -> None:
    output = await events([AIMessage("a", response_metadata={"finish_reason": "length"})])

    assert output[-1]["response"]["incomplete_details"] == {"reason": "max_output_tokens"}


async def broken(error: Exception) -> AsyncIterator[Any]:
    yield AIMessageChunk(content="a")
    raise error


async def test_an_error_of_the_stream_ends_the_response_and_is_for_the_log(caplog: pytest.LogCaptureFixture) -> None:
    output = await events(broken(RuntimeError("secret")))
    failed = output[-1]["response"]

    assert kinds(output)[-2:] == ["error", "failed"]
    assert failed["error"]["code"] == "workflow_failed"
    assert "secret" not in str(output)
    assert "secret" in caplog.text
    assert [shown(item) for item in failed["output"]] == ["a"]


async def test_an_error_of_ours_has_its_own_words() -> None:
    output = await events(broken(Failure("no_city", "I do not know Atlantis.")))

    assert output[-1]["response"]["error"] == {"code": "no_city", "message": "I do not know Atlantis."}


async def test_a_stream_that_breaks_the_grammar_fails() -> None:
    output = await events([ToolMessage("4", tool_call_id="c9")])

    assert output[-1]["response"]["error"]["code"] == "bad_stream"


async def test_a_reader_that_goes_away_closes_the_stream() -> None:
    closed = []

    async def endless() -> AsyncIterator[Any]:
        try:
            while True:
                yield AIMessageChunk(content="a", id="m")
        finally:
            closed.append(True)

    output = stream_to_responses(endless())
    for _ in range(6):
        await anext(output)
    await output.aclose()

    assert closed == [True]


async def test_any_async_iterator_will_do() -> None:
    class Once:
        def __init__(self) -> None:
            self.left: Iterator[Any] = iter([AIMessage("a")])

        def __aiter__(self) -> AsyncIterator[Any]:
            return self

        async def __anext__(self) -> Any:
            for message in self.left:
                return message
            raise StopAsyncIteration

    assert [shown(item) for item in (await events(Once()))[-1]["response"]["output"]] == ["a"]
