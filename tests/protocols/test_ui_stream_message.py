"""The message that a client builds from a UI message stream, and client versions."""

from typing import Any

import msgspec
import pytest

from palaver.core.events import PartAdded
from palaver.core.messages import Annotation, Data, Message, Reasoning, Text, ToolCall, ToolResult, Usage
from palaver.errors import InvalidValue
from palaver.protocols.ui_stream import adapter, request
from palaver.protocols.ui_stream.request import UIRequest
from tests.protocols.fixed_run import MESSAGE, RUN, TRACE, valid_events
from tests.protocols.ui_parts import CALL, HISTORY_CALL

# The whole message


def test_encoded_message_is_what_a_client_builds_from_the_stream() -> None:
    events = valid_events(
        Reasoning(text="Hm.", encrypted="gAAA"),
        ToolCall(call_id="c1", name="now", arguments="{"),
        ToolCall(call_id="c2", name="now", arguments=""),
        ToolResult(call_id="c1", output="Bad.", is_error=True),
        ToolResult(call_id="c2", output={"h": 12}),
        Text(text="Noon.", annotations=(Annotation(kind="url", url="https://e.org"),)),
        Data(name="chart", value=[1]),
        PartAdded(part=Data(name="status", value="…"), transient=True),
        ToolCall(call_id="c3", name="delete", arguments="{}"),
        Data(name="approval-request", value={"id": "a1", "call_id": "c3"}),
        Usage(input_tokens=1, output_tokens=1),
    )
    tool = {"type": "dynamic-tool", "providerExecuted": True}

    assert adapter.encode_ui_message(events, UIRequest(message="m7", shown={"c1": True})) == {
        "id": MESSAGE,
        "role": "assistant",
        "metadata": {
            "runId": RUN,
            "traceId": TRACE,
            "chatId": "s-1",
            "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
        },
        "parts": [
            {"type": "step-start"},
            {
                "type": "reasoning",
                "text": "Hm.",
                "state": "done",
                "providerMetadata": {"palaver": {"encrypted": "gAAA"}},
            },
            {**tool, "toolName": "now", "toolCallId": "c1", "state": "output-error", "input": "{", "errorText": "Bad."},
            {
                **tool,
                "toolName": "now",
                "toolCallId": "c2",
                "state": "output-available",
                "input": {},
                "output": {"h": 12},
            },
            {"type": "step-start"},
            {"type": "text", "text": "Noon.", "state": "done"},
            {"type": "source-url", "sourceId": f"{MESSAGE}_5.s1", "url": "https://e.org"},
            {"type": "data-chart", "id": "dat_01k00000000000000000000000_6", "data": [1]},
            {
                **tool,
                "toolName": "delete",
                "toolCallId": "c3",
                "state": "approval-requested",
                "input": {},
                "approval": {"id": "a1"},
            },
        ],
    }


def test_invalid_json_arguments_are_no_error_once_the_tool_has_answered() -> None:
    events = valid_events(ToolCall(call_id="c1", name="now", arguments="{"), ToolResult(call_id="c1", output="12"))

    assert adapter.encode_ui_message(events, UIRequest())["parts"][1:] == [
        {
            "type": "dynamic-tool",
            "toolName": "now",
            "toolCallId": "c1",
            "state": "output-available",
            "input": "{",
            "output": "12",
            "providerExecuted": True,
        }
    ]


# The client


@pytest.mark.parametrize(("header", "version"), [({}, 6), ({"x-palaver-ui-version": " 7 "}, 7)])
def test_client_version_is_read_from_the_header(header: Any, version: int) -> None:
    assert request.parse_version(header) == version


@pytest.mark.parametrize("header", ["4", "8", "", "6.0", "six", "5, 6"])
def test_unsupported_client_version_is_rejected(header: str) -> None:
    with pytest.raises(InvalidValue, match=r"^The header x-palaver-ui-version must be 5, 6 or 7\.$"):
        request.parse_version({"x-palaver-ui-version": header})


def test_client_continues_a_trailing_assistant_message() -> None:
    messages = [Message.assistant(HISTORY_CALL, CALL), Message.tool("c1", "12")]
    rendered = [
        {"type": "step-start"},
        {"type": "dynamic-tool", "toolCallId": "h1"},
        {"type": "tool-now", "toolCallId": "c1"},
        {"type": "tool-broken"},
        "?",
    ]

    client = request.ui_request(7, [{"role": "assistant", "id": "m7", "parts": rendered}], messages)

    assert client == UIRequest(version=7, message="m7", shown={"h1": True, "c1": False}, waiting={"h1": HISTORY_CALL})
    assert client.headers == (("x-vercel-ai-ui-message-stream", "v1"), ("x-palaver-ui-version", "7"))


def test_stored_request_is_restored_and_those_of_other_protocols_are_ignored() -> None:
    client = UIRequest(
        version=7, message="m7", shown={"h1": True}, waiting={"h1": HISTORY_CALL}, tools=frozenset({"now"})
    )
    stored = msgspec.json.decode(msgspec.json.encode(client))

    assert request.restore_ui_request(stored) == client
    assert [request.restore_ui_request(note) for note in (None, {"version": 5}, {"type": "x", "message": "m"}, [])] == [
        UIRequest()
    ] * 4


@pytest.mark.parametrize(
    "elements",
    [
        pytest.param([], id="nothing"),
        pytest.param(None, id="no list"),
        pytest.param([{"role": "assistant", "id": "m7"}, {"role": "user", "id": "u1", "parts": []}], id="a user's"),
        pytest.param([{"role": "assistant", "parts": "?"}], id="without an id"),
        pytest.param([{"role": "assistant", "id": 7}], id="with a number for an id"),
        pytest.param([{"role": "assistant", "id": ""}], id="with an empty id"),
    ],
)
def test_client_starts_a_new_message_without_a_trailing_assistant_message(elements: Any) -> None:
    assert request.ui_request(6, elements, []) == UIRequest()
