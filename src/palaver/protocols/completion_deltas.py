"""Chat Completions, answered: what each event adds to the one message of a completion.

What this protocol cannot show (tools that the workflow ran itself, data, files) is left out here.
"""

from collections.abc import Collection, Sequence
from typing import Any, Literal, assert_never

from msgspec import UNSET

from palaver.core import json
from palaver.core.events import (
    Event,
    PartAdded,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunStarted,
    TerminalEvent,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolDelta,
    ToolEnded,
    ToolReturned,
    ToolStarted,
    UsageAdded,
)
from palaver.core.linearize import Linearizer
from palaver.core.messages import APPROVAL_REQUEST, Data, Refusal, ToolCall, Usage

Delta = dict[str, Any]
"""What one chunk adds to the message."""

BETWEEN_MESSAGES = "\n\n"

_FinishReason = Literal["stop", "length", "content_filter", "tool_calls"]


class Deltas:
    """Events in, deltas out. A call whose name is among `tools` is the client's: it is told as it comes.

    Every other call is the workflow's own and held back. Its result drops it; what is left at the end is told, so that
    an author may also leave a call to a client that declared nothing.
    """

    def __init__(self, tools: Collection[str]) -> None:
        self.linear = Linearizer()
        self.usage: Usage | None = None
        self.finish_reason: _FinishReason = "stop"
        self._tools = tools
        self._speaker: str | None = None  # The last message that had text.
        self._length = 0  # Of the content up to the text item that is open.
        self._notes = 0
        self._told = 0  # Calls, so far.
        self._call: ToolStarted | None = None  # The one that is open;
        self._live = False  # is it the client's,
        self._silent = False  # and is there no piece of its arguments yet?
        self._held: dict[str, ToolCall] = {}  # The workflow's own that have ended, by id.
        self._unanswered: set[str] = set()  # Calls that were told and have no result.

    def feed(self, event: Event) -> list[Delta]:
        """What one event adds."""
        return [delta for told in self.linear.feed(event) for delta in self._of(told)]

    def _of(self, event: Event) -> Sequence[Delta]:
        match event:
            case TextDelta(delta=delta):
                return ({"content": delta},)
            case ReasoningDelta(delta=delta):
                return ({"reasoning_content": delta},)
            case ToolDelta(delta=delta):
                return self._grow(delta)
            case RunStarted():
                return ({"role": "assistant", "content": ""},)
            case TextStarted(message=message):
                return self._speak(message)
            case TextEnded():
                return self._noted(event)
            case ReasoningStarted() | ReasoningEnded():
                return ()
            case ToolStarted():
                return self._open(event)
            case ToolEnded(arguments=arguments):
                return self._close(arguments)
            case ToolReturned(call_id=call_id):
                self._held.pop(call_id, None)
                self._unanswered.discard(call_id)
                return ()
            case PartAdded(part=part):
                return self._add(part)
            case UsageAdded(usage=usage):
                self.usage = self.usage + usage if self.usage else usage
                return ()
            case RunFinished() if not is_broken(event):
                return self._finish(event)
            case RunFinished() | RunFailed() | RunCancelled():
                self.finish_reason = "length"  # Cut short: no other word says that there is more to say.
                return ()
            case _:
                assert_never(event)

    # Text

    def _speak(self, message: str) -> Sequence[Delta]:
        before, self._speaker = self._speaker, message
        if before is None or before == message:
            return ()
        self._length += len(BETWEEN_MESSAGES)
        return ({"content": BETWEEN_MESSAGES},)

    def _noted(self, event: TextEnded) -> Sequence[Delta]:
        """The text's sources, counted in the whole content."""
        start, end = self._length, self._length + len(event.text)
        self._length = end
        notes = [
            {
                "url": note.url,
                "title": note.title or "",
                "start_index": start if note.start is None else start + note.start,
                "end_index": end if note.end is None else start + note.end,
            }
            for note in event.annotations
            if note.kind == "url"
        ]
        if not notes:
            return ()
        # A list that grows must number its entries, or OpenAI's own `stream()` cannot join it.
        numbers = [{"index": self._notes + place} if self._notes else {} for place in range(len(notes))]
        self._notes += len(notes)
        entries = zip(numbers, notes, strict=True)
        return (
            {"annotations": [{**number, "type": "url_citation", "url_citation": note} for number, note in entries]},
        )

    def _add(self, part: object) -> Sequence[Delta]:
        match part:
            case Refusal(text=text) if text:
                return ({"refusal": text},)
            case Data(name=name, value={"call_id": str(call_id)}) if name == APPROVAL_REQUEST:
                self._held.pop(call_id, None)  # It is a person's turn, not the client's.
                return ()
            case _:
                return ()

    # Calls

    def _open(self, event: ToolStarted) -> Sequence[Delta]:
        self._call, self._live, self._silent = event, event.name in self._tools, True
        return (self._announced(event.call_id, event.name),) if self._live else ()

    def _grow(self, delta: str) -> Sequence[Delta]:
        self._silent = False
        return (self._argued(delta),) if self._live else ()  # Of a call that is held, the end says it all.

    def _close(self, arguments: str) -> Sequence[Delta]:
        call = self._call
        if self._live:
            return (self._argued(arguments),) if self._silent and arguments else ()
        assert call is not None
        self._held[call.call_id] = ToolCall(call_id=call.call_id, name=call.name, arguments=arguments)
        return ()

    def _announced(self, call_id: str, name: str) -> Delta:
        function = {"name": name, "arguments": ""}
        call = {"index": self._told, "id": call_id, "type": "function", "function": function}
        self._told += 1
        self._unanswered.add(call_id)
        return {"tool_calls": [call]}

    def _argued(self, arguments: str) -> Delta:
        """A piece of the last call that was told: there is never another one open."""
        return {"tool_calls": [{"index": self._told - 1, "function": {"arguments": arguments}}]}

    # The end

    def _finish(self, event: RunFinished) -> Sequence[Delta]:
        deltas: list[Delta] = []
        # What was streamed is not said again.
        if event.value is not UNSET and self._speaker is None and (content := _shown(event.value)):
            deltas.append({"content": content})
        for call in self._held.values():
            deltas.append(self._announced(call.call_id, call.name))
            if call.arguments:
                deltas.append(self._argued(call.arguments))
        match event.finish:
            case "length":
                self.finish_reason = "length"
            case "content-filter":
                self.finish_reason = "content_filter"
            case _:
                self.finish_reason = "tool_calls" if self._unanswered else "stop"
        return deltas


def is_broken(event: TerminalEvent) -> bool:
    """Did the run not come to its end?"""
    return not isinstance(event, RunFinished) or event.finish == "interrupted"


def _shown(value: Any) -> str:
    """A value as text: a string as it is, anything else as compact JSON."""
    return value if isinstance(value, str) else json.encode(value).decode()
