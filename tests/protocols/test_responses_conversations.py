"""Conversations of the Responses API: parsing of requests, and encoding."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from palaver.core.messages import Message, ToolCall
from palaver.errors import PalaverError
from palaver.protocols.base import HttpRequest
from palaver.protocols.openai import error_response
from palaver.protocols.responses.conversations import (
    ConversationInput,
    conversation_response,
    deleted_conversation_response,
    parse_added_items,
    parse_create,
    parse_metadata_update,
)
from tests.protocols.fixed_run import json, request

USER = {"role": "user", "content": "Why?"}


def decode_error(decode: Callable[[HttpRequest], object], body: Any) -> tuple[str, str | None]:
    with pytest.raises(PalaverError) as caught:
        decode(request(body))
    error = json(error_response(caught.value, status=400))["error"]
    return error["code"], error["param"]


def test_create_request_is_parsed_into_messages_and_metadata() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "now", "arguments": "{}"}
    answer = {"type": "message", "role": "assistant", "content": "Hm.", "id": "msg_1"}

    assert parse_create(request({"items": [USER, answer, call], "metadata": {"a": "b"}})) == ConversationInput(
        messages=(
            Message.user("Why?"),
            Message(role="assistant", parts=(*Message.user("Hm.").parts, ToolCall("c1", "now", "{}")), id="msg_1"),
        ),
        metadata={"a": "b"},
    )


@pytest.mark.parametrize("body", [b"", b" ", {}, {"items": None, "metadata": None}, {"items": []}])
def test_conversation_can_be_created_empty(body: Any) -> None:
    assert parse_create(request(body)) == ConversationInput()


def test_added_items_and_metadata_updates_are_parsed() -> None:
    assert parse_added_items(request({"items": [USER]})) == ConversationInput((Message.user("Why?"),))
    assert parse_metadata_update(request({"metadata": {"a": "b"}})) == {"a": "b"}
    assert parse_metadata_update(request({"metadata": None})) == {}


@pytest.mark.parametrize(
    ("decode", "body", "code", "param"),
    [
        (parse_create, [], "invalid_type", None),
        (parse_create, b"{", "invalid_json", None),
        (parse_create, {"items": {}}, "invalid_type", "items"),
        (parse_create, {"items": [USER] * 21}, "invalid_value", "items"),
        (parse_create, {"items": [5]}, "invalid_type", "items[0]"),
        (parse_create, {"items": [USER, {"role": "robot"}]}, "invalid_value", "items[1].role"),
        (parse_create, {"metadata": {"a": 1}}, "invalid_type", "metadata.a"),
        (parse_create, {"metadata": {str(n): "" for n in range(17)}}, "invalid_value", "metadata"),
        (parse_added_items, {}, "missing_required_parameter", "items"),
        (parse_added_items, {"items": None}, "missing_required_parameter", "items"),
        (parse_added_items, {"items": [USER] * 21}, "invalid_value", "items"),
        (
            parse_added_items,
            {"items": [USER, {"type": "item_reference", "id": "msg_1"}]},
            "invalid_value",
            "items[1]",
        ),
        (parse_metadata_update, {}, "missing_required_parameter", "metadata"),
        (parse_metadata_update, {"metadata": 5}, "invalid_type", "metadata"),
        (parse_metadata_update, {"metadata": {"a": "x" * 513}}, "string_too_long", "metadata.a"),
    ],
)
def test_invalid_body_is_rejected_with_code_and_param(
    decode: Callable[[HttpRequest], object], body: Any, code: str, param: Any
) -> None:
    assert decode_error(decode, body) == (code, param)


def test_twenty_items_are_accepted() -> None:
    assert len(parse_added_items(request({"items": [USER] * 20})).messages) == 20


def test_conversation_and_its_deletion_are_encoded() -> None:
    rendered = conversation_response("conv_1", datetime(2026, 7, 1, 12, tzinfo=UTC), {"a": "b"})

    assert rendered.headers == (("content-type", "application/json"),)
    assert json(rendered) == {
        "id": "conv_1",
        "object": "conversation",
        "created_at": 1782907200,
        "metadata": {"a": "b"},
    }
    assert json(deleted_conversation_response("conv_1")) == {
        "id": "conv_1",
        "object": "conversation.deleted",
        "deleted": True,
    }
