"""Requests and responses of the Conversations API (/v1/conversations)."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from palaver.core.dialects import responses as dialect
from palaver.core.messages import Message
from palaver.errors import InvalidValue
from palaver.protocols.base import HttpRequest, HttpResponse, json_response
from palaver.protocols.openai import JsonFields, MissingRequired, parse_metadata
from palaver.protocols.responses.request import check_items, item_references

_MAX_ITEMS = 20


class ConversationInput(NamedTuple):
    """Messages to append to a conversation, and metadata."""

    messages: tuple[Message, ...] = ()
    metadata: Mapping[str, str] = {}


def parse_create(request: HttpRequest) -> ConversationInput:
    """Parse POST /conversations; the body is optional."""
    fields = JsonFields.from_request(request) if request.body.strip() else JsonFields({})
    return ConversationInput(_parse_items(fields), parse_metadata(fields))


def parse_metadata_update(request: HttpRequest) -> Mapping[str, str]:
    """Parse POST /conversations/{id}."""
    fields = JsonFields.from_request(request)
    if "metadata" not in fields.body:
        raise MissingRequired("metadata is required.", pointer="/metadata")
    return parse_metadata(fields)


def parse_added_items(request: HttpRequest) -> ConversationInput:
    """Parse POST /conversations/{id}/items."""
    fields = JsonFields.from_request(request)
    if fields.body.get("items") is None:
        raise MissingRequired("items is required and must be a list.", pointer="/items")
    return ConversationInput(_parse_items(fields))


def conversation_response(conversation: str, created_at: datetime, metadata: Mapping[str, str]) -> HttpResponse:
    """The response to POST and GET of a conversation, and to DELETE of one of its items."""
    document = {
        "id": conversation,
        "object": "conversation",
        "created_at": int(created_at.timestamp()),
        "metadata": metadata,
    }
    return json_response(document)


def deleted_conversation_response(conversation: str) -> HttpResponse:
    """The response to DELETE /conversations/{id}."""
    return json_response({"id": conversation, "object": "conversation.deleted", "deleted": True})


def _parse_items(fields: JsonFields) -> tuple[Message, ...]:
    items = fields.items("items") or []
    if len(items) > _MAX_ITEMS:
        raise InvalidValue(f"Too many items: {len(items):,} (limit: {_MAX_ITEMS}).", pointer="/items")
    check_items(items, "items")
    for index in item_references(items):
        raise InvalidValue("Item references can't be added to a conversation.", pointer=f"/items/{index}")
    return tuple(message for message, _ in dialect.read_indexed(items))
