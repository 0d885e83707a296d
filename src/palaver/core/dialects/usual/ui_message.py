"""The usual shapes of UI messages: text, reasoning, files, data and tools as the AI SDK writes them.

The type of a tool's part has the tool's name in it, which no type of ours can say. So msgspec is not asked: elements
are recognised and read in one loop, most of which is written out. The shape of an element is its messages.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from palaver.core.dialects.pieces import Object, kept
from palaver.core.dialects.roles import ROLES
from palaver.core.dialects.ui_message_content import CALLS, data, file, spoken, tool
from palaver.core.messages import NOTHING, Message, Role
from palaver.core.parts import Data, Part, Reasoning, Text, ToolCall, ToolResult

_encode = msgspec.json.Encoder().encode
_SMALL = 512
"""Bytes of JSON in which nothing can be nested too deeply to be written."""
_ODD = frozenset({"type", "tool_call_id", *CALLS})
"""Beside the parts they make it another dialect's, or have something to say."""
_STEP = {"type": "step-start"}
_SPOKEN = ("text", "reasoning")
_SHARED = ("tool-call", "tool-result")
"""Types of parts that our own dialect has as well."""
_OTHERS = frozenset("call_id encrypted media_type file_id modality".split())
"""Fields of our own parts and of OpenTelemetry's: what has one may be theirs."""


def shapes(elements: list[Any]) -> list[Any]:
    """Of each its messages, None for the first that has another shape, and unseen for all that stand behind it."""
    found: list[Any] = []
    for element in elements:
        try:
            shape = _messages(element)
        except Exception:  # Something is missing, or is no JSON and may raise anything.
            shape = None
        if shape is None:
            return found + [None] * (len(elements) - len(found))
        found.append(shape)
    return found


def _messages(element: Object) -> Sequence[Message] | None:
    if type(element) is not dict:
        return None
    parts: list[Object] = element["parts"]
    role, own_id = element["role"], element.get("id")
    if not parts or type(parts) is not list or type(role) is not str:
        return None
    name, metadata = None, NOTHING
    if len(element) != 3 or type(own_id) is not str:  # There is more than these three, or less.
        name, metadata = element.get("name"), element.get("metadata")
        if not (_are_usual(own_id, name, metadata) and _ODD.isdisjoint(element)):
            return None
        metadata = kept({**metadata}) if metadata else NOTHING
    last, number = parts[-1], len(parts)
    if (
        type(last) is dict
        and last["type"] == "text"
        and (number == 1 or (number == 2 and _is_step(parts[0])))
        and (len(last) == 2 or (len(last) == 3 and "state" in last))
        and type(text := last["text"]) is str
    ):
        return (Message(ROLES[role], (Text(text),), own_id, name, metadata),)  # Words and nothing else, as in most.
    return _cut(parts, ROLES[role], own_id, name, metadata)


def _are_usual(own_id: Any, name: Any, metadata: Any) -> bool:
    return (
        (own_id is None or type(own_id) is str)
        and (name is None or type(name) is str)
        and (metadata is None or type(metadata) is dict)
    )


def _is_step(part: Object) -> bool:
    return type(part) is dict and part == _STEP


def _cut(
    parts: list[Object], role: Role, own_id: str | None, name: str | None, metadata: dict[str, Any]
) -> Sequence[Message] | None:
    """Of several parts: what is said up to some results, the results, what is said after them, and so on."""
    messages: list[Message] = []
    said: list[Part] = []
    calls: dict[str, bool] = {}
    results: list[Message] = []
    for part in parts:
        if type(part) is not dict or type(kind := part["type"]) is not str:
            return None
        if kind == "step-start":
            new = None
        elif kind in _SPOKEN and len(part) == 2 + ("state" in part) and type(text := part["text"]) is str:
            new = Text(text) if kind == "text" else Reasoning(text)
        elif "toolCallId" in part and (kind[:5] == "tool-" or kind == "dynamic-tool"):
            called = _called(part, kind)
            if called is None or (call_id := called[0].call_id) in calls:
                return None
            said.append(called[0])
            calls[call_id] = True
            if called[1] is not None:
                results.append(Message("tool", (called[1],)))
            continue
        elif (new := _said(part, kind)) is None:
            return None
        if said and (new is None or results):
            messages.append(Message(role, tuple(said), own_id, name, metadata))
            messages += results
            said, calls, results, own_id, metadata = [], {}, [], None, NOTHING
        if new is not None:
            said.append(new)
    if said:
        messages.append(Message(role, tuple(said), own_id, name, metadata))
        messages += results
    return messages or None


def _called(part: Object, kind: str) -> tuple[ToolCall, ToolResult | None] | None:
    """A call and its result, for one that has an id."""
    call_id, name, given = part["toolCallId"], part.get("toolName"), part.get("input")
    if kind in _SHARED or not call_id or type(call_id) is not str:
        return None
    if type(given) is dict and part.get("state") == "output-available" and (name is None or type(name) is str):
        output = part["output"]
        if type(output) is not str and len(_encode(output)) > _SMALL:
            output = kept(output)
        called = ToolCall(call_id, kind[5:] if name is None else name, _encode(given).decode())
        return called, ToolResult(call_id, output)
    call, outcome = tool(part, kind, "")
    return None if isinstance(outcome, Data) else (call, outcome)


def _said(part: Object, kind: str) -> Part | None:
    if kind in _SPOKEN:
        return spoken(part, kind) if "content" not in part and _OTHERS.isdisjoint(part) else None
    if kind == "file":
        return file(part) if _OTHERS.isdisjoint(part) else None
    return data(part, kind) if kind[:5] == "data-" else None
