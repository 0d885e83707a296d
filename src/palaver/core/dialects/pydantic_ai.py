"""Pydantic AI's messages: `{"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "…"}]}`. Read only.

A request may hold instructions, prompts and results at once; each part is a message here. A response is one message.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from palaver.core.json import Object, argument_text, as_list, dict_or_empty, ensure_json, optional_str
from palaver.core.messages import (
    UNKNOWN_MEDIA_TYPE,
    Data,
    File,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    split_results,
)

_CALLS = ("tool-call", "builtin-tool-call")
_RESULTS = ("tool-return", "builtin-tool-return")
_MEDIA_TYPES = {"image-url": "image/*", "audio-url": "audio/*", "video-url": "video/*"}


def read(elements: Sequence[Any], start: int = 0) -> list[Message]:  # noqa: ARG001 - calls have ids
    """Return the messages of requests and responses. Instructions, which every request repeats, are read once."""
    messages: list[Message] = []
    instructions: Any = None
    for element in elements:
        parts = [dict_or_empty(part) for part in as_list(element.get("parts"))]
        if element.get("kind") == "response":
            response = Message("assistant", tuple([part for item in parts for part in _read_response_part(item)]))
            messages += split_results(response)
            continue
        if isinstance(text := element.get("instructions"), str) and text and text != instructions:
            messages.append(Message.system(text))
            instructions = text
        messages += [_read_request_part(part) for part in parts]
    return messages


def _read_request_part(part: Object) -> Message:
    kind, content = part.get("part_kind"), part.get("content")
    match kind:
        case "system-prompt" | "instruction" if isinstance(content, str):
            return Message.system(content)
        case "tool-return":
            return Message("tool", (_read_result(part),))
        case "retry-prompt" if part.get("tool_name") is not None:
            return Message("tool", (_read_result(part, is_error=True),))
        case "user-prompt" | "retry-prompt" | "retry-feedback":
            contents = as_list(content) if isinstance(content, list) else [content]
            return Message("user", tuple([_read_content(item) for item in contents]))
        case _:
            return Message("user", (_unknown_part(part),))


def _read_response_part(part: Object) -> Iterator[Part]:
    kind, content = part.get("part_kind"), part.get("content")
    if kind == "text" and isinstance(content, str):
        if content:
            yield Text(content)
    elif kind == "thinking" and isinstance(content, str):
        yield Reasoning(content, optional_str(part.get("signature")))
    elif kind in _CALLS:
        call_id, name = optional_str(part.get("tool_call_id")) or "", optional_str(part.get("tool_name")) or ""
        yield ToolCall(call_id, name, argument_text(part.get("args")))
    elif kind in _RESULTS:
        yield _read_result(part)
    elif kind == "file":
        yield _read_content(content)
    else:
        yield _unknown_part(part)


def _read_result(part: Object, *, is_error: bool = False) -> ToolResult:
    call_id, outcome = optional_str(part.get("tool_call_id")) or "", part.get("outcome", "success")
    return ToolResult(call_id, ensure_json(part.get("content")), is_error or outcome != "success")


def _read_content(item: Any) -> Part:
    if isinstance(item, str):
        return Text(item)
    fields = dict_or_empty(item)
    kind, url, data = fields.get("kind"), fields.get("url"), fields.get("data")
    default = _MEDIA_TYPES.get(kind, UNKNOWN_MEDIA_TYPE) if isinstance(kind, str) else UNKNOWN_MEDIA_TYPE
    media_type = optional_str(fields.get("media_type")) or default
    if isinstance(url, str):
        return File(media_type, url)
    if isinstance(data, str):
        return File(media_type, data=data)
    if isinstance(text := fields.get("content"), str):
        return Text(text)
    return Data(f"pydantic-ai:{kind if isinstance(kind, str) else 'content'}", ensure_json(item))


def _unknown_part(part: Object) -> Data:
    return Data(f"pydantic-ai:{optional_str(part.get('part_kind')) or 'part'}", ensure_json(part))
