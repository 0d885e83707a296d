"""OpenLLMetry (Traceloop), up to 0.54 with indexed prompts and completions."""

from typing import Any

import pytest
from hypothesis import given

from palaver.core.messages import Data, File, Message, ToolCall, ToolResult
from palaver.traces.conventions import openllmetry
from palaver.traces.model import Tool, ToolDefinition
from tests.traces.conventions.convention_cases import (
    UNRELATED_ATTRIBUTES,
    attributes_of,
    is_valid,
    raw_span,
    read_fields,
)


def fields_of(attributes: dict[str, Any]) -> dict[str, Any]:
    return read_fields(openllmetry, attributes)


def message_attributes(side: str, *messages: dict[str, Any]) -> dict[str, Any]:
    return {
        f"gen_ai.{side}.{index}.{name}": value
        for index, message in enumerate(messages)
        for name, value in message.items()
    }


def test_attributes_of_other_conventions_set_no_fields() -> None:
    assert fields_of(UNRELATED_ATTRIBUTES) == {}
    assert fields_of({}) == {}
    assert (
        fields_of({"gen_ai.prompt": "Hi", "gen_ai.completion": "Ho", "llm.headers": "x", "traceloop.entity.path": "a"})
        == {}
    )


@pytest.mark.parametrize("kind", ["workflow", "task", "agent", "tool"])
def test_each_span_kind_is_mapped(kind: str) -> None:
    assert fields_of({"traceloop.span.kind": kind}) == {"kind": kind}


@pytest.mark.parametrize(
    ("attribute", "kind"), [("chat", "llm"), ("completion", "llm"), ("embedding", "embedding"), ("rerank", "rerank")]
)
def test_each_request_type_maps_to_a_kind(attribute: str, kind: str) -> None:
    assert fields_of({"llm.request.type": attribute}) == {"kind": kind}
    assert fields_of({"llm.request.type": attribute, "traceloop.span.kind": "unknown"}) == {"kind": kind}
    assert fields_of({"llm.request.type": attribute, "traceloop.span.kind": "task"}) == {"kind": "task"}


@pytest.mark.parametrize("attribute", ["unknown", "dance", "", 7, None])
def test_an_unknown_kind_sets_no_field(attribute: Any) -> None:
    assert fields_of({"llm.request.type": attribute, "traceloop.span.kind": attribute}) == {}


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        *(
            ({f"traceloop.association.properties.{name}": "s"}, {"session": "s"})
            for name in ("session_id", "conversation_id", "thread_id", "chat_id")
        ),
        (
            {"traceloop.association.properties.chat_id": "a", "traceloop.association.properties.session_id": "b"},
            {"session": "b"},
        ),
        ({"traceloop.association.properties.user_id": "u"}, {"user": "u"}),
        ({"traceloop.workflow.name": "shop"}, {"workflow": "shop"}),
        ({"gen_ai.completion.0.finish_reason": "tool_calls"}, {"finish": "tool-calls"}),
        ({"gen_ai.completion.0.finish_reason": "stop"}, {"finish": "stop"}),
    ],
)
def test_each_attribute_sets_its_field(attributes: dict[str, Any], expected: dict[str, Any]) -> None:
    assert fields_of(attributes) == expected


def test_a_conversation_with_tools_is_read() -> None:
    assert fields_of(
        message_attributes(
            "prompt",
            {"role": "system", "content": "Be brief."},
            {"content": "Weather in Oslo?"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls.0.id": "c1",
                "tool_calls.0.name": "weather",
                "tool_calls.0.arguments": '{"city": "Oslo"}',
                "tool_calls.1.name": "now",
            },
            {"role": "tool", "tool_call_id": "c1", "content": '{"sky":"grey"}'},
            {"role": "tool", "content": "noon"},
        )
        | message_attributes("completion", {"content": "Grey.", "finish_reason": "stop"})
    ) == {
        "messages_in": (
            Message.system("Be brief."),
            Message.user("Weather in Oslo?"),
            Message.assistant(ToolCall("c1", "weather", '{"city": "Oslo"}'), ToolCall("call_2", "now")),
            Message.tool("c1", '{"sky":"grey"}'),
            Message.tool("call_2", "noon"),
        ),
        "messages_out": (Message.assistant("Grey."),),
        "finish": "stop",
    }


def test_content_that_is_a_json_text_of_parts_is_parsed() -> None:
    assert fields_of(
        message_attributes(
            "prompt",
            {
                "role": "user",
                "content": (
                    '[{"type":"text","text":"What is it?"},'
                    '{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]'
                ),
            },
            {
                "role": "assistant",
                "content": '[{"type":"tool_use","id":"c1","name":"look","input":{"n":1}}]',
            },
            {
                "role": "user",
                "content": (
                    '[{"type":"tool_result","tool_use_id":"c1","content":"A cat."},{"type":"text","text":"So?"}]'
                ),
            },
            {"role": "user", "content": '["not", "parts"]'},
            {"role": "user", "content": "[broken"},
        )
    ) == {
        "messages_in": (
            Message.user("What is it?", File("image/png", data="AAAA")),
            Message.assistant(ToolCall("c1", "look", '{"n":1}')),
            Message.tool("c1", "A cat."),
            Message.user("So?"),
            Message.user('["not", "parts"]'),
            Message.user("[broken"),
        )
    }


def test_a_legacy_function_call_becomes_a_tool_call() -> None:
    assert fields_of(
        message_attributes(
            "completion",
            {"finish_reason": "function_call", "function_call.name": "now", "function_call.arguments": "{}"},
        )
    ) == {"messages_out": (Message.assistant(ToolCall("call_1", "now", "{}")),), "finish": "tool-calls"}


def test_attribute_names_of_the_first_versions_are_read() -> None:
    assert fields_of(
        {"llm.prompts.0.role": "user", "llm.prompts.0.content": "Hi", "llm.completions.0.content": "Ho"}
    ) == {
        "messages_in": (Message.user("Hi"),),
        "messages_out": (Message.assistant("Ho"),),
    }


def test_an_unreadable_entry_becomes_a_data_part() -> None:
    assert fields_of(
        {"gen_ai.prompt.0.content": {"odd": 1}, "gen_ai.prompt.1": 7, "gen_ai.prompt.2.content": "Hi"}
    ) == {
        "messages_in": (
            Message.user(Data("unreadable", {"content": {"odd": 1}})),
            Message.user(Data("unreadable", 7)),
            Message.user("Hi"),
        )
    }


def test_empty_text_gives_no_part() -> None:
    assert fields_of(message_attributes("completion", {"role": "assistant", "content": ""})) == {
        "messages_out": (Message.assistant(),)
    }


def test_a_finish_reason_alone_gives_no_message() -> None:
    assert fields_of(message_attributes("completion", {"finish_reason": "length"})) == {"finish": "length"}


def test_indexed_tool_definitions_are_read() -> None:
    assert fields_of(
        {
            "llm.request.functions.0.name": "weather",
            "llm.request.functions.0.description": "It is.",
            "llm.request.functions.0.parameters": '{"type": "object"}',
            "llm.request.functions.1.name": "now",
            "llm.request.functions.1.input_schema": "{broken",
            "llm.request.functions.2.description": "nameless",
        }
    ) == {
        "tools": (ToolDefinition("weather", "It is.", {"type": "object"}), ToolDefinition("now", parameters="{broken"))
    }


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ('{"inputs": {"city": "Oslo"}, "tags": [], "kwargs": {}}', {"city": "Oslo"}),
        ('{"inputs": null}', None),
        ('{"args": [], "kwargs": {"city": "Oslo"}}', {"city": "Oslo"}),
        ('{"args": ["Oslo"], "kwargs": {"days": 3}}', {"args": ["Oslo"], "kwargs": {"days": 3}}),
        ('{"city": "Oslo"}', {"city": "Oslo"}),
        ("[1]", [1]),
        ('"Hi"', "Hi"),
        ("Hi", "Hi"),
        ("{broken", "{broken"),
        ({"inputs": 1}, 1),
    ],
)
def test_the_input_of_an_entity_is_decoded(attribute: Any, value: Any) -> None:
    assert fields_of({"traceloop.entity.input": attribute}) == {"inputs": value}


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ('{"outputs": {"sky": "grey"}, "kwargs": {}}', {"sky": "grey"}),
        ('{"sky": "grey"}', {"sky": "grey"}),
        ('"Grey."', "Grey."),
        ("Grey.", "Grey."),
    ],
)
def test_the_output_of_an_entity_is_decoded(attribute: Any, value: Any) -> None:
    assert fields_of({"traceloop.entity.output": attribute}) == {"outputs": value}


def test_a_tool_span_has_its_tool_inputs_and_outputs() -> None:
    assert fields_of(
        {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "weather",
            "traceloop.entity.input": '{"inputs": {"city": "Oslo"}}',
            "traceloop.entity.output": '{"output": "grey"}',
        }
    ) == {"kind": "tool", "tool": Tool("weather"), "inputs": {"city": "Oslo"}, "outputs": {"output": "grey"}}


def test_the_call_id_of_a_tool_result_is_trimmed() -> None:
    assert fields_of(message_attributes("prompt", {"role": "tool", "content": "noon", "tool_call_id": " c9 "})) == {
        "messages_in": (Message("tool", (ToolResult("c9", "noon"),)),)
    }


NAMES = [
    *"traceloop.span.kind llm.request.type traceloop.workflow.name traceloop.entity.name".split(),
    *"traceloop.association.properties.thread_id".split(),
    *"traceloop.entity.input traceloop.entity.output llm.request.functions.#.name llm.request.functions.#".split(),
    *"llm.request.functions.#.parameters llm.request.functions.#.description".split(),
    *(
        f"gen_ai.{side}.#{suffix}"
        for side in ("prompt", "completion")
        for suffix in (
            *" .role .content .tool_call_id .finish_reason .tool_calls .function_call.name".split(" "),
            *".tool_calls.#.id .tool_calls.#.name .tool_calls.#.arguments .tool_calls.#".split(),
        )
    ),
]


@given(attributes_of(NAMES))
def test_any_attribute_values_give_valid_fields(attributes: dict[str, Any]) -> None:
    assert is_valid(openllmetry.read_fields(raw_span(attributes)))
