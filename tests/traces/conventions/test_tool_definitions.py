"""The tools that a model could have called, out of the wrappers they are told in."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import json
from palaver.traces.conventions.attributes import MAX_TOOLS, parse_tools
from palaver.traces.model import Defined

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = Defined(name="weather", description="Of a city.", parameters=SCHEMA)
PLAIN = {"name": "weather", "description": "Of a city.", "parameters": SCHEMA}


@pytest.mark.parametrize(
    "sent",
    [
        [PLAIN],
        PLAIN,
        [{"type": "function", "function": PLAIN}],
        [{"type": "function", **PLAIN}],
        [{"name": "weather", "description": "Of a city.", "input_schema": SCHEMA}],
        [{"name": "weather", "description": "Of a city.", "inputSchema": SCHEMA}],
        [{**PLAIN, "parameters": json.encode(SCHEMA).decode()}],
        [{"functionDeclarations": [PLAIN]}],
        [{"toolSpec": {"name": "weather", "description": "Of a city.", "inputSchema": {"json": SCHEMA}}}],
        [json.encode(PLAIN).decode()],
        json.encode([{"type": "function", "function": PLAIN}]).decode(),
    ],
)
def test_a_tool_is_unwrapped(sent: Any) -> None:
    assert parse_tools(sent) == (WEATHER,)


def test_what_has_no_name_is_left_out() -> None:
    assert parse_tools([{"description": "?"}, {"name": ""}, {"name": 1.5}, "no JSON", None, {"name": "a"}]) == (
        Defined(name="a"),
    )
    assert parse_tools(None) == parse_tools("tools") == parse_tools([]) == ()


def test_no_more_than_two_thousand_are_kept() -> None:
    assert len(parse_tools([{"functionDeclarations": [{"name": "a"}] * 3_000}, {"name": "b"}])) == MAX_TOOLS


@given(st.recursive(st.none() | st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(
    st.sampled_from(["name", "function", "tools", "description", "parameters"]), inner), max_leaves=8))  # fmt: skip
def test_anything_may_be_sent(sent: Any) -> None:
    assert all(tool.name for tool in parse_tools(sent))
