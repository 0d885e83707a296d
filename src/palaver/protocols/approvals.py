"""Approvals in what is stored: what waits for one is what was stored, never what a client says (security, S5.3).

A call that is in no stored conversation has its whole history from the client; there the workflow has to know what
waits.
"""

from collections.abc import Sequence

from palaver.core import json
from palaver.core.messages import APPROVAL_REQUEST, APPROVAL_RESPONSE, Data, Message, ToolCall, ToolResult
from palaver.errors import ApprovalNotFound, StaleBase


class Waiting:
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
        return self._given.get(_name(part), self) == part.value

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
                    self._take(_name(part), changed)
                case _:
                    pass

    def _changed(self, name: str, shown: str) -> set[str]:
        own = self._arguments.get(name)
        if own is None or _value(own) == _value(shown):
            return set()
        return {name, self._twins.get(name, name)}

    def _take(self, name: str, changed: set[str]) -> None:
        if name not in self._arguments:
            raise ApprovalNotFound(name)
        if name in changed:
            raise StaleBase(f"The call {name!r} that waits for approval has other arguments than the one approved.")
        self._settle(name)


def _value(arguments: str) -> object:
    return json.parse_or_text(arguments) if arguments.strip() else {}


def _name(part: Data) -> str:
    match part.value:
        case {"id": str(name)}:
            return name
        case _:
            return ""
