"""POST /{w}/api/chat: the AI SDK's useChat, answered as a UI message stream, v1.

The client sends its whole history each time, and shows the body of an error as it is: so errors are plain text.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, assert_never, cast

import msgspec
from msgspec import UNSET

from palaver.core import json
from palaver.core.descriptions import Description
from palaver.core.dialects import ui_message
from palaver.core.events import (
    TERMINAL_EVENTS,
    Event,
    PartAdded,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunStarted,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolDelta,
    ToolEnded,
    ToolReturned,
    ToolStarted,
    UsageAdded,
)
from palaver.core.ids import truncate_id
from palaver.core.messages import APPROVAL_REQUEST, Data, File, Refusal, ToolCall, Usage
from palaver.core.runs import Call
from palaver.errors import InvalidMessages, InvalidSessionId, InvalidType, PalaverError
from palaver.protocols import base, sse
from palaver.protocols.base import EventEncoder, Headers, HttpRequest, HttpResponse, WorkflowLookup, run_headers
from palaver.protocols.openai import JsonFields, json_type_name
from palaver.protocols.ui_stream.request import UIRequest, parse_version, ui_request

UIPart = dict[str, Any]


_APPROVALS_VERSION = 6
_START_STEP: UIPart = {"type": "start-step"}
_FINISH_STEP: UIPart = {"type": "finish-step"}
_DELTA_END = b"}\n\n"

_encode_json = msgspec.json.Encoder().encode


class UIStreamEncoder:
    """Encodes events as parts or frames. Deltas are the hot path: the bytes before them are encoded once."""

    def __init__(self, request: UIRequest, *, start_at_once: bool = True) -> None:
        self._request = request
        self._start_at_once = start_at_once
        self._delayed_start = b""  # The start, if it has to wait for the first output.
        self._started = RunStarted()
        self._usage: Usage | None = None
        self._delta_prefixes: dict[str, bytes] = {}  # Bytes before the deltas of each open item.
        self._end_parts: dict[str, UIPart] = {}  # The end part of each open text or reasoning.
        self._used_ids: set[str] = set()
        self._calls: dict[str, ToolStarted] = {}  # Open calls.
        self._approvals: dict[str, list[UIPart]] = {}  # Approval requests for open calls.
        self._client_call_ids: dict[str, str] = {}  # Other ids for calls whose id the client knows already.
        self._call_ids: set[str] = set()  # Call ids of this run.
        self._pending: set[str] = set()  # Calls of this step without a result.
        self._has_result = False  # Whether this step has a result.
        self._has_text = False
        self._output: Any = UNSET  # The last data part `output`.

    def encode(self, event: Event) -> bytes:
        """Return the frames of one event, empty if it has none. The last is followed by `[DONE]`."""
        if type(event) is TextDelta or type(event) is ReasoningDelta or type(event) is ToolDelta:
            try:
                return b"".join((self._delta_prefixes[event.item], _encode_json(event.delta), _DELTA_END))
            except KeyError:
                pass  # A new step ended its part: it continues in another one.
        frames = b"".join([sse.data_event(_encode_json(part)) for part in self.parts(event)])
        if isinstance(event, RunStarted) and not self._start_at_once:
            self._delayed_start, frames = frames, b""
        elif self._delayed_start and frames:
            self._delayed_start, frames = b"", self._delayed_start + frames
        return frames + sse.DONE if isinstance(event, TERMINAL_EVENTS) else frames

    def parts(self, event: Event) -> list[UIPart]:
        match event:
            case TextDelta() | ReasoningDelta():
                return self._delta_parts("text" if isinstance(event, TextDelta) else "reasoning", event)
            case ToolDelta():
                client_id = self._client_call_id(self._calls[event.item].call_id)
                return [{"type": "tool-input-delta", "toolCallId": client_id, "inputTextDelta": event.delta}]
            case RunStarted():
                return self._start(event)
            case TextStarted():
                self._has_text = True
                return [*self._next_step(), self._start_text("text", event.item)]
            case ReasoningStarted():
                return [*self._next_step(), self._start_text("reasoning", event.item)]
            case TextEnded():
                return [*self._end_text(event.item), *_sources(event)]
            case ReasoningEnded(item=item, encrypted=encrypted):
                # The provider needs it in the next turn; the client sends it back with the history.
                return self._end_text(item, **_palaver_metadata(encrypted=encrypted) if encrypted else {})
            case ToolStarted():
                return [*self._next_step(), self._start_call(event)]
            case ToolEnded():
                return self._end_call(event)
            case ToolReturned():
                return self._encode_result(event)
            case PartAdded():
                return self._encode_part(event)
            case UsageAdded():
                self._usage = self._usage + event.usage if self._usage else event.usage
                return []
            case RunFinished(finish="interrupted" | "cancelled" as reason):
                return [{"type": "abort", "reason": reason}]
            case RunFinished():
                return self._finish(event)
            case RunFailed():
                end: UIPart = {"type": "finish", "finishReason": "error"}
                return [{"type": "error", "errorText": event.message}, _FINISH_STEP, end]
            case RunCancelled():
                return [{"type": "abort", "reason": "cancelled"}]
            case _:
                assert_never(event)

    # The run

    def _start(self, event: RunStarted) -> list[UIPart]:
        self._started = event
        metadata = {"runId": event.run_id}
        if event.trace_id:
            metadata["traceId"] = event.trace_id
        message = self._request.message or self._run_item_id("msg")
        return [
            {"type": "start", "messageId": message, "messageMetadata": metadata | {"chatId": event.session}},
            _START_STEP,
        ]

    def _finish(self, event: RunFinished) -> list[UIPart]:
        end: UIPart = {"type": "finish", "finishReason": event.finish}
        if usage := event.usage or self._usage:
            end["messageMetadata"] = {"usage": _usage_fields(usage)}
        parts = [] if event.value is UNSET else self._encode_value(event.value)
        return [*(self._next_step() if parts else ()), *parts, _FINISH_STEP, end]

    def _encode_value(self, value: Any) -> list[UIPart]:
        """Return the parts for the return value of a workflow that is not a chat, unless it was streamed."""
        text = value if isinstance(value, str) else json.encode(value).decode()
        parts = [] if self._has_text or not text else self._whole_text(self._run_item_id("msg", "output"), text)
        if not isinstance(value, str) and value != self._output:
            parts.append({"type": "data-output", "id": self._run_item_id("dat", "output"), "data": value})
        return parts

    def _run_item_id(self, prefix: str, suffix: str = "") -> str:
        """Return an id derived from the run's, so that replays are equal."""
        tail = self._started.run_id.removeprefix("run_")
        return f"{prefix}_{tail}_{suffix}" if suffix else f"{prefix}_{tail}"

    def _next_step(self) -> list[UIPart]:
        """Start a new step if this one is complete; open texts end with it."""
        if not self._has_result or self._pending:
            return []
        self._has_result = False
        ended = [part for item in list(self._end_parts) for part in self._end_text(item)]
        return [*ended, _FINISH_STEP, _START_STEP]

    # Text and reasoning

    def _start_text(self, kind: Literal["text", "reasoning"], item: str, **fields: Any) -> UIPart:
        name = self._unused_id(item)
        self._end_parts[item] = {"type": f"{kind}-end", "id": name}
        self._delta_prefixes[item] = b'data: {"type":"%b-delta","id":%b,"delta":' % (kind.encode(), _encode_json(name))
        return {"type": f"{kind}-start", "id": name, **fields}

    def _delta_parts(self, kind: Literal["text", "reasoning"], event: TextDelta | ReasoningDelta) -> list[UIPart]:
        start_part = [] if event.item in self._end_parts else [self._start_text(kind, event.item)]
        return [*start_part, {"type": f"{kind}-delta", "id": self._end_parts[event.item]["id"], "delta": event.delta}]

    def _end_text(self, item: str, **fields: Any) -> list[UIPart]:
        self._delta_prefixes.pop(item, None)
        end_part = self._end_parts.pop(item, None)
        return [end_part | fields] if end_part else []  # A new step may have ended it before.

    def _whole_text(self, item: str, text: str, **fields: Any) -> list[UIPart]:
        start_part = self._start_text("text", item, **fields)
        return [start_part, {"type": "text-delta", "id": start_part["id"], "delta": text}, *self._end_text(item)]

    def _unused_id(self, item: str) -> str:
        """Return the item's id if no part has it, else the next free one derived from it."""
        name, number = item, 1
        while name in self._used_ids:
            number += 1
            name = truncate_id(f"{item}.{number}")
        self._used_ids.add(name)
        return name

    # Tools

    def _start_call(self, event: ToolStarted) -> UIPart:
        self._calls[event.item] = event
        if self._is_id_taken(event.call_id):
            self._client_call_ids[event.call_id] = self._new_call_id(event.call_id)
        client_id = self._client_call_id(event.call_id)
        self._approvals[event.call_id] = []
        self._call_ids.add(event.call_id)
        self._pending.add(event.call_id)
        before = b'data: {"type":"tool-input-delta","toolCallId":%b,"inputTextDelta":'
        self._delta_prefixes[event.item] = before % _encode_json(client_id)
        return {
            "type": "tool-input-start",
            "toolCallId": client_id,
            "toolName": event.name,
            **self._tool_flags(event.name),
        }

    def _end_call(self, event: ToolEnded) -> list[UIPart]:
        call = self._calls.pop(event.item)
        del self._delta_prefixes[event.item]
        complete_call = ToolCall(call_id=call.call_id, name=call.name, arguments=event.arguments)
        return [self._input_part(complete_call), *self._approvals.pop(call.call_id)]

    def _client_call_id(self, call_id: str) -> str:
        return self._client_call_ids.get(call_id, call_id)

    def _is_id_taken(self, call_id: str) -> bool:
        """Whether the message shows another call by that id. Some models reuse ids in every turn.

        No run has two calls of one id, so the other one is in the history. A call that waits for a result is the same.
        """
        if call_id in self._call_ids or call_id in self._client_call_ids.values():
            return True
        return call_id in self._request.shown and call_id not in self._request.waiting

    def _new_call_id(self, call_id: str) -> str:
        used = {*self._call_ids, *self._client_call_ids.values(), *self._request.shown, *self._request.waiting}
        number = 2
        while (name := truncate_id(f"{call_id}.{number}")) in used:
            number += 1
        return name

    def _input_part(self, call: ToolCall) -> UIPart:
        fields: UIPart = {"toolCallId": self._client_call_id(call.call_id), "toolName": call.name, "input": call.parsed}
        if fields["input"] is call.arguments:
            error = {"errorText": "The arguments are not valid JSON."}
            return {"type": "tool-input-error", **fields, **error, **self._tool_flags(call.name)}
        return {"type": "tool-input-available", **fields, **self._tool_flags(call.name)}

    def _tool_flags(self, name: str) -> UIPart:
        """Our tools are dynamic for the client; only those that it named are run by it."""
        return {"dynamic": True} if name in self._request.tools else {"dynamic": True, "providerExecuted": True}

    def _missing_call(self, call_id: str) -> list[UIPart]:
        """Return the call of an id if the client does not know it: it raises for unknown ids."""
        if call_id in self._call_ids or call_id in self._request.shown:
            return []
        self._call_ids.add(call_id)
        self._pending.add(call_id)
        return [self._input_part(self._request.waiting.get(call_id) or ToolCall(call_id=call_id, name="unknown"))]

    def _encode_result(self, event: ToolReturned) -> list[UIPart]:
        call_id = event.call_id
        call_parts = self._missing_call(call_id)
        # Version 5 looks for the call either among the dynamic ones or among the others, as the result says.
        flags: UIPart = {"dynamic": True} if call_id in self._call_ids or self._request.shown[call_id] else {}
        flags["providerExecuted"] = True
        self._call_ids.add(call_id)  # A later call with this id is another one.
        self._pending.discard(call_id)
        self._has_result = True
        client_id = self._client_call_id(call_id)
        if not event.is_error:
            return [
                *call_parts,
                {"type": "tool-output-available", "toolCallId": client_id, "output": event.output, **flags},
            ]
        text = event.output if isinstance(event.output, str) else json.encode(event.output).decode()
        return [*call_parts, {"type": "tool-output-error", "toolCallId": client_id, "errorText": text, **flags}]

    # Complete parts

    def _encode_part(self, event: PartAdded) -> list[UIPart]:
        part = event.part
        if part is None:
            return []
        if event.transient:
            name, value = _data_fields(part)
            return [{"type": f"data-{name}", "data": value, "transient": True}]
        match part:
            case Data(name=name, value={"id": str(request_id), "call_id": str(call)}) if self._is_approval(name, call):
                return self._approval_request(call, request_id)
            case Refusal(text=text):
                parts = self._whole_text(event.item, text, **_palaver_metadata(refusal=True))
            case File(url=str() as url):
                parts = [{"type": "file", "url": url, "mediaType": part.media_type}]
            case File(data=str() as data):
                url = f"data:{part.media_type};base64,{data}"
                parts = [{"type": "file", "url": url, "mediaType": part.media_type}]
            case _:
                name, value = _data_fields(part)
                if name == "output":
                    self._output = value
                parts = [{"type": f"data-{name}", "id": event.item, "data": value}]
        return [*self._next_step(), *parts]

    def _is_approval(self, name: str, call_id: str) -> bool:
        """Whether it is an approval request for a pending call, and the client's version supports them."""
        if name != APPROVAL_REQUEST or self._request.version < _APPROVALS_VERSION:
            return False
        return call_id in self._pending or (call_id not in self._call_ids and call_id in self._request.waiting)

    def _approval_request(self, call_id: str, approval: str) -> list[UIPart]:
        request = {"type": "tool-approval-request", "approvalId": approval, "toolCallId": self._client_call_id(call_id)}
        if call_id in self._approvals:
            self._approvals[call_id].append(request)  # Sent after the input, which would overwrite it.
            return []
        return [*self._missing_call(call_id), request]


def _palaver_metadata(**fields: Any) -> UIPart:
    """Metadata that the client keeps with a part and sends back."""
    return {"providerMetadata": {"palaver": fields}}


def _sources(event: TextEnded) -> list[UIPart]:
    sources: list[UIPart] = []
    for number, note in enumerate(event.annotations, 1):
        source = f"{event.item}.s{number}"
        if note.kind == "url" and note.url is not None:
            title_field = {} if note.title is None else {"title": note.title}
            sources.append({"type": "source-url", "sourceId": source, "url": note.url, **title_field})
        elif note.kind == "file":
            fields = {"mediaType": "application/octet-stream", "title": note.title or note.file_id or ""}
            filename_field = {} if note.title is None else {"filename": note.title}
            sources.append({"type": "source-document", "sourceId": source, **fields, **filename_field})
    return sources


def _data_fields(part: Data | File | Refusal) -> tuple[str, Any]:
    """Return name and value of a part that has no type of its own here."""
    match part:
        case Data(name=name, value=value):
            return name, value
        case _:
            fields = cast("UIPart", msgspec.to_builtins(part))
            return fields.pop("type"), fields


def _usage_fields(usage: Usage) -> dict[str, int]:
    fields = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.total_tokens,
        "cachedInputTokens": usage.cached_input_tokens,
        "reasoningTokens": usage.reasoning_tokens,
    }
    return {name: count for name, count in fields.items() if count is not None}


def encode_ui_message(events: Sequence[Event], request: UIRequest) -> UIPart:
    """Encode the UI message of a run, without the message that it continues."""
    encoder = UIStreamEncoder(msgspec.structs.replace(request, message=None, shown={}))
    return join_ui_parts(part for event in events for part in encoder.parts(event))


def join_ui_parts(parts: Iterable[UIPart]) -> UIPart:
    """Join the parts of a stream to the message that a client would build."""
    message: UIPart = {"id": "", "role": "assistant", "metadata": {}, "parts": []}
    parts_out: list[UIPart] = message["parts"]
    open_texts: dict[str, UIPart] = {}
    tools: dict[str, UIPart] = {}
    for part in parts:
        match part["type"]:
            case "start":
                message["id"] = part["messageId"]
                message["metadata"] |= part["messageMetadata"]
            case "finish":
                message["metadata"] |= part.get("messageMetadata", {})
            case "start-step":
                parts_out.append({"type": "step-start"})
            case "text-start" | "reasoning-start" as kind:
                text = {
                    "type": kind.removesuffix("-start"),
                    "text": "",
                    "state": "streaming",
                    **_provider_metadata(part),
                }
                open_texts[part["id"]] = text
                parts_out.append(text)
            case "text-delta" | "reasoning-delta":
                open_texts[part["id"]]["text"] += part["delta"]
            case "text-end" | "reasoning-end":
                open_texts.pop(part["id"]).update({"state": "done"}, **_provider_metadata(part))
            case "source-url" | "source-document" | "file":
                parts_out.append(part)
            case "tool-input-start" | "tool-input-available" | "tool-input-error":
                if part["toolCallId"] not in tools:
                    tools[part["toolCallId"]] = tool = {"type": "dynamic-tool"}
                    parts_out.append(tool)
                tools[part["toolCallId"]] |= _tool_fields(part)
            case "tool-output-available" | "tool-output-error" | "tool-approval-request":
                tools[part["toolCallId"]].pop("errorText", None)  # Of arguments that are not JSON.
                tools[part["toolCallId"]] |= _tool_fields(part)
            case str(kind) if kind.startswith("data-") and not part.get("transient"):
                parts_out.append(part)
            case _:
                pass  # Ends of steps and of the stream, and transient parts.
    return message


_STATES = {
    "tool-input-start": "input-streaming",
    "tool-input-available": "input-available",
    "tool-input-error": "output-error",
    "tool-approval-request": "approval-requested",
    "tool-output-available": "output-available",
    "tool-output-error": "output-error",
}


def _tool_fields(part: UIPart) -> UIPart:
    names = ("toolName", "toolCallId", "input", "output", "errorText", "providerExecuted")
    fields: UIPart = {"state": _STATES[part["type"]]} | {name: part[name] for name in names if name in part}
    if "approvalId" in part:
        fields["approval"] = {"id": part["approvalId"]}
    return fields


def _provider_metadata(part: UIPart) -> dict[str, Any]:
    return {"providerMetadata": part["providerMetadata"]} if "providerMetadata" in part else {}


_SESSION = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_ROLES = ("system", "user", "assistant")
_TRIGGERS = ("submit-message", "regenerate-message")
_RESERVED_FIELDS = frozenset({"id", "messages", "trigger", "messageId", "inputs", "parameters", "tools"})
_REQUIRED_STRINGS = {
    "text": ("text",),
    "reasoning": ("text",),
    "file": ("mediaType", "url"),
    "dynamic-tool": ("toolCallId", "toolName"),
}
"""The fields of each part type that must be strings."""


def decode(request: HttpRequest, find: WorkflowLookup) -> tuple[Call, UIRequest]:
    workflow = find(request.workflow)
    fields = JsonFields.from_request(request)
    version = parse_version(request.headers)
    session = fields.string("id")
    if session is not None and not _SESSION.fullmatch(session):
        raise InvalidSessionId("id must be 1 to 128 letters, digits, '.', '_', ':' or '-'.", pointer="/id")
    trigger = fields.string("trigger", choices=_TRIGGERS)
    elements = _elements(fields, workflow)
    messages = tuple(ui_message.read(elements)) if workflow.is_chat else ()
    tools = _tools(fields)
    tool_names = frozenset(name for name, _ in tools)
    objects = [tool for _, tool in tools if tool is not None]
    call = Call(
        workflow=workflow.name,
        messages=messages,
        inputs=_inputs(fields, workflow),
        parameters=fields.object("parameters") or {},
        session=session,
        client_tools=tool_names,
        options={"tools": objects} if objects else {},
        trace_parent=request.trace_parent,
    )
    about: Any = fields.body.get("messageId")
    return call, ui_request(
        version,
        elements,
        messages,
        tools=tool_names,
        about=about if isinstance(about, str) else None,
        regenerates=trigger == "regenerate-message",
    )


def response_head(started: RunStarted, request: UIRequest) -> HttpResponse | None:
    stream = (("content-type", "text/event-stream"), ("cache-control", "no-cache"), ("x-accel-buffering", "no"))
    headers = (*stream, *request.headers, *run_headers(started))
    return HttpResponse(status=200, headers=headers, keep_alive=sse.KEEP_ALIVE)


def stream_encoder(request: UIRequest) -> EventEncoder:
    return UIStreamEncoder(request).encode


def encode_response(events: Sequence[Event], request: UIRequest, *, status: int) -> HttpResponse:
    """Encode the UI message that a client would build, or the error of a failed run."""
    started, last = events[0], events[-1]
    assert isinstance(started, RunStarted)
    headers = (*request.headers[1:], *run_headers(started))
    if isinstance(last, RunFailed):
        return _text_response(status, last.message, headers)
    return base.json_response(encode_ui_message(events, request), status=status, headers=headers)


def encode_error(error: PalaverError, request: UIRequest | None, *, status: int) -> HttpResponse:
    """Encode the message of the error as plain text."""
    return _text_response(status, error.message, request.headers[1:] if request else ())


def _text_response(status: int, message: str, headers: Headers) -> HttpResponse:
    body = json.replace_surrogates(message).encode()
    return HttpResponse(status=status, headers=(("content-type", "text/plain; charset=utf-8"), *headers), body=body)


# The body


def _elements(fields: JsonFields, workflow: Description) -> list[Any]:
    """Return the validated UI messages. A workflow that is not a chat needs none."""
    elements = fields.body.get("messages")
    if not workflow.is_chat and elements is None:
        return []
    if not isinstance(elements, list):
        raise fields.type_error("messages", "a list of UI messages", elements)
    listed = cast("list[Any]", elements)
    for index, element in enumerate(listed):
        _check_message(element, index)
    return listed


def _check_message(element: Any, index: int) -> None:
    pointer = f"/messages/{index}"
    match element:
        case {"role": "system" | "user" | "assistant", "parts": list()}:
            for position, part in enumerate(cast("list[Any]", element["parts"])):
                _check_part(part, f"{pointer}/parts/{position}", f"Part {position} of message {index}")
        case {"role": "system" | "user" | "assistant"}:
            raise InvalidMessages(f"Message {index} must have a list of parts.", pointer=f"{pointer}/parts")
        case dict():
            raise InvalidMessages(f"Message {index} must have a role: {', '.join(_ROLES)}.", pointer=f"{pointer}/role")
        case _:
            raise InvalidMessages(
                f"Message {index} must be a UI message, not {json_type_name(element)}.", pointer=pointer
            )


def _check_part(part: Any, pointer: str, subject: str) -> None:
    match part:
        case {"type": str(kind), **fields_of_part}:
            required = _REQUIRED_STRINGS.get(kind, ("toolCallId",) if kind.startswith("tool-") else ())
            for name in required:
                if not isinstance(fields_of_part.get(name), str):
                    raise InvalidMessages(f"{subject} must have a string field {name!r}.", pointer=f"{pointer}/{name}")
        case _:
            raise InvalidMessages(f"{subject} must be an object with a type.", pointer=pointer)


def _inputs(fields: JsonFields, workflow: Description) -> dict[str, Any]:
    """Return `inputs`, and top-level fields that the workflow declares: `sendMessage(m, {body: {subject}})`."""
    declared: Mapping[str, Any] = workflow.schemas.inputs.get("properties") or {}
    reserved = _RESERVED_FIELDS if workflow.is_chat else _RESERVED_FIELDS - {"messages"}
    top_level_inputs = {name: value for name, value in fields.body.items() if name in declared and name not in reserved}
    return top_level_inputs | (fields.object("inputs") or {})


def _tools(fields: JsonFields) -> list[tuple[str, dict[str, Any] | None]]:
    """Parse the client's tools: a list of names or objects, or an object by name."""
    value: Any = fields.body.get("tools")
    match value:
        case None:
            listed: list[Any] = []
        case list():
            listed = cast("list[Any]", value)
        case dict():
            by_name = cast("dict[str, Any]", value)
            listed = [{"name": name, **tool} if isinstance(tool, dict) else name for name, tool in by_name.items()]
        case _:
            raise fields.type_error("tools", "a list of tools", value)
    tools: list[tuple[str, dict[str, Any] | None]] = []
    for index, tool in enumerate(listed):
        match tool:
            case str():
                tools.append((tool, None))
            case {"name": str(name)} | {"function": {"name": str(name)}}:
                tools.append((name, tool))
            case _:
                raise InvalidType(f"tools[{index}] must be a name or an object with a name.", pointer=f"/tools/{index}")
    return tools
