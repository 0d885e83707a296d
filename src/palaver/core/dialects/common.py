"""Helpers that several dialects share: roles, content, files and values."""

from collections.abc import Iterable
from typing import Any, get_args

import msgspec

from palaver.core import json
from palaver.core.json import Object, as_dict, as_str, is_list, is_object, is_text, list_items
from palaver.core.messages import File, Role, ToolCall

_OBJECT = (dict,)
_encode = msgspec.json.Encoder().encode
UNKNOWN_MEDIA = "application/octet-stream"


def content_of(element: Object) -> Any:
    """Return the content of an element: non-empty parts, else the first of several keys."""
    parts = element.get("parts")
    if parts is not None and is_list(parts) and (said := list_items(parts)):
        return said
    content = element.get("content")
    if is_text(content) or is_list(content) or is_object(content):
        return content
    for key in ("text", "message"):
        if element.get(key) is not None:
            return element[key]
    said = dict_or_empty(element.get("delta")).get("content")
    return content if said is None else said


def file_from_url(url: str, media_type: str, *, filename: str | None = None, detail: str | None = None) -> File:
    """Create a file from its URL; a base64 `data:` URL becomes its content."""
    if url[:5] == "data:":
        head, comma, data = url.partition(",")
        if head.endswith(";base64") and comma:
            media_type = head.removeprefix("data:").removesuffix(";base64") or media_type
            return File(media_type, None, data, None, filename, detail)
    return File(media_type, url, None, None, filename, detail)


def file_to_url(file: File) -> str:
    """Return the file's URL, or its content as a `data:` URL."""
    return file.url if file.url is not None else f"data:{file.media_type};base64,{file.data or ''}"


def json_text(value: Any) -> str:
    """Encode a value as compact JSON text. Raises NotJson."""
    try:
        return _encode(value).decode()
    except Exception:  # A model, a date or a lone surrogate may still be convertible.
        return json.encode(json.to_builtins(value)).decode()


def argument_text(value: Any) -> str:
    """Return a call's arguments as text: JSON of a value, empty for None."""
    if type(value) in _OBJECT:
        return json_text(value)
    return value if type(value) is str else "" if value is None else _argument_text(value)


def _argument_text(value: Any) -> str:
    return str.__str__(value) if is_text(value) else json_text(value)


def ensure_json(value: Any) -> Any:
    """Return the value unchanged if it can be encoded, else converted. Raises NotJson."""
    if type(value) is str or value is None or json.is_encodable(value):
        return value
    return json.to_builtins(value)


def result_text(value: Any) -> str:
    """Return a tool result as text."""
    return value if isinstance(value, str) else json_text(value)


def optional_str(value: Any) -> str | None:
    """Return the value as a str, or None if it is not one."""
    return value if value is None or type(value) is str else as_str(value)


def optional_int(value: Any) -> int | None:
    """Return the value if it is an int, else None."""
    return value if type(value) is int else None


def dict_or_empty(value: Any) -> Object:
    """Return the value as a dict, or an empty one if it is not."""
    return value if type(value) in _OBJECT else {} if value is None else as_dict(value) or {}


def as_list(value: Any) -> list[Any]:
    """Return a list as it is, None as an empty list, any other value in a list."""
    if is_list(value):
        return list_items(value)
    return [] if value is None else [value]


def without_none(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {key: value for key, value in fields.items() if value is not None}


def unique_calls(calls: Iterable[ToolCall]) -> Iterable[ToolCall]:
    """Return the calls without those whose id occurred before."""
    known: dict[str, ToolCall] = {}
    for call in calls:
        known.setdefault(call.call_id, call)
    return known.values()


_SYNONYMS: dict[str, Role] = {
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "chatbot": "assistant",
    "agent": "assistant",
    "function": "tool",
}

ROLE_ALIASES: dict[str, Role] = {**{role: role for role in get_args(Role)}, **_SYNONYMS}
"""Known role names in lower case, with the role they stand for."""


def parse_role(written: str, *, answers_a_call: bool = False) -> tuple[Role, str | None]:
    """Return the role, and the name that an unknown role stands for: frameworks put a tool's or agent's name there."""
    role = ROLE_ALIASES.get(written) or ROLE_ALIASES.get(written.lower())
    if role is not None:
        return role, None
    return ("tool" if answers_a_call else "assistant"), written
