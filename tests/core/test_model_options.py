"""Whether a reply has the format that the options of its call require."""

from typing import Any

import pytest

from palaver.core.events import Event, RunFailed, RunFinished, RunStarted, TerminalEvent
from palaver.core.grammar import Grammar
from palaver.core.messages import Data, Refusal, Text, ToolCall
from palaver.core.model_options import TextFormat, find_format_mismatch, required_format, requires_object

CITY: TextFormat = {
    "type": "json_schema",
    "name": "city",
    "schema": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "inhabitants": {"type": "integer", "minimum": 1}},
        "required": ["name"],
        "additionalProperties": False,
    },
}
OBJECT: TextFormat = {"type": "json_object"}


def events_of(*values: Any, end: TerminalEvent | None = None) -> list[Event]:
    grammar = Grammar("run_1")
    events = [*grammar.start(RunStarted(run_id="run_1"))]
    for value in values:
        events += grammar.feed(value)
    return [*events, *grammar.end(end or RunFinished())]


@pytest.mark.parametrize(
    ("text", "mismatch"),
    [
        ('{"name": "Oslo", "inhabitants": 7}', None),
        (' {"name": "Oslo"}\n', None),
        ("{}", "the value: 'name' is a required property"),
        ('{"name": 1}', "/name is not of type 'string'"),
        ('{"name": "Oslo", "inhabitants": 0}', "/inhabitants is less than the minimum of 1"),
        ('{"name": "Oslo", "fjord": 1}', "the value: 'fjord' is not an allowed property"),
        ('["Oslo"]', "the value is not of type 'object'"),
        ('{"name": 1, "inhabitants": 0}', "/name is not of type 'string'; /inhabitants is less than the minimum of 1"),
        ("```json\n{}\n```", "invalid JSON: invalid character (byte 0)"),
        ('{"name": "Os', "invalid JSON: Input data was truncated"),
        ("[" * 70 + "]" * 70, "the JSON is nested deeper than 64 levels"),
    ],
)
def test_the_text_is_checked_against_the_schema(text: str, mismatch: str | None) -> None:
    found = find_format_mismatch(events_of(Text(text=text)), CITY)

    assert found == mismatch or (mismatch is not None and found is not None and found.lower() == mismatch.lower())


@pytest.mark.parametrize(
    ("text", "mismatch"), [("{}", None), ("[]", "it is not a JSON object"), ("null", "it is not a JSON object")]
)
def test_json_mode_requires_an_object(text: str, mismatch: str | None) -> None:
    assert find_format_mismatch(events_of(Text(text=text)), OBJECT) == mismatch


def test_the_reply_must_be_one_text() -> None:
    assert find_format_mismatch(events_of(), OBJECT) == "it has no JSON"
    assert find_format_mismatch(events_of(Text(text="{}"), Text(text="{}")), OBJECT) == "it consists of 2 texts"
    assert find_format_mismatch(events_of(Text(text="{}"), Data(name="output", value={})), OBJECT) is None


@pytest.mark.parametrize(
    "events",
    [
        events_of(Text(text="Let me look."), ToolCall(call_id="c1", name="look_up")),
        events_of(Text(text="No"), Refusal(text="No.")),
        events_of(Text(text="{"), end=RunFinished(finish="length")),
        events_of(Text(text="{"), end=RunFailed(message="No.")),
    ],
)
def test_a_reply_that_is_no_final_answer_is_not_checked(events: list[Event]) -> None:
    assert find_format_mismatch(events, OBJECT) is None


def test_the_value_of_a_workflow_that_is_no_chat_is_checked() -> None:
    assert find_format_mismatch(events_of(end=RunFinished(value={"name": "Oslo"})), CITY) is None
    assert find_format_mismatch(events_of(end=RunFinished(value='{"name": "Oslo"}')), CITY) is None
    assert find_format_mismatch(events_of(end=RunFinished(value=[])), CITY) == "the value is not of type 'object'"
    assert find_format_mismatch(events_of(end=RunFinished(value=None)), OBJECT) == "it is not a JSON object"


@pytest.mark.parametrize(
    ("text_format", "expected"),
    [
        ({"type": "json_object"}, True),
        ({"type": "json_schema", "schema": {"type": "object"}}, True),
        ({"type": "json_schema", "schema": {"type": ["object", "null"]}}, False),
        ({"type": "json_schema", "schema": {"$ref": "#/$defs/a", "$defs": {"a": {}}}}, False),
        ({"type": "json_schema", "schema": None}, False),
        ({"type": "text"}, False),
    ],
)
def test_an_object_is_required_by_json_mode_and_schemas_of_objects(text_format: Any, expected: bool) -> None:
    assert requires_object({"text": {"format": text_format}}) is expected


def test_only_json_formats_are_required() -> None:
    assert required_format({}) is None
    assert required_format({"text": {"verbosity": "low"}}) is None
    assert required_format({"text": {"format": {"type": "text"}}}) is None
    assert required_format({"text": {"format": CITY}}) == CITY
