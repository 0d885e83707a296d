"""Valid streams, written by hand from the contracts, and their bytes."""

from collections.abc import Sequence
from typing import Any

import msgspec

from palaver.conform import Protocol, Report

Frame = dict[str, Any]
DONE = b"data: [DONE]\n\n"


def sse(frames: Sequence[Frame], protocol: Protocol = "responses", *, end: bytes | None = None) -> bytes:
    """The frames as they stand on the wire."""
    if end is None:
        end = b"" if protocol == "services" else DONE

    def one(frame: Frame) -> bytes:
        if protocol == "services":
            return b"event: %b\ndata: %b\n\n" % (str(frame["event"]).encode(), msgspec.json.encode(frame["data"]))
        named = f"event: {frame['type']}\n" if protocol == "responses" and "type" in frame else ""
        return named.encode() + b"data: " + msgspec.json.encode(frame) + b"\n\n"

    return b"".join(map(one, frames)) + end


def broken(report: Report) -> list[tuple[str, int | None]]:
    """What a report says, in short."""
    return [(one.rule, one.frame_index) for one in report.violations]


def numbered(frames: Sequence[Frame]) -> list[Frame]:
    """The same frames, with fresh sequence numbers."""
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
    """A complete response object."""
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


def text(identity: str, *pieces: str, annotations: Sequence[Frame] = ()) -> list[Frame]:
    said = "".join(pieces)
    part = {"type": "output_text", "text": said, "annotations": list(annotations), "logprobs": []}
    empty = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    item = {"type": "message", "id": identity, "status": "completed", "role": "assistant", "content": [part]}
    at = {"item_id": identity, "content_index": 0}
    return [
        {"type": "response.output_item.added", "item": item | {"status": "in_progress", "content": []}},
        {"type": "response.content_part.added", **at, "part": empty},
        *({"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []} for piece in pieces),
        *(
            {"type": "response.output_text.annotation.added", **at, "annotation_index": index, "annotation": one}
            for index, one in enumerate(annotations)
        ),
        {"type": "response.output_text.done", **at, "text": said, "logprobs": []},
        {"type": "response.content_part.done", **at, "part": part},
        {"type": "response.output_item.done", "item": item},
    ]


def refusal(identity: str, said: str) -> list[Frame]:
    part = {"type": "refusal", "refusal": said}
    item = {"type": "message", "id": identity, "status": "completed", "role": "assistant", "content": [part]}
    at = {"item_id": identity, "content_index": 0}
    return [
        {"type": "response.output_item.added", "item": item | {"status": "in_progress", "content": []}},
        {"type": "response.content_part.added", **at, "part": part | {"refusal": ""}},
        {"type": "response.refusal.delta", **at, "delta": said},
        {"type": "response.refusal.done", **at, "refusal": said},
        {"type": "response.content_part.done", **at, "part": part},
        {"type": "response.output_item.done", "item": item},
    ]


def reasoning(identity: str, *pieces: str) -> list[Frame]:
    said = "".join(pieces)
    part = {"type": "summary_text", "text": said}
    item = {"type": "reasoning", "id": identity, "status": "completed", "summary": [part]}
    at = {"item_id": identity, "summary_index": 0}
    return [
        {"type": "response.output_item.added", "item": item | {"status": "in_progress", "summary": []}},
        {"type": "response.reasoning_summary_part.added", **at, "part": part | {"text": ""}},
        *({"type": "response.reasoning_summary_text.delta", **at, "delta": piece} for piece in pieces),
        {"type": "response.reasoning_summary_text.done", **at, "text": said},
        {"type": "response.reasoning_summary_part.done", **at, "part": part},
        {"type": "response.output_item.done", "item": item},
    ]


def call(call_id: str, *pieces: str, name: str = "get_time") -> list[Frame]:
    said = "".join(pieces)
    item = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name, "arguments": said}
    item["status"] = "completed"
    at = {"item_id": f"fc_{call_id}"}
    return [
        {"type": "response.output_item.added", "item": item | {"status": "in_progress", "arguments": ""}},
        *({"type": "response.function_call_arguments.delta", **at, "delta": piece} for piece in pieces),
        {"type": "response.function_call_arguments.done", **at, "name": name, "arguments": said},
        {"type": "response.output_item.done", "item": item},
    ]


def single(item: Frame, **empty: Any) -> list[Frame]:
    """An item that is there all at once."""
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
    """A whole run of these items: numbered, indexed, with its lifecycle."""
    inner: list[Frame] = []
    output: list[Frame] = []
    for index, item in enumerate(items):
        inner += [frame | {"output_index": index} for frame in item]
        output.append(item[-1]["item"])
    began = response(protocol)
    ended = response(protocol, status=status, output=output, usage=USAGE, **fields)
    frames: list[Frame] = [
        {"type": "response.created", "response": began},
        {"type": "response.in_progress", "response": began},
        *inner,
    ]
    if status == "failed":
        frames.append(
            {"type": "error", "code": ERROR["code"], "message": ERROR["message"], "param": None, "error": ERROR}
        )
    if protocol == "invocations":
        plural = {"id": "resp_1", "status": status, "incomplete_details": None, "usage": USAGE}
        frames.append({"type": "responses.completed", "response": plural})
    frames.append({"type": f"response.{'incomplete' if status == 'cancelled' else status}", "response": ended})
    return numbered(frames)


CITED = {"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 0, "end_index": 2}
TOOL_ROUND = run(call("c1", '{"tz":', '"UTC"}'), result("c1", "12:00"), text("msg_1", "It is noon."))
EVERYTHING = run(
    reasoning("rs_1", "Hm", "m."),
    text("msg_1", "It ", "is", annotations=[CITED, CITED]),
    single(DATA),
    call("c1", '{"tz":', '"UTC"}'),
    call("c2"),
    result("c2", ""),
    result("c1", "12:00"),
    refusal("msg_2", "No."),
)
ON_INVOCATIONS = run(
    reasoning("rs_1", "Hm", "m."),
    text("msg_1", "It ", "is", annotations=[CITED]),
    call("c1", '{"tz":', '"UTC"}'),
    result("c1", "12:00"),
    text("msg_2", "noon."),
    protocol="invocations",
)
FAILED = run(text("msg_1", "Hel"), status="failed", error={"code": "model_down", "message": "The model is down."})
CANCELLED = run(text("msg_1", "Hel"), status="cancelled", incomplete_details={"reason": "cancelled"})

# Chat Completions


def chunk(delta: Frame | None = None, finish: str | None = None, **fields: Any) -> Frame:
    made = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1763190000, "model": "tutor"}
    choice = {"index": 0, "delta": delta or {}, "logprobs": None, "finish_reason": finish}
    return {**made, "choices": [choice], **fields}


def piece(index: int, arguments: str, **first: Any) -> Frame:
    """A piece of a tool call; the first has `id` and `name`."""
    function = {"name": first.pop("name"), "arguments": arguments} if "name" in first else {"arguments": arguments}
    return {"tool_calls": [{"index": index, **first, "function": function}]}


COUNTED = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
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
CHAT_WITH_USAGE = [one | {"usage": None} for one in CHAT] + [chunk(choices=[], usage=COUNTED)]
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


_OWN = {"dynamic": True, "providerExecuted": True}
UI = [
    part("start", messageId="m1", messageMetadata={"runId": "r1", "chatId": "chat-1"}),
    part("start-step"),
    part("tool-input-start", toolCallId="c1", toolName="get_time", **_OWN),
    part("tool-input-delta", toolCallId="c1", inputTextDelta='{"tz":"UTC"}'),
    part("tool-input-available", toolCallId="c1", toolName="get_time", input={"tz": "UTC"}, **_OWN),
    part("tool-output-available", toolCallId="c1", output="12:00", **_OWN),
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
    """An event, whose data is what is given, or fields and the name as their type."""
    return {"event": name, "data": {"type": name, **fields} if data is None else data}


def block(index: int, kind: str, *pieces: str) -> list[Frame]:
    """A whole block."""
    delta, name = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}.get(
        kind, ("input_json_delta", "partial_json")
    )
    said = [event("content_block_delta", index=index, delta={"type": delta, name: piece}) for piece in pieces]
    return [
        event("content_block_start", index=index, content_block={"type": kind, name: ""}),
        *said,
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
