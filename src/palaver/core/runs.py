"""Runs: the call, the reply, the origin, the stored records, retention, and how the log of an interrupted run ends."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import count, repeat
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core.events import (
    Event,
    FinishReason,
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
    ToolStarted,
)
from palaver.core.messages import Message, Usage
from palaver.errors import TooManyEvents, TooMuchOutput

RecordMode = Literal["full", "metadata", "off"]


class Secret:
    """A credential for one run that cannot be printed, compared or encoded by accident."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "***"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request to one workflow, independent of the protocol."""

    workflow: str
    messages: tuple[Message, ...] = ()
    preface: int = 0
    """Number of leading messages that apply to this call only and are not part of the conversation."""
    inputs: Mapping[str, Any] = {}
    parameters: Mapping[str, Any] = {}
    session: str | None = None
    """Label that groups runs; grants no access. Generated when absent."""
    user: str | None = None
    """Label of the end user; grants no access."""
    conversation: str | None = None
    """The stored conversation to continue."""
    previous: str | None = None
    """The stored response to continue from."""
    refers: bool = False
    """Whether the messages refer to stored items, which have to be looked up first."""
    stored: bool = False
    """Whether the reply is stored for later retrieval."""
    background: bool = False
    """Whether the run continues without a connected client."""
    client_tools: frozenset[str] = frozenset()
    """Names of tools that the caller runs itself."""
    options: Mapping[str, Any] = {}
    """Model options such as the temperature, which the workflow may honour."""
    secrets: Mapping[str, Secret] = {}
    """Never written to a trace, log, event or database row."""
    references: Mapping[str, Any] = {}
    """Caller-defined data stored with the run."""
    tags: Mapping[str, Any] = {}
    trace_parent: str | None = None
    record: RecordMode = "full"


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a run: `messages` of a chat, the `value` of any other workflow."""

    run_id: str
    messages: tuple[Message, ...] = ()
    value: Any | UnsetType = UNSET
    usage: Usage | None = None
    finish: FinishReason


DEFAULT_PROJECT = "default"

RunStatus = Literal["queued", "running", "finished", "failed", "cancelled", "interrupted"]


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The origin and owner of a run. Set by the server from credential and route, never from a body."""

    project: str = DEFAULT_PROJECT
    key: str | None = None
    """The id of the API key."""
    protocol: str = ""
    reading: Any = None
    """The protocol's own data for encoding the reply again later."""
    stored: bool = False
    """Whether the reply can be retrieved again in the same protocol."""
    background: bool = False
    thread: str | None = None
    """The thread that the reply is added to."""
    answers: str | None = None
    """The message that the reply is added below."""
    previous: str | None = None
    """The run whose conversation is continued."""
    board: str | None = None
    """The board whose cell it fills. A board limits how many of its runs are active."""
    variant: str | None = None
    was_queued: bool = False
    """Whether it was queued and stored before it started."""
    stored_messages: tuple[Message, ...] | None = None
    """The messages stored with the run; None means all of the call's. The rest is stored elsewhere."""

    @property
    def is_evaluation_cell(self) -> bool:
        """Whether it is a cell of an evaluation, which stores the content itself."""
        return self.protocol == "evaluation"

    @property
    def must_be_stored(self) -> bool:
        """Whether it must be stored regardless of the record mode: it can be continued, or starts later."""
        return self.stored or (self.background and not self.is_evaluation_cell) or self.thread is not None


LOCAL_ORIGIN = Origin()
"""Origin of runs that were not requested over the network."""


class NewRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run to be stored for the first time."""

    started: RunStarted
    workflow: str
    call: Call
    origin: Origin
    process: str | None
    """The process that runs it; None while it is queued."""
    status: RunStatus = "running"
    idempotent: bool = False
    """Whether it may be restarted when its process died."""
    first_output_at: datetime | None = None


class EventBatch(msgspec.Struct, frozen=True):
    """Consecutive events of a run."""

    project: str
    run: str
    events: Sequence[Event]
    first_output_at: datetime | None = None
    """Time of the run's first output, if it is in this batch."""


class FinishedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run with all its events."""

    started: RunStarted
    origin: Origin
    events: Sequence[Event]
    has_content: bool = True
    """Whether its content may be stored."""
    first_output_at: datetime | None = None
    """Time of the first output."""


class RunLimits(msgspec.Struct, frozen=True):
    seconds: float = 600
    events: int = 200_000
    bytes: int = 64 * 1024 * 1024

    def check(self, *, events: int, size: int) -> None:
        if events > self.events:
            raise TooManyEvents(f"The run exceeded its limit of {self.events:,} events.")
        if size > self.bytes:
            raise TooMuchOutput(f"The run exceeded its output limit of {self.bytes:,} bytes.")

    def check_value(self, size: int) -> None:
        if size > self.bytes:
            raise TooMuchOutput(f"The returned value exceeds the output limit of {self.bytes:,} bytes.")


class RetentionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Retention limits; 0 means unlimited."""

    days: int = 0
    days_by_project: Mapping[str, int] = {}
    """Days per project, for projects with their own limit."""
    bytes: int = 0


NO_SEQ = -1
"""The `seq` of an event that is not part of the log."""


class OpenItems:
    """Track the open items of a log and their text. Must be fed from the start of the log."""

    def __init__(self) -> None:
        self._start_types: dict[str, type[TextStarted | ReasoningStarted | ToolStarted]] = {}
        self._texts: dict[str, list[str]] = {}
        self.is_started = False
        self.is_ended = False
        """Whether the log has a terminal event."""

    def feed(self, event: Event) -> None:
        match event:
            case TextDelta() | ReasoningDelta() | ToolDelta():
                pieces = self._texts.get(event.item)
                if pieces is not None:  # None if the item started before the first event that was fed.
                    pieces.append(event.delta)
            case TextStarted() | ReasoningStarted() | ToolStarted():
                self._start_types[event.item], self._texts[event.item] = type(event), []
            case TextEnded() | ReasoningEnded() | ToolEnded():
                self._start_types.pop(event.item, None)
                self._texts.pop(event.item, None)
            case RunStarted():
                self.is_started = True
            case RunFinished() | RunFailed() | RunCancelled():
                self.is_ended = True
            case _:
                pass

    def closing_events(self, numbers: Iterator[int]) -> list[Event]:
        """Return the events that close the open items, with the given sequence numbers."""
        return [
            _end_event(kind, next(numbers), item, "".join(self._texts[item]))
            for item, kind in self._start_types.items()
        ]


def interruption_events(events: Sequence[Event], at: datetime) -> list[Event]:
    """Return the events that end the log of a run whose process died."""
    open_items, numbers = OpenItems(), count(len(events))
    for event in events:
        open_items.feed(event)
    return [*open_items.closing_events(numbers), RunFinished(next(numbers), finish="interrupted", at=at)]


def rejection_events(open_items: OpenItems, last: RunFailed) -> list[Event]:
    """Return the events that end one reader's stream while the run continues. They are not part of the log."""
    return [*open_items.closing_events(repeat(NO_SEQ)), last]


def _end_event(kind: type[TextStarted | ReasoningStarted | ToolStarted], seq: int, item: str, text: str) -> Event:
    if kind is TextStarted:
        return TextEnded(seq, item, text)
    return ReasoningEnded(seq, item, text) if kind is ReasoningStarted else ToolEnded(seq, item, text)
