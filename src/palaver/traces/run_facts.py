"""Facts about a run that its spans are built from, and how much of them may be recorded."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from palaver.core.events import Event
from palaver.core.runs import Call, Origin, RecordMode

NO_PARENT_ID = "1".zfill(16)
"""Parent id in the `traceparent` of a run whose trace id was chosen before it started: the run has no parent span."""


class ReportedTool(NamedTuple):
    """A tool for which an instrumentation in this process has made a span."""

    call_id: str | None
    name: str


class RunSpanContext(NamedTuple):
    """The running run that framework steps belong to."""

    trace_id: str
    span_id: str
    """Id of the run's span."""
    project: str
    session: str
    run_id: str
    call: Call
    record: RecordMode


class RunFacts(NamedTuple):
    workflow: str
    is_chat: bool
    call: Call
    origin: Origin
    events: Sequence[Event]
    """All events; without a terminal event the run broke off."""
    ended_at: datetime
    """End time of a run that broke off."""
    first_output_at: datetime | None = None
    disconnected_at: datetime | None = None
    """When the client disconnected, if that was before the end."""
    times: Mapping[int, datetime] = {}
    """Time of each tool event by its sequence number. Events that arrived together share one datetime object."""
    reported_tools: Sequence[ReportedTool] = ()
    """Tools for which an instrumentation has made a span already, with more detail."""
    has_dropped_steps: bool = False
    """Whether steps beyond the limit were left out."""


def effective_record(call: Call, content: RecordMode) -> RecordMode:
    """Return the stricter of what the call and the server's settings allow."""
    if call.record == "off" or content == "off":
        return "off"
    return "full" if call.record == content else "metadata"


class SpanOwner(NamedTuple):
    """The run that an SDK span belongs to."""

    project: str
    session: str
    run_id: str
    record: RecordMode
    secrets: Sequence[str] = ()
    """Secrets that the caller passed to this run."""
