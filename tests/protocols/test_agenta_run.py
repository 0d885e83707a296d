"""POST /run and /test: flat bodies, JSON answers."""

from typing import Any

import msgspec
import pytest

from palaver.core.events import RunCancelled, RunFailed, RunFinished
from palaver.core.messages import Message
from palaver.core.runs import Call
from palaver.errors import ConflictingFields, MisplacedField
from palaver.protocols.agenta import run
from palaver.protocols.agenta.request import AgentaRequest
from palaver.protocols.base import HttpRequest, RejectedRequest
from tests.protocols.fixed_run import HISTORY, SPAN, STARTED, TRACE, find, json, request, valid_events


def test_flat_body_is_parsed_with_the_app_references_of_body_and_query() -> None:
    body = {
        "messages": HISTORY,
        "inputs": {"subject": "physics"},
        "ag_config": {"temperature": 0},
        "app": "tutor",
        "variant_version": 3,
        "references": {"r": 1},
        "stray": 1,
    }

    call, parsed = run.decode(
        request(body, query={"app_id": "7", "app": "tutor", "variant_version": "3", "other": "x"}), find
    )

    assert call == Call(
        workflow="tutor",
        messages=(Message.user("Why?"),),
        inputs={"subject": "physics"},
        parameters={"temperature": 0},
        references={"references": {"r": 1}, "app": "tutor", "app_id": "7", "variant_version": 3},
    )
    assert (parsed.form, parsed.envelope, parsed.strays) == ("application/json", False, {"stray": "/stray"})


def test_empty_lists_and_objects_are_unchanged() -> None:
    call, _ = run.decode(request({"messages": [], "inputs": {"a": [], "b": {}}, "ag_config": {}}), find)

    assert (call.messages, call.inputs, call.parameters) == ((), {"a": [], "b": {}}, {})


def test_data_field_is_rejected() -> None:
    with pytest.raises(MisplacedField, match=r"data is not supported on this route\. Use /invoke\.") as refused:
        run.decode(request({"data": {}}), find)

    assert refused.value.pointer == "/data"


def test_conflicting_values_in_body_and_query_are_rejected() -> None:
    with pytest.raises(ConflictingFields) as refused:
        run.decode(request({"messages": [], "app": "a"}, query={"app": "b"}, accept="image/png"), find)

    assert refused.value.message == "?app and /app have different values. Send only one of them."


@pytest.mark.parametrize(
    ("body", "headers", "code"),
    [
        pytest.param({"messages": []}, {"accept": "text/event-stream"}, "not_acceptable", id="only streams accepted"),
        pytest.param({"messages": [], "flags": {"stream": True}}, {}, "not_acceptable", id="a stream asked for"),
        pytest.param({"messages": []}, {"x_ag_messages_format": "v9"}, "not_acceptable", id="an unknown format"),
        pytest.param({}, {}, "missing_input", id="no history"),
    ],
)
def test_unacceptable_format_or_missing_history_is_rejected(body: Any, headers: Any, code: str) -> None:
    with pytest.raises(RejectedRequest) as refused:
        run.decode(request(body, **headers), find)

    assert refused.value.code == code
    assert json(run.encode_error(refused.value, None, status=400))["status"]["type"] == code


def test_nothing_is_streamed() -> None:
    frames = run.stream_encoder(AgentaRequest())

    assert run.response_head(STARTED, AgentaRequest()) is None
    assert {frames(event) for event in valid_events("Hi")} == {b""}


def test_outputs_are_returned_under_data_with_a_tree_id() -> None:
    answer = run.encode_response(valid_events("Because."), AgentaRequest(), status=200)

    assert json(answer) == {
        "version": "3.0",
        "data": {"role": "assistant", "content": "Because."},
        "content_type": "application/json",
        "tree": None,
        "tree_id": "0ef1d6b7-84c3-4b8a-705b-ae5974e51954",
        "trace_id": TRACE,
        "span_id": SPAN,
    }
    assert dict(answer.headers)["x-ag-trace-id"] == TRACE


@pytest.mark.parametrize(
    ("events", "data", "content_type"),
    [
        (valid_events(end=RunFinished(value="Hi")), "Hi", "text/plain"),
        (valid_events(end=RunFinished(value=None)), None, "application/json"),
        (valid_events("Hel", end=RunCancelled()), "Hel", "text/plain"),
    ],
    ids=["text", "null", "cut short"],
)
def test_content_type_of_a_text_value_is_text_plain(events: Any, data: Any, content_type: str) -> None:
    document = json(run.encode_response(events, AgentaRequest(is_chat=False), status=200))

    assert (document["data"], document["content_type"]) == (data, content_type)


def test_transcript_header_last_returns_only_the_last_message() -> None:
    _, parsed = run.decode(request({"messages": []}, x_ag_messages_transcript="last"), find)

    assert json(run.encode_response(valid_events("One.", Message.assistant("Two.")), parsed, status=200))["data"] == {
        "role": "assistant",
        "content": "Two.",
    }


def test_failed_run_is_answered_with_the_error_document() -> None:
    assert json(
        run.encode_response(valid_events("Hel", end=RunFailed(code="mine", message="No.")), AgentaRequest(), status=500)
    ) == {
        "version": "2025.07.14",
        "status": {"code": 500, "type": "mine", "message": "No."},
        "trace_id": TRACE,
        "span_id": SPAN,
        "session_id": "s-1",
    }


# The client half


def test_client_sends_a_flat_body() -> None:
    call = Call(workflow="tutor", messages=(Message.user("Why?"),), inputs={"a": 1}, parameters={"t": 0}, session="s-1")

    http_request = run.build_run_request(call, is_chat=True, stream=True)

    assert http_request == HttpRequest(
        headers={
            "content-type": "application/json",
            "accept": "application/json",
            "baggage": "ag.session.id=s-1",
        },
        body=http_request.body,
    )
    assert msgspec.json.decode(http_request.body) == {"messages": HISTORY, "inputs": {"a": 1}, "ag_config": {"t": 0}}


@pytest.mark.parametrize(
    ("call", "is_chat", "body"),
    [
        (Call(workflow="x", inputs={"messages": HISTORY}), True, {"messages": HISTORY, "inputs": {}, "ag_config": {}}),
        (Call(workflow="x", inputs={"messages": []}), False, {"inputs": {"messages": []}, "ag_config": {}}),
        (Call(workflow="x"), True, {"messages": [], "inputs": {}, "ag_config": {}}),
    ],
    ids=["a history that came as an input", "no chat", "no history"],
)
def test_client_sends_the_history_of_a_chat_at_the_root(call: Call, is_chat: bool, body: Any) -> None:
    assert msgspec.json.decode(run.build_run_request(call, is_chat=is_chat, stream=False).body) == body


@pytest.mark.parametrize(
    ("body", "value"),
    [(b'{"version":"3.0","data":{"a":1}}', {"a": 1}), (b'{"message":"Hi"}', {"message": "Hi"}), (b"[1]", [1])],
    ids=["under data", "another object", "bare"],
)
def test_reply_is_the_value_under_data_or_the_whole_body(body: bytes, value: Any) -> None:
    replies = run.RunReplyDecoder("application/json")

    assert [replies.feed(body[:3]), replies.feed(body[3:]), replies.end()] == [[], [], [value]]
    assert not replies.streamed
