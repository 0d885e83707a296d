"""Headers, outputs and error documents of /inspect, /invoke, /run and /test, and the stream records of /invoke.

A record is a JSON object `{"type", "data"}`, sent as a line or as a server-sent event.
"""

from collections.abc import Callable, Sequence
from typing import Any, assert_never

import msgspec
from msgspec import UNSET

from palaver.core import json
from palaver.core.dialects import chat_completions
from palaver.core.events import (
    Event,
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
from palaver.core.messages import Annotation, Data, File, Refusal, ToolCall, Usage
from palaver.core.runs import Reply
from palaver.errors import FaultyCall, MissingInput, PalaverError, RequestError, UpstreamFailed
from palaver.protocols import base
from palaver.protocols.agenta.request import AgentaRequest
from palaver.protocols.base import Headers, HttpResponse, RejectedRequest, run_headers
from palaver.protocols.ui_stream.adapter import encode_ui_message

VERSION = "2025.07.14"


def response_headers(started: RunStarted | None, session: str | None = None) -> Headers:
    """Return the headers of every response; ids once they exist."""
    session = started.session if started else session
    headers = [("x-ag-version", VERSION)]
    if session:
        headers += [("x-ag-session-id", session), ("baggage", f"ag.session.id={session}")]
    if started:
        headers += [("x-ag-trace-id", started.trace_id), ("x-ag-span-id", started.span_id), *run_headers(started)]
    return tuple(headers)


def encode_outputs(reply: Reply, events: Sequence[Event], request: AgentaRequest) -> Any:
    """Encode a chat's messages, a single one as an object, or as a UI message; any other workflow's value."""
    if not request.is_chat:
        return _value_so_far(events) if reply.value is UNSET else reply.value
    if request.ui is not None:
        return encode_ui_message(events, request.ui)
    messages = chat_completions.write(reply.messages)
    if not messages:
        return {"role": "assistant", "content": ""}
    return messages[-1] if request.trim or len(messages) == 1 else messages


def json_response(
    status: int, document: Any, *, started: RunStarted | None = None, session: str | None = None
) -> HttpResponse:
    return base.json_response(document, status=status, headers=response_headers(started, session))


def error_response(error: PalaverError, request: AgentaRequest | None, *, status: int) -> HttpResponse:
    """The error document of a request that started no run."""
    if isinstance(error, RejectedRequest):
        error, request = error.error, error.request
    error_fields: dict[str, Any] = {"code": status, "type": error.code, "message": error.message}
    if isinstance(error, FaultyCall):
        error_fields["errors"] = [_error_entry(fault, request) for fault in error.faults]
        error_fields["message"] = error_fields["errors"][0]["message"]
    elif isinstance(error, RequestError) and error.pointer is not None:
        error_fields["errors"] = [_error_entry(error, request)]
    error_fields |= {key: value for key, value in error.details.items() if key not in error_fields}
    session = request.session if request else None
    return json_response(status, _error_document(error_fields, None, session), session=session)


def run_error_response(failed: RunFailed, started: RunStarted, *, status: int, outputs: Any = UNSET) -> HttpResponse:
    """The error document of a failed run; `outputs` is its output so far, if the form has a place for it."""
    error_fields: dict[str, Any] = {"code": status, "type": failed.code, "message": failed.message}
    if failed.details:
        error_fields["details"] = failed.details
    document = _error_document(error_fields, started, started.session)
    if outputs is not UNSET:
        document["data"] = {"outputs": outputs}
    return json_response(status, document, started=started)


def _error_document(error_fields: dict[str, Any], started: RunStarted | None, session: str | None) -> dict[str, Any]:
    document: dict[str, Any] = {"version": VERSION, "status": error_fields}
    if started:
        document |= {"trace_id": started.trace_id, "span_id": started.span_id}
    return document | ({"session_id": session} if session else {})


def _error_entry(fault: RequestError, request: AgentaRequest | None) -> dict[str, Any]:
    pointer, message = fault.pointer or "", fault.message
    if request is not None:
        name = pointer.removeprefix("/inputs/")
        pointer = request.pointer(pointer)
        if isinstance(fault, MissingInput) and name in request.strays:
            message = f"{message} It was found at {request.strays[name]}; it belongs in {pointer}."
    return {"type": fault.code, "pointer": pointer, "message": message}


def _value_so_far(events: Sequence[Event]) -> Any:
    """Return the value of a cancelled workflow that is not a chat, built from what it had yielded."""
    values: list[Any] = []
    in_text = False
    for event in events:
        match event:
            case TextDelta(delta=delta) if in_text:
                values[-1] += delta
            case TextDelta(delta=delta):
                values.append(delta)
                in_text = True
            case PartAdded(part=Data(name="output", value=value), transient=False):
                values.append(value)
                in_text = False
            case _:
                pass
    return values if len(values) > 1 else values[0] if values else None


RecordFraming = Callable[[bytes], bytes]
"""Frames the JSON of one record as a line or as a server-sent event."""

_encode_string = msgspec.json.Encoder().encode


class RecordEncoder:
    """Encodes events as records. Deltas are the hot path: the bytes before the text are encoded once per item.

    A tool call is one record, sent when it has ended but at the place where it started: what starts while a call is
    open waits for it.
    """

    def __init__(self, wrap: RecordFraming, *, is_chat: bool) -> None:
        self._wrap = wrap
        self._is_chat = is_chat
        self._started = RunStarted()
        self._usage: Usage | None = None
        self._messages: dict[str, str] = {}  # The message of each open item.
        self._delta_prefixes: dict[str, bytes] = {}  # The bytes before the deltas of each open item.
        self._queued: list[Event] = []  # The first is the call that the others wait for.
        self._arguments: dict[str, str] = {}  # Of calls that have ended.
        # The framing only adds bytes around its content, so it can be split once.
        self._opening, closing = wrap(b"\0").split(b"\0")
        self._delta_suffix = b"}}" + closing

    def encode(self, event: Event) -> bytes:
        """Return the records of one event, empty if it has none.

        A named method, because CPython 3.11 calls it twice as fast as an instance.
        """
        if type(event) is TextDelta:
            try:
                return b"".join((self._delta_prefixes[event.item], _encode_string(event.delta), self._delta_suffix))
            except KeyError:
                pass  # Its start waits for a call, and so must it.
        if isinstance(event, ToolStarted) or (self._queued and not self._can_send_now(event)):
            self._queued.append(event)
            return self._release() if isinstance(event, ToolEnded) else b""
        return self._encode_event(event)

    def _can_send_now(self, event: Event) -> bool:
        """Whether the event belongs to an item that was started, or has no record."""
        match event:
            case TextDelta() | TextEnded() | ReasoningDelta() | ReasoningEnded():
                return event.item in self._delta_prefixes
            case _:
                return isinstance(event, ToolDelta | UsageAdded)

    def _release(self) -> bytes:
        """Return the events that waited for a call that has ended, up to the next open one."""
        ended = self._queued[-1]
        assert isinstance(ended, ToolEnded)
        self._arguments[ended.item] = ended.arguments
        frames = b""
        while self._queued:
            event = self._queued[0]
            if isinstance(event, ToolStarted) and event.item not in self._arguments:
                break
            frames += self._encode_event(self._queued.pop(0))
        return frames

    def _encode_event(self, event: Event) -> bytes:
        match event:
            case TextDelta() | ReasoningDelta():
                return b"".join((self._delta_prefixes[event.item], _encode_string(event.delta), self._delta_suffix))
            case RunStarted():
                self._started = event
                return b""
            case TextStarted():
                return self._open("message", event)
            case ReasoningStarted():
                return self._open("thought", event)
            case TextEnded():
                annotations = {"annotations": event.annotations} if event.annotations else {}
                return self._close("message", event.item, **annotations)
            case ReasoningEnded():
                encrypted = {"encrypted": event.encrypted} if event.encrypted else {}
                return self._close("thought", event.item, **encrypted)
            case ToolStarted():
                return self._call_record(event, self._arguments.pop(event.item))
            case ToolDelta() | ToolEnded():
                return b""  # The call is sent with its start.
            case ToolReturned():
                fields = {"id": event.call_id, "message": event.message, "output": event.output}
                return self._record("tool_result", **fields, isError=event.is_error)
            case PartAdded():
                return self._part_record(event)
            case UsageAdded():
                self._usage = self._usage + event.usage if self._usage else event.usage
                return b""
            case RunFinished() | RunFailed() | RunCancelled():
                return self._end(event)
            case _:
                assert_never(event)

    def _open(self, kind: str, event: TextStarted | ReasoningStarted) -> bytes:
        ids = b'"id":%b,"message":%b' % (_encode_string(event.item), _encode_string(event.message))
        prefix = b'%b{"type":"%b_delta","data":{%b,"delta":' % (self._opening, kind.encode(), ids)
        self._delta_prefixes[event.item] = prefix
        self._messages[event.item] = event.message
        return self._record(f"{kind}_start", id=event.item, message=event.message)

    def _close(self, kind: str, item: str, **fields: Any) -> bytes:
        del self._delta_prefixes[item]
        return self._record(f"{kind}_end", id=item, message=self._messages.pop(item), **fields)

    def _call_record(self, started: ToolStarted, arguments: str) -> bytes:
        call = ToolCall(call_id=started.call_id, name=started.name, arguments=arguments)
        fields = {"id": call.call_id, "message": started.message, "name": call.name, "input": call.parsed}
        return self._record("tool_call", **fields, arguments=arguments)

    def _part_record(self, event: PartAdded) -> bytes:
        match event.part:
            case File() as file:
                fields = msgspec.to_builtins(file)
                kind = fields.pop("type")
            case Refusal(text=text):
                kind, fields = "refusal", {"text": text}
            case Data(name=name, value=value):
                kind, fields = "data", {"name": name, "value": value}
            case None:
                return b""
        transient = {"transient": True} if event.transient else {}
        return self._record(kind, **fields, **transient, id=event.item, message=event.message)

    def _end(self, event: TerminalEvent) -> bytes:
        frames = b""
        if isinstance(event, RunFailed):
            frames = self._record("error", code=event.code, message=event.message)
        if usage := event.usage or self._usage:
            fields = {"input": usage.input_tokens, "output": usage.output_tokens, "total": usage.total_tokens}
            frames += self._record("usage", **fields)
        done_fields: dict[str, Any] = {
            "stopReason": stop_reason(event),
            "run_id": self._started.run_id,
            "trace_id": self._started.trace_id,
        }
        if isinstance(event, RunFinished) and event.value is not UNSET and not self._is_chat:
            done_fields["outputs"] = event.value
        return frames + self._record("done", **done_fields)

    def _record(self, kind: str, **data: Any) -> bytes:
        return self._wrap(json.encode({"type": kind, "data": data}))


def stop_reason(event: TerminalEvent) -> str:
    match event:
        case RunFinished(finish=finish):
            return finish
        case RunFailed():
            return "error"
        case RunCancelled():
            return "cancelled"
        case _:
            assert_never(event)


class RecordDecoder:
    """Decodes records to events. A value that is not a record is returned as it is."""

    def __init__(self) -> None:
        self._usage: Usage | None = None
        self._error: RunFailed | None = None

    def __call__(self, record: bytes, *, is_complete: bool = True) -> list[object]:
        """Decode one record; text that is not JSON is text. If it may be cut off, it must be JSON."""
        text = record.decode("utf-8", "replace")
        value = json.parse_or_text(text)
        if value is text and not is_complete and text.lstrip().startswith(("{", "[", '"')):
            raise UpstreamFailed("The stream from the remote service ended in the middle of a record.")
        match value:
            case {"type": str(kind), "data": dict()}:
                return self._decode_record(kind, value["data"], value)
            case _:
                return [value]

    def end(self) -> list[object]:
        """Return what was held back for a `done` that never came."""
        if self._error is not None:
            return [self._terminal_event({})]
        return [self._usage] if self._usage is not None else []

    def _decode_record(self, kind: str, data: dict[str, Any], value: object) -> list[object]:
        item, message = _string(data.get("id")), _string(data.get("message"))
        match kind:
            case "message_delta":
                return [TextDelta(item=item, delta=_string(data.get("delta")))]
            case "message_start":
                return [TextStarted(item=item, message=message)]
            case "message_end":
                return [TextEnded(item=item, annotations=_annotations(data.get("annotations")))]
            case "thought_start":
                return [ReasoningStarted(item=item, message=message)]
            case "thought_delta":
                return [ReasoningDelta(item=item, delta=_string(data.get("delta")))]
            case "thought_end":
                return [ReasoningEnded(item=item, encrypted=_string(data.get("encrypted")) or None)]
            case "tool_call":
                started = ToolStarted(call_id=item, message=message, name=_string(data.get("name")), item=f"fc_{item}")
                return [started, ToolEnded(item=started.item, arguments=_arguments(data))]
            case "tool_result":
                failed = data.get("isError") is True
                return [ToolReturned(call_id=item, message=message, output=data.get("output"), is_error=failed)]
            case "file" | "refusal" | "data":
                return [_part_added(kind, item, message, data)]
            case "usage":
                self._usage = Usage(input_tokens=_count(data.get("input")), output_tokens=_count(data.get("output")))
                return []
            case "error":
                self._error = RunFailed(code="upstream_failed", message=_string(data.get("message")))
                return []
            case "done":
                return [self._terminal_event(data)]
            case _:
                return [value]

    def _terminal_event(self, data: dict[str, Any]) -> TerminalEvent:
        usage, self._usage = self._usage, None
        error, self._error = self._error, None
        if error is not None:
            return msgspec.structs.replace(error, usage=usage)
        match data.get("stopReason"):
            case "error":
                return RunFailed(code="upstream_failed", usage=usage)
            case "cancelled":
                return RunCancelled(usage=usage)
            case "length" | "tool-calls" | "content-filter" | "interrupted" as finish:
                return RunFinished(finish=finish, usage=usage, value=data.get("outputs", UNSET))
            case _:
                return RunFinished(usage=usage, value=data.get("outputs", UNSET))


def _part_added(kind: str, item: str, message: str, data: dict[str, Any]) -> PartAdded:
    part: File | Refusal | Data
    match kind:
        case "refusal":
            part = Refusal(text=_string(data.get("text")))
        case "data":
            part = Data(name=_string(data.get("name")), value=data.get("value"))
        case _:
            file_fields = {name: value for name in File.__struct_fields__ if isinstance(value := data.get(name), str)}
            part = File(**({"media_type": "application/octet-stream"} | file_fields))
    return PartAdded(item=item, message=message, part=part, transient=data.get("transient") is True)


def _arguments(data: dict[str, Any]) -> str:
    """Return the arguments as text; some servers send only the parsed value."""
    if isinstance(arguments := data.get("arguments"), str):
        return arguments
    return json.argument_text(data.get("input"))


def _annotations(value: Any) -> tuple[Annotation, ...]:
    try:
        return msgspec.convert(value or (), tuple[Annotation, ...])
    except msgspec.ValidationError:
        return ()


def _string(value: Any) -> str:
    """Return a string; a number is converted, anything else is empty."""
    if isinstance(value, int | float):
        return str(value)
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int:
    return value if type(value) is int and value >= 0 else 0
