"""A strict checker of event streams, written from the contract (messages.md §4), not from the code."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import msgspec

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

_read = msgspec.json.Decoder(Event).decode


@dataclass
class _Item:
    start: TextStarted | ReasoningStarted | ToolStarted
    pieces: list[str] = field(default_factory=list[str])


@dataclass
class _Stream:
    asked: set[str]
    """Calls that a result may answer."""
    open: dict[str, _Item] = field(default_factory=dict[str, _Item])
    items: set[str] = field(default_factory=set[str])
    messages: set[str] = field(default_factory=set[str])
    past: set[str] = field(default_factory=set[str])
    """Messages before a tool result; no later item may belong to them."""

    def begin(self, item: str, message: str) -> None:
        assert item, "every item has an id"
        assert item not in self.items, f"two items {item!r}"
        assert max(len(item), len(message)) <= 64, "ids have at most 64 characters"
        assert message not in self.past, f"an item after a tool result belongs to {message!r} from before it"
        self.items.add(item)
        self.messages.add(message)

    def grow(self, event: TextDelta | ReasoningDelta | ToolDelta, kind: type) -> None:
        assert event.delta, "no delta is empty"
        item = self.open[event.item]
        assert type(item.start) is kind
        item.pieces.append(event.delta)

    def finish(self, item: str, kind: type, whole: str) -> _Item:
        ended = self.open.pop(item)
        assert type(ended.start) is kind
        assert "".join(ended.pieces) == whole
        return ended

    def read(self, event: Event) -> None:
        match event:
            case TextStarted() | ReasoningStarted() | ToolStarted():
                self.begin(event.item, event.message)
                self.open[event.item] = _Item(event)
            case TextDelta():
                self.grow(event, TextStarted)
            case ReasoningDelta():
                self.grow(event, ReasoningStarted)
            case ToolDelta():
                self.grow(event, ToolStarted)
            case TextEnded():
                assert self.finish(event.item, TextStarted, event.text).pieces, "a text says something"
            case ReasoningEnded():
                ended = self.finish(event.item, ReasoningStarted, event.text)
                assert ended.pieces or event.encrypted, "reasoning says something, to somebody"
            case ToolEnded():
                ended = self.finish(event.item, ToolStarted, event.arguments)
                assert isinstance(ended.start, ToolStarted)
                assert 0 < len(ended.start.call_id) <= 64
                self.asked.add(ended.start.call_id)
            case ToolReturned():
                assert event.message not in self.messages, "a tool result is a message of its own"
                self.begin(event.item, event.message)
                self.asked.remove(event.call_id)
                self.past |= self.messages
            case PartAdded():
                assert event.part is not None
                self.begin(event.item, event.message)
            case UsageAdded():
                pass
            case RunStarted() | RunFinished() | RunFailed() | RunCancelled():
                raise AssertionError("a run starts once and ends once")


def check_stream(stream: Sequence[Event], *, asked: Collection[str] = ()) -> None:
    """Raise AssertionError or KeyError unless the stream is valid; `asked` are the history's calls without a result."""
    first, *inner, last = stream
    assert [event.seq for event in stream] == list(range(len(stream)))
    assert isinstance(first, RunStarted)
    assert isinstance(last, RunFinished | RunFailed | RunCancelled)
    reader = _Stream(set(asked))
    for event in inner:
        reader.read(event)
    assert reader.open == {}, "everything that opened is closed"
    assert [_read(msgspec.json.encode(event)) for event in stream] == list(stream)
