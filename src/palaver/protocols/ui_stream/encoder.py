"""UI parts: how the AI SDK's UI message stream (v1) tells a run, on /api/chat and in the vercel format of /invoke.

A run is one UI message, cut into steps: a step ends before the first thing said after all its tools have answered. A
result stands in the step of its call, and a call that waits for its result keeps its step open: clients look for calls,
and decide whether to send results by themselves, in the last step only.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, assert_never, cast

import msgspec
from msgspec import UNSET

from palaver.core import json
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
from palaver.protocols import sse
from palaver.protocols.ui_stream.request import UIRequest

UIPart = dict[str, Any]
"""One part of the stream, as JSON has it."""


_APPROVALS_VERSION = 6
_START_STEP: UIPart = {"type": "start-step"}
_FINISH_STEP: UIPart = {"type": "finish-step"}
_AFTER = b"}\n\n"

_encode_json = msgspec.json.Encoder().encode


class UIStreamEncoder:
    """Events in, parts out, as values or in frames. A delta is the hot path: what stands before it is made once."""

    def __init__(self, client: UIRequest, *, at_once: bool = True) -> None:
        self._client = client
        self._at_once = at_once
        self._held = b""  # The start, where it is not told before anything else is.
        self._started = RunStarted()
        self._usage: Usage | None = None
        self._before: dict[str, bytes] = {}  # Of each open item, all that stands before its deltas.
        self._open: dict[str, UIPart] = {}  # Text and reasoning: the part that ends each.
        self._taken: set[str] = set()
        self._calls: dict[str, ToolStarted] = {}  # Those that are open,
        self._asked: dict[str, list[UIPart]] = {}  # and what is asked about them before they have ended.
        self._names: dict[str, str] = {}  # Of calls whose id the client knows as another call's.
        self._made: set[str] = set()  # Ids of calls: of this run,
        self._pending: set[str] = set()  # and of this step without a result.
        self._answered = False  # Is there a result in this step?
        self._has_text = False
        self._output: Any = UNSET  # The last value that was told while the workflow ran.

    def frames(self, event: Event) -> bytes:
        """The frames of one event; empty where it has none. `[DONE]` follows the last."""
        if type(event) is TextDelta or type(event) is ReasoningDelta or type(event) is ToolDelta:
            try:
                return b"".join((self._before[event.item], _encode_json(event.delta), _AFTER))
            except KeyError:
                pass  # A new step ended its part: it goes on in another.
        frames = b"".join([sse.data_event(_encode_json(part)) for part in self.parts(event)])
        if isinstance(event, RunStarted) and not self._at_once:
            self._held, frames = frames, b""
        elif self._held and frames:
            self._held, frames = b"", self._held + frames
        return frames + sse.DONE if isinstance(event, TERMINAL_EVENTS) else frames

    def parts(self, event: Event) -> list[UIPart]:
        """The parts of one event."""
        match event:
            case TextDelta() | ReasoningDelta():
                return self._piece("text" if isinstance(event, TextDelta) else "reasoning", event)
            case ToolDelta():
                told = self._told(self._calls[event.item].call_id)
                return [{"type": "tool-input-delta", "toolCallId": told, "inputTextDelta": event.delta}]
            case RunStarted():
                return self._start(event)
            case TextStarted():
                self._has_text = True
                return [*self._next_step(), self._begin("text", event.item)]
            case ReasoningStarted():
                return [*self._next_step(), self._begin("reasoning", event.item)]
            case TextEnded():
                return [*self._end(event.item), *_sources(event)]
            case ReasoningEnded(item=item, encrypted=encrypted):
                # What its provider wants back in the next turn goes with the history, which the client sends.
                return self._end(item, **_palaver_metadata(encrypted=encrypted) if encrypted else {})
            case ToolStarted():
                return [*self._next_step(), self._call(event)]
            case ToolEnded():
                return self._called(event)
            case ToolReturned():
                return self._result(event)
            case PartAdded():
                return self._added(event)
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
        message = self._client.message or self._named("msg")
        return [
            {"type": "start", "messageId": message, "messageMetadata": metadata | {"chatId": event.session}},
            _START_STEP,
        ]

    def _finish(self, event: RunFinished) -> list[UIPart]:
        end: UIPart = {"type": "finish", "finishReason": event.finish}
        if usage := event.usage or self._usage:
            end["messageMetadata"] = {"usage": _usage_fields(usage)}
        said = [] if event.value is UNSET else self._value(event.value)
        return [*(self._next_step() if said else ()), *said, _FINISH_STEP, end]

    def _value(self, value: Any) -> list[UIPart]:
        """What a workflow that is no chat came to, as far as it was not told while it ran."""
        text = value if isinstance(value, str) else json.encode(value).decode()
        said = [] if self._has_text or not text else self._whole_text(self._named("msg", "output"), text)
        if not isinstance(value, str) and value != self._output:
            said.append({"type": "data-output", "id": self._named("dat", "output"), "data": value})
        return said

    def _named(self, prefix: str, suffix: str = "") -> str:
        """An id made of the run's, the same on every replay."""
        tail = self._started.run_id.removeprefix("run_")
        return f"{prefix}_{tail}_{suffix}" if suffix else f"{prefix}_{tail}"

    def _next_step(self) -> list[UIPart]:
        """A new step, where this one has come to its end; all that is open ends with it."""
        if not self._answered or self._pending:
            return []
        self._answered = False
        ended = [part for item in list(self._open) for part in self._end(item)]
        return [*ended, _FINISH_STEP, _START_STEP]

    # Text and reasoning

    def _begin(self, kind: Literal["text", "reasoning"], item: str, **told: Any) -> UIPart:
        name = self._free(item)
        self._open[item] = {"type": f"{kind}-end", "id": name}
        self._before[item] = b'data: {"type":"%b-delta","id":%b,"delta":' % (kind.encode(), _encode_json(name))
        return {"type": f"{kind}-start", "id": name, **told}

    def _piece(self, kind: Literal["text", "reasoning"], event: TextDelta | ReasoningDelta) -> list[UIPart]:
        begun = [] if event.item in self._open else [self._begin(kind, event.item)]
        return [*begun, {"type": f"{kind}-delta", "id": self._open[event.item]["id"], "delta": event.delta}]

    def _end(self, item: str, **told: Any) -> list[UIPart]:
        self._before.pop(item, None)
        ending = self._open.pop(item, None)
        return [ending | told] if ending else []  # A new step may have ended it before.

    def _whole_text(self, item: str, text: str, **told: Any) -> list[UIPart]:
        begun = self._begin("text", item, **told)
        return [begun, {"type": "text-delta", "id": begun["id"], "delta": text}, *self._end(item)]

    def _free(self, item: str) -> str:
        """The item's own id if no part had it, else the next one made of it."""
        name, number = item, 1
        while name in self._taken:
            number += 1
            name = truncate_id(f"{item}.{number}")
        self._taken.add(name)
        return name

    # Tools

    def _call(self, event: ToolStarted) -> UIPart:
        self._calls[event.item] = event
        if self._is_known(event.call_id):
            self._names[event.call_id] = self._another(event.call_id)
        told = self._told(event.call_id)
        self._asked[event.call_id] = []
        self._made.add(event.call_id)
        self._pending.add(event.call_id)
        before = b'data: {"type":"tool-input-delta","toolCallId":%b,"inputTextDelta":'
        self._before[event.item] = before % _encode_json(told)
        return {
            "type": "tool-input-start",
            "toolCallId": told,
            "toolName": event.name,
            **self._runner(event.name),
        }

    def _called(self, event: ToolEnded) -> list[UIPart]:
        call = self._calls.pop(event.item)
        del self._before[event.item]
        whole = ToolCall(call_id=call.call_id, name=call.name, arguments=event.arguments)
        return [self._input(whole), *self._asked.pop(call.call_id)]

    def _told(self, call_id: str) -> str:
        """The id under which the client knows a call."""
        return self._names.get(call_id, call_id)

    def _is_known(self, call_id: str) -> bool:
        """Does the message show another call by that id? Some models count their calls anew in every turn.

        No run makes two of one id, so the other is of the history. One that waits may be told again: it is itself.
        """
        if call_id in self._made or call_id in self._names.values():
            return True
        return call_id in self._client.shown and call_id not in self._client.waiting

    def _another(self, call_id: str) -> str:
        taken = {*self._made, *self._names.values(), *self._client.shown, *self._client.waiting}
        number = 2
        while (name := truncate_id(f"{call_id}.{number}")) in taken:
            number += 1
        return name

    def _input(self, call: ToolCall) -> UIPart:
        told: UIPart = {"toolCallId": self._told(call.call_id), "toolName": call.name, "input": call.parsed}
        if told["input"] is call.arguments:
            error = {"errorText": "The arguments are not valid JSON."}
            return {"type": "tool-input-error", **told, **error, **self._runner(call.name)}
        return {"type": "tool-input-available", **told, **self._runner(call.name)}

    def _runner(self, name: str) -> UIPart:
        """No tool of ours is known to the client by type; its own ones are those that it named."""
        return {"dynamic": True} if name in self._client.tools else {"dynamic": True, "providerExecuted": True}

    def _show(self, call_id: str) -> list[UIPart]:
        """The call of an id, if the client does not know it yet: it throws on an id that it does not know."""
        if call_id in self._made or call_id in self._client.shown:
            return []
        self._made.add(call_id)
        self._pending.add(call_id)
        return [self._input(self._client.waiting.get(call_id) or ToolCall(call_id=call_id, name="unknown"))]

    def _result(self, event: ToolReturned) -> list[UIPart]:
        call_id = event.call_id
        shown = self._show(call_id)
        # Version 5 looks for the call among the dynamic ones, or among all others, as the result says.
        ran: UIPart = {"dynamic": True} if call_id in self._made or self._client.shown[call_id] else {}
        ran["providerExecuted"] = True
        self._made.add(call_id)  # Wherever it was made: what comes by this id now is another one.
        self._pending.discard(call_id)
        self._answered = True
        told = self._told(call_id)
        if not event.is_error:
            return [*shown, {"type": "tool-output-available", "toolCallId": told, "output": event.output, **ran}]
        text = event.output if isinstance(event.output, str) else json.encode(event.output).decode()
        return [*shown, {"type": "tool-output-error", "toolCallId": told, "errorText": text, **ran}]

    # Parts that come whole

    def _added(self, event: PartAdded) -> list[UIPart]:
        part = event.part
        if part is None:
            return []
        if event.transient:
            name, value = _data_fields(part)
            return [{"type": f"data-{name}", "data": value, "transient": True}]
        match part:
            case Data(name=name, value={"id": str(given), "call_id": str(call_id)}) if self._asks(name, call_id):
                return self._ask(call_id, given)
            case Refusal(text=text):
                said = self._whole_text(event.item, text, **_palaver_metadata(refusal=True))
            case File(url=str() as url):
                said = [{"type": "file", "url": url, "mediaType": part.media_type}]
            case File(data=str() as data):
                url = f"data:{part.media_type};base64,{data}"
                said = [{"type": "file", "url": url, "mediaType": part.media_type}]
            case _:
                name, value = _data_fields(part)
                if name == "output":
                    self._output = value
                said = [{"type": f"data-{name}", "id": event.item, "data": value}]
        return [*self._next_step(), *said]

    def _asks(self, name: str, call_id: str) -> bool:
        """Is it a question about a call that waits, and a client that can ask it?"""
        if name != APPROVAL_REQUEST or self._client.version < _APPROVALS_VERSION:
            return False
        return call_id in self._pending or (call_id not in self._made and call_id in self._client.waiting)

    def _ask(self, call_id: str, approval: str) -> list[UIPart]:
        request = {"type": "tool-approval-request", "approvalId": approval, "toolCallId": self._told(call_id)}
        if call_id in self._asked:
            self._asked[call_id].append(request)  # Its input would wipe the question out.
            return []
        return [*self._show(call_id), request]


def _palaver_metadata(**notes: Any) -> UIPart:
    """Notes of ours that the client keeps with a part and sends back with it."""
    return {"providerMetadata": {"palaver": notes}}


def _sources(event: TextEnded) -> list[UIPart]:
    sources: list[UIPart] = []
    for number, note in enumerate(event.annotations, 1):
        source = f"{event.item}.s{number}"
        if note.kind == "url" and note.url is not None:
            titled = {} if note.title is None else {"title": note.title}
            sources.append({"type": "source-url", "sourceId": source, "url": note.url, **titled})
        elif note.kind == "file":
            told = {"mediaType": "application/octet-stream", "title": note.title or note.file_id or ""}
            named = {} if note.title is None else {"filename": note.title}
            sources.append({"type": "source-document", "sourceId": source, **told, **named})
    return sources


def _data_fields(part: Data | File | Refusal) -> tuple[str, Any]:
    """A part that has no shape of its own here, by name and value."""
    match part:
        case Data(name=name, value=value):
            return name, value
        case _:
            told = cast("UIPart", msgspec.to_builtins(part))
            return told.pop("type"), told


def _usage_fields(usage: Usage) -> dict[str, int]:
    told = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.total_tokens,
        "cachedInputTokens": usage.cached_input_tokens,
        "reasoningTokens": usage.reasoning_tokens,
    }
    return {name: count for name, count in told.items() if count is not None}


def encode_ui_message(events: Sequence[Event], client: UIRequest) -> UIPart:
    """The UI message of a run: all of it, and nothing of a message that was there before."""
    writer = UIStreamEncoder(msgspec.structs.replace(client, message=None, shown={}))
    return join_ui_parts(part for event in events for part in writer.parts(event))


def join_ui_parts(parts: Iterable[UIPart]) -> UIPart:
    """The message that the parts of one stream amount to."""
    whole: UIPart = {"id": "", "role": "assistant", "metadata": {}, "parts": []}
    said: list[UIPart] = whole["parts"]
    open_texts: dict[str, UIPart] = {}
    tools: dict[str, UIPart] = {}
    for part in parts:
        match part["type"]:
            case "start":
                whole["id"] = part["messageId"]
                whole["metadata"] |= part["messageMetadata"]
            case "finish":
                whole["metadata"] |= part.get("messageMetadata", {})
            case "start-step":
                said.append({"type": "step-start"})
            case "text-start" | "reasoning-start" as kind:
                text = {
                    "type": kind.removesuffix("-start"),
                    "text": "",
                    "state": "streaming",
                    **_provider_metadata(part),
                }
                open_texts[part["id"]] = text
                said.append(text)
            case "text-delta" | "reasoning-delta":
                open_texts[part["id"]]["text"] += part["delta"]
            case "text-end" | "reasoning-end":
                open_texts.pop(part["id"]).update({"state": "done"}, **_provider_metadata(part))
            case "source-url" | "source-document" | "file":
                said.append(part)
            case "tool-input-start" | "tool-input-available" | "tool-input-error":
                if part["toolCallId"] not in tools:
                    tools[part["toolCallId"]] = tool = {"type": "dynamic-tool"}
                    said.append(tool)
                tools[part["toolCallId"]] |= _tool_fields(part)
            case "tool-output-available" | "tool-output-error" | "tool-approval-request":
                tools[part["toolCallId"]].pop("errorText", None)  # Of arguments that were no JSON.
                tools[part["toolCallId"]] |= _tool_fields(part)
            case str(kind) if kind.startswith("data-") and not part.get("transient"):
                said.append(part)
            case _:
                pass  # Ends of steps, of the stream, and what is shown and not kept.
    return whole


_STATES = {
    "tool-input-start": "input-streaming",
    "tool-input-available": "input-available",
    "tool-input-error": "output-error",
    "tool-approval-request": "approval-requested",
    "tool-output-available": "output-available",
    "tool-output-error": "output-error",
}


def _tool_fields(part: UIPart) -> UIPart:
    """What one part says of a call."""
    names = ("toolName", "toolCallId", "input", "output", "errorText", "providerExecuted")
    told: UIPart = {"state": _STATES[part["type"]]} | {name: part[name] for name in names if name in part}
    if "approvalId" in part:
        told["approval"] = {"id": part["approvalId"]}
    return told


def _provider_metadata(part: UIPart) -> dict[str, Any]:
    return {"providerMetadata": part["providerMetadata"]} if "providerMetadata" in part else {}
