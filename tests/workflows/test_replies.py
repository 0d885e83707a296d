"""The reply state machine: values in, events out; tests/engine/test_reply_grammar.py tests all its rules."""

from typing import Any

import pytest
from msgspec import UNSET

from palaver.core.events import PartAdded, TextDelta
from palaver.core.messages import Data, Message, Text, ToolCall, Usage
from palaver.errors import BadStream
from palaver.workflows.execution import Emitted, ReplyReader, Returned

USER, SYSTEM, ASSISTANT = Message.user("Well?"), Message.system("Be kind."), Message.assistant("Hello.")
NEW_ANSWER = Message.assistant("Hi.")


def feed_reply(value: object, *, is_chat: bool = True, history: tuple[Message, ...] = ()) -> list[Any]:
    return list(ReplyReader(is_chat=is_chat, history=history).feed(value))


# Emitted values


@pytest.mark.parametrize("is_chat", [True, False])
@pytest.mark.parametrize(
    "value", [NEW_ANSWER, Text(text="a"), Usage(1, 2), PartAdded(part=Data(name="n")), TextDelta(delta="a")], ids=repr
)
def test_a_palaver_value_may_be_emitted(value: Any, is_chat: bool) -> None:
    replies = ReplyReader(is_chat=is_chat)

    assert list(replies.feed_emitted(value)) == [value]
    assert list(replies.feed(Emitted(value))) == [value]
    assert replies.value() == (UNSET if is_chat else None)


@pytest.mark.parametrize("value", ["text", None, {"role": "assistant", "content": "Hi."}, b"x", Returned(1)], ids=repr)
def test_emitting_any_other_value_is_a_bad_stream(value: Any) -> None:
    with pytest.raises(BadStream, match=rf"not {type(value).__name__}\."):
        feed_reply(Emitted(value))


# A reply that includes the history


TOOL_CALL_MESSAGE = Message.assistant(ToolCall(call_id="c1", name="f"))

HISTORIES: dict[str, tuple[tuple[Message, ...], list[Any], list[Message]]] = {
    "all of it": ((USER,), [USER, NEW_ANSWER], [NEW_ANSWER]),
    "all of it, spelt otherwise": (
        (USER,),
        [{"role": "user", "content": [{"type": "text", "text": "Well?"}]}, NEW_ANSWER],
        [NEW_ANSWER],
    ),
    "with what went before": ((USER, ASSISTANT, USER), [USER, ASSISTANT, USER, NEW_ANSWER], [NEW_ANSWER]),
    "with system messages": ((SYSTEM, USER), [SYSTEM, USER, NEW_ANSWER], [NEW_ANSWER]),
    "its beginning": ((USER, ASSISTANT, USER), [USER, ASSISTANT, NEW_ANSWER], [NEW_ANSWER]),
    "itself alone": ((USER, ASSISTANT, USER), [USER, ASSISTANT, USER], []),
    "with calls and results": (
        (USER, TOOL_CALL_MESSAGE, Message.tool("c1", "4")),
        [USER, TOOL_CALL_MESSAGE, Message.tool("c1", 4), NEW_ANSWER],
        [NEW_ANSWER],
    ),
    "only its last message": ((SYSTEM, USER), [USER, NEW_ANSWER], [NEW_ANSWER]),
    "what looks like it may be said anew": ((ASSISTANT, USER), [ASSISTANT], [ASSISTANT]),
    "another conversation": ((USER,), [Message.user("Else?"), ASSISTANT], [ASSISTANT]),
    "none": ((), [NEW_ANSWER], [NEW_ANSWER]),
}


@pytest.mark.parametrize("case", HISTORIES)
def test_the_history_is_not_repeated(case: str) -> None:
    history, values, new = HISTORIES[case]

    assert feed_reply(values, history=history) == new
    assert feed_reply({"messages": values}, history=history) == new


# Warnings


def test_dropped_messages_and_converted_values_are_warned_about_once() -> None:
    replies = ReplyReader(is_chat=True)
    for value in ([USER], [SYSTEM], [USER], 5, 6, 5.5):
        list(replies.feed(value))

    assert replies.warnings == [
        "dropped a user message from a chat's reply",
        "dropped a system message from a chat's reply",
        "a chat returned a value of type int, which is not a message; it is shown as data",
        "a chat returned a value of type float, which is not a message; it is shown as data",
    ]


# The value


def test_the_value_given_at_the_end_overrides_earlier_values() -> None:
    replies = ReplyReader(is_chat=False)
    list(replies.feed(Returned(1)))

    assert (replies.value(), replies.value(None), replies.value((1, 2))) == (1, None, [1, 2])
    assert ReplyReader(is_chat=True).value(5) is UNSET


def test_a_value_does_not_change_after_it_was_fed() -> None:
    values = {"a": [1]}
    replies = ReplyReader(is_chat=False)
    list(replies.feed(values))
    values["a"].append(2)

    assert replies.value() == {"a": [1]}


def test_a_list_of_messages_and_other_values_becomes_data() -> None:
    assert feed_reply([NEW_ANSWER, 5]) == [
        Message.assistant(
            Data(name="output", value=[{"role": "assistant", "parts": [{"type": "text", "text": "Hi."}]}, 5])
        )
    ]
