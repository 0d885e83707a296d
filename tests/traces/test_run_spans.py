"""The spans of Palaver's own runs."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import json
from palaver.core.events import (
    Event,
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
from palaver.core.messages import Data, File, Message, Text, ToolCall, ToolResult, Usage
from palaver.core.runs import Call, Origin, Secret
from palaver.traces.model import RawSpan, Span, SpanEvent, SpanException, Tool
from palaver.traces.otlp.limits import MAX_TEXT_BYTES
from palaver.traces.run_facts import NO_PARENT_ID, ReportedTool, RunFacts
from palaver.traces.run_spans import MAX_CONTENT_BYTES, build_run_spans, derive_span_id
from palaver.traces.span_mapper import to_span

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TRACE, SPAN, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"
STARTED = RunStarted(0, "run_1", "s-1", NOW, TRACE, SPAN)


def time_after(milliseconds: float) -> datetime:
    return NOW + timedelta(milliseconds=milliseconds)


def text_events(text: str, first: int = 1) -> list[Event]:
    """Return the events of one text, one character per delta."""
    deltas = [TextDelta(first + 1 + index, "m1", piece) for index, piece in enumerate(text)]
    return [TextStarted(first, "m1", "m1"), *deltas, TextEnded(first + 1 + len(text), "m1", text)]


def facts(*events: Event, is_chat: bool = True, origin: Origin | None = None, **given: Any) -> RunFacts:
    """Return the facts of a run with these events that ended one second after its start."""
    fact_fields = {name: given.pop(name) for name in ("times", "first_output_at") if name in given}
    return RunFacts(
        workflow="tutor",
        is_chat=is_chat,
        call=Call(workflow="tutor", **given),
        origin=origin or Origin(),
        events=[STARTED, *events],
        ended_at=time_after(1000),
        **fact_fields,
    )


def map_span(span: Span) -> Span:
    """Return the span that importing its attributes gives."""
    raw = RawSpan(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_id=span.parent_id,
        name=span.name,
        start=span.start,
        duration_ms=span.duration_ms,
        failed=span.status == "error",
        status_message=span.status_message,
        attributes=span.attributes,
        resource={"service.name": span.service},
        events=span.events,
        scope=span.scope,
        dropped=span.dropped,
        notes=span.notes,
    )
    return to_span(raw, project=span.project, trusted=True)


def test_a_chat_is_one_span_with_its_conversation() -> None:
    usage = Usage(31, 9, cached_input_tokens=8, reasoning_tokens=2, cost=0.0002)
    events = [*text_events("Hello."), UsageAdded(9, usage), RunFinished(10, usage=usage, at=time_after(812.4))]

    spans = build_run_spans(
        facts(
            *events,
            messages=(Message("user", (Text("Hi"),), "m0"),),
            parameters={"temperature": 0.2},
            user="u-1",
            trace_parent=f"00-{TRACE}-{PARENT}-01",
            origin=Origin(project="shop", key="key_1", protocol="chat-completions", variant="v2"),
            first_output_at=time_after(250),
        )
    )

    assert spans == [
        Span(
            trace_id=TRACE,
            span_id=SPAN,
            parent_id=PARENT,
            project="shop",
            name="invoke_workflow tutor",
            kind="workflow",
            start=NOW,
            duration_ms=812.4,
            messages_in=(Message.user("Hi"),),
            messages_out=(Message.assistant("Hello."),),
            parameters={"temperature": 0.2},
            usage=Usage(31, 9, cached_input_tokens=8, reasoning_tokens=2),
            cost=0.0002,
            cost_source="reported",
            finish="stop",
            session="s-1",
            user="u-1",
            workflow="tutor",
            run_id="run_1",
            service="palaver",
            scope="palaver",
            conventions=("palaver", "gen_ai"),
            attributes={
                "gen_ai.operation.name": "invoke_workflow",
                "gen_ai.workflow.name": "tutor",
                "gen_ai.conversation.id": "s-1",
                "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"Hi"}]}]',
                "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"Hello."}]}]',
                "palaver.parameters": '{"temperature":0.2}',
                "gen_ai.usage.input_tokens": 31,
                "gen_ai.usage.output_tokens": 9,
                "gen_ai.usage.cache_read.input_tokens": 8,
                "gen_ai.usage.reasoning.output_tokens": 2,
                "gen_ai.response.finish_reasons": ["stop"],
                "gen_ai.response.time_to_first_chunk": 0.25,
                "palaver.run.id": "run_1",
                "palaver.project": "shop",
                "palaver.protocol": "chat-completions",
                "palaver.is_chat": True,
                "palaver.user": "u-1",
                "palaver.cost": 0.0002,
                "palaver.finish": "stop",
                "palaver.variant": "v2",
                "palaver.key": "key_1",
            },
        )
    ]


def test_a_workflow_that_is_not_a_chat_has_inputs_and_a_value() -> None:
    [span] = build_run_spans(
        facts(RunFinished(1, value={"score": 3}, at=time_after(5)), is_chat=False, inputs={"text": "abc"})
    )

    assert (span.inputs, span.outputs, span.messages_in, span.messages_out) == ({"text": "abc"}, {"score": 3}, (), ())
    assert span.attributes["palaver.inputs"] == '{"text":"abc"}'
    assert span.attributes["palaver.value"] == '{"score":3}'
    assert "gen_ai.input.messages" not in span.attributes


def test_a_null_value_is_recorded_and_a_missing_value_is_not() -> None:
    [null] = build_run_spans(facts(RunFinished(1, value=None), is_chat=False))
    [none] = build_run_spans(facts(RunFinished(1), is_chat=False))

    assert null.attributes["palaver.value"] == "null"
    assert "palaver.value" not in none.attributes


def test_messages_in_the_inputs_become_the_input_messages() -> None:
    history = [{"role": "user", "content": "Hi"}]

    [span] = build_run_spans(facts(RunFinished(1, value="Hello"), is_chat=False, inputs={"messages": history}))

    assert span.messages_in == (Message.user("Hi"),)


def test_the_span_of_a_cancelled_run_has_its_partial_answer() -> None:
    [span] = build_run_spans(facts(*text_events("Half an ans"), RunCancelled(13, at=time_after(40))))

    assert (span.status, span.finish, span.messages_out) == (
        "cancelled",
        "cancelled",
        (Message.assistant("Half an ans"),),
    )
    assert span.duration_ms == 40.0


def test_the_span_of_a_failed_run_has_its_error_and_its_partial_answer() -> None:
    [span] = build_run_spans(
        facts(*text_events("Well"), RunFailed(6, code="model_gone", message="No such model.", at=time_after(7)))
    )

    assert (span.status, span.status_message, span.finish) == ("error", "No such model.", "error")
    assert span.exception == SpanException("model_gone", "No such model.")
    assert span.events == (
        SpanEvent("exception", time_after(7), {"exception.type": "model_gone", "exception.message": "No such model."}),
    )
    assert span.attributes["error.type"] == "model_gone"
    assert span.messages_out == (Message.assistant("Well"),)


def test_the_span_of_a_failed_workflow_that_is_not_a_chat_has_its_partial_text() -> None:
    [span] = build_run_spans(facts(*text_events("ab"), RunFailed(4, message="No."), is_chat=False))

    assert (span.messages_out, span.outputs) == ((Message.assistant("ab"),), None)


def test_an_interrupted_run_is_incomplete() -> None:
    [span] = build_run_spans(facts(TextStarted(1, "m1", "m1"), TextDelta(2, "m1", "So")))

    assert (span.status, span.finish, span.duration_ms) == ("incomplete", "interrupted", 1000.0)
    assert span.messages_out == (Message.assistant("So"),)


def test_a_placeholder_or_invalid_trace_parent_gives_no_parent() -> None:
    parents = [
        build_run_spans(facts(RunFinished(1), trace_parent=given))[0].parent_id
        for given in (None, f"00-{TRACE}-{NO_PARENT_ID}-01", f"00-{TRACE}-{PARENT}-00", "nonsense")
    ]

    assert parents == [None, None, PARENT, None]


def test_a_run_without_a_span_id_gets_one_derived_from_its_run_id() -> None:
    without_span_id = facts(RunFinished(1))._replace(
        events=[msgspec.structs.replace(STARTED, span_id=""), RunFinished(1)]
    )

    assert (
        build_run_spans(without_span_id)[0].span_id
        == build_run_spans(without_span_id)[0].span_id
        == derive_span_id("run_1")
    )


# Tools

CALL_EVENTS: list[Event] = [
    ToolStarted(1, "fc_c1", "m1", "c1", "weather"),
    ToolDelta(2, "fc_c1", '{"city":"Oslo"}'),
    ToolEnded(3, "fc_c1", '{"city":"Oslo"}'),
]


def test_a_tool_call_with_a_result_is_a_child_span_of_the_run() -> None:
    times = {1: time_after(10), 3: time_after(20), 4: time_after(50)}
    events = [*CALL_EVENTS, ToolReturned(4, "fco_c1", "m2", "c1", {"degrees": 3}), RunFinished(5, at=time_after(60))]

    root, tool = build_run_spans(facts(*events, times=times))

    assert root.messages_out == (
        Message.assistant(ToolCall("c1", "weather", '{"city":"Oslo"}')),
        Message.tool("c1", {"degrees": 3}),
    )
    assert tool == Span(
        trace_id=TRACE,
        span_id=derive_span_id(f"{SPAN}/fco_c1"),
        parent_id=SPAN,
        name="execute_tool weather",
        kind="tool",
        start=time_after(20),
        duration_ms=30.0,
        inputs={"city": "Oslo"},
        outputs={"degrees": 3},
        tool=Tool("weather", "c1"),
        session="s-1",
        run_id="run_1",
        service="palaver",
        scope="palaver",
        conventions=("gen_ai",),
        attributes={
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.conversation.id": "s-1",
            "gen_ai.tool.name": "weather",
            "gen_ai.tool.call.id": "c1",
            "palaver.run.id": "run_1",
            "gen_ai.tool.call.arguments": '{"city":"Oslo"}',
            "gen_ai.tool.call.result": '{"degrees":3}',
        },
    )


def test_a_tool_span_starts_with_the_call_if_the_call_ends_with_its_result() -> None:
    end = time_after(50)
    events = [*CALL_EVENTS, ToolReturned(4, "fco_c1", "m2", "c1", "mild", is_error=True), RunFinished(5)]

    _, tool = build_run_spans(facts(*events, times={1: time_after(10), 3: end, 4: end}))

    assert (tool.start, tool.duration_ms, tool.status, tool.notes) == (time_after(10), 40.0, "error", ())
    assert (tool.outputs, tool.attributes["gen_ai.tool.call.result"]) == ("mild", "mild")
    assert tool.attributes["error.type"] == "tool_error"


def test_a_tool_without_times_is_noted_as_untimed() -> None:
    events = [*CALL_EVENTS, ToolReturned(4, "fco_c1", "m2", "c1", "4"), RunFinished(5)]

    _, tool = build_run_spans(facts(*events))

    assert (tool.start, tool.duration_ms, tool.notes, tool.outputs) == (NOW, 0.0, ("untimed",), 4)


def test_a_result_for_a_call_of_an_earlier_run_is_a_span() -> None:
    call_message = Message.assistant(ToolCall("c0", "ask"))
    events = [ToolReturned(1, "fco_c0", "m1", "c0", "yes"), RunFinished(2)]

    _, tool = build_run_spans(facts(*events, messages=(Message.user("?"), call_message), times={1: time_after(9)}))

    assert (tool.name, tool.inputs, tool.start, tool.duration_ms) == ("execute_tool ask", {}, time_after(9), 0.0)
    assert tool.notes == ("untimed",)


def test_a_tool_reported_by_an_instrumentation_gets_no_second_span() -> None:
    events: list[Event] = []
    for number, name in enumerate(("weather", "weather", "time"), 1):
        first, item = 4 * number - 3, f"fc_c{number}"
        events += [
            ToolStarted(first, item, "m1", f"c{number}", name),
            ToolEnded(first + 1, item, "{}"),
            ToolReturned(first + 2, f"fco_c{number}", f"m{number}", f"c{number}", number),
        ]
    facts_of_run = facts(*events, RunFinished(20))

    remaining = [
        [
            span.tool.call_id
            for span in build_run_spans(facts_of_run._replace(reported_tools=tools))
            if span.tool is not None
        ]
        for tools in (
            (),
            [ReportedTool("c2", "weather")],
            [ReportedTool(None, "weather")],
            [ReportedTool(None, "other")],
        )
    ]

    assert remaining == [["c1", "c2", "c3"], ["c1", "c3"], ["c2", "c3"], ["c1", "c2", "c3"]]


def test_a_result_for_an_unknown_call_gives_no_span() -> None:
    assert len(build_run_spans(facts(ToolReturned(1, "fco_c0", "m1", "c0", "yes"), RunFinished(2)))) == 1


def test_a_call_without_a_result_gives_no_span() -> None:
    assert len(build_run_spans(facts(*CALL_EVENTS, RunCancelled(4)))) == 1


# How much is recorded


@pytest.mark.parametrize(("record", "content"), [("off", "full"), ("full", "off"), ("metadata", "off")])
def test_a_run_that_is_not_recorded_has_no_spans(record: Any, content: Any) -> None:
    assert build_run_spans(facts(RunFinished(1), record=record), content) == []


@pytest.mark.parametrize(("record", "content"), [("metadata", "full"), ("full", "metadata")])
def test_metadata_spans_contain_no_content(record: Any, content: Any) -> None:
    facts_of_run = facts(
        *CALL_EVENTS,
        ToolReturned(4, "fco_c1", "m2", "c1", "said"),
        *text_events("said", 5),
        UsageAdded(11, Usage(1, 2)),
        RunFinished(12, value="said"),
        messages=(Message.user("said"),),
        inputs={"x": "said"},
        parameters={"p": "said"},
        record=record,
    )

    spans = build_run_spans(facts_of_run, content)

    assert b"said" not in json.encode(spans)
    assert b"Oslo" not in json.encode(spans)
    assert [span.usage for span in spans] == [Usage(1, 2), None]


def test_secrets_of_a_call_are_masked_in_its_spans() -> None:
    secret = "correct-horse-battery"
    events = [
        *CALL_EVENTS,
        ToolReturned(4, "fco_c1", "m2", "c1", f"{secret}."),
        *text_events(secret, 5),
        RunFinished(5 + len(secret) + 3, value=[secret]),
    ]

    spans = build_run_spans(
        facts(
            *events,
            messages=(Message.user(f"My key is {secret}"),),
            inputs={"key": secret},
            secrets={"key": Secret(secret)},
        )
    )

    assert secret.encode() not in json.encode(spans)
    assert spans[0].messages_in == (Message.user("My key is ***"),)
    assert (spans[0].inputs, spans[0].outputs, spans[1].outputs) == ({"key": "***"}, ["***"], "***.")


# Size limits and values that cannot be encoded


def test_a_large_image_is_emptied_and_the_text_of_its_message_remains() -> None:
    picture = File(media_type="image/png", data="A" * (MAX_TEXT_BYTES + 1))

    [span] = build_run_spans(facts(RunFinished(1), messages=(Message.user("See", picture),)))

    assert span.messages_in == (Message.user("See", File(media_type="image/png", data="")),)
    assert (span.notes, span.dropped) == (("cut:gen_ai.input.messages",), {"bytes": MAX_TEXT_BYTES + 1})
    assert len(span.attributes["gen_ai.input.messages"]) < 200


def test_a_long_text_is_stored_in_its_field_but_not_as_an_attribute() -> None:
    long = Message.user("a" * (MAX_TEXT_BYTES + 1))

    [span] = build_run_spans(facts(RunFinished(1), messages=(long,)))

    assert (span.messages_in, span.notes) == ((long,), ("cut:gen_ai.input.messages",))
    assert "gen_ai.input.messages" not in span.attributes


def test_content_above_the_span_limit_is_left_out() -> None:
    [span] = build_run_spans(facts(RunFinished(1, value="a" * MAX_CONTENT_BYTES), is_chat=False))

    assert (span.outputs, span.notes, span.dropped) == (None, ("cut:palaver.value",), {"bytes": MAX_CONTENT_BYTES + 2})


def test_values_that_cannot_be_encoded_as_json_are_left_out_and_noted() -> None:
    odd = Message.user(Data(name="odd", value=object()))

    [span] = build_run_spans(facts(RunFinished(1), messages=(odd,), inputs={"odd": object()}))

    assert (span.messages_in, span.inputs) == ((), None)
    assert span.notes == ("unwritable:gen_ai.input.messages", "unwritable:palaver.inputs")


def test_lone_surrogates_are_replaced() -> None:
    [span] = build_run_spans(facts(RunFinished(1), messages=(Message.user("\ud800"),), inputs={"a": "\ud800"}))

    assert (span.messages_in, span.inputs) == ((Message.user("\ufffd"),), {"a": "\ufffd"})
    assert json.encode(span)


# Round trip through the attributes

_characters = st.characters(exclude_categories=["C"])  # Control characters of clients become U+FFFD.
_texts = st.text(_characters, max_size=20)
_short_texts = st.text(_characters, min_size=1, max_size=20)
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
)
_parts = st.one_of(
    st.builds(Text, _short_texts),
    st.builds(File, st.just("image/png"), st.just("https://example.org/a.png")),
)
_user_messages = st.builds(lambda parts: Message("user", tuple(parts)), st.lists(_parts, min_size=1, max_size=2))
_tool_exchanges = st.builds(
    lambda output: (Message.assistant(ToolCall("c0", "f", "{}")), Message("tool", (ToolResult("c0", output),))),
    st.dictionaries(_texts, st.integers(), min_size=1, max_size=2),
)


@given(
    messages=st.lists(_user_messages, min_size=1, max_size=3),
    earlier_results=st.none() | _tool_exchanges,
    inputs=st.dictionaries(st.text("abc", min_size=1), _json, max_size=3),
    parameters=st.dictionaries(st.text("abc", min_size=1), _json, max_size=3),
    answer=_short_texts,
    usage=st.none() | st.builds(Usage, st.integers(0, 9), st.integers(0, 9), st.none() | st.integers(0, 9)),
    end=st.sampled_from([RunFinished(5), RunFinished(5, finish="length"), RunCancelled(5), RunFailed(5, "c", "m")]),
)
def test_mapping_the_attributes_of_a_run_span_gives_the_same_span(
    messages: list[Message],
    earlier_results: tuple[Message, ...] | None,
    inputs: Any,
    parameters: Any,
    answer: str,
    usage: Usage | None,
    end: Any,
) -> None:
    events: list[Event] = [
        TextStarted(1, "m1", "m1"),
        TextDelta(2, "m1", answer),
        TextEnded(3, "m1", answer),
        *([UsageAdded(4, usage)] if usage else ()),
        msgspec.structs.replace(end, at=time_after(9)),
    ]

    [span] = build_run_spans(
        facts(*events, messages=(*messages, *(earlier_results or ())), inputs=inputs, parameters=parameters, user="u")
    )

    assert map_span(span) == span


@given(output=_json, arguments=_texts)
def test_mapping_the_attributes_of_a_tool_span_gives_the_same_span(output: Any, arguments: str) -> None:
    events = [*CALL_EVENTS[:2], ToolEnded(3, "fc_c1", arguments), ToolReturned(4, "fco_c1", "m2", "c1", output)]

    _, tool = build_run_spans(facts(*events, RunFinished(5)))

    assert map_span(tool) == tool
