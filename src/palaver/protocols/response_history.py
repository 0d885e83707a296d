"""What a call goes on from: stored items that it refers to, and the stored messages that it follows.

What is stored is the truth, and what a client sends beside it is a copy, a contradiction or new (security contract,
S5.2). The server looks up; here the finds are put in their places.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from palaver.core.messages import APPROVAL_RESPONSE, Data, Message, Part, Refusal, Text, ToolCall, ToolResult
from palaver.core.runs import Call
from palaver.errors import HistoryConflict
from palaver.protocols.approvals import Waiting
from palaver.protocols.response_input import dereferenced
from palaver.protocols.response_items import as_text
from palaver.protocols.response_request import Reading, read_items


def resolved(call: Call, reading: Reading, found: Mapping[str, Mapping[str, Any]]) -> tuple[Call, Reading]:
    """The call with the stored items that its input refers to, by their ids; ItemNotFound where one is missing.

    They are found among the items of stored responses (response_store.items) and conversations (item_pages.placed).
    """
    if not reading.unresolved:
        return call, reading
    messages, places = read_items(dereferenced(reading.unresolved, found))
    messages, places = (*call.messages, *messages), (*reading.places, *places)
    return replace(call, messages=messages), replace(reading, places=places, unresolved=())


def continued(
    call: Call, reading: Reading, stored: Sequence[Message], *, answerable: Collection[str] | None = None
) -> tuple[Call, Reading]:
    """The call after the stored messages that it follows: instructions, what is stored, and what is new.

    `answerable` are the calls whose results may come from a client, None for all: one that a workflow ran itself and
    did not finish is not among them.
    """
    first = call.preface
    fresh = new(stored, call.messages[first:], start=first, answerable=answerable)
    field = "previous_response_id" if call.previous is not None else "conversation"
    own = [reading.places[index] for index in fresh]
    messages = (*call.messages[:first], *stored, *fresh.values())
    places = (*reading.places[:first], *[field] * len(stored), *own)
    return replace(call, messages=messages), replace(reading, places=places)


def new(
    stored: Sequence[Message], sent: Sequence[Message], *, start: int = 0, answerable: Collection[str] | None = None
) -> dict[int, Message]:
    """The messages that are not stored yet, by their place, counted from `start`; HistoryConflict for a contradiction.

    A copy is known by its ids: a message by its own, a call and a result by the call's.
    """
    known = _Known(stored, answerable)
    known.waiting.check(sent)
    fresh: dict[int, Message] = {}
    for index, message in enumerate(sent, start):
        left = known.beside(message, f"/messages/{index}")
        if left is not None:
            fresh[index] = left
    return fresh


class _Known:
    """What is stored, by the ids under which a client may send it again."""

    def __init__(self, stored: Sequence[Message], answerable: Collection[str] | None) -> None:
        self._messages = {message.id: message for message in stored if message.id is not None}
        self._calls: dict[str, ToolCall] = {}
        self._results: dict[str, ToolResult] = {}  # Of the last call of that id: some models count anew.
        self._answerable = answerable
        self.waiting = Waiting(stored)
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
            said = {None, *map(_essence, own.parts)}
            if message.role != own.role or not said.issuperset(map(_essence, message.parts)):
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
                if _essence(part) != _essence(result):
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


def _essence(part: Part) -> object:
    """What must be the same in a copy; None for what may differ, as dialects lose some of it."""
    match part:
        case Text(text=text) | Refusal(text=text):
            return type(part), text
        case ToolCall(call_id=call_id, name=name, arguments=arguments):
            return ToolCall, call_id, name, arguments
        case ToolResult(call_id=call_id, output=output, is_error=is_error):
            return ToolResult, call_id, as_text(output), is_error  # Clients have seen its text.
        case _:
            return None
