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
from palaver.evaluation.plan.request import WantedMap

MESSAGES = {"type": "array", "x-ag-type-ref": "messages"}


def described(inputs: Mapping[str, Any], *, is_chat: bool = True) -> Description:
    return Description(name="tutor", flags={"is_chat": is_chat}, schemas=Schemas(inputs=inputs))


CHAT = described(
    {
        "properties": {"messages": MESSAGES, "subject": {"type": "string"}},
        "required": ["messages"],
        "additionalProperties": False,
    }
)
OPEN = described({"properties": {"messages": MESSAGES}, "required": ["messages"], "additionalProperties": True})
PLAIN = described(
    {"properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": False}, is_chat=False
)

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "mapping_cases.json").read_text("utf-8"))
"""Shared with web/src/pages/evaluations/column-map.test.ts: the page shows what is then run."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["of"])
def test_what_the_page_shows_of_columns_is_what_is_run(case: dict[str, Any]) -> None:
    properties = {"messages": MESSAGES, **case.get("properties", {})}
    tutor = described({"properties": properties, "required": ["messages"], "additionalProperties": True})
    answers = msgspec.convert(case.get("said", {}), WantedMap)
    if case["found"] is None:
        with pytest.raises(MissingInput) as refused:
            map_columns(answers, case["columns"], tutor)
        assert refused.value.pointer == "/map/messages"
    else:
        result = map_columns(
            answers, case["columns"], tutor, answers=case.get("answers", ()), gaps=case.get("gaps", ())
        )
        assert result == ColumnMap(**case["found"])


def test_a_chat_gets_the_column_of_its_messages_and_the_inputs_that_it_names() -> None:
    kinds = {"messages": "chat", "subject": "text", "note": "text", "expected": "text"}

    assert map_columns(WantedMap(), kinds, CHAT) == ColumnMap(
        messages="messages", expected="expected", inputs={"subject": "subject"}
    )


def test_without_one_of_that_name_the_only_column_of_conversations_is_it() -> None:
    assert map_columns(WantedMap(), {"talk": "chat", "subject": "text"}, CHAT).messages == "talk"


def test_of_two_such_columns_nobody_guesses() -> None:
    with pytest.raises(MissingInput, match="wants messages, and no column is theirs") as refused:
        map_columns(WantedMap(), {"talk": "chat", "other": "chat"}, CHAT)

    assert refused.value.pointer == "/map/messages"


def test_a_row_may_be_the_payload_of_a_service() -> None:
    kinds = {"content": "text", "history": "chat", "subject": "text"}
    by_name = described({"properties": {"messages": MESSAGES, "content": {"type": "string"}}})

    assert map_columns(WantedMap(), kinds, CHAT) == ColumnMap(
        messages="content", history="history", inputs={"subject": "subject"}
    )
    assert map_columns(WantedMap(history=None), kinds, CHAT).history is None
    assert map_columns(WantedMap(), kinds, by_name).messages == "history"
    assert map_columns(WantedMap(messages="subject", history="history"), kinds, CHAT).history == "history"


def test_a_remote_one_may_call_its_messages_otherwise() -> None:
    remote = described({"properties": {"history": MESSAGES}})

    assert map_columns(WantedMap(), {"messages": "chat", "history": "chat"}, remote).messages == "history"


def test_what_takes_any_input_gets_all_columns_that_are_left() -> None:
    kinds = {"messages": "chat", "expected": "text", "reference": "text", "topic": "text", "old": "text"}

    result = map_columns(WantedMap(), kinds, OPEN, answers={"old"})

    assert result == ColumnMap(
        messages="messages", expected="expected", inputs={"reference": "reference", "topic": "topic"}
    )


def test_a_column_of_answers_is_an_input_where_the_workflow_names_it() -> None:
    assert map_columns(WantedMap(), {"text": "text"}, PLAIN, answers={"text"}).inputs == {"text": "text"}


def test_a_workflow_whose_inputs_nobody_described_gets_them_too() -> None:
    assert map_columns(WantedMap(), {"a": "text", "b": "number"}, described({}, is_chat=False)).inputs == {
        "a": "a",
        "b": "b",
    }


@pytest.mark.parametrize(
    "columns",
    [
        ["reference", "ground_truth", "correct_answer", "expected_output", "expected"],
        ["reference", "ground_truth", "correct_answer", "expected_output"],
        ["reference", "ground_truth", "correct_answer"],
        ["reference", "ground_truth"],
        ["reference"],
    ],
)
def test_expected_is_the_first_of_five_names(columns: list[str]) -> None:
    kinds = dict.fromkeys(["text", *columns], "text")

    assert map_columns(WantedMap(), kinds, PLAIN) == ColumnMap(expected=columns[-1], inputs={"text": "text"})


def test_a_script_is_played_with_a_chat_and_is_an_input_of_nobody() -> None:
    kinds = {"script": "script", "subject": "text"}

    assert map_columns(WantedMap(), kinds, CHAT) == ColumnMap(script="script", inputs={"subject": "subject"})
    assert map_columns(WantedMap(), {"text": "text", **kinds}, PLAIN) == ColumnMap(inputs={"text": "text"})


def test_what_is_said_counts_and_null_is_for_nothing() -> None:
    kinds = {"talk": "chat", "messages": "chat", "answer": "text", "expected": "text", "topic": "text"}
    expected_calls = WantedMap(messages="talk", expected=None, inputs={"subject": "topic"})

    assert map_columns(expected_calls, kinds, CHAT) == ColumnMap(messages="talk", inputs={"subject": "topic"})
    assert map_columns(WantedMap(messages=None, inputs=None), kinds, CHAT) == ColumnMap(expected="expected")


@pytest.mark.parametrize(
    ("wanted", "kind", "pointer", "why"),
    [
        (WantedMap(messages="gone"), InvalidValue, "/map/messages", "no column 'gone'. It has: text, n"),
        (WantedMap(expected="gone"), InvalidValue, "/map/expected", "no column 'gone'"),
        (WantedMap(script="gone"), InvalidValue, "/map/script", "no column 'gone'"),
        (WantedMap(script="text"), InvalidValue, "/map/script", "'tutor' is none"),
        (WantedMap(messages="n"), InvalidValue, "/map/messages", "'n' is number, no conversation"),
        (WantedMap(inputs={"text": "gone"}), InvalidValue, "/map/inputs/text", "no column 'gone'"),
        (WantedMap(inputs={"text": "text", "a/b": "n"}), UnknownInput, "/map/inputs/a~1b", "no input 'a/b'"),
        (WantedMap(inputs={}), MissingInput, "/map/inputs/text", "wants the input 'text'"),
    ],
)
def test_what_cannot_be_is_pointed_at(wanted: WantedMap, kind: type[RequestError], pointer: str, why: str) -> None:
    with pytest.raises(kind) as refused:
        map_columns(wanted, {"text": "text", "n": "number"}, PLAIN)

    assert refused.value.pointer == pointer
    assert why in refused.value.message


def test_answers_of_a_column_are_shown_with_all_that_was_asked() -> None:
    kinds = {"messages": "chat", "old": "chat", "topic": "text", "expected": "text"}

    assert map_answer_columns(WantedMap(), kinds, "old") == ColumnMap(
        messages="messages", expected="expected", inputs={"topic": "topic"}
    )
    assert map_answer_columns(
        WantedMap(messages=None, expected=UNSET, inputs={"t": "topic"}), kinds, "old"
    ) == ColumnMap(expected="expected", inputs={"t": "topic"})
    with pytest.raises(InvalidValue, match="no column 'gone'"):
        map_answer_columns(WantedMap(inputs={"t": "gone"}), kinds, "old")
