"""Read traces and sessions as cases, for evaluators and reviewers.

Such a case has no `expected`. Our own runs record whether they are a chat; other traces are a chat unless their output
is a value.
"""

from collections.abc import Sequence
from typing import Any, cast

import msgspec
from msgspec import UNSET
from sqlalchemy import Connection

from palaver.core import json
from palaver.core.messages import Usage
from palaver.core.runs import Reply
from palaver.evaluation.case import Case, CaseToolCall, Flags, case_with_turns, last_user_message, make_turn
from palaver.storage.pagination import Window
from palaver.storage.spans import queries as span_queries
from palaver.storage.spans.queries import TraceTotals
from palaver.traces import stored_spans
from palaver.traces.conversation import ToolStep
from palaver.traces.conversation import Turn as TraceTurn
from palaver.traces.model import Span

MAX_SESSION_TRACES = 50
"""Maximum number of traces read per session: the newest ones."""


def read_trace_case(db: Connection, project: str, trace: str) -> Case | None:
    """The case of a trace; None if it is gone."""
    loaded = stored_spans.load_turn(db, project, trace)
    if loaded is None:
        return None
    head, turn = loaded
    return make_trace_case(head, turn, span_queries.total_traces(db, project, [trace])[trace])


def read_session_case(db: Connection, project: str, session: str) -> Case | None:
    """The case of a session, with a turn for each trace. None if all traces are gone."""
    trace_ids: list[str] = []
    after: str | None = None
    while True:
        page = span_queries.list_session_traces(db, project, session, Window(200, after))
        trace_ids = [*trace_ids, *(row.trace_id for row in page.data)][-MAX_SESSION_TRACES:]
        after = page.next
        if after is None:
            break
    cases = [case for trace in trace_ids if (case := read_trace_case(db, project, trace)) is not None]
    return make_session_case(session, cases) if cases else None


def make_trace_case(head: Span, trace_turn: TraceTurn, totals: TraceTotals) -> Case:
    """Return the case of a trace. Usage and cost are summed over the trace's calls, else taken from its root."""
    flags = _trace_flags(head, trace_turn)
    usage = _trace_usage(head, totals)
    reply = Reply(
        run_id=head.run_id or "",
        messages=trace_turn.messages_out if flags.is_chat else (),
        value=UNSET if flags.is_chat else head.outputs,
        usage=usage,
        finish=cast("Any", head.finish or "stop"),
    )
    turn = make_turn(
        reply,
        is_chat=flags.is_chat,
        user=last_user_message(trace_turn.messages_in),
        latency=head.duration_ms / 1000,
        first_output=_time_to_first_output(head),
    )
    calls = (*(_tool_call(step) for step in trace_turn.tools), *turn.tool_calls)
    case = Case(
        id=head.trace_id,
        variant=head.workflow or "",
        inputs=_trace_inputs(head),
        history=tuple(trace_turn.messages_in),
        trace_id=head.trace_id,
        flags=flags,
    )
    return case_with_turns(case, [msgspec.structs.replace(turn, tool_calls=calls)])


def make_session_case(session: str, cases: Sequence[Case]) -> Case:
    first_case, last_case = cases[0], cases[-1]
    history = first_case.history[:-1] if first_case.turns[0].user is not None else first_case.history
    session_case = msgspec.structs.replace(last_case, id=session, history=history)
    return case_with_turns(session_case, [turn for case in cases for turn in case.turns])


def _trace_flags(head: Span, trace_turn: TraceTurn) -> Flags:
    declared = head.attributes.get("palaver.is_chat") if "palaver" in head.conventions else None
    if isinstance(declared, bool):
        return Flags(is_chat=declared)
    has_value = head.outputs is not None and not isinstance(head.outputs, str)
    return Flags(
        is_chat=bool(head.messages_out) or not has_value or trace_turn.span_id != head.span_id, is_chat_source="derived"
    )


def _trace_usage(head: Span, totals: TraceTotals) -> Usage | None:
    if totals.input_tokens is None and totals.output_tokens is None:
        if head.usage is None:
            return None
        return msgspec.structs.replace(head.usage, cost=head.cost if head.cost is not None else head.usage.cost)
    cost = totals.cost if totals.cost is not None else head.cost
    return Usage(input_tokens=totals.input_tokens or 0, output_tokens=totals.output_tokens or 0, cost=cost)


def _time_to_first_output(head: Span) -> float | None:
    seconds = head.attributes.get("gen_ai.response.time_to_first_chunk")
    return float(seconds) if isinstance(seconds, int | float) and not isinstance(seconds, bool) else None


def _trace_inputs(head: Span) -> dict[str, Any]:
    value: Any = head.inputs
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    return {} if value is None else {"input": value}


def _tool_call(step: ToolStep) -> CaseToolCall:
    """Return the call of a tool span that no message mentions."""
    inputs: Any = step.inputs
    parsed: Any = UNSET if isinstance(inputs, str) else {} if inputs is None else inputs
    return CaseToolCall(
        call_id=step.call_id or step.span_id,
        name=step.name,
        arguments=inputs if isinstance(inputs, str) else "" if inputs is None else json.encode(inputs).decode(),
        parsed=parsed,
        result=UNSET if step.outputs is None else step.outputs,
        is_error=step.status == "error",
    )
