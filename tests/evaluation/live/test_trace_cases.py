"""Traces and sessions as evaluation cases: messages, tool calls and cost."""

from typing import Any

from msgspec import UNSET

from palaver.core.messages import Message, Text, ToolCall, ToolResult, Usage
from palaver.evaluation.live.trace_cases import make_trace_case, read_session_case, read_trace_case
from palaver.storage.database import MEMORY_URL, open_database
from palaver.storage.spans.queries import TraceTotals
from palaver.traces.conversation import build_turn
from palaver.traces.model import Span, Tool
from tests.evaluation.live.live_harness import root_span, store_spans
from tests.storage.span_factory import span_id, trace_id

EMPTY_TOTALS = TraceTotals(1, 0, None, None, None)
PALAVER_FIELDS: dict[str, Any] = {"conventions": ("palaver", "gen_ai"), "kind": "workflow", "workflow": "tutor"}


def case_from_spans(head: Span, *tools: Span, sums: TraceTotals = EMPTY_TOTALS) -> Any:
    return make_trace_case(head, build_turn(head, (), tools), sums)


def test_a_palaver_chat_trace_declares_that_it_is_a_chat() -> None:
    attributes = {"palaver.is_chat": True, "gen_ai.response.time_to_first_chunk": 0.25}
    head = root_span("t", **PALAVER_FIELDS, attributes=attributes, finish="length", inputs={"topic": "maths"})
    trace_case = case_from_spans(head)

    assert (trace_case.id, trace_case.trace_id, trace_case.variant) == (trace_id("t"), trace_id("t"), "tutor")
    assert (trace_case.text, trace_case.history, trace_case.value) == (
        "Hello from t.",
        (Message.user("Hi, t?"),),
        UNSET,
    )
    assert (trace_case.inputs, trace_case.expected, trace_case.row) == ({"topic": "maths"}, UNSET, {})
    assert (trace_case.latency, trace_case.first_output, trace_case.finish) == (0.5, 0.25, "length")
    assert (trace_case.flags.is_chat, trace_case.flags.is_chat_source, len(trace_case.turns)) == (True, "declared", 1)


def test_a_palaver_workflow_trace_has_a_value_and_no_text() -> None:
    fields: dict[str, Any] = {"messages_in": (), "messages_out": (), "inputs": {"a": 1}, "outputs": {"b": 2}}
    trace_case = case_from_spans(root_span("t", **PALAVER_FIELDS, **fields, attributes={"palaver.is_chat": False}))

    assert (trace_case.value, trace_case.text, trace_case.messages, trace_case.inputs) == ({"b": 2}, "", (), {"a": 1})
    assert trace_case.flags.is_chat is False


def test_in_other_traces_a_text_output_is_an_answer_and_any_other_a_value() -> None:
    fields: dict[str, Any] = {"messages_in": (), "messages_out": (), "kind": "task"}
    text = case_from_spans(root_span("t", **fields, inputs="Why?", outputs="Because."))
    value = case_from_spans(root_span("t", **fields, inputs=[1], outputs=[2]))

    assert (text.text, text.history, text.inputs) == ("Because.", (Message.user("Why?"),), {"input": "Why?"})
    assert (text.flags.is_chat, text.flags.is_chat_source) == (True, "derived")
    assert (value.value, value.flags.is_chat) == ([2], False)


def test_tool_calls_come_from_messages_and_tool_spans_without_duplicates() -> None:
    call = Message(role="assistant", parts=(ToolCall("c1", "search", '{"q":"x"}'),))
    result = Message(role="tool", parts=(ToolResult("c1", "found"),))
    messages = (call, result, Message(role="assistant", parts=(Text("Done."),)))
    tool = root_span("tool", 1, trace="t", kind="tool", tool=Tool("fetch", "c2"), inputs={"url": "u"}, outputs="page")
    duplicate = root_span(
        "told", 2, trace="t", kind="tool", tool=Tool("search", "c1"), inputs={"q": "x"}, outputs="found"
    )
    trace_case = case_from_spans(root_span("t", messages_out=messages), tool, duplicate)

    observed = [(one.name, one.parsed, one.result, one.index) for one in trace_case.tool_calls]
    assert observed == [("fetch", {"url": "u"}, "page", 0), ("search", {"q": "x"}, "found", 1)]
    assert trace_case.text == "Done."


def test_usage_and_cost_come_from_the_model_calls_or_else_from_the_head_span() -> None:
    head = root_span("t", usage=Usage(input_tokens=1, output_tokens=2), cost=0.5)

    assert case_from_spans(head).usage == Usage(input_tokens=1, output_tokens=2, cost=0.5)
    assert case_from_spans(head, sums=TraceTotals(3, 0, 10, 20, 0.25)).usage == Usage(
        input_tokens=10, output_tokens=20, cost=0.25
    )
    assert case_from_spans(root_span("t")).usage is None


async def test_a_session_is_one_conversation_of_several_turns() -> None:
    database = open_database(MEMORY_URL)
    await store_spans(
        database,
        root_span("one", session="s"),
        root_span("two", 60, session="s"),
        root_span("other", 90, session="r"),
        root_span("none", 99),
    )
    session_case = await database.read(read_session_case, "default", "s")
    missing = await database.read(read_session_case, "elsewhere", "s")
    unknown = await database.read(read_trace_case, "default", trace_id("never"))
    await database.close()

    assert session_case is not None
    assert [(turn.user and turn.user.text, turn.text) for turn in session_case.turns] == [
        ("Hi, one?", "Hello from one."),
        ("Hi, two?", "Hello from two."),
    ]
    assert (session_case.id, session_case.trace_id, session_case.text, session_case.history) == (
        "s",
        trace_id("two"),
        "Hello from two.",
        (),
    )
    assert (session_case.latency, missing, unknown) == (1.0, None, None)


async def test_messages_missing_from_the_root_span_come_from_its_model_call() -> None:
    database = open_database(MEMORY_URL)
    root = root_span("root", trace="t", kind="agent", messages_in=(), messages_out=(), outputs={"ok": True})
    call = root_span("call", 0.1, trace="t", parent_id=span_id("root"), usage=Usage(input_tokens=3, output_tokens=4))
    await store_spans(database, root, call)
    trace_case = await database.read(read_trace_case, "default", trace_id("t"))
    await database.close()

    assert trace_case is not None
    assert (trace_case.text, trace_case.flags.is_chat, trace_case.usage) == (
        "Hello from call.",
        True,
        Usage(input_tokens=3, output_tokens=4),
    )
