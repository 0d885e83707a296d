"""The AI SDK's telemetry (`ai.*`), as sent by the `ai` package up to version 6."""

from typing import Any

import pytest
from hypothesis import given

from palaver.core import json
from palaver.core.messages import Data, File, Message, Reasoning, ToolCall, ToolResult
from palaver.traces.conventions import ai_sdk
from palaver.traces.model import Span, Tool, ToolDefinition
from palaver.traces.span_mapper import to_span
from tests.traces.conventions.convention_cases import (
    UNRELATED_ATTRIBUTES,
    attributes_of,
    is_valid,
    raw_span,
    read_fields,
)


def fields_of(attributes: dict[str, Any]) -> dict[str, Any]:
    return read_fields(ai_sdk, attributes)


def text(value: Any) -> str:
    return json.encode(value).decode()


def test_the_documented_example_span_is_mapped() -> None:
    attributes = {
        "ai.operationId": "ai.toolCall",
        "ai.toolCall.name": "calc",
        "ai.toolCall.id": "t1",
        "ai.toolCall.args": '{"e":"2+2"}',
        "ai.toolCall.result": "4",
    }

    assert to_span(raw_span(attributes), project="default") == Span(
        trace_id=raw_span({}).trace_id,
        span_id=raw_span({}).span_id,
        start=raw_span({}).start,
        kind="tool",
        tool=Tool("calc", "t1"),
        inputs={"e": "2+2"},
        outputs=4,
        conventions=("ai-sdk",),
        attributes=attributes,
    )


def test_attributes_of_other_conventions_set_no_fields() -> None:
    assert fields_of(UNRELATED_ATTRIBUTES) == {}
    assert fields_of({}) == {}
    assert fields_of({"ai.unknown": 1, "aim": 2, "gen_ai.system": "openai"}) == {}


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        *((f"ai.{name}", "agent") for name in ("generateText", "streamText", "generateObject", "streamObject")),
        ("ai.generateText.doGenerate", "llm"),
        ("ai.streamText.doStream", "llm"),
        ("ai.generateObject.doGenerate", "llm"),
        ("ai.streamObject.doStream", "llm"),
        ("ai.toolCall", "tool"),
        ("ai.embed", "embedding"),
        ("ai.embedMany", "embedding"),
        ("ai.embed.doEmbed", "embedding"),
        ("ai.embedMany.doEmbed", "embedding"),
        ("ai.rerank", "rerank"),
        ("ai.rerank.doRerank", "rerank"),
    ],
)
def test_each_operation_maps_to_a_kind(operation: str, kind: str) -> None:
    assert fields_of({"ai.operationId": operation}) == {"kind": kind}


@pytest.mark.parametrize("operation", ["ai.sing", "", 7, None, "streamText"])
def test_an_unknown_operation_sets_no_field(operation: Any) -> None:
    assert fields_of({"ai.operationId": operation}) == {}


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"ai.response.model": "gpt-4o-2024", "ai.model.id": "gpt-4o"}, {"model": "gpt-4o-2024"}),
        ({"ai.model.id": "gpt-4o"}, {"model": "gpt-4o"}),
        ({"ai.model.provider": "openai.responses"}, {"provider": "openai"}),
        ({"ai.model.provider": "mistral"}, {"provider": "mistral"}),
        ({"ai.model.provider": ".odd"}, {}),
        ({"ai.telemetry.metadata.sessionId": "a", "ai.settings.context.sessionId": "b"}, {"session": "a"}),
        ({"ai.settings.context.sessionId": "b"}, {"session": "b"}),
        ({"ai.telemetry.metadata.userId": "a", "ai.settings.context.userId": "b"}, {"user": "a"}),
        ({"ai.settings.context.userId": "b"}, {"user": "b"}),
        ({"ai.usage.inputTokens": 5, "ai.usage.outputTokens": "6"}, {"input_tokens": 5, "output_tokens": 6}),
        ({"ai.usage.promptTokens": 5, "ai.usage.completionTokens": 6}, {"input_tokens": 5, "output_tokens": 6}),
        ({"ai.usage.tokens": 7}, {"input_tokens": 7}),
        ({"ai.operationId": "ai.embed", "ai.usage.tokens": 7}, {"kind": "embedding"}),
        ({"ai.operationId": "ai.embedMany", "ai.usage.tokens": 7}, {"kind": "embedding"}),
        ({"ai.operationId": "ai.embed.doEmbed", "ai.usage.tokens": 7}, {"kind": "embedding", "input_tokens": 7}),
        (
            {
                "ai.usage.cachedInputTokens": 1,
                "ai.usage.inputTokenDetails.cacheReadTokens": 2,
                "ai.usage.inputTokenDetails.cacheWriteTokens": 3,
                "ai.usage.reasoningTokens": 4,
                "ai.usage.outputTokenDetails.reasoningTokens": 5,
            },
            {"cached_input_tokens": 1, "cache_creation_input_tokens": 3, "reasoning_tokens": 4},
        ),
        ({"ai.usage.inputTokenDetails.cacheReadTokens": 2}, {"cached_input_tokens": 2}),
        ({"ai.usage.outputTokenDetails.reasoningTokens": 5}, {"reasoning_tokens": 5}),
        ({"ai.response.finishReason": "tool-calls", "ai.finishReason": "stop"}, {"finish": "tool-calls"}),
        ({"ai.finishReason": "length"}, {"finish": "length"}),
        ({"ai.response.finishReason": "other"}, {}),
        (
            {"ai.operationId": "ai.streamText", "ai.telemetry.functionId": "forecaster"},
            {"kind": "agent", "workflow": "forecaster"},
        ),
        ({"ai.operationId": "ai.streamText.doStream", "ai.telemetry.functionId": "forecaster"}, {"kind": "llm"}),
    ],
)
def test_each_attribute_sets_its_field(attributes: dict[str, Any], expected: dict[str, Any]) -> None:
    assert fields_of(attributes) == expected


def test_settings_become_parameters() -> None:
    assert fields_of(
        {
            "ai.settings.maxOutputTokens": 200,
            "ai.settings.maxTokens": 100,
            "ai.settings.temperature": 0.2,
            "ai.settings.topP": 1,
            "ai.settings.topK": 40,
            "ai.settings.stopSequences": ["END"],
            "ai.settings.presencePenalty": 0,
            "ai.settings.maxRetries": 2,
            "ai.settings.output": "object",
            "ai.settings.seed": None,
            "ai.settings.model": "m",
            "ai.settings.context.tenant": "t",
            "ai.settings.": "odd",
        }
    ) == {
        "parameters": {
            "max_tokens": 200,
            "temperature": 0.2,
            "top_p": 1,
            "top_k": 40,
            "stop": ["END"],
            "presence_penalty": 0,
            "max_retries": 2,
            "output": "object",
        }
    }


def test_the_legacy_name_of_a_setting_is_read() -> None:
    assert fields_of({"ai.settings.maxTokens": 100}) == {"parameters": {"max_tokens": 100}}


def test_tool_definitions_are_read_from_a_list_of_json_texts() -> None:
    schema = {"type": "object"}
    tools = [
        text({"type": "function", "name": "weather", "description": "It is.", "inputSchema": schema}),
        text({"type": "function", "name": "now", "parameters": schema}),
        "{broken",
    ]
    expected = {"tools": (ToolDefinition("weather", "It is.", schema), ToolDefinition("now", parameters=schema))}

    assert fields_of({"ai.prompt.tools": tools}) == expected
    assert fields_of({"ai.prompt.tools": text([json.parse_or_text(tool) for tool in tools[:2]])}) == expected


def test_a_prompt_of_model_messages_is_read() -> None:
    prompt = [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Weather here?"},
                {"type": "file", "mediaType": "image/png", "data": "AAAA"},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "reasoning", "text": "Ask."},
                {"type": "tool-call", "toolCallId": "t1", "toolName": "weather", "input": {"city": "Oslo"}},
                {"type": "tool-call", "toolCallId": "t2", "toolName": "now", "args": {}},
            ],
        },
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "t1",
                    "toolName": "weather",
                    "output": {"type": "json", "value": {"sky": "grey"}},
                },
                {"type": "tool-result", "toolCallId": "t2", "toolName": "now", "result": "noon"},
            ],
        },
    ]

    assert fields_of({"ai.prompt.messages": text(prompt)}) == {
        "messages_in": (
            Message.system("Be brief."),
            Message.user("Weather here?", File("image/png", data="AAAA")),
            Message.assistant(
                Reasoning("Ask."), ToolCall("t1", "weather", '{"city":"Oslo"}'), ToolCall("t2", "now", "{}")
            ),
            Message.tool("t1", {"sky": "grey"}),
            Message.tool("t2", "noon"),
        )
    }


@pytest.mark.parametrize(
    ("prompt", "messages"),
    [
        ({"prompt": "Hi"}, (Message.user("Hi"),)),
        ({"system": "Be brief.", "prompt": "Hi"}, (Message.system("Be brief."), Message.user("Hi"))),
        (
            {"system": "Be brief.", "messages": [{"role": "user", "content": "Hi"}]},
            (Message.system("Be brief."), Message.user("Hi")),
        ),
        ({"prompt": [{"role": "user", "content": "Hi"}]}, (Message.user("Hi"),)),
        (
            {"system": {"role": "system", "content": "Be brief."}, "prompt": "Hi"},
            (Message.system("Be brief."), Message.user("Hi")),
        ),
        ({"system": "", "prompt": "Hi"}, (Message.user("Hi"),)),
        ({"system": "Be brief."}, (Message.system("Be brief."),)),
    ],
)
def test_a_prompt_object_gives_messages_and_inputs(prompt: dict[str, Any], messages: tuple[Message, ...]) -> None:
    assert fields_of({"ai.prompt": text(prompt)}) == {"messages_in": messages, "inputs": prompt}


def test_an_invalid_or_empty_prompt_object_is_only_an_input() -> None:
    assert fields_of({"ai.prompt": '{"prompt": '}) == {"inputs": '{"prompt": '}
    assert fields_of({"ai.prompt": "{}"}) == {"inputs": {}}


def test_the_messages_of_a_step_take_precedence_over_the_prompt_object() -> None:
    attributes = {"ai.prompt": '{"prompt":"Hi"}', "ai.prompt.messages": '[{"role":"user","content":"Ho"}]'}

    assert fields_of(attributes) == {"messages_in": (Message.user("Ho"),), "inputs": {"prompt": "Hi"}}


def test_messages_that_are_not_json_become_one_text_message() -> None:
    assert fields_of({"ai.prompt.messages": "[broken"}) == {"messages_in": (Message.user("[broken"),)}


def test_an_unreadable_message_does_not_lose_the_others() -> None:
    assert fields_of(
        {"ai.prompt.messages": '[{"role":"user","content":"Hi"}, 7, {"role":"assistant","content":"Ho"}]'}
    ) == {
        "messages_in": (
            Message.user("Hi"),
            Message.user(Data("unreadable", 7)),
            Message.assistant("Ho"),
        )
    }


@pytest.mark.parametrize(("name", "argument"), [("response", "input"), ("result", "args")])
def test_reasoning_text_and_tool_calls_of_an_answer_are_one_message(name: str, argument: str) -> None:
    calls = [
        {"toolCallId": "t1", "toolName": "weather", argument: {"city": "Oslo"}},
        {"toolName": "now", argument: '{"tz": 1}'},
    ]

    assert fields_of(
        {
            f"ai.{name}.toolCalls": text(calls),
            f"ai.{name}.text": "I shall look.",
            f"ai.{name}.reasoning": "Look first.",
        }
    ) == {
        "messages_out": (
            Message.assistant(
                Reasoning("Look first."),
                "I shall look.",
                ToolCall("t1", "weather", '{"city":"Oslo"}'),
                ToolCall("call_2", "now", '{"tz": 1}'),
            ),
        )
    }


def test_empty_text_gives_no_part() -> None:
    call = '[{"toolCallId":"t1","toolName":"now","input":{}}]'

    assert fields_of({"ai.response.text": "", "ai.response.toolCalls": call}) == {
        "messages_out": (Message.assistant(ToolCall("t1", "now", "{}")),)
    }
    assert fields_of({"ai.response.text": "", "ai.response.reasoning": "", "ai.response.toolCalls": "[]"}) == {}


def test_unreadable_tool_calls_become_data_parts() -> None:
    assert fields_of({"ai.response.toolCalls": "[broken"}) == {
        "messages_out": (Message.assistant(Data("unreadable", "[broken")),)
    }
    assert fields_of({"ai.response.toolCalls": '[7, {"toolName": "now"}]'}) == {
        "messages_out": (Message.assistant(Data("unreadable", 7), ToolCall("call_1", "now")),)
    }


def test_files_of_an_answer_are_parts_of_its_message() -> None:
    files = '[{"type":"file","mediaType":"image/png","data":"AAAA"}]'

    assert fields_of({"ai.response.text": "See.", "ai.response.files": files}) == {
        "messages_out": (Message.assistant("See.", File("image/png", data="AAAA")),)
    }


@pytest.mark.parametrize("name", ["ai.response.object", "ai.result.object"])
def test_a_generated_object_is_the_output(name: str) -> None:
    assert fields_of({name: '{"title": "Soup"}'}) == {"outputs": {"title": "Soup"}}
    assert fields_of({name: '{"title": '}) == {"outputs": '{"title": '}


def test_embedded_values_are_the_inputs() -> None:
    assert fields_of({"ai.value": '"sunny"'}) == {"inputs": "sunny"}
    assert fields_of({"ai.values": ['"sunny"', '"grey"', "broken"]}) == {"inputs": ["sunny", "grey", "broken"]}


def test_a_step_span_sets_all_its_fields() -> None:
    assert fields_of(
        {
            "ai.operationId": "ai.streamText.doStream",
            "operation.name": "ai.streamText.doStream",
            "ai.model.id": "gpt-4o",
            "ai.model.provider": "openai.chat",
            "ai.settings.maxRetries": 2,
            "ai.request.headers.user-agent": "ai/6",
            "ai.prompt.messages": '[{"role":"user","content":[{"type":"text","text":"Hi"}]}]',
            "ai.prompt.toolChoice": '{"type":"auto"}',
            "ai.response.text": "Ho",
            "ai.response.finishReason": "stop",
            "ai.response.msToFirstChunk": 12.5,
            "ai.usage.inputTokens": 3,
            "ai.usage.outputTokens": 1,
        }
    ) == {
        "kind": "llm",
        "model": "gpt-4o",
        "provider": "openai",
        "parameters": {"max_retries": 2},
        "messages_in": (Message.user("Hi"),),
        "messages_out": (Message.assistant("Ho"),),
        "finish": "stop",
        "input_tokens": 3,
        "output_tokens": 1,
    }


def test_a_result_without_an_id_matches_the_earliest_open_call() -> None:
    prompt = [
        {"role": "assistant", "content": [{"type": "tool-call", "toolName": "now", "input": {}}]},
        {"role": "tool", "content": [{"type": "tool-result", "output": {"type": "error-text", "value": "No clock."}}]},
    ]

    assert fields_of({"ai.prompt.messages": text(prompt)}) == {
        "messages_in": (
            Message.assistant(ToolCall("call_1", "now", "{}")),
            Message("tool", (ToolResult("call_1", "No clock.", True),)),
        )
    }


NAMES = [
    *"ai.operationId ai.model.id ai.model.provider ai.response.model ai.telemetry.metadata.sessionId".split(),
    *"ai.settings.context.userId ai.settings.maxTokens ai.settings.topP ai.settings.model ai.settings".split(),
    *"ai.usage.inputTokens ai.usage.promptTokens ai.usage.tokens ai.usage.outputTokens".split(),
    *"ai.usage.reasoningTokens ai.prompt ai.prompt.messages ai.prompt.tools ai.response.text".split(),
    *"ai.response.reasoning ai.response.toolCalls ai.response.files".split(),
    *"ai.response.object ai.response.finishReason ai.result.text ai.result.toolCalls".split(),
    *"ai.value ai.values ai.toolCall.name ai.toolCall.id ai.toolCall.args ai.toolCall.result".split(),
]


@given(attributes_of(NAMES))
def test_any_attribute_values_give_valid_fields(attributes: dict[str, Any]) -> None:
    assert is_valid(ai_sdk.read_fields(raw_span(attributes)))
