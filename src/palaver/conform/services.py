"""Check streams and documents of services: S1 to S12."""

import re
from collections.abc import Mapping
from typing import Any

from palaver.conform.findings import Findings, as_object, list_in, number_in, object_in, quote, text_in
from palaver.conform.frames import Frame, frame_value

_SIDE_EVENTS = ("log", "data", "complete", "error")
"""The events of a stream without `message_start`."""
_UNTYPED = (*_SIDE_EVENTS, "changes")
_BLOCKS = ("content_block_start", "content_block_delta", "content_block_stop")
_END = ("message_delta", "message_stop")
_NAMES = (*_UNTYPED, *_BLOCKS, *_END, "message_start", "tool_result")
_DELTAS: Mapping[str, tuple[str, str]] = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "tool_use": ("input_json_delta", "partial_json"),
}
_USAGE_FIELDS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_ERROR_TYPE = re.compile(r"[A-Z0-9_]+")


class ServiceChecker:
    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._add = findings.add
        self._frames = 0
        self._open: str | None = None
        """The kind of the open block."""
        self._index = -1
        self._end_count = 0
        """How many of the events in `_END` were received."""
        self._text = ""
        self.started = False
        self.ended = ""
        """The name of the last event, once received."""
        self.last_data: Any = None
        """The data of the last event."""

    def feed(self, frame: Frame) -> None:
        self._frames += 1
        name, value = frame.event, frame_value(frame)
        if self.ended:
            self._add("S6", frame, f"event after {self.ended}")
            return
        if name not in _NAMES:
            self._add("S1", frame, f"unknown event name {quote(name)}")
            return
        fields = as_object(value) or {}
        if name not in _UNTYPED and fields.get("type") != name:
            self._add("S2", frame, f"type is {quote(fields.get('type'))}, but the event is {quote(name)}")
        self._check_start(frame, name, fields)
        if self._end_count and name not in (*_END, "complete", "error"):
            self._add("S8", frame, f"{name} after message_delta")
        match name:
            case "content_block_start" | "content_block_delta" | "content_block_stop":
                self._check_block(frame, name, fields)
            case "message_delta" | "message_stop":
                self._check_message_end(frame, name, fields)
            case "complete" | "error":
                self._check_last(frame, name, value)
            case _:
                _check_fields(self._findings, frame, name, value)

    def end(self, after_last: Frame) -> None:
        if not self.ended:
            self._add("S6", after_last, "the stream ends without complete or error")

    def _check_start(self, frame: Frame, name: str, fields: dict[str, Any]) -> None:
        if name == "message_start":
            if self._frames > 1:
                self._add("S3", frame, "message_start is not the first event")
            elif not text_in(object_in(fields, "message") or {}, "id"):
                self._add("S3", frame, f"message has no id: {quote(fields.get('message'))}")
            self.started = True
        elif not self.started and name not in _SIDE_EVENTS:
            self._add("S3", frame, f"{name} without message_start")

    def _check_block(self, frame: Frame, name: str, fields: dict[str, Any]) -> None:
        index, is_start = number_in(fields, "index"), name == "content_block_start"
        if is_start == (self._open is not None):
            why = f"block {self._index} is still open" if is_start else "no block is open"
            self._add("S4", frame, why)
        elif index != (expected := self._index + 1 if is_start else self._index):
            self._add("S5", frame, f"index is {quote(fields.get('index'))}, not {expected}")
        if is_start:
            self._index += 1
            kind = text_in(object_in(fields, "content_block") or {}, "type")
            self._open = kind or ""
            if kind not in _DELTAS:
                self._add("F3", frame, f"unknown content block: {quote(fields.get('content_block'))}")
        elif name == "content_block_stop":
            self._open = None
        elif self._open is not None:
            self._check_delta(frame, self._open, fields)

    def _check_delta(self, frame: Frame, kind: str, fields: dict[str, Any]) -> None:
        delta = object_in(fields, "delta") or {}
        expected, key = _DELTAS.get(kind, (delta.get("type"), ""))
        piece = delta.get(key, "")
        if delta.get("type") != expected:
            self._add("S4", frame, f"{quote(delta.get('type'))} in a block of type {quote(kind)}")
        elif not isinstance(piece, str) or key not in (*delta, ""):
            self._add("F3", frame, f"invalid delta: {quote(delta)}")
        elif kind == "text":
            self._text += piece

    def _check_message_end(self, frame: Frame, name: str, fields: dict[str, Any]) -> None:
        if self._open is not None:
            self._add("S7", frame, f"block {self._index} is still open")
            self._open = None
        if self._end_count != _END.index(name):
            self._add("S8", frame, f"{name} is out of order")
        self._end_count = _END.index(name) + 1
        if name == "message_delta":
            reason = text_in(object_in(fields, "delta") or {}, "stop_reason")
            if reason is None or number_in(object_in(fields, "usage") or {}, "output_tokens") is None:
                self._add("F3", frame, "stop_reason or usage.output_tokens is missing")

    def _check_last(self, frame: Frame, name: str, value: Any) -> None:
        self.ended, self.last_data = name, value
        if self._open is not None:
            self._add("S7", frame, f"block {self._index} is still open")
        if name == "error":
            if self._end_count:
                self._add("S8", frame, "error after message_delta")
            _check_error(self._findings, frame, value)
        elif self.started:
            if self._end_count != len(_END):
                self._add("S8", frame, "no message_delta and message_stop before complete")
            if _check_document(self._findings, frame, value) and _without_whitespace(self._text) != _without_whitespace(
                value["response"]
            ):
                self._add("S11", frame, f"the response differs from the joined deltas: {quote(self._text)}")


def _check_fields(findings: Findings, frame: Frame, name: str, value: Any) -> None:
    fields = as_object(value) or {}
    is_valid = {
        "log": isinstance(value, str),
        "changes": text_in(fields, "code") is not None,
        "data": text_in(fields, "name") is not None and "value" in fields,
        "tool_result": text_in(fields, "call_id") is not None and fields.keys() >= {"output", "is_error"},
    }
    if not is_valid.get(name, True):
        findings.add("F3", frame, f"invalid data of {name}: {quote(value)}")


def _check_error(findings: Findings, frame: Frame | None, value: Any) -> None:
    fields = as_object(value) or {}
    error_type = text_in(fields, "type") or ""
    has_details = "details" not in fields or object_in(fields, "details") is not None
    if (
        number_in(fields, "code") is None
        or not _ERROR_TYPE.fullmatch(error_type)
        or not text_in(fields, "message")
        or not has_details
    ):
        findings.add("S9", frame, f"invalid error: {quote(value)}")


def _check_document(findings: Findings, frame: Frame | None, value: Any) -> bool:
    """Check a chat's document; return whether it has a response."""
    fields = as_object(value) or {}
    response, usage = text_in(fields, "response"), object_in(fields, "usage") or {}
    turns = list_in(fields, "history") or [None]
    has_counts = all(number_in(usage, name) is not None for name in _USAGE_FIELDS)
    has_last_turn = turns[-1] == {"role": "assistant", "content": response}
    if response is None or not has_counts or not has_last_turn or object_in(fields, "meta") is None:
        findings.add("S10", frame, f"invalid document: {quote(value)}")
    return response is not None


def _without_whitespace(text: str) -> str:
    return "".join(text.split())


def check_service_body(findings: Findings, body: Any, checker: ServiceChecker | None, *, same_run: bool) -> None:
    """Check a document that was not streamed; `checker` has read the stream, if there was one."""
    if checker is None or not checker.ended:
        return
    if same_run:
        if body != checker.last_data:
            findings.add("S12", None, f"body is {quote(body)}, but {checker.ended} has {quote(checker.last_data)}")
    elif checker.started and checker.ended == "complete" and _check_document(findings, None, body):
        document: dict[str, Any] = as_object(checker.last_data) or {}
        if bool(body["response"]) != bool(document.get("response")):
            findings.add("S12", None, "only one of body and stream has text")
