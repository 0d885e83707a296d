"""POST /api/chat: parsing of requests, answers, and errors."""

from typing import Any

import msgspec
import pytest

from palaver.core.descriptions import Description, Schemas
from palaver.core.events import RunFailed, RunStarted
from palaver.core.messages import Data, File, Message, ToolCall
from palaver.core.runs import Call
from palaver.errors import FaultyCall, MissingInput, PalaverError, WorkflowNotFound
from palaver.protocols import sse
from palaver.protocols.ui_stream import adapter as ui_stream
from palaver.protocols.ui_stream.request import UIRequest
from tests.protocols.fixed_run import IDS, MESSAGE, RUN, SPAN, STARTED, TRACE, find, json, request, valid_events

PARENT = f"00-{TRACE}-{SPAN}-00"
UI_QUESTION = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "What time is it?"}]}
QUESTION = msgspec.structs.replace(Message.user("What time is it?"), id="u1")
SCHEMA = {"type": "object", "properties": {"subject": {"type": "string"}, "messages": {}, "id": {}}}
TUTOR = Description(name="tutor", flags={"is_chat": True}, schemas=Schemas(inputs=SCHEMA))
FORM = Description(name="headline", flags={"is_chat": False}, schemas=Schemas(inputs=SCHEMA))


def decode(body: Any, workflow: Description = TUTOR, **headers: Any) -> tuple[Call, UIRequest]:
    return ui_stream.decode(request(body, **headers), lambda _: workflow)


# Requests


def test_documented_request_is_parsed_completely() -> None:
    body = {
        "id": "chat-1",
        "messages": [UI_QUESTION],
        "trigger": "submit-message",
        "messageId": None,
        "inputs": {"subject": "maths"},
        "parameters": {"temperature": 0},
    }

    call, client = decode(body, traceparent=PARENT, authorization="Bearer hunter2", cookie="hunter2")

    assert call == Call(
        workflow="tutor",
        messages=(QUESTION,),
        inputs={"subject": "maths"},
        parameters={"temperature": 0},
        session="chat-1",
        trace_parent=PARENT,
    )
    assert client == UIRequest()
    assert "hunter2" not in repr((call, client))


def test_only_messages_is_required() -> None:
    assert decode({"messages": []}) == (Call(workflow="tutor"), UIRequest())


def test_null_fields_count_as_absent() -> None:
    body = dict.fromkeys(("id", "trigger", "inputs", "parameters", "tools"), None)

    assert decode({"messages": [], **body}) == (Call(workflow="tutor"), UIRequest())


def test_both_triggers_use_the_messages_as_sent() -> None:
    for trigger in ("submit-message", "regenerate-message"):
        assert decode({"messages": [UI_QUESTION], "trigger": trigger})[0].messages == (QUESTION,)


def test_declared_input_is_accepted_at_the_top_level() -> None:
    body = {"messages": [], "id": "chat-1", "subject": "maths", "stray": 1}

    assert decode(body)[0].inputs == {"subject": "maths"}
    assert decode({**body, "inputs": {"subject": "physics", "more": 2}})[0].inputs == {"subject": "physics", "more": 2}


def test_non_chat_workflow_gets_messages_only_as_a_declared_input() -> None:
    call, _ = decode({"messages": [UI_QUESTION], "inputs": {"text": "Hi"}}, FORM)

    assert call == Call(workflow="headline", inputs={"messages": [UI_QUESTION], "text": "Hi"})
    assert decode({}, FORM)[0] == Call(workflow="headline")


def test_path_selects_the_workflow() -> None:
    call, _ = ui_stream.decode(request({}, workflow="headline"), find)

    assert call.workflow == "headline"
    with pytest.raises(WorkflowNotFound):
        ui_stream.decode(request({}, workflow="nobody"), find)


@pytest.mark.parametrize(
    ("tools", "names", "objects"),
    [
        (["ask_user", "pick"], {"ask_user", "pick"}, None),
        (
            [{"name": "pick", "description": "?"}, "ask_user"],
            {"ask_user", "pick"},
            [{"name": "pick", "description": "?"}],
        ),
        (
            [{"type": "function", "function": {"name": "pick"}}],
            {"pick"},
            [{"type": "function", "function": {"name": "pick"}}],
        ),
        ({"pick": {"parameters": {}}, "ask_user": True}, {"pick", "ask_user"}, [{"name": "pick", "parameters": {}}]),
        ([], set[str](), None),
    ],
)
def test_client_tools_are_given_as_names_or_objects(tools: Any, names: set[str], objects: Any) -> None:
    call, client = decode({"messages": [], "tools": tools})

    assert call.client_tools == client.tools == names
    assert call.options == ({"tools": objects} if objects else {})


def test_client_continues_the_message_whose_approval_it_answers() -> None:
    tool = {"type": "dynamic-tool", "toolName": "delete", "toolCallId": "c1", "input": {"x": 1}}
    approved = tool | {"state": "approval-responded", "approval": {"id": "c1", "approved": True}}
    last = {"id": "m7", "role": "assistant", "parts": [{"type": "step-start"}, approved]}

    call, client = decode({"messages": [UI_QUESTION, last]}, x_palaver_ui_version="7")

    created = ToolCall(call_id="c1", name="delete", arguments='{"x":1}')
    decision = Data(name="approval-response", value={"id": "c1", "approve": True, "reason": None})
    assert [message.parts for message in call.messages[1:]] == [(created,), (decision,)]
    assert client == UIRequest(version=7, message="m7", shown={"c1": True}, waiting={"c1": created})


def test_every_part_type_of_a_ui_message_is_accepted() -> None:
    parts = [
        {"type": "step-start"},
        {"type": "reasoning", "text": "Hm."},
        {"type": "text", "text": "Look:", "state": "done"},
        {"type": "file", "url": "https://e.org/a.png", "mediaType": "image/png"},
        {"type": "data-chart", "data": [1]},
        {"type": "source-url", "sourceId": "s1", "url": "https://e.org"},
        {"type": "tool-now", "toolCallId": "c1", "state": "output-available", "input": {}, "output": 12},
        {"type": "custom", "kind": "a.b"},
    ]

    call, _ = decode({"messages": [{"role": "assistant", "parts": parts}]})

    output = [part for message in call.messages for part in message.parts]
    assert File(media_type="image/png", url="https://e.org/a.png") in output
    assert [result.output for message in call.messages for result in message.tool_results] == [12]


# Rejected requests

ROLE_ERROR = "Message 0 must have a role: system, user, assistant."
PART_ERROR = "Part 0 of message 0 must be an object with a type."


def message_body(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", **fields}]}


def part_body(**fields: Any) -> dict[str, Any]:
    return message_body(parts=[fields])


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ([], "invalid_type", "The body must be an object, not a list."),
        (b"{", "invalid_json", "Invalid JSON: input data was truncated."),
        ({}, "invalid_type", "messages must be a list of UI messages, not null."),
        ({"messages": "Hi"}, "invalid_type", "messages must be a list of UI messages, not a string."),
        ({"messages": ["Hi"]}, "invalid_messages", "Message 0 must be a UI message, not a string."),
        ({"messages": [{"parts": []}]}, "invalid_messages", ROLE_ERROR),
        ({"messages": [{"role": "tool", "parts": []}]}, "invalid_messages", ROLE_ERROR),
        ({"messages": [UI_QUESTION, {"role": 1}]}, "invalid_messages", ROLE_ERROR.replace("0", "1")),
        (message_body(content="Hi"), "invalid_messages", "Message 0 must have a list of parts."),
        (message_body(parts={}), "invalid_messages", "Message 0 must have a list of parts."),
        (message_body(parts=["Hi"]), "invalid_messages", PART_ERROR),
        (part_body(text="Hi"), "invalid_messages", PART_ERROR),
        (part_body(type="text"), "invalid_messages", "Part 0 of message 0 must have a string field 'text'."),
        (
            part_body(type="reasoning", text=1),
            "invalid_messages",
            "Part 0 of message 0 must have a string field 'text'.",
        ),
        (
            part_body(type="file", url="https:"),
            "invalid_messages",
            "Part 0 of message 0 must have a string field 'mediaType'.",
        ),
        (
            part_body(type="file", mediaType="a/b"),
            "invalid_messages",
            "Part 0 of message 0 must have a string field 'url'.",
        ),
        (part_body(type="tool-now"), "invalid_messages", "Part 0 of message 0 must have a string field 'toolCallId'."),
        (
            part_body(type="dynamic-tool", toolCallId="c1"),
            "invalid_messages",
            "Part 0 of message 0 must have a string field 'toolName'.",
        ),
        ({"messages": [], "id": 7}, "invalid_type", "id must be a string, not a number."),
        (
            {"messages": [], "id": "a b"},
            "invalid_session_id",
            "id must be 1 to 128 letters, digits, '.', '_', ':' or '-'.",
        ),
        (
            {"messages": [], "id": "a" * 129},
            "invalid_session_id",
            "id must be 1 to 128 letters, digits, '.', '_', ':' or '-'.",
        ),
        (
            {"messages": [], "trigger": "resume"},
            "invalid_value",
            "trigger must be one of submit-message, regenerate-message.",
        ),
        ({"messages": [], "inputs": []}, "invalid_type", "inputs must be an object, not a list."),
        ({"messages": [], "parameters": 1}, "invalid_type", "parameters must be an object, not a number."),
        ({"messages": [], "tools": "all"}, "invalid_type", "tools must be a list of tools, not a string."),
        ({"messages": [], "tools": ["a", 1]}, "invalid_type", "tools[1] must be a name or an object with a name."),
    ],
)
def test_invalid_body_is_rejected_with_code_and_message(body: Any, code: str, words: str) -> None:
    with pytest.raises(PalaverError) as refused:
        decode(body)

    assert (refused.value.code, refused.value.message) == (code, words)


def test_invalid_messages_are_rejected_for_a_non_chat_workflow() -> None:
    with pytest.raises(PalaverError, match="messages must be a list of UI messages, not a string"):
        decode({"messages": "Hi"}, FORM)


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(PalaverError, match="x-palaver-ui-version must be 5, 6 or 7"):
        decode({"messages": []}, x_palaver_ui_version="4")


# Responses


def test_stream_head_has_the_ui_stream_headers() -> None:
    head = ui_stream.response_head(STARTED, UIRequest(version=5))

    assert head is not None
    assert (head.status, head.body, head.keep_alive) == (200, b"", sse.KEEP_ALIVE)
    assert head.headers == (
        ("content-type", "text/event-stream"),
        ("cache-control", "no-cache"),
        ("x-accel-buffering", "no"),
        ("x-vercel-ai-ui-message-stream", "v1"),
        ("x-palaver-ui-version", "5"),
        *IDS,
    )


def test_run_without_a_trace_has_no_trace_header() -> None:
    head = ui_stream.response_head(RunStarted(run_id=RUN), UIRequest())

    assert head is not None
    assert head.headers[-1] == ("x-palaver-run-id", RUN)


def test_a_run_is_streamed_from_its_start_to_done() -> None:
    frames = ui_stream.stream_encoder(UIRequest())

    sent = [frames(event) for event in valid_events("Hi")]

    name = f'"id":"{MESSAGE}_1"'
    metadata = f'"messageMetadata":{{"runId":"{RUN}","traceId":"{TRACE}","chatId":"s-1"}}'
    assert [frame.decode() for frame in sent] == [
        f'data: {{"type":"start","messageId":"{MESSAGE}",{metadata}}}\n\ndata: {{"type":"start-step"}}\n\n',
        f'data: {{"type":"text-start",{name}}}\n\n',
        f'data: {{"type":"text-delta",{name},"delta":"Hi"}}\n\n',
        f'data: {{"type":"text-end",{name}}}\n\n',
        'data: {"type":"finish-step"}\n\ndata: {"type":"finish","finishReason":"stop"}\n\ndata: [DONE]\n\n',
    ]


def test_run_that_fails_before_any_output_is_answered_with_its_message_as_text() -> None:
    events = valid_events(end=RunFailed(code="model_down", message="The model is down."))

    answer = ui_stream.encode_response(events, UIRequest(), status=503)

    assert (answer.status, answer.body) == (503, b"The model is down.")
    assert answer.headers == (
        ("content-type", "text/plain; charset=utf-8"),
        ("x-palaver-ui-version", "6"),
        *IDS,
    )


def test_json_response_is_the_message_that_a_client_would_build() -> None:
    answer = ui_stream.encode_response(valid_events("Hi"), UIRequest(version=7), status=200)

    assert json(answer) == {
        "id": MESSAGE,
        "role": "assistant",
        "metadata": {"runId": RUN, "traceId": TRACE, "chatId": "s-1"},
        "parts": [{"type": "step-start"}, {"type": "text", "text": "Hi", "state": "done"}],
    }
    assert answer.headers == (
        ("content-type", "application/json"),
        ("x-palaver-ui-version", "7"),
        *IDS,
    )


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (WorkflowNotFound("x", known=["tutor"]), "Workflow 'x' not found. Available: tutor."),
        (FaultyCall([MissingInput("Input 'subject' is required.", pointer="/inputs/subject")]), None),
        (PalaverError("Zürich \ud800"), "Zürich \ufffd"),
    ],
)
def test_error_response_is_the_message_as_plain_text(error: PalaverError, words: str | None) -> None:
    answer = ui_stream.encode_error(error, None, status=418)

    assert (answer.status, answer.body.decode()) == (418, words or "Input 'subject' is required.")
    assert answer.headers == (("content-type", "text/plain; charset=utf-8"),)


def test_error_after_parsing_repeats_the_client_version() -> None:
    answer = ui_stream.encode_error(PalaverError("No."), UIRequest(version=5), status=400)

    assert answer.headers == (("content-type", "text/plain; charset=utf-8"), ("x-palaver-ui-version", "5"))
