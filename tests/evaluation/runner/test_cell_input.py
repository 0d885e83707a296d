"""The input of a cell from the columns of its row, in any message dialect."""

from typing import Any

import pytest
from msgspec import UNSET

from palaver.core.descriptions import Description, Schemas
from palaver.core.messages import Message
from palaver.errors import InvalidMessages
from palaver.evaluation.plan.plan import ColumnMap
from palaver.evaluation.runner.cell import convert_inputs, missing_messages, read_cell_input
from tests.evaluation.runner.local_server import variant

VARIANT = variant(map=ColumnMap(messages="messages", script="script", expected="expected", inputs={"a": "b"}))


@pytest.mark.parametrize(
    ("messages", "history"),
    [
        ("Hi", (Message.user("Hi"),)),
        ({"role": "user", "content": "Hi"}, (Message.user("Hi"),)),
        ([{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}], (Message.user("Hi"),)),
        (42, (Message.user("42"),)),
        (True, (Message.user("true"),)),
        ([], ()),
        (None, ()),
    ],
)
def test_messages_may_be_a_text_a_number_one_message_or_a_list(messages: Any, history: tuple[Message, ...]) -> None:
    assert read_cell_input({"messages": messages}, VARIANT).history == history


def test_columns_missing_from_the_row_are_left_out() -> None:
    assert read_cell_input({"messages": "Hi"}, VARIANT).expected is UNSET
    assert read_cell_input({"messages": "Hi", "expected": None, "b": 1}, VARIANT).expected is None
    assert read_cell_input({"b": 1}, VARIANT).inputs == {"a": 1}
    assert read_cell_input({"c": 1}, variant(map=ColumnMap())).history == ()


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"expected": "a", "answer": "b"}, "a"),
        ({"answer": "b"}, "b"),
        ({"expected": None, "answer": "b"}, "b"),
        ({"expected": "", "answer": "b"}, "b"),
        ({"expected": False, "answer": "b"}, False),
        ({"expected": None}, None),
        ({"expected": "", "answer": None}, ""),
        ({"q": "x"}, UNSET),
    ],
)
def test_the_expected_answer_is_the_first_that_the_row_has(row: dict[str, Any], expected: Any) -> None:
    columns = ColumnMap(expected="expected", expected_fallbacks=("reference", "answer"))

    assert read_cell_input(row, variant(map=columns)).expected == expected


def test_a_script_takes_precedence_over_messages() -> None:
    cell_input = read_cell_input({"script": {"turns": [{"user": "One"}, {"user": "Two"}]}, "messages": "Hi"}, VARIANT)

    assert cell_input.script is not None
    assert (len(cell_input.script.turns), cell_input.history) == (2, ())


@pytest.mark.parametrize(
    ("schema", "is_text"),
    [
        ({"type": "string"}, True),
        ({"type": ["string", "null"]}, True),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, True),
        ({"enum": ["1", "2"]}, True),
        ({"oneOf": [{"enum": ["1"]}, {"type": "string", "maxLength": 3}]}, True),
        ({"type": "integer"}, False),
        ({"type": ["string", "number"]}, False),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, False),
        ({"anyOf": [{"type": "null"}]}, False),
        ({"enum": ["1", 2]}, False),
        ({"$ref": "#/$defs/Text"}, False),
        ({"type": [{}, "string"]}, False),
        ({}, False),
        (True, False),
    ],
)
def test_only_inputs_that_must_be_text_get_numbers_and_booleans_as_text(schema: Any, is_text: bool) -> None:
    inputs = {"a": 12, "b": 0.5, "c": True, "d": None, "e": "x", "f": [1]}
    workflow = Description(name="w", flags={}, schemas=Schemas(inputs={"properties": dict.fromkeys(inputs, schema)}))

    texts = {"a": "12", "b": "0.5", "c": "true"} if is_text else {}
    assert convert_inputs(inputs, workflow) == inputs | texts
    assert convert_inputs({"g": 1}, workflow) == {"g": 1}


QUESTION_VARIANT = variant(
    map=ColumnMap(
        messages="messages", history="history", spoken="question", inputs={"question": "question", "topic": "topic"}
    )
)


@pytest.mark.parametrize(
    ("row", "texts", "inputs"),
    [
        ({"question": "Why?", "topic": "a"}, ["Why?"], {"topic": "a"}),
        ({"messages": None, "question": "Why?"}, ["Why?"], {}),
        ({"messages": "", "question": "Why?"}, ["Why?"], {}),
        ({"history": "Before.", "question": "Why?"}, ["Before.", "Why?"], {}),
        ({"messages": "Hi", "question": "Why?"}, ["Hi"], {"question": "Why?"}),
        ({"messages": [], "question": "Why?"}, [], {"question": "Why?"}),
        ({"topic": "a"}, [], {"topic": "a"}),
    ],
)
def test_the_question_column_is_the_user_message_if_the_row_has_no_messages(
    row: dict[str, Any], texts: list[str], inputs: dict[str, Any]
) -> None:
    cell_input = read_cell_input(row, QUESTION_VARIANT)

    assert (cell_input.history, cell_input.inputs) == (tuple(Message.user(text) for text in texts), inputs)


def test_a_script_takes_precedence_over_a_question() -> None:
    columns = ColumnMap(script="script", spoken="question", inputs={"question": "question"})
    cell_input = read_cell_input({"script": {"turns": [{"user": "One"}]}, "question": "Why?"}, variant(map=columns))

    assert cell_input.script is not None
    assert (cell_input.history, cell_input.inputs) == ((), {"question": "Why?"})


@pytest.mark.parametrize(
    ("row", "columns", "missing"),
    [
        ({}, ColumnMap(messages="talk"), "no messages in column 'talk'"),
        ({"s": "Hi"}, ColumnMap(script="s"), "no script in column 's'"),
        ({"q": None}, ColumnMap(messages="m", spoken="q"), "no messages in column 'm', no text in column 'q'"),
        ({"m": None}, ColumnMap(messages="m", history="h"), "no messages in column 'm'"),
        ({"h": []}, ColumnMap(messages="m", history="h"), "no messages in column 'm'"),
        ({"m": []}, ColumnMap(messages="m"), None),
        ({"m": ""}, ColumnMap(messages="m"), None),
        ({"h": "Before."}, ColumnMap(messages="m", history="h"), None),
        ({"q": "Why?"}, ColumnMap(script="s", spoken="q"), None),
        ({"s": {"turns": [{"user": "One"}]}}, ColumnMap(messages="m", script="s"), None),
        ({}, ColumnMap(inputs={"a": "b"}), None),
    ],
)
def test_a_row_without_messages_reports_its_empty_columns(
    row: dict[str, Any], columns: ColumnMap, missing: str | None
) -> None:
    assert missing_messages(read_cell_input(row, variant(map=columns)), columns) == missing


def test_a_column_with_invalid_messages_is_rejected() -> None:
    with pytest.raises(InvalidMessages) as refused:
        read_cell_input({"messages": [{"city": "Oslo"}]}, VARIANT)

    assert refused.value.message.startswith("Column 'messages' does not contain valid messages: Message 0 ")
    assert refused.value.pointer == "/messages/0"
