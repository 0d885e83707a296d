"""Palaver's own message dialect round-trips without losses."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core.dialects import palaver
from palaver.core.messages import Annotation, Data, File, Message, Text, ToolCall
from tests.core.strategies import messages


@given(st.lists(messages, max_size=4))
def test_messages_round_trip_without_losses(conversation: list[Message]) -> None:
    encoded = palaver.write(conversation)

    assert palaver.read(encoded) == conversation
    assert palaver.read(msgspec.json.decode(msgspec.json.encode(encoded))) == conversation
    assert palaver.LOSSES == ()


def test_messages_are_written_as_plain_json_without_defaults() -> None:
    message = Message(
        role="assistant",
        parts=(
            Text(text="a", annotations=(Annotation(kind="url", url="https://host/"),)),
            ToolCall(call_id="c", name="f"),
        ),
        metadata={"origin": "client"},
    )

    assert palaver.write([message]) == [
        {
            "role": "assistant",
            "parts": [
                {"type": "text", "text": "a", "annotations": [{"kind": "url", "url": "https://host/"}]},
                {"type": "tool-call", "call_id": "c", "name": "f"},
            ],
            "metadata": {"origin": "client"},
        }
    ]


@pytest.mark.parametrize(
    ("element", "message"),
    [
        ({"role": "Human", "parts": []}, Message(role="user", parts=())),
        ({"author": "bot", "parts": []}, Message(role="assistant", parts=())),
        ({"role": "researcher", "parts": []}, Message(role="assistant", name="researcher", parts=())),
        (
            {"role": "user", "parts": [{"type": "file", "media_type": "image/png", "data": "AAAA", "new": 1}]},
            Message.user(File(media_type="image/png", data="AAAA")),
        ),
        (
            {"role": "user", "parts": [{"type": "file"}, {"type": "file", "media_type": "text/plain"}]},
            Message.user(Data(name="palaver:file", value={"type": "file"}), File(media_type="text/plain")),
        ),
        (
            {"role": "user", "parts": [{"type": "file", "file_id": "file_1"}, {"type": "text", "text": "a"}]},
            Message.user(File(media_type="application/octet-stream", file_id="file_1"), "a"),
        ),
        (
            {"role": "user", "parts": [{"type": "text", "text": "a", "\ud800": 1}, {"type": "data", "name": "n"}]},
            Message.user(Data(name="palaver:text", value={"type": "text", "text": "a", "\ufffd": 1}), Data(name="n")),
        ),
        (
            {
                "role": "assistant",
                "parts": [{"type": "tool-call", "call_id": "c", "name": "f"}],
                "tool_calls": [{"id": "c", "name": "f"}, {"id": "d", "name": "g"}],
            },
            Message.assistant(ToolCall(call_id="c", name="f"), ToolCall(call_id="d", name="g")),
        ),
        ({"role": "user", "parts": [], "id": 5, "name": 6, "metadata": 7}, Message(role="user", parts=())),
    ],
    ids=[
        "a synonym",
        "an author",
        "an unknown role",
        "a field to come",
        "a part that does not fit",
        "a stored file",
        "half a character",
        "calls beside the parts",
        "odd fields",
    ],
)
def test_palaver_messages_by_other_writers_are_read_leniently(element: dict[str, Any], message: Message) -> None:
    assert palaver.read([element]) == [message]
