"""Conversations: what is asked of them and how they are shown."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from palaver.core.messages import Message, ToolCall
from palaver.errors import PalaverError, UnknownCall
from palaver.protocols.base import HttpRequest
from palaver.protocols.responses import store
from palaver.protocols.responses.store import ConversationInput
from tests.protocols.fixed_run import json, request

USER = {"role": "user", "content": "Why?"}


def refusal(decode: Callable[[HttpRequest], object], body: Any) -> tuple[str, str | None]:
    with pytest.raises(PalaverError) as caught:
        decode(request(body))
    error = json(store.encode_conversation_error(caught.value, None, status=400))["error"]
    return error["code"], error["param"]


def test_a_conversation_begins_with_items_and_metadata() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "now", "arguments": "{}"}
    answer = {"type": "message", "role": "assistant", "content": "Hm.", "id": "msg_1"}

    assert store.parse_create(request({"items": [USER, answer, call], "metadata": {"a": "b"}})) == ConversationInput(
        messages=(
            Message.user("Why?"),
            Message(role="assistant", parts=(*Message.user("Hm.").parts, ToolCall("c1", "now", "{}")), id="msg_1"),
        ),
        metadata={"a": "b"},
        places=("items[0]", "items[1]"),
    )


@pytest.mark.parametrize("body", [b"", b" ", {}, {"items": None, "metadata": None}, {"items": []}])
def test_a_conversation_may_begin_empty(body: Any) -> None:
    assert store.parse_create(request(body)) == ConversationInput()


def test_items_and_metadata_are_added_later() -> None:
    assert store.parse_added_items(request({"items": [USER]})) == ConversationInput(
        (Message.user("Why?"),), places=("items[0]",)
    )
    assert store.parse_metadata_update(request({"metadata": {"a": "b"}})) == {"a": "b"}
    assert store.parse_metadata_update(request({"metadata": None})) == {}


@pytest.mark.parametrize(
    ("decode", "body", "code", "param"),
    [
        (store.parse_create, [], "invalid_type", None),
        (store.parse_create, b"{", "invalid_json", None),
        (store.parse_create, {"items": {}}, "invalid_type", "items"),
        (store.parse_create, {"items": [USER] * 21}, "invalid_value", "items"),
        (store.parse_create, {"items": [5]}, "invalid_type", "items[0]"),
        (store.parse_create, {"items": [USER, {"role": "robot"}]}, "invalid_value", "items[1].role"),
        (store.parse_create, {"metadata": {"a": 1}}, "invalid_type", "metadata.a"),
        (store.parse_create, {"metadata": {str(n): "" for n in range(17)}}, "invalid_value", "metadata"),
        (store.parse_added_items, {}, "missing_required_parameter", "items"),
        (store.parse_added_items, {"items": None}, "missing_required_parameter", "items"),
        (store.parse_added_items, {"items": [USER] * 21}, "invalid_value", "items"),
        (
            store.parse_added_items,
            {"items": [USER, {"type": "item_reference", "id": "msg_1"}]},
            "invalid_value",
            "items[1]",
        ),
        (store.parse_metadata_update, {}, "missing_required_parameter", "metadata"),
        (store.parse_metadata_update, {"metadata": 5}, "invalid_type", "metadata"),
        (store.parse_metadata_update, {"metadata": {"a": "x" * 513}}, "string_too_long", "metadata.a"),
    ],
)
def test_a_body_that_is_wrong_is_named(
    decode: Callable[[HttpRequest], object], body: Any, code: str, param: Any
) -> None:
    assert refusal(decode, body) == (code, param)


def test_twenty_items_are_taken() -> None:
    assert len(store.parse_added_items(request({"items": [USER] * 20})).messages) == 20


@pytest.mark.parametrize(
    ("pointer", "param"),
    [("/messages/0", "items[4]"), ("/messages/9", "items"), ("/messages", "items"), ("/metadata/a", "metadata.a")],
)
def test_an_error_finds_the_way_back_to_its_item(pointer: str, param: str) -> None:
    answer = store.encode_conversation_error(
        UnknownCall("x", pointer=pointer), ConversationInput(places=("items[4]",)), status=400
    )

    assert json(answer)["error"]["param"] == param


def test_a_conversation_is_shown_and_deleted() -> None:
    rendered = store.conversation_response("conv_1", datetime(2026, 7, 1, 12, tzinfo=UTC), {"a": "b"})

    assert rendered.headers == (("content-type", "application/json"),)
    assert json(rendered) == {
        "id": "conv_1",
        "object": "conversation",
        "created_at": 1782907200,
        "metadata": {"a": "b"},
    }
    assert json(store.deleted_conversation_response("conv_1")) == {
        "id": "conv_1",
        "object": "conversation.deleted",
        "deleted": True,
    }
