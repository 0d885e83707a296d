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
from palaver.protocols.base import Answer, Request
from palaver.protocols.openai_errors import MissingRequired
from palaver.protocols.openai_fields import Fields, metadata
from palaver.protocols.response_input import check_items, references
from palaver.protocols.responses import JSON

_MOST_ITEMS = 20


class Given(NamedTuple):
    """What a conversation is given: messages to append, and metadata."""

    messages: tuple[Message, ...] = ()
    metadata: Mapping[str, str] = {}
    places: tuple[str, ...] = ()
    """Where each message stands in the body: `items[2]` …"""

    def param(self, pointer: str) -> str:
        """A pointer of the waist (`/messages/3`) in the words of the body."""
        first, _, index = pointer.removeprefix("/").partition("/")
        if first != "messages":
            return openai_errors.param(pointer)
        return self.places[int(index)] if index.isdecimal() and int(index) < len(self.places) else "items"


def decode_new(request: Request) -> Given:
    """POST /conversations; a body need not be there."""
    fields = Fields.of(request) if request.body.strip() else Fields({})
    messages, places = _items(fields)
    return Given(messages, metadata(fields), places)


def decode_metadata(request: Request) -> Mapping[str, str]:
    """POST /conversations/{id}: the metadata that it has from now on."""
    fields = Fields.of(request)
    if "metadata" not in fields.body:
        raise MissingRequired("metadata is required.", pointer="/metadata")
    return metadata(fields)


def decode_items(request: Request) -> Given:
    """POST /conversations/{id}/items."""
    fields = Fields.of(request)
    if fields.body.get("items") is None:
        raise MissingRequired("items is required: a list of items.", pointer="/items")
    messages, places = _items(fields)
    return Given(messages, places=places)


def shown(conversation: str, created_at: datetime, metadata: Mapping[str, str]) -> Answer:
    """The conversation: what POST and GET answer, and DELETE of one of its items."""
    document = {
        "id": conversation,
        "object": "conversation",
        "created_at": int(created_at.timestamp()),
        "metadata": metadata,
    }
    return _answer(document)


def deleted(conversation: str) -> Answer:
    """DELETE /conversations/{id}: it is gone."""
    return _answer({"id": conversation, "object": "conversation.deleted", "deleted": True})


def failure(error: PalaverError, given: Given | None, *, status: int) -> Answer:
    """The error of a request about conversations."""
    return openai_errors.failure(error, status=status, pointed=given.param if given else openai_errors.param)


def _items(fields: Fields) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    items = fields.items("items") or []
    if len(items) > _MOST_ITEMS:
        raise InvalidValue(f"There are {len(items)} items; at most {_MOST_ITEMS} are taken.", pointer="/items")
    check_items(items, "items")
    for index in references(items):
        raise InvalidValue("A conversation takes items, no references to them.", pointer=f"/items/{index}")
    indexed = dialect.read_indexed(items)
    return tuple(message for message, _ in indexed), tuple(f"items[{index}]" for _, index in indexed)


def _answer(document: Any) -> Answer:
    return Answer(status=200, headers=(JSON,), body=json.encode(document))
