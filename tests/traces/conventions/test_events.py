"""Messages in the events of a span, in every format that the conventions have used."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from palaver.core import json
from palaver.core.messages import Message, Reasoning, ToolCall
from palaver.traces.conventions import events
from palaver.traces.conventions.attributes import SpanFields
from palaver.traces.model import RawSpan, SpanEvent
from tests.traces.conventions.convention_cases import VALUES, is_valid, raw_span


def text(value: Any) -> str:
    return json.encode(value).decode()


def span_with_events(*pairs: tuple[str, dict[str, Any]]) -> RawSpan:
    span_events = tuple(SpanEvent(name, None, attributes) for name, attributes in pairs)
    return msgspec.structs.replace(raw_span({}), events=span_events)


def fields_of(*pairs: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    span_fields = events.read_fields(span_with_events(*pairs))
    fields = {name: getattr(span_fields, name) for name in SpanFields.__struct_fields__}
    return {name: value for name, value in fields.items() if value is not UNSET and (name != "notes" or value)}


CALLS = [{"id": "c", "type": "function", "function": {"name": "now", "arguments": '{"tz": 1}'}}]
CALL_MESSAGE = Message.assistant(ToolCall("c", "now", '{"tz": 1}'))
IN = (Message.system("Be brief."), Message.user("Time?"), CALL_MESSAGE, Message.tool("c", "noon"))
OUT = (Message.assistant("Noon."),)


def test_events_with_their_body_in_attributes_are_a_conversation() -> None:
    assert fields_of(
        ("gen_ai.system.message", {"content": "Be brief."}),
        ("gen_ai.user.message", {"content": "Time?", "gen_ai.system": "openai"}),
        ("gen_ai.assistant.message", {"tool_calls": text(CALLS)}),
        ("gen_ai.tool.message", {"content": "noon", "id": "c"}),
        ("something.else", {"content": "?"}),
        (
            "gen_ai.choice",
            {"index": 0, "message": text({"role": "assistant", "content": "Noon."}), "finish_reason": "stop"},
        ),
    ) == {"messages_in": IN, "messages_out": OUT, "finish": "stop"}


def test_events_with_their_body_as_json_in_one_attribute_are_a_conversation() -> None:
    key = "gen_ai.event.content"

    assert fields_of(
        ("gen_ai.system.message", {key: text({"role": "system", "content": "Be brief."})}),
        ("gen_ai.user.message", {key: "Time?"}),
        ("gen_ai.assistant.message", {key: text({"role": "assistant", "tool_calls": CALLS})}),
        ("gen_ai.tool.message", {key: text({"content": "noon", "id": "c"})}),
        ("gen_ai.choice", {key: text({"message": {"content": "Noon."}, "finish_reason": "end_turn"})}),
    ) == {"messages_in": IN, "messages_out": OUT, "finish": "stop"}


@pytest.mark.parametrize(
    "choice",
    [
        {"message": {"content": "Noon."}},
        {"message": "Noon."},
        {"content": "Noon.", "role": "assistant"},
        {"message": text([{"text": "Noon."}])},
        {"message": text({"content": [{"type": "text", "text": "Noon."}]})},
        {"content": {"type": "text", "text": "Noon."}},
    ],
    ids=repr,
)
def test_each_format_of_a_choice_is_read(choice: dict[str, Any]) -> None:
    assert fields_of(("gen_ai.choice", choice)) == {"messages_out": OUT}


def test_a_prompt_and_a_completion_are_read_from_one_event_each() -> None:
    assert fields_of(
        ("gen_ai.content.prompt", {}),
        ("gen_ai.content.prompt", {"gen_ai.prompt": text([{"role": "user", "content": "Time?"}])}),
        ("gen_ai.content.completion", {"gen_ai.completion": "Noon."}),
    ) == {"messages_in": (Message.user("Time?"),), "messages_out": OUT}


def test_operation_details_are_read_like_span_attributes() -> None:
    details = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.system_instructions": text([{"type": "text", "content": "Be brief."}]),
        "gen_ai.input.messages": text([{"role": "user", "parts": [{"type": "text", "content": "Time?"}]}]),
        "gen_ai.output.messages": text([{"role": "assistant", "parts": [{"type": "text", "content": "Noon."}]}]),
        "gen_ai.response.finish_reasons": ["length"],
        "gen_ai.usage.input_tokens": "x",
    }

    assert fields_of(("gen_ai.client.inference.operation.details", details)) == {
        "kind": "llm",
        "messages_in": IN[:2],
        "messages_out": OUT,
        "model": "gpt-4o",
        "finish": "length",
        "notes": ("number:gen_ai.usage.input_tokens",),
    }


def test_events_without_recorded_content_set_no_fields() -> None:
    assert fields_of(("gen_ai.user.message", {"gen_ai.system": "openai"}), ("gen_ai.choice", {"index": 0})) == {}
    assert fields_of(("exception", {"exception.type": "E"})) == fields_of() == {}


KEYS = (
    "content role tool_calls id message finish_reason gen_ai.event.content gen_ai.prompt gen_ai.completion name".split()
)
NAMES = [
    *events.MESSAGE_EVENTS,
    *"gen_ai.content.prompt gen_ai.content.completion gen_ai.client.inference.operation.details".split(),
]


@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=5)), max_size=4)
)
def test_any_events_give_valid_fields(pairs: list[tuple[str, dict[str, Any]]]) -> None:
    assert is_valid(events.read_fields(span_with_events(*pairs)))


def test_parts_of_messages_in_several_events_of_details_are_put_together() -> None:
    user = {"role": "user", "parts": [{"type": "text", "content": "Time?"}]}
    call, noon = {"role": "assistant", "content": "?"}, {"role": "assistant", "content": "Noon."}
    name = "gen_ai.client.inference.operation.details"
    instructions = text([{"type": "text", "content": "Be brief."}])
    fields = fields_of(
        (name, {"gen_ai.system_instructions": instructions}),
        (name, {"gen_ai.input.messages": text([user])}),
        (name, {"gen_ai.input.messages": text([call])}),
        (name, {"gen_ai.input.messages": text([user])}),
        (name, {"gen_ai.output.messages": text([noon])}),
    )

    assert [message.text for message in fields["messages_in"]] == ["Be brief.", "Time?", "?", "Time?"]
    assert [message.text for message in fields["messages_out"]] == ["Noon."]


def test_parts_of_bedrock_are_calls_and_results() -> None:
    call = {"toolUse": {"toolUseId": "c", "name": "now", "input": {"tz": 1}}}
    failed = {"toolResult": {"toolUseId": "c", "status": "error", "content": [{"text": "no"}]}}
    thought = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}}
    fields = fields_of(
        ("gen_ai.assistant.message", {"content": text([thought, call])}),
        ("gen_ai.tool.message", {"content": text([failed])}),
        ("gen_ai.choice", {"message": text([{"text": "Noon."}])}),
    )

    assert fields["messages_in"] == (
        Message.assistant(Reasoning("Hm.", "s"), ToolCall("c", "now", '{"tz":1}')),
        Message.tool("c", "no", is_error=True),
    )
    assert fields["messages_out"] == OUT


def test_messages_of_a_tool_are_its_arguments_and_its_result() -> None:
    raw = span_with_events(
        ("gen_ai.tool.message", {"role": "tool", "id": "c", "content": text({"tz": 1})}),
        ("gen_ai.choice", {"id": "c", "message": text([{"text": "no"}, {"text": "on"}])}),
    )
    tool = msgspec.structs.replace(raw, attributes={"gen_ai.operation.name": "execute_tool"})

    assert events.read_fields(tool) == SpanFields(inputs={"tz": 1}, outputs="noon")
