"""The spans of a run of ours: one for the run, and one for each tool whose answer was seen (contract: traces, 1).

A run's events are folded first: an answer of ten thousand deltas is one attribute. What the attributes say, a reader of
conventions finds again; here the fields are filled without that detour. Pure: times and ids come with the facts.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

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
from palaver.core.extraction import Prefer, read_conversation
from palaver.core.fold import fold
from palaver.core.ids import truncate_id
from palaver.core.interruption import interruption_events
from palaver.core.messages import Message, ToolCall, Usage
from palaver.core.runs import Call, RecordMode, Reply
from palaver.traces.contents import Contents
from palaver.traces.conventions.messages import conversation_messages
from palaver.traces.facts import NO_PARENT, Facts, kept_of
from palaver.traces.record import Raised, Span, SpanEvent, Status, Tool

SERVICE = "palaver"
UNTIMED = "untimed"
"""Noted of a tool of which nobody saw when it began."""

CUT = "cut:steps"
"""Noted of a run of which more steps were told than are kept."""

_ENDS: Mapping[str, Status] = {"cancelled": "cancelled", "interrupted": "incomplete"}
_MILLISECOND = timedelta(milliseconds=1)


def spans_of(facts: Facts, content: RecordMode = "full") -> list[Span]:
    """The run's own span, then those of its tools in the order of their answers; nothing where nothing is recorded."""
    record = kept_of(facts.call, content)
    if record == "off":
        return []
    events = facts.events
    if not isinstance(events[-1], TERMINAL_EVENTS):
        events = [*events, *interruption_events(events, facts.ended_at)]
    started, last = events[0], events[-1]
    assert isinstance(started, RunStarted)
    assert isinstance(last, TERMINAL_EVENTS)
    root = _root(facts, started, last, fold(events), Contents(facts.call, record))
    return [root, *(_tool(seen, root, facts, Contents(facts.call, record)) for seen in _untold(facts))]


# The run


def _root(facts: Facts, started: RunStarted, last: TerminalEvent, reply: Reply, contents: Contents) -> Span:
    call, origin, usage = facts.call, facts.origin, reply.usage
    start = started.at or facts.ended_at
    failed = last if isinstance(last, RunFailed) else None
    contents.label("gen_ai.operation.name", "invoke_workflow")
    contents.label("gen_ai.workflow.name", facts.workflow)
    contents.label("gen_ai.conversation.id", started.session)
    inputs, parameters, value, messages_in, messages_out = _contents(facts, reply, contents)
    counted(usage, contents)
    contents.label("gen_ai.response.finish_reasons", [reply.finish])
    if facts.first_output_at is not None:
        contents.label("gen_ai.response.time_to_first_chunk", (facts.first_output_at - start).total_seconds())
    contents.label("error.type", failed.code if failed else None)
    contents.label("palaver.run.id", started.run_id)
    contents.label("palaver.project", origin.project)
    contents.label("palaver.protocol", origin.protocol or None)
    contents.label("palaver.is_chat", facts.is_chat)
    contents.label("palaver.user", call.user)
    contents.label("palaver.cost", usage.cost if usage else None)
    contents.label("palaver.finish", reply.finish)
    contents.label("palaver.disconnected", True if facts.left_at else None)
    contents.label("palaver.variant", origin.variant)
    contents.label("palaver.key", origin.key)
    return Span(
        trace_id=started.trace_id,
        span_id=started.span_id or named(started.run_id),
        parent_id=_parent(call),
        project=origin.project,
        name=f"invoke_workflow {facts.workflow}",
        kind="workflow",
        status=_ENDS.get(reply.finish) or ("error" if failed else "ok"),
        status_message=failed.message if failed else "",
        start=start,
        duration_ms=milliseconds(start, last.at or facts.ended_at),
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
        exception=Raised(type=failed.code, message=failed.message) if failed else None,
        service=SERVICE,
        scope=SERVICE,
        conventions=("palaver", "gen_ai"),
        attributes=contents.attributes,
        events=(*_left(facts), *((_raised(failed),) if failed else ())),
        dropped=contents.dropped,
        notes=(*contents.notes, CUT) if facts.is_cut else contents.notes,
    )


def _contents(
    facts: Facts, reply: Reply, contents: Contents
) -> tuple[Any, Any, Any, tuple[Message, ...], tuple[Message, ...]]:
    """Inputs, parameters, value, and both sides of the conversation, as far as they are recorded."""
    call, is_chat = facts.call, facts.is_chat
    messages_in = contents.messages("gen_ai.input.messages", call.messages if is_chat else ())
    # What a workflow that is no chat has said beside its value is shown where it came to none.
    said = is_chat or reply.value is UNSET
    messages_out = contents.messages("gen_ai.output.messages", reply.messages if said else ())
    inputs = contents.value("palaver.inputs", dict(call.inputs)) if call.inputs or not is_chat else None
    parameters = contents.value("palaver.parameters", dict(call.parameters)) if call.parameters else None
    value = None if reply.value is UNSET else contents.value("palaver.value", reply.value)
    return (
        inputs,
        parameters,
        value,
        messages_in or _found(inputs, "input"),
        messages_out or _found(value, "output"),
    )


def _found(value: Any, side: Prefer) -> tuple[Message, ...]:
    """The conversation in a value, as it would be found in anybody's span."""
    conversation = None if value is None else read_conversation(value, side)
    return () if conversation is None else conversation_messages(conversation.messages, value)


def counted(usage: Usage | None, contents: Contents) -> None:
    """Say what it cost in tokens."""
    if usage is not None:
        contents.label("gen_ai.usage.input_tokens", usage.input_tokens)
        contents.label("gen_ai.usage.output_tokens", usage.output_tokens)
        contents.label("gen_ai.usage.cache_read.input_tokens", usage.cached_input_tokens)
        contents.label("gen_ai.usage.cache_creation.input_tokens", usage.cache_creation_input_tokens)
        contents.label("gen_ai.usage.reasoning.output_tokens", usage.reasoning_tokens)


def _parent(call: Call) -> str | None:
    """The caller's span, if it named one."""
    _, _, parent, *_ = f"{call.trace_parent or ''}---".split("-")
    return parent if parent and parent != NO_PARENT else None


def _left(facts: Facts) -> tuple[SpanEvent, ...]:
    """That whoever asked went away: why the run was stopped then, or that nobody saw the rest of it."""
    return () if facts.left_at is None else (SpanEvent("palaver.disconnected", facts.left_at, {}),)


def _raised(failed: RunFailed) -> SpanEvent:
    return SpanEvent("exception", failed.at, {"exception.type": failed.code, "exception.message": failed.message})


# Its tools


class _Seen(NamedTuple):
    """A call, and its answer; one that an earlier run asked for has no beginning here."""

    call: ToolCall
    begun_at: datetime | None
    returned: ToolReturned


def _tools(facts: Facts) -> Iterator[_Seen]:
    times = facts.times
    started: dict[str, ToolStarted] = {}
    ended: dict[str, ToolEnded] = {}
    by_call: dict[str, str] = {}
    for event in [event for event in facts.events if type(event) in TOOL_EVENTS]:
        if type(event) is ToolStarted:
            started[event.item], by_call[event.call_id] = event, event.item
        elif type(event) is ToolEnded:
            ended[event.item] = event
        elif type(event) is ToolReturned:
            if (item := by_call.get(event.call_id)) is None:
                if (asked := _asked(facts.call, event.call_id)) is not None:
                    yield _Seen(asked, None, event)
                continue
            call = ToolCall(event.call_id, started[item].name, ended[item].arguments)
            begun_at, at = times.get(ended[item].seq), times.get(event.seq)
            if begun_at is at:  # The call was left open until its answer came: it began when it was opened.
                begun_at = times.get(started[item].seq)
            yield _Seen(call, begun_at, event)


def _untold(facts: Facts) -> Iterator[_Seen]:
    """Those of which nobody else tells. Who names no call has told of the first of that name."""
    calls = {truncate_id(one.call_id) for one in facts.told if one.call_id}
    names = Counter(one.name for one in facts.told if not one.call_id)
    for seen in _tools(facts):
        if seen.returned.call_id in calls:
            continue
        if names[seen.call.name]:
            names[seen.call.name] -= 1
            continue
        yield seen


def _asked(call: Call, call_id: str) -> ToolCall | None:
    calls = (part for message in reversed(call.messages) for part in message.tool_calls)
    return next((part for part in calls if truncate_id(part.call_id) == call_id), None)


def _tool(seen: _Seen, root: Span, facts: Facts, contents: Contents) -> Span:
    call, returned = seen.call, seen.returned
    at = facts.times.get(returned.seq)
    start = seen.begun_at or at or root.start
    contents.label("gen_ai.operation.name", "execute_tool")
    contents.label("gen_ai.conversation.id", root.session)
    contents.label("gen_ai.tool.name", call.name)
    contents.label("gen_ai.tool.call.id", returned.call_id)
    contents.label("error.type", "tool_error" if returned.is_error else None)
    contents.label("palaver.run.id", root.run_id)
    return Span(
        trace_id=root.trace_id,
        span_id=named(f"{root.span_id}/{returned.item}"),
        parent_id=root.span_id,
        project=root.project,
        name=f"execute_tool {call.name}",
        kind="tool",
        status="error" if returned.is_error else "ok",
        start=start,
        duration_ms=milliseconds(start, at or start),
        inputs=contents.text("gen_ai.tool.call.arguments", call.arguments if call.arguments.strip() else "{}"),
        outputs=contents.text("gen_ai.tool.call.result", returned.output),
        tool=Tool(name=call.name, call_id=returned.call_id),
        session=root.session,
        run_id=root.run_id,
        service=SERVICE,
        scope=SERVICE,
        conventions=("gen_ai",),
        attributes=contents.attributes,
        dropped=contents.dropped,
        notes=contents.notes if seen.begun_at else (*contents.notes, UNTIMED),
    )


def named(text: str) -> str:
    """The id of a span that is always the same one's: built again, it is the same span."""
    return blake2b(text.encode(), digest_size=8).hexdigest()


def milliseconds(start: datetime, end: datetime) -> float:
    """How many lie between; none where a clock was set back."""
    return max(0.0, (end - start) / _MILLISECOND)
