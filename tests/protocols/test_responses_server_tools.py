"""Responses: tools that the workflow ran itself are shown as `mcp_call`, as `function_call`, or omitted."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from palaver.core.dialects import responses as dialect
from palaver.core.events import RunFailed, ToolEnded, ToolStarted
from palaver.core.grammar import Grammar
from palaver.core.messages import Data, Message, ToolCall, ToolResult
from palaver.errors import InvalidValue
from palaver.protocols.responses import adapter as responses
from palaver.protocols.responses import store
from palaver.protocols.responses.request import ResponsesRequest, find_pending_calls
from tests.protocols.fixed_run import RUN, STARTED, find, request, valid_events
from tests.protocols.test_responses_stream import event, final_response, frames, inner_frames, item_added, item_done

TAIL = RUN.removeprefix("run_")
ITEM = f"mcp_{TAIL}_c1"
SHOWN = ResponsesRequest(stream=True, model="tutor", workflow="tutor", server_tools="mcp_call")
OMITTED = replace(SHOWN, server_tools="omit")
CALL = ToolCall(call_id="c1", name="get_time", arguments='{"tz":"UTC"}')
RESULT = ToolResult(call_id="c1", output="12:00")
OPEN_ITEM = {
    "type": "mcp_call",
    "id": ITEM,
    "server_label": "tutor",
    "name": "get_time",
    "arguments": "",
    "output": None,
    "error": None,
    "approval_request_id": None,
    "status": "in_progress",
}
DONE_ITEM = {**OPEN_ITEM, "arguments": '{"tz":"UTC"}', "output": "12:00", "status": "completed"}


def output(*values: Any, reading: ResponsesRequest = SHOWN) -> list[Any]:
    """Return the items of the last frame; they equal those of the complete response."""
    events = valid_events(*values)
    whole = responses.encode_response(events, replace(reading, stream=False), status=200)
    items = final_response(frames(events, reading))["output"]
    assert msgspec.json.decode(whole.body)["output"] == items
    return items


def kinds(*values: Any, reading: ResponsesRequest = SHOWN) -> list[tuple[str, int]]:
    """Return the type and the item of each frame, without texts."""
    return [
        (frame["type"].removeprefix("response."), frame["output_index"])
        for frame in inner_frames(*values, reading=reading)
        if "text" not in frame["type"] and "content" not in frame["type"]
    ]


def test_a_call_is_one_item_from_its_start_to_its_result() -> None:
    location = {"item_id": ITEM, "output_index": 0}

    assert inner_frames(CALL, RESULT, reading=SHOWN) == [
        item_added(0, **OPEN_ITEM),
        event("mcp_call.in_progress", **location),
        event("mcp_call_arguments.delta", **location, delta='{"tz":"UTC"}'),
        event("mcp_call_arguments.done", **location, arguments='{"tz":"UTC"}'),
        event("mcp_call.completed", **location),
        item_done(0, **DONE_ITEM),
    ]
    assert output(CALL, RESULT) == [DONE_ITEM]


def test_parallel_calls_and_text_between_them_overlap() -> None:
    values = (CALL, replace(CALL, call_id="c2"), "Wait. ", replace(RESULT, call_id="c2"), RESULT)

    assert kinds(*values) == [
        ("output_item.added", 0),
        ("mcp_call.in_progress", 0),
        ("mcp_call_arguments.delta", 0),
        ("mcp_call_arguments.done", 0),
        ("output_item.added", 1),
        ("mcp_call.in_progress", 1),
        ("mcp_call_arguments.delta", 1),
        ("mcp_call_arguments.done", 1),
        ("output_item.added", 2),
        ("output_item.done", 2),
        ("mcp_call.completed", 1),
        ("output_item.done", 1),
        ("mcp_call.completed", 0),
        ("output_item.done", 0),
    ]
    assert [(item["type"], item["status"]) for item in output(*values)] == [
        ("mcp_call", "completed"),
        ("mcp_call", "completed"),
        ("message", "completed"),
    ]


@pytest.mark.parametrize(("value", "text"), [("", ""), ({"a": ["ü"]}, '{"a":["ü"]}'), (None, "null"), (1, "1")])
def test_the_output_is_a_string(value: Any, text: str) -> None:
    assert output(CALL, replace(RESULT, output=value))[0]["output"] == text


def test_a_failed_tool_has_an_error_object_and_no_output() -> None:
    failed = replace(RESULT, output="boom", is_error=True)

    assert output(CALL, failed) == [
        {
            **DONE_ITEM,
            "output": None,
            "error": {"type": "mcp_tool_execution_error", "content": "boom"},
            "status": "failed",
        }
    ]
    assert ("mcp_call.failed", 0) in kinds(CALL, failed)


@pytest.mark.parametrize(("arguments", "sent"), [("", "{}"), (" ", "{}"), ("[1]", "[1]"), ("{bad", '"{bad"')])
def test_arguments_are_valid_json_and_are_read_back(arguments: str, sent: str) -> None:
    [item] = output(replace(CALL, arguments=arguments), RESULT)

    assert item["arguments"] == sent
    [message, _] = dialect.read([item])
    assert message.tool_calls[0].arguments == (arguments.strip() or "{}")


@pytest.mark.parametrize("end", [None, RunFailed(code="model_down", message="The model is down.")])
def test_a_call_without_a_result_is_incomplete(end: RunFailed | None) -> None:
    streamed = frames(valid_events(CALL, end=end), SHOWN)

    incomplete = {**DONE_ITEM, "output": None, "status": "incomplete"}
    assert item_done(0, **incomplete) in [
        {name: value for name, value in frame.items() if name != "sequence_number"}
        for frame in streamed
        if isinstance(frame, dict)
    ]
    assert final_response(streamed)["output"] == [incomplete]


def test_a_call_whose_arguments_never_end_is_incomplete_with_the_arguments_so_far() -> None:
    grammar = Grammar(RUN)
    events = [*grammar.start(STARTED), *grammar.feed(ToolStarted(call_id="c1", name="get_time"))]
    events += grammar.end(RunFailed())

    assert any(isinstance(event, ToolEnded) for event in events)
    [item] = final_response(frames(events, SHOWN))["output"]
    assert (item["arguments"], item["status"]) == ("{}", "incomplete")


# Other forms


def test_a_tool_of_the_request_is_the_clients() -> None:
    tools = [{"type": "function", "name": "get_time"}]
    reading = replace(SHOWN, echo={"tools": tools})

    assert [item["type"] for item in output(CALL, reading=reading)] == ["function_call"]
    both = output(CALL, replace(CALL, call_id="c2", name="other"), replace(RESULT, call_id="c2"), reading=reading)
    assert [(item["type"], item["name"]) for item in both] == [("function_call", "get_time"), ("mcp_call", "other")]


def test_omitted_calls_leave_only_the_text() -> None:
    values = ("Let me see. ", CALL, RESULT, "Noon.")

    assert [item["type"] for item in output(*values, reading=OMITTED)] == ["message", "message"]
    assert kinds(*values, reading=OMITTED) == [
        ("output_item.added", 0),
        ("output_item.done", 0),
        ("output_item.added", 1),
        ("output_item.done", 1),
    ]


def test_the_profile_invocations_keeps_calls_and_outputs() -> None:
    reading = replace(SHOWN, profile="invocations")

    assert [item["type"] for item in output(CALL, RESULT, reading=reading)] == ["function_call", "function_call_output"]


@pytest.mark.parametrize(
    ("server", "field", "expected"),
    [
        ("mcp_call", None, "mcp_call"),
        ("omit", None, "omit"),
        ("omit", {"server_tools": "function_call"}, "function_call"),
        ("function_call", {}, "function_call"),
    ],
)
def test_the_request_overrides_the_form_of_the_server(server: Any, field: Any, expected: str) -> None:
    body = {"input": "Hi"} if field is None else {"input": "Hi", "palaver": field}
    sent = replace(request(body), route="v1/responses", server_tools=server)

    _, reading = responses.decode(sent, find)

    assert reading.server_tools == expected
    assert "palaver" not in reading.echo


def test_an_unknown_form_is_refused_by_name() -> None:
    sent = replace(request({"input": "Hi", "palaver": {"server_tools": "all"}}), route="v1/responses")

    with pytest.raises(InvalidValue, match="mcp_call, function_call, omit") as raised:
        responses.decode(sent, find)
    assert raised.value.pointer == "/palaver/server_tools"


# Over several responses


def test_a_result_of_an_approved_call_completes_the_call_in_the_next_response() -> None:
    approval = Data("approval-request", {"id": "a1", "call_id": "c1", "name": "get_time", "arguments": "{}"})
    history = [Message.user("Time?"), Message.assistant(CALL, approval)]
    reading = replace(SHOWN, pending_calls=find_pending_calls(history))
    grammar = Grammar(RUN, history=history)
    events = [*grammar.start(STARTED), *grammar.feed(RESULT)]
    events += grammar.end(valid_events()[-1])  # pyright: ignore[reportArgumentType]

    streamed = frames(events, reading)

    assert final_response(streamed)["output"] == [{**DONE_ITEM, "approval_request_id": "a1"}]
    assert [frame["type"].removeprefix("response.") for frame in streamed[2:8]] == [
        "output_item.added",
        "mcp_call.in_progress",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        "mcp_call.completed",
        "output_item.done",
    ]


def test_answered_calls_are_not_pending() -> None:
    assert find_pending_calls([Message.assistant(CALL), Message.tool("c1", "12:00")]) == {}


def test_a_response_that_was_stored_before_ids_had_the_run_keeps_its_ids() -> None:
    reading = msgspec.convert({"stream": True, "model": "tutor", "workflow": "tutor"}, ResponsesRequest)
    calls = valid_events(CALL, RESULT)

    by_id = store.output_items(calls, reading)
    now = store.output_items(calls, replace(reading, server_tools="function_call"))

    assert {item_id: item["type"] for item_id, item in by_id.items()} == {
        "fc_c1": "function_call",
        "fco_c1": "function_call_output",
    }
    assert set(now) == {f"fc_{TAIL}_c1", f"fco_{TAIL}_c1"}


# Reading


def test_a_call_is_read_with_its_result_and_its_original_id() -> None:
    assert dialect.read([DONE_ITEM, {"type": "message", "role": "assistant", "content": "Noon."}]) == [
        Message.assistant(CALL),
        Message.tool("c1", "12:00"),
        Message.assistant("Noon."),
    ]


@pytest.mark.parametrize(
    ("fields", "result"),
    [
        ({"output": None, "error": {"type": "x", "content": "boom"}}, ToolResult("mcp_1", "boom", is_error=True)),
        ({"output": None, "error": "boom"}, ToolResult("mcp_1", "boom", is_error=True)),
        ({"output": "12:00"}, ToolResult("mcp_1", "12:00")),
        ({"output": None, "status": "completed"}, ToolResult("mcp_1", "")),
        ({"output": None}, None),
        ({"output": None, "status": "incomplete"}, None),
    ],
)
def test_results_of_other_servers_are_read(fields: dict[str, Any], result: ToolResult | None) -> None:
    item = {"type": "mcp_call", "id": "mcp_1", "name": "get_time", "arguments": "{}", "server_label": "x", **fields}

    results = [part for message in dialect.read([item]) for part in message.tool_results]

    assert results == ([] if result is None else [result])


def test_items_of_long_call_ids_have_short_ids_and_are_read_back() -> None:
    long_ids = [f"call_{'x' * 40}{number}" for number in range(2)]
    values = [part for name in long_ids for part in (replace(CALL, call_id=name), replace(RESULT, call_id=name))]

    items = output(*values)

    assert [call.call_id for message in dialect.read(items) for call in message.tool_calls] == long_ids
    assert len({item["id"] for item in items}) == 2
    assert all(len(item["id"]) <= 64 and item["id"].startswith(f"mcp_{TAIL}_") for item in items)
