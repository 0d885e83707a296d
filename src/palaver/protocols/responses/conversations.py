"""Conversations, as OpenAI's SDKs make and read them (contract: responses, 6). Their items are item_pages'.

A conversation is a thread: here is one of its two faces, that of a list of items with metadata.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from palaver.core import json
from palaver.core.dialects import responses as dialect
from palaver.core.messages import Message
from palaver.errors import InvalidValue, PalaverError
from palaver.protocols import openai_errors
from palaver.protocols.base import HttpRequest, HttpResponse
from palaver.protocols.openai_errors import MissingRequired
from palaver.protocols.openai_fields import JsonFields, parse_metadata
from palaver.protocols.responses.output import JSON_HEADER
from palaver.protocols.responses.request import check_items, item_references

_MAX_ITEMS = 20


class ConversationInput(NamedTuple):
    """What a conversation is given: messages to append, and metadata."""

    messages: tuple[Message, ...] = ()
    metadata: Mapping[str, str] = {}
    places: tuple[str, ...] = ()
    """Where each message stands in the body: `items[2]` …"""

    def param(self, pointer: str) -> str:
        """A pointer of the waist (`/messages/3`) in the words of the body."""
        first, _, index = pointer.removeprefix("/").partition("/")
        if first != "messages":
            return openai_errors.pointer_to_param(pointer)
        return self.places[int(index)] if index.isdecimal() and int(index) < len(self.places) else "items"


def parse_create(request: HttpRequest) -> ConversationInput:
    """POST /conversations; a body need not be there."""
    fields = JsonFields.of(request) if request.body.strip() else JsonFields({})
    messages, places = _parse_items(fields)
    return ConversationInput(messages, parse_metadata(fields), places)


def parse_metadata_update(request: HttpRequest) -> Mapping[str, str]:
    """POST /conversations/{id}: the metadata that it has from now on."""
    fields = JsonFields.of(request)
    if "metadata" not in fields.body:
        raise MissingRequired("metadata is required.", pointer="/metadata")
    return parse_metadata(fields)


def parse_added_items(request: HttpRequest) -> ConversationInput:
    """POST /conversations/{id}/items."""
    fields = JsonFields.of(request)
    if fields.body.get("items") is None:
        raise MissingRequired("items is required: a list of items.", pointer="/items")
    messages, places = _parse_items(fields)
    return ConversationInput(messages, places=places)


def conversation_response(conversation: str, created_at: datetime, metadata: Mapping[str, str]) -> HttpResponse:
    """The conversation: what POST and GET answer, and DELETE of one of its items."""
    document = {
        "id": conversation,
        "object": "conversation",
        "created_at": int(created_at.timestamp()),
        "metadata": metadata,
    }
    return _json_response(document)


def deleted_conversation_response(conversation: str) -> HttpResponse:
    """DELETE /conversations/{id}: it is gone."""
    return _json_response({"id": conversation, "object": "conversation.deleted", "deleted": True})


def encode_error(error: PalaverError, given: ConversationInput | None, *, status: int) -> HttpResponse:
    """The error of a request about conversations."""
    return openai_errors.error_response(
        error, status=status, pointed=given.param if given else openai_errors.pointer_to_param
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


def _json_response(document: Any) -> HttpResponse:
    return HttpResponse(status=200, headers=(JSON_HEADER,), body=json.encode(document))
