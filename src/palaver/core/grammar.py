"""The grammar: makes a lawful stream of events out of what a producer gives.

A sync machine, fed one value at a time; it knows no clock, no socket and no store. It numbers the events, makes the ids
(the same ones on every replay), opens and closes items, and raises BadStream for what cannot be repaired. Nothing that
it returned before is taken back: what was said stays said.

Two ways to speak. A producer that names its items may interleave them. One that just gives text, reasoning and calls
continues the item at hand, and anything of another kind ends it (only data, files and usage pass by).
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
    """What all kinds share."""

    def __init__(self, item: str, message: str) -> None:
        self.id = item
        self.message = message
        self.pieces: list[str] = []
        self.started = False
        """Its start is held back until its first piece: an item that says nothing never was."""


class TextItem(_Item):
    """Words meant for the reader."""

    word: ClassVar = "text"
    prefix: ClassVar = "msg"
    delta: ClassVar = TextDelta
    annotations: tuple[Annotation, ...] = ()


class ReasoningItem(_Item):
    """A model's thinking."""

    word: ClassVar = "reasoning"
    prefix: ClassVar = "rs"
    delta: ClassVar = ReasoningDelta
    encrypted: str | None = None


class ToolItem(_Item):
    """A tool call; its pieces are those of its arguments."""

    word: ClassVar = "tool"
    prefix: ClassVar = "fc"
    delta: ClassVar = ToolDelta
    call_id: str = ""
    name: str = ""


Item = TextItem | ReasoningItem | ToolItem


def start_event(item: Item, seq: int) -> TextStarted | ReasoningStarted | ToolStarted:
    """The event that opens an item."""
    match item:
        case TextItem():
            return TextStarted(seq, item.id, item.message)
        case ReasoningItem():
            return ReasoningStarted(seq, item.id, item.message)
        case ToolItem():
            return ToolStarted(seq, item.id, item.message, item.call_id, item.name)
        case _:
            assert_never(item)


def end_event(item: Item, whole: str, seq: int) -> TextEnded | ReasoningEnded | ToolEnded:
    """The event that closes an item, with all that it said."""
    match item:
        case TextItem():
            return TextEnded(seq, item.id, whole, item.annotations)
        case ReasoningItem():
            return ReasoningEnded(seq, item.id, whole, item.encrypted)
        case ToolItem():
            return ToolEnded(seq, item.id, whole)
        case _:
            assert_never(item)


def is_valid_delta(given: TextDelta | ReasoningDelta | ToolDelta) -> bool:
    """Is there nothing in a delta to mend or to refuse? Its text is mended when it is added."""
    return type(given.delta) is str and type(given.item) is str and given.item.isascii()


def part_events(part: Part, message: str = "") -> Sequence[Event]:
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


OutputValue = Event | Part | Message | Usage
"""What a producer may give."""

_Kind = TypeVar("_Kind", bound=Item)


class _Misplaced(Exception):
    """Something that has no place in the stream; feed() says where it stood."""


class Grammar:
    """One run's stream."""

    def __init__(self, run_id: str, *, history: Sequence[Message] = ()) -> None:
        self.size = 0
        """Bytes said so far."""
        self.ending: TerminalEvent | None = None
        """How the run ends, where the producer itself said so or broke the stream."""
        self._seq = -1
        self._said: list[Event] = []  # Not handed out yet.
        self._fault: BadStream | None = None
        self._names = IdAllocator(run_id)
        self._open: dict[str, Item] = {}
        self._closed: dict[str, str] = {}  # Each with all that it said.
        self._at_hand: Item | None = None  # What pieces that name no item continue.
        self._flowing: TextItem | None = None  # The item at hand, if it is text and has started.
        self._calls: dict[str, Literal["asked", "made", "answered"]] = {}  # In the history, in this run, either.
        for message in history:
            for part in message.parts:
                if type(part) is ToolCall:
                    self._calls[truncate_id(part.call_id)] = "asked"
                elif type(part) is ToolResult:
                    self._calls[truncate_id(part.call_id)] = "answered"

    @property
    def count(self) -> int:
        """How many events there are so far."""
        return self._seq + 1

    def start(self, given: RunStarted) -> Sequence[Event]:
        """The first event."""
        self._seq = 0
        return (given if given.seq == 0 else msgspec.structs.replace(given, seq=0),)

    def text(self, delta: str) -> Sequence[Event]:
        """The events that one piece of text amounts to. The hot path: nothing here may cost more than it must."""
        item = self._flowing
        if item is None or not delta:
            if delta and self._at_hand is None and self._fault is None and self.ending is None:
                self._add(self._open_item(TextItem, "", ""), delta)  # As feed() would, on a shorter way.
                return self._handed_out()
            return self.feed(TextDelta(delta=delta))
        if delta.isascii():
            self.size += len(delta)
        else:
            delta = self._measured(delta)
        item.pieces.append(delta)
        self._seq = seq = self._seq + 1
        return (TextDelta(seq, item.id, delta),)

    def feed(self, given: OutputValue) -> Sequence[Event]:
        """The events that one value amounts to; raises BadStream, naming the place, for what has no place.

        A stream that broke stays broken. What the value said before it broke is handed out at the end.
        """
        if self._fault is not None:
            raise self._fault
        try:
            self._take(given)
        except _Misplaced as why:
            raise self._broken(given, str(why)) from None
        except json.NotJson as what:
            raise self._broken(given, f"it is {what}") from None
        return self._handed_out()

    def end(self, terminal: TerminalEvent, *, at: datetime | None = None) -> Sequence[Event]:
        """Close what is open, then the terminal event, with its time."""
        if self._open:
            for item in list(self._open.values()):
                self._close(item)
        if isinstance(terminal, RunFailed):
            terminal = _readable_failure(terminal)
        elif isinstance(terminal, RunFinished) and terminal.finish == "stop" and "made" in self._calls.values():
            terminal = msgspec.structs.replace(terminal, finish="tool-calls")
        self._seq += 1
        self.ending = last = msgspec.structs.replace(terminal, seq=self._seq, at=at or terminal.at)
        self._said.append(last)
        return self._handed_out()

    def _broken(self, given: OutputValue, why: str) -> BadStream:
        kind = type(given).__struct_config__.tag or type(given).__name__.lower()
        self._fault = BadStream(f"The workflow broke the stream after {self.count} events, at a {kind}: {why}.")
        self.ending = RunFailed(code=self._fault.code, message=self._fault.message)
        self._let_go()
        return self._fault

    # What is given

    def _take(self, given: OutputValue) -> None:
        if self.ending is not None:
            raise _Misplaced("the workflow had already ended its run")
        match given:
            case TextDelta() | ReasoningDelta() | ToolDelta():
                self._take_event(given if is_valid_delta(given) else json.round_trip(given))
            case Message():
                self._take_message(json.round_trip(given))
            case Usage():
                self._take_event(json.round_trip(UsageAdded(usage=given)))
            case Text() | Reasoning() | File() | ToolCall() | ToolResult() | Refusal() | Data():
                for event in part_events(json.round_trip(given)):
                    self._take_event(event)
            case _:
                self._take_event(json.round_trip(given))

    def _take_message(self, message: Message) -> None:
        """A message of its own: what came before it and what comes after belong to others."""
        self._let_go()
        self._names.end_message()
        for part in message.parts:
            for event in part_events(part, message.id or ""):
                self._take_event(event)
        self._let_go()
        self._names.end_message()

    def _take_event(self, given: Event) -> None:
        match given:
            case TextDelta():
                self._grow(TextItem, given.item, given.delta)
            case ReasoningDelta():
                self._grow(ReasoningItem, given.item, given.delta)
            case ToolDelta():
                self._grow(ToolItem, given.item, given.delta)
            case TextStarted(item=item, message=message):
                self._open_item(TextItem, item, message)
            case ReasoningStarted(item=item, message=message):
                self._open_item(ReasoningItem, item, message)
            case ToolStarted():
                self._open_call(given)
            case TextEnded(item=item, text=text, annotations=annotations):
                if last := self._last_said(TextItem, item, text):
                    last.annotations = annotations
                    self._count(annotations)
                    self._close(last)
            case ReasoningEnded(item=item, text=text, encrypted=encrypted):
                if last := self._last_said(ReasoningItem, item, text):
                    if encrypted:  # Reasoning that nobody may read is still reasoning.
                        last.encrypted = encrypted
                        self._count(encrypted)
                        self._say_start(last)
                    self._close(last)
            case ToolEnded(item=item, arguments=arguments):
                if last := self._last_said(ToolItem, item, arguments):
                    self._close(last)
            case ToolReturned():
                self._add_result(given)
            case PartAdded():
                self._add_part(given)
            case UsageAdded():
                self._say(given)
            case RunFinished() | RunFailed() | RunCancelled():
                self._let_go()
                self.ending = given
            case RunStarted():
                pass  # A remote's own start: ours has been said.
            case _:
                assert_never(given)

    def _add_part(self, given: PartAdded) -> None:
        match given.part:
            case File():
                prefix = "fil"
            case Data():
                prefix = "dat"
            case Refusal(text=text):
                if not text:
                    return  # Like any text that says nothing.
                prefix = "msg"
                self._let_go()
            case None:
                raise _Misplaced("it holds no file, refusal or data")
        message = self._names.message_for(given.message)
        item = self._named(given.item or self._names.new(prefix))
        self._closed[item] = ""
        self._count(given.part)
        self._say(PartAdded(item=item, message=message, part=given.part, transient=given.transient))

    def _add_result(self, given: ToolReturned) -> None:
        call_id = truncate_id(given.call_id)
        self._let_go()
        if still_open := self._open.get(truncate_id(f"fc_{call_id}")):
            self._close(still_open)
        match self._calls.get(call_id):
            case "asked" | "made":
                self._calls[call_id] = "answered"
            case "answered":
                raise _Misplaced(f"call {call_id!r} already has a result")
            case None:
                raise _Misplaced(f"no call {call_id!r} was made")
        item = self._names.item(f"fco_{call_id}") or self._named(self._names.new("fco"))
        self._closed[item] = ""
        for silent in [other for other in self._open.values() if not other.started]:
            # It would start after this result, in a message from before it; so it will be opened anew.
            del self._open[silent.id]
            self._names.forget_item(silent.id)
        message = self._names.result_message(given.message)
        self._count(given.output)
        self._say(msgspec.structs.replace(given, item=item, message=message, call_id=call_id))

    # Items that open, grow and close

    def _open_item(self, kind: type[_Kind], name: str, message: str) -> _Kind:
        self._let_go()
        message = self._names.message_for(message)
        if self._open:
            for other in [o for o in self._open.values() if isinstance(o, kind) and o.message == message]:
                self._close(other)
        if name:
            chosen = name
        elif kind is TextItem and not self._names.is_item(message):
            chosen = message  # The first text of a message has its id.
        else:
            chosen = self._names.new(kind.prefix)
        return self._opened(kind(self._named(chosen), message), name)

    def _open_call(self, given: ToolStarted) -> None:
        self._let_go()
        call_id = truncate_id(given.call_id) or self._names.new("call")
        item = self._names.call_item(call_id, given=given.item)
        if item is None:
            raise _Misplaced(f"call {call_id!r} was already made")
        call = ToolItem(item, self._names.message_for(given.message))
        call.call_id, call.name = call_id, given.name
        self._count(given.name)
        self._say_start(self._opened(call, given.item))  # A call without arguments is a call all the same.

    def _opened(self, item: _Kind, name: str) -> _Kind:
        self._open[item.id] = item
        if not name:
            self._at_hand = item
        return item

    def _grow(self, kind: type[_Kind], name: str, piece: str) -> None:
        if piece:
            self._add(self._find(kind, name), piece)

    def _add(self, item: Item, piece: str) -> None:
        if not item.started:
            self._say_start(item)
        piece = self._measured(piece)
        item.pieces.append(piece)
        self._seq += 1
        self._said.append(item.delta(self._seq, item.id, piece))
        if item is self._at_hand and isinstance(item, TextItem):
            self._flowing = item

    def _find(self, kind: type[_Kind], name: str) -> _Kind:
        """The open item that a piece belongs to, opened now if need be."""
        at_hand = self._at_hand
        if at_hand is not None and not isinstance(at_hand, kind):
            self._let_go()
        if not name:
            if isinstance(at_hand, kind):
                return at_hand
            if kind is ToolItem:
                raise _Misplaced("no call is open")
            return self._open_item(kind, "", "")
        key = self._key(kind, name)
        item = self._open.get(key)
        if isinstance(item, kind):
            return item
        if item is None and key not in self._closed and kind is not ToolItem:
            return self._open_item(kind, name, "")
        state = "is closed" if key in self._closed else "was never opened as such"
        raise _Misplaced(f"{kind.word} item {name!r} {state}")

    def _last_said(self, kind: type[_Kind], name: str, whole: str) -> _Kind | None:
        """The item that ends, grown by what its end says beyond its pieces; None if there is nothing to end."""
        closed = self._closed.get(self._key(kind, name)) if name else None
        if closed is not None:
            if whole and whole != closed:
                raise _Misplaced("its end contradicts what was streamed")
            return None  # Something else ended it before.
        if not name and not whole and not isinstance(self._at_hand, kind):
            return None
        item = self._find(kind, name)
        said = "".join(item.pieces)
        if whole and not whole.startswith(said):
            raise _Misplaced("its end contradicts what was streamed")
        if rest := whole[len(said) :]:
            self._add(item, rest)
        return item

    def _close(self, item: Item) -> None:
        whole = "".join(item.pieces)
        del self._open[item.id]
        self._closed[item.id] = whole
        if item is self._at_hand:
            self._at_hand = self._flowing = None
        if isinstance(item, ToolItem):
            self._calls[item.call_id] = "made"
        if item.started:
            self._seq += 1
            self._said.append(end_event(item, whole, self._seq))

    def _let_go(self) -> None:
        """End the item that unnamed pieces were continuing."""
        if self._at_hand is not None:
            self._close(self._at_hand)

    def _key(self, kind: type[Item], name: str) -> str:
        return self._names.called(name) if kind is ToolItem else truncate_id(name)

    def _named(self, name: str) -> str:
        item = self._names.item(name)
        if item is None:
            raise _Misplaced(f"item {name!r} was already opened")
        return item

    # Events

    def _say_start(self, item: Item) -> None:
        if not item.started:
            item.started = True
            self._seq += 1
            self._said.append(start_event(item, self._seq))

    def _say(self, event: Event) -> None:
        self._seq += 1
        self._said.append(msgspec.structs.replace(event, seq=self._seq))

    def _handed_out(self) -> Sequence[Event]:
        said, self._said = self._said, []
        return said

    def _count(self, value: object) -> None:
        self.size += len(json.encode(value)) if value else 0

    def _measured(self, text: str) -> str:
        """The text, mended and counted."""
        if text.isascii():
            self.size += len(text)
            return text
        text = json.replace_surrogates(text)
        self.size += len(text.encode())
        return text


def _readable_failure(terminal: RunFailed) -> RunFailed:
    """A failure as it can be read: an author's may hold anything in its details."""
    try:
        return json.round_trip(terminal)
    except json.NotJson as why:
        return RunFailed(code=BadStream.code, message=f"The workflow failed with {why}.", at=terminal.at)
