"""Valid streams, written by hand and independent of the encoders, and their bytes."""

from collections.abc import Sequence
from typing import Any

import msgspec

from palaver.conform import Protocol, Report

Frame = dict[str, Any]
DONE = b"data: [DONE]\n\n"


def sse(frames: Sequence[Frame], protocol: Protocol = "responses", *, end: bytes | None = None) -> bytes:
    """Return the frames as server-sent events."""
    if end is None:
        end = b"" if protocol == "services" else DONE

    def encode_frame(frame: Frame) -> bytes:
        if protocol == "services":
            return b"event: %b\ndata: %b\n\n" % (str(frame["event"]).encode(), msgspec.json.encode(frame["data"]))
        event_line = f"event: {frame['type']}\n" if protocol == "responses" and "type" in frame else ""
        return event_line.encode() + b"data: " + msgspec.json.encode(frame) + b"\n\n"

    return b"".join(map(encode_frame, frames)) + end


def rule_violations(report: Report) -> list[tuple[str, int | None]]:
    """Return the rule and the frame of each violation."""
    return [(violation.rule, violation.frame_index) for violation in report.violations]


def renumber(frames: Sequence[Frame]) -> list[Frame]:
    """Return the frames with new sequence numbers."""
    return [frame | {"sequence_number": number} for number, frame in enumerate(frames)]


# Responses

USAGE = {
    "input_tokens": 3,
    "output_tokens": 4,
    "total_tokens": 7,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}


def response(protocol: Protocol = "responses", **fields: Any) -> Frame:
    """Return a complete response object."""
    body: Frame = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1763190000,
        "completed_at": None,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {},
        "model": "tutor",
        "output": [],
        "parallel_tool_calls": True,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "previous_response_id": None,
        "conversation": None,
        "prompt_cache_key": None,
        "reasoning": None,
        "safety_identifier": None,
        "service_tier": "default",
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
        **fields,
    }
    return body if protocol == "responses" else {key: value for key, value in body.items() if value is not None}


def text(item_id: str, *pieces: str, annotations: Sequence[Frame] = ()) -> list[Frame]:
    joined = "".join(pieces)
    part = {"type": "output_text", "text": joined, "annotations": list(annotations), "logprobs": []}
    empty = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    item = {"type": "message", "id": item_id, "status": "completed", "role": "assistant", "content": [part]}
    item_fields = {"item_id": item_id, "content_index": 0}
    return [
        {"type": "response.output_item.added", "item": item | {"status": "in_progress", "content": []}},
        {"type": "response.content_part.added", **item_fields, "part": empty},
        *({"type": "response.output_text.delta", **item_fields, "delta": piece, "logprobs": []} for piece in pieces),
        *(
            {
                "type": "response.output_text.annotation.added",
                **item_fields,
                "annotation_index": index,
                "annotation": annotation,
            }
            for index, annotation in enumerate(annotations)
        ),
        {"type": "response.output_text.done", **item_fields, "text": joined, "logprobs": []},
        {"type": "response.content_part.done", **item_fields, "part": part},
        {"type": "response.output_item.done", "item": item},
    ]


def refusal(item_id: str, joined: str) -> list[Frame]:
    part = {"type": "refusal", "refusal": joined}
    item = {"type": "message", "id": item_id, "status": "completed", "role": "assistant", "content": [part]}
    item_fields = {"item_id": item_id, "content_index": 0}
    return [
        {"type": "response.output_item.added", "item": item | {"status": "in_progress", "content": []}},
        {"type": "response.content_part.added", **item_fields, "part": part | {"refusal": ""}},
        {"type": "response.refusal.delta", **item_fields, "delta": joined},
        {"type": "response.refusal.done", **item_fields, "refusal": joined},
        {"type": "response.content_part.done", **item_fields, "part": part},
        {"type": "response.output_item.done", "item": item},
    ]


def reasoning(item_id: str, *pieces: str) -> list[Frame]:
    joined = "".join(pieces)
    part = {"type": "summary_text", "text": joined}
    item = {"type": "reasoning", "id": item_id, "status": "completed", "summary": [part]}
    item_fields = {"item_id": item_id, "summary_index": 0}
    return [
        {"type": "response.output_item.added", "item": item | {"status": "in_progress", "summary": []}},
        {"type": "response.reasoning_summary_part.added", **item_fields, "part": part | {"text": ""}},
        *({"type": "response.reasoning_summary_text.delta", **item_fields, "delta": piece} for piece in pieces),
        {"type": "response.reasoning_summary_text.done", **item_fields, "text": joined},
        {"type": "response.reasoning_summary_part.done", **item_fields, "part": part},
        {"type": "response.output_item.done", "item": item},
    ]


def call(call_id: str, *pieces: str, name: str = "get_time") -> list[Frame]:
    joined = "".join(pieces)
    item = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name, "arguments": joined}
    item["status"] = "completed"
    item_fields = {"item_id": f"fc_{call_id}"}
    return [
        {"type": "response.output_item.added", "item": item | {"status": "in_progress", "arguments": ""}},
        *({"type": "response.function_call_arguments.delta", **item_fields, "delta": piece} for piece in pieces),
        {"type": "response.function_call_arguments.done", **item_fields, "name": name, "arguments": joined},
        {"type": "response.output_item.done", "item": item},
    ]


def single(item: Frame, **empty: Any) -> list[Frame]:
    """Return the frames of an item without deltas."""
    return [
        {"type": "response.output_item.added", "item": item | {"status": "in_progress"} | empty},
        {"type": "response.output_item.done", "item": item | {"status": "completed"}},
    ]


def result(call_id: str, output: str) -> list[Frame]:
    item = {"type": "function_call_output", "id": f"fco_{call_id}", "call_id": call_id, "output": output}
    return single(item, output="")


DATA = {"type": "palaver:data", "id": "dat_1", "name": "chart", "value": {"x": [1, 2]}}
ERROR: Frame = {"type": "model_error", "code": "model_down", "message": "The model is down.", "param": None}


def run(
    *items: Sequence[Frame], protocol: Protocol = "responses", status: str = "completed", **fields: Any
) -> list[Frame]:
    """Return the frames of a run with these items: numbered, indexed, with its lifecycle."""
    inner: list[Frame] = []
    output: list[Frame] = []
    for index, item in enumerate(items):
        inner += [frame | {"output_index": index} for frame in item]
        output.append(item[-1]["item"])
    start_response = response(protocol)
    end_response = response(protocol, status=status, output=output, usage=USAGE, **fields)
    frames: list[Frame] = [
        {"type": "response.created", "response": start_response},
        {"type": "response.in_progress", "response": start_response},
        *inner,
    ]
    if status == "failed":
        frames.append(
            {"type": "error", "code": ERROR["code"], "message": ERROR["message"], "param": None, "error": ERROR}
        )
    if protocol == "invocations":
        mlflow_response = {"id": "resp_1", "status": status, "incomplete_details": None, "usage": USAGE}
        frames.append({"type": "responses.completed", "response": mlflow_response})
    frames.append({"type": f"response.{'incomplete' if status == 'cancelled' else status}", "response": end_response})
    return renumber(frames)


CITATION = {"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 0, "end_index": 2}
TOOL_ROUND = run(call("c1", '{"tz":', '"UTC"}'), result("c1", "12:00"), text("msg_1", "It is noon."))
EVERYTHING = run(
    reasoning("rs_1", "Hm", "m."),
    text("msg_1", "It ", "is", annotations=[CITATION, CITATION]),
    single(DATA),
    call("c1", '{"tz":', '"UTC"}'),
    call("c2"),
    result("c2", ""),
    result("c1", "12:00"),
    refusal("msg_2", "No."),
)
ON_INVOCATIONS = run(
    reasoning("rs_1", "Hm", "m."),
    text("msg_1", "It ", "is", annotations=[CITATION]),
    call("c1", '{"tz":', '"UTC"}'),
    result("c1", "12:00"),
    text("msg_2", "noon."),
    protocol="invocations",
)
FAILED = run(text("msg_1", "Hel"), status="failed", error={"code": "model_down", "message": "The model is down."})
CANCELLED = run(text("msg_1", "Hel"), status="cancelled", incomplete_details={"reason": "cancelled"})

# Chat Completions


def chunk(delta: Frame | None = None, finish: str | None = None, **fields: Any) -> Frame:
    chunk_fields = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1763190000, "model": "tutor"}
    choice = {"index": 0, "delta": delta or {}, "logprobs": None, "finish_reason": finish}
    return {**chunk_fields, "choices": [choice], **fields}


def piece(index: int, arguments: str, **first: Any) -> Frame:
    """Return a delta of a tool call; the first one has `id` and `name`."""
    function = {"name": first.pop("name"), "arguments": arguments} if "name" in first else {"arguments": arguments}
    return {"tool_calls": [{"index": index, **first, "function": function}]}


CHAT_USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
CHAT = [
    chunk({"role": "assistant", "content": ""}),
    chunk({"reasoning_content": "Hmm."}),
    chunk({"content": "Let me "}),
    chunk({"content": "check."}),
    chunk(piece(0, "", id="c1", type="function", name="get_time")),
    chunk(piece(0, '{"tz":')),
    chunk(piece(0, '"UTC"}')),
    chunk(piece(1, "{}", id="c2", type="function", name="get_date")),
    chunk(finish="tool_calls"),
]
CHAT_WITH_USAGE = [frame | {"usage": None} for frame in CHAT] + [chunk(choices=[], usage=CHAT_USAGE)]
CHAT_FAILED = [*CHAT[:4], {"error": ERROR}]
CHAT_WHOLE: Frame = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1763190000,
    "model": "tutor",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Let me check.",
                "reasoning_content": "Hmm.",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "get_time", "arguments": '{"tz":"UTC"}'}},
                    {"id": "c2", "type": "function", "function": {"name": "get_date", "arguments": "{}"}},
                ],
            },
            "logprobs": None,
            "finish_reason": "tool_calls",
        }
    ],
}

# The UI message stream


def part(kind: str, **fields: Any) -> Frame:
    return {"type": kind, **fields}


_SERVER_TOOL = {"dynamic": True, "providerExecuted": True}
UI = [
    part("start", messageId="m1", messageMetadata={"runId": "r1", "chatId": "chat-1"}),
    part("start-step"),
    part("tool-input-start", toolCallId="c1", toolName="get_time", **_SERVER_TOOL),
    part("tool-input-delta", toolCallId="c1", inputTextDelta='{"tz":"UTC"}'),
    part("tool-input-available", toolCallId="c1", toolName="get_time", input={"tz": "UTC"}, **_SERVER_TOOL),
    part("tool-output-available", toolCallId="c1", output="12:00", **_SERVER_TOOL),
    part("finish-step"),
    part("start-step"),
    part("text-start", id="msg_1"),
    part("text-delta", id="msg_1", delta="It is noon."),
    part("text-end", id="msg_1"),
    part("finish-step"),
    part("finish", finishReason="stop", messageMetadata={"usage": {"inputTokens": 3, "outputTokens": 4}}),
]
UI_EVERYTHING = [
    *UI[:6],
    part("data-chart", id="dat_1", data={"x": 1}),
    part("finish-step"),
    part("start-step"),
    part("reasoning-start", id="rs_1"),
    part("text-start", id="msg_1"),
    part("reasoning-delta", id="rs_1", delta="Hm"),
    part("text-delta", id="msg_1", delta="It is noon."),
    part("reasoning-end", id="rs_1"),
    part("text-end", id="msg_1"),
    part("source-url", sourceId="msg_1.s1", url="https://a.example", title="A"),
    part("file", url="data:image/png;base64,iVBO", mediaType="image/png"),
    part("tool-input-available", toolCallId="c2", toolName="delete", input={}),
    part("tool-approval-request", approvalId="c2", toolCallId="c2"),
    part("tool-input-start", toolCallId="c3", toolName="odd"),
    part("tool-input-delta", toolCallId="c3", inputTextDelta="{bad"),
    part(
        "tool-input-error", toolCallId="c3", toolName="odd", input="{bad", errorText="The arguments are not valid JSON."
    ),
    part("finish-step"),
    part("message-metadata", messageMetadata={"x": 1}),
    part("finish", finishReason="tool-calls"),
]
UI_FAILED = [
    *UI[:11],
    part("error", errorText="The model is down."),
    part("finish-step"),
    part("finish", finishReason="error"),
]
UI_CANCELLED = [*UI[:11], part("abort", reason="cancelled")]


# Services: a frame has its event's name and its data.


def event(name: str, data: Any = None, **fields: Any) -> Frame:
    """Return an event with this data, or with the fields and the name as its type."""
    return {"event": name, "data": {"type": name, **fields} if data is None else data}


def block(index: int, kind: str, *pieces: str) -> list[Frame]:
    """Return the events of a content block."""
    delta, name = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}.get(
        kind, ("input_json_delta", "partial_json")
    )
    deltas = [event("content_block_delta", index=index, delta={"type": delta, name: piece}) for piece in pieces]
    return [
        event("content_block_start", index=index, content_block={"type": kind, name: ""}),
        *deltas,
        event("content_block_stop", index=index),
    ]


SERVICE_DOCUMENT: Frame = {
    "response": "It is\n\nnoon.",
    "history": [{"role": "user", "content": "When?"}, {"role": "assistant", "content": "It is\n\nnoon."}],
    "usage": dict.fromkeys(
        ["input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"], 0
    ),
    "meta": {},
    "suggested_code": None,
}
SERVICE_ERROR: Frame = {"code": 503, "type": "OVERLOADED", "message": "Later.", "details": {"retry_after": 10}}
SERVICE = [  # 0 start, 1 log, 2-4 thinking, 5-8 text, 9-11 call, 12 result, 13-15 text, 16, 17, 18-19 stop, 20 complete
    event("message_start", message={"id": "run_1", "type": "message", "role": "assistant"}),
    event("log", "Searching"),
    *block(0, "thinking", "Searching"),
    *block(1, "text", "It ", "is"),
    *block(2, "tool_use", "{}"),
    event("tool_result", call_id="c1", output=[3], is_error=False),
    *block(3, "text", "noon."),
    event("changes", {"code": "fn();"}),
    event("data", {"name": "chart", "value": None}),
    event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 5}),
    event("message_stop"),
    event("complete", SERVICE_DOCUMENT),
]
SERVICE_FAILED = [*SERVICE[:9], event("error", SERVICE_ERROR)]
SERVICE_SPARSE = [event("log", "Busy"), event("data", {"name": "chart", "value": 1}), event("complete", [1])]
