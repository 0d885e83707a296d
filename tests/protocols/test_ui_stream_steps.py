"""Steps, order and frames of a UI message stream."""

from typing import Any

import msgspec
import pytest

from palaver.core.events import (
    Event,
    PartAdded,
    ReasoningDelta,
    ReasoningStarted,
    RunFinished,
    RunStarted,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolDelta,
    ToolEnded,
    ToolReturned,
    ToolStarted,
)
from palaver.core.messages import Annotation, Data, File, Reasoning, Refusal, Text, ToolCall, ToolResult, Usage
from palaver.protocols.ui_stream.adapter import UIStreamEncoder
from palaver.protocols.ui_stream.request import UIRequest
from tests.protocols.fixed_run import MESSAGE, valid_events
from tests.protocols.ui_parts import (
    CALL,
    RESULT,
    STEP,
    STEP_END,
    call,
    frames_of,
    kinds,
    parts_of,
    result,
    run_parts,
    text,
)

# Steps


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(Text(text="Noon."), id="text"),
        pytest.param(Reasoning(text="Hm."), id="reasoning"),
        pytest.param(ToolCall(call_id="c2", name="now"), id="a call"),
        pytest.param(Refusal(text="No."), id="a refusal"),
        pytest.param(File(media_type="image/png", data="iVBO"), id="a file"),
        pytest.param(Data(name="chart"), id="data"),
    ],
)
def test_any_new_part_after_a_tool_result_starts_a_step(item: Any) -> None:
    assert run_parts(CALL, RESULT, item)[4:6] == [STEP_END, STEP]


def test_transient_data_starts_no_step() -> None:
    parts = run_parts(CALL, RESULT, PartAdded(part=Data(name="status", value="…"), transient=True))

    assert kinds(parts)[-2:] == ["tool-output-available c1", "data-status"]


def test_results_of_parallel_calls_stay_in_the_step_of_their_calls() -> None:
    second = ToolCall(call_id="c2", name="get_time", arguments='{"tz":"UTC"}')

    parts = run_parts(CALL, second, RESULT, Text(text="One."), ToolResult(call_id="c2", output="12"), Text(text="Two."))

    assert parts == [
        *call(),
        *call("c2"),
        result(),
        *text(f"{MESSAGE}_3", "One."),
        result("c2"),
        STEP_END,
        STEP,
        *text(f"{MESSAGE}_5", "Two."),
    ]


def test_client_tool_call_stays_in_the_last_step() -> None:
    client_call = ToolCall(call_id="c0", name="ask_user")

    parts = run_parts(
        client_call, CALL, RESULT, Text(text="Over to you."), client=UIRequest(tools=frozenset({"ask_user"}))
    )

    assert "start-step" not in kinds(parts)


def test_text_interrupted_by_a_step_continues_under_a_new_id() -> None:
    events = valid_events(
        TextStarted(item="A", message="m"),
        TextDelta(item="A", delta="one "),
        ReasoningStarted(item="R", message="m"),
        ReasoningDelta(item="R", delta="hm "),
        ToolCall(call_id="c1", name="get_time"),
        RESULT,
        TextStarted(item="A.2", message="n"),
        TextDelta(item="A.2", delta="between"),
        TextDelta(item="A", delta="two "),
        ReasoningDelta(item="R", delta="mm"),
        TextEnded(item="A", annotations=(Annotation(kind="url", url="https://e.org"),)),
    )
    writer = UIStreamEncoder(UIRequest())
    streamed = [msgspec.json.decode(frame[6:]) for frame in frames_of(writer, events)[:-1]]

    assert streamed == parts_of(*events)
    assert [(part["type"], part.get("id")) for part in streamed[2:-2] if "toolCallId" not in part] == [
        ("text-start", "A"),
        ("text-delta", "A"),
        ("reasoning-start", "R"),
        ("reasoning-delta", "R"),
        ("text-end", "A"),
        ("reasoning-end", "R"),
        ("finish-step", None),
        ("start-step", None),
        ("text-start", "A.2"),
        ("text-delta", "A.2"),
        ("text-start", "A.3"),
        ("text-delta", "A.3"),
        ("reasoning-start", "R.2"),
        ("reasoning-delta", "R.2"),
        ("text-end", "A.3"),
        ("source-url", None),
        ("reasoning-end", "R.2"),
        ("text-end", "A.2"),
    ]


def test_text_ended_by_a_step_is_not_ended_twice() -> None:
    events = valid_events(
        TextStarted(item="A", message="m"),
        TextDelta(item="A", delta="one"),
        CALL,
        RESULT,
        TextStarted(item="B", message="n"),
        TextDelta(item="B", delta="two"),
        TextEnded(item="A", annotations=(Annotation(kind="url", url="https://e.org"),)),
    )

    texts = [part for part in parts_of(*events)[2:-2] if part["type"].startswith(("text", "source"))]
    assert texts == [
        *text("A", "one"),
        *text("B", "two")[:2],
        {"type": "source-url", "sourceId": "A.s1", "url": "https://e.org"},
        {"type": "text-end", "id": "B"},
    ]


# Frames


def test_documented_example_is_encoded_byte_for_byte() -> None:
    events: list[Event] = [
        RunStarted(run_id="r1", session="chat-1"),
        ToolStarted(item="fc_c1", message="msg_0", call_id="c1", name="get_time"),
        ToolDelta(item="fc_c1", delta='{"tz":"UTC"}'),
        ToolEnded(item="fc_c1", arguments='{"tz":"UTC"}'),
        ToolReturned(item="fco_c1", message="msg_t", call_id="c1", output="12:00"),
        TextStarted(item="msg_1", message="msg_1"),
        TextDelta(item="msg_1", delta="It is noon."),
        TextEnded(item="msg_1", text="It is noon."),
        RunFinished(usage=Usage(input_tokens=3, output_tokens=4)),
    ]

    assert b"".join(map(UIStreamEncoder(UIRequest(message="m1")).encode, events)).decode() == "".join(
        f"data: {line}\n\n"
        for line in r"""
{"type":"start","messageId":"m1","messageMetadata":{"runId":"r1","chatId":"chat-1"}}
{"type":"start-step"}
{"type":"tool-input-start","toolCallId":"c1","toolName":"get_time","dynamic":true,"providerExecuted":true}
{"type":"tool-input-delta","toolCallId":"c1","inputTextDelta":"{\"tz\":\"UTC\"}"}
{"type":"tool-input-available","toolCallId":"c1","toolName":"get_time","input":{"tz":"UTC"},"dynamic":true,"providerExecuted":true}
{"type":"tool-output-available","toolCallId":"c1","output":"12:00","dynamic":true,"providerExecuted":true}
{"type":"finish-step"}
{"type":"start-step"}
{"type":"text-start","id":"msg_1"}
{"type":"text-delta","id":"msg_1","delta":"It is noon."}
{"type":"text-end","id":"msg_1"}
{"type":"finish-step"}
{"type":"finish","finishReason":"stop","messageMetadata":{"usage":{"inputTokens":3,"outputTokens":4,"totalTokens":7}}}
[DONE]""".strip().splitlines()
    )


def test_special_characters_in_text_cannot_break_a_frame() -> None:
    events = valid_events(TextDelta(item='"}\n\ndata: x', delta='\n\ndata: "\u2028🌍\x00'))

    frames = [msgspec.json.decode(frame[6:]) for frame in frames_of(UIStreamEncoder(UIRequest()), events)[:-1]]

    assert frames == parts_of(*events)


def test_start_part_can_be_delayed_until_the_first_output() -> None:
    events = valid_events(Usage(input_tokens=1, output_tokens=1), "Hi")
    late, at_once = UIStreamEncoder(UIRequest(), start_at_once=False), UIStreamEncoder(UIRequest())

    frames = [late.encode(event) for event in events]

    assert frames[:2] == [b"", b""]
    assert b"".join(frames) == b"".join(map(at_once.encode, events))
