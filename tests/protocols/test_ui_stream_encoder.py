"""Events encoded as UI message stream parts."""

from typing import Any

import pytest

from palaver.core.events import (
    Event,
    PartAdded,
    ReasoningDelta,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunStarted,
    ToolDelta,
    ToolEnded,
    ToolStarted,
)
from palaver.core.grammar import Grammar
from palaver.core.messages import Annotation, Data, File, Message, Reasoning, Refusal, Text, ToolCall, ToolResult, Usage
from palaver.protocols.ui_stream.adapter import UIPart
from palaver.protocols.ui_stream.request import UIRequest
from tests.protocols.fixed_run import MESSAGE, RUN, STARTED, valid_events
from tests.protocols.ui_parts import (
    APPROVAL,
    CALL,
    HISTORY_CALL,
    RESULT,
    SERVER_TOOL,
    START,
    STEP,
    STEP_END,
    STOP,
    call,
    complete_part,
    parts_of,
    result,
    run_parts,
    text,
)

# Events and their parts


def test_a_run_starts_with_its_ids_and_a_step() -> None:
    assert parts_of(STARTED) == [START, STEP]


def test_run_without_a_trace_has_no_trace_id_in_its_metadata() -> None:
    assert parts_of(RunStarted(run_id="run_1", session="chat-1")) == [
        {"type": "start", "messageId": "msg_1", "messageMetadata": {"runId": "run_1", "chatId": "chat-1"}},
        STEP,
    ]


def test_stream_continues_the_clients_last_message() -> None:
    assert parts_of(STARTED, client=UIRequest(message="m7"))[0]["messageId"] == "m7"


def test_text_is_a_part_with_its_id() -> None:
    assert run_parts("Hel", "lo") == text(f"{MESSAGE}_1", "Hel", "lo")


def test_reasoning_is_a_part_with_its_id() -> None:
    assert run_parts(ReasoningDelta(delta="Hm"), ReasoningDelta(delta="m.")) == [
        {"type": "reasoning-start", "id": "rs_01k00000000000000000000000_2"},
        {"type": "reasoning-delta", "id": "rs_01k00000000000000000000000_2", "delta": "Hm"},
        {"type": "reasoning-delta", "id": "rs_01k00000000000000000000000_2", "delta": "m."},
        {"type": "reasoning-end", "id": "rs_01k00000000000000000000000_2"},
    ]


def test_encrypted_reasoning_is_sent_as_provider_metadata() -> None:
    assert run_parts(Reasoning(text="Hm", encrypted="gAAA"))[-1] == {
        "type": "reasoning-end",
        "id": "rs_01k00000000000000000000000_2",
        "providerMetadata": {"palaver": {"encrypted": "gAAA"}},
    }


def test_annotations_become_source_parts_after_their_text() -> None:
    notes = (
        Annotation(kind="url", url="https://e.org", title="E"),
        Annotation(kind="span", start=0, end=2),
        Annotation(kind="url", url="https://f.org"),
        Annotation(kind="file", file_id="f1"),
        Annotation(kind="file", file_id="f2", title="b.pdf"),
        Annotation(kind="url"),
    )
    document = {"type": "source-document", "mediaType": "application/octet-stream"}
    source = f"{MESSAGE}_1.s"

    assert run_parts(Text(text="See", annotations=notes)) == [
        *text(f"{MESSAGE}_1", "See"),
        {"type": "source-url", "sourceId": f"{source}1", "url": "https://e.org", "title": "E"},
        {"type": "source-url", "sourceId": f"{source}3", "url": "https://f.org"},
        {**document, "sourceId": f"{source}4", "title": "f1"},
        {**document, "sourceId": f"{source}5", "title": "b.pdf", "filename": "b.pdf"},
    ]


def test_workflow_tool_call_is_marked_as_executed_by_the_server() -> None:
    assert run_parts(CALL, RESULT) == [*call(), result()]


def test_client_tool_call_is_not_marked_as_executed_by_the_server() -> None:
    assert run_parts(CALL, client=UIRequest(tools=frozenset({"get_time"}))) == call(runner={"dynamic": True})


@pytest.mark.parametrize("arguments", ["", " \n"])
def test_empty_arguments_become_an_empty_object(arguments: str) -> None:
    assert run_parts(ToolCall(call_id="c1", name="now", arguments=arguments))[-1] == {
        "type": "tool-input-available",
        "toolCallId": "c1",
        "toolName": "now",
        "input": {},
        **SERVER_TOOL,
    }


@pytest.mark.parametrize(("arguments", "value"), [('"x"', "x"), ("[1]", [1]), ("null", None), ("1", 1)])
def test_arguments_can_be_any_json_value(arguments: str, value: Any) -> None:
    assert run_parts(ToolCall(call_id="c1", name="now", arguments=arguments))[-1]["input"] == value


def test_invalid_json_arguments_become_an_input_error_with_their_text() -> None:
    assert run_parts(ToolCall(call_id="c1", name="now", arguments='{"tz":'))[-1] == {
        "type": "tool-input-error",
        "toolCallId": "c1",
        "toolName": "now",
        "input": '{"tz":',
        "errorText": "The arguments are not valid JSON.",
        **SERVER_TOOL,
    }


@pytest.mark.parametrize("output", ["12", {"a": [1, None]}, None, 0])
def test_tool_result_is_sent_as_its_value(output: Any) -> None:
    assert run_parts(CALL, ToolResult(call_id="c1", output=output))[-1] == result() | {"output": output}


@pytest.mark.parametrize(("output", "error_text"), [("No.", "No."), ({"why": "é"}, '{"why":"é"}'), (None, "null")])
def test_failed_tool_result_is_sent_as_error_text(output: Any, error_text: str) -> None:
    assert run_parts(CALL, ToolResult(call_id="c1", output=output, is_error=True))[-1] == {
        "type": "tool-output-error",
        "toolCallId": "c1",
        "errorText": error_text,
        **SERVER_TOOL,
    }


def test_result_of_a_client_tool_call_is_marked_as_executed_by_the_server() -> None:
    parts = run_parts(CALL, RESULT, client=UIRequest(tools=frozenset({"get_time"})))

    assert parts == [*call(runner={"dynamic": True}), result()]


def test_data_has_its_name_in_its_type() -> None:
    assert complete_part(Data(name="chart", value={"x": [1]})) == [
        {"type": "data-chart", "id": "i1", "data": {"x": [1]}}
    ]


def test_transient_data_has_no_id() -> None:
    assert complete_part(Data(name="status", value="Busy"), transient=True) == [
        {"type": "data-status", "data": "Busy", "transient": True}
    ]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (
            File(media_type="image/png", url="https://e.org/a.png", filename="a.png"),
            {
                "type": "data-file",
                "data": {"media_type": "image/png", "url": "https://e.org/a.png", "filename": "a.png"},
            },
        ),
        (Refusal(text="No."), {"type": "data-refusal", "data": {"text": "No."}}),
    ],
)
def test_transient_files_and_refusals_are_sent_as_transient_data(part: Any, expected: Any) -> None:
    assert complete_part(part, transient=True) == [{**expected, "transient": True}]


@pytest.mark.parametrize(
    ("file", "part"),
    [
        (
            File(media_type="image/png", url="https://e.org/a.png", data="ignored"),
            {"type": "file", "url": "https://e.org/a.png", "mediaType": "image/png"},
        ),
        (
            File(media_type="image/png", data="iVBO"),
            {"type": "file", "url": "data:image/png;base64,iVBO", "mediaType": "image/png"},
        ),
        (
            File(media_type="text/plain", file_id="f1", filename="a.txt"),
            {
                "type": "data-file",
                "id": "i1",
                "data": {"media_type": "text/plain", "file_id": "f1", "filename": "a.txt"},
            },
        ),
    ],
)
def test_file_is_sent_with_a_url_or_as_data_without_one(file: File, part: UIPart) -> None:
    assert complete_part(file) == [part]


def test_refusal_is_a_text_part_marked_as_a_refusal() -> None:
    start, *remaining = text("i1", "I will not.")

    assert complete_part(Refusal(text="I will not.")) == [
        {**start, "providerMetadata": {"palaver": {"refusal": True}}},
        *remaining,
    ]


def test_empty_part_is_not_sent() -> None:
    assert parts_of(STARTED, PartAdded(item="i1")) == [START, STEP]


# Approvals


@pytest.mark.parametrize("version", [6, 7])
def test_approval_request_refers_to_its_call(version: int) -> None:
    parts = run_parts(CALL, Data(name="approval-request", value=APPROVAL), client=UIRequest(version=version))

    assert parts == [*call(), {"type": "tool-approval-request", "approvalId": "a1", "toolCallId": "c1"}]


def test_approval_request_follows_its_complete_call() -> None:
    events = valid_events(
        ToolStarted(item="t", call_id="c1", name="get_time"),
        ToolDelta(item="t", delta='{"tz":"UTC"}'),
        PartAdded(item="i1", part=Data(name="approval-request", value=APPROVAL)),
        ToolEnded(item="t"),
    )

    approval_request = {"type": "tool-approval-request", "approvalId": "a1", "toolCallId": "c1"}
    assert parts_of(*events)[2:-2] == [*call(), approval_request]


@pytest.mark.parametrize(
    ("value", "client"),
    [
        pytest.param(APPROVAL, UIRequest(version=5), id="version 5 does not know them"),
        pytest.param({**APPROVAL, "call_id": None}, UIRequest(), id="about no call"),
        pytest.param({**APPROVAL, "call_id": "c9"}, UIRequest(), id="about an unknown call"),
        pytest.param({**APPROVAL, "id": None}, UIRequest(), id="without an id"),
        pytest.param("please", UIRequest(), id="of no known shape"),
    ],
)
def test_other_approval_requests_are_sent_as_data(value: Any, client: UIRequest) -> None:
    parts = run_parts(CALL, PartAdded(item="i1", part=Data(name="approval-request", value=value)), client=client)

    assert parts == [*call(), {"type": "data-approval-request", "id": "i1", "data": value}]


def test_approval_request_for_an_answered_call_is_sent_as_data() -> None:
    parts = run_parts(CALL, RESULT, PartAdded(item="i1", part=Data(name="approval-request", value=APPROVAL)))

    assert parts[-1] == {"type": "data-approval-request", "id": "i1", "data": APPROVAL}


# Calls of the history


def continued_run_parts(*values: Any, client: UIRequest) -> list[UIPart]:
    grammar = Grammar(RUN, history=[Message.assistant(HISTORY_CALL)])
    events: list[Event] = [*grammar.start(STARTED)]
    for value in values:
        events += grammar.feed(value)
    return parts_of(*events, *grammar.end(RunFinished()), client=client)[2:-2]


HISTORY_RESULT = ToolResult(call_id="h1", output="gone")
INPUT_PART = {
    "type": "tool-input-available",
    "toolCallId": "h1",
    "toolName": "delete",
    "input": {"x": 1},
    **SERVER_TOOL,
}
OUTPUT_PART = {"type": "tool-output-available", "toolCallId": "h1", "output": "gone", **SERVER_TOOL}


def test_history_call_unknown_to_the_client_is_sent_before_its_result() -> None:
    parts = continued_run_parts(HISTORY_RESULT, Text(text="Done."), client=UIRequest(waiting={"h1": HISTORY_CALL}))

    assert parts == [INPUT_PART, OUTPUT_PART, STEP_END, STEP, *text(f"{MESSAGE}_2", "Done.")]


def test_result_of_an_unknown_call_is_sent_after_a_placeholder_call() -> None:
    assert continued_run_parts(HISTORY_RESULT, client=UIRequest()) == [
        INPUT_PART | {"toolName": "unknown", "input": {}},
        OUTPUT_PART,
    ]


def test_history_call_known_to_the_client_gets_only_its_result() -> None:
    client = UIRequest(shown={"h1": True}, waiting={"h1": HISTORY_CALL})

    assert continued_run_parts(HISTORY_RESULT, Text(text="Done."), client=client) == [
        OUTPUT_PART,
        STEP_END,
        STEP,
        *text(f"{MESSAGE}_2", "Done."),
    ]


def test_result_of_a_typed_tool_call_is_not_marked_as_dynamic() -> None:
    client = UIRequest(shown={"h1": False}, waiting={"h1": HISTORY_CALL})

    expected = {"type": "tool-output-available", "toolCallId": "h1", "output": "gone", "providerExecuted": True}
    assert continued_run_parts(HISTORY_RESULT, client=client) == [expected]


@pytest.mark.parametrize(("shown", "before"), [({}, [INPUT_PART]), ({"h1": True}, [])])
def test_approval_can_be_requested_for_a_call_of_the_history(shown: Any, before: Any) -> None:
    approval_request = Data(name="approval-request", value={"id": "a1", "call_id": "h1"})

    parts = continued_run_parts(approval_request, client=UIRequest(shown=shown, waiting={"h1": HISTORY_CALL}))

    assert parts == [*before, {"type": "tool-approval-request", "approvalId": "a1", "toolCallId": "h1"}]


@pytest.mark.parametrize(("shown", "before"), [({}, [INPUT_PART]), ({"h1": True}, [])])
def test_new_call_with_the_id_of_an_answered_call_gets_a_new_id(shown: Any, before: Any) -> None:
    repeated = ToolCall(call_id="h1", name="get_time", arguments='{"tz":"UTC"}')

    parts = continued_run_parts(HISTORY_RESULT, repeated, client=UIRequest(shown=shown, waiting={"h1": HISTORY_CALL}))

    assert parts == [*before, OUTPUT_PART, STEP_END, STEP, *call("h1.2")]


def test_result_and_approval_of_a_renamed_call_use_its_new_id() -> None:
    client = UIRequest(shown={"c1": True, "c1.2": True})

    assert run_parts(CALL, RESULT, client=client) == [*call("c1.3"), result("c1.3")]
    assert run_parts(CALL, Data(name="approval-request", value=APPROVAL), client=client) == [
        *call("c1.3"),
        {"type": "tool-approval-request", "approvalId": "a1", "toolCallId": "c1.3"},
    ]


def test_pending_call_is_sent_again_under_its_id() -> None:
    client = UIRequest(shown={"c1": True}, waiting={"c1": CALL})

    assert run_parts(CALL, RESULT, client=client) == [*call("c1"), result("c1")]


# The end


def end_parts(end: Any, *values: Any) -> list[UIPart]:
    return parts_of(*valid_events(*values, end=end))[2:]


@pytest.mark.parametrize("finish", ["stop", "length", "tool-calls", "content-filter", "error"])
def test_finish_part_has_the_finish_reason_of_the_run(finish: Any) -> None:
    assert end_parts(RunFinished(finish=finish)) == [STEP_END, {"type": "finish", "finishReason": finish}]


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (RunCancelled(), "cancelled"),
        (RunFinished(finish="cancelled"), "cancelled"),
        (RunFinished(finish="interrupted"), "interrupted"),
    ],
)
def test_cancelled_or_interrupted_run_ends_with_an_abort(end: Any, reason: str) -> None:
    assert end_parts(end, "Hel") == [*text(f"{MESSAGE}_1", "Hel"), {"type": "abort", "reason": reason}]


def test_failed_run_ends_with_an_error_part() -> None:
    assert end_parts(RunFailed(code="x", message="The model is down."), "Hel") == [
        *text(f"{MESSAGE}_1", "Hel"),
        {"type": "error", "errorText": "The model is down."},
        STEP_END,
        {"type": "finish", "finishReason": "error"},
    ]


def test_usage_is_summed_in_the_metadata_of_the_finish_part() -> None:
    parts = parts_of(
        *valid_events(
            Usage(input_tokens=1, output_tokens=2),
            Usage(input_tokens=2, output_tokens=2, cached_input_tokens=1, reasoning_tokens=0),
        )
    )

    usage = {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7, "cachedInputTokens": 1, "reasoningTokens": 0}
    assert parts[2:] == [STEP_END, {**STOP, "messageMetadata": {"usage": usage}}]


def test_usage_of_the_terminal_event_replaces_the_sum() -> None:
    parts = end_parts(RunFinished(usage=Usage(input_tokens=9, output_tokens=1)), Usage(input_tokens=1, output_tokens=2))

    assert parts[-1]["messageMetadata"] == {"usage": {"inputTokens": 9, "outputTokens": 1, "totalTokens": 10}}


OUTPUT_TEXT, OUTPUT_DATA = f"{MESSAGE}_output", "dat_01k00000000000000000000000_output"


@pytest.mark.parametrize(
    ("value", "words", "data"),
    [
        ("Just text.", ["Just text."], []),
        ("", [], []),
        ({"a": "é"}, ['{"a":"é"}'], [{"a": "é"}]),
        (None, ["null"], [None]),
    ],
)
def test_value_of_a_non_chat_workflow_is_sent_as_text_and_data(value: Any, words: Any, data: Any) -> None:
    assert end_parts(RunFinished(value=value)) == [
        *(part for word in words for part in text(OUTPUT_TEXT, word)),
        *({"type": "data-output", "id": OUTPUT_DATA, "data": one} for one in data),
        STEP_END,
        STOP,
    ]


def test_streamed_value_is_not_repeated() -> None:
    assert end_parts(RunFinished(value="Hello"), "Hel", "lo") == [*text(f"{MESSAGE}_1", "Hel", "lo"), STEP_END, STOP]
    assert end_parts(RunFinished(value={"a": 1}), PartAdded(item="i1", part=Data(name="output", value={"a": 1}))) == [
        {"type": "data-output", "id": "i1", "data": {"a": 1}},
        *text(OUTPUT_TEXT, '{"a":1}'),
        STEP_END,
        STOP,
    ]


def test_value_after_a_tool_result_starts_a_new_step() -> None:
    assert end_parts(RunFinished(value="4"), CALL, RESULT) == [
        *call(),
        result(),
        STEP_END,
        STEP,
        *text(OUTPUT_TEXT, "4"),
        STEP_END,
        STOP,
    ]
