"""Facts about a run that its spans are built from, and how much of them may be recorded."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from palaver.core.events import Event
from palaver.core.runs import Call, Origin, RecordMode

NO_PARENT_ID = "1".zfill(16)
"""The parent in the `traceparent` of a run whose trace was named before it began: it goes on with nobody's span."""


class ReportedTool(NamedTuple):
    """A tool that an instrumentation in this process has told of."""

    call_id: str | None
    name: str


class RunSpanContext(NamedTuple):
    """The run that steps of a framework belong to, while it goes on."""

    trace_id: str
    span_id: str
    """Of the run's own span."""
    project: str
    session: str
    run_id: str
    call: Call
    record: RecordMode


class RunFacts(NamedTuple):
    """What is known of a run that is over."""

    workflow: str
    is_chat: bool
    call: Call
    origin: Origin
    events: Sequence[Event]
    """All of them; where the last is missing, the run broke off."""
    ended_at: datetime
    """When it was over, for one that broke off."""
    first_output_at: datetime | None = None
    left_at: datetime | None = None
    """When whoever asked went away, if that was before its end."""
    times: Mapping[int, datetime] = {}
    """When the events of tools were said, by their numbers. Those that came at once have one time, the same object."""
    told: Sequence[ReportedTool] = ()
    """The tools of which somebody else has made a span, who saw more of them."""
    is_cut: bool = False
    """Did its frameworks tell of more steps than spans were made of?"""


def effective_record(call: Call, content: RecordMode) -> RecordMode:
    """How much of a run is recorded: the least of what its call and our settings allow."""
    if call.record == "off" or content == "off":
        return "off"
    return "full" if call.record == content else "metadata"


class SpanOwner(NamedTuple):
    """The run that a span belongs to."""

    project: str
    session: str
    run_id: str
    record: RecordMode
    known: Sequence[str] = ()
    """The secrets that its caller gave to it alone."""
