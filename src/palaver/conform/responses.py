"""Check Responses streams in both profiles, from `response.created` to the terminal frame, and complete bodies."""

from collections.abc import Collection
from typing import Any

from palaver.conform.findings import Findings, as_object, list_in, number_in, object_in, quote, text_in
from palaver.conform.frames import Frame
from palaver.conform.response_items import ItemChecker, check_item, check_output, check_response

_LIFECYCLE = ("created", "queued", "in_progress", "completed", "failed", "incomplete")
_TERMINAL = ("completed", "failed", "incomplete")
_PALAVER_EVENTS = ("palaver:data", "palaver:file")


class ResponsesChecker:
    """Checks one run. `history` holds the ids of calls in the input without a result."""

    def __init__(self, findings: Findings, *, history: Collection[str] = ()) -> None:
        self._add = findings.add
        self._findings = findings
        self._items = ItemChecker(findings, history)
        self._has_created = False
        self._id: str | None = None
        self._next_number = 0
        self._error_frame: Frame | None = None
        self._previous_type = ""
        self._typed_count = 0
        self.terminal: dict[str, Any] | None = None
        """The response object of the terminal frame."""
        self._ended = False

    def feed(self, frame: Frame) -> None:
        value = frame.value
        if value is None:
            return
        kind = text_in(value, "type")
        if kind is None:
            self._check_untyped(frame, value)
            return
        if self._ended:
            self._add("I3", frame, "frame after the terminal frame")
        self._check_number(frame, value)
        if not self._typed_count and kind != "response.created":
            self._add("I1", frame, "the first frame is not response.created")
        self._typed_count += 1
        self._check_event(frame, kind, value)
        self._previous_type = kind

    def end(self, after_last: Frame) -> None:
        if not self._typed_count:
            self._add("I1", after_last, "missing response.created")
        if not self._ended:
            self._items.end(after_last)
            self._add("I3", after_last, "the stream ends without response.completed, .failed or .incomplete")

    def _check_event(self, frame: Frame, kind: str, value: dict[str, Any]) -> None:
        event = kind.removeprefix("response.")
        if kind == "error":
            self._check_error(frame, value)
        elif kind == "responses.completed":
            self._check_mlflow_completed(frame, value)
        elif event == kind:
            if self._findings.protocol == "responses" or kind not in _PALAVER_EVENTS:
                self._add("I14", frame, f"unknown event type {quote(kind)}")
        elif event in _LIFECYCLE:
            self._check_lifecycle(frame, event, value)
        elif event.startswith("output_item.") or "item_id" in value:
            self._items.feed(frame, event, value)
        else:
            self._add("I1", frame, f"{kind} does not belong to an item")

    def _check_number(self, frame: Frame, value: dict[str, Any]) -> None:
        number = number_in(value, "sequence_number")
        if number != self._next_number:
            self._add("I4", frame, f"sequence_number is {quote(value.get('sequence_number'))}, not {self._next_number}")
        self._next_number = (self._next_number if number is None else number) + 1

    def _check_untyped(self, frame: Frame, value: dict[str, Any]) -> None:
        if value.keys() != {"trace_id"} or not isinstance(value["trace_id"], str):
            self._add("F3", frame, f"type is {quote(value.get('type'))}, not a string")
        elif not self._ended:
            self._add("I1", frame, "trace frame before the terminal frame")

    def _check_lifecycle(self, frame: Frame, event: str, value: dict[str, Any]) -> None:
        if event == "created":
            if self._has_created:
                self._add("I1", frame, "second response.created")
            self._has_created = True
        body = object_in(value, "response")
        if body is None:
            self._add("F3", frame, f"response is {quote(value.get('response'))}, not an object")
            body = {}
        else:
            check_response(self._findings, frame, body, event)
            self._check_id(frame, body)
        if event in _TERMINAL:
            self._check_terminal(frame, event, body)

    def _check_id(self, frame: Frame, body: dict[str, Any]) -> None:
        response_id = text_in(body, "id")
        self._id = self._id or response_id
        if response_id != self._id:
            self._add("I2", frame, f"response id changed from {quote(self._id)} to {quote(response_id)}")

    def _check_terminal(self, frame: Frame, event: str, body: dict[str, Any]) -> None:
        if self._ended:
            return  # Already reported as a frame after the end.
        self._ended, self.terminal = True, body
        self._items.end(frame)
        if (output := list_in(body, "output")) is not None:
            check_output(self._findings, frame, output, self._items.finished)
        if (event == "failed") != (self._error_frame is not None):
            self._add(
                "I13",
                frame,
                "no error frame before response.failed"
                if event == "failed"
                else f"error frame before response.{event}",
            )
        if self._findings.protocol == "invocations" and self._previous_type != "responses.completed":
            self._add("I17b", frame, "no responses.completed directly before the terminal frame")

    def _check_error(self, frame: Frame, value: dict[str, Any]) -> None:
        self._error_frame = frame
        nested = object_in(value, "error")
        if text_in(value, "message") is None and text_in(nested or {}, "message") is None:
            self._add("F3", frame, "the error has no message")
            return
        fields = ("code", "message", "param")
        if not value.keys() >= set(fields) or nested is None or any(nested.get(key) != value[key] for key in fields):
            self._add("I13b", frame, "the top-level and the nested error fields are missing or differ")

    def _check_mlflow_completed(self, frame: Frame, value: dict[str, Any]) -> None:
        if self._findings.protocol == "responses":
            self._add("I14", frame, "responses.completed is only known on invocations")
            return
        if self._previous_type == "responses.completed":
            self._add("I17b", frame, "second responses.completed in a row")
        body = object_in(value, "response") or {}
        if object_in(body, "usage") is None or text_in(body, "status") is None:
            self._add("I17", frame, f"usage or status is missing: {quote(body)}")


def check_response_body(findings: Findings, body: Any, terminal: dict[str, Any] | None, *, same_run: bool) -> None:
    """Check a response that was not streamed; `terminal` is the response object that ended a stream, if any."""
    value = as_object(body)
    if value is None:
        findings.add("F3", None, f"the body is {quote(body)}, not an object")
        return
    if terminal is not None and terminal.get("status") == "failed" and same_run:
        if value.get("response_id") != terminal.get("id") or "error" not in value:
            findings.add("I16", None, f"the run failed, but the body does not report its error: {quote(value)}")
        return
    check_response(findings, None, value, "whole")
    output = list_in(value, "output") or []
    for item in output:
        if (item_object := as_object(item)) is not None and text_in(item_object, "type") is not None:
            check_item(findings, None, item_object)
        else:
            findings.add("F3", None, f"invalid item: {quote(item)}")
    if terminal is None:
        return
    if same_run:
        if value != terminal:
            findings.add("I16", None, _body_difference(value, terminal))
    else:
        _compare_loosely(findings, value, terminal)


def _body_difference(body: dict[str, Any], terminal: dict[str, Any]) -> str:
    keys = sorted(body.keys() | terminal.keys())
    differing = [key for key in keys if (key in body, body.get(key)) != (key in terminal, terminal.get(key))]
    return f"body and terminal response differ in {quote(differing)}"


def _compare_loosely(findings: Findings, body: dict[str, Any], terminal: dict[str, Any]) -> None:
    """Compare two runs of one prompt: text and the number of items may differ."""
    items, streamed = list_in(body, "output") or [], list_in(terminal, "output") or []
    if bool(items) != bool(streamed):
        findings.add("I16", None, f"items in output: {len(items)}, in the output of the stream: {len(streamed)}")
    if unshared := sorted(body.keys() ^ terminal.keys()):
        findings.add("I16b", None, f"only one of body and stream has {quote(unshared)}")
    body_keys, stream_keys = _keys_by_type(items), _keys_by_type(streamed)
    for kind in sorted(body_keys.keys() & stream_keys.keys()):
        if unshared := sorted(body_keys[kind] ^ stream_keys[kind]):
            findings.add("I16b", None, f"only one of body and stream has {quote(unshared)} in {kind} items")


def _keys_by_type(items: list[Any]) -> dict[str, set[str]]:
    return {kind: set(item) for item in items if (kind := text_in(as_object(item) or {}, "type")) is not None}
