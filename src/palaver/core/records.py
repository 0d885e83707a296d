"""What is kept of runs: new ones, what they said since, how they ended."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from palaver.core.calls import Call
from palaver.core.events import Event, RunStarted
from palaver.core.origins import Origin, RunStatus


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


class Batch(msgspec.Struct, frozen=True):
    """Some events of a run that stand together."""

    project: str
    run: str
    events: Sequence[Event]
    first_output_at: datetime | None = None
    """When the run first said something, if that is among these."""


class EndedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that came to its end: all its events."""

    started: RunStarted
    origin: Origin
    events: Sequence[Event]
    has_content: bool = True
    """May what it said be kept?"""
    first_output_at: datetime | None = None
    """When it first said something before its end."""
