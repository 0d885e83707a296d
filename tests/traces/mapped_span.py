"""The mapped record of a span with given attributes or events, for tests of every known attribute name."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from palaver.core import json
from palaver.traces.model import RawSpan, SpanEvent
from palaver.traces.span_mapper import to_span

START = datetime(2026, 11, 15, 7, 20, tzinfo=UTC)


def text(value: Any) -> str:
    return json.encode(value).decode()


def record(attributes: dict[str, Any], *events: SpanEvent) -> dict[str, Any]:
    raw = RawSpan(trace_id="1" * 32, span_id="2" * 16, start=START, attributes=attributes, events=events)
    return msgspec.json.decode(json.encode(to_span(raw, project="default")))


def field_of(attributes: dict[str, Any], path: str) -> Any:
    """Return a field of the record by its dotted path: `usage.input_tokens`."""
    current: Any = record(attributes)
    for name in path.split("."):
        current = current[name] if current is not None and name in current else None
    return current
