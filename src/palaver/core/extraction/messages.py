"""Read the messages that a search found; parts that JSON cannot encode become empty data parts."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from palaver.core import dialects, json
from palaver.core.dialects.detection import Dialect, Segment
from palaver.core.json import Object, as_dict, as_list, dict_get, is_list, is_object, list_items
from palaver.core.messages import Data, Message

_LANGCHAIN_KEYS = ("data", "kwargs")
"""Keys under which LangChain's messages have their fields."""


def read_found_messages(segments: Sequence[Segment]) -> list[Message]:
    """Read the segments of one conversation. Never raises."""
    try:
        return dialects.read_segments(segments)
    except Exception:  # Foreign objects may raise anything.
        return [
            message
            for segment in segments
            for index, element in enumerate(segment.elements, segment.start)
            for message in _read_element(element, segment.dialect, index)
        ]


def _read_element(element: Object, dialect: Dialect, index: int) -> list[Message]:
    placeholders: list[_Placeholder] = []
    try:
        cleaned = _add_placeholders(element, placeholders)
        return [
            _remove_placeholders(message, dialect, placeholders)
            for message in dialects.read_elements(dialect, [cleaned], index)
        ]
    except Exception:
        return [Message.assistant(Data(name=f"{dialect}:message"))]


class _Placeholder(NamedTuple):
    """A part that cannot be encoded, and its placeholder until the message has been read."""

    kind: str
    mark: Object


def _add_placeholders(element: Object, placeholders: list[_Placeholder]) -> Object:
    """Return the element with a placeholder part for each value that cannot be encoded."""
    content_key = "parts" if is_list(element.get("parts")) else "content"
    first_new = len(placeholders)
    cleaned: Object = {}
    for key, value in element.items():
        if json.is_encodable(value):
            cleaned[key] = value
        elif is_list(value):
            cleaned[key] = [
                part for part in list_items(value) if json.is_encodable(part) or _add_placeholder(part, placeholders)
            ]
        elif key in _LANGCHAIN_KEYS and is_object(value):
            cleaned[key] = _add_placeholders(as_dict(value) or {}, placeholders)
            first_new = len(placeholders)
        else:
            _add_placeholder(value, placeholders)
    if len(placeholders) > first_new:
        cleaned[content_key] = [*as_list(cleaned.get(content_key)), *(new.mark for new in placeholders[first_new:])]
    return cleaned


def _add_placeholder(part: Any, placeholders: list[_Placeholder]) -> None:
    kind = dict_get(part, "type") if is_object(part) else None
    placeholders.append(
        _Placeholder(json.replace_surrogates(kind[:100]) if type(kind) is str else "part", {"type": "refused"})
    )


def _remove_placeholders(message: Message, dialect: Dialect, placeholders: list[_Placeholder]) -> Message:
    kinds = {id(placeholder.mark): placeholder.kind for placeholder in placeholders}
    parts = [
        Data(f"{dialect}:{kinds[id(part.value)]}") if type(part) is Data and id(part.value) in kinds else part
        for part in message.parts
    ]
    return msgspec.structs.replace(message, parts=tuple(parts))
