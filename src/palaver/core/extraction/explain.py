"""Explain why no conversation was found: each searched location, and the fault there.

Repeats the steps of the searches, up to a maximum number of locations. Never raises.
"""

from collections.abc import Callable, Iterator, KeysView
from itertools import chain, islice
from typing import Any, Literal, NamedTuple, cast

import msgspec

from palaver.core import json
from palaver.core.dialects.detection import explain_rejection, is_chat_messages, speaker_role
from palaver.core.extraction.locations import (
    MAX_NESTED_TEXTS,
    MAX_SEARCH_DEPTH,
    RESPONSE_KEYS,
    STRICT,
    WIDE,
    Prefer,
    SearchOrder,
)
from palaver.core.extraction.search import extract_chat_messages, read_conversation
from palaver.core.json import Object, dict_get, list_items

MAX_REASONS = 20
"""Maximum number of locations reported."""
_MAX_NAMES = 8
_MAX_NAME_LENGTH = 40
_VALID_MESSAGE: Object = {"role": "user", "content": ""}
_MESSAGE_KEYS = ("role", "content", "parts", "tool_calls")
"""An object with one of these is probably an invalid message."""


class Reason(msgspec.Struct, frozen=True):
    """A location, and why the value there is not a conversation."""

    path: str
    """A JSON pointer; decoded texts count as their content."""
    why: str

    def __str__(self) -> str:
        return f"{self.path or 'the value'}: {self.why}"


class _Search(NamedTuple):
    order: SearchOrder
    describe_fault: Callable[[list[Any]], str]
    max_nested_texts: int
    """Maximum number of texts decoded on one path."""


class _Location(NamedTuple):
    path: str = ""
    depth: int = 0
    nested_texts: int = 0

    def below(self, key: str) -> "_Location":
        return _Location(f"{self.path}/{json.escape_pointer(key)}", self.depth + 1, self.nested_texts)


_Visited = dict[int, tuple[_Location, object]]
"""Visited objects by id."""


def explain_absence(
    value: object, prefer: Prefer | None = None, *, search: Literal["wide", "strict"] = "wide"
) -> tuple[Reason, ...]:
    """Return why the search finds nothing, in search order; empty if it finds something."""
    if search == "wide":
        match, steps = read_conversation(value, prefer), _Search(WIDE[prefer], _wide_fault, MAX_NESTED_TEXTS)
    else:
        match, steps = extract_chat_messages(value, prefer), _Search(STRICT[prefer], _strict_fault, 0)
    if match is not None:
        return ()
    reasons: dict[str, Reason] = {}
    for reason in _faults(value, steps):
        reasons.setdefault(reason.path, reason)
        if len(reasons) > MAX_REASONS:
            return (
                *islice(reasons.values(), MAX_REASONS),
                Reason("", f"has more than {MAX_REASONS} candidates; the rest are not listed"),
            )
    return tuple(reasons.values())


def _faults(value: object, search: _Search) -> Iterator[Reason]:
    """Yield every fault of a value; without any, the visited locations."""
    seen: _Visited = {}
    decoded, _ = _decode(value, _Location(), search)
    no_faults = True
    for fault in chain(_visit(value, _Location(), search, seen), _other_conversations(decoded, search)):
        no_faults = False
        yield fault
    if no_faults:
        for location, visited in seen.values() or ((_Location(), decoded),):
            yield Reason(location.path, _describe_value(visited))


def _visit(value: object, location: _Location, search: _Search, seen: _Visited) -> Iterator[Reason]:
    value, location = _decode(value, location, search)
    if not isinstance(value, dict):
        yield from _explain_messages(value, location, search)
        return
    fields = cast("Object", value)
    if id(fields) in seen and seen[id(fields)][0].depth <= location.depth:
        return
    seen[id(fields)] = location, fields  # Referenced, so that ids of decoded texts are not reused.
    for key in search.order.keys:
        if not (key == "message" and isinstance(dict_get(fields, key), str)):  # The text of a message.
            yield from _explain_messages(*_decode(dict_get(fields, key), location.below(key), search), search)
    for path in search.order.wrappers:
        inner, below = _follow_path(fields, location, path)
        if below.depth <= MAX_SEARCH_DEPTH:
            yield from _visit(inner, below, search, seen)
        elif isinstance(inner, list | dict):
            yield Reason(below.path, f"is nested more than {MAX_SEARCH_DEPTH} keys deep and was not searched")
    yield from _explain_responses(fields, location, search)
    yield from _explain_messages(fields, location, search)


def _follow_path(value: Object, location: _Location, path: tuple[str, ...]) -> tuple[object, _Location]:
    inner: Any = value
    for key in path:
        inner = dict_get(cast("Object", inner), key) if isinstance(inner, dict) else None
        location = location.below(key)
    return inner, location


def _decode(value: object, location: _Location, search: _Search) -> tuple[object, _Location]:
    """Decode a JSON text, and enter a list that holds just one list; the strict search does neither."""
    while isinstance(value, str) and location.nested_texts < search.max_nested_texts:
        decoded = json.decode_or_text(str.strip(value))
        if not isinstance(decoded, list | dict):
            break
        value, location = cast("object", decoded), location._replace(nested_texts=location.nested_texts + 1)
    if search.max_nested_texts and isinstance(value, list):
        elements = list_items(cast("list[Any]", value))
        if len(elements) == 1 and isinstance(elements[0], list):
            return cast("object", elements[0]), location._replace(path=f"{location.path}/0")
    return cast("object", value), location


def _explain_messages(value: object, location: _Location, search: _Search) -> Iterator[Reason]:
    """Yield the fault of a value that looks like messages."""
    if isinstance(value, str):
        text = str.strip(value)
        if text:
            yield Reason(location.path, _text_fault(text, location, search))
    elif isinstance(value, list):
        yield Reason(location.path, search.describe_fault(list_items(cast("list[Any]", value))))
    elif isinstance(value, dict) and not Object.keys(cast("Object", value)).isdisjoint(_MESSAGE_KEYS):
        yield Reason(location.path, search.describe_fault([value]).removeprefix("element 0 "))


def _explain_responses(value: Object, location: _Location, search: _Search) -> Iterator[Reason]:
    for key in RESPONSE_KEYS if search.max_nested_texts else ("choices",):
        listed = dict_get(value, key)
        if isinstance(listed, list):
            candidates = [
                _response_message(key, entry, search) for entry in _entries(key, list_items(cast("list[Any]", listed)))
            ]
            messages = [message for message in candidates if message is not None]
            why = search.describe_fault(messages) if messages or listed == [] else "has no element with a message"
            yield Reason(location.below(key).path, why)


def _entries(key: str, items: list[Any]) -> list[Any]:
    if key != "generations":
        return items
    return [entry for batch in items if isinstance(batch, list) for entry in list_items(cast("list[Any]", batch))]


def _response_message(key: str, entry: object, search: _Search) -> Object | None:
    for name in {"choices": ("message", "delta"), "candidates": ("content",)}.get(key, ("message",)):
        inner = dict_get(cast("Object", entry), name) if isinstance(entry, dict) else None
        message = dict(Object.items(cast("Object", inner))) if isinstance(inner, dict) else None
        if message:
            return message if name == "message" or not search.max_nested_texts else {"role": "assistant", **message}
    return None


def _other_conversations(value: object, search: _Search) -> Iterator[Reason]:
    if not isinstance(value, dict):
        return
    known = {*search.order.keys, *(path[0] for path in search.order.wrappers), *RESPONSE_KEYS}
    for key, item in islice(Object.items(cast("Object", value)), MAX_REASONS):
        if key not in known and isinstance(item, list | dict) and read_conversation(cast("object", item)) is not None:
            path = _Location().below(json.replace_surrogates(_short_name(key))).path
            yield Reason(path, "contains a conversation, but this key is not searched")


# Faults


def _wide_fault(messages: list[Any]) -> str:
    if len(messages) > 1 and all(isinstance(element, list) for element in messages):
        return f"contains {len(messages)} lists, not a single conversation"
    return _describe_fault(messages, *explain_rejection(messages))


def _strict_fault(messages: list[Any]) -> str:
    for index, element in enumerate(messages):
        if not is_chat_messages([_VALID_MESSAGE, element]):
            if not isinstance(element, dict):
                return _describe_fault(messages, index, "is not an object")
            if speaker_role(cast("Object", element)) is None:
                return _describe_fault(messages, index, "has no role")
            return _describe_fault(messages, index, "has no content that the strict search supports")
    return _describe_fault(messages, None, "has no message with a known role")


def _describe_fault(messages: list[Any], index: int | None, why: str) -> str:
    if not messages:
        return "is an empty list"
    if index is None:
        roles = (dict_get(cast("Object", element), "role") for element in messages if isinstance(element, dict))
        role_names = dict.fromkeys(role for role in roles if isinstance(role, str))
        return f"{why} ({_join_names(role_names.keys())})" if role_names else why
    element = messages[index]
    if isinstance(element, dict) and speaker_role(cast("Object", element)) is None:
        if read_conversation(cast("object", element)) is not None:
            return f"element {index} {why}; it contains a conversation, but list elements are not searched"
        keys = _join_names(Object.keys(cast("Object", element)))
        why = f"{why} (keys: {keys})" if keys else f"{why}: it is empty"
    return f"element {index} {why}"


def _text_fault(text: str, location: _Location, search: _Search) -> str:
    if text[0] not in "{[":
        return "is text, not messages"
    if not search.max_nested_texts:
        return "is JSON text, which the strict search does not decode"
    if location.nested_texts == search.max_nested_texts:
        return f"is JSON text nested more than {MAX_NESTED_TEXTS} levels deep, so it was not decoded"
    return "looks like JSON but is invalid; it may be truncated or too deeply nested"


def _describe_value(value: object) -> str:
    match value:
        case dict():
            keys = _join_names(Object.keys(cast("Object", value)))
            return f"has no list under a known key (keys: {keys})" if keys else "is an empty object"
        case None:
            return "is null"
        case bool():
            return "is a boolean"
        case int() | float():
            return "is a number"
        case str():
            return "is an empty string"
        case _:
            return "is not a JSON value"


def _join_names(keys: KeysView[str]) -> str:
    text = ", ".join(json.replace_surrogates(_short_name(key)) for key in islice(keys, _MAX_NAMES))
    return text if len(keys) <= _MAX_NAMES else f"{text} and {len(keys) - _MAX_NAMES} more"


def _short_name(key: object) -> str:
    if not isinstance(key, str):
        return type(key).__name__
    return key if len(key) <= _MAX_NAME_LENGTH else f"{key[:_MAX_NAME_LENGTH]}…"
