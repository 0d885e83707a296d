"""What is left of a run whose process died: the log, brought to an end as the grammar wants it."""

from collections.abc import Sequence
from datetime import datetime

from palaver.core.events import (
    Event,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunFinished,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolDelta,
    ToolEnded,
    ToolStarted,
)


def rest(events: Sequence[Event], at: datetime) -> list[Event]:
    """The events that end such a log: what was open is closed with what it said, then the run is interrupted."""
    opened: dict[str, type[TextStarted | ReasoningStarted | ToolStarted]] = {}
    said: dict[str, list[str]] = {}
    for event in events:
        match event:
            case TextDelta() | ReasoningDelta() | ToolDelta():
                said[event.item].append(event.delta)
            case TextStarted() | ReasoningStarted() | ToolStarted():
                opened[event.item], said[event.item] = type(event), []
            case TextEnded() | ReasoningEnded() | ToolEnded():
                del opened[event.item]
            case _:
                pass
    last: list[Event] = []
    seq = len(events)
    for item, kind in opened.items():
        last.append(_ended(kind, seq, item, "".join(said[item])))
        seq += 1
    return [*last, RunFinished(seq, finish="interrupted", at=at)]


def _ended(kind: type[TextStarted | ReasoningStarted | ToolStarted], seq: int, item: str, said: str) -> Event:
    if kind is TextStarted:
        return TextEnded(seq, item, said)
    return ReasoningEnded(seq, item, said) if kind is ReasoningStarted else ToolEnded(seq, item, said)
