"""OpenInference: span fields, inputs and outputs; test_openinference_messages.py tests messages."""

from typing import Any

import pytest
from hypothesis import given

from palaver.core.messages import Message, ToolCall, Usage
from palaver.traces.conventions import openinference
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
    return read_fields(openinference, attributes)


def test_the_documented_example_span_is_mapped() -> None:
    attributes = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "gpt-4o",
        "llm.invocation_parameters": '{"temperature": 0, "model": "gpt-4o"}',
        "session.id": "s9",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "2+2?",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "calc",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"e":"2+2"}',
        "llm.token_count.prompt": 12,
        "llm.token_count.completion": 7,
    }

    assert to_span(raw_span(attributes), project="default") == Span(
        trace_id=raw_span({}).trace_id,
        span_id=raw_span({}).span_id,
        start=raw_span({}).start,
        kind="llm",
        model="gpt-4o",
        parameters={"temperature": 0},
        session="s9",
        usage=Usage(input_tokens=12, output_tokens=7),
        messages_in=(Message.user("2+2?"),),
        messages_out=(Message.assistant(ToolCall("call_1", "calc", '{"e":"2+2"}')),),
        conventions=("openinference",),
        attributes=attributes,
    )


def test_attributes_of_other_conventions_set_no_fields() -> None:
    assert fields_of(UNRELATED_ATTRIBUTES) == {}
    assert fields_of({}) == {}
    assert fields_of({"llm.unknown": 1, "inputs": 2, "session.idle": 3}) == {}


@pytest.mark.parametrize(
    ("attribute", "kind"),
    [
        ("LLM", "llm"),
        ("CHAIN", "task"),
        ("PROMPT", "task"),
        ("DECISION", "task"),
        ("RETRIEVER", "retrieval"),
        ("EMBEDDING", "embedding"),
        ("RERANKER", "rerank"),
        ("AGENT", "agent"),
        ("TOOL", "tool"),
        ("GUARDRAIL", "guardrail"),
        ("EVALUATOR", "evaluator"),
        ("UNKNOWN", "unknown"),
        ("llm", "llm"),
    ],
)
def test_each_span_kind_is_mapped(attribute: str, kind: str) -> None:
    assert fields_of({"openinference.span.kind": attribute}) == {"kind": kind}


@pytest.mark.parametrize("attribute", ["DANCE", "", 7, None, ["LLM"]])
def test_an_unknown_kind_sets_no_field(attribute: Any) -> None:
    assert fields_of({"openinference.span.kind": attribute}) == {}


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"llm.response.model_name": "r", "llm.model_name": "m", "llm.request.model_name": "q"}, {"model": "r"}),
        ({"llm.model_name": "m", "llm.request.model_name": "q"}, {"model": "m"}),
        ({"llm.request.model_name": "q", "embedding.model_name": "e"}, {"model": "q"}),
        ({"embedding.model_name": "e", "reranker.model_name": "k"}, {"model": "e"}),
        ({"llm.response.model_name": "", "reranker.model_name": "k"}, {"model": "k"}),
        ({"llm.provider": "azure", "llm.system": "openai"}, {"provider": "azure"}),
        ({"llm.system": "openai"}, {"provider": "openai"}),
        ({"llm.cost.total": 0.25}, {"cost": 0.25}),
        ({"llm.cost.total": "0.25"}, {"cost": 0.25}),
        ({"llm.finish_reason": "tool_calls"}, {"finish": "tool-calls"}),
        ({"llm.finish_reason": "end_turn"}, {"finish": "stop"}),
        ({"llm.finish_reason": "whim"}, {}),
        (
            {
                "llm.token_count.prompt": "31",
                "llm.token_count.completion": 9.0,
                "llm.token_count.prompt_details.cache_read": 4,
                "llm.token_count.prompt_details.cache_write": 5,
                "llm.token_count.completion_details.reasoning": 6,
            },
            {
                "input_tokens": 31,
                "output_tokens": 9,
                "cached_input_tokens": 4,
                "cache_creation_input_tokens": 5,
                "reasoning_tokens": 6,
            },
        ),
        ({"openinference.span.kind": "AGENT", "agent.name": "planner"}, {"kind": "agent", "workflow": "planner"}),
        ({"openinference.span.kind": "LLM", "agent.name": "planner"}, {"kind": "llm"}),
    ],
)
def test_each_attribute_sets_its_field(attributes: dict[str, Any], expected: dict[str, Any]) -> None:
    assert fields_of(attributes) == expected


def test_an_invalid_token_count_is_noted_and_left_out() -> None:
    assert set(fields_of({"llm.token_count.prompt": -3, "llm.token_count.completion": "many"})) == {"notes"}


def test_model_messages_and_tools_are_left_out_of_the_parameters() -> None:
    input_json = '{"model": "m", "model_name": "m", "messages": [], "top_p": 1, "stop": ["x"]}'

    assert fields_of({"llm.invocation_parameters": input_json}) == {"parameters": {"top_p": 1, "stop": ["x"]}}
    assert fields_of({"llm.invocation_parameters": {"model": "m", "n": 2}}) == {"parameters": {"n": 2}}
    openai_parameters = '{"_type": "openai-chat", "stop": null, "tools": [{"name": "f"}], "functions": [], "seed": 7}'
    assert fields_of({"llm.invocation_parameters": openai_parameters}) == {"parameters": {"seed": 7}}


@pytest.mark.parametrize("input_json", ["{broken", "[1]", "7", '{"model": "m"}', None])
def test_invalid_or_empty_parameters_are_left_out(input_json: Any) -> None:
    assert fields_of({"llm.invocation_parameters": input_json}) == {}


def test_tool_definitions_are_unwrapped() -> None:
    assert fields_of(
        {
            "llm.tools.1.tool.json_schema": '{"name":"now","input_schema":{"type":"object"}}',
            "llm.tools.0.tool.json_schema": (
                '{"type":"function","function":'
                '{"name":"weather","description":"It is.","parameters":{"type":"object"}}}'
            ),
            "llm.tools.2.tool.json_schema": "{broken",
        }
    ) == {
        "tools": (
            ToolDefinition("weather", "It is.", {"type": "object"}),
            ToolDefinition("now", parameters={"type": "object"}),
        )
    }


def test_a_tool_span_has_its_tool_inputs_and_outputs() -> None:
    assert fields_of(
        {
            "openinference.span.kind": "TOOL",
            "tool.name": "weather",
            "tool.id": "c1",
            "input.value": '{"city": "Oslo"}',
            "input.mime_type": "application/json",
            "output.value": "4",
            "output.mime_type": "application/json",
        }
    ) == {"kind": "tool", "tool": Tool("weather", "c1"), "inputs": {"city": "Oslo"}, "outputs": 4}


LANGCHAIN_TOOL_MESSAGES = [
    '{"type": "tool", "data": {"content": "4 °C", "name": "weather", "tool_call_id": "c1", "status": "success"}}',
    '{"role": "tool", "content": "4 °C", "tool_call_id": "c1"}',
    (
        '{"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "ToolMessage"],'
        ' "kwargs": {"content": "4 °C", "type": "tool", "name": "weather", "tool_call_id": "c1"}}'
    ),
]


@pytest.mark.parametrize("message", LANGCHAIN_TOOL_MESSAGES)
def test_the_output_of_a_tool_is_unwrapped_from_its_message(message: str) -> None:
    attributes = {"openinference.span.kind": "TOOL", "tool.name": "weather", "output.value": message}

    assert fields_of(attributes) == {"kind": "tool", "tool": Tool("weather", "c1"), "outputs": "4 °C"}
    assert fields_of({**attributes, "tool.id": "c2"})["tool"] == Tool("weather", "c2")


@pytest.mark.parametrize("output", [{"type": "tool"}, {"lc": 1}, {"role": "tool", "content": None}, {"type": "other"}])
def test_other_tool_outputs_are_unchanged(output: dict[str, Any]) -> None:
    attributes = {"openinference.span.kind": "TOOL", "tool.name": "weather", "output.value": output}

    assert fields_of(attributes) == {"kind": "tool", "tool": Tool("weather"), "outputs": output}


def test_a_step_takes_the_messages_of_its_value_if_it_has_more() -> None:
    input_json = '{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}'
    attributes = {"llm.input_messages.0.message.role": "user", "input.value": input_json}
    conversation = (Message.user("Hi"), Message.assistant("Hello."))

    assert fields_of({**attributes, "openinference.span.kind": "CHAIN"})["messages_in"] == conversation
    assert fields_of({**attributes, "openinference.span.kind": "LLM"})["messages_in"] == (Message("user", ()),)
    assert fields_of(attributes)["messages_in"] == (Message("user", ()),)


@pytest.mark.parametrize("value", ["Hi", '{"question": "Hi"}', '[{"role": "user", "content": "Hi"}]'])
def test_a_step_takes_the_indexed_messages_if_its_value_has_no_more(value: str) -> None:
    attributes = {
        "openinference.span.kind": "AGENT",
        "llm.input_messages.0.message.role": "system",
        "llm.input_messages.0.message.content": "Be brief.",
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.content": "Hi",
        "input.value": value,
    }

    assert fields_of(attributes)["messages_in"] == (Message.system("Be brief."), Message.user("Hi"))


@pytest.mark.parametrize(
    ("attribute", "mime", "value"),
    [
        ('{"a": [1]}', "application/json", {"a": [1]}),
        ('{"a": [1]}', None, {"a": [1]}),
        ("[1]", "text/plain", [1]),
        ("4", "application/json", 4),
        ("4", None, "4"),
        ('"hi"', None, '"hi"'),
        ("Hello.", "text/plain", "Hello."),
        ("{broken", "application/json", "{broken"),
        ({"a": 1}, None, {"a": 1}),
        ("", None, ""),
    ],
)
def test_input_and_output_values_are_decoded(attribute: Any, mime: str | None, value: Any) -> None:
    for side, field in (("input", "inputs"), ("output", "outputs")):
        attributes = {f"{side}.value": attribute, **({f"{side}.mime_type": mime} if mime else {})}

        assert fields_of(attributes) == {field: value}


def test_inputs_are_set_in_addition_to_messages() -> None:
    assert fields_of({"input.value": "Hi", "llm.input_messages.0.message.content": "Hi"}) == {
        "inputs": "Hi",
        "messages_in": (Message.user("Hi"),),
    }


def test_retrieved_documents_are_added_to_the_outputs() -> None:
    document = "retrieval.documents.{}.document.{}".format
    documents = {
        document(1, "id"): 7,
        document(0, "id"): "d0",
        document(0, "content"): "Grey.",
        document(0, "score"): 0.5,
        document(0, "metadata"): '{"page": 1}',
        document(0, "colour"): "red",
    }
    expected = [{"id": "d0", "content": "Grey.", "score": 0.5, "metadata": {"page": 1}}, {"id": 7}]

    assert fields_of(documents) == {"outputs": {"documents": expected}}
    assert fields_of({**documents, "output.value": "Grey."}) == {"outputs": "Grey."}
    assert fields_of({**documents, "output.value": '{"took": 3}'}) == {"outputs": {"took": 3, "documents": expected}}
    assert fields_of({**documents, "output.value": '{"documents": []}'}) == {"outputs": {"documents": expected}}


def test_a_reranker_span_has_its_query_and_documents() -> None:
    assert fields_of(
        {
            "openinference.span.kind": "RERANKER",
            "reranker.query": "weather",
            "reranker.input_documents.0.document.content": "a",
            "reranker.output_documents.0.document.content": "b",
            "reranker.output_documents.0.document.score": 1,
        }
    ) == {
        "kind": "rerank",
        "inputs": {"query": "weather", "documents": [{"content": "a"}]},
        "outputs": {"documents": [{"content": "b", "score": 1}]},
    }


NAMES = [
    *"openinference.span.kind llm.model_name llm.provider agent.name tool.name tool.id".split(),
    *"llm.invocation_parameters llm.finish_reason llm.cost.total llm.token_count.prompt".split(),
    *"llm.token_count.completion input.value input.mime_type".split(),
    *"output.value output.mime_type llm.prompts llm.choices reranker.query".split(),
    *"llm.tools.#.tool.json_schema llm.prompts.#.prompt.text llm.choices.#.completion.text".split(),
    *"retrieval.documents.#.document.id retrieval.documents.#.document.metadata llm.input_messages".split(),
    *"reranker.output_documents.#.document.score reranker.input_documents.#.document".split(),
    *(
        f"llm.{side}_messages.#.message{suffix}"
        for side in ("input", "output")
        for suffix in (
            *" .role .content .name .tool_call_id .function_call_name .function_call_arguments_json".split(" "),
            *".contents.#.message_content.type .contents.#.message_content.text".split(),
            ".contents.#.message_content.image.image.url",
            *".tool_calls.#.tool_call.id .tool_calls.#.tool_call.function.name".split(),
            ".tool_calls.#.tool_call.function.arguments",
        )
    ),
]


@given(attributes_of(NAMES))
def test_any_attribute_values_give_valid_fields(attributes: dict[str, Any]) -> None:
    assert is_valid(openinference.read_fields(raw_span(attributes)))
