"""POST /invoke: streamed and JSON answers, their agreement, and the client for other servers."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from palaver.core.events import (
    Event,
    PartAdded,
    ReasoningDelta,
    ReasoningEnded,
    RunCancelled,
    RunFailed,
    RunFinished,
    TerminalEvent,
    TextDelta,
    TextEnded,
    ToolStarted,
)
from palaver.core.grammar import Grammar, OutputValue
from palaver.core.messages import Annotation, Data, File, Message, Reasoning, Refusal, ToolCall, ToolResult, Usage
from palaver.core.runs import Call, Secret
from palaver.errors import BadStream, InvalidBody, MisplacedField, ShuttingDown, UpstreamFailed, WorkflowNotFound
from palaver.protocols.agenta import invoke
from palaver.protocols.agenta.request import AgentaRequest
from palaver.protocols.base import HttpRequest, HttpResponse, RejectedRequest
from palaver.protocols.ui_stream.adapter import UIStreamEncoder
from palaver.protocols.ui_stream.request import UIRequest
from tests.protocols import fixed_run
from tests.protocols.fixed_run import HISTORY, MESSAGE, RUN, SPAN, STARTED, TRACE, find, json, request, valid_events

IDS = (
    ("x-ag-version", "2025.07.14"),
    ("x-ag-session-id", "s-1"),
    ("baggage", "ag.session.id=s-1"),
    ("x-ag-trace-id", TRACE),
    ("x-ag-span-id", SPAN),
    *fixed_run.IDS,
)


# The call


def test_path_selects_the_workflow_and_the_body_form_sets_the_envelope() -> None:
    chat, flat = invoke.decode(request({"messages": HISTORY}), find)
    form, enveloped = invoke.decode(request({"data": {"inputs": {"text": "Hi"}}}, workflow="headline"), find)

    assert chat == Call(workflow="tutor", messages=(Message.user("Why?"),))
    assert form == Call(workflow="headline", inputs={"text": "Hi"})
    assert (flat.envelope, flat.is_chat, enveloped.envelope, enveloped.is_chat) == (False, True, True, False)


def test_invalid_requests_are_rejected_in_a_fixed_order_of_checks() -> None:
    bad = {"data": {"messages": []}, "flags": {"stream": "?"}}

    with pytest.raises(WorkflowNotFound):
        invoke.decode(request(b"{", workflow="nobody"), find)
    with pytest.raises(MisplacedField):
        invoke.decode(request(bad, accept="image/png"), find)
    with pytest.raises(InvalidBody):
        invoke.decode(request({**bad, "data": {}}, accept="image/png"), find)
    with pytest.raises(RejectedRequest, match="None of the accepted media types is available"):
        invoke.decode(request({"data": {}}, accept="image/png"), find)
    with pytest.raises(RejectedRequest, match="Input 'messages' is required"):
        invoke.decode(request({"data": {}}), find)


def test_error_response_has_version_status_and_session_id() -> None:
    answer = invoke.encode_error(ShuttingDown("Later."), AgentaRequest(session="s-1"), status=503)

    assert json(answer) == {
        "version": "2025.07.14",
        "status": {"code": 503, "type": "shutting_down", "message": "Later."},
        "session_id": "s-1",
    }


# The answer


@pytest.mark.parametrize(
    ("form", "keep_alive"),
    [("application/x-ndjson", b""), ("application/jsonl", b""), ("text/event-stream", b": keep-alive\n\n")],
)
def test_stream_head_has_the_media_type_and_the_ids_of_the_run(form: str, keep_alive: bytes) -> None:
    assert invoke.response_head(STARTED, AgentaRequest(form=form)) == HttpResponse(
        status=200,
        headers=(
            ("content-type", form),
            ("cache-control", "no-cache, no-transform"),
            ("x-accel-buffering", "no"),
            *IDS,
        ),
        keep_alive=keep_alive,
    )


def test_json_response_has_no_stream_head() -> None:
    assert invoke.response_head(STARTED, AgentaRequest()) is None


@pytest.mark.parametrize(
    ("form", "before", "after"),
    [
        ("application/x-ndjson", b"", b"\n"),
        ("application/jsonl", b"", b"\n"),
        ("text/event-stream", b"data: ", b"\n\n"),
    ],
)
def test_records_are_framed_for_the_media_type(form: str, before: bytes, after: bytes) -> None:
    frames = invoke.stream_encoder(AgentaRequest(form=form))
    finished = b'{"type":"done","data":{"stopReason":"stop","run_id":"%b","trace_id":"%b"}}' % (
        RUN.encode(),
        TRACE.encode(),
    )

    assert [frames(event) for event in valid_events()] == [b"", before + finished + after]


def test_an_envelope_is_answered_with_an_envelope() -> None:
    events = valid_events("Because", ".", Usage(input_tokens=12, output_tokens=2))

    answer = invoke.encode_response(events, AgentaRequest(envelope=True), status=200)

    assert answer.headers == (("content-type", "application/json"), *IDS)
    assert json(answer) == {
        "version": "2025.07.14",
        "status": {"code": 200, "message": "Success"},
        "trace_id": TRACE,
        "span_id": SPAN,
        "session_id": "s-1",
        "data": {"outputs": {"role": "assistant", "content": "Because."}},
        "meta": {"run_id": RUN, "finish": "stop", "usage": {"input_tokens": 12, "output_tokens": 2}},
    }


@pytest.mark.parametrize(
    ("given", "is_chat", "end", "body"),
    [
        pytest.param(["Because."], True, None, {"role": "assistant", "content": "Because."}, id="one message"),
        pytest.param(["One.", Message.assistant("Two.")], True, None, [
            {"role": "assistant", "content": "One."}, {"role": "assistant", "content": "Two."}
        ], id="several"),
        pytest.param([], True, None, {"role": "assistant", "content": ""}, id="nothing"),
        pytest.param([], False, RunFinished(value=[1, None]), [1, None], id="a value"),
        pytest.param([], False, RunFinished(value=None), None, id="null"),
        pytest.param(["Hel"], False, RunCancelled(), "Hel", id="a value that was cut short"),
    ],
)  # fmt: skip
def test_flat_request_is_answered_with_only_the_outputs(given: Any, is_chat: bool, end: Any, body: Any) -> None:
    answer = invoke.encode_response(valid_events(*given, end=end), AgentaRequest(is_chat=is_chat), status=200)

    assert json(answer) == body
    assert answer.headers == (("content-type", "application/json"), *IDS)


def test_cancelled_run_is_answered_with_the_partial_output() -> None:
    document = json(
        invoke.encode_response(valid_events("Hel", end=RunCancelled()), AgentaRequest(envelope=True), status=200)
    )

    assert document["data"] == {"outputs": {"role": "assistant", "content": "Hel"}}
    assert document["meta"] == {"run_id": RUN, "finish": "cancelled"}


@pytest.mark.parametrize(
    ("given", "reading", "data"),
    [
        pytest.param(
            ["Hel"], AgentaRequest(envelope=True), {"outputs": {"role": "assistant", "content": "Hel"}}, id="a chat"
        ),
        pytest.param(
            ["Hel", Data(name="output", value=1)],
            AgentaRequest(envelope=True, is_chat=False),
            {"outputs": ["Hel", 1]},
            id="another workflow",
        ),
        pytest.param([], AgentaRequest(envelope=True), None, id="nothing said"),
        pytest.param([], AgentaRequest(envelope=True, is_chat=False), None, id="nothing yielded"),
        pytest.param(["Hel"], AgentaRequest(), None, id="a flat call has no place for it"),
    ],
)
def test_output_before_a_failure_is_returned_in_the_envelope(given: Any, reading: AgentaRequest, data: Any) -> None:
    events = valid_events(*given, end=RunFailed(code="mine", message="No."))
    document = json(invoke.encode_response(events, reading, status=500))

    assert document["status"] == {"code": 500, "type": "mine", "message": "No."}
    assert document.get("data") == data


# UI messages


UI = AgentaRequest(form="text/event-stream", ui=UIRequest(version=7))
UI_MESSAGE = {
    "id": MESSAGE,
    "role": "assistant",
    "metadata": {"runId": RUN, "traceId": TRACE, "chatId": "s-1"},
    "parts": [{"type": "step-start"}, {"type": "text", "text": "Hi", "state": "done"}],
}


def test_ui_message_stream_has_the_ui_stream_headers() -> None:
    assert invoke.response_head(STARTED, UI) == HttpResponse(
        status=200,
        headers=(
            ("content-type", "text/event-stream"),
            ("cache-control", "no-cache, no-transform"),
            ("x-accel-buffering", "no"),
            ("x-vercel-ai-ui-message-stream", "v1"),
            ("x-palaver-ui-version", "7"),
            *IDS,
        ),
        keep_alive=b": keep-alive\n\n",
    )


def test_ui_message_stream_sends_the_ai_sdk_bytes_after_a_delayed_start() -> None:
    events = valid_events("Hi")
    frames, ai_sdk_encoder = invoke.stream_encoder(UI), UIStreamEncoder(UIRequest(version=7))

    first, *remaining = [frames(event) for event in events]

    assert first == b""  # A run that fails now is answered with its status.
    assert b"".join(remaining) == b"".join(map(ai_sdk_encoder.encode, events))


@pytest.mark.parametrize(
    ("reading", "end", "body"),
    [
        pytest.param(AgentaRequest(ui=UIRequest()), None, UI_MESSAGE, id="a chat"),
        pytest.param(AgentaRequest(ui=UIRequest(), trim=True), None, UI_MESSAGE, id="a chat, its last message"),
        pytest.param(AgentaRequest(ui=UIRequest(), is_chat=False), RunFinished(value=[1]), [1], id="another workflow"),
    ],
)
def test_json_response_with_ui_messages_is_the_message_a_client_builds(
    reading: AgentaRequest, end: Any, body: Any
) -> None:
    assert json(invoke.encode_response(valid_events("Hi", end=end), reading, status=200)) == body


def test_output_before_a_failure_is_returned_as_a_ui_message() -> None:
    events = valid_events("Hi", end=RunFailed(code="mine", message="No."))
    document = json(invoke.encode_response(events, AgentaRequest(envelope=True, ui=UIRequest()), status=500))

    assert document["data"] == {"outputs": UI_MESSAGE}


# The JSON response is what a client builds from the stream

PIECES = st.text(min_size=1, max_size=6)
NAMES = st.sampled_from(["a", "b", "c/d", "é"])
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
ANNOTATIONS = st.lists(
    st.builds(Annotation, kind=st.sampled_from(["url", "span"]), url=st.just("https://x")), max_size=2
)
FILES = st.builds(File, media_type=st.sampled_from(["image/png", "audio/wav", "text/csv"]), data=st.just("AA=="))
USAGES = st.builds(Usage, input_tokens=st.integers(0, 9), output_tokens=st.integers(0, 9))
OUTPUT_VALUES: st.SearchStrategy[Any] = st.one_of(
    PIECES,
    st.builds(TextDelta, item=NAMES, delta=PIECES),
    st.builds(TextEnded, item=NAMES, annotations=ANNOTATIONS.map(tuple)),
    st.builds(ReasoningDelta, item=NAMES.map("r{}".format) | st.just(""), delta=PIECES),
    st.builds(ReasoningEnded, item=NAMES.map("r{}".format), encrypted=st.none() | st.just("sealed")),
    st.builds(Reasoning, text=PIECES),
    st.builds(ToolStarted, call_id=NAMES, name=NAMES, item=NAMES.map("t{}".format)),
    st.builds(
        ToolCall, call_id=NAMES, name=NAMES, arguments=JSONS.map(lambda value: msgspec.json.encode(value).decode())
    ),
    st.builds(ToolResult, call_id=NAMES, output=JSONS, is_error=st.booleans()),
    st.builds(Message.assistant, PIECES),
    st.just(Message.assistant()),
    st.builds(Data, name=NAMES, value=JSONS),
    st.builds(PartAdded, part=st.builds(Data, name=st.just("status"), value=PIECES), transient=st.just(True)),
    st.builds(Refusal, text=PIECES),
    FILES,
    USAGES,
)
ENDS: st.SearchStrategy[TerminalEvent] = st.one_of(
    st.builds(RunFinished, finish=st.sampled_from(["stop", "length", "interrupted"]), usage=st.none() | USAGES),
    st.builds(RunCancelled),
    st.builds(RunFailed, message=st.just("No."), usage=st.none() | USAGES),
)


def lenient_events(given: Sequence[OutputValue | str], end: TerminalEvent) -> list[Event]:
    """Return the valid events of a sloppy producer: they end where the grammar would fail the run."""
    grammar = Grammar(RUN)
    events = [*grammar.start(STARTED)]
    try:
        for value in given:
            events += grammar.text(value) if isinstance(value, str) else grammar.feed(value)
    except BadStream as error:
        end = RunFailed(code=error.code, message=error.message)
    return [*events, *grammar.end(end)]


def round_trip_events(events: Sequence[Event], reading: AgentaRequest, cuts: Sequence[int]) -> list[Event]:
    """Encode the events, cut the bytes anywhere, decode them, and pass them through the grammar again."""
    frames = invoke.stream_encoder(reading)
    wire = b"".join(map(frames, events))
    edges = [0, *sorted(cut % (len(wire) + 1) for cut in cuts), len(wire)]
    replies = invoke.InvokeReplyDecoder(reading.form)
    output = [value for start, end in pairwise(edges) for value in replies.feed(wire[start:end])] + replies.end()
    grammar = Grammar(RUN)
    repeated = [*grammar.start(STARTED)]
    for value in output:
        repeated += grammar.feed(value)  # pyright: ignore[reportArgumentType]  # events: the stream is one of ours
    assert grammar.ending is not None
    return [*repeated, *grammar.end(grammar.ending)]


def response_content(events: Sequence[Event], reading: AgentaRequest) -> Any:
    """Return the part of the JSON response that the stream also carries."""
    document = json(invoke.encode_response(events, reading, status=200))
    meta = document.get("meta", {})
    return document.get("data"), meta.get("finish"), meta.get("usage")


STREAM_TYPES = st.sampled_from(["application/x-ndjson", "application/jsonl", "text/event-stream"])
CUTS = st.lists(st.integers(0, 10_000), max_size=6)


@given(values=st.lists(OUTPUT_VALUES, max_size=12), end=ENDS, form=STREAM_TYPES, trim=st.booleans(), cuts=CUTS)
@example(values=["\u2028\r\n", "data: "], end=RunFinished(), form="text/event-stream", trim=False, cuts=[1, 7])
def test_json_response_of_a_chat_equals_its_decoded_stream(
    values: list[Any], end: TerminalEvent, form: str, trim: bool, cuts: list[int]
) -> None:
    events = lenient_events(values, end)
    parsed = AgentaRequest(form=form, envelope=True, trim=trim)

    assert response_content(round_trip_events(events, parsed, cuts), parsed) == response_content(events, parsed)


TEXT_AND_OUTPUTS = st.lists(PIECES | st.builds(Data, name=st.just("output"), value=JSONS), max_size=6)


@given(values=TEXT_AND_OUTPUTS, value=JSONS, end=ENDS, form=STREAM_TYPES, cuts=CUTS)
def test_json_response_of_a_non_chat_workflow_equals_its_decoded_stream(
    values: list[Any], value: Any, end: TerminalEvent, form: str, cuts: list[int]
) -> None:
    if isinstance(end, RunFinished) and end.finish == "stop":
        end = msgspec.structs.replace(end, value=value)
    events = lenient_events(values, end)
    parsed = AgentaRequest(form=form, envelope=True, is_chat=False)

    assert response_content(round_trip_events(events, parsed, cuts), parsed) == response_content(events, parsed)


@given(values=st.lists(OUTPUT_VALUES, max_size=12), end=ENDS, is_chat=st.booleans())
def test_done_is_sent_once_as_the_last_record(values: list[Any], end: TerminalEvent, is_chat: bool) -> None:
    frames = invoke.stream_encoder(AgentaRequest(form="application/x-ndjson", is_chat=is_chat))
    kinds = [
        msgspec.json.decode(line)["type"]
        for event in lenient_events(values, end)
        for line in frames(event).splitlines()
    ]

    assert kinds[-1] == "done"
    assert kinds.count("done") == 1
    assert kinds.count("usage") <= 1
    assert kinds[-2] == "usage" if "usage" in kinds else True


# The client half


def test_client_sends_an_envelope_without_user_secrets_references_or_tags() -> None:
    call = Call(
        workflow="tutor",
        messages=(Message.user("Why?"),),
        inputs={"subject": "physics"},
        parameters={"temperature": 0},
        session="s:1",
        user="ada",
        secrets={"key": Secret("hunter2")},
        references={"references": "hunter2"},
        tags={"t": "hunter2"},
        trace_parent=f"00-{TRACE}-{SPAN}-01",
    )

    http_request = invoke.build_invoke_request(call, is_chat=True, stream=True)

    assert http_request == HttpRequest(
        headers={
            "content-type": "application/json",
            "accept": "text/event-stream",
            "baggage": "ag.session.id=s:1",
            "traceparent": f"00-{TRACE}-{SPAN}-01",
        },
        body=http_request.body,
    )
    assert msgspec.json.decode(http_request.body) == {
        "version": "2025.07.14",
        "data": {"inputs": {"subject": "physics", "messages": HISTORY}, "parameters": {"temperature": 0}},
        "session_id": "s:1",
    }


def test_client_accepts_any_media_type_without_streaming() -> None:
    http_request = invoke.build_invoke_request(
        Call(workflow="headline", inputs={"text": "Hi"}), is_chat=False, stream=False
    )

    assert http_request.headers == {"content-type": "application/json", "accept": "*/*"}
    assert msgspec.json.decode(http_request.body) == {
        "version": "2025.07.14",
        "data": {"inputs": {"text": "Hi"}, "parameters": {}},
    }


def test_history_given_as_an_input_is_sent_as_the_history() -> None:
    http_request = invoke.build_invoke_request(
        Call(workflow="tutor", inputs={"messages": HISTORY}), is_chat=True, stream=False
    )

    assert msgspec.json.decode(http_request.body)["data"]["inputs"] == {"messages": HISTORY}


def decode_reply(content_type: str, body: bytes) -> list[object]:
    replies = invoke.InvokeReplyDecoder(content_type)
    output = [value for byte in body for value in replies.feed(bytes([byte]))]
    assert replies.streamed or not output
    return output + replies.end()


@pytest.mark.parametrize(
    ("content_type", "body", "values"),
    [
        pytest.param("application/json", b'{"data":{"outputs":"Hi"}}', ["Hi"], id="an envelope"),
        pytest.param("application/json", b'{"data":{"outputs":null}}', [None], id="an envelope with null"),
        pytest.param(
            "application/json",
            b'{"version":"1","status":{"code":200},"data":null}',
            [None],
            id="an envelope with nothing",
        ),
        pytest.param("application/json; charset=utf-8", b'{"role":"assistant"}', [{"role": "assistant"}], id="flat"),
        pytest.param("application/json", b"[1, 2]", [[1, 2]], id="a bare value"),
        pytest.param("application/problem+json", b'{"data":{"x":1}}', [{"data": {"x": 1}}], id="data of its own"),
        pytest.param("text/plain", b"42", ["42"], id="text"),
        pytest.param("", b"Hi", ["Hi"], id="text without a type"),
        pytest.param("", b"[1]", [[1]], id="JSON without a type"),
        pytest.param("application/json", b" ", [None], id="an empty body"),
        pytest.param(
            "application/json",
            b'{"version":"1","status":{"code":500,"message":"Out of tea."}}',
            [RunFailed(code="upstream_failed", message="Out of tea.")],
            id="a failure inside an answer that is none",
        ),
        pytest.param(
            "application/json", b'{"status":{"code":404}}', [RunFailed(code="upstream_failed")], id="without words"
        ),
        pytest.param("application/x-ndjson", b'"a"\r\n\n"b"', ["a", "b"], id="lines"),
        pytest.param("APPLICATION/JSONL; x=y", b'{"type":"done","data":{}}\n', [RunFinished()], id="records in lines"),
        pytest.param("text/event-stream", b': hi\n\ndata: "a"\n\ndata: "b"', ["a", "b"], id="server-sent events"),
        pytest.param(
            "text/event-stream",
            b'data: {"type":"error","data":{"message":"No."}}\n\n',
            [RunFailed(code="upstream_failed", message="No.")],
            id="an error without an end",
        ),
    ],
)
def test_reply_is_decoded_by_its_content_type(content_type: str, body: bytes, values: list[object]) -> None:
    assert decode_reply(content_type, body) == values


@pytest.mark.parametrize(
    ("content_type", "body", "message"),
    [
        ("application/json", b"<html>", "The response from the remote service is not JSON."),
        ("text/html", b"<html>", "The response from the remote service is not JSON."),
        (
            "application/x-ndjson",
            b'"a"\n{"type":"mess',
            "The stream from the remote service ended in the middle of a record.",
        ),
        (
            "text/event-stream",
            b'data: {"type":"mess',
            "The stream from the remote service ended in the middle of a record.",
        ),
    ],
)
def test_undecodable_reply_raises_upstream_failed(content_type: str, body: bytes, message: str) -> None:
    with pytest.raises(UpstreamFailed) as failed:
        decode_reply(content_type, body)

    assert failed.value.message == message


@pytest.mark.parametrize("content_type", ["application/x-ndjson", "text/event-stream"])
def test_record_longer_than_the_limit_raises_upstream_failed(content_type: str) -> None:
    replies = invoke.InvokeReplyDecoder(content_type, max_bytes=100)

    with pytest.raises(UpstreamFailed, match="larger than 100 bytes"):
        replies.feed(b"data: " + b"x" * 200)
