"""What both forms of OTLP share: a span is checked, repaired with a note, or refused."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import msgspec

from palaver.traces.otlp.bounds import LARGEST_SPAN, Losses, named
from palaver.traces.record import Link, Raw

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AHEAD, _BACK = timedelta(days=1), timedelta(days=30)
_MICROSECOND = 1_000
_MEASURED = LARGEST_SPAN // 4
"""Bytes on the wire of a span that may be too large as JSON."""
UNNAMED = "unnamed"
_encode = msgspec.json.Encoder().encode


class Unusable(Exception):
    """A span that cannot be kept, and why."""


class Rejected(msgspec.Struct, frozen=True):
    """One that was not kept."""

    index: int
    """Which of the request's spans it is, counted from 0 over all of them."""
    reason: str

    def __str__(self) -> str:
        return f"spans[{self.index}]: {self.reason}"


class Batch(msgspec.Struct, frozen=True):
    """What one request brought."""

    spans: list[Raw]
    rejected: list[Rejected]
    pending: int = 0
    """Notices of spans that have only begun, as Logfire sends them: counted and not kept, as each comes again."""


class Context(msgspec.Struct, frozen=True):
    """What a span has from those around it."""

    received_at: datetime
    resource: dict[str, Any] = {}
    scope: str | None = None


def trace_id_of(data: bytes) -> str:
    """The trace's id as text."""
    return _id(data, 16, "trace id")


def span_id_of(data: bytes) -> str:
    """The span's id as text."""
    return _id(data, 8, "span id")


def _id(data: bytes, size: int, word: str) -> str:
    if len(data) != size:
        raise Unusable(f"{word} has {len(data)} bytes")
    if not any(data):
        raise Unusable(f"{word} is zero")
    return data.hex()


def parent_of(data: bytes, span_id: str, losses: Losses) -> str | None:
    """The parent's id. A span is not its own parent, and one whose parent has no proper id is a root as well."""
    if not any(data):
        return None
    parent = data.hex()
    if parent == span_id:
        losses.note("cycle")
        return None
    if len(data) != 8:
        losses.note("parent")
        return None
    return parent


def linked(trace_id: bytes, span_id: bytes, attributes: dict[str, Any]) -> Link | None:
    """A link, where it names a span."""
    if len(trace_id) != 16 or len(span_id) != 8:
        return None
    return Link(trace_id=trace_id.hex(), span_id=span_id.hex(), attributes=attributes)


def moment(nanoseconds: int) -> datetime:
    """A time as it is sent, in nanoseconds since 1970; we keep microseconds."""
    return _EPOCH + timedelta(microseconds=nanoseconds // _MICROSECOND)


def nanoseconds(at: datetime) -> int:
    """The same, back."""
    return (at - _EPOCH) // timedelta(microseconds=1) * _MICROSECOND


def end_of(start: int, duration_ms: float) -> int:
    """When it ended, to the nanosecond; never later than the form can say."""
    return min(start + round(Fraction(duration_ms) * 1_000_000), (1 << 64) - 1)


def times(start: int, end: int, context: Context, losses: Losses) -> tuple[datetime, float]:
    """When it began, and how many milliseconds it took. A clock that cannot be right is kept, and noted."""
    began = moment(start)
    if end < start or not context.received_at - _BACK <= began <= context.received_at + _AHEAD:
        losses.note("clock")
    return began, max(0, end - start) / 1_000_000


def titled(name: str, losses: Losses) -> str:
    """The span's name; one without gets one."""
    if name:
        return named(name, "name", losses)
    losses.note(UNNAMED)
    return UNNAMED


def check_size(wire: int, *content: Any) -> None:
    """Refuse a span that is too large even after cutting. Few are sent in so many bytes that it has to be asked."""
    if wire > _MEASURED and (size := len(_encode(content))) > LARGEST_SPAN:
        raise Unusable(f"it has {size} bytes, more than {LARGEST_SPAN}")


def is_pending(attributes: dict[str, Any]) -> bool:
    """Is this one of Logfire's notices that a span has begun?"""
    return attributes.get("logfire.span_type") == "pending_span"
