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


GRAPH_INPUT: Any = {"messages": [HumanMessage("Well?")]}


def summarize_item(item: dict[str, Any]) -> Any:
    """Summarize an item without the ids that LangChain generates."""
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


async def events(stream: Any, **options: Any) -> list[dict[str, Any]]:
    return [event async for event in stream_to_responses(stream, **options)]


def kinds(stream_events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in stream_events]


# Items


def test_a_message_is_converted_to_responses_items() -> None:
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


def test_a_tool_result_is_converted_without_its_call() -> None:
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


def test_a_tool_call_with_invalid_json_arguments_is_incomplete() -> None:
    bad: Any = {"type": "invalid_tool_call", "id": "c1", "name": "f", "args": "{bad", "error": None}

    assert [summarize_item(item) for item in message_to_items(AIMessage("", invalid_tool_calls=[bad]))] == [
        ("c1", "f", "{bad", "incomplete")
    ]


@pytest.mark.parametrize(
    "message", [HumanMessage("a"), SystemMessage("a"), AIMessage("")], ids=["user", "system", "no"]
)
def test_user_system_and_empty_messages_have_no_items(message: Any) -> None:
    assert message_to_items(message) == []


# Streams


STREAMS: dict[str, Any] = {
    "messages": lambda: agent().astream(GRAPH_INPUT, stream_mode="messages"),
    "updates": lambda: agent().astream(GRAPH_INPUT, stream_mode="updates"),
    "both": lambda: agent().astream(GRAPH_INPUT, stream_mode=["messages", "updates"]),
    "with subgraphs": lambda: agent().astream(
        GRAPH_INPUT, stream_mode=["messages", "updates", "values"], subgraphs=True
    ),
    "events": lambda: agent().astream_events(GRAPH_INPUT, version="v2"),
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
async def test_every_kind_of_stream_gives_the_same_items(case: str) -> None:
    output = await events(STREAMS[case](), model="adder")
    response = output[-1]["response"]

    assert [summarize_item(item) for item in response["output"]] == ANSWER
    assert [event["item"] for event in output if event["type"] == "response.output_item.done"] == response["output"]
    assert [event["sequence_number"] for event in output] == list(range(len(output)))
    assert (output[0]["type"], output[-1]["type"]) == ("response.created", "response.completed")
    assert (response["status"], response["model"]) == ("completed", "adder")


async def test_a_text_stream_gives_the_responses_events_in_order() -> None:
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


async def test_the_invocations_profile_also_sends_responses_completed() -> None:
    output = await events([AIMessage("a")], profile="invocations")

    assert [event["type"] for event in output][-2:] == ["responses.completed", "response.completed"]


async def test_a_stream_cut_by_the_token_limit_is_incomplete() -> None:
    output = await events([AIMessage("a", response_metadata={"finish_reason": "length"})])

    assert output[-1]["response"]["incomplete_details"] == {"reason": "max_output_tokens"}


async def failing_stream(error: Exception) -> AsyncIterator[Any]:
    yield AIMessageChunk(content="a")
    raise error


async def test_a_stream_error_fails_the_response_and_its_message_is_only_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    output = await events(failing_stream(RuntimeError("secret")))
    failed = output[-1]["response"]

    assert kinds(output)[-2:] == ["error", "failed"]
    assert failed["error"]["code"] == "workflow_failed"
    assert "secret" not in str(output)
    assert "secret" in caplog.text
    assert [summarize_item(item) for item in failed["output"]] == ["a"]


async def test_a_failure_raised_by_the_stream_has_its_code_and_message() -> None:
    output = await events(failing_stream(Failure("no_city", "I do not know Atlantis.")))

    assert output[-1]["response"]["error"] == {"code": "no_city", "message": "I do not know Atlantis."}


async def test_a_stream_that_breaks_the_grammar_fails_with_bad_stream() -> None:
    output = await events([ToolMessage("4", tool_call_id="c9")])

    assert output[-1]["response"]["error"]["code"] == "bad_stream"


async def test_closing_the_reader_closes_the_source_stream() -> None:
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


async def test_any_async_iterator_is_accepted() -> None:
    class Once:
        def __init__(self) -> None:
            self.left: Iterator[Any] = iter([AIMessage("a")])

        def __aiter__(self) -> AsyncIterator[Any]:
            return self

        async def __anext__(self) -> Any:
            for message in self.left:
                return message
            raise StopAsyncIteration

    assert [summarize_item(item) for item in (await events(Once()))[-1]["response"]["output"]] == ["a"]
