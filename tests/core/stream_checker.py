"""A strict checker of event streams, written from their specification, independent of the grammar's code."""

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

_decode = msgspec.json.Decoder(Event).decode


@dataclass
class _Item:
    start: TextStarted | ReasoningStarted | ToolStarted
    pieces: list[str] = field(default_factory=list[str])


@dataclass
class _StreamState:
    open_calls: set[str]
    """Calls that a result may answer."""
    open: dict[str, _Item] = field(default_factory=dict[str, _Item])
    items: set[str] = field(default_factory=set[str])
    messages: set[str] = field(default_factory=set[str])
    earlier_messages: set[str] = field(default_factory=set[str])
    """Messages before a tool result; no later item may belong to them."""

    def start_item(self, item: str, message: str) -> None:
        assert item, "every item has an id"
        assert item not in self.items, f"two items {item!r}"
        assert max(len(item), len(message)) <= 64, "ids have at most 64 characters"
        assert message not in self.earlier_messages, (
            f"an item after a tool result belongs to {message!r} from before it"
        )
        self.items.add(item)
        self.messages.add(message)

    def add_delta(self, event: TextDelta | ReasoningDelta | ToolDelta, kind: type) -> None:
        assert event.delta, "no delta is empty"
        item = self.open[event.item]
        assert type(item.start) is kind
        item.pieces.append(event.delta)

    def end_item(self, item: str, kind: type, whole: str) -> _Item:
        ended = self.open.pop(item)
        assert type(ended.start) is kind
        assert "".join(ended.pieces) == whole
        return ended

    def read(self, event: Event) -> None:
        match event:
            case TextStarted() | ReasoningStarted() | ToolStarted():
                self.start_item(event.item, event.message)
                self.open[event.item] = _Item(event)
            case TextDelta():
                self.add_delta(event, TextStarted)
            case ReasoningDelta():
                self.add_delta(event, ReasoningStarted)
            case ToolDelta():
                self.add_delta(event, ToolStarted)
            case TextEnded():
                assert self.end_item(event.item, TextStarted, event.text).pieces, "a text says something"
            case ReasoningEnded():
                ended = self.end_item(event.item, ReasoningStarted, event.text)
                assert ended.pieces or event.encrypted, "reasoning says something, to somebody"
            case ToolEnded():
                ended = self.end_item(event.item, ToolStarted, event.arguments)
                assert isinstance(ended.start, ToolStarted)
                assert 0 < len(ended.start.call_id) <= 64
                self.open_calls.add(ended.start.call_id)
            case ToolReturned():
                assert event.message not in self.messages, "a tool result is a message of its own"
                self.start_item(event.item, event.message)
                self.open_calls.remove(event.call_id)
                self.earlier_messages |= self.messages
            case PartAdded():
                assert event.part is not None
                self.start_item(event.item, event.message)
            case UsageAdded():
                pass
            case RunStarted() | RunFinished() | RunFailed() | RunCancelled():
                raise AssertionError("a run starts once and ends once")


def check_stream(stream: Sequence[Event], *, open_calls: Collection[str] = ()) -> None:
    """Raise AssertionError or KeyError unless the stream is valid. `open_calls`: unanswered calls of the history."""
    first, *inner, last = stream
    assert [event.seq for event in stream] == list(range(len(stream)))
    assert isinstance(first, RunStarted)
    assert isinstance(last, RunFinished | RunFailed | RunCancelled)
    reader = _StreamState(set(open_calls))
    for event in inner:
        reader.read(event)
    assert reader.open == {}, "everything that opened is closed"
    assert [_decode(msgspec.json.encode(event)) for event in stream] == list(stream)
