"""Responses, streamed: the frames of every event, in both profiles."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from msgspec.structs import replace

from palaver.core.events import (
    Event,
    PartAdded,
    ReasoningDelta,
    ReasoningEnded,
    RunCancelled,
    RunFailed,
    RunFinished,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolDelta,
    ToolEnded,
    ToolStarted,
)
from palaver.core.grammar import OutputValue
from palaver.core.messages import Annotation, Data, File, Reasoning, Refusal, Text, ToolCall, ToolResult, Usage
from palaver.protocols.responses import adapter as responses
from palaver.protocols.responses.request import ResponsesRequest
from tests.core.strategies import hostile, sloppy
from tests.core.test_grammar_laws import stream_of
from tests.protocols.fixed_run import MESSAGE, RUN, STARTED, TRACE, valid_events

AT = datetime(2026, 7, 1, 12, tzinfo=UTC)
NOW = int(AT.timestamp())
OPENAI = ResponsesRequest(stream=True, model="tutor", workflow="tutor", server_tools="function_call")
MLFLOW = replace(OPENAI, profile="invocations")
ITEM, TAIL = f"{MESSAGE}_1", RUN.removeprefix("run_")
RESPONSE = f"resp_{TAIL}"


def frames(events: list[Event], reading: ResponsesRequest = OPENAI) -> list[Any]:
    """Return the decoded frames of a stream; `event:` lines are checked on the way."""
    encode = responses.stream_encoder(reading)
    blocks = b"".join(map(encode, events)).decode().split("\n\n")
    assert blocks.pop() == "", "every frame ends with an empty line"
    result: list[Any] = []
    for block in blocks:
        *named, data = block.split("\n")
        content = data.removeprefix("data: ")
        result.append(content if content == "[DONE]" else msgspec.json.decode(content))
        kind = result[-1].get("type") if isinstance(result[-1], dict) else None
        assert named == ([f"event: {kind}"] if reading.profile == "open" and kind else [])
    return result


def inner_frames(*given: OutputValue | str, reading: ResponsesRequest = OPENAI) -> list[Any]:
    """The frames between the start and the end of a run, without their numbers."""
    output = frames(valid_events(*given), reading)
    numbers = [one["sequence_number"] for one in output[:-1]]
    assert numbers == list(range(len(numbers)))
    last = next(n for n, one in enumerate(output) if one["type"] in ("response.completed", "responses.completed"))
    return [{name: value for name, value in one.items() if name != "sequence_number"} for one in output[2:last]]


def final_response(output: list[Any]) -> Any:
    """The response of the terminal frame."""
    return next(one["response"] for one in reversed(output) if isinstance(one, dict) and "response" in one)


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **fields}


def item_added(index: int, **item: Any) -> dict[str, Any]:
    return event("output_item.added", output_index=index, item=item)


def item_done(index: int, **item: Any) -> dict[str, Any]:
    return event("output_item.done", output_index=index, item=item)


def text_frames(item: str, text: str, index: int = 0, notes: list[Any] | None = None) -> list[Any]:
    """Return the frames of a text that is sent as one delta."""
    location = {"item_id": item, "output_index": index, "content_index": 0}
    empty = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    part = {"type": "output_text", "text": text, "annotations": notes or [], "logprobs": []}
    annotation_frames = [
        event("output_text.annotation.added", **location, annotation_index=n, annotation=note)
        for n, note in enumerate(notes or [])
    ]
    message = {"type": "message", "id": item, "role": "assistant"}
    return [
        item_added(index, **message, content=[], status="in_progress"),
        event("content_part.added", **location, part=empty),
        event("output_text.delta", **location, delta=text, logprobs=[]),
        *annotation_frames,
        event("output_text.done", **location, text=text, logprobs=[]),
        event("content_part.done", **location, part=part),
        item_done(index, **message, content=[part], status="completed"),
    ]


def test_stream_starts_with_created_and_ends_with_completed_and_done() -> None:
    events = valid_events("Hello ", "world", Usage(input_tokens=3, output_tokens=4), end=RunFinished(at=AT))
    events[0] = replace(STARTED, seq=0, at=AT)
    output = frames(events)
    part = {"type": "output_text", "text": "Hello world", "annotations": [], "logprobs": []}
    complete = {
        "id": RESPONSE, "object": "response", "created_at": NOW, "completed_at": NOW, "status": "completed",
        "background": False, "error": None, "incomplete_details": None, "instructions": None, "max_output_tokens": None,
        "max_tool_calls": None, "metadata": {}, "model": "tutor", "output": [
            {"type": "message", "id": ITEM, "status": "completed", "role": "assistant", "content": [part]}],
        "parallel_tool_calls": True, "presence_penalty": 0.0, "frequency_penalty": 0.0, "previous_response_id": None,
        "conversation": None, "prompt_cache_key": None, "reasoning": None, "safety_identifier": None,
        "service_tier": "default", "store": True, "temperature": 1.0, "text": {"format": {"type": "text"}},
        "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": 1.0, "truncation": "disabled",
        "usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7,
                  "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                  "output_tokens_details": {"reasoning_tokens": 0}},
    }  # fmt: skip
    initial = {**complete, "status": "in_progress", "output": [], "completed_at": None, "usage": None}

    assert [one["sequence_number"] for one in output[:-1]] == list(range(len(output) - 1))
    assert output[0] == event("created", sequence_number=0, response=initial)
    assert output[1] == event("in_progress", sequence_number=1, response=initial)
    assert output[-2] == event("completed", sequence_number=len(output) - 2, response=complete)
    assert output[-1] == "[DONE]"


def test_background_stream_starts_as_queued_with_the_queue_time() -> None:
    events = valid_events("Hi", end=RunFinished(at=AT))
    parsed = replace(OPENAI, background=True, queued_at=AT - timedelta(seconds=9), echo={"background": True})
    output = frames([replace(STARTED, seq=0, at=AT), *events[1:]], parsed)
    opening = [(one["type"], one["sequence_number"], one["response"]["status"]) for one in output[:3]]

    assert opening == [
        ("response.created", 0, "queued"),
        ("response.queued", 1, "queued"),
        ("response.in_progress", 2, "in_progress"),
    ]
    assert [one["sequence_number"] for one in output[:-1]] == list(range(len(output) - 1))
    assert {one["response"]["created_at"] for one in output[:-1] if "response" in one} == {NOW - 9}
    assert {one["response"]["background"] for one in output[:-1] if "response" in one} == {True}


def test_invocations_omits_nulls_and_sends_a_usage_summary_for_the_ai_sdk() -> None:
    output = frames(valid_events("Hi", end=RunFinished(finish="length")), MLFLOW)

    assert [name for name, value in output[0]["response"].items() if value is None] == []
    assert [name for name, value in output[-2]["response"].items() if value is None] == []
    assert output[-3] == {
        "type": "responses.completed",
        "sequence_number": len(output) - 3,
        "response": {
            "id": RESPONSE,
            "status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"},
            "usage": {
                "input_tokens": 0, "output_tokens": 0, "total_tokens": 0,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens_details": {"reasoning_tokens": 0},
            },
        },
    }  # fmt: skip
    assert "usage" not in output[-2]["response"]


@pytest.mark.parametrize("reading", [OPENAI, MLFLOW])
def test_text_is_streamed_as_deltas(reading: ResponsesRequest) -> None:
    location = {"item_id": ITEM, "output_index": 0, "content_index": 0}
    first, part, _, *remaining = text_frames(ITEM, "Hi 🦀\u2028")

    assert inner_frames("Hi ", "🦀\u2028", reading=reading) == [
        first,
        part,
        event("output_text.delta", **location, delta="Hi ", logprobs=[]),
        event("output_text.delta", **location, delta="🦀\u2028", logprobs=[]),
        *remaining,
    ]


URL = Annotation(kind="url", url="https://host", title="Host", start=0, end=2)
FILE = Annotation(kind="file", file_id="f1", title="a.txt", start=1)
SPAN = Annotation(kind="span", start=1)
URL_CITATION = {"type": "url_citation", "url": "https://host", "title": "Host", "start_index": 0, "end_index": 2}


def test_annotations_follow_the_last_delta() -> None:
    file = {"type": "file_citation", "file_id": "f1", "filename": "a.txt", "index": 1}
    span = {"type": "palaver:span", "start_index": 1, "end_index": 3, "title": ""}

    assert inner_frames(Text(text="abc", annotations=(URL, FILE, SPAN))) == text_frames(
        ITEM, "abc", notes=[URL_CITATION, file, span]
    )


def test_invocations_sends_only_url_annotations() -> None:
    text = Text(text="abc", annotations=(URL, FILE, SPAN))

    assert inner_frames(text, reading=MLFLOW) == text_frames(ITEM, "abc", notes=[URL_CITATION])


def test_incomplete_annotation_gets_the_fields_that_clients_require() -> None:
    bare = {"type": "url_citation", "url": "https://host", "title": "", "start_index": 0, "end_index": 3}

    assert inner_frames(Text(text="abc", annotations=(Annotation(kind="url", url="https://host"),))) == text_frames(
        ITEM, "abc", notes=[bare]
    )


def test_reasoning_is_a_summary_of_one_part() -> None:
    item = f"rs_{TAIL}_2"
    location = {"item_id": item, "output_index": 0, "summary_index": 0}
    output = inner_frames(ReasoningDelta(delta="Hm"), ReasoningDelta(delta="."), ReasoningEnded(encrypted="sealed"))
    summary = {"type": "summary_text", "text": "Hm."}

    assert output == [
        item_added(0, type="reasoning", id=item, summary=[], status="in_progress"),
        event("reasoning_summary_part.added", **location, part={"type": "summary_text", "text": ""}),
        event("reasoning_summary_text.delta", **location, delta="Hm"),
        event("reasoning_summary_text.delta", **location, delta="."),
        event("reasoning_summary_text.done", **location, text="Hm."),
        event("reasoning_summary_part.done", **location, part=summary),
        item_done(0, type="reasoning", id=item, status="completed", summary=[summary]),
    ]


def test_encrypted_reasoning_is_sent_on_request() -> None:
    parsed = replace(OPENAI, encrypted=True)

    output = inner_frames(Reasoning(text="Hm.", encrypted="sealed"), reading=parsed)

    assert output[-1]["item"]["encrypted_content"] == "sealed"


def test_tool_call_result_and_text_are_streamed_in_order() -> None:
    output = inner_frames(
        ToolStarted(call_id="c1", name="get_time"),
        ToolDelta(delta='{"tz":'),
        ToolDelta(delta='"UTC"}'),
        ToolEnded(),
        ToolResult(call_id="c1", output="12:00"),
        "It is noon.",
    )
    location = {"item_id": f"fc_{TAIL}_c1", "output_index": 0}
    call = {"type": "function_call", "id": f"fc_{TAIL}_c1", "call_id": "c1", "name": "get_time"}
    result = {"type": "function_call_output", "id": f"fco_{TAIL}_c1", "call_id": "c1"}
    arguments = '{"tz":"UTC"}'

    assert output[:8] == [
        item_added(0, **call, arguments="", status="in_progress"),
        event("function_call_arguments.delta", **location, delta='{"tz":'),
        event("function_call_arguments.delta", **location, delta='"UTC"}'),
        event("function_call_arguments.done", **location, name="get_time", arguments=arguments),
        item_done(0, **call, arguments=arguments, status="completed"),
        item_added(1, **result, output="", status="in_progress"),
        item_done(1, **result, output="12:00", status="completed"),
        text_frames(output[7]["item"]["id"], "It is noon.", 2)[0],
    ]


def test_complete_arguments_are_one_delta_and_empty_ones_none() -> None:
    kinds = [one["type"] for one in inner_frames(ToolCall(call_id="c1", name="a", arguments="{}"))]
    bare = [one["type"] for one in inner_frames(ToolCall(call_id="c1", name="a"))]

    assert kinds.count("response.function_call_arguments.delta") == 1
    assert bare == [
        "response.output_item.added",
        "response.function_call_arguments.done",
        "response.output_item.done",
    ]


@pytest.mark.parametrize(
    ("arguments", "status"), [("{}", "completed"), ("", "completed"), ("  ", "completed"), ("{bad", "incomplete")]
)
def test_a_call_whose_arguments_are_not_json_is_incomplete(arguments: str, status: str) -> None:
    last = inner_frames(ToolCall(call_id="c1", name="a", arguments=arguments))[-1]

    assert (last["item"]["arguments"], last["item"]["status"]) == (arguments, status)


@pytest.mark.parametrize(
    ("output", "text"),
    [("12:00", "12:00"), ("", ""), ({"a": [1, "ü"]}, '{"a":[1,"ü"]}'), (None, "null"), (True, "true")],
)
def test_tool_output_is_always_sent_as_text(output: Any, text: str) -> None:
    document = inner_frames(ToolCall(call_id="c1", name="a"), ToolResult(call_id="c1", output=output))

    assert document[-1]["item"]["output"] == text
    assert "palaver:is_error" not in document[-1]["item"]


def test_failed_tool_result_is_marked_as_an_error() -> None:
    output = inner_frames(ToolCall(call_id="c1", name="a"), ToolResult(call_id="c1", output="no", is_error=True))

    assert output[-1]["item"]["palaver:is_error"] is True


def test_refusal_is_refusal_content_and_text_on_invocations() -> None:
    item = f"{MESSAGE}_2"
    location = {"item_id": item, "output_index": 0, "content_index": 0}
    message = {"type": "message", "id": item, "role": "assistant"}
    part = {"type": "refusal", "refusal": "No."}

    assert inner_frames(Refusal(text="No.")) == [
        item_added(0, **message, content=[], status="in_progress"),
        event("content_part.added", **location, part={"type": "refusal", "refusal": ""}),
        event("refusal.delta", **location, delta="No."),
        event("refusal.done", **location, refusal="No."),
        event("content_part.done", **location, part=part),
        item_done(0, **message, content=[part], status="completed"),
    ]
    assert inner_frames(Refusal(text="No."), reading=MLFLOW) == text_frames(item, "No.")


def test_approval_request_item_has_the_id_of_its_call() -> None:
    value = {"id": "c1", "call_id": "c1", "name": "delete", "arguments": {"x": 1}, "message": "Sure?"}
    item = {
        "type": "mcp_approval_request", "id": "c1", "name": "delete", "arguments": '{"x":1}', "server_label": "tutor",
        "status": "completed",
    }  # fmt: skip

    for parsed in (OPENAI, MLFLOW):
        assert inner_frames(Data(name="approval-request", value=value), reading=parsed) == [
            item_added(0, **item),
            item_done(0, **item),
        ]


def test_approval_request_without_details_is_named_interrupt() -> None:
    output = inner_frames(Data(name="approval-request", value="?"))

    assert output[0]["item"] == {
        "type": "mcp_approval_request", "id": f"dat_{TAIL}_2", "name": "interrupt", "arguments": "{}",
        "server_label": "tutor", "status": "completed",
    }  # fmt: skip


FILE_PART = File(media_type="image/png", data="iVBO", filename="p.png")


def test_data_and_files_are_sent_as_palaver_items() -> None:
    data = {"type": "palaver:data", "id": f"dat_{TAIL}_2", "status": "completed", "name": "chart", "value": {"x": [1]}}
    file = {"type": "palaver:file", "id": f"fil_{TAIL}_3", "status": "completed"} | {
        "media_type": "image/png",
        "data": "iVBO",
        "filename": "p.png",
    }

    assert inner_frames(Data(name="chart", value={"x": [1]}), FILE_PART) == [
        item_added(0, **data),
        item_done(0, **data),
        item_added(1, **file),
        item_done(1, **file),
    ]


def test_on_invocations_data_and_files_are_events_and_custom_outputs() -> None:
    output = frames(valid_events(Data(name="chart", value=1), FILE_PART), MLFLOW)
    chart, picture = f"dat_{TAIL}_2", f"fil_{TAIL}_3"
    file = {"media_type": "image/png", "data": "iVBO", "filename": "p.png"}

    assert output[2:4] == [
        {"type": "palaver:data", "sequence_number": 2, "item_id": chart, "name": "chart", "value": 1},
        {"type": "palaver:file", "sequence_number": 3, "item_id": picture, **file},
    ]
    assert output[-2]["response"]["output"] == []
    assert output[-2]["response"]["custom_outputs"] == {
        "data": [{"id": chart, "name": "chart", "value": 1}],
        "files": [{"id": picture, **file}],
    }


def test_transient_data_is_streamed_on_invocations_but_not_in_the_response() -> None:
    status = PartAdded(part=Data(name="status", value="Thinking"), transient=True)

    assert inner_frames(status) == []
    output = frames(valid_events(status), MLFLOW)
    assert output[2]["transient"] is True
    assert "custom_outputs" not in output[-2]["response"]


@pytest.mark.parametrize("part", [Refusal(text="No."), FILE_PART])
def test_transient_refusals_and_files_are_not_in_the_response(part: Refusal | File) -> None:
    rendered = PartAdded(part=part, transient=True)

    assert inner_frames(rendered) == []
    output = frames(valid_events(rendered), MLFLOW)
    assert [one.get("transient") for one in output[2:-3]] == ([True] if isinstance(part, File) else [])
    assert "custom_outputs" not in output[-2]["response"]


def test_data_sent_during_a_text_follows_the_message() -> None:
    output = frames(valid_events("a", Data(name="d", value=1), "b"))

    assert [item["type"] for item in final_response(output)["output"]] == ["message", "palaver:data"]


def test_text_before_and_after_a_call_never_share_an_id() -> None:
    call = ToolCall(call_id="c1", name="now")
    output = frames(
        valid_events(
            TextStarted(item="t", message="m"),
            TextDelta(item="t", delta="one"),
            call,
            TextDelta(item="t", delta="two"),
            TextEnded(item="t"),
        )
    )

    assert [item["id"] for item in final_response(output)["output"]] == ["t", f"fc_{TAIL}_c1", "t.2"]


@pytest.mark.parametrize(
    ("end", "kind", "status", "reason"),
    [
        (RunFinished(), "completed", "completed", None),
        (RunFinished(finish="tool-calls"), "completed", "completed", None),
        (RunFinished(finish="length"), "incomplete", "incomplete", "max_output_tokens"),
        (RunFinished(finish="content-filter"), "incomplete", "incomplete", "content_filter"),
        (RunFinished(finish="interrupted"), "incomplete", "incomplete", "interrupted"),
        (RunCancelled(), "incomplete", "cancelled", "cancelled"),
    ],
)
def test_terminal_frame_has_the_status_and_reason_of_the_end(
    end: Any, kind: str, status: str, reason: str | None
) -> None:
    last = frames(valid_events("Hi", end=end))[-2]

    assert last["type"] == f"response.{kind}"
    assert last["response"]["status"] == status
    assert last["response"]["incomplete_details"] == ({"reason": reason} if reason else None)
    assert [item["id"] for item in last["response"]["output"]] == [ITEM]


def test_failed_run_ends_with_an_error_frame_and_response_failed() -> None:
    output = frames(valid_events("Hi", end=RunFailed(code="model_down", message="The model is down.")))
    error = {"message": "The model is down.", "type": "model_error", "code": "model_down", "param": None}

    assert {**output[-3], "sequence_number": 0} == {
        "type": "error", "sequence_number": 0, "code": "model_down", "message": "The model is down.", "param": None,
        "error": error,
    }  # fmt: skip
    assert output[-2]["type"] == "response.failed"
    assert output[-2]["response"]["status"] == "failed"
    assert output[-2]["response"]["error"] == {"code": "model_down", "message": "The model is down."}
    assert [item["id"] for item in output[-2]["response"]["output"]] == [ITEM]


def test_invocations_sends_the_summary_between_error_and_response_failed() -> None:
    output = frames(valid_events(end=RunFailed(code="x", message="y")), MLFLOW)

    assert [one["type"] for one in output[2:-1]] == ["error", "responses.completed", "response.failed"]
    assert output[3]["response"]["incomplete_details"] == {"reason": "failed"}


def test_trace_id_is_sent_on_request() -> None:
    output = frames(valid_events("Hi"), replace(OPENAI, trace=True, metadata={"a": "b"}))

    assert output[-3]["response"]["metadata"] == {"a": "b", "trace_id": f"tr-{TRACE}"}
    assert output[-2:] == [{"trace_id": f"tr-{TRACE}"}, "[DONE]"]
    assert output[0]["response"]["metadata"] == {"a": "b"}


FORM = replace(OPENAI, is_chat=False)


@pytest.mark.parametrize(
    ("value", "text"), [("Hi", "Hi"), ({"a": 1}, '{"a":1}'), (None, "null"), ([1, "ü"], '[1,"ü"]')]
)
def test_value_of_a_workflow_is_sent_as_a_message(value: Any, text: str) -> None:
    document = final_response(frames(valid_events(end=RunFinished(value=value)), FORM))["output"]
    message, *data = document

    assert message["content"][0]["text"] == text
    assert message["id"] == f"{MESSAGE}_0"
    output = {"type": "palaver:data", "id": f"dat_{TAIL}_0", "status": "completed", "name": "output", "value": value}
    assert data == ([] if isinstance(value, str) else [output])


def test_empty_value_adds_no_message() -> None:
    assert final_response(frames(valid_events(end=RunFinished(value="")), FORM))["output"] == []


def test_streamed_value_is_not_repeated() -> None:
    text = final_response(frames(valid_events("Hi", end=RunFinished(value="Hi")), FORM))["output"]
    data = final_response(frames(valid_events(Data(name="output", value=1), end=RunFinished(value=1)), FORM))["output"]

    assert [item["type"] for item in text] == ["message"]
    assert [item["type"] for item in data] == ["palaver:data", "message"]


def test_chat_without_output_has_no_items() -> None:
    assert final_response(frames(valid_events()))["output"] == []


@given(sloppy | hostile)
def test_encoding_is_deterministic_and_the_json_equals_the_last_snapshot(values: list[object]) -> None:
    events = stream_of(values)
    for parsed in (OPENAI, MLFLOW, replace(FORM, encrypted=True)):
        output = frames(events, parsed)
        assert output == frames(events, parsed)
        if not isinstance(events[-1], RunFailed):
            answer = responses.encode_response(events, parsed, status=200)
            assert msgspec.json.decode(answer.body) == final_response(output)
