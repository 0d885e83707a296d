"""The usual shapes of our own dialect: what its types say, so that the shape of an element is its message.

They are recognised and read in one loop, as msgspec would take more than plain JSON for them. Messages of nothing but
text and reasoning could be UI messages as well, and are read alike. They are admitted, as they stand among ours, and a
list that holds one of ours is ours: it need not be cut at each of them.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from palaver.core.dialects.pieces import Object, kept
from palaver.core.dialects.roles import ROLES
from palaver.core.messages import NOTHING, Message
from palaver.core.parts import Data, Part, Reasoning, Text, ToolCall, ToolResult

_encode = msgspec.json.Encoder().encode
_SMALL = 512
"""Bytes of JSON in which nothing can be nested too deeply to be written."""
_SPOKEN = ("text", "reasoning")
_ODD = frozenset({"type", "tool_call_id", "tool_calls", "function_call", "additional_kwargs"})
"""Beside the parts they make it another dialect's, or have something to say."""


class _Any(msgspec.Struct, gc=False):
    part: Part


def shapes(elements: list[Any]) -> list[Any]:
    """Of each its message, None for the first that has another shape, and unseen for all that stand behind it."""
    found: list[Any] = []
    for element in elements:
        try:
            shape = _message(element)
        except Exception:  # Something is missing, does not fit, or is no JSON and may raise anything.
            shape = None
        if shape is None:
            return found + [None] * (len(elements) - len(found))
        found.append(shape)
    return found


def _message(element: Object) -> Message | None:
    if type(element) is not dict:
        return None
    parts: list[Object] = element["parts"]
    written, number = element["role"], len(element)
    if not parts or type(parts) is not list or type(written) is not str:
        return None
    role, own_id, name = ROLES[written], None, None
    metadata = NOTHING
    if number > 2:
        own_id, name, metadata = element.get("id"), element.get("name"), element.get("metadata", NOTHING)
        if not (_are_usual(own_id, name, metadata) and _ODD.isdisjoint(element)):
            return None
    last = parts[-1]
    if len(parts) == 1 and type(last) is dict and len(last) == 2 and last["type"] == "text":
        text = last["text"]
        return Message(role, (Text(text),), own_id, name, metadata) if type(text) is str else None
    said: list[Part] = []
    for part in parts:
        if type(part) is not dict or type(kind := part["type"]) is not str:
            return None
        if kind in _SPOKEN and len(part) == 2 and type(text := part["text"]) is str:
            said.append(Text(text) if kind == "text" else Reasoning(text))
        elif (new := _READ.get(kind, _other)(part)) is None:
            return None
        else:
            said.append(new)
    return Message(role, tuple(said), own_id, name, metadata)


def _are_usual(own_id: Any, name: Any, metadata: Any) -> bool:
    return (
        (own_id is None or type(own_id) is str)
        and (name is None or type(name) is str)
        and (metadata is NOTHING or (type(metadata) is dict and kept(metadata) is metadata))
    )


def _call(part: Object) -> ToolCall | None:
    call_id, name, arguments = part["call_id"], part["name"], part.get("arguments", "")
    return ToolCall(call_id, name, arguments) if type(call_id) is type(name) is type(arguments) is str else None


def _result(part: Object) -> ToolResult | None:
    call_id, output, is_error = part["call_id"], part.get("output"), part.get("is_error", False)
    if type(call_id) is not str or type(is_error) is not bool:
        return None
    if type(output) is not str and len(_encode(output)) > _SMALL:
        output = kept(output)
    return ToolResult(call_id, output, is_error)


def _other(part: Object) -> Part | None:
    """What its type makes of it; None for one of a UI message, which may have more of ours in there."""
    read = msgspec.convert({"part": part}, _Any).part
    if type(read) is Data and type(read.value) is not str and len(_encode(read.value)) > _SMALL:
        read = Data(read.name, kept(read.value))
    return read if "providerMetadata" not in part and _encode(read) else None


_READ: Mapping[str, Callable[[Object], Part | None]] = {"tool-call": _call, "tool-result": _result}
