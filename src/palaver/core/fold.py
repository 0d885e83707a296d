"""Fold a stream of events into the whole reply. Every whole reply is built here."""

from collections.abc import Iterable
from typing import Any, assert_never

from msgspec import UNSET, UnsetType

from palaver.core.events import (
    Event,
    FinishReason,
    PartAdded,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunStarted,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolDelta,
    ToolEnded,
    ToolReturned,
    ToolStarted,
    UsageAdded,
)
from palaver.core.messages import Message, Part, Reasoning, Role, Text, ToolCall, ToolResult, Usage
from palaver.core.runs import Reply

_DELTAS = (TextDelta, ReasoningDelta, ToolDelta)


class _Draft:
    """A message whose items are still arriving. A part is placed where its item started."""

    def __init__(self, message_id: str, role: Role) -> None:
        self.id = message_id
        self.role: Role = role
        self.parts: list[Part | None] = []


def fold(events: Iterable[Event]) -> Reply:
    """Return the reply that the events make up. Items that have not ended are left out."""
    run_id = ""
    finish: FinishReason = "stop"
    value: Any | UnsetType = UNSET
    total_usage: Usage | None = None
    final_usage: Usage | None = None
    drafts: dict[str, _Draft] = {}
    positions: dict[str, tuple[_Draft, int]] = {}
    calls: dict[str, ToolStarted] = {}

    def add_part(item: str, message: str, part: Part | None, role: Role = "assistant") -> None:
        draft = drafts.get(message) or drafts.setdefault(message, _Draft(message, role))
        positions[item] = draft, len(draft.parts)
        draft.parts.append(part)

    def set_part(item: str, part: Part) -> None:
        draft, index = positions[item]
        draft.parts[index] = part

    for event in events:
        if isinstance(event, _DELTAS):
            continue  # The end events have the whole text. Skipped first, since most events are deltas.
        match event:
            case RunStarted():
                run_id = event.run_id
            case TextStarted() | ReasoningStarted():
                add_part(event.item, event.message, None)
            case TextEnded():
                set_part(event.item, Text(text=event.text, annotations=event.annotations))
            case ReasoningEnded():
                set_part(event.item, Reasoning(text=event.text, encrypted=event.encrypted))
            case ToolStarted():
                calls[event.item] = event
                add_part(event.item, event.message, None)
            case ToolEnded():
                call = calls[event.item]
                set_part(event.item, ToolCall(call_id=call.call_id, name=call.name, arguments=event.arguments))
            case ToolReturned():
                result = ToolResult(call_id=event.call_id, output=event.output, is_error=event.is_error)
                add_part(event.item, event.message, result, "tool")
            case PartAdded():
                if not event.transient:
                    add_part(event.item, event.message, event.part)
            case UsageAdded():
                total_usage = total_usage + event.usage if total_usage else event.usage
            case RunFinished():
                finish, value, final_usage = event.finish, event.value, event.usage
            case RunFailed():
                finish, final_usage = "error", event.usage
            case RunCancelled():
                finish, final_usage = "cancelled", event.usage
            case _:
                assert_never(event)
    messages = [_to_message(draft) for draft in drafts.values()]
    return Reply(
        run_id=run_id,
        messages=tuple(message for message in messages if message.parts),
        value=value,
        usage=final_usage or total_usage,
        finish=finish,
    )


def _to_message(draft: _Draft) -> Message:
    return Message(role=draft.role, parts=tuple(part for part in draft.parts if part is not None), id=draft.id)
