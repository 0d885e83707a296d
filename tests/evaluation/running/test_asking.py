"""What a row says to a variant: by the columns of the plan, whatever dialect they are in."""

from typing import Any

import pytest
from msgspec import UNSET

from palaver.core.messages import Message
from palaver.errors import InvalidMessages
from palaver.evaluation.planning.plans import ColumnMap
from palaver.evaluation.running.asking import asked_of, lack_of
from tests.evaluation.running.in_process import variant

SAID = variant(map=ColumnMap(messages="messages", script="script", expected="expected", inputs={"a": "b"}))


@pytest.mark.parametrize(
    ("said", "history"),
    [
        ("Hi", (Message.user("Hi"),)),
        ({"role": "user", "content": "Hi"}, (Message.user("Hi"),)),
        ([{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}], (Message.user("Hi"),)),
        ([], ()),
        (None, ()),
    ],
)
def test_messages_are_a_text_one_message_or_many(said: Any, history: tuple[Message, ...]) -> None:
    assert asked_of({"messages": said}, SAID).history == history


def test_what_a_row_has_not_got_is_not_there() -> None:
    assert asked_of({"messages": "Hi"}, SAID).expected is UNSET
    assert asked_of({"messages": "Hi", "expected": None, "b": 1}, SAID).expected is None
    assert asked_of({"b": 1}, SAID).inputs == {"a": 1}
    assert asked_of({"c": 1}, variant(map=ColumnMap())).history == ()


def test_a_script_goes_before_messages() -> None:
    asked = asked_of({"script": {"turns": [{"user": "One"}, {"user": "Two"}]}, "messages": "Hi"}, SAID)

    assert asked.script is not None
    assert (len(asked.script.turns), asked.history) == (2, ())


SPOKEN = variant(
    map=ColumnMap(
        messages="messages", history="history", spoken="question", inputs={"question": "question", "topic": "topic"}
    )
)


@pytest.mark.parametrize(
    ("row", "said", "inputs"),
    [
        ({"question": "Why?", "topic": "a"}, ["Why?"], {"topic": "a"}),
        ({"messages": None, "question": "Why?"}, ["Why?"], {}),
        ({"history": "Before.", "question": "Why?"}, ["Before.", "Why?"], {}),
        ({"messages": "Hi", "question": "Why?"}, ["Hi"], {"question": "Why?"}),
        ({"messages": [], "question": "Why?"}, [], {"question": "Why?"}),
        ({"topic": "a"}, [], {"topic": "a"}),
    ],
)
def test_a_question_is_said_where_the_row_has_no_messages(
    row: dict[str, Any], said: list[str], inputs: dict[str, Any]
) -> None:
    asked = asked_of(row, SPOKEN)

    assert (asked.history, asked.inputs) == (tuple(Message.user(text) for text in said), inputs)


def test_a_script_goes_before_a_question() -> None:
    columns = ColumnMap(script="script", spoken="question", inputs={"question": "question"})
    asked = asked_of({"script": {"turns": [{"user": "One"}]}, "question": "Why?"}, variant(map=columns))

    assert asked.script is not None
    assert (asked.history, asked.inputs) == ((), {"question": "Why?"})


@pytest.mark.parametrize(
    ("row", "columns", "lack"),
    [
        ({}, ColumnMap(messages="talk"), "no messages in the column 'talk'"),
        ({"s": "Hi"}, ColumnMap(script="s"), "no script in the column 's'"),
        ({"q": None}, ColumnMap(messages="m", spoken="q"), "no messages in the column 'm', no text in the column 'q'"),
        ({"m": None}, ColumnMap(messages="m", history="h"), "no messages in the column 'm'"),
        ({"h": []}, ColumnMap(messages="m", history="h"), "no messages in the column 'm'"),
        ({"m": []}, ColumnMap(messages="m"), None),
        ({"m": ""}, ColumnMap(messages="m"), None),
        ({"h": "Before."}, ColumnMap(messages="m", history="h"), None),
        ({"q": "Why?"}, ColumnMap(script="s", spoken="q"), None),
        ({"s": {"turns": [{"user": "One"}]}}, ColumnMap(messages="m", script="s"), None),
        ({}, ColumnMap(inputs={"a": "b"}), None),
    ],
)
def test_a_row_that_says_nothing_lacks_what_columns_are_for(
    row: dict[str, Any], columns: ColumnMap, lack: str | None
) -> None:
    assert lack_of(asked_of(row, variant(map=columns)), columns) == lack


def test_a_column_without_messages_is_said_to_be_none() -> None:
    with pytest.raises(InvalidMessages) as refused:
        asked_of({"messages": [{"city": "Oslo"}]}, SAID)

    assert refused.value.message.startswith("The column 'messages' holds no messages: Message 0 ")
    assert refused.value.pointer == "/messages/0"
