"""Valid example streams of every protocol pass every rule in strict mode."""

from typing import Any

import msgspec
import pytest

from palaver.conform import Protocol, grade
from palaver.conform.frames import DONE
from tests.conform import streams
from tests.conform.streams import Frame, sse

VALID_STREAMS: dict[str, tuple[Protocol, list[Frame]]] = {
    "a tool round": ("responses", streams.TOOL_ROUND),
    "every kind of item": ("responses", streams.EVERYTHING),
    "no item at all": ("responses", streams.run()),
    "a failed run": ("responses", streams.FAILED),
    "a cancelled run": ("responses", streams.CANCELLED),
    "every kind of item that MLflow knows": ("invocations", streams.ON_INVOCATIONS),
    "chat with calls": ("chat-completions", streams.CHAT),
    "chat with usage": ("chat-completions", streams.CHAT_WITH_USAGE),
    "chat that fails": ("chat-completions", streams.CHAT_FAILED),
    "the UI stream of the contract": ("ui-stream", streams.UI),
    "every kind of UI part": ("ui-stream", streams.UI_EVERYTHING),
    "a UI stream that fails": ("ui-stream", streams.UI_FAILED),
    "a UI stream that is cancelled": ("ui-stream", streams.UI_CANCELLED),
}


@pytest.mark.parametrize(("protocol", "frames"), VALID_STREAMS.values(), ids=VALID_STREAMS.keys())
def test_valid_example_streams_pass_every_rule(protocol: Protocol, frames: list[Frame]) -> None:
    report = grade(sse(frames, protocol), protocol)

    assert (report.violations, report.frames) == ((), len(frames) + 1)
    assert (report.ok, report.first) == (True, None)
    assert str(report) == f"{protocol}, {len(frames) + 1} frames: no violations"


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_any_line_ending_a_byte_order_mark_and_comments_are_allowed(line_end: bytes) -> None:
    stream = b"\xef\xbb\xbf: hello\n\n" + sse(streams.TOOL_ROUND).replace(b"\n\n", b"\n\n: keep-alive\n\n")

    assert grade(stream.replace(b"\n", line_end), "responses").violations == ()


def test_palaver_items_may_occur_inside_an_open_item() -> None:
    text_item = streams.text("msg_1", "It ", "is")
    frames = streams.run(text_item, streams.single(streams.DATA))
    data, frames = frames[9:11], [*frames[:9], *frames[11:]]

    assert grade(sse(streams.renumber([*frames[:5], *data, *frames[5:]])), "responses").violations == ()


def test_palaver_events_and_a_final_trace_frame_are_allowed_on_invocations() -> None:
    frames = list(streams.ON_INVOCATIONS)
    frames.insert(5, {"type": "palaver:data", "item_id": "dat_1", "name": "chart", "value": 1})
    traced = [*streams.renumber(frames), {"trace_id": "tr-" + "0" * 32}]

    assert grade(sse(traced, "invocations"), "invocations").violations == ()


def test_results_of_calls_in_the_history_are_allowed() -> None:
    ui: list[Frame] = [*UI_START, streams.part("tool-output-available", toolCallId="c0", output=1), *UI_END]

    assert grade(sse(streams.run(streams.result("c0", "x"))), "responses", history=["c0"]).violations == ()
    assert grade(sse(ui, "ui-stream"), "ui-stream", history=["c0"]).violations == ()


UI_START, UI_END = streams.UI[:2], streams.UI[-2:]


def test_a_ui_step_may_stay_open_while_a_call_is_pending() -> None:
    pending_call = streams.part("tool-input-available", toolCallId="c2", toolName="look", input={})
    tool_output = streams.part("tool-output-available", toolCallId="c2", output=None)
    frames = [*streams.UI[:5], pending_call, streams.UI[5], *streams.UI[8:11], tool_output, *UI_END]

    assert grade(sse(frames, "ui-stream"), "ui-stream", ui_version=5).violations == ()


def test_a_response_body_that_matches_its_stream_passes() -> None:
    response_body: Any = streams.TOOL_ROUND[-1]["response"]
    failure = {"error": streams.ERROR, "detail": streams.ERROR["message"], "response_id": "resp_1"}

    assert grade(sse(streams.TOOL_ROUND), "responses", body=response_body).violations == ()
    assert grade(sse(streams.TOOL_ROUND), "responses", body=msgspec.json.encode(response_body)).violations == ()
    assert grade(sse(streams.FAILED), "responses", body=failure).violations == ()
    assert grade(sse(streams.CHAT, "chat-completions"), "chat-completions", body=streams.CHAT_WHOLE).violations == ()
    failed = sse(streams.CHAT_FAILED, "chat-completions")
    assert grade(failed, "chat-completions", body={"error": streams.ERROR}).violations == ()


def test_an_mlflow_agent_stream_breaks_no_must_rule() -> None:
    frames: list[Frame] = [
        {"type": "response.output_text.delta", "item_id": "m1", "delta": "Let me "},
        {"type": "response.output_text.delta", "item_id": "m1", "delta": "check."},
        {"type": "response.output_item.done", "item": streams.text("m1", "Let me check.")[-1]["item"]},
        {"type": "response.output_item.done", "item": streams.call("c1", "{}")[-1]["item"]},
        {
            "type": "response.output_item.done",
            "item": {"type": "function_call_output", "call_id": "c1", "output": "12:00"},
        },
    ]
    report = grade(sse(frames, "invocations"), "invocations", strict=False)

    assert report.faults == ()
    assert {one.rule for one in report.violations} == {"I1", "I3", "I4", "I5", "I7b", "I10"}


def test_an_openai_stream_without_done_and_with_two_parts_breaks_no_must_rule() -> None:
    frames = msgspec.json.decode(msgspec.json.encode(streams.run(streams.text("msg_1", "One."))))
    second = [frame | {"content_index": 1} for frame in frames[3:7]]
    frames[7:7] = second
    content = frames[-2]["item"]["content"] * 2
    frames[-2]["item"]["content"] = frames[-1]["response"]["output"][0]["content"] = content
    stream = sse(streams.renumber(frames), end=b"")

    report = grade(stream, "responses", strict=False)

    assert report.faults == ()
    assert [one.rule for one in report.violations] == ["I10"] * 4 + ["I15b", "I3b"]
    assert DONE not in stream
