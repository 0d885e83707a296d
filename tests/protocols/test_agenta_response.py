"""Common parts of Agenta's routes: calls, content negotiation, headers, outputs and errors."""

from typing import Any

import pytest
from msgspec import UNSET

from palaver.core.events import PartAdded, RunCancelled, RunFailed, RunFinished, UsageAdded
from palaver.core.fold import fold
from palaver.core.messages import Data, File, Message, Reasoning, Refusal, Text, ToolCall, ToolResult
from palaver.core.runs import Call
from palaver.errors import (
    ConflictingFields,
    FaultyCall,
    InvalidBody,
    InvalidInput,
    InvalidValue,
    MissingInput,
    NotAcceptable,
    ShuttingDown,
    UnknownParameter,
    WorkflowNotFound,
)
from palaver.protocols.agenta.request import AgentaRequest, parse_body, parse_call, parse_object
from palaver.protocols.agenta.response import encode_outputs, error_response, run_error_response
from palaver.protocols.base import RejectedRequest
from palaver.protocols.ui_stream.request import UIRequest
from tests.protocols.fixed_run import (
    CHAT,
    FORM,
    HISTORY,
    IDS,
    SPAN,
    STARTED,
    TRACE,
    json,
    request,
    valid_events,
)

OFFERS = ("application/json", "application/x-ndjson", "application/jsonl", "text/event-stream")
PARENT = f"00-{TRACE}-{SPAN}-00"


def parse_request(
    body: Any, *, is_chat: bool = True, offers: Any = OFFERS, **headers: Any
) -> tuple[Call, AgentaRequest]:
    http_request = request(body, **headers)
    form = parse_body(parse_object(http_request), http_request.headers, is_chat=is_chat)
    return parse_call(http_request, form, CHAT if is_chat else FORM, offers=offers)


def test_chat_request_is_parsed_completely_without_secrets() -> None:
    body = {
        "session_id": "s-1",
        "references": {"r": 1},
        "tags": {"t": 1},
        "secrets": {"key": "hunter2"},
        "credentials": "hunter2",
        "text": "?",
        "data": {"inputs": {"messages": HISTORY, "subject": "physics"}, "parameters": {"temperature": 0}},
    }

    call, parsed = parse_request(body, traceparent=PARENT, authorization="Bearer hunter2", cookie="hunter2")

    assert call == Call(
        workflow="tutor",
        messages=(Message.user("Why?"),),
        inputs={"subject": "physics"},
        parameters={"temperature": 0},
        session="s-1",
        references={"references": {"r": 1}},
        tags={"t": 1},
        trace_parent=PARENT,
    )
    assert parsed == AgentaRequest(
        form="application/json",
        envelope=True,
        trim=False,
        is_chat=True,
        session="s-1",
        places={
            "/inputs": "/data/inputs",
            "/parameters": "/data/parameters",
            "/messages": "/data/inputs/messages",
            "/inputs/subject": "/data/inputs/subject",
        },
        strays={"text": "/text"},
    )
    assert "hunter2" not in repr((call, parsed))


def test_call_of_a_non_chat_workflow_has_only_inputs() -> None:
    call, parsed = parse_request({"inputs": {"messages": "any"}}, is_chat=False)

    assert call == Call(workflow="headline", inputs={"messages": "any"})
    assert (parsed.is_chat, parsed.envelope, parsed.session) == (False, False, None)


@pytest.mark.parametrize(
    ("header", "continued"),
    [
        pytest.param(PARENT, True, id="W3C's"),
        pytest.param(f"01-{TRACE}-{SPAN}-01", True, id="of a later version"),
        pytest.param(f"ff-{TRACE}-{SPAN}-01", False, id="version ff"),
        pytest.param(f"00-{'0' * 32}-{SPAN}-01", False, id="no trace"),
        pytest.param(f"00-{TRACE}-{'0' * 16}-01", False, id="no span"),
        pytest.param(f"00-{TRACE.upper()}-{SPAN}-01", False, id="upper case"),
        pytest.param(f"00-{TRACE}-{SPAN}-01\n", False, id="a line end"),
        pytest.param("", False, id="empty"),
    ],
)
def test_trace_is_continued_if_the_header_is_valid(header: str, continued: bool) -> None:
    call, _ = parse_request({"messages": []}, traceparent=header)

    assert call.trace_parent == (header if continued else None)


@pytest.mark.parametrize(
    ("flags", "header", "trim"),
    [
        pytest.param({}, None, False, id="neither"),
        pytest.param({"trim": True}, None, True, id="the flag"),
        pytest.param({}, "last", True, id="the header"),
        pytest.param({}, "all", False, id="another transcript"),
        pytest.param({"trim": False}, "last", False, id="the flag wins"),
    ],
)
def test_only_the_last_message_is_requested_by_flag_or_header(flags: Any, header: str | None, trim: bool) -> None:
    headers: dict[str, Any] = {} if header is None else {"x_ag_messages_transcript": header}

    assert parse_request({"messages": [], "flags": flags}, **headers)[1].trim is trim


# The media type of the answer

JSON, NDJSON, JSONL, SSE = OFFERS


@pytest.mark.parametrize(
    ("accept", "stream", "form"),
    [
        (None, None, JSON),
        (None, True, NDJSON),
        ("*/*", None, JSON),
        ("*/*", True, NDJSON),
        ("*/*", False, JSON),
        ("application/json, text/event-stream", None, JSON),
        ("application/json, text/event-stream", True, SSE),
        ("application/json, text/event-stream", False, JSON),
        ("text/event-stream;q=0.1, application/json", None, JSON),
        ("application/json;q=0, */*", None, NDJSON),
        ("text/*", None, SSE),
        ("TEXT/Event-Stream", None, SSE),
        ("application/jsonl", None, JSONL),
        ("application/jsonl", True, JSONL),
    ],
)
def test_response_media_type_depends_on_accept_header_and_stream_flag(
    accept: str | None, stream: bool | None, form: str
) -> None:
    body = {"messages": [], "flags": {} if stream is None else {"stream": stream}}

    headers: dict[str, Any] = {} if accept is None else {"accept": accept}

    assert parse_request(body, **headers)[1].form == form


@pytest.mark.parametrize(
    ("accept", "stream", "message", "supported"),
    [
        (JSON, True, f" if flags.stream is true. Accept {' or '.join(OFFERS[1:])}.", OFFERS[1:]),
        (SSE, False, " if flags.stream is false. Accept application/json.", OFFERS[:1]),
        ("application/xml", None, f". Accept {' or '.join(OFFERS)}.", OFFERS),
        ("image/*", None, f". Accept {' or '.join(OFFERS)}.", OFFERS),
        ("image/*", False, " if flags.stream is false. Accept application/json.", OFFERS[:1]),
    ],
)
def test_unacceptable_media_type_is_rejected_with_the_supported_ones(
    accept: str, stream: bool | None, message: str, supported: Any
) -> None:
    body = {"messages": [], "session_id": "s-1", "flags": {} if stream is None else {"stream": stream}}

    with pytest.raises(RejectedRequest) as refused:
        parse_request(body, accept=accept)

    assert isinstance(refused.value.error, NotAcceptable)
    assert refused.value.code == "not_acceptable"
    assert refused.value.message == f"None of the accepted media types is available{message}"
    assert refused.value.details == {"supported": [*supported]}
    assert refused.value.request.session == "s-1"


def test_stream_flag_is_rejected_on_a_route_without_streaming() -> None:
    with pytest.raises(
        RejectedRequest, match=r"This route does not stream. Omit flags.stream or use /invoke."
    ) as refused:
        parse_request({"messages": [], "flags": {"stream": True}}, offers=(JSON,))

    assert refused.value.details == {"supported": [JSON]}


def test_unknown_message_format_is_rejected_without_repeating_it() -> None:
    with pytest.raises(RejectedRequest) as refused:
        parse_request({"messages": [], "session_id": "s-1"}, x_ag_messages_format="hunter2")

    assert refused.value.code == "not_acceptable"
    assert refused.value.message == "x-ag-messages-format must be agenta or vercel."
    assert refused.value.details == {"supported": ["agenta", "vercel"]}
    assert refused.value.request.session == "s-1"
    assert parse_request({"messages": []}, x_ag_messages_format="agenta")[1] == AgentaRequest(
        places={"/inputs": "/inputs", "/parameters": "/parameters", "/messages": "/messages"}
    )


# UI messages: the vercel format leaves JSON and server-sent events


@pytest.mark.parametrize(
    ("accept", "stream", "form"),
    [
        (None, None, JSON),
        (None, True, SSE),
        (None, False, JSON),
        ("application/jsonl, */*;q=0.1", None, JSON),
        ("application/json;q=0, */*", None, SSE),
        ("text/*", None, SSE),
    ],
)
def test_ui_messages_are_returned_as_json_or_server_sent_events(
    accept: str | None, stream: bool | None, form: str
) -> None:
    body = {"messages": [], "flags": {} if stream is None else {"stream": stream}}
    headers: dict[str, Any] = {} if accept is None else {"accept": accept}

    _, parsed = parse_request(body, x_ag_messages_format="vercel", x_palaver_ui_version="7", **headers)

    assert (parsed.form, parsed.ui) == (form, UIRequest(version=7))


def test_ui_messages_cannot_be_returned_as_ndjson() -> None:
    with pytest.raises(RejectedRequest) as refused:
        parse_request({"messages": []}, accept="application/x-ndjson", x_ag_messages_format="vercel")

    assert refused.value.details == {"supported": [JSON, SSE]}


def test_unknown_ui_version_is_rejected_only_for_ui_messages() -> None:
    with pytest.raises(RejectedRequest, match="x-palaver-ui-version must be 5, 6 or 7") as refused:
        parse_request({"messages": []}, x_ag_messages_format="vercel", x_palaver_ui_version="4")

    assert refused.value.code == "invalid_value"
    assert parse_request({"messages": []}, x_palaver_ui_version="4")[1].ui is None


def test_client_continues_its_last_ui_message() -> None:
    tool = {"type": "tool-now", "toolCallId": "c1", "state": "output-available", "input": {}, "output": 12}
    last = {"id": "m7", "role": "assistant", "parts": [tool]}

    call, parsed = parse_request({"data": {"inputs": {"messages": [last]}}}, x_ag_messages_format="vercel")

    assert [message.role for message in call.messages] == ["assistant", "tool"]
    assert parsed.ui == UIRequest(message="m7", shown={"c1": False})


def test_response_media_type_is_checked_before_the_history() -> None:
    with pytest.raises(RejectedRequest) as refused:
        parse_request({"messages": "no history"}, accept="image/png")

    assert refused.value.code == "not_acceptable"


def test_body_fields_are_checked_before_the_response_media_type() -> None:
    with pytest.raises(ConflictingFields):
        parse_request({"parameters": {"a": 1}, "ag_config": {"a": 2}}, accept="image/png")


# Errors


def error_document(body: Any, **options: Any) -> Any:
    """Return the error document of a rejected body."""
    with pytest.raises(RejectedRequest) as refused:
        parse_request(body, **options)
    return json(error_response(refused.value, None, status=422))


def test_missing_history_error_points_into_the_body_as_sent() -> None:
    assert error_document({"session_id": "s-1", "data": {}}) == {
        "version": "2025.07.14",
        "status": {
            "code": 422,
            "type": "missing_input",
            "message": "Input 'messages' is required.",
            "errors": [
                {
                    "type": "missing_input",
                    "pointer": "/data/inputs/messages",
                    "message": "Input 'messages' is required.",
                }
            ],
        },
        "session_id": "s-1",
    }


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        pytest.param({"messages": ["?"]}, "/messages/0", id="flat, at the root"),
        pytest.param({"inputs": {"messages": ["?"]}}, "/inputs/messages/0", id="flat, in inputs"),
        pytest.param({"data": {"inputs": {"messages": ["?"]}}}, "/data/inputs/messages/0", id="envelope"),
        pytest.param({"data": {}, "messages": "?"}, "/messages", id="envelope, at the root"),
    ],
)
def test_invalid_message_error_points_into_the_body_as_sent(body: Any, pointer: str) -> None:
    status = error_document(body)["status"]

    assert (status["type"], [fault["pointer"] for fault in status["errors"]]) == ("invalid_messages", [pointer])


def encoded_faults(body: Any, *faults: Any) -> list[tuple[str, str]]:
    _, parsed = parse_request(body, is_chat=False)
    document = json(error_response(FaultyCall(faults), parsed, status=422))["status"]
    assert document["message"] == document["errors"][0]["message"]
    assert document["type"] == document["errors"][0]["type"] == faults[0].code
    return [(fault["pointer"], fault["message"]) for fault in document["errors"]]


def test_later_faults_point_into_the_body_as_sent() -> None:
    body = {"inputs": {"a": 1, "x/y": 2}, "ag_config": {"t": "?"}, "data": {"inputs": {"b": 3}}}

    assert encoded_faults(
        body,
        InvalidInput("1", pointer="/inputs/a/deep"),
        InvalidInput("2", pointer="/inputs/x~1y"),
        InvalidInput("3", pointer="/inputs/b"),
        MissingInput("4", pointer="/inputs/c"),
        UnknownParameter("5", pointer="/parameters/t"),
        InvalidInput("6", pointer="/elsewhere"),
    ) == [
        ("/inputs/a/deep", "1"),
        ("/inputs/x~1y", "2"),
        ("/data/inputs/b", "3"),
        ("/data/inputs/c", "4"),
        ("/ag_config/t", "5"),
        ("/elsewhere", "6"),
    ]


def test_missing_input_error_mentions_a_misplaced_root_field() -> None:
    missing = [MissingInput(f"{step}?", pointer=f"/inputs/{step}") for step in ("text", "a~1b", "gone")]
    body = {"text": "Hi", "a/b": 1}

    assert encoded_faults(body, *missing) == [
        ("/inputs/text", "text? It was found at /text; it belongs in /inputs/text."),
        ("/inputs/a~1b", "a~1b? It was found at /a~1b; it belongs in /inputs/a~1b."),
        ("/inputs/gone", "gone?"),
    ]
    assert encoded_faults({**body, "data": {}}, missing[0]) == [
        ("/data/inputs/text", "text? It was found at /text; it belongs in /data/inputs/text.")
    ]


def test_at_most_twenty_faults_are_listed() -> None:
    faults = [MissingInput("?", pointer=f"/inputs/{n}") for n in range(30)]

    assert len(encoded_faults({"inputs": {}}, *faults)) == 20


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(
            InvalidBody("No.", pointer="/flags"),
            {
                "type": "invalid_body",
                "message": "No.",
                "errors": [{"type": "invalid_body", "pointer": "/flags", "message": "No."}],
            },
            id="with a pointer",
        ),
        pytest.param(
            WorkflowNotFound("x", known=["tutor"]),
            {"type": "workflow_not_found", "message": "Workflow 'x' not found. Available: tutor."},
            id="without one",
        ),
        pytest.param(
            NotAcceptable("No.", supported=["a/b"]),
            {"type": "not_acceptable", "message": "No.", "supported": ["a/b"]},
            id="with details",
        ),
        pytest.param(
            ShuttingDown("Later.", details={"type": "hidden"}),
            {"type": "shutting_down", "message": "Later."},
            id="no request error",
        ),
    ],
)
def test_error_before_parsing_has_the_same_shape(error: Any, expected: Any) -> None:
    answer = error_response(error, None, status=418)

    assert json(answer) == {"version": "2025.07.14", "status": {"code": 418, **expected}}
    assert answer.status == 418
    assert answer.headers == (("content-type", "application/json"), ("x-ag-version", "2025.07.14"))


def test_error_after_parsing_has_the_session_and_translated_pointers() -> None:
    _, parsed = parse_request({"session_id": "s-1", "data": {"inputs": {"messages": HISTORY}}})

    answer = error_response(InvalidValue("Too many.", pointer="/messages/3"), parsed, status=400)

    assert json(answer)["status"]["errors"][0]["pointer"] == "/data/inputs/messages/3"
    assert json(answer)["session_id"] == "s-1"
    assert answer.headers == (
        ("content-type", "application/json"),
        ("x-ag-version", "2025.07.14"),
        ("x-ag-session-id", "s-1"),
        ("baggage", "ag.session.id=s-1"),
    )


def test_failed_run_response_has_all_ids() -> None:
    answer = run_error_response(RunFailed(code="mine", message="No."), STARTED, status=503)

    assert json(answer) == {
        "version": "2025.07.14",
        "status": {"code": 503, "type": "mine", "message": "No."},
        "trace_id": TRACE,
        "span_id": SPAN,
        "session_id": "s-1",
    }
    assert answer.headers == (
        ("content-type", "application/json"),
        ("x-ag-version", "2025.07.14"),
        ("x-ag-session-id", "s-1"),
        ("baggage", "ag.session.id=s-1"),
        ("x-ag-trace-id", TRACE),
        ("x-ag-span-id", SPAN),
        *IDS,
    )


def test_failed_run_response_has_details_and_partial_outputs() -> None:
    failed = RunFailed(code="mine", message="No.", details={"city": "Atlantis"})

    document = json(run_error_response(failed, STARTED, status=500, outputs="Hel"))

    assert document["status"] == {"code": 500, "type": "mine", "message": "No.", "details": {"city": "Atlantis"}}
    assert document["data"] == {"outputs": "Hel"}


# Outputs

CALL = ToolCall(call_id="c1", name="add", arguments='{"a": 2}')


def encode(*values: Any, is_chat: bool = True, trim: bool = False, end: Any = None) -> Any:
    events = valid_events(*values, end=end)
    return encode_outputs(fold(events), events, AgentaRequest(is_chat=is_chat, trim=trim))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param(["Because", "."], {"role": "assistant", "content": "Because."}, id="one message"),
        pytest.param([], {"role": "assistant", "content": ""}, id="nothing said"),
        pytest.param(
            [PartAdded(part=Data(name="status", value="…"), transient=True)],
            {"role": "assistant", "content": ""},
            id="nothing that is kept",
        ),
        pytest.param(
            [CALL, ToolResult(call_id="c1", output="4"), "Four."],
            [
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}
                    ],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "4"},
                {"role": "assistant", "content": "Four."},
            ],
            id="several messages",
        ),
        pytest.param(
            [Reasoning(text="Hm."), Text(text="So."), Refusal(text="No."), Data(name="chart", value=[1])],
            {
                "role": "assistant",
                "content": "So.",
                "reasoning_content": "Hm.",
                "refusal": "No.",
                "palaver": {"data": [{"name": "chart", "value": [1]}]},
            },
            id="parts that Chat Completions lacks",
        ),
        pytest.param(
            ["See: ", File(media_type="image/png", url="https://x/y.png")],
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "See: "},
                    {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
                ],
            },
            id="a file",
        ),
    ],
)
def test_a_chat_answers_with_the_messages_of_its_run(values: list[Any], expected: Any) -> None:
    assert encode(*values) == expected


def test_trimmed_chat_answers_with_its_last_message_as_one_object() -> None:
    assert encode(CALL, ToolResult(call_id="c1", output="4"), "Four.", trim=True) == {
        "role": "assistant",
        "content": "Four.",
    }
    assert encode(CALL, ToolResult(call_id="c1", output="4"), trim=True)["role"] == "tool"
    assert encode("Four.", trim=True) == {"role": "assistant", "content": "Four."}
    assert encode(trim=True) == {"role": "assistant", "content": ""}


@pytest.mark.parametrize("value", [None, "text", [1, [2]], {"role": "user", "content": "x"}, False])
def test_non_chat_workflow_answers_with_its_value_unchanged(value: Any) -> None:
    assert encode("streamed", is_chat=False, end=RunFinished(value=value)) == value


@pytest.mark.parametrize(
    ("yielded", "value"),
    [
        pytest.param([], None, id="nothing"),
        pytest.param(["a", "b"], "ab", id="only text"),
        pytest.param([Data(name="output", value=1)], 1, id="one value"),
        pytest.param(
            ["a", Data(name="output", value=1), "b", "c", Data(name="output", value=[2])],
            ["a", 1, "bc", [2]],
            id="several, text between values joined",
        ),
        pytest.param(
            ["a", Data(name="chart", value=1), PartAdded(part=Data(name="output", value=2), transient=True), "b"],
            "ab",
            id="what is no value does not count",
        ),
    ],
)
@pytest.mark.parametrize(
    "end",
    [RunCancelled(), RunFailed(), RunFinished(finish="interrupted", value=UNSET)],
    ids=["cancelled", "failed", "interrupted"],
)
def test_stopped_workflow_answers_with_the_values_yielded_so_far(yielded: list[Any], value: Any, end: Any) -> None:
    assert encode(*yielded, is_chat=False, end=end) == value


def test_usage_is_not_part_of_the_outputs() -> None:
    assert encode(UsageAdded(), "a", UsageAdded()) == {"role": "assistant", "content": "a"}
