"""Expected UI parts, and the parts that events are encoded to."""

from collections.abc import Sequence
from typing import Any

from palaver.core.events import Event, PartAdded
from palaver.core.messages import ToolCall, ToolResult
from palaver.protocols.ui_stream.adapter import UIPart, UIStreamEncoder
from palaver.protocols.ui_stream.request import UIRequest
from tests.protocols.fixed_run import MESSAGE, RUN, TRACE, valid_events

START = {
    "type": "start",
    "messageId": MESSAGE,
    "messageMetadata": {"runId": RUN, "traceId": TRACE, "chatId": "s-1"},
}
STEP, STEP_END, STOP = {"type": "start-step"}, {"type": "finish-step"}, {"type": "finish", "finishReason": "stop"}
SERVER_TOOL = {"dynamic": True, "providerExecuted": True}
CALL, RESULT = ToolCall(call_id="c1", name="get_time", arguments='{"tz":"UTC"}'), ToolResult(call_id="c1", output="12")
APPROVAL = {"id": "a1", "call_id": "c1", "name": "get_time", "arguments": "{}"}
HISTORY_CALL = ToolCall(call_id="h1", name="delete", arguments='{"x":1}')


def parts_of(*events: Event, client: UIRequest | None = None) -> list[UIPart]:
    encoder = UIStreamEncoder(client or UIRequest())
    return [part for event in events for part in encoder.parts(event)]


def run_parts(*values: Any, client: UIRequest | None = None) -> list[UIPart]:
    """Return the parts of a run that yields these values, without the first two and the last two."""
    parts = parts_of(*valid_events(*values), client=client)
    assert parts[:2] == [START, STEP]
    assert [part["type"] for part in parts[-2:]] == ["finish-step", "finish"]
    return parts[2:-2]


def complete_part(part: Any, *, transient: bool = False, client: UIRequest | None = None) -> list[UIPart]:
    """Return the UI parts of one complete part."""
    return run_parts(PartAdded(item="i1", part=part, transient=transient), client=client)


def text(item: str, *deltas: str) -> list[UIPart]:
    delta_parts = [{"type": "text-delta", "id": item, "delta": delta} for delta in deltas]
    return [{"type": "text-start", "id": item}, *delta_parts, {"type": "text-end", "id": item}]


def call(call_id: str = "c1", runner: Any = SERVER_TOOL) -> list[UIPart]:
    tool_fields = {"toolCallId": call_id, "toolName": "get_time"}
    return [
        {"type": "tool-input-start", **tool_fields, **runner},
        {"type": "tool-input-delta", "toolCallId": call_id, "inputTextDelta": '{"tz":"UTC"}'},
        {"type": "tool-input-available", **tool_fields, "input": {"tz": "UTC"}, **runner},
    ]


def result(call_id: str = "c1") -> UIPart:
    return {"type": "tool-output-available", "toolCallId": call_id, "output": "12", **SERVER_TOOL}


def kinds(parts: Sequence[UIPart]) -> list[str]:
    """The types of the parts, those of calls and results with their ids."""
    return [f"{part['type']} {part['toolCallId']}" if "toolCallId" in part else part["type"] for part in parts]


def frames_of(encoder: UIStreamEncoder, events: Sequence[Event]) -> list[bytes]:
    return [frame for event in events for frame in encoder.encode(event).split(b"\n\n") if frame]
