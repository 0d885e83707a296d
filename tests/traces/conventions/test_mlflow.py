"""MLflow's spans as its OTLP exporter sends them: every value is JSON text, plain strings too."""

from typing import Any

import msgspec
import pytest
from hypothesis import given

from palaver.traces.conventions import mlflow
from palaver.traces.model import Tool, ToolDefinition
from tests.traces.conventions.convention_cases import (
    UNRELATED_ATTRIBUTES,
    attributes_of,
    is_valid,
    raw_span,
    read_fields,
)


def fields_of(attributes: dict[str, Any]) -> dict[str, Any]:
    return read_fields(mlflow, attributes)


def test_attributes_of_other_conventions_set_no_fields() -> None:
    assert fields_of(UNRELATED_ATTRIBUTES) == {}
    assert fields_of({}) == {}
    assert fields_of({"mlflow.traceRequestId": '"tr-1"', "mlflowers": 7}) == {}


@pytest.mark.parametrize(
    ("attribute", "kind"),
    [
        ("LLM", "llm"),
        ("CHAT_MODEL", "llm"),
        ("AGENT", "agent"),
        ("TOOL", "tool"),
        ("WORKFLOW", "workflow"),
        ("EMBEDDING", "embedding"),
        ("GUARDRAIL", "guardrail"),
        ("EVALUATOR", "evaluator"),
        ("RETRIEVER", "retrieval"),
        ("RERANKER", "rerank"),
        ("CHAIN", "task"),
        ("PARSER", "task"),
        ("MEMORY", "task"),
        ("TASK", "task"),
    ],
)
def test_each_span_type_maps_to_a_kind(attribute: str, kind: str) -> None:
    assert fields_of({"mlflow.spanType": f'"{attribute}"'}) == {"kind": kind}
    assert fields_of({"mlflow.spanType": attribute}) == {"kind": kind}


@pytest.mark.parametrize("attribute", ['"UNKNOWN"', '"DANCE"', "[]", "", 7, None])
def test_an_unknown_span_type_sets_no_field(attribute: Any) -> None:
    assert fields_of({"mlflow.spanType": attribute}) == {}


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (
            {"mlflow.llm.model": '"gpt-4o"', "mlflow.llm.provider": '"openai"'},
            {"model": "gpt-4o", "provider": "openai"},
        ),
        ({"mlflow.llm.model": "gpt-4o"}, {"model": "gpt-4o"}),
        ({"mlflow.trace.session": '"s"', "mlflow.trace.user": '"u"'}, {"session": "s", "user": "u"}),
        ({"mlflow.trace.session": "12", "mlflow.trace.user": "u"}, {"session": "12", "user": "u"}),
        (
            {
                "mlflow.chat.tokenUsage": (
                    '{"input_tokens": 5, "output_tokens": 2, "total_tokens": 7,'
                    ' "cache_read_input_tokens": 1, "cache_creation_input_tokens": 3}'
                )
            },
            {"input_tokens": 5, "output_tokens": 2, "cached_input_tokens": 1, "cache_creation_input_tokens": 3},
        ),
        ({"mlflow.chat.tokenUsage": {"input_tokens": "5"}}, {"input_tokens": 5}),
        ({"mlflow.chat.tokenUsage": "[]"}, {}),
        ({"mlflow.llm.cost": '{"input_cost": 0.1, "total_cost": 0.25}'}, {"cost": 0.25}),
        ({"mlflow.llm.cost": "0.25"}, {}),
    ],
)
def test_each_attribute_sets_its_field(attributes: dict[str, Any], expected: dict[str, Any]) -> None:
    assert fields_of(attributes) == expected


def test_an_invalid_token_count_is_noted_and_left_out() -> None:
    assert set(fields_of({"mlflow.chat.tokenUsage": '{"input_tokens": -1}'})) == {"notes"}


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ('{"messages": [{"role": "user", "content": "Hi"}]}', {"messages": [{"role": "user", "content": "Hi"}]}),
        ('"Hi"', "Hi"),
        ('"{\\"a\\": 1}"', '{"a": 1}'),
        ("null", None),
        ("4", 4),
        ("{broken", "{broken"),
        ("Hi", "Hi"),
        ({"a": 1}, {"a": 1}),
    ],
)
def test_values_are_decoded_once(attribute: Any, value: Any) -> None:
    assert fields_of({"mlflow.spanInputs": attribute}) == {"inputs": value}
    assert fields_of({"mlflow.spanOutputs": attribute}) == {"outputs": value}


def test_tool_definitions_are_unwrapped() -> None:
    tools = '[{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}, 7]'

    assert fields_of({"mlflow.chat.tools": tools}) == {
        "tools": (ToolDefinition("weather", parameters={"type": "object"}),)
    }
    assert fields_of({"mlflow.chat.tools": "[broken"}) == {}


def test_a_tool_has_the_name_of_its_function_or_else_of_its_span() -> None:
    attributes = {"mlflow.spanType": '"TOOL"', "mlflow.spanFunctionName": '"weather"'}

    assert fields_of(attributes) == {"kind": "tool", "tool": Tool("weather")}
    assert fields_of({"mlflow.spanType": '"TOOL"'}) == {"kind": "tool"}
    tool_span = msgspec.structs.replace(raw_span({"mlflow.spanType": '"TOOL"'}), name="now")
    assert mlflow.read_fields(tool_span).tool == Tool("now")
    assert fields_of({"mlflow.spanType": '"AGENT"', "mlflow.spanFunctionName": '"answer"'}) == {"kind": "agent"}


NAMES = [
    *"mlflow.spanType mlflow.spanInputs mlflow.spanOutputs mlflow.chat.tokenUsage mlflow.chat.tools".split(),
    *"mlflow.llm.model mlflow.llm.provider mlflow.llm.cost mlflow.trace.session mlflow.trace.user".split(),
    "mlflow.spanFunctionName",
]


@given(attributes_of(NAMES))
def test_any_attribute_values_give_valid_fields(attributes: dict[str, Any]) -> None:
    assert is_valid(mlflow.read_fields(raw_span(attributes)))
