"""Reading messages in whichever dialect they come, and writing them back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import dialects
from palaver.core.extraction import dialect_of
from palaver.core.messages import Message
from palaver.core.parts import Data, Text, ToolCall
from palaver.errors import InvalidMessages
from tests.core.values import Unwritable, messages

U = {"role": "user", "content": "hi"}
OURS = {"role": "assistant", "id": "m", "parts": [{"type": "data", "name": "n", "value": 1}]}


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ([], []),
        ([U], [Message.user("hi")]),
        (U, [Message.user("hi")]),
        (
            [U, OURS, {"message": U}, {"message": OURS}],
            [
                Message.user("hi"),
                Message(role="assistant", id="m", parts=(Data(name="n", value=1),)),
                Message.user("hi"),
                Message(role="assistant", id="m", parts=(Data(name="n", value=1),)),
            ],
        ),
        (
            [
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {"a": "\ud800"}}}],
                }
            ],
            [Message.assistant(ToolCall(call_id="c", name="f", arguments='{"a":"\ufffd"}'))],
        ),
    ],
    ids=["nothing", "a list", "one message", "mixed and wrapped", "half a character"],
)
def test_messages_are_read_element_by_element(value: Any, read: list[Message]) -> None:
    assert dialects.read(value) == read


@pytest.mark.parametrize(
    ("value", "message", "pointer"),
    [
        ("hi", "The history is not a list of messages.", "/messages"),
        (None, "The history is not a list of messages.", "/messages"),
        ([U, "hi"], "Message 1 is not an object.", "/messages/1"),
        ([{"content": "hi"}], "Message 0 has no role.", "/messages/0"),
        (
            [U, {"role": "user"}],
            "Message 1 says nothing that we can read (content, parts, tool_calls …).",
            "/messages/1",
        ),
        ([{"role": "admin", "content": "all"}], "The history has no message with a known role.", "/messages"),
        (
            [U, {"type": "human", "content": "hi"}],
            "The history is in the dialect 'langchain', which is not read yet.",
            "/messages",
        ),
        (
            [{"role": "assistant", "tool_calls": [{"name": "f", "args": {"a": Unwritable()}}]}],
            "The history holds a dict that is not JSON (Unwritable has no JSON form).",
            "/messages",
        ),
    ],
)
def test_what_cannot_be_read_says_where_and_why(value: Any, message: str, pointer: str) -> None:
    with pytest.raises(InvalidMessages) as caught:
        dialects.read(value)

    assert (caught.value.message, caught.value.pointer) == (message, pointer)


def test_the_place_in_the_body_is_the_callers() -> None:
    with pytest.raises(InvalidMessages) as caught:
        dialects.read([5], pointer="/data/inputs/messages")

    assert caught.value.pointer == "/data/inputs/messages/0"


def test_messages_are_written_in_the_dialect_that_is_asked() -> None:
    said = [Message(role="user", parts=(Text(text="hi"),), id="m")]

    assert dialects.write(said, "chat-completions") == [{"role": "user", "content": "hi"}]
    assert dialects.write(said, "palaver") == [{"role": "user", "parts": [{"type": "text", "text": "hi"}], "id": "m"}]


@pytest.mark.parametrize("name", sorted(dialects.READABLE))
@given(said=st.lists(messages, max_size=4))
def test_what_we_write_we_recognise_and_read(name: Any, said: list[Message]) -> None:
    written = dialects.write(said, name)

    assert dialect_of(written) == (name if written else None)
    assert dialects.read(written) == dialects.READABLE[name].read(written)
