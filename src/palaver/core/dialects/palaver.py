"""Palaver's own dialect, used by the REST API and test sets: `{"role": "user", "parts": [{"type": "text", …}]}`."""

from collections.abc import Sequence
from typing import Any

import msgspec

from palaver.core import json
from palaver.core.dialects import chat_completions
from palaver.core.dialects.detection import read_role
from palaver.core.json import Object, as_list, dict_or_empty, ensure_json, optional_str
from palaver.core.messages import (
    NO_METADATA,
    UNKNOWN_MEDIA_TYPE,
    Data,
    Message,
    Part,
    ToolCall,
    ToolResult,
    unique_calls,
)

LOSSES: Sequence[str] = ()

_TYPES_WITH_VALUES = frozenset({ToolResult, Data})


class _Parts(msgspec.Struct, gc=False):
    parts: tuple[Part, ...]


def read(elements: Sequence[Any], start: int = 0) -> list[Message]:
    """Read messages; a part that does not match its type becomes a data part with its raw value."""
    return [_read_message(element, index) for index, element in enumerate(elements, start)]


def write(messages: Sequence[Message]) -> list[Any]:
    """Return the messages as JSON values, defaults left out."""
    return [json.to_builtins(message) for message in messages]


def _read_message(element: Object, index: int) -> Message:
    role, role_name = read_role(element)
    name, metadata = optional_str(element.get("name")), element.get("metadata")
    metadata_value = NO_METADATA if metadata is None else ensure_json(dict_or_empty(metadata))
    parts = _read_parts(as_list(element.get("parts")))
    if extra_calls := chat_completions.read_tool_calls(element, index):
        call_ids = [part.call_id for part in parts if isinstance(part, ToolCall)]
        parts += tuple(call for call in unique_calls(extra_calls) if call.call_id not in call_ids)
    return Message(role, parts, optional_str(element.get("id")), role_name if name is None else name, metadata_value)


def _read_parts(items: list[Any]) -> tuple[Part, ...]:
    try:
        parts = msgspec.convert({"parts": items}, _Parts).parts
        if _TYPES_WITH_VALUES.isdisjoint(map(type, parts)) and json.encode(parts):
            return parts
    except Exception:  # A part does not match its type, or is not plain JSON.
        parts = [_read_part(part) for part in items]
    return tuple([_encodable_part(part) for part in parts])


def _read_part(item: Any) -> Part:
    try:
        fields = dict_or_empty(item)
        # The file store knows the media type.
        if fields.get("type") == "file" and "file_id" in fields and "media_type" not in fields:
            item = {**fields, "media_type": UNKNOWN_MEDIA_TYPE}
        return msgspec.convert({"parts": (item,)}, _Parts).parts[0]
    except Exception:
        return Data(f"palaver:{optional_str(dict_or_empty(item).get('type')) or 'part'}", item)


def _encodable_part(part: Part) -> Part:
    """Return the part with encodable values; lone surrogates in texts are kept."""
    match part:
        case ToolResult(call_id=call_id, output=output, is_error=is_error):
            part = ToolResult(call_id, ensure_json(output), is_error)
        case Data(name=name, value=value):
            part = Data(name, ensure_json(value))
        case _:
            pass
    try:
        json.encode(part)
    except UnicodeEncodeError:
        return part
    except TypeError:  # msgspec accepts str subclasses.
        return json.round_trip(part)
    return part
