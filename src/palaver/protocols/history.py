"""Merge a client's messages into a stored history, and check approvals against it (security, S5.2, S5.3)."""

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from palaver.core import json
from palaver.core.messages import (
    APPROVAL_REQUEST,
    APPROVAL_RESPONSE,
    Data,
    Message,
    Part,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)
from palaver.errors import ApprovalNotFound, HistoryConflict, StaleBase
from palaver.protocols.base import text_or_json


class PendingApprovals:
    """The calls of stored messages that somebody may approve, by their ids and by those of the questions."""

    def __init__(self, stored: Sequence[Message]) -> None:
        self._arguments: dict[str, str] = {}
        self._twins: dict[str, str] = {}
        self._given: dict[str, object] = {}  # Approvals that nothing has followed yet: a turn that failed comes again.
        for message in stored:
            if message.role in ("assistant", "tool"):
                self._given.clear()
            for part in message.parts:
                self._store(part)

    def _store(self, part: object) -> None:
        match part:
            case ToolCall(call_id=call_id, arguments=arguments):
                self._arguments[call_id] = arguments
            case ToolResult(call_id=call_id):
                self._settle(call_id)
            case Data(name=name, value={"id": str(asked), **rest}) if name == APPROVAL_REQUEST:
                arguments, call_id = rest.get("arguments"), rest.get("call_id")
                self._arguments[asked] = arguments if isinstance(arguments, str) else ""
                if isinstance(call_id, str) and call_id != asked:
                    self._twins |= {asked: call_id, call_id: asked}
            case Data(name=name, value={"id": str(asked)}) if name == APPROVAL_RESPONSE:
                self._settle(asked)
                self._given[asked] = part.value
            case _:
                pass

    def _settle(self, name: str) -> None:
        for known in (name, self._twins.get(name)):
            if known is not None:
                self._arguments.pop(known, None)

    def is_copy(self, part: Data) -> bool:
        """Was this approval given already, and has nothing followed it?"""
        return self._given.get(_approval_id(part), self) == part.value

    def check(self, sent: Sequence[Message]) -> None:
        """Raise for an approval of what does not wait, or of a call that the client shows otherwise than it is."""
        changed: set[str] = set()
        for part in (part for message in sent for part in message.parts):
            match part:
                case ToolCall(call_id=str(name), arguments=shown):
                    changed |= self._changed(name, shown)
                case Data(name=kind, value={"id": str(name), "arguments": str(shown)}) if kind == APPROVAL_REQUEST:
                    changed |= self._changed(name, shown)
                case Data(name=kind) if kind == APPROVAL_RESPONSE and not self.is_copy(part):
                    self._take(_approval_id(part), changed)
                case _:
                    pass

    def _changed(self, name: str, shown: str) -> set[str]:
        own = self._arguments.get(name)
        if own is None or _parse_arguments(own) == _parse_arguments(shown):
            return set()
        return {name, self._twins.get(name, name)}

    def _take(self, name: str, changed: set[str]) -> None:
        if name not in self._arguments:
            raise ApprovalNotFound(name)
        if name in changed:
            raise StaleBase(f"The call {name!r} that waits for approval has other arguments than the one approved.")
        self._settle(name)


def _parse_arguments(arguments: str) -> object:
    return json.parse_or_text(arguments) if arguments.strip() else {}


def _approval_id(part: Data) -> str:
    match part.value:
        case {"id": str(name)}:
            return name
        case _:
            return ""


def new_messages(
    stored: Sequence[Message], sent: Sequence[Message], *, start: int = 0, answerable: Collection[str] | None = None
) -> dict[int, Message]:
    """The messages that are not stored yet, by their place, counted from `start`; HistoryConflict for a contradiction.

    A copy is known by its ids: a message by its own, a call and a result by the call's.
    """
    known = _StoredHistory(stored, answerable)
    known.waiting.check(sent)
    fresh: dict[int, Message] = {}
    for index, message in enumerate(sent, start):
        left = known.beside(message, f"/messages/{index}")
        if left is not None:
            fresh[index] = left
    return fresh


class _StoredHistory:
    """What is stored, by the ids under which a client may send it again."""

    def __init__(self, stored: Sequence[Message], answerable: Collection[str] | None) -> None:
        self._messages = {message.id: message for message in stored if message.id is not None}
        self._calls: dict[str, ToolCall] = {}
        self._results: dict[str, ToolResult] = {}  # Of the last call of that id: some models count anew.
        self._answerable = answerable
        self.waiting = PendingApprovals(stored)
        for part in (part for message in stored for part in message.parts):
            match part:
                case ToolCall(call_id=call_id):
                    self._calls[call_id] = part
                    self._results.pop(call_id, None)
                case ToolResult(call_id=call_id):
                    self._results[call_id] = part
                case _:
                    pass

    def beside(self, message: Message, pointer: str) -> Message | None:
        """What the message says beside what is stored; None where it is a copy."""
        if message.id is not None and (own := self._messages.get(message.id)) is not None:
            said = {None, *map(_comparison_key, own.parts)}
            if message.role != own.role or not said.issuperset(map(_comparison_key, message.parts)):
                raise HistoryConflict(f"The stored message {message.id!r} says something else.", pointer=pointer)
            return None
        parts = tuple(part for part in message.parts if not self._has(part, pointer))
        if len(parts) == len(message.parts):
            return message
        return replace(message, parts=parts) if parts else None

    def _has(self, part: Part, pointer: str) -> bool:
        match part:
            case ToolCall(call_id=call_id) if (call := self._calls.get(call_id)) is not None:
                if (part.name, part.arguments) != (call.name, call.arguments):
                    raise HistoryConflict(f"The stored call {call_id!r} is another one.", pointer=pointer)
                return True
            case ToolResult(call_id=call_id) if (result := self._results.get(call_id)) is not None:
                if _comparison_key(part) != _comparison_key(result):
                    raise HistoryConflict(f"The stored result of call {call_id!r} is another one.", pointer=pointer)
                return True
            case ToolResult(call_id=call_id) if call_id in self._calls and not self._may_answer(call_id):
                raise HistoryConflict(f"Call {call_id!r} was not the client's to answer.", pointer=pointer)
            case Data(name=name) if name == APPROVAL_RESPONSE:
                return self.waiting.is_copy(part)
            case _:
                return False

    def _may_answer(self, call_id: str) -> bool:
        return self._answerable is None or call_id in self._answerable


def _comparison_key(part: Part) -> object:
    """What must be the same in a copy; None for what may differ, as dialects lose some of it."""
    match part:
        case Text(text=text) | Refusal(text=text):
            return type(part), text
        case ToolCall(call_id=call_id, name=name, arguments=arguments):
            return ToolCall, call_id, name, arguments
        case ToolResult(call_id=call_id, output=output, is_error=is_error):
            return ToolResult, call_id, text_or_json(output), is_error  # Clients have seen its text.
        case _:
            return None
