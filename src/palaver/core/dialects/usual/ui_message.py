"""The usual shapes of UI messages: text, reasoning, files, data and tools as the AI SDK writes them.

The type of a tool's part has the tool's name in it, which no type of ours can say. So msgspec is not asked: elements
are recognised and read in one loop, most of which is written out. The shape of an element is its message, or a list of
them.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from palaver.core.dialects.pieces import Object, kept
from palaver.core.dialects.roles import ROLES
from palaver.core.dialects.ui_message_content import CALLS, data, file, spoken, tool
from palaver.core.dialects.usual import Unusual
from palaver.core.messages import NOTHING, Message, Role
from palaver.core.parts import Data, File, Part, Reasoning, Text, ToolCall, ToolResult

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
    element: Object
    try:
        for element in elements:
            if type(element) is not dict:
                raise Unusual
            parts: list[Object] = element["parts"]
            if type(parts) is not list:
                raise Unusual
            last = parts[-1]
            if type(last) is not dict:
                raise Unusual
            role = ROLES[element["role"]]
            if (
                last["type"] == "text"
                and (len(parts) == 1 or (len(parts) == 2 and type(parts[0]) is dict and parts[0] == _STEP))
                and (len(last) == 2 or (len(last) == 3 and "state" in last))
            ):  # Words and nothing else, as in most.
                if type(text := last["text"]) is not str:
                    raise Unusual
                if len(element) == 3 and type(own_id := element.get("id")) is str:
                    found.append(Message(role, (Text(text),), own_id))
                else:
                    found.append(Message(role, (Text(text),), *_beside(element)))
            elif len(element) == 3 and type(own_id := element.get("id")) is str:
                found.append(_cut(parts, role, own_id, None, NOTHING))
            else:
                found.append(_cut(parts, role, *_beside(element)))
    except Exception:  # Something is missing, or is no JSON and may raise anything.
        return found + [None] * (len(elements) - len(found))
    return found


def _beside(element: Object) -> tuple[str | None, str | None, dict[str, Any]]:
    """Its id, its name and what else is told of it."""
    own_id, name, metadata = element.get("id"), element.get("name"), element.get("metadata")
    if (
        (own_id is None or type(own_id) is str)
        and (name is None or type(name) is str)
        and (metadata is None or type(metadata) is dict)
        and _ODD.isdisjoint(element)
    ):
        return own_id, name, kept({**metadata}) if metadata else NOTHING
    raise Unusual


def _cut(
    parts: list[Object], role: Role, own_id: str | None, name: str | None, metadata: dict[str, Any]
) -> Sequence[Message]:
    """Of several parts: what is said up to some results, the results, what is said after them, and so on."""
    messages: list[Message] = []
    said: list[Part] = []
    calls: dict[str, bool] = {}
    results: list[Message] = []
    for part in parts:
        if type(part) is not dict or type(kind := part["type"]) is not str:
            raise Unusual
        new: Part | None = None
        if kind == "step-start":
            if not said:
                continue
        elif kind in _SPOKEN and len(part) == 2 + ("state" in part) and type(text := part["text"]) is str:
            new = Text(text) if kind == "text" else Reasoning(text)
        elif "toolCallId" in part and (kind[:5] == "tool-" or kind == "dynamic-tool"):
            call_id, called, given = part["toolCallId"], part.get("toolName"), part.get("input")
            if kind in _SHARED or not call_id or type(call_id) is not str or call_id in calls:
                raise Unusual
            calls[call_id] = True
            if (
                type(given) is dict
                and part.get("state") == "output-available"
                and (called is None or type(called) is str)
            ):
                output = part["output"]
                if type(output) is not str:
                    written = _encode(output)
                    if len(written) > _SMALL and written.count(b"[") + written.count(b"{") > _SMALL // 2:
                        output = kept(output)
                said.append(ToolCall(call_id, kind[5:] if called is None else called, _encode(given).decode()))
                results.append(Message("tool", (ToolResult(call_id, output),)))
            else:
                call, outcome = tool(part, kind, "")
                if type(outcome) is Data:
                    raise Unusual
                said.append(call)
                if outcome is not None:
                    results.append(Message("tool", (outcome,)))
            continue
        elif (new := _said(part, kind)) is None:
            raise Unusual
        if said and (new is None or results):
            messages.append(Message(role, tuple(said), own_id, name, metadata))
            messages += results
            said, calls, results, own_id, metadata = [], {}, [], None, NOTHING
        if new is not None:
            said.append(new)
    if said:
        messages.append(Message(role, tuple(said), own_id, name, metadata))
        messages += results
    if not messages:
        raise Unusual
    return messages


def _said(part: Object, kind: str) -> Part | None:
    if kind in _SPOKEN:
        return spoken(part, kind) if "content" not in part and _OTHERS.isdisjoint(part) else None
    if kind == "file":
        url, told = part.get("url"), part.get("mediaType")
        if len(part) == 3 and told and type(told) is str and type(url) is str and url[:5] != "data:":
            return File(told, url)  # Most are.
        return file(part) if _OTHERS.isdisjoint(part) else None
    return data(part, kind) if kind[:5] == "data-" else None
