"""Turn the output of a workflow into a valid stream of events.

A sync state machine, fed one value at a time; it uses no clock, socket or store. It numbers events, assigns ids (the
same ones on every replay), opens and closes items, and raises BadStream for values that are invalid at their position.
Returned events are never retracted.

A producer that names its items may interleave them. Unnamed text, reasoning and calls continue the current item, and so
do `Reasoning` values that are not encrypted; a value of another kind ends it, except data, files and usage.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Literal, TypeVar, assert_never

import msgspec

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
from palaver.core.ids import IdAllocator, truncate_id
from palaver.core.messages import (
    Annotation,
    Data,
    File,
    Message,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from palaver.errors import BadStream


class _Item:
    def __init__(self, item: str, message: str) -> None:
        self.id = item
        self.message = message
        self.pieces: list[str] = []
        self.started = False
        """The start event is held back until the first piece, so empty items leave no trace."""


class TextItem(_Item):
    label: ClassVar = "text"
    prefix: ClassVar = "msg"
    delta: ClassVar = TextDelta
    annotations: tuple[Annotation, ...] = ()


class ReasoningItem(_Item):
    label: ClassVar = "reasoning"
    prefix: ClassVar = "rs"
    delta: ClassVar = ReasoningDelta
    encrypted: str | None = None


class ToolItem(_Item):
    """A tool call; its pieces are pieces of its arguments."""

    label: ClassVar = "tool"
    prefix: ClassVar = "fc"
    delta: ClassVar = ToolDelta
    call_id: str = ""
    name: str = ""


Item = TextItem | ReasoningItem | ToolItem


def start_event(item: Item, seq: int) -> TextStarted | ReasoningStarted | ToolStarted:
    match item:
        case TextItem():
            return TextStarted(seq, item.id, item.message)
        case ReasoningItem():
            return ReasoningStarted(seq, item.id, item.message)
        case ToolItem():
            return ToolStarted(seq, item.id, item.message, item.call_id, item.name)
        case _:
            assert_never(item)


def end_event(item: Item, text: str, seq: int) -> TextEnded | ReasoningEnded | ToolEnded:
    match item:
        case TextItem():
            return TextEnded(seq, item.id, text, item.annotations)
        case ReasoningItem():
            return ReasoningEnded(seq, item.id, text, item.encrypted)
        case ToolItem():
            return ToolEnded(seq, item.id, text)
        case _:
            assert_never(item)


def is_valid_delta(delta: TextDelta | ReasoningDelta | ToolDelta) -> bool:
    """Whether a delta can be used unchanged; its text is checked when it is added."""
    return type(delta.delta) is str and type(delta.item) is str and delta.item.isascii()


def part_events(part: Part, message: str = "") -> Sequence[Event]:
    """Return the events of a complete part. They name no item: each end belongs to the preceding start."""
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


OutputValue = Event | Part | Message | Usage
"""A value that a producer may pass to the grammar."""

_Kind = TypeVar("_Kind", bound=Item)


_MISMATCH = "its final content differs from what was streamed"


class _InvalidOutput(Exception):
    """A value that is invalid at this position; `feed` adds the position."""


class Grammar:
    """The state of one run's stream."""

    def __init__(self, run_id: str, *, history: Sequence[Message] = ()) -> None:
        self.size = 0
        """Bytes of output so far."""
        self.ending: TerminalEvent | None = None
        """The terminal event, if the producer sent one or broke the stream."""
        self._seq = -1
        self._pending: list[Event] = []  # Not returned yet.
        self._fault: BadStream | None = None
        self._ids = IdAllocator(run_id)
        self._open: dict[str, Item] = {}
        self._closed: dict[str, str] = {}  # Closed items with their complete text.
        self._current: Item | None = None  # Continued by pieces that name no item.
        self._current_text: TextItem | None = None  # The current item if it is a started text.
        self._calls: dict[str, Literal["asked", "made", "answered"]] = {}  # By call id; `asked` in the history.
        for message in history:
            for part in message.parts:
                if type(part) is ToolCall:
                    self._calls[truncate_id(part.call_id)] = "asked"
                elif type(part) is ToolResult:
                    self._calls[truncate_id(part.call_id)] = "answered"

    @property
    def count(self) -> int:
        return self._seq + 1

    def start(self, value: RunStarted) -> Sequence[Event]:
        self._seq = 0
        return (value if value.seq == 0 else msgspec.structs.replace(value, seq=0),)

    def text(self, delta: str) -> Sequence[Event]:
        """Return the events for a piece of text. This is the hot path."""
        item = self._current_text
        if item is None or not delta:
            if delta and self._current is None and self._fault is None and self.ending is None:
                self._add(self._open_item(TextItem, "", ""), delta)  # A shortcut for feed().
                return self._take_pending()
            return self.feed(TextDelta(delta=delta))
        if delta.isascii():
            self.size += len(delta)
        else:
            delta = self._clean_text(delta)
        item.pieces.append(delta)
        self._seq = seq = self._seq + 1
        return (TextDelta(seq, item.id, delta),)

    def feed(self, value: OutputValue) -> Sequence[Event]:
        """Return the events for one value. Raises BadStream, with the position, if it is invalid there.

        A broken stream stays broken. Events produced before the fault are returned by `end`.
        """
        if self._fault is not None:
            raise self._fault
        try:
            self._handle(value)
        except _InvalidOutput as error:
            raise self._break_stream(value, str(error)) from None
        except json.NotJson as error:
            raise self._break_stream(value, f"got {error}") from None
        return self._take_pending()

    def end(self, terminal: TerminalEvent, *, at: datetime | None = None) -> Sequence[Event]:
        """Close all open items and return the remaining events, the terminal one last."""
        if self._open:
            for item in list(self._open.values()):
                self._close(item)
        if isinstance(terminal, RunFailed):
            terminal = _encodable_failure(terminal)
        elif isinstance(terminal, RunFinished) and terminal.finish == "stop" and "made" in self._calls.values():
            terminal = msgspec.structs.replace(terminal, finish="tool-calls")
        self._seq += 1
        self.ending = last = msgspec.structs.replace(terminal, seq=self._seq, at=at or terminal.at)
        self._pending.append(last)
        return self._take_pending()

    def _break_stream(self, value: OutputValue, why: str) -> BadStream:
        kind = type(value).__struct_config__.tag or type(value).__name__.lower()
        self._fault = BadStream(f"Invalid workflow output after {self.count} events ({kind}): {why}.")
        self.ending = RunFailed(code=self._fault.code, message=self._fault.message)
        self._end_current_item()
        return self._fault

    # Input

    def _handle(self, value: OutputValue) -> None:
        if self.ending is not None:
            raise _InvalidOutput("the workflow has already ended the run")
        match value:
            case TextDelta() | ReasoningDelta() | ToolDelta():
                self._handle_event(value if is_valid_delta(value) else json.round_trip(value))
            case Message():
                self._handle_message(json.round_trip(value))
            case Usage():
                self._handle_event(json.round_trip(UsageAdded(usage=value)))
            case Reasoning(encrypted=None):
                self._handle_event(json.round_trip(ReasoningDelta(delta=value.text)))
            case Text() | Reasoning() | File() | ToolCall() | ToolResult() | Refusal() | Data():
                for event in part_events(json.round_trip(value)):
                    self._handle_event(event)
            case _:
                self._handle_event(json.round_trip(value))

    def _handle_message(self, message: Message) -> None:
        """Handle a complete message; values before and after it belong to other messages."""
        self._end_current_item()
        self._ids.end_message()
        for part in message.parts:
            for event in part_events(part, message.id or ""):
                self._handle_event(event)
        self._end_current_item()
        self._ids.end_message()

    def _handle_event(self, value: Event) -> None:
        match value:
            case TextDelta():
                self._append(TextItem, value.item, value.delta)
            case ReasoningDelta():
                self._append(ReasoningItem, value.item, value.delta)
            case ToolDelta():
                self._append(ToolItem, value.item, value.delta)
            case TextStarted(item=item, message=message):
                self._open_item(TextItem, item, message)
            case ReasoningStarted(item=item, message=message):
                self._open_item(ReasoningItem, item, message)
            case ToolStarted():
                self._open_call(value)
            case TextEnded(item=item, text=text, annotations=annotations):
                if last := self._finish_item(TextItem, item, text):
                    last.annotations = annotations
                    self._count(annotations)
                    self._close(last)
            case ReasoningEnded(item=item, text=text, encrypted=encrypted):
                if last := self._finish_item(ReasoningItem, item, text):
                    if encrypted:  # Encrypted reasoning counts even without text.
                        last.encrypted = encrypted
                        self._count(encrypted)
                        self._emit_start(last)
                    self._close(last)
            case ToolEnded(item=item, arguments=arguments):
                if last := self._finish_item(ToolItem, item, arguments):
                    self._close(last)
            case ToolReturned():
                self._add_result(value)
            case PartAdded():
                self._add_part(value)
            case UsageAdded():
                self._emit(value)
            case RunFinished() | RunFailed() | RunCancelled():
                self._end_current_item()
                self.ending = value
            case RunStarted():
                pass  # The start event of a remote run; the local one was already sent.
            case _:
                assert_never(value)

    def _add_part(self, value: PartAdded) -> None:
        match value.part:
            case File():
                prefix = "fil"
            case Data():
                prefix = "dat"
            case Refusal(text=text):
                if not text:
                    return  # Empty, like an empty text.
                prefix = "msg"
                self._end_current_item()
            case None:
                raise _InvalidOutput("the part must be a file, a refusal or data")
        message = self._ids.message_for(value.message)
        item = self._claim_item_id(value.item or self._ids.new(prefix))
        self._closed[item] = ""
        self._count(value.part)
        self._emit(PartAdded(item=item, message=message, part=value.part, transient=value.transient))

    def _add_result(self, value: ToolReturned) -> None:
        call_id = truncate_id(value.call_id)
        self._end_current_item()
        if open_call := self._open.get(truncate_id(f"fc_{call_id}")):
            self._close(open_call)
        match self._calls.get(call_id):
            case "asked" | "made":
                self._calls[call_id] = "answered"
            case "answered":
                raise _InvalidOutput(f"call {call_id!r} already has a result")
            case None:
                raise _InvalidOutput(f"there is no call {call_id!r}")
        item = self._ids.claim_item(f"fco_{call_id}") or self._claim_item_id(self._ids.new("fco"))
        self._closed[item] = ""
        for unstarted in [other for other in self._open.values() if not other.started]:
            # It would start after this result in an earlier message, so it is reopened when it continues.
            del self._open[unstarted.id]
            self._ids.release_item(unstarted.id)
        message = self._ids.result_message(value.message)
        self._count(value.output)
        self._emit(msgspec.structs.replace(value, item=item, message=message, call_id=call_id))

    # Items

    def _open_item(self, kind: type[_Kind], name: str, message: str) -> _Kind:
        self._end_current_item()
        message = self._ids.message_for(message)
        if self._open:
            for item in [i for i in self._open.values() if isinstance(i, kind) and i.message == message]:
                self._close(item)
        if name:
            item_id = name
        elif kind is TextItem and not self._ids.is_item(message):
            item_id = message  # The first text of a message takes the message's id.
        else:
            item_id = self._ids.new(kind.prefix)
        return self._register_open(kind(self._claim_item_id(item_id), message), name)

    def _open_call(self, value: ToolStarted) -> None:
        self._end_current_item()
        call_id = truncate_id(value.call_id) or self._ids.new("call")
        item = self._ids.claim_call_item(call_id, producer_name=value.item)
        if item is None:
            raise _InvalidOutput(f"call {call_id!r} already exists")
        call = ToolItem(item, self._ids.message_for(value.message))
        call.call_id, call.name = call_id, value.name
        self._count(value.name)
        self._emit_start(self._register_open(call, value.item))  # A call without arguments is still a call.

    def _register_open(self, item: _Kind, name: str) -> _Kind:
        self._open[item.id] = item
        if not name:
            self._current = item
        return item

    def _append(self, kind: type[_Kind], name: str, piece: str) -> None:
        if piece:
            self._add(self._find(kind, name), piece)

    def _add(self, item: Item, piece: str) -> None:
        if not item.started:
            self._emit_start(item)
        piece = self._clean_text(piece)
        item.pieces.append(piece)
        self._seq += 1
        self._pending.append(item.delta(self._seq, item.id, piece))
        if item is self._current and isinstance(item, TextItem):
            self._current_text = item

    def _find(self, kind: type[_Kind], name: str) -> _Kind:
        """Return the open item that a piece belongs to, opening one if necessary."""
        current = self._current
        if current is not None and not isinstance(current, kind):
            self._end_current_item()
        if not name:
            if isinstance(current, kind):
                return current
            if kind is ToolItem:
                raise _InvalidOutput("no tool call is open")
            return self._open_item(kind, "", "")
        key = self._key(kind, name)
        item = self._open.get(key)
        if isinstance(item, kind):
            return item
        if item is None and key not in self._closed and kind is not ToolItem:
            return self._open_item(kind, name, "")
        state = "is already closed" if key in self._closed else "was never opened"
        raise _InvalidOutput(f"{kind.label} item {name!r} {state}")

    def _finish_item(self, kind: type[_Kind], name: str, text: str) -> _Kind | None:
        """Return the item that ends, extended by the rest of `text`; None if there is nothing to end."""
        closed = self._closed.get(self._key(kind, name)) if name else None
        if closed is not None:
            if text and text != closed:
                raise _InvalidOutput(_MISMATCH)
            return None  # Already ended by another event.
        if not name and not text and not isinstance(self._current, kind):
            return None
        item = self._find(kind, name)
        sent_text = "".join(item.pieces)
        if text and not text.startswith(sent_text):
            raise _InvalidOutput(_MISMATCH)
        if remaining := text[len(sent_text) :]:
            self._add(item, remaining)
        return item

    def _close(self, item: Item) -> None:
        text = "".join(item.pieces)
        del self._open[item.id]
        self._closed[item.id] = text
        if item is self._current:
            self._current = self._current_text = None
        if isinstance(item, ToolItem):
            self._calls[item.call_id] = "made"
        if item.started:
            self._seq += 1
            self._pending.append(end_event(item, text, self._seq))

    def _end_current_item(self) -> None:
        """End the current item, which unnamed pieces would continue."""
        if self._current is not None:
            self._close(self._current)

    def _key(self, kind: type[Item], name: str) -> str:
        return self._ids.call_item_id(name) if kind is ToolItem else truncate_id(name)

    def _claim_item_id(self, name: str) -> str:
        item = self._ids.claim_item(name)
        if item is None:
            raise _InvalidOutput(f"item {name!r} already exists")
        return item

    # Events

    def _emit_start(self, item: Item) -> None:
        if not item.started:
            item.started = True
            self._seq += 1
            self._pending.append(start_event(item, self._seq))

    def _emit(self, event: Event) -> None:
        self._seq += 1
        self._pending.append(msgspec.structs.replace(event, seq=self._seq))

    def _take_pending(self) -> Sequence[Event]:
        events, self._pending = self._pending, []
        return events

    def _count(self, value: object) -> None:
        self.size += len(json.encode(value)) if value else 0

    def _clean_text(self, text: str) -> str:
        """Count the bytes of `text` and return it with lone surrogates replaced."""
        if text.isascii():
            self.size += len(text)
            return text
        text = json.replace_surrogates(text)
        self.size += len(text.encode())
        return text


def _encodable_failure(terminal: RunFailed) -> RunFailed:
    try:
        return json.round_trip(terminal)
    except json.NotJson as error:
        return RunFailed(
            code=BadStream.code,
            message=f"The workflow failed, and its error could not be encoded: {error}.",
            at=terminal.at,
        )
