"""The grammar: makes a lawful stream of events out of what a producer gives.

A sync machine, fed one value at a time; it knows no clock, no socket and no store. It numbers the events, makes the ids
(the same ones on every replay), opens and closes items, and raises BadStream for what cannot be repaired. Nothing that
it returned before is taken back: what was said stays said.

Two ways to speak. A producer that names its items may interleave them. One that just gives text, reasoning and calls
continues the item at hand, and anything of another kind ends it (only data, files and usage pass by).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, assert_never

import msgspec

from palaver.core import jsons
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
    Terminal,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolDelta,
    ToolEnded,
    ToolReturned,
    ToolStarted,
    UsageAdded,
)
from palaver.core.ids import bounded
from palaver.core.messages import Message
from palaver.core.naming import Names
from palaver.core.parts import Annotation, Data, File, Part, Reasoning, Refusal, Text, ToolCall, ToolResult
from palaver.core.usage import Usage
from palaver.errors import BadStream

Given = Event | Part | Message | Usage
"""What a producer may give."""


class _Kind(NamedTuple):
    """How one kind of item is called."""

    name: str
    prefix: str
    started: type[TextStarted] | type[ReasoningStarted] | type[ToolStarted]
    delta: type[TextDelta] | type[ReasoningDelta] | type[ToolDelta]


_TEXT = _Kind("text", "msg", TextStarted, TextDelta)
_REASONING = _Kind("reasoning", "rs", ReasoningStarted, ReasoningDelta)
_TOOL = _Kind("tool", "fc", ToolStarted, ToolDelta)


class _Open:
    """An item between its start and its end."""

    __slots__ = ("call_id", "id", "kind", "message", "name", "pieces", "said")

    def __init__(self, kind: _Kind, item: str, message: str, *, call_id: str = "", name: str = "") -> None:
        self.kind = kind
        self.id = item
        self.message = message
        self.call_id = call_id
        self.name = name
        self.pieces: list[str] = []
        self.said = False  # Its start is held back until its first delta: an item that says nothing never was.


class Grammar:
    """One run's stream."""

    def __init__(self, run_id: str, *, history: Sequence[Message] = ()) -> None:
        self.size = 0
        """Bytes said so far."""
        self.ending: Terminal | None = None
        """How the producer itself said that the run ends."""
        self._seq = -1
        self._names = Names(run_id)
        self._items: dict[str, _Open] = {}
        self._closed: set[str] = set()
        self._at_hand: _Open | None = None
        self._answered = {result.call_id for message in history for result in message.tool_results}
        self._waiting = {call.call_id for message in history for call in message.tool_calls} - self._answered
        self._own_calls: set[str] = set()
        self._call_items: dict[str, str] = {}  # What a producer calls an open call -> its item.

    @property
    def count(self) -> int:
        """How many events there are so far."""
        return self._seq + 1

    def start(self, given: RunStarted) -> Sequence[Event]:
        """The first event."""
        return [self._numbered(given)]

    def text(self, delta: str) -> Sequence[Event]:
        """The events that one piece of text amounts to. The hot path: nothing here may cost more than it must."""
        item = self._at_hand
        if item is None or item.kind is not _TEXT or not delta.isascii() or not delta:
            return self._piece(_TEXT, "", delta)
        item.pieces.append(delta)
        self.size += len(delta)
        self._seq = seq = self._seq + 1
        return (TextDelta(seq, item.id, delta),)

    def feed(self, given: Given) -> Sequence[Event]:
        """The events that one value amounts to; raises BadStream, naming the place, for what has no place."""
        if self.ending is not None:
            raise self._bad(given, "the workflow had already ended its run")
        match given:
            case TextDelta(item=item, delta=delta):
                return self._piece(_TEXT, item, delta)
            case ReasoningDelta(item=item, delta=delta):
                return self._piece(_REASONING, item, delta)
            case ToolDelta(item=item, delta=delta):
                return self._piece(_TOOL, item, delta)
            case TextStarted(item=item, message=message):
                return self._open(_TEXT, item, message)
            case ReasoningStarted(item=item, message=message):
                return self._open(_REASONING, item, message)
            case ToolStarted():
                return self._open_call(given)
            case TextEnded(item=item, text=text, annotations=annotations):
                return self._end_item(_TEXT, item, text, annotations=annotations)
            case ReasoningEnded(item=item, text=text, encrypted=encrypted):
                return self._end_item(_REASONING, item, text, encrypted=encrypted)
            case ToolEnded(item=item, arguments=arguments):
                return self._end_item(_TOOL, item, arguments)
            case _:
                return self._feed_whole(given)

    def end(self, terminal: Terminal) -> Sequence[Event]:
        """Close what is open, then the terminal event."""
        events = [event for item in list(self._items.values()) for event in self._close(item)]
        if isinstance(terminal, RunFinished) and terminal.finish == "stop" and self._waiting & self._own_calls:
            terminal = msgspec.structs.replace(terminal, finish="tool-calls")
        return [*events, self._numbered(terminal)]

    # What comes whole

    def _feed_whole(self, given: Given) -> Sequence[Event]:
        match given:
            case Message():
                return self._message_whole(given)
            case Text(text=text, annotations=annotations):
                opening = self._open(_TEXT, "", "")
                return [*opening, *self._end_item(_TEXT, "", text, annotations=annotations)]
            case Reasoning(text=text, encrypted=encrypted):
                opening = self._open(_REASONING, "", "")
                return [*opening, *self._end_item(_REASONING, "", text, encrypted=encrypted)]
            case ToolCall(call_id=call_id, name=name, arguments=arguments):
                opening = self._open_call(ToolStarted(call_id=call_id, name=name))
                return [*opening, *self._piece(_TOOL, "", arguments), *self._end_item(_TOOL, "", "")]
            case ToolResult(call_id=call_id, output=output, is_error=is_error):
                return self._result(ToolReturned(call_id=call_id, output=output, is_error=is_error))
            case ToolReturned():
                return self._result(given)
            case File() | Refusal() | Data():
                return self._part(PartAdded(part=given))
            case PartAdded():
                return self._part(given)
            case Usage():
                return [self._numbered(UsageAdded(usage=given))]
            case UsageAdded():
                return [self._numbered(given)]
            case RunFinished() | RunFailed() | RunCancelled():
                self.ending = given
                return ()
            case RunStarted():
                return ()  # A remote's own start: ours has been said.
            case TextDelta() | ReasoningDelta() | ToolDelta() | TextStarted() | ReasoningStarted():
                raise AssertionError(given)  # feed() has dealt with them.
            case ToolStarted() | TextEnded() | ReasoningEnded() | ToolEnded():
                raise AssertionError(given)
            case _:
                assert_never(given)

    def _message_whole(self, message: Message) -> Sequence[Event]:
        events = [*self._let_go()]
        self._names.end_message()
        if message.id:
            self._names.message_for(message.id)
        for part in message.parts:
            events += self._feed_whole(part)
        events += self._let_go()
        self._names.end_message()
        return events

    def _part(self, given: PartAdded) -> Sequence[Event]:
        part = given.part
        match part:
            case Data(name=name, value=value):
                part = Data(name=self._string(given, name), value=self._json(given, value))
                prefix, events = "dat", ()
            case File():
                self.size += len(part.data or "")
                prefix, events = "fil", ()
            case Refusal(text=text):
                part = Refusal(text=self._clean(text))
                prefix, events = "msg", self._let_go()
            case _:
                raise self._bad(given, "it holds no file, refusal or data")
        message = self._names.message_for(given.message)
        item = self._unused(given, given.item) if given.item else self._names.new(prefix)
        self._closed.add(item)
        added = PartAdded(item=item, message=message, part=part, transient=given.transient)
        return [*events, self._numbered(added)]

    def _result(self, given: ToolReturned) -> Sequence[Event]:
        call_id = bounded(self._string(given, given.call_id))
        still_open = self._items.get(bounded(f"fc_{call_id}"))
        events = [*self._let_go(), *(self._close(still_open) if still_open else ())]
        if call_id not in self._waiting:
            again = call_id in self._answered
            raise self._bad(given, f"call {call_id!r} already has a result" if again else f"no call {call_id!r} was made")
        self._waiting.remove(call_id)
        self._answered.add(call_id)
        message = self._names.result_message(given.message)
        item = bounded(f"fco_{call_id}")
        output = self._json(given, given.output)
        returned = ToolReturned(item=item, message=message, call_id=call_id, output=output, is_error=given.is_error)
        return [*events, self._numbered(returned)]

    # Items that open, grow and close

    def _open(self, kind: _Kind, item: str, message: str) -> Sequence[Event]:
        events = [*self._let_go()]
        message = self._names.message_for(message)
        for other in [o for o in self._items.values() if o.kind is kind and o.message == message]:
            events += self._close(other)
        opened = _Open(kind, self._item_id(kind, item, message), message)
        self._items[opened.id] = opened
        if not item:
            self._at_hand = opened
        return events

    def _open_call(self, given: ToolStarted) -> Sequence[Event]:
        events = [*self._let_go()]
        call_id = bounded(self._string(given, given.call_id)) or self._names.new("call")
        item = bounded(f"fc_{call_id}")
        if item in self._items or item in self._closed or call_id in self._answered | self._waiting:
            raise self._bad(given, f"call {call_id!r} was already made")
        message = self._names.message_for(given.message)
        opened = _Open(_TOOL, item, message, call_id=call_id, name=self._string(given, given.name))
        self._items[item] = opened
        if given.item:
            self._call_items[given.item] = item  # Named calls may grow side by side.
        else:
            self._at_hand = opened
        return [*events, *self._say_start(opened)]  # A call without arguments is a call all the same.

    def _piece(self, kind: _Kind, item: str, delta: str) -> Sequence[Event]:
        if not self._string(kind.delta(delta=delta), delta):
            return ()
        delta = self._clean(delta)
        opened, events = self._find(kind, item)
        events = [*events, *self._say_start(opened)]
        opened.pieces.append(delta)
        self._seq += 1
        events.append(kind.delta(self._seq, opened.id, delta))
        return events

    def _find(self, kind: _Kind, item: str) -> tuple[_Open, Sequence[Event]]:
        """The open item that a piece belongs to, opened now if need be."""
        if not item:
            at_hand = self._at_hand
            if at_hand is not None and at_hand.kind is kind:
                return at_hand, ()
            if kind is _TOOL:
                raise self._bad(ToolDelta(), "no call is open")
            events = self._open(kind, "", "")
            assert self._at_hand is not None
            return self._at_hand, events
        key = self._call_item(item) if kind is _TOOL else bounded(item)
        opened = self._items.get(key)
        if opened is not None and opened.kind is kind:
            return opened, ()
        if opened is None and key not in self._closed and kind is not _TOOL:
            events = self._open(kind, item, "")
            return self._items[key], events
        state = "is closed" if key in self._closed else "was never opened as such"
        raise self._bad(kind.delta(item=item), f"{kind.name} item {item!r} {state}")

    def _end_item(
        self, kind: _Kind, item: str, whole: str, *, annotations: tuple[Annotation, ...] = (), encrypted: str | None = None
    ) -> Sequence[Event]:
        """Close an item. What its end says beyond its pieces is one more piece; what contradicts them is bad."""
        if not item and not whole and (self._at_hand is None or self._at_hand.kind is not kind):
            return ()
        opened, opening = self._find(kind, item)
        events = [*opening]
        said = "".join(opened.pieces)
        whole = self._clean(whole, counted=False)
        if whole and not whole.startswith(said):
            raise self._bad(kind.delta(item=opened.id), "its end contradicts what was streamed")
        if whole and kind is _TOOL and not said:
            opened.pieces.append(whole)  # Arguments may come whole; then there is no delta to tell.
            self.size += len(whole)
        elif rest := whole[len(said) :]:
            events += self._say_start(opened)
            events += self._piece(kind, opened.id, rest)
        if encrypted and not opened.said:
            events += self._say_start(opened)  # Reasoning that nobody may read is still reasoning.
        return [*events, *self._close(opened, annotations=annotations, encrypted=encrypted)]

    def _say_start(self, item: _Open) -> Sequence[Event]:
        if item.said:
            return ()
        item.said = True
        if item.kind is _TOOL:
            started = ToolStarted(item=item.id, message=item.message, call_id=item.call_id, name=item.name)
        else:
            started = item.kind.started(item=item.id, message=item.message)
        return [self._numbered(started)]

    def _close(
        self, item: _Open, *, annotations: tuple[Annotation, ...] = (), encrypted: str | None = None
    ) -> Sequence[Event]:
        del self._items[item.id]
        self._closed.add(item.id)
        if self._at_hand is item:
            self._at_hand = None
        if not item.said:
            return ()
        whole = "".join(item.pieces)
        if item.kind is _TEXT:
            return [self._numbered(TextEnded(item=item.id, text=whole, annotations=annotations))]
        if item.kind is _REASONING:
            return [self._numbered(ReasoningEnded(item=item.id, text=whole, encrypted=encrypted))]
        self._waiting.add(item.call_id)
        self._own_calls.add(item.call_id)
        return [self._numbered(ToolEnded(item=item.id, arguments=whole))]

    def _let_go(self) -> Sequence[Event]:
        """End the item that unnamed pieces were continuing."""
        return self._close(self._at_hand) if self._at_hand is not None else ()

    # Ids

    def _item_id(self, kind: _Kind, given: str, message: str) -> str:
        """The producer's own id; else the message's, for its first text; else a new one."""
        if given:
            return self._unused(kind.started(), given)
        if kind is _TEXT and message not in self._items and message not in self._closed:
            return message
        return self._names.new(kind.prefix)

    def _call_item(self, given: str) -> str:
        """A call answers to the name its producer gave it, to its item (fc_…) and to its call id."""
        item = self._call_items.get(given) or bounded(given)
        return item if item in self._items or item in self._closed else bounded(f"fc_{given}")

    def _unused(self, given: Event, item: str) -> str:
        item = bounded(self._string(given, item))
        if item in self._items or item in self._closed:
            raise self._bad(given, f"item {item!r} was already opened")
        return item

    # Values

    def _numbered(self, event: Any) -> Event:
        self._seq += 1
        return msgspec.structs.replace(event, seq=self._seq)

    def _clean(self, text: str, *, counted: bool = True) -> str:
        if not text.isascii():
            text = jsons.whole_text(text)
        if counted:
            self.size += len(text.encode())
        return text

    def _json(self, given: Given, value: Any) -> Any:
        try:
            value = jsons.plain(value)
        except jsons.NotJson as error:
            raise self._bad(given, f"the workflow gave {error}") from None
        self.size += len(jsons.encode(value))
        return value

    def _string(self, given: Given, value: Any) -> str:
        if not isinstance(value, str):
            raise self._bad(given, f"the workflow gave a {type(value).__name__} where text belongs")
        return value

    def _bad(self, given: Given, why: str) -> BadStream:
        config = type(given).__struct_config__
        kind = config.tag or type(given).__name__.lower()
        return BadStream(f"The workflow broke the stream after {self.count} events, at a {kind}: {why}.")
