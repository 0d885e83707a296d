"""Parts: encoding, and parsed tool call arguments."""

from typing import Any

import msgspec
import pytest
from hypothesis import given

from palaver.core.messages import Annotation, Data, File, Part, Reasoning, Refusal, Text, ToolCall, ToolResult
from tests.core.strategies import parts

WIRE_FORMS: list[tuple[Part, dict[str, Any]]] = [
    (Text(text="a"), {"type": "text", "text": "a"}),
    (
        Text(text="a", annotations=(Annotation(kind="url", url="https://host/", start=0, end=1),)),
        {"type": "text", "text": "a", "annotations": [{"kind": "url", "url": "https://host/", "start": 0, "end": 1}]},
    ),
    (Reasoning(text="hm", encrypted="x"), {"type": "reasoning", "text": "hm", "encrypted": "x"}),
    (File(media_type="image/png", data="AAAA"), {"type": "file", "media_type": "image/png", "data": "AAAA"}),
    (ToolCall(call_id="c", name="now"), {"type": "tool-call", "call_id": "c", "name": "now"}),
    (
        ToolResult(call_id="c", output=[1], is_error=True),
        {"type": "tool-result", "call_id": "c", "output": [1], "is_error": True},
    ),
    (Refusal(text="no"), {"type": "refusal", "text": "no"}),
    (Data(name="chart", value={"x": 1}), {"type": "data", "name": "chart", "value": {"x": 1}}),
]


@pytest.mark.parametrize(("part", "wire"), WIRE_FORMS)
def test_a_part_is_tagged_by_its_type_and_leaves_out_defaults(part: Part, wire: dict[str, Any]) -> None:
    assert msgspec.json.decode(msgspec.json.encode(part)) == wire
    assert msgspec.convert(wire | {"unknown": 1}, Part) == part


@given(parts)
def test_every_part_round_trips_through_json(part: Part) -> None:
    assert msgspec.json.decode(msgspec.json.encode(part), type=Part) == part


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ('{"city": "Oslo"}', {"city": "Oslo"}),
        ("[1]", [1]),
        ("", {}),
        (" \n", {}),
        ("null", None),
        ("{'city': 'Oslo'}", "{'city': 'Oslo'}"),
        ('{"city": NaN}', '{"city": NaN}'),
        ("[" * 65 + "]" * 65, "[" * 65 + "]" * 65),
        ("\ud800", "\ud800"),
    ],
)
def test_arguments_are_parsed_where_they_are_json(arguments: str, value: Any) -> None:
    assert ToolCall(call_id="c", name="now", arguments=arguments).parsed == value
