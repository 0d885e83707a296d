"""What ends a log that breaks off, as the grammar wants it: its process died, or its reader may not read on."""

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
"""The `seq` of an event that is in no log."""


class OpenItems:
    """What is open in a log, and what it said: fed the log from its start, it knows what would end it."""

    def __init__(self) -> None:
        self._opened: dict[str, type[TextStarted | ReasoningStarted | ToolStarted]] = {}
        self._said: dict[str, list[str]] = {}
        self.is_over = False
        """Has it ended by itself?"""

    def feed(self, event: Event) -> None:
        """Take the next event."""
        match event:
            case TextDelta() | ReasoningDelta() | ToolDelta():
                if (said := self._said.get(event.item)) is not None:  # Else it opened before we were asked.
                    said.append(event.delta)
            case TextStarted() | ReasoningStarted() | ToolStarted():
                self._opened[event.item], self._said[event.item] = type(event), []
            case TextEnded() | ReasoningEnded() | ToolEnded():
                self._opened.pop(event.item, None)
                self._said.pop(event.item, None)
            case RunFinished() | RunFailed() | RunCancelled():
                self.is_over = True
            case _:
                pass

    def closing(self, numbers: Iterator[int]) -> list[Event]:
        """The events that close what is open with what it said, under these numbers."""
        return [_end_event(kind, next(numbers), item, "".join(self._said[item])) for item, kind in self._opened.items()]


def interruption_events(events: Sequence[Event], at: datetime) -> list[Event]:
    """The events that end the log of a run whose process died: it was interrupted."""
    unended, numbers = OpenItems(), count(len(events))
    for event in events:
        unended.feed(event)
    return [*unended.closing(numbers), RunFinished(next(numbers), finish="interrupted", at=at)]


def rejection_events(unended: OpenItems, last: RunFailed) -> list[Event]:
    """The events that end what one reader is told while the run goes on: they are not the run's, and have no number."""
    return [*unended.closing(repeat(NO_SEQ)), last]


def _end_event(kind: type[TextStarted | ReasoningStarted | ToolStarted], seq: int, item: str, said: str) -> Event:
    if kind is TextStarted:
        return TextEnded(seq, item, said)
    return ReasoningEnded(seq, item, said) if kind is ReasoningStarted else ToolEnded(seq, item, said)
