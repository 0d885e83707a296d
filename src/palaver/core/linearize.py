"""Reorder a stream so that at most one item is open, for protocols whose clients cannot handle interleaved items.

In the core data model items may interleave. Some clients drop the text of an id once anything else was shown in
between, and some mix up argument pieces that alternate between calls. The rules:

- while a tool call is open, everything else waits for its end, in order;
- a call, a result, a refusal, an approval, or anything else of the same message ends an open text or reasoning at once;
  its later deltas become a new item, `{id}.2`, `{id}.3` …;
- text and reasoning of another message wait until the open one ends;
- data, files and usage pass through at once.

Calls for which `overlaps` is true (see Linearizer) are an exception: nothing waits for their end.

A synchronous state machine. Its input must be valid, as `core.grammar` produces it. Events keep their `seq`.
"""

from collections.abc import Callable, Iterable, Sequence
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


class _OpenItem:
    __slots__ = ("is_text", "item_id", "pieces", "sent_id")

    def __init__(self, item_id: str, sent_id: str, *, is_text: bool) -> None:
        self.item_id = item_id  # The id in the input.
        self.sent_id = sent_id  # The id in the output.
        self.is_text = is_text
        self.pieces: list[str] = []


OverlapPredicate = Callable[[ToolStarted], bool]
"""Whether other items may start while this call is open."""


class Linearizer:
    """Reorders and splits events so that one item is open at a time, apart from overlapping calls."""

    def __init__(self, overlaps: OverlapPredicate | None = None) -> None:
        self._overlaps = overlaps
        self.passthrough_item: str | None = None
        """The text item whose deltas pass unchanged. Callers may append them to `pieces` and bypass `feed`."""
        self.pieces: list[str] = []
        self._open: _OpenItem | None = None  # The open text or reasoning item.
        self._tool: str | None = None  # The id of the open tool call. At most one of both is set.
        self._queued: dict[str, list[Event]] = {}  # Waiting events by item id, in the order in which the items started.
        self._releasing = False
        self._messages: dict[str, str] = {}  # Message id by item id, for text and reasoning that has not ended.
        self._sent_early: dict[str, int] = {}  # Number of characters sent in items that were ended early.
        self._used_ids: dict[str, int] = {}  # Item ids in use, with the number of ids derived from each.

    def feed(self, event: Event) -> Sequence[Event]:
        """Return the events that can be sent now."""
        if type(event) is TextDelta and event.item == self.passthrough_item:
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
                if self._prepare_or_queue(event, out):
                    self._start_item(event, out)
            case ToolStarted():
                if self._prepare_or_queue(event, out):
                    if self._overlaps is None or not self._overlaps(event):
                        self._tool = event.item
                    out.append(event)
            case ToolReturned():
                if self._prepare_or_queue(event, out):
                    out.append(event)
            case PartAdded(part=part):
                is_passed_through = isinstance(part, File) or (isinstance(part, Data) and part.name != APPROVAL_REQUEST)
                if is_passed_through or self._prepare_or_queue(event, out):
                    out.append(event)
            case UsageAdded() | RunStarted() | RunFinished() | RunFailed() | RunCancelled():
                out.append(event)  # The grammar has ended everything before a terminal event.
            case _:
                assert_never(event)

    def _continue_item(self, event: _Piece | _End | ToolDelta | ToolEnded, out: list[Event]) -> None:
        match event:
            case TextDelta() | ReasoningDelta():
                if self._open is not None and self._open.item_id == event.item:
                    self._add(self._open, event, out)
                elif self._prepare_or_queue(event, out):  # It was ended early and continues.
                    self._start_item(event, out)
            case TextEnded() | ReasoningEnded():
                self._end(event, out)
            case ToolDelta():
                out.append(event)
            case ToolEnded():
                out.append(event)
                if self._tool == event.item:
                    self._tool = None
                    self._release(out)

    # Order

    def _prepare_or_queue(self, event: _Opening, out: list[Event]) -> bool:
        """End the open item and release queued ones. If the event must still wait, queue it and return False."""
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
        return self._messages[self._open.item_id] == self._messages[event.item]

    def _release(self, out: list[Event]) -> None:
        """Send queued items in order, as long as each is allowed."""
        if self._releasing:
            return
        self._releasing = True
        while self._queued:
            item, waiting_events = next(iter(self._queued.items()))
            if not self._is_allowed(cast("_Opening", waiting_events[0])):
                break
            del self._queued[item]
            for event in waiting_events:
                self._process(event, out)
        self._releasing = False

    # Text and reasoning

    def _start_item(self, event: _Start | _Piece, out: list[Event]) -> None:
        item_id, is_text = event.item, isinstance(event, TextStarted | TextDelta)
        item = self._open = _OpenItem(item_id, self._unique_id(item_id), is_text=is_text)
        out.append((TextStarted if is_text else ReasoningStarted)(event.seq, item.sent_id, self._messages[item_id]))
        if is_text and item.sent_id == item_id:
            self.passthrough_item, self.pieces = item_id, item.pieces
        if isinstance(event, TextDelta | ReasoningDelta):
            self._add(item, event, out)

    def _add(self, item: _OpenItem, event: _Piece, out: list[Event]) -> None:
        item.pieces.append(event.delta)
        out.append(event if item.sent_id == event.item else replace(event, item=item.sent_id))

    def _end(self, event: _End, out: list[Event]) -> None:
        sent_length = self._sent_early.pop(event.item, 0)
        item = self._open
        if item is not None and item.item_id == event.item:
            end_event = replace(event, item=item.sent_id, text=event.text[sent_length:])
            if isinstance(end_event, TextEnded) and sent_length:
                annotations = tuple(_shift_annotation(annotation, sent_length) for annotation in end_event.annotations)
                end_event = replace(end_event, annotations=annotations)
            out.append(end_event)
            self._open = self.passthrough_item = None
            self._release(out)
        del self._messages[event.item]

    def _end_early(self, seq: int, out: list[Event]) -> None:
        item = self._open
        assert item is not None
        text = "".join(item.pieces)
        self._sent_early[item.item_id] = self._sent_early.get(item.item_id, 0) + len(text)
        out.append((TextEnded if item.is_text else ReasoningEnded)(seq, item.sent_id, text))
        self._open = self.passthrough_item = None

    def _unique_id(self, item_id: str) -> str:
        """Return `item_id` if that id is free, else the next id derived from it."""
        sent_id, number = item_id, self._used_ids.get(item_id, 1)
        while sent_id in self._used_ids:
            number += 1
            sent_id = truncate_id(f"{item_id}.{number}")
        self._used_ids[item_id] = number
        self._used_ids.setdefault(sent_id, 1)
        return sent_id


def linearize(events: Iterable[Event], overlaps: OverlapPredicate | None = None) -> list[Event]:
    """Linearize a whole stream."""
    linearizer = Linearizer(overlaps)
    return [event_out for event in events for event_out in linearizer.feed(event)]


def _shift_annotation(annotation: Annotation, offset: int) -> Annotation:
    """Return the annotation with its start and end moved back by `offset` characters."""
    start = None if annotation.start is None else max(annotation.start - offset, 0)
    return replace(annotation, start=start, end=None if annotation.end is None else max(annotation.end - offset, 0))
