"""The spans of a run: one for the run, and one for each tool whose result was seen.

A run's events are folded first: an answer of ten thousand deltas is one attribute. The record's fields are filled
directly, with the same values that reading the attributes by convention would give. No I/O: times and ids come from
`RunFacts`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from palaver.core import json, secret_mask
from palaver.core.dialects import gen_ai
from palaver.core.events import (
    TERMINAL_EVENTS,
    TOOL_EVENTS,
    RunFailed,
    RunStarted,
    TerminalEvent,
    ToolEnded,
    ToolReturned,
    ToolStarted,
)
from palaver.core.fold import fold
from palaver.core.ids import truncate_id
from palaver.core.messages import File, Message, ToolCall, Usage
from palaver.core.runs import Call, RecordMode, Reply, interruption_events
from palaver.traces.conventions.messages import find_messages
from palaver.traces.model import Span, SpanEvent, SpanException, SpanStatus, Tool
from palaver.traces.otlp.limits import MAX_SPAN_BYTES, MAX_TEXT_BYTES
from palaver.traces.run_facts import NO_PARENT_ID, RunFacts, effective_record

MAX_CONTENT_BYTES = MAX_SPAN_BYTES // 4
"""Maximum size of a value as JSON. A larger one is dropped; one above MAX_TEXT_BYTES is stored as a field only."""

_MESSAGES_TYPE = tuple[Message, ...]


class SpanAttributes:
    """The attributes of one span: labels always, contents (messages, inputs, parameters, values) only where recorded.

    Contents are bounded and never hold secrets that the caller passed to the run. What is left out is noted.
    """

    __slots__ = ("_dropped_bytes", "_is_full", "_notes", "_secrets", "attributes")

    def __init__(self, call: Call, record: RecordMode) -> None:
        self.attributes: dict[str, Any] = {}
        self._is_full = record == "full"
        self._secrets = [secret.reveal() for secret in call.secrets.values()] if call.secrets else ()
        self._notes: dict[str, None] = {}
        self._dropped_bytes = 0

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self._notes)

    @property
    def dropped(self) -> dict[str, int]:
        return {"bytes": self._dropped_bytes} if self._dropped_bytes else {}

    def set_label(self, name: str, value: Any) -> None:
        """Set an attribute that is not content, unless the value is None."""
        if value is not None:
            self.attributes[name] = value

    def set_json(self, name: str, value: Any) -> Any:
        """Set a JSON attribute; return the recorded value, or None."""
        if not self._is_full:
            return None
        value = self._mask_secrets(value)
        try:
            text = json.encode(value)
        except Exception:  # Python callers may pass values that JSON can't encode.
            try:
                value = json.to_builtins(value)
            except json.NotJson:
                self._notes[f"unwritable:{name}"] = None
                return None
            text = json.encode(value)
        return value if self._set_if_short(name, text) else None

    def set_text(self, name: str, value: Any) -> Any:
        """Like `set_json`, but a string is not encoded again; returns its parsed JSON if it is JSON."""
        if not isinstance(value, str):
            return self.set_json(name, value)
        if not self._is_full:
            return None
        text = self._mask_secrets(json.replace_surrogates(value))
        return json.parse_or_text(text) if self._set_if_short(name, text.encode()) else None

    def set_messages(self, name: str, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Set messages in gen_ai's format, without their sender's ids; return the recorded ones."""
        if not messages or not self._is_full:
            return ()
        recorded = tuple([Message(message.role, tuple(message.parts), None, message.name) for message in messages])
        try:
            if self._secrets:
                recorded = _convert_messages(self._mask_secrets(msgspec.to_builtins(recorded)))
            try:
                text = _encode_messages(recorded)
            except Exception:  # Values that JSON can't encode.
                recorded = _convert_messages(json.to_builtins(recorded))
                text = _encode_messages(recorded)
        except (json.NotJson, msgspec.ValidationError, TypeError):
            self._notes[f"unwritable:{name}"] = None
            return ()
        if len(text) > MAX_TEXT_BYTES and (without_files := _without_file_data(recorded)) is not None:
            # Drop file data first: it is usually what exceeds the limit, and the text matters more.
            self._dropped_bytes += len(text)
            self._notes[f"cut:{name}"] = None
            recorded, text = without_files, _encode_messages(without_files)
            self._dropped_bytes -= len(text)
        return recorded if self._set_if_short(name, text) else ()

    def _mask_secrets(self, value: Any) -> Any:
        return secret_mask.mask_values(value, self._secrets) if self._secrets else value

    def _set_if_short(self, name: str, text: bytes) -> bool:
        """Set the attribute if it is short enough; return whether the value is small enough for the span's field."""
        if len(text) <= MAX_TEXT_BYTES:
            self.attributes[name] = text.decode()
            return True
        self._notes[f"cut:{name}"] = None
        if len(text) <= MAX_CONTENT_BYTES:
            return True
        self._dropped_bytes += len(text)
        return False


def _encode_messages(messages: Sequence[Message]) -> bytes:
    return json.encode(gen_ai.write(messages))


def _convert_messages(value: Any) -> tuple[Message, ...]:
    return msgspec.convert(value, _MESSAGES_TYPE)


def _without_file_data(messages: Sequence[Message]) -> tuple[Message, ...] | None:
    """Return the messages without file data; None if no file has data."""
    if not any(type(part) is File and part.data for message in messages for part in message.parts):
        return None
    return tuple(
        Message(
            message.role,
            tuple(
                msgspec.structs.replace(part, data="") if type(part) is File and part.data else part
                for part in message.parts
            ),
            None,
            message.name,
        )
        for message in messages
    )


SERVICE_NAME = "palaver"
NOTE_UNTIMED = "untimed"
"""Note on a tool span whose start time is unknown."""

NOTE_STEPS_CUT = "cut:steps"
"""Note on a run with more steps than are recorded."""

_STATUS_BY_FINISH: Mapping[str, SpanStatus] = {"cancelled": "cancelled", "interrupted": "incomplete"}
_MILLISECOND = timedelta(milliseconds=1)


def build_run_spans(facts: RunFacts, content: RecordMode = "full") -> list[Span]:
    """Build the run's span, then tool spans in the order of their results; none if nothing is recorded."""
    record = effective_record(facts.call, content)
    if record == "off":
        return []
    events = facts.events
    if not isinstance(events[-1], TERMINAL_EVENTS):
        events = [*events, *interruption_events(events, facts.ended_at)]
    started, last = events[0], events[-1]
    assert isinstance(started, RunStarted)
    assert isinstance(last, TERMINAL_EVENTS)
    root = _run_span(facts, started, last, fold(events), SpanAttributes(facts.call, record))
    executions = _unreported_executions(facts)
    tool_spans = [_tool_span(execution, root, facts, SpanAttributes(facts.call, record)) for execution in executions]
    return [root, *tool_spans]


# The run


def _run_span(
    facts: RunFacts, started: RunStarted, last: TerminalEvent, reply: Reply, span_attributes: SpanAttributes
) -> Span:
    call, origin, usage = facts.call, facts.origin, reply.usage
    start = started.at or facts.ended_at
    failed = last if isinstance(last, RunFailed) else None
    span_attributes.set_label("gen_ai.operation.name", "invoke_workflow")
    span_attributes.set_label("gen_ai.workflow.name", facts.workflow)
    span_attributes.set_label("gen_ai.conversation.id", started.session)
    inputs, parameters, value, messages_in, messages_out = _set_contents(facts, reply, span_attributes)
    set_usage(usage, span_attributes)
    span_attributes.set_label("gen_ai.response.finish_reasons", [reply.finish])
    if facts.first_output_at is not None:
        span_attributes.set_label(
            "gen_ai.response.time_to_first_chunk", (facts.first_output_at - start).total_seconds()
        )
    span_attributes.set_label("error.type", failed.code if failed else None)
    span_attributes.set_label("palaver.run.id", started.run_id)
    span_attributes.set_label("palaver.project", origin.project)
    span_attributes.set_label("palaver.protocol", origin.protocol or None)
    span_attributes.set_label("palaver.is_chat", facts.is_chat)
    span_attributes.set_label("palaver.user", call.user)
    span_attributes.set_label("palaver.cost", usage.cost if usage else None)
    span_attributes.set_label("palaver.finish", reply.finish)
    span_attributes.set_label("palaver.disconnected", True if facts.disconnected_at else None)
    span_attributes.set_label("palaver.variant", origin.variant)
    span_attributes.set_label("palaver.key", origin.key)
    return Span(
        trace_id=started.trace_id,
        span_id=started.span_id or derive_span_id(started.run_id),
        parent_id=_caller_span_id(call),
        project=origin.project,
        name=f"invoke_workflow {facts.workflow}",
        kind="workflow",
        status=_STATUS_BY_FINISH.get(reply.finish) or ("error" if failed else "ok"),
        status_message=failed.message if failed else "",
        start=start,
        duration_ms=elapsed_ms(start, last.at or facts.ended_at),
        messages_in=messages_in,
        messages_out=messages_out,
        inputs=inputs,
        outputs=value,
        parameters=parameters or {},
        usage=msgspec.structs.replace(usage, cost=None) if usage else None,
        cost=usage.cost if usage else None,
        cost_source="reported" if usage and usage.cost is not None else None,
        finish=reply.finish,
        session=started.session or None,
        user=call.user or None,
        workflow=facts.workflow,
        run_id=started.run_id,
        exception=SpanException(type=failed.code, message=failed.message) if failed else None,
        service=SERVICE_NAME,
        scope=SERVICE_NAME,
        conventions=("palaver", "gen_ai"),
        attributes=span_attributes.attributes,
        events=(*_disconnect_events(facts), *((_exception_event(failed),) if failed else ())),
        dropped=span_attributes.dropped,
        notes=(*span_attributes.notes, NOTE_STEPS_CUT) if facts.has_dropped_steps else span_attributes.notes,
    )


def _set_contents(
    facts: RunFacts, reply: Reply, span_attributes: SpanAttributes
) -> tuple[Any, Any, Any, tuple[Message, ...], tuple[Message, ...]]:
    """Set and return inputs, parameters, value, and the messages of both sides, as far as they are recorded."""
    call, is_chat = facts.call, facts.is_chat
    messages_in = span_attributes.set_messages("gen_ai.input.messages", call.messages if is_chat else ())
    # A workflow that is not a chat shows its messages only if it returned no value.
    shows_messages = is_chat or reply.value is UNSET
    messages_out = span_attributes.set_messages("gen_ai.output.messages", reply.messages if shows_messages else ())
    inputs = span_attributes.set_json("palaver.inputs", dict(call.inputs)) if call.inputs or not is_chat else None
    parameters = span_attributes.set_json("palaver.parameters", dict(call.parameters)) if call.parameters else None
    value = None if reply.value is UNSET else span_attributes.set_json("palaver.value", reply.value)
    return (
        inputs,
        parameters,
        value,
        messages_in or find_messages(inputs, "input"),
        messages_out or find_messages(value, "output"),
    )


def set_usage(usage: Usage | None, span_attributes: SpanAttributes) -> None:
    if usage is not None:
        span_attributes.set_label("gen_ai.usage.input_tokens", usage.input_tokens)
        span_attributes.set_label("gen_ai.usage.output_tokens", usage.output_tokens)
        span_attributes.set_label("gen_ai.usage.cache_read.input_tokens", usage.cached_input_tokens)
        span_attributes.set_label("gen_ai.usage.cache_creation.input_tokens", usage.cache_creation_input_tokens)
        span_attributes.set_label("gen_ai.usage.reasoning.output_tokens", usage.reasoning_tokens)


def _caller_span_id(call: Call) -> str | None:
    _, _, parent, *_ = f"{call.trace_parent or ''}---".split("-")
    return parent if parent and parent != NO_PARENT_ID else None


def _disconnect_events(facts: RunFacts) -> tuple[SpanEvent, ...]:
    """Return an event for the client's disconnection, which stopped the run or left its end unseen."""
    return () if facts.disconnected_at is None else (SpanEvent("palaver.disconnected", facts.disconnected_at, {}),)


def _exception_event(failed: RunFailed) -> SpanEvent:
    return SpanEvent("exception", failed.at, {"exception.type": failed.code, "exception.message": failed.message})


# Tools of the run


class _ToolExecution(NamedTuple):
    """A tool call and its result. A call made by an earlier run has no start time."""

    call: ToolCall
    started_at: datetime | None
    returned: ToolReturned


def _tool_executions(facts: RunFacts) -> Iterator[_ToolExecution]:
    times = facts.times
    started: dict[str, ToolStarted] = {}
    ended: dict[str, ToolEnded] = {}
    item_by_call_id: dict[str, str] = {}
    for event in [event for event in facts.events if type(event) in TOOL_EVENTS]:
        if type(event) is ToolStarted:
            started[event.item], item_by_call_id[event.call_id] = event, event.item
        elif type(event) is ToolEnded:
            ended[event.item] = event
        elif type(event) is ToolReturned:
            if (item := item_by_call_id.get(event.call_id)) is None:
                if (earlier_call := _find_call(facts.call, event.call_id)) is not None:
                    yield _ToolExecution(earlier_call, None, event)
                continue
            call = ToolCall(event.call_id, started[item].name, ended[item].arguments)
            started_at, returned_at = times.get(ended[item].seq), times.get(event.seq)
            if started_at is returned_at:  # Still open when the result arrived: use the time at which it was opened.
                started_at = times.get(started[item].seq)
            yield _ToolExecution(call, started_at, event)


def _unreported_executions(facts: RunFacts) -> Iterator[_ToolExecution]:
    """Yield executions that no instrumentation reported. A reported tool without a call id matches by name."""
    calls = {truncate_id(reported.call_id) for reported in facts.reported_tools if reported.call_id}
    names = Counter(reported.name for reported in facts.reported_tools if not reported.call_id)
    for execution in _tool_executions(facts):
        if execution.returned.call_id in calls:
            continue
        if names[execution.call.name]:
            names[execution.call.name] -= 1
            continue
        yield execution


def _find_call(call: Call, call_id: str) -> ToolCall | None:
    calls = (part for message in reversed(call.messages) for part in message.tool_calls)
    return next((part for part in calls if truncate_id(part.call_id) == call_id), None)


def _tool_span(execution: _ToolExecution, root: Span, facts: RunFacts, span_attributes: SpanAttributes) -> Span:
    call, returned = execution.call, execution.returned
    returned_at = facts.times.get(returned.seq)
    start = execution.started_at or returned_at or root.start
    span_attributes.set_label("gen_ai.operation.name", "execute_tool")
    span_attributes.set_label("gen_ai.conversation.id", root.session)
    span_attributes.set_label("gen_ai.tool.name", call.name)
    span_attributes.set_label("gen_ai.tool.call.id", returned.call_id)
    span_attributes.set_label("error.type", "tool_error" if returned.is_error else None)
    span_attributes.set_label("palaver.run.id", root.run_id)
    return Span(
        trace_id=root.trace_id,
        span_id=derive_span_id(f"{root.span_id}/{returned.item}"),
        parent_id=root.span_id,
        project=root.project,
        name=f"execute_tool {call.name}",
        kind="tool",
        status="error" if returned.is_error else "ok",
        start=start,
        duration_ms=elapsed_ms(start, returned_at or start),
        inputs=span_attributes.set_text(
            "gen_ai.tool.call.arguments", call.arguments if call.arguments.strip() else "{}"
        ),
        outputs=span_attributes.set_text("gen_ai.tool.call.result", returned.output),
        tool=Tool(name=call.name, call_id=returned.call_id),
        session=root.session,
        run_id=root.run_id,
        service=SERVICE_NAME,
        scope=SERVICE_NAME,
        conventions=("gen_ai",),
        attributes=span_attributes.attributes,
        dropped=span_attributes.dropped,
        notes=span_attributes.notes if execution.started_at else (*span_attributes.notes, NOTE_UNTIMED),
    )


def derive_span_id(text: str) -> str:
    """Return a deterministic span id, so that rebuilding a span gives the same id."""
    return blake2b(text.encode(), digest_size=8).hexdigest()


def elapsed_ms(start: datetime, end: datetime) -> float:
    """Return milliseconds from `start` to `end`, or 0 if a clock was set back."""
    return max(0.0, (end - start) / _MILLISECOND)
