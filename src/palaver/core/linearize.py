"""Reorder a stream so that at most one item is open, for protocols whose clients cannot handle interleaved items.

In the core data model items may interleave. Some clients drop the text of an id once anything else was shown in
between, and some mix up argument pieces that alternate between calls. The rules:

- while a tool call is open, everything else waits for its end, in order;
- a call, a result, a refusal, an approval, or anything else of the same message ends an open text or reasoning at once;
  its later deltas become a new item, `{id}.2`, `{id}.3` …;
- text and reasoning of another message wait until the open one ends;
- data, files and usage pass through at once.

A sync state machine that expects the grammar's output. Events keep their `seq`.
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
_Opening = _Start | _Piece | ToolStarted | ToolReturned | PartAdded
"""Events that start an item, or restart one that was ended early."""


class _Open:
    __slots__ = ("is_text", "name", "pieces", "source")

    def __init__(self, source: str, name: str, *, is_text: bool) -> None:
        self.source = source
        self.name = name
        self.is_text = is_text
        self.pieces: list[str] = []


class Linearizer:
    """Events in, events out, with one open item at a time."""

    def __init__(self) -> None:
        self.flowing: str | None = None
        """The text item whose deltas pass unchanged. Callers may append them to `pieces` and bypass `feed`."""
        self.pieces: list[str] = []
        self._open: _Open | None = None  # Text or reasoning,
        self._tool: str | None = None  # or a call.
        self._queued: dict[str, list[Event]] = {}  # By item, in order of start, its events since.
        self._releasing = False
        self._messages: dict[str, str] = {}  # The message of each text and reasoning that has not ended,
        self._sent_early: dict[str, int] = {}  # and how many characters are in items that were ended early.
        self._used_ids: dict[str, int] = {}  # Item ids in use, with the number of ids derived from each.

    def feed(self, event: Event) -> Sequence[Event]:
        """Return the events that can be sent now."""
        if type(event) is TextDelta and event.item == self.flowing:
            self.pieces.append(event.delta)
            return (event,)
        out: list[Event] = []
        self._process(event, out)
        return out

    def _process(self, event: Event, out: list[Event]) -> None:
        match event:
            case TextDelta() | ReasoningDelta() | ToolDelta() | TextEnded() | ReasoningEnded() | ToolEnded():
                if event.item in self._queued:
                    self._queued[event.item].append(event)
                else:
                    self._continue_item(event, out)
            case TextStarted() | ReasoningStarted():
                self._messages[event.item] = event.message
                if self._can_send(event, out):
                    self._start_item(event, out)
            case ToolStarted():
                if self._can_send(event, out):
                    self._tool = event.item
                    out.append(event)
            case ToolReturned():
                if self._can_send(event, out):
                    out.append(event)
            case PartAdded(part=part):
                passes = isinstance(part, File) or (isinstance(part, Data) and part.name != APPROVAL_REQUEST)
                if passes or self._can_send(event, out):
                    out.append(event)
            case UsageAdded() | RunStarted() | RunFinished() | RunFailed() | RunCancelled():
                out.append(event)  # The grammar has ended everything before a terminal event.
            case _:
                assert_never(event)

    def _continue_item(self, event: _Piece | _End | ToolDelta | ToolEnded, out: list[Event]) -> None:
        match event:
            case TextDelta() | ReasoningDelta():
                if self._open is not None and self._open.source == event.item:
                    self._add(self._open, event, out)
                elif self._can_send(event, out):  # It was ended early and continues.
                    self._start_item(event, out)
            case TextEnded() | ReasoningEnded():
                self._end(event, out)
            case ToolDelta():
                out.append(event)
            case ToolEnded():
                out.append(event)
                self._tool = None
                self._release(out)

    # Order

    def _can_send(self, event: _Opening, out: list[Event]) -> bool:
        """Whether the event can be sent now, after ending everything else. If not, it is queued."""
        while self._is_allowed(event):
            if self._open is None:
                return True
            self._end_early(event.seq, out)
            self._release(out)  # Queued items come first; one of them may be open now, or be a call.
        self._queued[event.item] = [event]
        return False

    def _is_allowed(self, event: _Opening) -> bool:
        if self._tool is not None:
            return False
        if self._open is None or isinstance(event, ToolStarted | ToolReturned | PartAdded):
            return True
        return self._messages[self._open.source] == self._messages[event.item]

    def _release(self, out: list[Event]) -> None:
        """Send queued items in order, as long as each is allowed."""
        if self._releasing:
            return
        self._releasing = True
        while self._queued:
            item, unit = next(iter(self._queued.items()))
            if not self._is_allowed(cast("_Opening", unit[0])):
                break
            del self._queued[item]
            for event in unit:
                self._process(event, out)
        self._releasing = False

    # Text and reasoning

    def _start_item(self, event: _Start | _Piece, out: list[Event]) -> None:
        source, is_text = event.item, isinstance(event, TextStarted | TextDelta)
        item = self._open = _Open(source, self._unique_id(source), is_text=is_text)
        out.append((TextStarted if is_text else ReasoningStarted)(event.seq, item.name, self._messages[source]))
        if is_text and item.name == source:
            self.flowing, self.pieces = source, item.pieces
        if isinstance(event, TextDelta | ReasoningDelta):
            self._add(item, event, out)

    def _add(self, item: _Open, event: _Piece, out: list[Event]) -> None:
        item.pieces.append(event.delta)
        out.append(event if item.name == event.item else replace(event, item=item.name))

    def _end(self, event: _End, out: list[Event]) -> None:
        sent = self._sent_early.pop(event.item, 0)
        item = self._open
        if item is not None and item.source == event.item:
            end_event = replace(event, item=item.name, text=event.text[sent:])
            if isinstance(end_event, TextEnded) and sent:
                end_event = replace(
                    end_event, annotations=tuple(_shift_annotation(note, sent) for note in end_event.annotations)
                )
            out.append(end_event)
            self._open = self.flowing = None
            self._release(out)
        del self._messages[event.item]

    def _end_early(self, seq: int, out: list[Event]) -> None:
        item = self._open
        assert item is not None
        text = "".join(item.pieces)
        self._sent_early[item.source] = self._sent_early.get(item.source, 0) + len(text)
        out.append((TextEnded if item.is_text else ReasoningEnded)(seq, item.name, text))
        self._open = self.flowing = None

    def _unique_id(self, source: str) -> str:
        """Return `source` if that id is free, else the next id derived from it."""
        name, number = source, self._used_ids.get(source, 1)
        while name in self._used_ids:
            number += 1
            name = truncate_id(f"{source}.{number}")
        self._used_ids[source] = number
        self._used_ids.setdefault(name, 1)
        return name


def linearize(events: Iterable[Event]) -> list[Event]:
    """Linearize a whole stream."""
    machine = Linearizer()
    return [event_out for event in events for event_out in machine.feed(event)]


def _shift_annotation(note: Annotation, by: int) -> Annotation:
    """Return the note with offsets relative to the start of this item."""
    start = None if note.start is None else max(note.start - by, 0)
    return replace(note, start=start, end=None if note.end is None else max(note.end - by, 0))
