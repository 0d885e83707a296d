"""What a row says to a variant: by the columns of the plan, whatever dialect they are in."""

from typing import Any

import pytest
from msgspec import UNSET

from palaver.core.messages import Message
from palaver.errors import InvalidMessages
from palaver.evaluation.planning.plans import ColumnMap
from palaver.evaluation.running.asking import asked_of
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


def test_a_column_without_messages_is_said_to_be_none() -> None:
    with pytest.raises(InvalidMessages) as refused:
        asked_of({"messages": [{"city": "Oslo"}]}, SAID)

    assert refused.value.message.startswith("The column 'messages' holds no messages: Message 0 ")
    assert refused.value.pointer == "/messages/0"
