"""LlamaIndex: `{"role": "user", "blocks": [{"block_type": "text", "text": "…"}]}`. Read only."""

from collections.abc import Sequence
from typing import Any

from palaver.core.dialects import chat_completions
from palaver.core.dialects.detection import read_role
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
    join_texts_or_json,
    unique_calls,
)

_MEDIA_TYPES = {"image": "image/*", "audio": "audio/*", "video": "video/*", "document": UNKNOWN_MEDIA_TYPE}
"""Default media type by the type of the block."""


def read(elements: Sequence[Any], start: int = 0) -> list[Message]:
    """Return one message per element. Models' calls may be in blocks or in `additional_kwargs`."""
    return [_read_message(element, index) for index, element in enumerate(elements, start)]


def _read_message(element: Object, index: int) -> Message:
    role, name = read_role(element)
    blocks, extra = as_list(element.get("blocks")), dict_or_empty(element.get("additional_kwargs"))
    parts = [part for block in blocks if (part := _read_block(dict_or_empty(block))) is not None]
    if role == "tool":
        call_id = optional_str(extra.get("tool_call_id")) or ""
        return Message("tool", (ToolResult(call_id, join_texts_or_json(parts, blocks)),), None, name)
    known = {part.call_id for part in parts if isinstance(part, ToolCall)}
    calls = unique_calls(chat_completions.read_tool_calls({"additional_kwargs": extra}, index))
    return Message(role, (*parts, *(call for call in calls if call.call_id not in known)), None, name)


def _read_block(block: Object) -> Part | None:
    kind = block.get("block_type")
    match block:
        case {"block_type": "text", "text": str(text)}:
            return Text(text) if text else None
        case {"block_type": "thinking", "content": str(text)}:
            return Reasoning(text)
        case {"block_type": "tool_call", "tool_name": str(name)}:
            return ToolCall(
                optional_str(block.get("tool_call_id")) or "", name, argument_text(block.get("tool_kwargs"))
            )
        case {"block_type": "image" | "audio" | "video" | "document"}:
            return _read_file(block, str(kind)) or Data(f"llama-index:{kind}", ensure_json(block))
        case _:
            return Data(f"llama-index:{kind or 'block'}", ensure_json(block))


def _read_file(block: Object, kind: str) -> File | None:
    extension = optional_str(block.get("format"))
    default = f"{kind}/{extension}" if extension else _MEDIA_TYPES[kind]
    media_type = optional_str(block.get(f"{kind}_mimetype")) or default
    data = optional_str(block.get("data" if kind == "document" else kind))
    url = optional_str(block.get("url"))
    if data is None and url is None:
        return None
    return File(media_type, url if data is None else None, data, None, optional_str(block.get("title")))
