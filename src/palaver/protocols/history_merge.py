"""Merge a client's messages into a stored history, and check approvals against it."""

from collections.abc import Collection, Sequence
from typing import cast

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
    """The tool calls of stored messages that may be approved, by call id and by approval id."""

    def __init__(self, stored: Sequence[Message]) -> None:
        self._arguments: dict[str, str] = {}
        self._paired_ids: dict[str, str] = {}
        self._answers: dict[str, object] = {}  # Without a later message: a failed turn may be sent again.
        for message in stored:
            self._start_message(message)
            for part in message.parts:
                self._add_part(part)

    @classmethod
    def check_history(cls, messages: Sequence[Message]) -> None:
        """Raise ApprovalNotFound for an approval in a whole history that answers no request before it."""
        pending = cls(())
        for message in messages:
            pending._start_message(message)
            for part in message.parts:
                if isinstance(part, Data) and part.name == APPROVAL_RESPONSE and not pending.is_copy(part):
                    pending._require(part)
                pending._add_part(part)

    def _start_message(self, message: Message) -> None:
        if message.role in ("assistant", "tool"):
            self._answers.clear()

    def _add_part(self, part: object) -> None:
        match part:
            case ToolCall(call_id=call_id, arguments=arguments):
                self._arguments[call_id] = arguments
            case ToolResult(call_id=call_id):
                self._resolve(call_id)
            case Data(name=name, value={"id": str(approval), **fields}) if name == APPROVAL_REQUEST:
                arguments, call_id = fields.get("arguments"), fields.get("call_id")
                self._arguments[approval] = arguments if isinstance(arguments, str) else ""
                if isinstance(call_id, str) and call_id != approval:
                    self._paired_ids |= {approval: call_id, call_id: approval}
            case Data(name=name, value={"id": str(approval)}) if name == APPROVAL_RESPONSE:
                self._resolve(approval)
                self._answers[approval] = part.value
            case _:
                pass

    def _resolve(self, name: str) -> None:
        for known in (name, self._paired_ids.get(name)):
            if known is not None:
                self._arguments.pop(known, None)

    def is_copy(self, part: Data) -> bool:
        """Whether this approval was stored already and nothing has followed it."""
        return self._answers.get(_approval_id(part), self) == part.value

    def check(self, sent: Sequence[Message]) -> None:
        """Raise for an approval of a call that is not pending, or that the client shows with other arguments."""
        changed: set[str] = set()
        for part in (part for message in sent for part in message.parts):
            match part:
                case ToolCall(call_id=str(name), arguments=arguments):
                    changed |= self._changed_ids(name, arguments)
                case Data(name=kind, value={"id": str(name), "arguments": str(arguments)}) if kind == APPROVAL_REQUEST:
                    changed |= self._changed_ids(name, arguments)
                case Data(name=kind) if kind == APPROVAL_RESPONSE and not self.is_copy(part):
                    self._approve(_approval_id(part), changed)
                case _:
                    pass

    def _changed_ids(self, name: str, arguments: str) -> set[str]:
        original = self._arguments.get(name)
        if original is None or _parse_arguments(original) == _parse_arguments(arguments):
            return set()
        return {name, self._paired_ids.get(name, name)}

    def _require(self, part: Data) -> None:
        """Raise for an approval that is not pending. AI SDK clients name the call if the approval has another id."""
        name = _approval_id(part)
        call_id = cast("dict[str, object]", part.value).get("call_id") if name else None
        if name not in self._arguments and call_id not in self._arguments:
            raise ApprovalNotFound(name)
        if isinstance(call_id, str):
            self._resolve(call_id)

    def _approve(self, name: str, changed: set[str]) -> None:
        if name not in self._arguments:
            raise ApprovalNotFound(name)
        if name in changed:
            raise StaleBase(f"The approved arguments of call {name!r} differ from those of the pending call.")
        self._resolve(name)


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
    """Return the messages that are not stored yet, by index counted from `start`. Raises HistoryConflict.

    A copy is recognized by its ids: the message's id, or the call id of a tool call and its result.
    """
    history = _StoredHistory(stored, answerable)
    history.approvals.check(sent)
    unstored_messages: dict[int, Message] = {}
    for index, message in enumerate(sent, start):
        unstored = history.unstored_part(message, f"/messages/{index}")
        if unstored is not None:
            unstored_messages[index] = unstored
    return unstored_messages


class _StoredHistory:
    """The stored messages, by the ids under which a client may send them again."""

    def __init__(self, stored: Sequence[Message], answerable: Collection[str] | None) -> None:
        self._messages = {message.id: message for message in stored if message.id is not None}
        self._calls: dict[str, ToolCall] = {}
        self._results: dict[str, ToolResult] = {}  # Of the last call with that id, which may be reused.
        self._answerable = answerable
        self.approvals = PendingApprovals(stored)
        for part in (part for message in stored for part in message.parts):
            match part:
                case ToolCall(call_id=call_id):
                    self._calls[call_id] = part
                    self._results.pop(call_id, None)
                case ToolResult(call_id=call_id):
                    self._results[call_id] = part
                case _:
                    pass

    def unstored_part(self, message: Message, pointer: str) -> Message | None:
        """Return the part of a message that is not stored; None if all of it is."""
        if message.id is not None and (original := self._messages.get(message.id)) is not None:
            keys = {None, *map(_comparison_key, original.parts)}
            if message.role != original.role or not keys.issuperset(map(_comparison_key, message.parts)):
                raise HistoryConflict(f"Message {message.id!r} differs from the stored message.", pointer=pointer)
            return None
        parts = tuple(part for part in message.parts if not self._is_stored(part, pointer))
        if len(parts) == len(message.parts):
            return message
        return replace(message, parts=parts) if parts else None

    def _is_stored(self, part: Part, pointer: str) -> bool:
        match part:
            case ToolCall(call_id=call_id) if (call := self._calls.get(call_id)) is not None:
                if (part.name, part.arguments) != (call.name, call.arguments):
                    raise HistoryConflict(f"Call {call_id!r} differs from the stored call.", pointer=pointer)
                return True
            case ToolResult(call_id=call_id) if (result := self._results.get(call_id)) is not None:
                if _comparison_key(part) != _comparison_key(result):
                    raise HistoryConflict(
                        f"The result of call {call_id!r} differs from the stored result.", pointer=pointer
                    )
                return True
            case ToolResult(call_id=call_id) if (
                call_id in self._calls and self._answerable is not None and call_id not in self._answerable
            ):
                raise HistoryConflict(f"Call {call_id!r} can't be answered by the client.", pointer=pointer)
            case Data(name=name) if name == APPROVAL_RESPONSE:
                return self.approvals.is_copy(part)
            case _:
                return False


def _comparison_key(part: Part) -> object:
    """Return what a copy must have in common with the original; None for parts that dialects may lose."""
    match part:
        case Text(text=text) | Refusal(text=text):
            return type(part), text
        case ToolCall(call_id=call_id, name=name, arguments=arguments):
            return ToolCall, call_id, name, arguments
        case ToolResult(call_id=call_id, output=output, is_error=is_error):
            return ToolResult, call_id, text_or_json(output), is_error  # Clients have seen its text.
        case _:
            return None
