"""What was recognised, read into messages, whatever it holds: what is no JSON becomes an empty part of data."""

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
"""Where LangChain's messages have what they say."""


def read_found_messages(found: Sequence[Segment]) -> list[Message]:
    """The messages."""
    try:
        return dialects.read_segments(found)
    except Exception:  # What it holds need not be JSON: any object of anybody's, which may raise anything.
        return [
            message
            for stretch in found
            for place, element in enumerate(stretch.elements, stretch.start)
            for message in _read_one(element, stretch.dialect, place)
        ]


def _read_one(element: Object, dialect: Dialect, place: int) -> list[Message]:
    refused: list[_Refused] = []
    try:
        mended = _mended(element, refused)
        return [
            _emptied(message, dialect, refused) for message in dialects.DIALECT_MODULES[dialect].read([mended], place)
        ]
    except Exception:
        return [Message.assistant(Data(name=f"{dialect}:message"))]


class _Refused(NamedTuple):
    """A part that cannot be written down, and what stands in its place until its message is read."""

    kind: str
    mark: Object


def _mended(element: Object, refused: list[_Refused]) -> Object:
    """The element, with a mark among its parts for each that cannot be written down, wherever it stood."""
    said = "parts" if is_list(element.get("parts")) else "content"
    before = len(refused)
    mended: Object = {}
    for key, value in element.items():
        if json.is_encodable(value):
            mended[key] = value
        elif is_list(value):
            mended[key] = [part for part in list_items(value) if json.is_encodable(part) or _refuse(part, refused)]
        elif key in _INNER and is_object(value):
            mended[key] = _mended(as_dict(value) or {}, refused)
            before = len(refused)
        else:
            _refuse(value, refused)
    if len(refused) > before:
        mended[said] = [*as_list(mended.get(said)), *(each.mark for each in refused[before:])]
    return mended


def _refuse(part: Any, refused: list[_Refused]) -> None:
    kind = dict_get(part, "type") if is_object(part) else None
    refused.append(_Refused(json.replace_surrogates(kind[:100]) if type(kind) is str else "part", {"type": "refused"}))


def _emptied(message: Message, dialect: Dialect, refused: list[_Refused]) -> Message:
    """The message, without the marks: they are no value of anybody's."""
    parts = [_without(part, dialect, refused) if type(part) is Data else part for part in message.parts]
    return msgspec.structs.replace(message, parts=tuple(parts))


def _without(part: Data, dialect: Dialect, refused: list[_Refused]) -> Data:
    kinds = [each.kind for each in refused if part.value is each.mark]
    return Data(name=f"{dialect}:{kinds[0]}") if kinds else part


class Conversation(msgspec.Struct, frozen=True):
    """What was found, and where."""

    messages: tuple[Message, ...]
    dialect: Dialect
    path: str
    """A JSON pointer to what was read, through texts as if they were open; that of `choices` for what stood in them."""
    side: Prefer | None = None
