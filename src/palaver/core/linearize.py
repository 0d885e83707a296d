"""Linear: a stream in which at most one item is open, for protocols whose clients cannot take interleaved ones.

At the waist items may interleave. Some clients drop the text of an id once anything else was shown in between, and some
mix up argument pieces that alternate between calls. So, before such an encoder:

- while a tool call is open, everything else waits for its end, in order;
- a call, a result, a refusal, an approval, or anything else of the same message ends an open text or reasoning at once;
  what it says later becomes a new item, `{id}.2`, `{id}.3` …;
- text and reasoning of another message wait until the open one ends;
- data, files and usage pass at once, and end nothing.

A sync machine behind the grammar's: it is given lawful streams only. What it gives keeps the `seq` it came with.
"""

from collections.abc import Iterable, Sequence
from typing import assert_never, cast

from msgspec.structs import replace

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
    TextDelta,
    TextEnded,
    TextStarted,
    ToolDelta,
    ToolEnded,
    ToolReturned,
    ToolStarted,
    UsageAdded,
)
from palaver.core.ids import truncate_id
from palaver.core.messages import APPROVAL_REQUEST, Annotation, Data, File

_Start = TextStarted | ReasoningStarted
_Piece = TextDelta | ReasoningDelta
_End = TextEnded | ReasoningEnded
_Turn = _Start | _Piece | ToolStarted | ToolReturned | PartAdded
"""What begins something, or begins it anew."""


class _Open:
    """The one item that is open."""

    __slots__ = ("is_text", "name", "pieces", "source")

    def __init__(self, source: str, name: str, *, is_text: bool) -> None:
        self.source = source
        self.name = name
        self.is_text = is_text
        self.pieces: list[str] = []


class Linearizer:
    """Events in, events out, one voice at a time."""

    def __init__(self) -> None:
        self.flowing: str | None = None
        """The text item whose pieces pass as they are; who appends them to `pieces` may pass them by itself."""
        self.pieces: list[str] = []
        self._open: _Open | None = None  # Text or reasoning,
        self._tool: str | None = None  # or a call.
        self._waiting: dict[str, list[Event]] = {}  # By item, in order of start, all that it said meanwhile.
        self._releasing = False
        self._messages: dict[str, str] = {}  # The message of each text and reasoning that has not ended,
        self._said: dict[str, int] = {}  # and how much of it stands in items that were ended early.
        self._taken: dict[str, int] = {}  # Names, with how many were made of each.

    def feed(self, event: Event) -> Sequence[Event]:
        """What can be said now."""
        if type(event) is TextDelta and event.item == self.flowing:
            self.pieces.append(event.delta)
            return (event,)
        out: list[Event] = []
        self._take(event, out)
        return out

    def _take(self, event: Event, out: list[Event]) -> None:
        match event:
            case TextDelta() | ReasoningDelta() | ToolDelta() | TextEnded() | ReasoningEnded() | ToolEnded():
                if event.item in self._waiting:
                    self._waiting[event.item].append(event)
                else:
                    self._go_on(event, out)
            case TextStarted() | ReasoningStarted():
                self._messages[event.item] = event.message
                if self._has_turn(event, out):
                    self._speak(event, out)
            case ToolStarted():
                if self._has_turn(event, out):
                    self._tool = event.item
                    out.append(event)
            case ToolReturned():
                if self._has_turn(event, out):
                    out.append(event)
            case PartAdded(part=part):
                passes = isinstance(part, File) or (isinstance(part, Data) and part.name != APPROVAL_REQUEST)
                if passes or self._has_turn(event, out):
                    out.append(event)
            case UsageAdded() | RunStarted() | RunFinished() | RunFailed() | RunCancelled():
                out.append(event)  # The grammar has ended everything before a terminal event.
            case _:
                assert_never(event)

    def _go_on(self, event: _Piece | _End | ToolDelta | ToolEnded, out: list[Event]) -> None:
        """Continue or end an item that has had its turn."""
        match event:
            case TextDelta() | ReasoningDelta():
                if self._open is not None and self._open.source == event.item:
                    self._add(self._open, event, out)
                elif self._has_turn(event, out):  # It was ended early and goes on.
                    self._speak(event, out)
            case TextEnded() | ReasoningEnded():
                self._end(event, out)
            case ToolDelta():
                out.append(event)
            case ToolEnded():
                out.append(event)
                self._tool = None
                self._release(out)

    # Whose turn it is

    def _has_turn(self, event: _Turn, out: list[Event]) -> bool:
        """May it be said now? If so, all else has been ended; if not, it waits."""
        while self._may_speak(event):
            if self._open is None:
                return True
            self._stop(event.seq, out)
            self._release(out)  # What waited was there first; it may be speaking now, or be a call.
        self._waiting[event.item] = [event]
        return False

    def _may_speak(self, event: _Turn) -> bool:
        if self._tool is not None:
            return False
        if self._open is None or isinstance(event, ToolStarted | ToolReturned | PartAdded):
            return True
        return self._messages[self._open.source] == self._messages[event.item]

    def _release(self, out: list[Event]) -> None:
        """Let those speak who waited, in order, as long as each may."""
        if self._releasing:
            return
        self._releasing = True
        while self._waiting:
            item, unit = next(iter(self._waiting.items()))
            if not self._may_speak(cast("_Turn", unit[0])):
                break
            del self._waiting[item]
            for event in unit:
                self._take(event, out)
        self._releasing = False

    # Text and reasoning

    def _speak(self, event: _Start | _Piece, out: list[Event]) -> None:
        source, is_text = event.item, isinstance(event, TextStarted | TextDelta)
        item = self._open = _Open(source, self._named(source), is_text=is_text)
        out.append((TextStarted if is_text else ReasoningStarted)(event.seq, item.name, self._messages[source]))
        if is_text and item.name == source:
            self.flowing, self.pieces = source, item.pieces
        if isinstance(event, TextDelta | ReasoningDelta):
            self._add(item, event, out)

    def _add(self, item: _Open, event: _Piece, out: list[Event]) -> None:
        item.pieces.append(event.delta)
        out.append(event if item.name == event.item else replace(event, item=item.name))

    def _end(self, event: _End, out: list[Event]) -> None:
        said = self._said.pop(event.item, 0)
        item = self._open
        if item is not None and item.source == event.item:
            ended = replace(event, item=item.name, text=event.text[said:])
            if isinstance(ended, TextEnded) and said:
                ended = replace(ended, annotations=tuple(_shifted(note, said) for note in ended.annotations))
            out.append(ended)
            self._open = self.flowing = None
            self._release(out)
        del self._messages[event.item]

    def _stop(self, seq: int, out: list[Event]) -> None:
        """End what is being said before its time."""
        item = self._open
        assert item is not None
        text = "".join(item.pieces)
        self._said[item.source] = self._said.get(item.source, 0) + len(text)
        out.append((TextEnded if item.is_text else ReasoningEnded)(seq, item.name, text))
        self._open = self.flowing = None

    def _named(self, source: str) -> str:
        """Its own name if that is free, else the next one made of it."""
        name, number = source, self._taken.get(source, 1)
        while name in self._taken:
            number += 1
            name = truncate_id(f"{source}.{number}")
        self._taken[source] = number
        self._taken.setdefault(name, 1)
        return name


def linearize(events: Iterable[Event]) -> list[Event]:
    """A whole stream made linear."""
    machine = Linearizer()
    return [said for event in events for said in machine.feed(event)]


def _shifted(note: Annotation, by: int) -> Annotation:
    """The note, counted from where this item began."""
    start = None if note.start is None else max(note.start - by, 0)
    return replace(note, start=start, end=None if note.end is None else max(note.end - by, 0))
