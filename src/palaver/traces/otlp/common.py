"""What both formats share: ids, times and names of spans, batches and rejections."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import msgspec

from palaver.traces.model import Link, RawSpan, Span
from palaver.traces.otlp.limits import MAX_SPAN_BYTES, Losses, truncate_name

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_AHEAD, _MAX_AGE = timedelta(days=1), timedelta(days=30)
_NS_PER_US = 1_000
_MEASURED_WIRE_BYTES = MAX_SPAN_BYTES // 4
"""Bytes on the wire of a span that may be too large as JSON."""
UNNAMED = "unnamed"
_encode = msgspec.json.Encoder().encode


class InvalidSpan(Exception):
    """A span that cannot be kept, and why."""


class RejectedSpan(msgspec.Struct, frozen=True):
    """One that was not kept."""

    index: int
    """Which of the request's spans it is, counted from 0 over all of them."""
    reason: str

    def __str__(self) -> str:
        return f"spans[{self.index}]: {self.reason}"


class SpanBatch(msgspec.Struct, frozen=True):
    """What one request brought."""

    spans: list[RawSpan]
    rejected: list[RejectedSpan]
    pending: int = 0
    """Notices of spans that have only begun, as Logfire sends them: counted and not kept, as each comes again."""


class SpanContext(msgspec.Struct, frozen=True):
    """What a span has from those around it."""

    received_at: datetime
    resource: dict[str, Any] = {}
    scope: str | None = None


def parse_trace_id(data: bytes) -> str:
    """The trace's id as text."""
    return _parse_id(data, 16, "trace id")


def parse_span_id(data: bytes) -> str:
    """The span's id as text."""
    return _parse_id(data, 8, "span id")


def _parse_id(data: bytes, size: int, word: str) -> str:
    if len(data) != size:
        raise InvalidSpan(f"{word} has {len(data)} bytes")
    if not any(data):
        raise InvalidSpan(f"{word} is zero")
    return data.hex()


def parse_parent_id(data: bytes, span_id: str, losses: Losses) -> str | None:
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


def parse_link(trace_id: bytes, span_id: bytes, attributes: dict[str, Any]) -> Link | None:
    """A link, where it names a span."""
    if len(trace_id) != 16 or len(span_id) != 8:
        return None
    return Link(trace_id=trace_id.hex(), span_id=span_id.hex(), attributes=attributes)


def to_datetime(nanoseconds: int) -> datetime:
    """A time as it is sent, in nanoseconds since 1970; we keep microseconds."""
    return _EPOCH + timedelta(microseconds=nanoseconds // _NS_PER_US)


def to_nanoseconds(at: datetime) -> int:
    """The same, back."""
    return (at - _EPOCH) // timedelta(microseconds=1) * _NS_PER_US


def end_nanoseconds(start: int, duration_ms: float) -> int:
    """When it ended, to the nanosecond; never later than the form can say."""
    return min(start + round(Fraction(duration_ms) * 1_000_000), (1 << 64) - 1)


def parse_times(start: int, end: int, context: SpanContext, losses: Losses) -> tuple[datetime, float]:
    """When it began, and how many milliseconds it took. A clock that cannot be right is kept, and noted."""
    began = to_datetime(start)
    if end < start or not context.received_at - _MAX_AGE <= began <= context.received_at + _MAX_AHEAD:
        losses.note("clock")
    return began, max(0, end - start) / 1_000_000


def span_name(name: str, losses: Losses) -> str:
    """The span's name; one without gets one."""
    if name:
        return truncate_name(name, "name", losses)
    losses.note(UNNAMED)
    return UNNAMED


def check_size(wire: int, *content: Any) -> None:
    """Refuse a span that is too large even after cutting. Few are sent in so many bytes that it has to be asked."""
    if wire > _MEASURED_WIRE_BYTES and (size := len(_encode(content))) > MAX_SPAN_BYTES:
        raise InvalidSpan(f"it has {size} bytes, more than {MAX_SPAN_BYTES}")


def is_pending_span(attributes: dict[str, Any]) -> bool:
    """Is this one of Logfire's notices that a span has begun?"""
    return attributes.get("logfire.span_type") == "pending_span"


SpanSource = tuple[tuple[tuple[str, str], ...], str | None]
"""Who sends: attributes of its resource, and the scope."""
_KIND_INTERNAL, _KIND_SERVER = 1, 2
_PALAVER_SCOPE = "palaver"


def otlp_kind(span: Span) -> int:
    """OTLP's kind of a span of ours: was it called over HTTP? Of anybody else's we do not know it."""
    if span.scope != _PALAVER_SCOPE:
        return 0
    return _KIND_SERVER if "palaver.protocol" in span.attributes else _KIND_INTERNAL
