"""A trace as a case, or a session: what was asked and answered live, for evaluators and people to look at.

Nobody expected anything of it, so a case of a trace has no `expected`. Whether it is a chat, a run of ours says itself;
of others' traces, those are none whose answer is a value.
"""

from collections.abc import Sequence
from typing import Any, cast

import msgspec
from msgspec import UNSET
from sqlalchemy import Connection

from palaver.core import json
from palaver.core.messages import Usage
from palaver.core.runs import Reply
from palaver.evaluation.case import Case, CaseToolCall, Flags, last_user_message, make_case, make_turn
from palaver.storage.pagination import Window
from palaver.storage.spans import queries as span_pages
from palaver.storage.spans import sessions as span_sessions
from palaver.storage.spans.queries import TraceTotals
from palaver.traces import stored_spans
from palaver.traces.conversation import ToolStep
from palaver.traces.conversation import Turn as Told
from palaver.traces.model import Span

MAX_SESSION_TRACES = 50
"""Of a session: its last ones."""


def read_trace_case(db: Connection, project: str, trace: str) -> Case | None:
    """The case that a trace is; None if it is gone."""
    found = stored_spans.load_turn(db, project, trace)
    if found is None:
        return None
    head, told = found
    return make_trace_case(head, told, span_pages.total_traces(db, project, [trace])[trace])


def read_session_case(db: Connection, project: str, session: str) -> Case | None:
    """The case that a session is: each of its traces is a turn. None if all of them are gone."""
    named: list[str] = []
    after: str | None = None
    while True:
        page = span_sessions.list_session_traces(db, project, session, Window(200, after))
        named = [*named, *(row.trace_id for row in page.data)][-MAX_SESSION_TRACES:]
        after = page.next
        if after is None:
            break
    cases = [case for trace in named if (case := read_trace_case(db, project, trace)) is not None]
    return make_session_case(session, cases) if cases else None


def make_trace_case(head: Span, told: Told, sums: TraceTotals) -> Case:
    """The same of what was read. Tokens and cost are those of its calls, or else what its head says."""
    flags = _trace_flags(head, told)
    usage = _trace_usage(head, sums)
    reply = Reply(
        run_id=head.run_id or "",
        messages=told.messages_out if flags.is_chat else (),
        value=UNSET if flags.is_chat else head.outputs,
        usage=usage,
        finish=cast("Any", head.finish or "stop"),
    )
    turn = make_turn(
        reply,
        is_chat=flags.is_chat,
        user=last_user_message(told.messages_in),
        latency=head.duration_ms / 1000,
        first_output=_time_to_first_output(head),
    )
    calls = (*(_tool_call(step) for step in told.tools), *turn.tool_calls)
    return make_case(
        turns=[msgspec.structs.replace(turn, tool_calls=calls)],
        flags=flags,
        id=head.trace_id,
        variant=head.workflow or "",
        inputs=_trace_inputs(head),
        history=told.messages_in,
        trace_id=head.trace_id,
    )


def make_session_case(session: str, cases: Sequence[Case]) -> Case:
    """Several traces, one after the other, as one conversation."""
    first, last = cases[0], cases[-1]
    before = first.history[:-1] if first.turns[0].user is not None else first.history
    return make_case(
        turns=[turn for case in cases for turn in case.turns],
        flags=last.flags,
        id=session,
        variant=last.variant,
        inputs=last.inputs,
        history=before,
        trace_id=last.trace_id,
    )


def _trace_flags(head: Span, told: Told) -> Flags:
    said = head.attributes.get("palaver.is_chat") if "palaver" in head.conventions else None
    if isinstance(said, bool):
        return Flags(is_chat=said)
    has_value = head.outputs is not None and not isinstance(head.outputs, str)
    return Flags(
        is_chat=bool(head.messages_out) or not has_value or told.span_id != head.span_id, is_chat_source="derived"
    )


def _trace_usage(head: Span, sums: TraceTotals) -> Usage | None:
    if sums.input_tokens is None and sums.output_tokens is None:
        if head.usage is None:
            return None
        return msgspec.structs.replace(head.usage, cost=head.cost if head.cost is not None else head.usage.cost)
    cost = sums.cost if sums.cost is not None else head.cost
    return Usage(input_tokens=sums.input_tokens or 0, output_tokens=sums.output_tokens or 0, cost=cost)


def _time_to_first_output(head: Span) -> float | None:
    said = head.attributes.get("gen_ai.response.time_to_first_chunk")
    return float(said) if isinstance(said, int | float) and not isinstance(said, bool) else None


def _trace_inputs(head: Span) -> dict[str, Any]:
    value: Any = head.inputs
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    return {} if value is None else {"input": value}


def _tool_call(step: ToolStep) -> CaseToolCall:
    """A tool of which no message tells."""
    given: Any = step.inputs
    parsed: Any = UNSET if isinstance(given, str) else {} if given is None else given
    return CaseToolCall(
        call_id=step.call_id or step.span_id,
        name=step.name,
        arguments=given if isinstance(given, str) else _encode_arguments(given),
        parsed=parsed,
        result=UNSET if step.outputs is None else step.outputs,
        is_error=step.status == "error",
    )


def _encode_arguments(value: Any) -> str:
    return "" if value is None else json.encode(value).decode()
