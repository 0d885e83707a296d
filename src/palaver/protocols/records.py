"""Records: how /invoke streams. One JSON object each, `{"type", "data"}`, in lines or in server-sent events."""

from collections.abc import Callable
from typing import Any, assert_never

import msgspec
from msgspec import UNSET

from palaver.core import jsons
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
    Terminal,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolDelta,
    ToolEnded,
    ToolReturned,
    ToolStarted,
    UsageAdded,
)
from palaver.core.parts import Annotation, Data, File, Refusal, ToolCall
from palaver.core.usage import Usage

Wrap = Callable[[bytes], bytes]
"""One record's JSON as a line or as a server-sent event."""

_text = msgspec.json.Encoder().encode


class Writer:
    """Events in, records out. A delta is the hot path: what comes before its text is made once per item."""

    def __init__(self, wrap: Wrap, *, is_chat: bool) -> None:
        self._wrap = wrap
        self._is_chat = is_chat
        self._started = RunStarted()
        self._usage: Usage | None = None
        self._calls: dict[str, ToolStarted] = {}
        self._messages: dict[str, str] = {}
        self._item = ""
        self._before = b""
        # The wrap is a pure frame around its content, so it can be taken apart once.
        self._opening, self._closing = wrap(b"\0").split(b"\0")

    def __call__(self, event: Event) -> bytes:
        """The records of one event; empty where it has none."""
        if type(event) is TextDelta:
            if event.item != self._item:
                self._item = event.item
                self._before = self._delta_opening("message_delta", event.item)
            return b"%b%b}}%b" % (self._before, _text(event.delta), self._closing)
        return self._rare(event)

    def _rare(self, event: Event) -> bytes:
        match event:
            case TextDelta():
                raise AssertionError(event)  # __call__ has dealt with it.
            case ReasoningDelta():
                return b"%b%b}}%b" % (self._delta_opening("thought_delta", event.item), _text(event.delta), self._closing)
            case ToolDelta():
                return b""  # A call is told whole, when it has ended.
            case RunStarted():
                self._started = event
                return b""
            case TextStarted() | ReasoningStarted():
                self._messages[event.item] = event.message
                kind = "message_start" if isinstance(event, TextStarted) else "thought_start"
                return self._record(kind, id=event.item, message=event.message)
            case TextEnded():
                notes = {"annotations": event.annotations} if event.annotations else {}
                return self._record("message_end", id=event.item, message=self._messages[event.item], **notes)
            case ReasoningEnded():
                sealed = {"encrypted": event.encrypted} if event.encrypted else {}
                return self._record("thought_end", id=event.item, message=self._messages[event.item], **sealed)
            case ToolStarted():
                self._calls[event.item] = event
                return b""
            case ToolEnded():
                return self._call(self._calls[event.item], event.arguments)
            case ToolReturned():
                told = {"id": event.call_id, "message": event.message, "output": event.output, "isError": event.is_error}
                return self._record("tool_result", **told)
            case PartAdded():
                return self._part(event)
            case UsageAdded():
                self._usage = self._usage + event.usage if self._usage else event.usage
                return b""
            case RunFinished() | RunFailed() | RunCancelled():
                return self._end(event)
            case _:
                assert_never(event)

    def _call(self, started: ToolStarted, arguments: str) -> bytes:
        call = ToolCall(call_id=started.call_id, name=started.name, arguments=arguments)
        told = {"id": call.call_id, "message": started.message, "name": call.name, "input": call.parsed}
        return self._record("tool_call", **told, arguments=arguments)

    def _part(self, event: PartAdded) -> bytes:
        match event.part:
            case File() as file:
                told = msgspec.to_builtins(file)
                kind = told.pop("type")
            case Refusal(text=text):
                kind, told = "refusal", {"text": text}
            case Data(name=name, value=value):
                kind, told = "data", {"name": name, "value": value}
            case None:
                return b""
        transient = {"transient": True} if event.transient else {}
        return self._record(kind, **told, **transient, id=event.item, message=event.message)

    def _end(self, event: Terminal) -> bytes:
        frames = b""
        if isinstance(event, RunFailed):
            frames = self._record("error", code=event.code, message=event.message)
        if usage := event.usage or self._usage:
            told = {"input": usage.input_tokens, "output": usage.output_tokens, "total": usage.total_tokens}
            frames += self._record("usage", **told)
        done: dict[str, Any] = {
            "stopReason": stop_reason(event),
            "run_id": self._started.run_id,
            "trace_id": self._started.trace_id,
        }
        if isinstance(event, RunFinished) and not self._is_chat:
            done["outputs"] = None if event.value is UNSET else event.value
        return frames + self._record("done", **done)

    def _record(self, kind: str, **data: Any) -> bytes:
        return self._wrap(jsons.encode({"type": kind, "data": data}))

    def _delta_opening(self, kind: str, item: str) -> bytes:
        ids = b'"id":%b,"message":%b' % (_text(item), _text(self._messages[item]))
        return b'%b{"type":"%b","data":{%b,"delta":' % (self._opening, kind.encode(), ids)


def stop_reason(event: Terminal) -> str:
    """How a run ended, in one word."""
    match event:
        case RunFinished(finish=finish):
            return finish
        case RunFailed():
            return "error"
        case RunCancelled():
            return "cancelled"
        case _:
            assert_never(event)


class Reader:
    """Records in, events out: what a Writer of another server wrote. What is no record comes out as the value it is."""

    def __init__(self) -> None:
        self._usage: Usage | None = None
        self._error: RunFailed | None = None

    def __call__(self, record: bytes) -> list[object]:
        """What one record means; text that is not JSON is text."""
        value = jsons.parsed(record.decode("utf-8", "replace"))
        match value:
            case {"type": str(kind), "data": dict(data)}:
                return self._read(kind, data, value)  # pyright: ignore[reportUnknownArgumentType]  # JSON
            case _:
                return [value]

    def _read(self, kind: str, data: dict[str, Any], value: Any) -> list[object]:
        item, message = str(data.get("id", "")), str(data.get("message", ""))
        match kind:
            case "message_start":
                return [TextStarted(item=item, message=message)]
            case "message_delta":
                return [TextDelta(item=item, delta=str(data.get("delta", "")))]
            case "message_end":
                return [TextEnded(item=item, annotations=_annotations(data.get("annotations")))]
            case "thought_start":
                return [ReasoningStarted(item=item, message=message)]
            case "thought_delta":
                return [ReasoningDelta(item=item, delta=str(data.get("delta", "")))]
            case "thought_end":
                return [ReasoningEnded(item=item, encrypted=data.get("encrypted"))]
            case "tool_call":
                name, arguments = str(data.get("name", "")), str(data.get("arguments", ""))
                started = ToolStarted(call_id=item, message=message, name=name, item=f"fc_{item}")
                return [started, ToolEnded(item=f"fc_{item}", arguments=arguments)]
            case "tool_result":
                failed = data.get("isError") is True
                return [ToolReturned(call_id=item, message=message, output=data.get("output"), is_error=failed)]
            case "file" | "refusal" | "data":
                return [_part_added(kind, item, message, data)]
            case "usage":
                self._usage = Usage(input_tokens=_count(data.get("input")), output_tokens=_count(data.get("output")))
                return []
            case "error":
                self._error = RunFailed(code="upstream_failed", message=str(data.get("message", ""))[:200])
                return []
            case "done":
                return [self._done(data)]
            case _:
                return [value]

    def _done(self, data: dict[str, Any]) -> Terminal:
        if self._error is not None:
            return msgspec.structs.replace(self._error, usage=self._usage)
        match data.get("stopReason"):
            case "cancelled":
                return RunCancelled(usage=self._usage)
            case "length" | "tool-calls" | "content-filter" | "interrupted" as finish:
                return RunFinished(finish=finish, usage=self._usage, value=data.get("outputs", UNSET))
            case "error":
                return RunFailed(code="upstream_failed", message="The remote run failed.", usage=self._usage)
            case _:
                return RunFinished(usage=self._usage, value=data.get("outputs", UNSET))


def _part_added(kind: str, item: str, message: str, data: dict[str, Any]) -> PartAdded:
    part: File | Refusal | Data
    if kind == "refusal":
        part = Refusal(text=str(data.get("text", "")))
    elif kind == "data":
        part = Data(name=str(data.get("name", "")), value=data.get("value"))
    else:
        kept = {name: v for name in File.__struct_fields__ if isinstance(v := data.get(name), str)}
        part = File(**({"media_type": "application/octet-stream"} | kept))
    return PartAdded(item=item, message=message, part=part, transient=data.get("transient") is True)


def _annotations(value: Any) -> Any:
    try:
        return msgspec.convert(value or [], tuple[Annotation, ...])
    except msgspec.ValidationError:
        return ()


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value >= 0 else 0

