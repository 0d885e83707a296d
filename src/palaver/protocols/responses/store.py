"""Stored responses, lists of stored items, and the Conversations API.

Always in the profile `open`. The server checks whether a response was stored and who may read it. Each listed item has
a stable, unique id: its own, that of its tool call, or one derived from its message.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from palaver.core import json
from palaver.core.dialects import responses as dialect
from palaver.core.events import TERMINAL_EVENTS, Event, RunStarted
from palaver.core.ids import MAX_ID_LENGTH, truncate_id
from palaver.core.linearize import linearize
from palaver.core.messages import Message
from palaver.errors import InvalidValue, ItemNotFound, ResponseNotFound
from palaver.protocols.base import EventEncoder, HttpRequest, HttpResponse, json_response, run_headers
from palaver.protocols.openai import PreviousResponseNotFound, StringTooLong, parse_integer
from palaver.protocols.responses.adapter import ResumedStreamEncoder
from palaver.protocols.responses.request import ResponsesRequest, in_open_profile
from palaver.protocols.responses.response_object import (
    JSON_HEADER,
    OutputCollector,
    PendingStatus,
    ResponseObject,
    response_id,
)

_RESPONSE_ID_PREFIX = "resp_"
_BOOLEANS = {"true": True, "false": False}


class StoredResponseQuery(NamedTuple):
    stream: bool = False
    after: int = -1
    """The sequence number of the last frame that the client has."""


def parse_query(request: HttpRequest) -> StoredResponseQuery:
    """Parse the query of GET /{id}, which requests the response, or its stream after a given frame."""
    stream_text, after = request.query.get("stream", "false"), request.query.get("starting_after")
    stream = _BOOLEANS.get(stream_text)
    if stream is None:
        raise InvalidValue("stream must be true or false.", pointer="/stream")
    if after is None:
        return StoredResponseQuery(stream)
    if not stream:
        raise InvalidValue("starting_after requires stream=true.", pointer="/starting_after")
    return StoredResponseQuery(stream, parse_integer("starting_after", after, 0))


# Ids


def run_of_response(response: str) -> str:
    """Return the run of a response id. Raises ResponseNotFound."""
    if not response.startswith(_RESPONSE_ID_PREFIX):
        raise ResponseNotFound(response)
    return "run_" + response.removeprefix(_RESPONSE_ID_PREFIX)


def run_of_previous(response: str) -> str:
    """Return the run of a `previous_response_id`. Raises PreviousResponseNotFound."""
    if not response.startswith(_RESPONSE_ID_PREFIX):
        raise previous_not_found(response)
    return run_of_response(response)


def previous_not_found(response: str) -> PreviousResponseNotFound:
    return PreviousResponseNotFound(response, pointer="/previous_response_id")


# Responses


def encode_stored(
    events: Sequence[Event],
    request: ResponsesRequest,
    *,
    started: RunStarted,
    status_if_running: PendingStatus = "in_progress",
) -> bytes:
    """Encode the response object of a log that may be unfinished or empty; `started` is used if it is empty.

    A finished response equals the last one in its stream. An unfinished one has its completed items and no usage.
    """
    request = in_open_profile(request)
    output, done = _collect_output(events, request)
    response = ResponseObject(_run_started(events, started), request)
    last = events[-1] if events else None
    if isinstance(last, TERMINAL_EVENTS):
        return response.complete(last, done, output.usage(last), output.custom)
    return response.running(status_if_running, done)


def stored_response(
    events: Sequence[Event],
    request: ResponsesRequest,
    *,
    started: RunStarted,
    status_if_running: PendingStatus = "in_progress",
) -> HttpResponse:
    """The response to GET /{id}, and to POST /{id}/cancel once the run has ended: 200, also for a failed run."""
    body = encode_stored(events, request, started=started, status_if_running=status_if_running)
    return HttpResponse(status=200, headers=(JSON_HEADER, *run_headers(_run_started(events, started))), body=body)


def resumed_encoder(request: ResponsesRequest, after: int = -1) -> EventEncoder:
    """Return an encoder that skips the frames up to `after`. It must be fed the log from its start.

    Its head is `adapter.stream_head`. A client that has all frames gets only `[DONE]`.
    """
    return ResumedStreamEncoder(in_open_profile(request), after).encode


def deleted_response(run_id: str) -> HttpResponse:
    return json_response({"id": response_id(run_id), "object": "response", "deleted": True})


# References


def output_items(events: Sequence[Event], request: ResponsesRequest) -> dict[str, dict[str, Any]]:
    """Return the output items of a response by id, for `item_reference`.

    Encrypted reasoning is included, because the items go to the workflow and not to a client.
    """
    _, done = _collect_output(events, replace(in_open_profile(request), encrypted=True))
    items = [msgspec.json.decode(item, type=dict[str, Any]) for item in done]
    return {item["id"]: item for item in items}


def _collect_output(events: Sequence[Event], request: ResponsesRequest) -> tuple[OutputCollector, list[bytes]]:
    """Return the output so far, and its finished items."""
    output = OutputCollector(request)
    for event in linearize(events, output.overlaps):
        output.add(event)
    return output, [item for item in output.items if item]


def _run_started(events: Sequence[Event], started: RunStarted) -> RunStarted:
    first = events[0] if events else None
    return first if isinstance(first, RunStarted) else started


Item = dict[str, Any]
Order = Literal["asc", "desc"]

_ORDERS: dict[str, Order] = {"asc": "asc", "desc": "desc"}
_MAX_LIMIT, _DEFAULT_LIMIT = 100, 20
_ENCRYPTED = "reasoning.encrypted_content"
_ITEM_ID_PREFIXES = {"reasoning": "rs", "palaver:data": "dat", "palaver:file": "fil", "mcp_approval_response": "apr"}
_TOOL_ITEM_PREFIXES = {"function_call": "fc", "function_call_output": "fco"}
_SCOPED_MESSAGE_ID = re.compile(r"msg_([0-9a-hjkmnp-tv-z]{26})_\d+")
_TYPES_WITH_STATUS = frozenset(
    "message function_call function_call_output reasoning mcp_approval_request palaver:data palaver:file".split()
)


class PageQuery(NamedTuple):
    after: str | None = None
    """The id of the last item of the previous page."""
    limit: int = _DEFAULT_LIMIT
    order: Order = "desc"
    encrypted: bool = False
    """Whether to include the encrypted content of reasoning."""


class StoredItem(NamedTuple):
    """An item, and the parts of the message that it stands for."""

    item: Item
    message: int
    """The index of its message."""
    parts: tuple[int, ...]
    """The indexes of its parts in the message."""

    @property
    def id(self) -> str:
        return self.item["id"]


def parse_page_query(request: HttpRequest) -> PageQuery:
    parameters = request.query
    after, limit, order = parameters.get("after"), parameters.get("limit"), parameters.get("order", "desc")
    if after is not None and len(after) > MAX_ID_LENGTH:
        raise StringTooLong(f"after can have at most {MAX_ID_LENGTH} characters.", pointer="/after")
    if order not in _ORDERS:
        raise InvalidValue("order must be asc or desc.", pointer="/order")
    return PageQuery(
        after=after or None,
        limit=_DEFAULT_LIMIT if limit is None else parse_integer("limit", limit, 1, _MAX_LIMIT),
        order=_ORDERS[order],
        encrypted=_ENCRYPTED in (parameters.get("include"), parameters.get("include[]")),
    )


# Items


def with_message_ids(messages: Sequence[Message], owner: str) -> list[Message]:
    """Give each message without an id one that is derived from `owner`, a response or conversation id."""
    tail = owner.partition("_")[2] or owner
    return [
        message if message.id else replace(message, id=truncate_id(f"msg_{tail}_i{index}"))
        for index, message in enumerate(messages)
    ]


def message_items(messages: Sequence[Message], owner: str) -> list[StoredItem]:
    """Convert messages to items, oldest first, each with a unique id."""
    ids = _ItemIds()
    return [
        StoredItem(_complete_item(item, ids.assign(item, message)), index, parts)
        for index, message in enumerate(with_message_ids(messages, owner))
        for item, parts in _items(message)
    ]


def items_by_id(items: Sequence[StoredItem]) -> dict[str, Item]:
    """Return the items by id; calls and results also by the id they had before it contained the id of the run."""
    old_ids = {
        truncate_id(f"{_TOOL_ITEM_PREFIXES[item['type']]}_{item['call_id']}"): item
        for item in (stored.item for stored in items)
        if item["type"] in _TOOL_ITEM_PREFIXES
    }
    return old_ids | {stored.id: stored.item for stored in items}


def find_item(items: Sequence[StoredItem], item_id: str) -> StoredItem:
    """Return the item of that id. Raises ItemNotFound."""
    for item in items:
        if item.id == item_id:
            return item
    raise ItemNotFound(item_id)


def without_item(message: Message, item: StoredItem) -> Message | None:
    """Return the message without one of its items; None if nothing is left."""
    parts = tuple(part for index, part in enumerate(message.parts) if index not in item.parts)
    return replace(message, parts=parts) if parts else None


class _ItemIds:
    """Assigns unique ids to the items of one list."""

    def __init__(self) -> None:
        self._used: dict[str, int] = {}

    def assign(self, item: Item, message: Message) -> str:
        """Return the id in the item, else the one it had in its response, else a new one."""
        stem = cast("str", message.id)
        kind = item["type"]
        match item:
            case {"id": str(item_id)} if item_id:
                return self._make_unique(item_id)
            case {"call_id": str(call)} if kind in _TOOL_ITEM_PREFIXES:
                return self._make_unique(_tool_item_id(_TOOL_ITEM_PREFIXES[kind], stem, call))
            case _:
                return self._make_unique(f"{_ITEM_ID_PREFIXES.get(kind, 'item')}_{stem.removeprefix('msg_')}")

    def _make_unique(self, item_id: str) -> str:
        item_id = candidate = truncate_id(item_id)
        number = self._used.get(item_id, 1)
        while candidate in self._used:
            number += 1
            candidate = truncate_id(f"{item_id}.{number}")
        self._used[item_id] = number
        self._used.setdefault(candidate, 1)
        return candidate


def _tool_item_id(prefix: str, message: str, call: str) -> str:
    """Return the id of a call or result: as in its response if the message has the id of a run or response."""
    match = _SCOPED_MESSAGE_ID.fullmatch(message)
    return f"{prefix}_{match[1]}_{call}" if match is not None else f"{prefix}_{call}"


def _items(message: Message) -> Iterator[tuple[Item, tuple[int, ...]]]:
    """Yield the items of a message, each with the indexes of its parts."""
    parts = message.parts
    if len(parts) < 2:
        yield from ((item, tuple(range(len(parts)))) for item in dialect.write([message]))
        return
    indexes: list[int] = []
    has_items = False
    for index, part in enumerate(parts):
        match dialect.write([replace(message, parts=(part,))]):
            case [{"type": "message", "content": content}]:
                indexes += [index] if content else []
            case [item]:
                if indexes:
                    yield _message_item(message, indexes)
                    indexes = []
                yield item, (index,)
                has_items = True
            case _:
                pass  # Parts without an item.
    if indexes or (not has_items and message.role not in ("assistant", "tool")):
        yield _message_item(message, indexes)


def _message_item(message: Message, part_indexes: list[int]) -> tuple[Item, tuple[int, ...]]:
    item_message = replace(message, parts=tuple(message.parts[index] for index in part_indexes))
    return dialect.write([item_message])[0], tuple(part_indexes)


def _complete_item(item: Item, item_id: str) -> Item:
    """Add the id, the status and the other fields that the item had in its response."""
    kind = item["type"]
    status: Item = {"status": "completed"} if kind in _TYPES_WITH_STATUS else {}
    completed_content: Item = {}
    match item:
        case {"type": "function_call", "arguments": str(arguments)}:
            status = {"status": "incomplete"} if arguments.strip() and not json.is_json(arguments) else status
        case {"type": "message", "content": list(content)}:  # pyright: ignore[reportUnknownVariableType]  # JSON
            completed_content = {"content": [_complete_content_part(piece) for piece in cast("list[Item]", content)]}
        case _:
            pass
    return {"type": kind, "id": item_id, **status, **item, **completed_content} | {"id": item_id}


def _complete_content_part(piece: Item) -> Item:
    """Add the fields that clients require."""
    match piece.get("type"):
        case "output_text":
            return {**piece, "logprobs": []}
        case "input_image":
            return {"detail": "auto", **piece}
        case _:
            return piece


# Pages


def page_response(items: Sequence[StoredItem], query: PageQuery) -> HttpResponse:
    """A page of the items, which are given oldest first."""
    ordered = list(items) if query.order == "asc" else list(reversed(items))
    start = 0
    if query.after is not None:
        ids = [item.id for item in ordered]
        if query.after not in ids:
            raise ItemNotFound(query.after, pointer="/after")
        start = ids.index(query.after) + 1
    page = ordered[start : start + query.limit]
    return _list_response(page, has_more=len(ordered) > start + query.limit, encrypted=query.encrypted)


def all_items_response(items: Sequence[StoredItem]) -> HttpResponse:
    """All items on one page, oldest first."""
    return _list_response(items, has_more=False)


def item_response(item: StoredItem) -> HttpResponse:
    return json_response(_visible_item(item.item, encrypted=False))


def _list_response(items: Sequence[StoredItem], *, has_more: bool, encrypted: bool = False) -> HttpResponse:
    return json_response(
        {
            "object": "list",
            "data": [_visible_item(item.item, encrypted=encrypted) for item in items],
            "first_id": items[0].id if items else None,
            "last_id": items[-1].id if items else None,
            "has_more": has_more,
        }
    )


def _visible_item(item: Item, *, encrypted: bool) -> Item:
    """Remove the encrypted content of reasoning unless it was requested."""
    if encrypted or item["type"] != "reasoning":
        return item
    return {name: value for name, value in item.items() if name != "encrypted_content"}
