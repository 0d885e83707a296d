"""Runs: the call that starts one, its reply, its origin, and the records that are stored of it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core.events import Event, FinishReason, RunStarted
from palaver.core.messages import Message, Usage

RecordMode = Literal["full", "metadata", "off"]


class Secret:
    """A credential for one run. It cannot be printed, compared or encoded by accident."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself, for the one place that needs it."""
        return self._value

    def __repr__(self) -> str:
        return "***"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request to one workflow, whatever the protocol."""

    workflow: str
    messages: tuple[Message, ...] = ()
    preface: int = 0
    """How many of the first messages are for this call alone: what is said next does not follow them."""
    inputs: Mapping[str, Any] = {}
    parameters: Mapping[str, Any] = {}
    session: str | None = None
    """Groups runs; a label that grants nothing. Minted when absent."""
    user: str | None = None
    """Whom the caller speaks for; a label too."""
    conversation: str | None = None
    """The stored conversation that it goes on with."""
    previous: str | None = None
    """The stored response that it goes on from."""
    refers: bool = False
    """Does what it says refer to stored items, which have to be looked up first?"""
    stored: bool = False
    """May its answer be asked for again?"""
    background: bool = False
    """Does it run on by itself, whoever reads?"""
    client_tools: frozenset[str] = frozenset()
    """Names of the tools that the caller will run itself."""
    options: Mapping[str, Any] = {}
    """Temperature and the like, as asked; the workflow may honour them."""
    secrets: Mapping[str, Secret] = {}
    """For this run only: in no trace, log, event or database row."""
    references: Mapping[str, Any] = {}
    """What the caller wants kept with the run."""
    tags: Mapping[str, Any] = {}
    trace_parent: str | None = None
    record: RecordMode = "full"


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run came to: `messages` of a chat, the `value` of any other workflow."""

    run_id: str
    messages: tuple[Message, ...] = ()
    value: Any | UnsetType = UNSET
    usage: Usage | None = None
    finish: FinishReason


DEFAULT_PROJECT = "default"
"""The one that is always there."""

RunStatus = Literal["queued", "running", "finished", "failed", "cancelled", "interrupted"]


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Whose run it is, how it was asked for, and what its answer joins."""

    project: str = DEFAULT_PROJECT
    key: str | None = None
    """The id of the key that asked."""
    protocol: str = ""
    """The name of the protocol, and its own frozen note of how to answer: for whoever answers again, later."""
    reading: Any = None
    stored: bool = False
    """May it be asked for again in the protocol that it was asked in?"""
    background: bool = False
    thread: str | None = None
    """The conversation that its answer joins, below the message that it answers."""
    answers: str | None = None
    previous: str | None = None
    """The run whose conversation it goes on with."""
    board: str | None = None
    """The board whose cell it fills: begun with others of that board, so many at once."""
    variant: str | None = None
    waited: bool = False
    """Was it kept before it began? It waited in the background."""
    said: tuple[Message, ...] | None = None
    """What of the call's messages is kept with the run; None: all. The rest is kept elsewhere."""

    @property
    def is_cell(self) -> bool:
        """Is it a cell of an evaluation? What it was asked and said is kept there, and not again with the run."""
        return self.protocol == "evaluation"

    @property
    def is_needed(self) -> bool:
        """Is it kept whatever its author says, because somebody asked to go on from it, or it begins later?"""
        return self.stored or (self.background and not self.is_cell) or self.thread is not None


LOCAL_ORIGIN = Origin()
"""Of a run that nobody asked for over a network."""


class NewRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that nobody has kept yet."""

    started: RunStarted
    workflow: str
    call: Call
    origin: Origin
    process: str | None
    """The one that it runs in; None while it waits for one."""
    status: RunStatus = "running"
    idempotent: bool = False
    """May it begin anew when its process died?"""
    first_output_at: datetime | None = None


class EventBatch(msgspec.Struct, frozen=True):
    """Some events of a run that stand together."""

    project: str
    run: str
    events: Sequence[Event]
    first_output_at: datetime | None = None
    """When the run first said something, if that is among these."""


class FinishedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that came to its end: all its events."""

    started: RunStarted
    origin: Origin
    events: Sequence[Event]
    has_content: bool = True
    """May what it said be kept?"""
    first_output_at: datetime | None = None
    """When it first said something before its end."""
