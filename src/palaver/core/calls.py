"""Calls and replies: what is asked of a workflow, and what it came to."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core.messages import Message
from palaver.core.usage import Usage

Finish = Literal["stop", "length", "tool-calls", "content-filter", "cancelled", "interrupted", "error"]
Record = Literal["full", "metadata", "off"]


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
    record: Record = "full"


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run came to: `messages` of a chat, the `value` of any other workflow."""

    run_id: str
    messages: tuple[Message, ...] = ()
    value: Any | UnsetType = UNSET
    usage: Usage | None = None
    finish: Finish
