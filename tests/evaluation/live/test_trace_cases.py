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

NOTHING = TraceTotals(1, 0, None, None, None)
OURS: dict[str, Any] = {"conventions": ("palaver", "gen_ai"), "kind": "workflow", "workflow": "tutor"}


def case(head: Span, *tools: Span, sums: TraceTotals = NOTHING) -> Any:
    return make_trace_case(head, build_turn(head, (), tools), sums)


def test_a_chat_of_ours_is_told_by_itself() -> None:
    attributes = {"palaver.is_chat": True, "gen_ai.response.time_to_first_chunk": 0.25}
    head = root_span("t", **OURS, attributes=attributes, finish="length", inputs={"topic": "maths"})
    calls_made = case(head)

    assert (calls_made.id, calls_made.trace_id, calls_made.variant) == (trace_id("t"), trace_id("t"), "tutor")
    assert (calls_made.text, calls_made.history, calls_made.value) == (
        "Hello from t.",
        (Message.user("Hi, t?"),),
        UNSET,
    )
    assert (calls_made.inputs, calls_made.expected, calls_made.row) == ({"topic": "maths"}, UNSET, {})
    assert (calls_made.latency, calls_made.first_output, calls_made.finish) == (0.5, 0.25, "length")
    assert (calls_made.flags.is_chat, calls_made.flags.is_chat_source, len(calls_made.turns)) == (True, "declared", 1)


def test_a_workflow_of_ours_has_a_value_and_no_text() -> None:
    arguments: dict[str, Any] = {"messages_in": (), "messages_out": (), "inputs": {"a": 1}, "outputs": {"b": 2}}
    calls_made = case(root_span("t", **OURS, **arguments, attributes={"palaver.is_chat": False}))

    assert (calls_made.value, calls_made.text, calls_made.messages, calls_made.inputs) == ({"b": 2}, "", (), {"a": 1})
    assert calls_made.flags.is_chat is False


def test_of_others_traces_a_text_is_an_answer_and_a_value_a_value() -> None:
    none: dict[str, Any] = {"messages_in": (), "messages_out": (), "kind": "task"}
    text = case(root_span("t", **none, inputs="Why?", outputs="Because."))
    value = case(root_span("t", **none, inputs=[1], outputs=[2]))

    assert (text.text, text.history, text.inputs) == ("Because.", (Message.user("Why?"),), {"input": "Why?"})
    assert (text.flags.is_chat, text.flags.is_chat_source) == (True, "derived")
    assert (value.value, value.flags.is_chat) == ([2], False)


def test_calls_of_tools_are_those_of_messages_and_of_spans_besides() -> None:
    call = Message(role="assistant", parts=(ToolCall("c1", "search", '{"q":"x"}'),))
    result = Message(role="tool", parts=(ToolResult("c1", "found"),))
    answers = (call, result, Message(role="assistant", parts=(Text("Done."),)))
    tool = root_span("tool", 1, trace="t", kind="tool", tool=Tool("fetch", "c2"), inputs={"url": "u"}, outputs="page")
    actual = root_span("told", 2, trace="t", kind="tool", tool=Tool("search", "c1"), inputs={"q": "x"}, outputs="found")
    calls_made = case(root_span("t", messages_out=answers), tool, actual)

    observed = [(one.name, one.parsed, one.result, one.index) for one in calls_made.tool_calls]
    assert observed == [("fetch", {"url": "u"}, "page", 0), ("search", {"q": "x"}, "found", 1)]
    assert calls_made.text == "Done."


def test_tokens_and_cost_are_those_of_its_calls_or_else_of_its_head() -> None:
    head = root_span("t", usage=Usage(input_tokens=1, output_tokens=2), cost=0.5)

    assert case(head).usage == Usage(input_tokens=1, output_tokens=2, cost=0.5)
    assert case(head, sums=TraceTotals(3, 0, 10, 20, 0.25)).usage == Usage(input_tokens=10, output_tokens=20, cost=0.25)
    assert case(root_span("t")).usage is None


async def test_a_session_is_one_conversation_of_several_turns() -> None:
    database = open_database(MEMORY_URL)
    await store_spans(
        database,
        root_span("one", session="s"),
        root_span("two", 60, session="s"),
        root_span("other", 90, session="r"),
        root_span("none", 99),
    )
    calls_made = await database.read(read_session_case, "default", "s")
    missing = await database.read(read_session_case, "elsewhere", "s")
    deleted = await database.read(read_trace_case, "default", trace_id("never"))
    await database.close()

    assert calls_made is not None
    assert [(turn.user and turn.user.text, turn.text) for turn in calls_made.turns] == [
        ("Hi, one?", "Hello from one."),
        ("Hi, two?", "Hello from two."),
    ]
    assert (calls_made.id, calls_made.trace_id, calls_made.text, calls_made.history) == (
        "s",
        trace_id("two"),
        "Hello from two.",
        (),
    )
    assert (calls_made.latency, missing, deleted) == (1.0, None, None)


async def test_what_a_root_does_not_tell_its_call_of_a_model_does() -> None:
    database = open_database(MEMORY_URL)
    root = root_span("root", trace="t", kind="agent", messages_in=(), messages_out=(), outputs={"ok": True})
    call = root_span("call", 0.1, trace="t", parent_id=span_id("root"), usage=Usage(input_tokens=3, output_tokens=4))
    await store_spans(database, root, call)
    calls_made = await database.read(read_trace_case, "default", trace_id("t"))
    await database.close()

    assert calls_made is not None
    assert (calls_made.text, calls_made.flags.is_chat, calls_made.usage) == (
        "Hello from call.",
        True,
        Usage(input_tokens=3, output_tokens=4),
    )
