"""Check AI SDK UI message streams: U1 to U12, for clients of version 5, 6 or 7."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from palaver.conform.findings import Findings, quote, text_in
from palaver.conform.frames import Frame
from palaver.core import json

Version = Literal[5, 6, 7]

# The required fields of each part, as in the SDK's schema. `any`: the field must exist, with any value.
_DELTA_FIELDS = {"id": "str", "delta": "str"}
_OUTPUT = {"toolCallId": "str"}
_FIELDS: Mapping[str, Mapping[str, str]] = {
    "start": {},
    "finish": {},
    "start-step": {},
    "finish-step": {},
    "abort": {},
    "message-metadata": {"messageMetadata": "any"},
    "error": {"errorText": "str"},
    "text-start": {"id": "str"},
    "text-delta": _DELTA_FIELDS,
    "text-end": {"id": "str"},
    "reasoning-start": {"id": "str"},
    "reasoning-delta": _DELTA_FIELDS,
    "reasoning-end": {"id": "str"},
    "tool-input-start": {"toolCallId": "str", "toolName": "str"},
    "tool-input-delta": {"toolCallId": "str", "inputTextDelta": "str"},
    "tool-input-available": {"toolCallId": "str", "toolName": "str", "input": "any"},
    "tool-input-error": {"toolCallId": "str", "toolName": "str", "input": "any", "errorText": "str"},
    "tool-output-available": {"toolCallId": "str", "output": "any"},
    "tool-output-error": {"toolCallId": "str", "errorText": "str"},
    "source-url": {"sourceId": "str", "url": "str"},
    "source-document": {"sourceId": "str", "mediaType": "str", "title": "str"},
    "file": {"url": "str", "mediaType": "str"},
}
_SINCE_6 = {"tool-approval-request": {"approvalId": "str", "toolCallId": "str"}, "tool-output-denied": _OUTPUT}
_SINCE_7: Mapping[str, Mapping[str, str]] = {
    "custom": {},
    "reset-step": {},
    "reasoning-file": {},
    "steering-message": {},
    "citations": {},
}
_FINISH_REASONS = ("stop", "length", "content-filter", "tool-calls", "error", "other", "unknown")
_OUTSIDE_STEP = ("start", "finish", "start-step", "abort", "error", "message-metadata")
"""Parts that may be outside of a step, as data parts may."""
_STARTS = ("text-start", "reasoning-start", "tool-input-start")
_Stage = Literal["streaming", "available", "answered"]


@dataclass
class _Tool:
    step: int
    stage: _Stage
    name: str | None = None
    input_text: str = ""
    is_from_history: bool = False
    """A call of the history: it may get its result here, and its id may be reused."""


class UIChecker:
    """Checks one UI message. `history` holds the ids of calls in the request's last message."""

    def __init__(self, findings: Findings, *, version: Version = 6, history: Collection[str] = ()) -> None:
        self._add = findings.add
        self._version = version
        self._fields = {**_FIELDS, **(_SINCE_6 if version >= 6 else {}), **(_SINCE_7 if version >= 7 else {})}
        self._part_count = 0
        self._ended = False
        self._in_step = False
        self._step = 0
        self._answered_in_step = False
        self._failed = False
        self._open: set[tuple[str, str]] = set()
        self._closed: set[tuple[str, str]] = set()
        self._tools = {call: _Tool(step=0, stage="available", is_from_history=True) for call in history}

    def feed(self, frame: Frame) -> None:
        value = frame.value
        if value is None:
            return
        kind = text_in(value, "type")
        if kind is None:
            self._add("F3", frame, f"type is {quote(value.get('type'))}, not a string")
            return
        if self._ended:
            self._add("U3", frame, "part after finish or abort")
        if (self._part_count == 0) != (kind == "start"):
            self._add("U2", frame, "second start" if kind == "start" else "the first part is not start")
        self._part_count += 1
        if self._has_required_fields(frame, kind, value):
            self._check_step(frame, kind)
            self._check_part(frame, kind, value)

    def end(self, after_last: Frame) -> None:
        if not self._ended:
            self._report_and_close_open(after_last, "the end of the stream")
            self._add("U3", after_last, "the stream ends without finish or abort")

    def _has_required_fields(self, frame: Frame, kind: str, value: dict[str, Any]) -> bool:
        """Whether it has the required fields of its type. Unknown and malformed parts are not checked further."""
        if kind.startswith("data-"):
            needed: Mapping[str, str] = {"data": "any"}
        elif kind in self._fields:
            needed = self._fields[kind]
        else:
            self._add("U1", frame, f"clients of version {self._version} don't know type {quote(kind)}")
            return False
        faulty = [
            name
            for name, field_type in needed.items()
            if name not in value or (field_type == "str" and type(value[name]) is not str)
        ]
        if faulty:
            self._add("F3", frame, f"missing or invalid fields: {', '.join(faulty)}")
        return not faulty

    def _check_step(self, frame: Frame, kind: str) -> None:
        if not self._in_step and kind not in _OUTSIDE_STEP and not kind.startswith("data-"):
            self._add("U4", frame, "part outside a step")
        # A pending call keeps its step open: its output must be in the same step (U8).
        if self._answered_in_step and kind in _STARTS and not self._has_pending_call():
            self._add("U9", frame, "part starts in a step that already has tool outputs")
            self._answered_in_step = False  # Reported once for each step.

    def _has_pending_call(self) -> bool:
        """Whether a call in this step has no output yet."""
        return any(tool.stage != "answered" for tool in self._tools.values() if tool.step == self._step)

    def _check_part(self, frame: Frame, kind: str, value: dict[str, Any]) -> None:
        match kind:
            case "start":
                if not text_in(value, "messageId"):
                    self._add("U2", frame, f"messageId is {quote(value.get('messageId'))}")
            case "start-step":
                if self._in_step:
                    self._add("U4", frame, "the previous step is not finished")
                self._in_step, self._answered_in_step = True, False
                self._step += 1
            case "finish-step":
                self._report_and_close_open(frame, kind)
                self._in_step = False
            case "error":
                self._report_and_close_open(frame, kind)
                self._failed = True
            case "finish" | "abort":
                self._check_last(frame, kind, value)
            case _ if kind.startswith("tool-"):
                self._check_tool(frame, kind, value)
            case _ if kind.startswith(("text-", "reasoning-")):
                self._check_text(frame, kind, value)
            case _:
                pass

    def _check_last(self, frame: Frame, kind: str, value: dict[str, Any]) -> None:
        self._ended = True
        self._report_and_close_open(frame, kind)
        for call, tool in self._tools.items():
            if tool.stage == "streaming":
                self._add("U7", frame, f"input of call {quote(call)} never became available")
        if kind == "abort":
            return
        if self._in_step:
            self._add("U4", frame, "the last step is not finished")
        reason = value.get("finishReason")
        if reason is not None and reason not in _FINISH_REASONS:
            self._add("U12", frame, f"unknown finishReason {quote(reason)}")
        elif self._failed and reason != "error":
            self._add("U11", frame, f"finishReason is {quote(reason)} after an error")

    def _report_and_close_open(self, frame: Frame, before: str) -> None:
        """Report text and reasoning that is still open, and close it."""
        for kind, identity in sorted(self._open):
            self._add("U6", frame, f"{kind} {quote(identity)} is still open at {before}")
        self._closed |= self._open
        self._open.clear()

    def _check_text(self, frame: Frame, kind: str, value: dict[str, Any]) -> None:
        content, _, verb = kind.partition("-")
        if verb not in ("start", "delta", "end"):
            return
        key = (content, value["id"])
        if verb == "start":
            if key in self._open:
                self._add("U5", frame, f"{content} {quote(key[1])} is already open")
            elif key in self._closed:
                self._add("U5b", frame, f"id {quote(key[1])} of {content} is reused")
            self._open.add(key)
        elif key not in self._open:
            self._add("U5", frame, f"no {content} {quote(key[1])} is open")
        elif verb == "end":
            self._open.remove(key)
            self._closed.add(key)

    def _check_tool(self, frame: Frame, kind: str, value: dict[str, Any]) -> None:
        call: str = value["toolCallId"]
        tool = self._tools.get(call)
        name = text_in(value, "toolName")
        if tool is not None and tool.name is not None and name not in (None, tool.name):
            self._add("U7", frame, f"tool name changed from {quote(tool.name)} to {quote(name)}")
        match kind:
            case "tool-input-start":
                if tool is not None and not tool.is_from_history:
                    self._add("U7", frame, f"input of call {quote(call)} has already started")
                self._tools[call] = _Tool(self._step, "streaming", name)
            case "tool-input-delta":
                if tool is None or tool.stage != "streaming":
                    self._add("U7", frame, f"input of call {quote(call)} is not being streamed")
                else:
                    tool.input_text += value["inputTextDelta"]
            case "tool-input-available" | "tool-input-error":
                self._check_input(frame, call, tool, value)
            case "tool-approval-request":
                if tool is None or tool.stage == "streaming":
                    self._add("U7", frame, f"unknown call {quote(call)}")
            case _:
                self._check_output(frame, call, tool, value)

    def _check_input(self, frame: Frame, call: str, tool: _Tool | None, value: dict[str, Any]) -> None:
        if tool is None or tool.is_from_history:
            self._tools[call] = _Tool(self._step, "available", text_in(value, "toolName"))
            return
        if tool.stage != "streaming":
            self._add("U7", frame, f"input of call {quote(call)} was already available")
            return
        tool.stage = "available"
        parsed_input = json.parse_or_text(tool.input_text) if tool.input_text else value["input"]
        if parsed_input != value["input"] and tool.input_text != value["input"]:
            self._add(
                "U10", frame, f"input is {quote(value['input'])}, but the deltas add up to {quote(tool.input_text)}"
            )

    def _check_output(self, frame: Frame, call: str, tool: _Tool | None, value: dict[str, Any]) -> None:
        if tool is None or tool.stage == "streaming":
            self._add("U7", frame, f"no call {quote(call)} with available input")
            return
        if tool.stage == "answered":
            self._add("U7", frame, f"call {quote(call)} already has an output")
        elif not tool.is_from_history and tool.step != self._step:
            rule = "U8" if self._version == 5 else "U8b"
            self._add(rule, frame, f"call {quote(call)} is in step {tool.step}, but its output is in step {self._step}")
        if value.get("preliminary") is not True:
            tool.stage = "answered"
            self._answered_in_step = True
