"""Wholes: a part that a producer gives in one go, spelled out as the events that it stands for."""

from collections.abc import Sequence
from typing import assert_never

from palaver.core.events import (
    Event,
    PartAdded,
    ReasoningEnded,
    ReasoningStarted,
    TextEnded,
    TextStarted,
    ToolEnded,
    ToolReturned,
    ToolStarted,
)
from palaver.core.parts import Data, File, Part, Reasoning, Refusal, Text, ToolCall, ToolResult


def spelled(part: Part, message: str = "") -> Sequence[Event]:
    """Events that name no item, so that each end belongs to the start before it."""
    match part:
        case Text(text=text, annotations=annotations):
            return TextStarted(message=message), TextEnded(text=text, annotations=annotations)
        case Reasoning(text=text, encrypted=encrypted):
            return ReasoningStarted(message=message), ReasoningEnded(text=text, encrypted=encrypted)
        case ToolCall(call_id=call_id, name=name, arguments=arguments):
            return ToolStarted(message=message, call_id=call_id, name=name), ToolEnded(arguments=arguments)
        case ToolResult(call_id=call_id, output=output, is_error=is_error):
            return (ToolReturned(message=message, call_id=call_id, output=output, is_error=is_error),)
        case File() | Refusal() | Data():
            return (PartAdded(message=message, part=part),)
        case _:
            assert_never(part)
