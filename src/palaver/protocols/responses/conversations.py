"""Requests and responses of the Conversations API (/v1/conversations)."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from palaver.core.dialects import responses as dialect
from palaver.core.messages import Message
from palaver.errors import InvalidValue, PalaverError
from palaver.protocols import openai
from palaver.protocols.base import HttpRequest, HttpResponse
from palaver.protocols.openai import JsonFields, MissingRequired, parse_metadata
from palaver.protocols.responses.request import check_items, item_references
from palaver.protocols.responses.store import json_response

_MAX_ITEMS = 20


class ConversationInput(NamedTuple):
    """Messages to append to a conversation, and metadata."""

    messages: tuple[Message, ...] = ()
    metadata: Mapping[str, str] = {}
    places: tuple[str, ...] = ()
    """The param of each message: `items[2]` …"""

    def param(self, pointer: str) -> str:
        """Convert a pointer into the messages (`/messages/3`) to a param of the body."""
        first, _, index = pointer.removeprefix("/").partition("/")
        if first != "messages":
            return openai.pointer_to_param(pointer)
        return self.places[int(index)] if index.isdecimal() and int(index) < len(self.places) else "items"


def parse_create(request: HttpRequest) -> ConversationInput:
    """Parse POST /conversations; the body is optional."""
    fields = JsonFields.from_request(request) if request.body.strip() else JsonFields({})
    messages, places = _parse_items(fields)
    return ConversationInput(messages, parse_metadata(fields), places)


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
        raise MissingRequired("items is required: a list of items.", pointer="/items")
    messages, places = _parse_items(fields)
    return ConversationInput(messages, places=places)


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


def encode_conversation_error(
    error: PalaverError, conversation: ConversationInput | None, *, status: int
) -> HttpResponse:
    return openai.error_response(
        error, status=status, to_param=conversation.param if conversation else openai.pointer_to_param
    )


def _parse_items(fields: JsonFields) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    items = fields.items("items") or []
    if len(items) > _MAX_ITEMS:
        raise InvalidValue(f"There are {len(items)} items; at most {_MAX_ITEMS} are taken.", pointer="/items")
    check_items(items, "items")
    for index in item_references(items):
        raise InvalidValue("A conversation takes items, no references to them.", pointer=f"/items/{index}")
    indexed = dialect.read_indexed(items)
    return tuple(message for message, _ in indexed), tuple(f"items[{index}]" for _, index in indexed)
