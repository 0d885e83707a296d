"""The usual shapes of our own dialect: what its types say, so that the shape of an element is its message.

They are recognised and read in one loop, as msgspec would take more than plain JSON for them. Messages of nothing but
text and reasoning could be UI messages as well, and are read alike. They are admitted, as they stand among ours, and a
list that holds one of ours is ours: it need not be cut at each of them.
"""

from typing import Any

import msgspec

from palaver.core.dialects.pieces import Object, kept
from palaver.core.dialects.roles import ROLES
from palaver.core.dialects.usual import Unusual
from palaver.core.messages import NOTHING, Message, Role
from palaver.core.parts import Data, File, Part, Reasoning, Text, ToolCall, ToolResult

_encode = msgspec.json.Encoder().encode
_SMALL = 512
"""Bytes of JSON in which nothing can be nested too deeply to be written."""
_ODD = frozenset({"type", "tool_call_id", "tool_calls", "function_call", "additional_kwargs"})
"""Beside the parts they make it another dialect's, or have something to say."""


class _Any(msgspec.Struct, gc=False):
    part: Part


def shapes(elements: list[Any]) -> list[Any]:
    """Of each its message, None for the first that has another shape, and unseen for all that stand behind it."""
    found: list[Any] = []
    element: Object
    try:
        for element in elements:
            if type(element) is not dict:
                raise Unusual
            parts: list[Object] = element["parts"]
            if type(parts) is not list:
                raise Unusual
            part = parts[0]
            if len(parts) == 1 and type(part) is dict and len(part) == 2 and part["type"] == "text":  # As most are.
                if type(text := part["text"]) is not str:
                    raise Unusual
                said = (Text(text),)
            else:
                said = (_part(part),) if len(parts) == 1 else tuple([_part(part) for part in parts])
            if len(element) == 2:
                found.append(Message(ROLES[element["role"]], said))
            else:
                found.append(_message(element, ROLES[element["role"]], said))
    except Exception:  # Something is missing, does not fit, or is no JSON and may raise anything.
        return found + [None] * (len(elements) - len(found))
    return found


def _message(element: Object, role: Role, said: tuple[Part, ...]) -> Message:
    """One of which more is told than who said what."""
    own_id, name = element.get("id"), element.get("name")
    metadata: dict[str, Any] = element.get("metadata", NOTHING)
    if (
        (own_id is None or type(own_id) is str)
        and (name is None or type(name) is str)
        and (metadata is NOTHING or (type(metadata) is dict and kept(metadata) is metadata))
        and _ODD.isdisjoint(element)
    ):
        return Message(role, said, own_id, name, metadata)
    raise Unusual


def _part(part: Object) -> Part:
    if type(part) is not dict:
        raise Unusual
    kind = part["type"]
    if kind == "text" and len(part) == 2:
        if type(text := part["text"]) is str:
            return Text(text)
    elif kind == "tool-call":
        call_id, name, arguments = part["call_id"], part["name"], part.get("arguments", "")
        if type(call_id) is type(name) is type(arguments) is str:
            return ToolCall(call_id, name, arguments)
    elif kind == "tool-result":
        call_id, output, is_error = part["call_id"], part.get("output"), part.get("is_error", False)
        if type(call_id) is str and type(is_error) is bool:
            return ToolResult(call_id, output if type(output) is str else _kept(output), is_error)
    elif kind == "reasoning" and len(part) == 2:
        if type(text := part["text"]) is str:
            return Reasoning(text)
    elif kind == "file" and len(part) == 3 and "url" in part:
        media_type, url = part["media_type"], part["url"]
        if type(media_type) is type(url) is str:
            return File(media_type, url)
    else:
        return _other(part)
    raise Unusual


def _kept(value: Any) -> Any:
    text = _encode(value)
    return value if len(text) <= _SMALL or text.count(b"[") + text.count(b"{") <= _SMALL // 2 else kept(value)


def _other(part: Object) -> Part:
    """What its type makes of it; nothing of a UI message's, which may have more of ours in there."""
    if type(part["type"]) is not str or "providerMetadata" in part:
        raise Unusual
    read = msgspec.convert({"part": part}, _Any).part
    if type(read) is Data and type(read.value) is not str:
        read = Data(read.name, _kept(read.value))
    _encode(read)  # Texts of other classes are not to be written.
    return read
