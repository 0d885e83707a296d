"""Reply and error documents of services, and their stream of server-sent events."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, assert_never, cast

from msgspec import UNSET

from palaver.core import json
from palaver.core.events import (
    TERMINAL_EVENTS,
    Event,
    FinishReason,
    PartAdded,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunStarted,
    TerminalEvent,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolDelta,
    ToolEnded,
    ToolReturned,
    ToolStarted,
    UsageAdded,
)
from palaver.core.fold import fold
from palaver.core.linearize import Linearizer
from palaver.core.messages import Data, File, Refusal, Text, Usage
from palaver.core.runs import Reply
from palaver.errors import FaultyCall, PalaverError, RequestError, WorkflowNotFound
from palaver.protocols.services.request import ServiceRequest

INTERNAL = "INTERNAL_ERROR"
CANCELLED = {"code": 499, "type": "CANCELLED", "message": "The run was cancelled."}
"""The document of a cancelled run. 499 is the status of a client that closed its request."""

_NO_MESSAGE = "The run failed without an error message."
_INTERNAL_CODES = ("workflow_failed", "internal")
_NOT_ALPHANUMERIC = re.compile(r"[^A-Za-z0-9]+")
_NUMBER = re.compile(r"0|[1-9][0-9]*")
_TYPE_BY_STATUS = {400: "BAD_REQUEST", 404: "NOT_FOUND"}


def error_document(error: PalaverError, *, status: int) -> dict[str, Any]:
    """The document of a request that started no run."""
    error_type = _TYPE_BY_STATUS.get(status) if isinstance(error, RequestError) else None
    message = error.message
    if isinstance(error, WorkflowNotFound) and error.name is not None:
        message = f"There is no service named {error.name[:80]!r}."
    return _document(status, error_type or _error_type(error.code), message, _details(error))


def run_error_document(end: RunFailed | RunCancelled, *, status: int) -> dict[str, Any]:
    if isinstance(end, RunCancelled):
        return CANCELLED
    return _document(status, _error_type(end.code), end.message, end.details)


def _document(status: int, error_type: str, message: str, details: Mapping[str, Any]) -> dict[str, Any]:
    document: dict[str, Any] = {"code": status, "type": error_type, "message": message or _NO_MESSAGE}
    return {**document, "details": dict(details)} if details else document


def _error_type(code: str) -> str:
    """Convert an error code: `no_such_city` is NO_SUCH_CITY."""
    error_type = _NOT_ALPHANUMERIC.sub("_", code).strip("_").upper()
    return INTERNAL if code in _INTERNAL_CODES or not error_type else error_type


def _details(error: PalaverError) -> Mapping[str, Any]:
    if isinstance(error, FaultyCall):
        return {
            "errors": [{"field": field_path(fault.pointer or ""), "message": fault.message} for fault in error.faults]
        }
    if isinstance(error, RequestError) and error.pointer:
        return {"errors": [{"field": field_path(error.pointer), "message": error.message}], **error.details}
    return error.details


def field_path(pointer: str) -> str:
    """Convert a JSON pointer: `/inputs/context/rows/2` is context.rows[2]."""
    name = ""
    for step in pointer.removeprefix("/inputs").split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        name += f"[{step}]" if name and _NUMBER.fullmatch(step) else f".{step}" if name else step
    return name


REPLY, STATUS, CHANGES = "reply", "status", "changes"
"""Names of data parts with a meaning here, and of the event that a code edit becomes."""
_RUN_FIELDS = frozenset({"response", "history", "usage"})
"""Fields that a reply cannot override."""


def reply_document(reply: Reply, request: ServiceRequest) -> Any:
    """The document of a finished run, which is also the last event of its stream."""
    if not request.is_chat:
        return None if reply.value is UNSET else reply.value
    parts = [part for message in reply.messages if message.role == "assistant" for part in message.parts]
    response = "\n\n".join([part.text for part in parts if isinstance(part, Text | Refusal) and part.text]).strip()
    document: dict[str, Any] = {
        "response": response,
        "history": [*request.history, {"role": "assistant", "content": response}],
        "usage": usage_counts(reply.usage),
        "meta": {},
    }
    for part in parts:
        if isinstance(part, Data) and part.name == REPLY:
            _merge_reply(document, part.value)
    return document


def _merge_reply(document: dict[str, Any], reply: Any) -> None:
    if not isinstance(reply, dict):
        return
    for name, value in cast("Mapping[str, Any]", reply).items():
        if name == "meta":
            document["meta"] |= value if isinstance(value, dict) else {}
        elif name not in _RUN_FIELDS:
            document[name] = value


def usage_counts(usage: Usage | None) -> dict[str, int]:
    """Usage as Anthropic counts: input tokens from and to a cache are counted separately."""
    if usage is None:
        usage = Usage(input_tokens=0, output_tokens=0)
    cache_read, cache_created = usage.cached_input_tokens or 0, usage.cache_creation_input_tokens or 0
    return {
        "input_tokens": max(usage.input_tokens - cache_read - cache_created, 0),
        "output_tokens": usage.output_tokens,
        "cache_creation_input_tokens": cache_created,
        "cache_read_input_tokens": cache_read,
    }


BlockKind = Literal["text", "thinking", "tool_use"]
StatusLookup = Callable[[RunFailed], int]

_DOCUMENT_EVENTS = (TextStarted, TextEnded, UsageAdded, RunStarted, RunFinished)
"""The events that the last document is built from, besides some parts."""
_STOP_REASONS: dict[FinishReason, str] = {"length": "max_tokens", "tool-calls": "tool_use", "content-filter": "refusal"}
_DELTA_FIELDS: dict[BlockKind, tuple[str, str]] = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "tool_use": ("input_json_delta", "partial_json"),
}


def named_event(name: str, data: bytes) -> bytes:
    """Encode an event with a name and one line of JSON."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


def _typed_event(name: str, **fields: Any) -> bytes:
    return named_event(name, json.encode({"type": name, **fields}))


class ServiceStreamEncoder:
    """Encodes one stream: content blocks as Anthropic's, and the events log, data and changes.

    Blocks never overlap. A status line is a thinking block: it ends an open text, which continues in the next block,
    and waits for the end of a tool call, whose JSON cannot be split. `status` returns the HTTP status of a failed run.
    """

    def __init__(self, request: ServiceRequest, status: StatusLookup) -> None:
        self._request = request
        self._status = status
        self._sends_blocks = request.is_chat and not request.sparse
        self._linearizer = Linearizer()
        self._document_events: list[Event] = []  # The events for the last document.
        self._index = -1
        self._open_block: BlockKind | None = None
        self._delta_prefix = b""  # The bytes before a delta of the open block.
        self._has_piece = False
        self._pending_status: list[str] = []  # Status lines received while a tool call was open.

    def encode(self, event: Event) -> bytes:
        linearizer = self._linearizer
        # The hot path.
        if type(event) is TextDelta and event.item == linearizer.passthrough_item and self._open_block == "text":
            linearizer.pieces.append(event.delta)
            return b"%b%b}}\n\n" % (self._delta_prefix, json.encode(event.delta))
        if isinstance(event, _DOCUMENT_EVENTS) or _is_document_part(event):
            self._document_events.append(event)
        if isinstance(event, TERMINAL_EVENTS):
            return self._encode_end(event)
        if not self._sends_blocks:
            return self._encode_side_event(event)
        return b"".join([self._encode_event(linear_event) for linear_event in linearizer.feed(event)])

    def _encode_event(self, event: Event) -> bytes:
        match event:
            case TextDelta(delta=delta):
                return self._delta("text", delta)
            case ReasoningDelta(delta=delta):
                return self._delta("thinking", delta)
            case ToolDelta(delta=delta):
                return self._delta("tool_use", delta)
            case RunStarted():
                return self._start(event)
            case TextStarted():
                return self._start_block("text")
            case ReasoningStarted():
                return self._start_block("thinking")
            case ToolStarted():
                return self._start_block("tool_use", id=event.call_id, name=event.name)
            case TextEnded():
                return self._close("text")
            case ReasoningEnded():
                return self._close("thinking")
            case ToolEnded():
                return self._end_call(event)
            case ToolReturned():
                return _typed_event("tool_result", call_id=event.call_id, output=event.output, is_error=event.is_error)
            case PartAdded():
                return self._encode_part(event)
            case UsageAdded() | RunFinished() | RunFailed() | RunCancelled():
                return b""
            case _:
                assert_never(event)

    def _start(self, started: RunStarted) -> bytes:
        message: dict[str, Any] = {
            "id": started.run_id,
            "type": "message",
            "role": "assistant",
            "content": [],
            "model": self._request.workflow,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }
        return _typed_event("message_start", message=message)

    # Blocks

    def _start_block(self, kind: BlockKind, **fields: str) -> bytes:
        closed = self._close()
        self._index += 1
        self._open_block, self._has_piece = kind, False
        piece, name = _DELTA_FIELDS[kind]
        opening = f'{{"type":"content_block_delta","index":{self._index},"delta":{{"type":"{piece}","{name}":'
        self._delta_prefix = b"event: content_block_delta\ndata: " + opening.encode()
        block: dict[str, Any] = {"type": kind, **fields, **({"input": {}} if kind == "tool_use" else {name: ""})}
        return closed + _typed_event("content_block_start", index=self._index, content_block=block)

    def _delta(self, kind: BlockKind, piece: str) -> bytes:
        # If a status line ended the block, continue in a new one.
        opening = b"" if self._open_block == kind else self._start_block(kind)
        self._has_piece = True
        return b"%b%b%b}}\n\n" % (opening, self._delta_prefix, json.encode(piece))

    def _close(self, kind: BlockKind | None = None) -> bytes:
        """End the open block, if it is of that kind."""
        if self._open_block is None or (kind is not None and kind != self._open_block):
            return b""
        self._open_block = None
        return _typed_event("content_block_stop", index=self._index)

    def _end_call(self, event: ToolEnded) -> bytes:
        missing = self._delta("tool_use", event.arguments) if event.arguments and not self._has_piece else b""
        waiting, self._pending_status = self._pending_status, []
        return b"".join([missing, self._close(), *map(self._thinking_block, waiting)])

    def _thinking_block(self, text: str) -> bytes:
        return b"".join([self._start_block("thinking"), self._delta("thinking", text), self._close()])

    # Parts

    def _encode_part(self, event: PartAdded) -> bytes:
        match event.part:
            case Refusal() if event.transient:
                return b""  # It is not part of the answer, to which clients add up the text of the stream.
            case Refusal(text=text):
                return b"".join([self._start_block("text"), self._delta("text", text), self._close()])
            case Data(name="code-edit", value={"new": new, **edit}):
                return (
                    named_event(CHANGES, json.encode({"code": new}))
                    if isinstance(new, str) and new != edit.get("old")
                    else b""
                )
            case _:
                line = _status_line(event)
                if line is None:
                    return _data_event(event)
                log = named_event("log", json.encode(line))
                if self._open_block != "tool_use":
                    return log + self._thinking_block(line)
                self._pending_status.append(line)
                return log

    def _encode_side_event(self, event: Event) -> bytes:
        """Encode only logs and data, for a workflow that is not a chat or a client that wants no stream."""
        if not isinstance(event, PartAdded):
            return b""
        if (line := _status_line(event)) is not None:
            return named_event("log", json.encode(line))
        return b"" if self._request.sparse else _data_event(event)

    # The end

    def _encode_end(self, end: TerminalEvent) -> bytes:
        closed = b"".join([self._close(), *map(self._thinking_block, self._pending_status)])
        if isinstance(end, RunFailed | RunCancelled):
            status = self._status(end) if isinstance(end, RunFailed) else 0
            return closed + named_event("error", json.encode(run_error_document(end, status=status)))
        reply = fold(self._document_events)
        last = named_event("complete", json.encode(reply_document(reply, self._request)))
        if not self._sends_blocks:
            return last
        stop = {"stop_reason": _STOP_REASONS.get(end.finish, "end_turn"), "stop_sequence": None}
        usage = {"output_tokens": usage_counts(reply.usage)["output_tokens"]}
        return b"".join(
            [closed, _typed_event("message_delta", delta=stop, usage=usage), _typed_event("message_stop"), last]
        )


def _is_document_part(event: Event) -> bool:
    """Whether the last document is built from this part."""
    if not isinstance(event, PartAdded):
        return False
    return isinstance(event.part, Refusal) or (isinstance(event.part, Data) and event.part.name == REPLY)


def _status_line(event: PartAdded) -> str | None:
    """Return the text of a status line: transient, and not part of the reply."""
    match event.part:
        case Data(name=name, value=str(text) | {"text": str(text)}) if name == STATUS and event.transient:
            return text
        case _:
            return None


def _data_event(event: PartAdded) -> bytes:
    match event.part:
        case Data(name=name, value=value) if name != REPLY:
            return named_event("data", json.encode({"name": name, "value": value}))
        case File() as file:
            return named_event("data", json.encode({"name": "file", "value": file}))
        case _:
            return b""
