"""Langfuse's spans, as its SDK (5.0) and integrations send them."""

from typing import Any

import msgspec
import pytest
from hypothesis import given

from palaver.core import json
from palaver.traces.conventions import langfuse
from palaver.traces.model import Tool, ToolDefinition
from palaver.traces.span_mapper import to_span
from tests.traces.conventions.convention_cases import (
    UNRELATED_ATTRIBUTES,
    attributes_of,
    is_valid,
    raw_span,
    read_fields,
)


def text(value: Any) -> str:
    return json.encode(value).decode()


def fields_of(**attributes: Any) -> dict[str, Any]:
    """The fields of an observation; values that are not text become JSON."""
    names = {name.replace("__", "."): value for name, value in attributes.items()}
    texts = {name: value if isinstance(value, str) else text(value) for name, value in names.items()}
    return read_fields(langfuse, {f"langfuse.observation.{name}": value for name, value in texts.items()})


def test_attributes_of_other_conventions_set_no_fields() -> None:
    assert read_fields(langfuse, UNRELATED_ATTRIBUTES) == {}
    assert read_fields(langfuse, {"langfuse.environment": "test", "langfuse.session.id": "s"}) == {}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("generation", "llm"), ("agent", "agent"), ("span", "task"), ("retriever", "retrieval"), ("GENERATION", "llm")],
)
def test_each_type_maps_to_a_kind(kind: str, expected: str) -> None:
    assert fields_of(type=kind)["kind"] == expected


def test_a_generation_has_model_parameters_tools_usage_and_cost() -> None:
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
    fields = fields_of(
        type="generation",
        input={"messages": [{"role": "user", "content": "Snow?"}], "tools": [tool]},
        output={"role": "assistant", "content": "A little."},
        model__name="gpt-4o",
        model__parameters={"temperature": 0, "max_tokens": "Infinity"},
        usage_details={
            "prompt_tokens": 20,
            "completion_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
        cost_details={"input": 0.1, "total": 0.3},
    )

    assert fields == {
        "kind": "llm",
        "inputs": {"messages": [{"role": "user", "content": "Snow?"}], "tools": [tool]},
        "outputs": {"role": "assistant", "content": "A little."},
        "model": "gpt-4o",
        "parameters": {"temperature": 0},
        "tools": (ToolDefinition("weather", None, {"type": "object"}),),
        "input_tokens": 20,
        "output_tokens": 7,
        "cached_input_tokens": 4,
        "reasoning_tokens": 2,
        "cost": 0.3,
    }


def test_langfuses_own_names_of_tokens_are_read_and_bad_numbers_noted() -> None:
    details = {"input": 20, "output": -7, "input_cached_tokens": 4, "output_reasoning_tokens": 2, "total": 27}

    assert fields_of(usage_details=details) == {
        "input_tokens": 20,
        "cached_input_tokens": 4,
        "reasoning_tokens": 2,
        "notes": ("number:langfuse.observation.output",),
    }


@pytest.mark.parametrize(
    ("recorded", "inputs"),
    [
        ({"args": [], "kwargs": {"city": "Oslo"}}, {"city": "Oslo"}),
        ({"args": ["Snow?"], "kwargs": {}}, "Snow?"),
        ({"args": ["Snow?"], "kwargs": {"city": "Oslo"}}, {"args": ["Snow?"], "kwargs": {"city": "Oslo"}}),
        ({"args": [], "more": 1}, {"args": [], "more": 1}),
    ],
)
def test_the_arguments_of_a_decorated_function_are_unwrapped(recorded: Any, inputs: Any) -> None:
    assert fields_of(type="agent", input=recorded)["inputs"] == inputs


def test_input_and_output_of_the_trace_are_used_if_the_observation_has_none() -> None:
    attributes = {"langfuse.trace.name": "forecast", "langfuse.trace.input": "Snow?", "langfuse.trace.output": "5"}

    assert read_fields(langfuse, attributes) == {"inputs": "Snow?", "outputs": "5", "workflow": "forecast"}


def test_a_span_of_langfuse_becomes_a_conversation() -> None:
    raw = raw_span(
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.input": text([{"role": "user", "content": "Snow?"}]),
            "langfuse.observation.output": "A little.",
            "langfuse.session.id": "s-1",
        }
    )
    span = to_span(raw, project="p")

    assert [message.text for message in span.messages_in] == ["Snow?"]
    assert (span.outputs, span.session, span.conventions) == ("A little.", "s-1", ("langfuse",))


def test_a_tool_is_named_by_its_span() -> None:
    raw = msgspec.structs.replace(raw_span({"langfuse.observation.type": "tool"}), name="weather")

    assert langfuse.read_fields(raw).tool == Tool("weather")


_NAMES = [
    *(f"langfuse.observation.{name}" for name in "type input output usage_details cost_details".split()),
    *("langfuse.observation.model.name", "langfuse.observation.model.parameters", "langfuse.trace.name"),
]


@given(attributes_of(_NAMES))
def test_no_values_raise_or_give_invalid_fields(attributes: dict[str, Any]) -> None:
    assert is_valid(langfuse.read_fields(raw_span(attributes)))
