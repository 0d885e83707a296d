"""Mapping of test set columns to inputs: explicit or inferred."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from palaver.core.descriptions import Description, Schemas
from palaver.errors import InvalidValue, MissingInput, RequestError, UnknownInput
from palaver.evaluation.plan.column_map import map_answer_columns, map_columns
from palaver.evaluation.plan.plan import ColumnMap
from palaver.evaluation.plan.request import ColumnMapInput

MESSAGES = {"type": "array", "x-ag-type-ref": "messages"}


def workflow_description(inputs: Mapping[str, Any], *, is_chat: bool = True) -> Description:
    return Description(name="tutor", flags={"is_chat": is_chat}, schemas=Schemas(inputs=inputs))


CHAT = workflow_description(
    {
        "properties": {"messages": MESSAGES, "subject": {"type": "string"}},
        "required": ["messages"],
        "additionalProperties": False,
    }
)
OPEN_CHAT = workflow_description(
    {"properties": {"messages": MESSAGES}, "required": ["messages"], "additionalProperties": True}
)
PLAIN = workflow_description(
    {"properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": False}, is_chat=False
)

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "mapping_cases.json").read_text("utf-8"))
"""Shared with web/src/pages/evaluations/column-map.test.ts: the page must show the mapping that is run."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["of"])
def test_columns_are_mapped_as_in_the_cases_shared_with_the_web_page(case: dict[str, Any]) -> None:
    properties = {"messages": MESSAGES, **case.get("properties", {})}
    tutor = workflow_description({"properties": properties, "required": ["messages"], "additionalProperties": True})
    wanted = msgspec.convert(case.get("said", {}), ColumnMapInput)
    if case["found"] is None:
        with pytest.raises(MissingInput) as refused:
            map_columns(wanted, case["columns"], tutor)
        assert refused.value.pointer == "/map/messages"
    else:
        result = map_columns(wanted, case["columns"], tutor, answers=case.get("answers", ()), gaps=case.get("gaps", ()))
        assert result == msgspec.convert(case["found"], ColumnMap)


def test_a_chat_gets_the_messages_column_and_the_inputs_it_declares() -> None:
    kinds = {"messages": "chat", "subject": "text", "note": "text", "expected": "text"}

    assert map_columns(ColumnMapInput(), kinds, CHAT) == ColumnMap(
        messages="messages", expected="expected", inputs={"subject": "subject"}
    )


def test_the_only_chat_column_is_used_for_messages() -> None:
    assert map_columns(ColumnMapInput(), {"talk": "chat", "subject": "text"}, CHAT).messages == "talk"


def test_two_chat_columns_without_a_messages_column_are_rejected() -> None:
    with pytest.raises(MissingInput, match="requires messages") as refused:
        map_columns(ColumnMapInput(), {"talk": "chat", "other": "chat"}, CHAT)

    assert refused.value.pointer == "/map/messages"


def test_content_and_history_columns_of_a_service_payload_are_mapped() -> None:
    kinds = {"content": "text", "history": "chat", "subject": "text"}
    by_name = workflow_description({"properties": {"messages": MESSAGES, "content": {"type": "string"}}})

    assert map_columns(ColumnMapInput(), kinds, CHAT) == ColumnMap(
        messages="content", history="history", inputs={"subject": "subject"}
    )
    assert map_columns(ColumnMapInput(history=None), kinds, CHAT).history is None
    assert map_columns(ColumnMapInput(), kinds, by_name).messages == "history"
    assert map_columns(ColumnMapInput(messages="subject", history="history"), kinds, CHAT).history == "history"


def test_the_messages_input_may_have_another_name() -> None:
    remote = workflow_description({"properties": {"history": MESSAGES}})

    assert map_columns(ColumnMapInput(), {"messages": "chat", "history": "chat"}, remote).messages == "history"


def test_a_workflow_that_takes_any_input_gets_all_remaining_columns() -> None:
    kinds = {"messages": "chat", "expected": "text", "reference": "text", "topic": "text", "old": "text"}

    result = map_columns(ColumnMapInput(), kinds, OPEN_CHAT, answers={"old"})

    assert result == ColumnMap(
        messages="messages", expected="expected", expected_fallbacks=("reference",), inputs={"topic": "topic"}
    )


def test_an_answer_column_is_an_input_if_the_workflow_declares_it() -> None:
    assert map_columns(ColumnMapInput(), {"text": "text"}, PLAIN, answers={"text"}).inputs == {"text": "text"}


def test_a_workflow_without_an_input_schema_gets_all_columns() -> None:
    assert map_columns(
        ColumnMapInput(), {"a": "text", "b": "number"}, workflow_description({}, is_chat=False)
    ).inputs == {
        "a": "a",
        "b": "b",
    }


@pytest.mark.parametrize(
    "columns",
    [
        ["output", "answer", "reference", "ground_truth", "correct_answer", "expected_output", "expected"],
        ["output", "answer", "reference", "ground_truth", "correct_answer", "expected_output"],
        ["output", "answer", "reference", "ground_truth", "correct_answer"],
        ["output", "answer", "reference", "ground_truth"],
        ["output", "answer", "reference"],
        ["output", "answer"],
        ["output"],
    ],
)
def test_the_expected_column_is_the_first_of_seven_known_names_and_the_others_are_fallbacks(columns: list[str]) -> None:
    kinds = dict.fromkeys(["text", *columns], "text")
    first, *others = reversed(columns)

    assert map_columns(ColumnMapInput(), kinds, PLAIN) == ColumnMap(
        expected=first, expected_fallbacks=tuple(others), inputs={"text": "text"}
    )


def test_a_script_column_is_mapped_for_a_chat_and_is_never_an_input() -> None:
    kinds = {"script": "script", "subject": "text"}

    assert map_columns(ColumnMapInput(), kinds, CHAT) == ColumnMap(script="script", inputs={"subject": "subject"})
    assert map_columns(ColumnMapInput(), {"text": "text", **kinds}, PLAIN) == ColumnMap(inputs={"text": "text"})


def test_an_explicit_mapping_wins_and_null_maps_no_column() -> None:
    kinds = {"talk": "chat", "messages": "chat", "answer": "text", "expected": "text", "topic": "text"}
    wanted = ColumnMapInput(messages="talk", expected=None, inputs={"subject": "topic"})

    assert map_columns(wanted, kinds, CHAT) == ColumnMap(messages="talk", inputs={"subject": "topic"})
    assert map_columns(ColumnMapInput(messages=None, expected="answer", inputs=None), kinds, CHAT) == ColumnMap(
        expected="answer"
    )


@pytest.mark.parametrize(
    ("wanted", "kind", "pointer", "why"),
    [
        (
            ColumnMapInput(messages="gone"),
            InvalidValue,
            "/map/messages",
            "Column 'gone' not found in the test set. Available: text, n, x.",
        ),
        (ColumnMapInput(expected="gone"), InvalidValue, "/map/expected", "Column 'gone' not found"),
        (ColumnMapInput(script="gone"), InvalidValue, "/map/script", "Column 'gone' not found"),
        (ColumnMapInput(script="text"), InvalidValue, "/map/script", "'tutor' is not a chat"),
        (ColumnMapInput(messages="x"), InvalidValue, "/map/messages", "'x' cannot be used as messages"),
        (ColumnMapInput(inputs={"text": "gone"}), InvalidValue, "/map/inputs/text", "Column 'gone' not found"),
        (ColumnMapInput(inputs={"text": "text", "a/b": "n"}), UnknownInput, "/map/inputs/a~1b", "no input 'a/b'"),
        (ColumnMapInput(inputs={}), MissingInput, "/map/inputs/text", "requires the input 'text'"),
    ],
)
def test_invalid_mappings_are_rejected_with_a_pointer(
    wanted: ColumnMapInput, kind: type[RequestError], pointer: str, why: str
) -> None:
    with pytest.raises(kind) as refused:
        map_columns(wanted, {"text": "text", "n": "number", "x": "json"}, PLAIN)

    assert refused.value.pointer == pointer
    assert why in refused.value.message


def test_an_answer_column_is_mapped_with_messages_expected_and_inputs() -> None:
    kinds = {"messages": "chat", "old": "chat", "topic": "text", "expected": "text"}

    assert map_answer_columns(ColumnMapInput(), kinds, "old") == ColumnMap(
        messages="messages", expected="expected", inputs={"topic": "topic"}
    )
    assert map_answer_columns(
        ColumnMapInput(messages=None, expected=UNSET, inputs={"t": "topic"}), kinds, "old"
    ) == ColumnMap(expected="expected", inputs={"t": "topic"})
    with pytest.raises(InvalidValue, match="Column 'gone' not found"):
        map_answer_columns(ColumnMapInput(inputs={"t": "gone"}), kinds, "old")


def test_recorded_answers_are_never_compared_with_recorded_answers_unless_requested() -> None:
    kinds = {"question": "text", "answer": "text", "output": "text"}

    assert map_answer_columns(ColumnMapInput(), kinds, "output", answers={"output", "answer"}).expected is None
    assert map_answer_columns(ColumnMapInput(), kinds, "output", answers={"output"}).expected == "answer"
    assert map_answer_columns(ColumnMapInput(expected="output"), kinds, "output").expected == "output"
