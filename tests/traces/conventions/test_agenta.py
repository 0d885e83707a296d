"""Agenta's SDK (`ag.*`), whose values are prefixed with their type."""

from typing import Any

import pytest
from hypothesis import given

from palaver.core.messages import Data, File, Message, ToolCall, ToolResult
from palaver.traces.conventions import agenta
from tests.traces.conventions.convention_cases import (
    UNRELATED_ATTRIBUTES,
    attributes_of,
    is_valid,
    raw_span,
    read_fields,
)


def fields_of(attributes: dict[str, Any]) -> dict[str, Any]:
    return read_fields(agenta, attributes)


def test_attributes_of_other_conventions_set_no_fields() -> None:
    assert fields_of(UNRELATED_ATTRIBUTES) == {}
    assert fields_of({}) == {}
    assert fields_of({"ag.refs.application.slug": "shop", "age": 7}) == {}


@pytest.mark.parametrize(
    ("attribute", "kind"),
    [
        ("chat", "llm"),
        ("completion", "llm"),
        ("llm", "llm"),
        ("agent", "agent"),
        ("workflow", "workflow"),
        ("chain", "task"),
        ("task", "task"),
        ("tool", "tool"),
        ("embedding", "embedding"),
        ("query", "retrieval"),
        ("rerank", "rerank"),
    ],
)
def test_node_and_span_types_map_to_kinds(attribute: str, kind: str) -> None:
    assert fields_of({"ag.type.node": attribute}) == {"kind": kind}
    assert fields_of({"ag.type.span": attribute}) == {"kind": kind}


def test_a_known_node_type_takes_precedence_over_the_span_type() -> None:
    assert fields_of({"ag.type.span": "task", "ag.type.node": "chat"}) == {"kind": "llm"}
    assert fields_of({"ag.type.span": "task", "ag.type.node": "dance"}) == {"kind": "task"}
    assert fields_of({"ag.type.node": "dance", "ag.type.tree": "invocation"}) == {}


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"ag.meta.response.model": "r", "ag.meta.request.model": "q"}, {"model": "r"}),
        ({"ag.meta.request.model": "q"}, {"model": "q"}),
        ({"ag.meta.provider.name": "openai", "ag.meta.system": "azure"}, {"provider": "openai"}),
        ({"ag.meta.system": "azure"}, {"provider": "azure"}),
        ({"ag.session.id": "s", "ag.user.id": "u"}, {"session": "s", "user": "u"}),
        (
            {"ag.metrics.unit.tokens.prompt": 3.0, "ag.metrics.unit.tokens.completion": 2},
            {"input_tokens": 3, "output_tokens": 2},
        ),
        (
            {"ag.metrics.tokens.incremental.prompt": 3, "ag.metrics.tokens.incremental.completion": "2"},
            {"input_tokens": 3, "output_tokens": 2},
        ),
        (
            {"ag.metrics.unit.tokens.prompt": 3, "ag.metrics.tokens.incremental.prompt": 4},
            {"input_tokens": 3},
        ),
        ({"ag.metrics.unit.costs.total": 0.5, "ag.metrics.costs.incremental.total": 1}, {"cost": 0.5}),
        ({"ag.metrics.costs.incremental.total": 1}, {"cost": 1.0}),
    ],
)
def test_each_attribute_sets_its_field(attributes: dict[str, Any], expected: dict[str, Any]) -> None:
    assert fields_of(attributes) == expected


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ('@ag.type=json:{"city": "Oslo"}', {"city": "Oslo"}),
        ('{"city": "Oslo"}', {"city": "Oslo"}),
        ("@ag.type=json:[1]", [1]),
        ("@ag.type=json:7", 7),
        ('@ag.type=json:{"__default__": "Hi"}', "Hi"),
        ('{"__default__": {"a": 1}}', {"a": 1}),
        ('{"__default__": 1, "b": 2}', {"__default__": 1, "b": 2}),
        ("@ag.type=json:{broken", "{broken"),
        ("{broken", "{broken"),
        ("Hello.", "Hello."),
        ({"city": "Oslo"}, {"city": "Oslo"}),
        (7, 7),
    ],
)
def test_inputs_and_outputs_are_decoded(attribute: Any, value: Any) -> None:
    assert fields_of({"ag.data.inputs": attribute}) == {"inputs": value}
    assert fields_of({"ag.data.outputs": attribute}) == {"outputs": value}


def test_a_typed_none_gives_a_null_output() -> None:
    assert fields_of({"ag.data.outputs": "@ag.type=none:"}) == {"outputs": None}


def test_attributes_below_inputs_and_outputs_become_their_keys() -> None:
    assert fields_of(
        {
            "ag.data.inputs.city": "Oslo",
            "ag.data.inputs.days": 3,
            "ag.data.inputs.tags": '@ag.type=json:["a"]',
            "ag.data.inputs.none": "@ag.type=none:",
            "ag.data.inputs.user.name": "ann",
            "ag.data.outputs.__default__": "Grey.",
        }
    ) == {
        "inputs": {"city": "Oslo", "days": 3, "tags": ["a"], "none": None, "user.name": "ann"},
        "outputs": "Grey.",
    }


def test_an_inputs_object_is_merged_with_the_attributes_of_its_keys() -> None:
    assert fields_of({"ag.data.inputs": '{"a": 1, "b": 1}', "ag.data.inputs.b": 2}) == {"inputs": {"a": 1, "b": 2}}
    assert fields_of({"ag.data.inputs": "Hi", "ag.data.inputs.b": 2}) == {"inputs": "Hi"}


def test_the_model_is_left_out_of_the_parameters() -> None:
    assert fields_of({"ag.data.parameters": '@ag.type=json:{"temperature": 1, "model": "m"}'}) == {
        "parameters": {"temperature": 1}
    }
    assert fields_of(
        {"ag.data.parameters.prompt": '@ag.type=json:{"messages": []}', "ag.data.parameters.model": "m"}
    ) == {"parameters": {"prompt": {"messages": []}}}
    assert fields_of({"ag.data.parameters": "[1]"}) == {}


def test_indexed_messages_are_read() -> None:
    assert fields_of(
        {
            "ag.data.inputs.prompt.0.role": "system",
            "ag.data.inputs.prompt.0.content": "Be brief.",
            "ag.data.inputs.prompt.1.role": "user",
            "ag.data.inputs.prompt.1.content": '@ag.type=json:[{"type":"text","text":"Hi"}]',
            "ag.data.inputs.prompt.2.role": "user",
            "ag.data.inputs.prompt.2.content.0.type": "text",
            "ag.data.inputs.prompt.2.content.0.text": "What is it?",
            "ag.data.inputs.prompt.2.content.1.type": "image_url",
            "ag.data.inputs.prompt.2.content.1.image_url.url": "data:image/png;base64,AAAA",
            "ag.data.inputs.prompt.3.role": "assistant",
            "ag.data.inputs.prompt.3.tool_calls.0.id": "c1",
            "ag.data.inputs.prompt.3.tool_calls.0.function.name": "look",
            "ag.data.inputs.prompt.3.tool_calls.0.function.arguments": "{}",
            "ag.data.inputs.prompt.4.role": "tool",
            "ag.data.inputs.prompt.4.tool_call_id": "c1",
            "ag.data.inputs.prompt.4.content": "A cat.",
            "ag.data.outputs.completion.0.role": "assistant",
            "ag.data.outputs.completion.0.content": "",
            "ag.data.outputs.completion.0.tool_calls": '@ag.type=json:[{"function":{"name":"now","arguments":"{}"}}]',
        }
    ) == {
        "messages_in": (
            Message.system("Be brief."),
            Message.user("Hi"),
            Message.user("What is it?", File("image/png", data="AAAA")),
            Message.assistant(ToolCall("c1", "look", "{}")),
            Message("tool", (ToolResult("c1", "A cat."),)),
        ),
        "messages_out": (Message.assistant(ToolCall("call_2", "now", "{}")),),
    }


def test_messages_are_separated_from_other_inputs() -> None:
    assert fields_of({"ag.data.inputs.prompt.0.content": "Hi", "ag.data.inputs.city": "Oslo"}) == {
        "messages_in": (Message.user("Hi"),),
        "inputs": {"city": "Oslo"},
    }


def test_inputs_named_prompt_are_not_read_as_messages() -> None:
    assert fields_of({"ag.data.inputs.prompt": "Hi", "ag.data.inputs.prompt.system": "Be brief."}) == {
        "inputs": {"prompt": "Hi", "prompt.system": "Be brief."}
    }


def test_an_unreadable_message_becomes_a_data_part() -> None:
    assert fields_of({"ag.data.inputs.prompt.0.content": 7, "ag.data.inputs.prompt.1.role": "user"}) == {
        "messages_in": (Message.user(Data("unreadable", {"content": 7})), Message.user())
    }


NAMES = [
    *"ag.type.node ag.type.span ag.meta.request.model ag.meta.system ag.session.id ag.user.id".split(),
    *"ag.metrics.unit.tokens.prompt ag.metrics.unit.costs.total ag.data.parameters ag.data.parameters.model".split(),
    *"ag.data.inputs ag.data.inputs.a ag.data.inputs.prompt ag.data.outputs ag.data.outputs.__default__".split(),
    *(
        f"ag.data.{side}.#{suffix}"
        for side in ("inputs.prompt", "outputs.completion")
        for suffix in (
            *" .role .content .name .tool_call_id .tool_calls .content.#.type .content.#.text".split(" "),
            *".content.#.image_url.url .tool_calls.#.id .tool_calls.#.function.name .tool_calls.#.function".split(),
            ".tool_calls.#.function.arguments",
        )
    ),
]


@given(attributes_of(NAMES))
def test_any_attribute_values_give_valid_fields(attributes: dict[str, Any]) -> None:
    assert is_valid(agenta.read_fields(raw_span(attributes)))
