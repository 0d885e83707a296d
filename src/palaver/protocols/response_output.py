"""The output of a response: its items in the order in which they were added, each encoded once, when it is done.

Streamed or not, a response is made here, so that both ways give the same. What comes in has passed `linear`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, assert_never

from msgspec import UNSET

from palaver.core import json
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
    TerminalEvent,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolDelta,
    ToolEnded,
    ToolReturned,
    ToolStarted,
    UsageAdded,
)
from palaver.core.messages import APPROVAL_REQUEST, Data, File, Refusal, Usage
from palaver.protocols import response_items as items
from palaver.protocols.response_request import Reading


class Said(NamedTuple):
    """A text that is done: the annotations that are kept, and its item as it goes on the wire."""

    notes: list[items.Item]
    item: bytes


class Output:
    """Collects what a response says."""

    def __init__(self, reading: Reading) -> None:
        self.items: list[bytes] = []
        self._reading = reading
        self._is_open = reading.profile == "open"
        self._indexes: dict[str, int] = {}
        self._calls: dict[str, ToolStarted] = {}
        self._usage: Usage | None = None
        self._has_text = self._has_output = False
        self._data: list[Any] = []
        self._files: list[Any] = []
        self._run = ""

    @property
    def custom(self) -> Mapping[str, Any]:
        """What /invocations has no items for."""
        lists = {"data": self._data, "files": self._files}
        return {name: listed for name, listed in lists.items() if listed}

    def usage(self, terminal: TerminalEvent) -> Usage | None:
        """What the run cost, as far as it is known."""
        return terminal.usage or self._usage

    def take(self, event: Event) -> None:
        """Collect one event, for an answer that is not streamed."""
        match event:
            case TextDelta() | ReasoningDelta() | ToolDelta():
                pass  # Their ends say it all.
            case RunStarted():
                self.begin(event)
            case TextStarted() | ReasoningStarted() | ToolStarted():
                self.added(event)
            case TextEnded():
                self.text(event)
            case ReasoningEnded():
                self.reasoning(event)
            case ToolEnded():
                self.call(event)
            case ToolReturned():
                self.result(event)
            case PartAdded():
                self.part(event)
            case UsageAdded():
                self.count(event)
            case RunFinished():
                for said in self.value(event):
                    self.take(said)
            case RunFailed() | RunCancelled():
                pass
            case _:
                assert_never(event)

    def begin(self, started: RunStarted) -> None:
        """The run starts: what the waist has no id for is named after it."""
        self._run = started.run_id.removeprefix("run_")

    # Items, from their start to their end

    def added(self, event: TextStarted | ReasoningStarted | ToolStarted) -> int:
        """The index of an item that opens."""
        if isinstance(event, ToolStarted):
            self._calls[event.item] = event
        return self._reserve(event.item)

    def index(self, item: str) -> int:
        """The index of an item that is open."""
        return self._indexes[item]

    def text(self, event: TextEnded) -> Said:
        """A text that ends."""
        self._has_text = True
        return self._say(event.item, event.text, event)

    def _say(self, item: str, text: str, event: TextEnded | None = None) -> Said:
        annotations = event.annotations if event is not None else ()
        # The AI SDK's generateText knows no others.
        kept = annotations if self._is_open else [note for note in annotations if note.kind == "url"]
        notes = [items.citation(note, len(text)) for note in kept]
        return Said(notes, self._done(item, json.encode(items.message(item, text, notes))))

    def reasoning(self, event: ReasoningEnded) -> bytes:
        """Reasoning that ends; sealed only for those who asked for it."""
        encrypted = event.encrypted if self._reading.encrypted else None
        return self._done(event.item, json.encode(items.reasoning(event.item, event.text, encrypted)))

    def call(self, event: ToolEnded) -> bytes:
        """A call that ends."""
        call = self._calls.pop(event.item)
        told = items.function_call(event.item, call.call_id, call.name, event.arguments)
        return self._done(event.item, json.encode(told))

    def name(self, item: str) -> str:
        """The tool of a call that is open."""
        return self._calls[item].name

    # What comes whole

    def result(self, event: ToolReturned) -> tuple[int, bytes]:
        """The result of a call."""
        told = items.function_call_output(event.item, event.call_id, event.output, is_error=event.is_error)
        return self._whole(told)

    def part(self, event: PartAdded) -> tuple[int, bytes] | None:
        """A part, as an item; None where this profile has no item for it."""
        if event.transient:
            return None  # Shown, if at all, and not kept.
        match event.part:
            case Data(name=name) as data if name == APPROVAL_REQUEST:
                return self._whole(items.approval(event.item, data.value, self._reading.workflow))
            case Data() as data:
                self._has_output = self._has_output or data.name == "output"
                if self._is_open:
                    return self._whole(items.data(event.item, data))
                self._data.append({"id": event.item, "name": data.name, "value": data.value})
            case File() as file:
                if self._is_open:
                    return self._whole(items.file(event.item, file))
                self._files.append({"id": event.item, **items.file_fields(file)})
            case Refusal(text=text):
                if self._is_open:
                    return self._whole(items.refused(event.item, text))
                # A refusal would end the Databricks provider's stream with a TypeError.
                index = self._reserve(event.item)
                return index, self._say(event.item, text).item
            case None:
                pass
        return None

    def count(self, event: UsageAdded) -> None:
        """Add up what was used."""
        self._usage = self._usage + event.usage if self._usage else event.usage

    def value(self, event: RunFinished) -> list[Event]:
        """The value of a workflow that is no chat, as what it would have said; nothing where text went out before."""
        if event.value is UNSET or self._reading.is_chat or self._has_text:
            return []
        text, name = items.as_text(event.value), f"msg_{self._run}_0"  # The grammar counts from 1.
        said: list[Event] = []
        if text:
            said += [TextStarted(item=name, message=name), TextDelta(item=name, delta=text)]
            said.append(TextEnded(item=name, text=text))
        if not isinstance(event.value, str) and not self._has_output:
            data = Data(name="output", value=event.value)
            said.append(PartAdded(item=f"dat_{self._run}_0", message=name, part=data))
        return said

    def _reserve(self, item: str) -> int:
        index = self._indexes[item] = len(self.items)
        self.items.append(b"")
        return index

    def _done(self, item: str, encoded: bytes) -> bytes:
        self.items[self._indexes.pop(item)] = encoded
        return encoded

    def _whole(self, told: items.Item) -> tuple[int, bytes]:
        index, encoded = len(self.items), json.encode(told)
        self.items.append(encoded)
        return index, encoded
