"""Read detected messages leniently: parts that are not JSON become empty data parts instead of errors."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from palaver.core import dialects, json
from palaver.core.dialects.common import as_list
from palaver.core.dialects.detection import Dialect, Segment
from palaver.core.extraction.locations import Prefer
from palaver.core.json import Object, as_dict, dict_get, is_list, is_object, list_items
from palaver.core.messages import Data, Message

_INNER = ("data", "kwargs")
"""Keys under which LangChain's messages have their fields."""


def read_found_messages(found: Sequence[Segment]) -> list[Message]:
    """Read the segments of one conversation. Never raises."""
    try:
        return dialects.read_segments(found)
    except Exception:  # Foreign objects may raise anything.
        return [
            message
            for segment in found
            for index, element in enumerate(segment.elements, segment.start)
            for message in _read_one(element, segment.dialect, index)
        ]


def _read_one(element: Object, dialect: Dialect, index: int) -> list[Message]:
    placeholders: list[_Placeholder] = []
    try:
        cleaned = _with_placeholders(element, placeholders)
        return [
            _without_placeholders(message, dialect, placeholders)
            for message in dialects.DIALECT_MODULES[dialect].read([cleaned], index)
        ]
    except Exception:
        return [Message.assistant(Data(name=f"{dialect}:message"))]


class _Placeholder(NamedTuple):
    """A part that cannot be encoded, and its placeholder until the message has been read."""

    kind: str
    mark: Object


def _with_placeholders(element: Object, placeholders: list[_Placeholder]) -> Object:
    """Return the element with a placeholder part for each value that cannot be encoded."""
    content_key = "parts" if is_list(element.get("parts")) else "content"
    before = len(placeholders)
    cleaned: Object = {}
    for key, value in element.items():
        if json.is_encodable(value):
            cleaned[key] = value
        elif is_list(value):
            cleaned[key] = [
                part for part in list_items(value) if json.is_encodable(part) or _add_placeholder(part, placeholders)
            ]
        elif key in _INNER and is_object(value):
            cleaned[key] = _with_placeholders(as_dict(value) or {}, placeholders)
            before = len(placeholders)
        else:
            _add_placeholder(value, placeholders)
    if len(placeholders) > before:
        cleaned[content_key] = [*as_list(cleaned.get(content_key)), *(each.mark for each in placeholders[before:])]
    return cleaned


def _add_placeholder(part: Any, placeholders: list[_Placeholder]) -> None:
    kind = dict_get(part, "type") if is_object(part) else None
    placeholders.append(
        _Placeholder(json.replace_surrogates(kind[:100]) if type(kind) is str else "part", {"type": "refused"})
    )


def _without_placeholders(message: Message, dialect: Dialect, placeholders: list[_Placeholder]) -> Message:
    """Return the message with empty data parts in index of the placeholders."""
    parts = [_clear_placeholder(part, dialect, placeholders) if type(part) is Data else part for part in message.parts]
    return msgspec.structs.replace(message, parts=tuple(parts))


def _clear_placeholder(part: Data, dialect: Dialect, placeholders: list[_Placeholder]) -> Data:
    kinds = [each.kind for each in placeholders if part.value is each.mark]
    return Data(name=f"{dialect}:{kinds[0]}") if kinds else part


class Conversation(msgspec.Struct, frozen=True):
    """A conversation that was found in a value."""

    messages: tuple[Message, ...]
    dialect: Dialect
    path: str
    """A JSON pointer to the messages, or to `choices`; decoded texts count as their content."""
    side: Prefer | None = None
