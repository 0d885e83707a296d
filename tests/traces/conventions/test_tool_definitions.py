"""Tool definitions, unwrapped from the formats of vendors."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import json
from palaver.traces.conventions.attributes import MAX_TOOLS, parse_tools
from palaver.traces.model import ToolDefinition

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = ToolDefinition(name="weather", description="Of a city.", parameters=SCHEMA)
WEATHER_TOOL = {"name": "weather", "description": "Of a city.", "parameters": SCHEMA}


@pytest.mark.parametrize(
    "value",
    [
        [WEATHER_TOOL],
        WEATHER_TOOL,
        [{"type": "function", "function": WEATHER_TOOL}],
        [{"type": "function", **WEATHER_TOOL}],
        [{"name": "weather", "description": "Of a city.", "input_schema": SCHEMA}],
        [{"name": "weather", "description": "Of a city.", "inputSchema": SCHEMA}],
        [{**WEATHER_TOOL, "parameters": json.encode(SCHEMA).decode()}],
        [{"functionDeclarations": [WEATHER_TOOL]}],
        [{"toolSpec": {"name": "weather", "description": "Of a city.", "inputSchema": {"json": SCHEMA}}}],
        [json.encode(WEATHER_TOOL).decode()],
        json.encode([{"type": "function", "function": WEATHER_TOOL}]).decode(),
    ],
)
def test_a_tool_definition_is_unwrapped_from_each_vendor_format(value: Any) -> None:
    assert parse_tools(value) == (WEATHER,)


def test_tools_without_a_name_are_left_out() -> None:
    assert parse_tools([{"description": "?"}, {"name": ""}, {"name": 1.5}, "no JSON", None, {"name": "a"}]) == (
        ToolDefinition(name="a"),
    )
    assert parse_tools(None) == parse_tools("tools") == parse_tools([]) == ()


def test_the_number_of_parsed_tools_is_limited() -> None:
    assert len(parse_tools([{"functionDeclarations": [{"name": "a"}] * 3_000}, {"name": "b"}])) == MAX_TOOLS


@given(st.recursive(st.none() | st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(
    st.sampled_from(["name", "function", "tools", "description", "parameters"]), inner), max_leaves=8))  # fmt: skip
def test_every_tool_parsed_from_any_value_has_a_name(value: Any) -> None:
    assert all(tool.name for tool in parse_tools(value))
