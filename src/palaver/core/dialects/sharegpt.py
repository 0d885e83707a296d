"""ShareGPT, a format of training data: `{"from": "human", "value": "…"}`. Read only."""

from collections.abc import Sequence
from typing import Any

from palaver.core.dialects.detection import SHAREGPT_ROLES
from palaver.core.json import Object, argument_text, dict_or_empty, parse_or_text
from palaver.core.messages import Message, Text, ToolCall, ToolResult


def read(elements: Sequence[Any], start: int = 0) -> list[Message]:
    """Return one message per element. Results have no ids: they answer the last call."""
    messages: list[Message] = []
    call_id = ""
    for index, element in enumerate(elements, start):
        call_id = f"call_{index}" if element["from"] == "function_call" else call_id
        messages.append(_read_message(element, call_id))
    return messages


def _read_message(element: Object, call_id: str) -> Message:
    speaker, text = str(element["from"]), str(element["value"])
    role = SHAREGPT_ROLES[speaker.lower()]
    if role == "tool":
        return Message("tool", (ToolResult(call_id, text),))
    call = dict_or_empty(parse_or_text(text)) if speaker == "function_call" else {}
    if isinstance(name := call.get("name"), str):
        return Message.assistant(ToolCall(call_id, name, argument_text(call.get("arguments"))))
    return Message(role, (Text(text),) if text else ())
