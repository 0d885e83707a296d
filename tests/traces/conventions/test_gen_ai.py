"""OpenTelemetry's gen_ai attributes: every field, and every form of messages."""

from typing import Any

import pytest
from hypothesis import given

from palaver.core import json
from palaver.core.messages import Message, Text, ToolCall
from palaver.traces.conventions import gen_ai
from palaver.traces.model import Tool, ToolDefinition
from tests.traces.conventions.convention_cases import (
    UNRELATED_ATTRIBUTES,
    attributes_of,
    is_valid,
    raw_span,
    read_fields,
)

IN = [{"role": "user", "parts": [{"type": "text", "content": "Weather in Oslo?"}]}]
OUT = [
    {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": "Oslo"}}],
        "finish_reason": "tool_call",
    }
]
QUESTION = Message.user("Weather in Oslo?")
CALL_MESSAGE = Message.assistant(ToolCall("c1", "weather", '{"city":"Oslo"}'))


def text(value: Any) -> str:
    return json.encode(value).decode()


def test_a_chat_span_sets_all_its_fields() -> None:
    assert read_fields(
        gen_ai,
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.response.model": "gpt-4o-2024-08-06",
            "gen_ai.request.temperature": 0.2,
            "gen_ai.request.max_tokens": 200,
            "gen_ai.request.stop_sequences": ["END"],
            "gen_ai.request.choice.count": 2,
            "gen_ai.response.finish_reasons": ["tool_calls"],
            "gen_ai.usage.input_tokens": 31,
            "gen_ai.usage.output_tokens": "9",
            "gen_ai.usage.cache_read.input_tokens": 8.0,
            "gen_ai.usage.cache_creation.input_tokens": 4,
            "gen_ai.usage.reasoning.output_tokens": 2,
            "gen_ai.usage.cost": 0.0002,
            "gen_ai.conversation.id": "s-1",
            "gen_ai.user": "u-1",
            "gen_ai.tool.definitions": text([{"type": "function", "name": "weather", "parameters": {}}]),
            "gen_ai.input.messages": text(IN),
            "gen_ai.output.messages": OUT,
            **UNRELATED_ATTRIBUTES,
        },
    ) == {
        "kind": "llm",
        "messages_in": (QUESTION,),
        "messages_out": (CALL_MESSAGE,),
        "parameters": {"temperature": 0.2, "max_tokens": 200, "stop": ["END"], "n": 2},
        "tools": (ToolDefinition(name="weather", parameters={}),),
        "input_tokens": 31,
        "output_tokens": 9,
        "cached_input_tokens": 8,
        "cache_creation_input_tokens": 4,
        "reasoning_tokens": 2,
        "cost": 0.0002,
        "model": "gpt-4o-2024-08-06",
        "provider": "openai",
        "finish": "tool-calls",
        "session": "s-1",
        "user": "u-1",
    }


@pytest.mark.parametrize(
    ("attributes", "fields"),
    [
        ({"gen_ai.request.model": "gpt-4o"}, {"model": "gpt-4o"}),
        ({"gen_ai.system": "anthropic"}, {"provider": "anthropic"}),
        ({"gen_ai.system": "a", "gen_ai.provider.name": "b"}, {"provider": "b"}),
        ({"gen_ai.system": "az.ai.inference"}, {"provider": "az.ai.inference"}),
        ({"gen_ai.system": "openai.chat", "ai.model.provider": "openai.chat"}, {"provider": "openai"}),
        ({"gen_ai.system": ".odd", "ai.model.provider": ".odd"}, {"provider": ".odd"}),
        ({"gen_ai.usage.prompt_tokens": 1}, {"input_tokens": 1}),
        ({"gen_ai.usage.completion_tokens": 1}, {"output_tokens": 1}),
        ({"gen_ai.usage.cache_read_input_tokens": 1}, {"cached_input_tokens": 1}),
        ({"gen_ai.usage.cache_creation_input_tokens": 1}, {"cache_creation_input_tokens": 1}),
        ({"gen_ai.usage.reasoning_tokens": 1}, {"reasoning_tokens": 1}),
        ({"operation.cost": "0.5"}, {"cost": 0.5}),
        ({"gen_ai.response.finish_reasons": '["end_turn"]'}, {"finish": "stop"}),
        ({"gen_ai.response.finish_reasons": "max_tokens"}, {"finish": "length"}),
        ({"gen_ai.response.finish_reasons": ["because"]}, {}),
        ({"gen_ai.user": "u", "user.id": "v"}, {}),
        ({"gen_ai.user": "u", "enduser.id": "v"}, {}),
        ({"gen_ai.workflow.name": "w"}, {"workflow": "w"}),
        ({"gen_ai.operation.name": "invoke_workflow"}, {"kind": "workflow"}),
        ({"gen_ai.operation.name": "something"}, {}),
        ({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}, {"kind": "agent", "workflow": "a"}),
        ({"gen_ai.operation.name": "invoke_agent", "agent_name": "a"}, {"kind": "agent", "workflow": "a"}),
        (
            {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a", "traceloop.workflow.name": "w"},
            {"kind": "agent"},
        ),
        ({"gen_ai.operation.name": "chat", "gen_ai.agent.name": "a"}, {"kind": "llm"}),
        ({"gen_ai.retrieval.query.text": "q"}, {"inputs": {"query": "q"}}),
        ({"gen_ai.retrieval.documents": '[{"id":"1"}]'}, {"outputs": {"documents": [{"id": "1"}]}}),
        (
            {"gen_ai.tool.definitions.1.name": "b", "gen_ai.tool.definitions.0.name": "a"},
            {"tools": (ToolDefinition(name="a"), ToolDefinition(name="b"))},
        ),
        ({"gen_ai.request.model": None, "gen_ai.request.seed": None}, {}),
        ({}, {}),
        (UNRELATED_ATTRIBUTES, {}),
    ],
    ids=repr,
)
def test_each_attribute_sets_its_field(attributes: dict[str, Any], fields: dict[str, Any]) -> None:
    assert read_fields(gen_ai, attributes) == fields


def test_a_tool_span_has_a_name_a_call_id_arguments_and_a_result() -> None:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "weather",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.call.arguments": '{"city":"Oslo"}',
        "gen_ai.tool.call.result": "4",
    }
    fields: dict[str, Any] = {
        "kind": "tool",
        "tool": Tool(name="weather", call_id="c1"),
        "inputs": {"city": "Oslo"},
        "outputs": 4,
    }

    assert read_fields(gen_ai, attributes) == fields
    del attributes["gen_ai.operation.name"]
    assert read_fields(gen_ai, attributes) == fields
    del attributes["gen_ai.tool.call.id"], fields["kind"]
    assert read_fields(gen_ai, attributes) == {**fields, "tool": Tool(name="weather")}


def test_an_invalid_number_is_noted_and_the_next_attribute_is_used() -> None:
    assert read_fields(
        gen_ai, {"gen_ai.usage.input_tokens": -3, "gen_ai.usage.prompt_tokens": 3, "gen_ai.usage.output_tokens": "few"}
    ) == {"input_tokens": 3, "notes": ("number:gen_ai.usage.input_tokens", "number:gen_ai.usage.output_tokens")}


@pytest.mark.parametrize(
    ("attributes", "messages_in", "messages_out"),
    [
        ({"gen_ai.input.messages": IN, "gen_ai.output.messages": text(OUT)}, (QUESTION,), (CALL_MESSAGE,)),
        ({"gen_ai.input.messages": text([{"role": "user", "content": "Weather in Oslo?"}])}, (QUESTION,), None),
        ({"gen_ai.prompt": text(IN), "gen_ai.completion": text(OUT)}, (QUESTION,), (CALL_MESSAGE,)),
        (
            {"gen_ai.prompt": "Weather in Oslo?", "gen_ai.completion": "Rain."},
            (QUESTION,),
            (Message.assistant("Rain."),),
        ),
        ({"gen_ai.input.messages": text(IN), "gen_ai.prompt": "older"}, (QUESTION,), None),
        ({"gen_ai.input.messages": "[]", "gen_ai.prompt": "Weather in Oslo?"}, (QUESTION,), None),
        ({"gen_ai.input.messages": '[{"role":"user","par'}, (Message.user('[{"role":"user","par'),), None),
    ],
    ids=repr,
)
def test_messages_are_read_from_each_form(attributes: dict[str, Any], messages_in: Any, messages_out: Any) -> None:
    span_fields = read_fields(gen_ai, attributes)

    assert (span_fields.get("messages_in"), span_fields.get("messages_out")) == (messages_in, messages_out)


INSTRUCTIONS = text([{"type": "text", "content": "Be brief."}])


@pytest.mark.parametrize(
    ("instructions", "messages", "expected"),
    [
        (INSTRUCTIONS, (QUESTION,), (Message.system("Be brief."), QUESTION)),
        (INSTRUCTIONS, (), (Message.system("Be brief."),)),
        ("Be brief.", (QUESTION,), (Message.system("Be brief."), QUESTION)),
        ({"type": "text", "content": "Be brief."}, (QUESTION,), (Message.system("Be brief."), QUESTION)),
        (INSTRUCTIONS, (Message.system("Be brief."), QUESTION), (Message.system("Be brief."), QUESTION)),
        (
            INSTRUCTIONS,
            (Message("developer", (Text("Be brief."),)), QUESTION),
            (Message("developer", (Text("Be brief."),)), QUESTION),
        ),
        (INSTRUCTIONS, (Message.system("Other."),), (Message.system("Be brief."), Message.system("Other."))),
        (None, (QUESTION,), (QUESTION,)),
        ("[]", (QUESTION,), (QUESTION,)),
    ],
    ids=repr,
)
def test_system_instructions_are_prepended_unless_already_present(
    instructions: Any, messages: Any, expected: Any
) -> None:
    assert gen_ai.prepend_instructions(messages, {"gen_ai.system_instructions": instructions}) == expected


NAMES = [
    *"gen_ai.operation.name gen_ai.request.model gen_ai.request.# gen_ai.response.finish_reasons gen_ai.prompt".split(),
    *"gen_ai.usage.input_tokens gen_ai.usage.cost gen_ai.tool.definitions gen_ai.tool.definitions.#.name".split(),
    *"gen_ai.tool.name gen_ai.tool.call.id gen_ai.tool.call.arguments gen_ai.completion gen_ai.input.messages".split(),
    *"gen_ai.output.messages gen_ai.conversation.id gen_ai.user gen_ai.retrieval.query.text".split(),
    *"gen_ai.retrieval.documents pydantic_ai.all_messages pydantic_ai.new_message_index all_messages_events".split(),
    *"final_result tool_arguments tool_response gen_ai.agent.name gen_ai.workflow.name operation.cost".split(),
    *"gen_ai.system_instructions events".split(),
]


@given(attributes_of(NAMES))
def test_any_attribute_values_give_valid_fields(attributes: dict[str, Any]) -> None:
    assert is_valid(gen_ai.read_fields(raw_span(attributes)))
    gen_ai.prepend_instructions((), attributes)
