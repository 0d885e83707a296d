"""Ids, times and names of spans, batches and rejections, for both formats."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import msgspec

from palaver.errors import TooLarge
from palaver.traces.model import Link, RawSpan, Span
from palaver.traces.otlp.limits import MAX_SPAN_BYTES, Losses, truncate_name

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_AHEAD, _MAX_AGE = timedelta(days=1), timedelta(days=30)
_NS_PER_US = 1_000
_MEASURED_WIRE_BYTES = MAX_SPAN_BYTES // 4
"""Only spans with more bytes on the wire can be too large as JSON, and are measured."""
UNNAMED = "unnamed"
_encode = msgspec.json.Encoder().encode


class InvalidSpan(Exception):
    """A span that cannot be stored; the message is the reason."""


def too_many_spans(limit: int) -> TooLarge:
    """Return the error of a request with more than `limit` spans."""
    return TooLarge(f"The request has more than {limit:,} spans. Configure the exporter to send smaller batches.")


class RejectedSpan(msgspec.Struct, frozen=True):
    """A span or log record that is not stored."""

    index: int
    """Index over all spans or log records of the request."""
    reason: str
    item: str = "spans"

    def __str__(self) -> str:
        return f"{self.item}[{self.index}]: {self.reason}"


class SpanBatch(msgspec.Struct, frozen=True):
    spans: list[RawSpan]
    rejected: list[RejectedSpan]
    pending: int = 0
    """Number of Logfire's notices about unfinished spans; they are not stored, as each span is sent again."""


class SpanContext(msgspec.Struct, frozen=True):
    """Values that the spans of one scope share."""

    received_at: datetime
    resource: dict[str, Any] = {}
    scope: str | None = None


def parse_trace_id(data: bytes) -> str:
    return _parse_id(data, 16, "trace id")


def parse_span_id(data: bytes) -> str:
    return _parse_id(data, 8, "span id")


def _parse_id(data: bytes, size: int, label: str) -> str:
    if len(data) != size:
        raise InvalidSpan(f"{label} has {len(data)} bytes, not {size}")
    if not any(data):
        raise InvalidSpan(f"{label} is all zeros")
    return data.hex()


def parse_parent_id(data: bytes, span_id: str, losses: Losses) -> str | None:
    """Return the parent's id; None for a root, or if the id is invalid or the span's own."""
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
    """Return a link, or None if its ids are invalid."""
    if len(trace_id) != 16 or len(span_id) != 8:
        return None
    return Link(trace_id=trace_id.hex(), span_id=span_id.hex(), attributes=attributes)


def to_datetime(nanoseconds: int) -> datetime:
    """Convert nanoseconds since 1970, rounding down to microseconds."""
    return _EPOCH + timedelta(microseconds=nanoseconds // _NS_PER_US)


def to_nanoseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1) * _NS_PER_US


def end_nanoseconds(start: int, duration_ms: float) -> int:
    """Return the end time in nanoseconds, capped at what OTLP can express."""
    return min(start + round(Fraction(duration_ms) * 1_000_000), (1 << 64) - 1)


def parse_times(start: int, end: int, context: SpanContext, losses: Losses) -> tuple[datetime, float]:
    """Return start time and duration in milliseconds. An implausible clock is kept and noted."""
    started = to_datetime(start)
    if end < start or not context.received_at - _MAX_AGE <= started <= context.received_at + _MAX_AHEAD:
        losses.note("clock")
    return started, max(0, end - start) / 1_000_000


def span_name(name: str, losses: Losses) -> str:
    """Return the truncated name, or UNNAMED."""
    if name:
        return truncate_name(name, "name", losses)
    losses.note(UNNAMED)
    return UNNAMED


def check_size(wire_bytes: int, *content: Any) -> None:
    """Raise InvalidSpan if a span is too large after truncation. Only long spans are measured."""
    if wire_bytes > _MEASURED_WIRE_BYTES and (size := len(_encode(content))) > MAX_SPAN_BYTES:
        raise InvalidSpan(f"too large: {size:,} bytes (limit: {MAX_SPAN_BYTES:,})")


def is_pending_span(attributes: dict[str, Any]) -> bool:
    """Whether this is one of Logfire's notices that a span has started."""
    return attributes.get("logfire.span_type") == "pending_span"


SpanSource = tuple[tuple[tuple[str, str], ...], str | None]
"""Resource attributes and scope of a span."""
_KIND_INTERNAL, _KIND_SERVER = 1, 2
_PALAVER_SCOPE = "palaver"


def otlp_kind(span: Span) -> int:
    """Return OTLP's span kind: SERVER for runs called over HTTP. Unknown (0) for spans of other senders."""
    if span.scope != _PALAVER_SCOPE:
        return 0
    return _KIND_SERVER if "palaver.protocol" in span.attributes else _KIND_INTERNAL
