"""AutoGen: messages of models (`autogen_core.models`) and of teams (`autogen_agentchat.messages`). Read only.

`{"type": "TextMessage", "source": "user", "content": "…"}`. The user is the source `user`; any other source is the name
of an agent. Events that repeat other messages, such as chunks of a stream, are left out.
"""

from collections.abc import Sequence
from typing import Any

from palaver.core.json import Object, argument_text, as_list, dict_or_empty, ensure_json, optional_str
from palaver.core.messages import Data, File, Message, Part, Reasoning, Role, Text, ToolCall, ToolResult

_USER_SOURCES = ("user", "user_proxy", "human")
_ROLES: dict[str, Role] = {"SystemMessage": "system", "UserMessage": "user", "AssistantMessage": "assistant"}
_RESULT_TYPES = ("FunctionExecutionResultMessage", "ToolCallExecutionEvent")
_OMITTED = ("ModelClientStreamingChunkEvent", "UserInputRequestedEvent", "SelectSpeakerEvent", "SelectorEvent")


def read(elements: Sequence[Any], start: int = 0) -> list[Message]:  # noqa: ARG001 - calls have ids
    """Return one message per element, and one for each result."""
    return [message for element in elements for message in _read_messages(element)]


def _read_messages(element: Object) -> list[Message]:
    kind, content = optional_str(element.get("type")) or "", element.get("content")
    if kind in _OMITTED:
        return []
    if kind in _RESULT_TYPES:
        return [Message("tool", (_read_result(dict_or_empty(item)),)) for item in as_list(content)]
    source = optional_str(element.get("source"))
    role = _ROLES.get(kind) or ("user" if source in _USER_SOURCES else "assistant")
    thought = optional_str(element.get("thought"))
    parts: list[Part] = [Reasoning(thought)] if thought else []
    if isinstance(content, str):
        if content:
            parts.append(Reasoning(content) if kind == "ThoughtEvent" else Text(content))
    elif isinstance(content, list):
        parts += [_read_part(item, kind) for item in as_list(content)]
    else:
        parts.append(Data(f"autogen:{kind}", ensure_json(content)))
    name = None if source in _USER_SOURCES else source
    return [Message(role, tuple(parts), optional_str(element.get("id")), name)]


def _read_part(item: Any, kind: str) -> Part:
    match item:
        case str():
            return Text(item)
        case {"id": str(call_id), "name": str(name), "arguments": arguments}:
            return ToolCall(call_id, name, argument_text(arguments))
        case {"data": str(data)}:
            return File("image/png", data=data)
        case _:
            return Data(f"autogen:{kind}", ensure_json(item))


def _read_result(item: Object) -> ToolResult:
    call_id, is_error = optional_str(item.get("call_id")) or "", item.get("is_error") is True
    return ToolResult(call_id, ensure_json(item.get("content")), is_error)
