"""Change a workflow's output as the options of the call require: stop sequences, and text that has to be JSON."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

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
from palaver.core.model_options import requires_object


class StopReached(Exception):
    """Raised when the text reaches a stop sequence. The events up to there are returned by `FilteredGrammar.end`."""


def grammar_for(run_id: str, options: Mapping[str, Any], history: Sequence[Message]) -> Grammar:
    """Return the grammar of a run with these options; most runs have none."""
    stop: str | Sequence[str] = options.get("stop") or () if options else ()
    separates_commentary = bool(options) and requires_object(options)
    if not stop and not separates_commentary:
        return Grammar(run_id, history=history)
    stop = (stop,) if isinstance(stop, str) else stop  # Calls that were queued earlier may have a string.
    return FilteredGrammar(run_id, stop, separates_commentary=separates_commentary, history=history)


class FilteredGrammar(Grammar):
    """A grammar whose text ends before the first stop sequence, and begins as JSON if commentary is separated."""

    def __init__(
        self,
        run_id: str,
        stop: Sequence[str] = (),
        *,
        separates_commentary: bool = False,
        history: Sequence[Message] = (),
    ) -> None:
        super().__init__(run_id, history=history)
        self._stop = StopFilter(stop)
        self._commentary = CommentaryFilter() if separates_commentary else None
        self._unsent: list[Event] = []  # The last events before the stop sequence.
        self._next_seq = 1  # After the start of the run.

    def text(self, delta: str) -> Sequence[Event]:
        return self.feed(TextDelta(delta=delta))

    def feed(self, value: OutputValue) -> Sequence[Event]:
        """Return the events for one value. Raises StopReached, once, if its text reaches a stop sequence."""
        was_stopped = self._stop.is_stopped
        events = self._filter(super().feed(value))
        if not self._stop.is_stopped:
            return events
        self._unsent += events
        if was_stopped:
            return ()
        raise StopReached

    def end(self, terminal: TerminalEvent, *, at: datetime | None = None) -> Sequence[Event]:
        events = self._filter(super().end(terminal, at=at))
        if self._stop.is_stopped and isinstance(last := events[-1], RunFinished):
            events[-1] = replace(last, finish="stop")
        return [*self._unsent, *events]

    def _filter(self, events: Sequence[Event]) -> list[Event]:
        if self._commentary is not None:
            events = [kept for event in events for kept in self._commentary.feed(event)]
        filtered = [kept for event in events for kept in self._stop.feed(event)]
        first, self._next_seq = self._next_seq, self._next_seq + len(filtered)
        return [replace(event, seq=number) for number, event in enumerate(filtered, first)]


class CommentaryFilter:
    """Turns text that is no JSON, such as "Let me look." before a tool call, into reasoning.

    Clients parse each text of a reply with a required format. Text that is only white space is left out.
    """

    def __init__(self) -> None:
        self._undecided: dict[str, tuple[TextStarted, str]] = {}  # Items that had only white space so far, by id.
        self._commentary: set[str] = set()

    def feed(self, event: Event) -> Sequence[Event]:
        match event:
            case TextStarted(item=item):
                self._undecided[item] = event, ""
                return ()
            case TextDelta(item=item, delta=delta) if item in self._undecided:
                return self._decide(item, delta)
            case TextDelta(item=item, delta=delta) if item in self._commentary:
                return (ReasoningDelta(item=item, delta=delta),)
            case TextEnded(item=item) if self._undecided.pop(item, None) is not None:
                return ()
            case TextEnded(item=item, text=text) if item in self._commentary:
                return (ReasoningEnded(item=item, text=text),)
            case _:
                return (event,)

    def _decide(self, item: str, delta: str) -> Sequence[Event]:
        started, text = self._undecided.pop(item)
        text += delta
        if not (content := text.lstrip()):
            self._undecided[item] = started, text
            return ()
        if content.startswith(("{", "[")):
            return started, TextDelta(item=item, delta=text)
        self._commentary.add(item)
        return ReasoningStarted(item=item, message=started.message), ReasoningDelta(item=item, delta=text)


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


class StopFilter:
    """Ends the text before the first stop sequence, even one that is split over several pieces.

    If several occur, the one that is complete first counts, so that the result does not depend on the pieces.
    """

    def __init__(self, stop: Sequence[str]) -> None:
        self.is_stopped = False
        self._stop = stop
        self._texts: dict[str, _TextItem] = {}  # The open text items, by id.
        self._items: set[str] = set()  # The other items.

    def feed(self, event: Event) -> Sequence[Event]:
        """Return the event without text from the stop sequence on; after it, no item starts."""
        match event:
            case TextStarted() if not self.is_stopped:
                self._texts[event.item] = _TextItem(event)
                return ()
            case TextDelta(item=item, delta=delta) if item in self._texts and not self.is_stopped:
                return self._cut_text(item, delta)
            case TextEnded(item=item) if (text := self._texts.pop(item, None)) is not None:
                last, whole = text.emit(item, text.held), "".join(text.emitted)
                notes = tuple(note for note in event.annotations if (note.end or 0) <= len(whole))
                return [*last, replace(event, text=whole, annotations=notes)] if whole else ()
            case ReasoningStarted() | ToolStarted() if not self.is_stopped:
                self._items.add(event.item)
            case TextStarted() | TextDelta() | TextEnded() | ReasoningStarted() | ToolStarted():
                return ()
            case PartAdded() | ToolReturned() if self.is_stopped:
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
            self.is_stopped = True
            text.held = ""
            return text.emit(item, piece[: min(found)[1]])
        held = max((_overlap(piece, stop) for stop in self._stop), default=0)
        text.held = piece[len(piece) - held :]
        return text.emit(item, piece[: len(piece) - held])


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest end of the text that begins the stop sequence."""
    longest = min(len(text), len(stop) - 1)
    return next((length for length in range(longest, 0, -1) if text.endswith(stop[:length])), 0)
