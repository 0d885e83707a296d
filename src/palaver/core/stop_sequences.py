"""End the text of a run before the first of the caller's stop sequences."""

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from palaver.core.events import (
    Event,
    PartAdded,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunFinished,
    TerminalEvent,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolDelta,
    ToolEnded,
    ToolReturned,
    ToolStarted,
)
from palaver.core.grammar import Grammar, OutputValue
from palaver.core.messages import Message


class StopReached(Exception):
    """Raised when the text reaches a stop sequence. The events up to there are returned by `StopGrammar.end`."""


class _TextItem:
    """A text item: what of it has been emitted, and what is held back, since it may begin a stop sequence."""

    def __init__(self, started: TextStarted) -> None:
        self.started: TextStarted | None = started  # Held back until there is text: no item is empty.
        self.emitted: list[str] = []
        self.held = ""

    def emit(self, item: str, text: str) -> list[Event]:
        if not text:
            return []
        self.emitted.append(text)
        started, self.started = self.started, None
        return [*([started] if started else ()), TextDelta(item=item, delta=text)]


class StopGrammar(Grammar):
    """A grammar whose text ends before the first stop sequence, even one that is split over several pieces.

    If several occur, the one that is complete first counts, so that the result does not depend on the pieces.
    """

    def __init__(self, run_id: str, stop: str | Sequence[str], *, history: Sequence[Message] = ()) -> None:
        super().__init__(run_id, history=history)
        self._stop = (stop,) if isinstance(stop, str) else stop  # Calls that were queued earlier may have a string.
        self._texts: dict[str, _TextItem] = {}  # The open text items, by id.
        self._items: set[str] = set()  # The other open items.
        self._is_stopped = False
        self._unsent: list[Event] = []  # The last events before the stop sequence.
        self._next_seq = 1  # After the start of the run.

    def text(self, delta: str) -> Sequence[Event]:
        return self.feed(TextDelta(delta=delta))

    def feed(self, value: OutputValue) -> Sequence[Event]:
        """Return the events for one value. Raises StopReached, once, if its text reaches a stop sequence."""
        was_stopped = self._is_stopped
        events = self._cut(super().feed(value))
        if not self._is_stopped:
            return events
        self._unsent += events
        if was_stopped:
            return ()
        raise StopReached

    def end(self, terminal: TerminalEvent, *, at: datetime | None = None) -> Sequence[Event]:
        events = self._cut(super().end(terminal, at=at))
        if self._is_stopped and isinstance(last := events[-1], RunFinished):
            events[-1] = replace(last, finish="stop")
        return [*self._unsent, *events]

    def _cut(self, events: Sequence[Event]) -> list[Event]:
        kept = [kept for event in events for kept in self._cut_event(event)]
        first, self._next_seq = self._next_seq, self._next_seq + len(kept)
        return [replace(event, seq=number) for number, event in enumerate(kept, first)]

    def _cut_event(self, event: Event) -> Sequence[Event]:
        """Return the event without text from the stop sequence on; after it, no item starts."""
        match event:
            case TextStarted() if not self._is_stopped:
                self._texts[event.item] = _TextItem(event)
                return ()
            case TextDelta(item=item, delta=delta) if item in self._texts and not self._is_stopped:
                return self._cut_text(item, delta)
            case TextEnded(item=item) if (text := self._texts.pop(item, None)) is not None:
                last, whole = text.emit(item, text.held), "".join(text.emitted)
                notes = tuple(note for note in event.annotations if (note.end or 0) <= len(whole))
                return [*last, replace(event, text=whole, annotations=notes)] if whole else ()
            case ReasoningStarted() | ToolStarted() if not self._is_stopped:
                self._items.add(event.item)
            case TextStarted() | TextDelta() | TextEnded() | ReasoningStarted() | ToolStarted():
                return ()
            case PartAdded() | ToolReturned() if self._is_stopped:
                return ()
            case ReasoningDelta() | ReasoningEnded() | ToolDelta() | ToolEnded() if event.item not in self._items:
                return ()
            case _:
                pass
        return (event,)

    def _cut_text(self, item: str, delta: str) -> Sequence[Event]:
        text = self._texts[item]
        piece = text.held + delta
        found = [(start + len(stop), start) for stop in self._stop if (start := piece.find(stop)) >= 0]
        if found:
            self._is_stopped = True
            text.held = ""
            return text.emit(item, piece[: min(found)[1]])
        held = max((_overlap(piece, stop) for stop in self._stop), default=0)
        text.held = piece[len(piece) - held :]
        return text.emit(item, piece[: len(piece) - held])


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest end of the text that begins the stop sequence."""
    longest = min(len(text), len(stop) - 1)
    return next((length for length in range(longest, 0, -1) if text.endswith(stop[:length])), 0)
