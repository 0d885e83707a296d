"""Close the event log of a run that was interrupted, or of a reader that lost access."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import count, repeat

from palaver.core.events import (
    Event,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunCancelled,
    RunFailed,
    RunFinished,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolDelta,
    ToolEnded,
    ToolStarted,
)

NO_SEQ = -1
"""The `seq` of an event that is not part of the log."""


class OpenItems:
    """Track the open items of a log and their text. Must be fed from the start of the log."""

    def __init__(self) -> None:
        self._opened: dict[str, type[TextStarted | ReasoningStarted | ToolStarted]] = {}
        self._texts: dict[str, list[str]] = {}
        self.is_over = False
        """Whether the log has a terminal event."""

    def feed(self, event: Event) -> None:
        match event:
            case TextDelta() | ReasoningDelta() | ToolDelta():
                if (
                    pieces := self._texts.get(event.item)
                ) is not None:  # None if the item started before the first event we saw.
                    pieces.append(event.delta)
            case TextStarted() | ReasoningStarted() | ToolStarted():
                self._opened[event.item], self._texts[event.item] = type(event), []
            case TextEnded() | ReasoningEnded() | ToolEnded():
                self._opened.pop(event.item, None)
                self._texts.pop(event.item, None)
            case RunFinished() | RunFailed() | RunCancelled():
                self.is_over = True
            case _:
                pass

    def closing(self, numbers: Iterator[int]) -> list[Event]:
        """Return the events that close the open items, with the given sequence numbers."""
        return [
            _end_event(kind, next(numbers), item, "".join(self._texts[item])) for item, kind in self._opened.items()
        ]


def interruption_events(events: Sequence[Event], at: datetime) -> list[Event]:
    """Return the events that end the log of a run whose process died."""
    open_items, numbers = OpenItems(), count(len(events))
    for event in events:
        open_items.feed(event)
    return [*open_items.closing(numbers), RunFinished(next(numbers), finish="interrupted", at=at)]


def rejection_events(open_items: OpenItems, last: RunFailed) -> list[Event]:
    """Return the events that end one reader's stream while the run continues. They are not part of the log."""
    return [*open_items.closing(repeat(NO_SEQ)), last]


def _end_event(kind: type[TextStarted | ReasoningStarted | ToolStarted], seq: int, item: str, text: str) -> Event:
    if kind is TextStarted:
        return TextEnded(seq, item, text)
    return ReasoningEnded(seq, item, text) if kind is ReasoningStarted else ToolEnded(seq, item, text)
