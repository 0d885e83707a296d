"""The items of stored messages, and pages of them: `input_items` of a response, `items` of a conversation.

Which items a message is, the dialect says; here each gets an id. A message has its own, a call and its result are named
by the call's, and whatever else has none by the message it stands in: the same at every reading, and nowhere twice.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, cast

from msgspec.structs import replace

from palaver.core import json
from palaver.core.dialects import responses as dialect
from palaver.core.ids import MAX_ID_LENGTH, truncate_id
from palaver.core.messages import Message
from palaver.errors import InvalidValue, ItemNotFound
from palaver.protocols.base import HttpRequest, HttpResponse
from palaver.protocols.openai_errors import StringTooLong
from palaver.protocols.openai_fields import parse_integer
from palaver.protocols.responses.output import JSON_HEADER

Item = dict[str, Any]
Order = Literal["asc", "desc"]

_ORDERS: dict[str, Order] = {"asc": "asc", "desc": "desc"}
_MAX_LIMIT, _DEFAULT_LIMIT = 100, 20
_ENCRYPTED = "reasoning.encrypted_content"
_PREFIXES = {"reasoning": "rs", "palaver:data": "dat", "palaver:file": "fil", "mcp_approval_response": "apr"}
_WITH_STATUS = frozenset(
    "message function_call function_call_output reasoning mcp_approval_request palaver:data palaver:file".split()
)


class PageQuery(NamedTuple):
    """Which page of a list."""

    after: str | None = None
    """The id of the item that it begins after."""
    limit: int = _DEFAULT_LIMIT
    order: Order = "desc"
    """`desc` is newest first."""
    encrypted: bool = False
    """Is reasoning to be given as its provider sealed it?"""


class StoredItem(NamedTuple):
    """An item, and what it was made of."""

    item: Item
    message: int
    """The index of its message."""
    parts: tuple[int, ...]
    """The indexes of its parts in there."""

    @property
    def id(self) -> str:
        """The item's own."""
        return self.item["id"]


def parse_page_query(request: HttpRequest) -> PageQuery:
    """GET …/input_items and …/items."""
    query = request.query
    after, limit, order = query.get("after"), query.get("limit"), query.get("order", "desc")
    if after is not None and len(after) > MAX_ID_LENGTH:
        raise StringTooLong(f"after is longer than {MAX_ID_LENGTH} characters.", pointer="/after")
    if order not in _ORDERS:
        raise InvalidValue("order must be asc or desc.", pointer="/order")
    return PageQuery(
        after=after or None,
        limit=_DEFAULT_LIMIT if limit is None else parse_integer("limit", limit, 1, _MAX_LIMIT),
        order=_ORDERS[order],
        encrypted=_ENCRYPTED in (query.get("include"), query.get("include[]")),
    )


# The items of messages


def with_message_ids(messages: Sequence[Message], owner: str) -> list[Message]:
    """The messages, those without an id named by their place in what `owner`, a response or conversation, has."""
    tail = owner.partition("_")[2] or owner
    return [
        message if message.id else replace(message, id=truncate_id(f"msg_{tail}_i{index}"))
        for index, message in enumerate(messages)
    ]


def message_items(messages: Sequence[Message], owner: str) -> list[StoredItem]:
    """The items that the messages are, oldest first, each with an id that no other has."""
    names = _ItemIds()
    return [
        StoredItem(_complete_item(item, names.given(item, message)), index, parts)
        for index, message in enumerate(with_message_ids(messages, owner))
        for item, parts in _items(message)
    ]


def find_item(items: Sequence[StoredItem], name: str) -> StoredItem:
    """The item of that id."""
    for item in items:
        if item.id == name:
            return item
    raise ItemNotFound(name)


def without_item(message: Message, item: StoredItem) -> Message | None:
    """What is left of a message when one of its items is deleted; None where nothing is."""
    parts = tuple(part for index, part in enumerate(message.parts) if index not in item.parts)
    return replace(message, parts=parts) if parts else None


class _ItemIds:
    """Ids of one list."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}

    def given(self, item: Item, message: Message) -> str:
        """The item's own id, else the one that it has in the answer that it comes from, else one made for it."""
        stem = cast("str", message.id)
        kind = item["type"]
        match item:
            case {"id": str(own)} if own:
                return self._free(own)
            case {"type": "function_call", "call_id": str(call)}:
                return self._free(f"fc_{call}")
            case {"type": "function_call_output", "call_id": str(call)}:
                return self._free(f"fco_{call}")
            case _:
                return self._free(f"{_PREFIXES.get(kind, 'item')}_{stem.removeprefix('msg_')}")

    def _free(self, name: str) -> str:
        name = free = truncate_id(name)
        number = self._taken.get(name, 1)
        while free in self._taken:
            number += 1
            free = truncate_id(f"{name}.{number}")
        self._taken[name] = number
        self._taken.setdefault(free, 1)
        return free


def _items(message: Message) -> Iterator[tuple[Item, tuple[int, ...]]]:
    """What the dialect writes for a message, with the parts of each item."""
    parts = message.parts
    if len(parts) < 2:
        yield from ((item, tuple(range(len(parts)))) for item in dialect.write([message]))
        return
    said: list[int] = []
    told = False
    for index, part in enumerate(parts):
        match dialect.write([replace(message, parts=(part,))]):
            case [{"type": "message", "content": content}]:
                said += [index] if content else []
            case [item]:
                if said:
                    yield _message_item(message, said)
                    said = []
                yield item, (index,)
                told = True
            case _:
                pass  # It has no item.
    if said or (not told and message.role not in ("assistant", "tool")):
        yield _message_item(message, said)


def _message_item(message: Message, indexes: list[int]) -> tuple[Item, tuple[int, ...]]:
    """The message itself, which has these of its parts."""
    own = replace(message, parts=tuple(message.parts[index] for index in indexes))
    return dialect.write([own])[0], tuple(indexes)


def _complete_item(item: Item, name: str) -> Item:
    """An item with its id and all that the answer that it may come from says of it."""
    kind = item["type"]
    status: Item = {"status": "completed"} if kind in _WITH_STATUS else {}
    more: Item = {}
    match item:
        case {"type": "function_call", "arguments": str(arguments)}:
            status = {"status": "incomplete"} if arguments.strip() and not json.is_json(arguments) else status
        case {"type": "message", "content": list(content)}:  # pyright: ignore[reportUnknownVariableType]  # JSON
            more = {"content": [_complete_content_part(piece) for piece in cast("list[Item]", content)]}
        case _:
            pass
    return {"type": kind, "id": name, **status, **item, **more} | {"id": name}


def _complete_content_part(piece: Item) -> Item:
    """A piece of content with the fields that clients miss otherwise."""
    match piece.get("type"):
        case "output_text":
            return {**piece, "logprobs": []}
        case "input_image":
            return {"detail": "auto", **piece}
        case _:
            return piece


# Pages


def page_response(items: Sequence[StoredItem], asked: PageQuery) -> HttpResponse:
    """One page of the items, which are given oldest first."""
    ordered = list(items) if asked.order == "asc" else list(reversed(items))
    start = 0
    if asked.after is not None:
        names = [item.id for item in ordered]
        if asked.after not in names:
            raise ItemNotFound(asked.after, pointer="/after")
        start = names.index(asked.after) + 1
    chosen = ordered[start : start + asked.limit]
    return _list_response(chosen, has_more=len(ordered) > start + asked.limit, encrypted=asked.encrypted)


def all_items_response(items: Sequence[StoredItem]) -> HttpResponse:
    """All the items as one page, oldest first: what was just added to a conversation."""
    return _list_response(items, has_more=False)


def item_response(item: StoredItem) -> HttpResponse:
    """A single item."""
    return _json_response(_visible_item(item.item, encrypted=False))


def _list_response(items: Sequence[StoredItem], *, has_more: bool, encrypted: bool = False) -> HttpResponse:
    return _json_response(
        {
            "object": "list",
            "data": [_visible_item(each.item, encrypted=encrypted) for each in items],
            "first_id": items[0].id if items else None,
            "last_id": items[-1].id if items else None,
            "has_more": has_more,
        }
    )


def _visible_item(item: Item, *, encrypted: bool) -> Item:
    """The item, sealed reasoning only for those who asked for it."""
    if encrypted or item["type"] != "reasoning":
        return item
    return {name: value for name, value in item.items() if name != "encrypted_content"}


def _json_response(document: Any) -> HttpResponse:
    return HttpResponse(status=200, headers=(JSON_HEADER,), body=json.encode(document))
