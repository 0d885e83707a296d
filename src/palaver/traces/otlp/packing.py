"""Spans as protobuf: each is written by the library, and the request around them by hand, as it is taken apart.

What encoding.py says of the JSON form holds here, too.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, cast

from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    InstrumentationScope,
    KeyValue,
    KeyValueList,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from palaver.core import json
from palaver.traces.otlp.spans import UNNAMED, end_of, nanoseconds
from palaver.traces.otlp.wire import varint
from palaver.traces.record import Span

Source = tuple[tuple[tuple[str, str], ...], str | None]
"""Who sends: attributes of its resource, and the scope."""
_INTERNAL, _SERVER = 1, 2
_OURS = "palaver"
_MOST_COUNTED = (1 << 32) - 1


def kind_of(span: Span) -> int:
    """OTLP's kind of a span of ours: was it called over HTTP? Of anybody else's we do not know it."""
    if span.scope != _OURS:
        return 0
    return _SERVER if "palaver.protocol" in span.attributes else _INTERNAL


def request(spans: Sequence[tuple[Source, bytes]]) -> bytes:
    """An ExportTraceServiceRequest of spans that are written already, each with its source."""
    groups: list[bytes] = []
    for (resource, scope), together in groupby(spans, key=lambda one: one[0]):
        about = Resource(attributes=_pairs(dict(resource))).SerializeToString()
        library = InstrumentationScope(name=scope or "").SerializeToString()
        listed = b"".join(_field(2, data) for _, data in together)
        groups.append(_field(1, _field(1, about) + _field(2, _field(1, library) + listed)))
    return b"".join(groups)


def _field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def span(given: Span) -> bytes:
    """A span."""
    start, dropped = nanoseconds(given.start), given.dropped
    made = SpanMessage(
        trace_id=bytes.fromhex(given.trace_id),
        span_id=bytes.fromhex(given.span_id),
        parent_span_id=bytes.fromhex(given.parent_id or ""),
        kind=cast("Any", kind_of(given)),
        name="" if given.name == UNNAMED and UNNAMED in given.notes else _text(given.name),
        start_time_unix_nano=start,
        end_time_unix_nano=end_of(start, given.duration_ms),
        attributes=_pairs(given.attributes),
        dropped_attributes_count=_count(dropped.get("attributes")),
        events=[
            SpanMessage.Event(
                time_unix_nano=nanoseconds(event.at) if event.at else 0,
                name=_text(event.name),
                attributes=_pairs(event.attributes),
            )
            for event in given.events
        ],
        dropped_events_count=_count(dropped.get("events")),
        links=[
            SpanMessage.Link(
                trace_id=bytes.fromhex(link.trace_id),
                span_id=bytes.fromhex(link.span_id),
                attributes=_pairs(link.attributes),
            )
            for link in given.links
        ],
        dropped_links_count=_count(dropped.get("links")),
        status=Status(
            code=Status.STATUS_CODE_ERROR if given.status == "error" else Status.STATUS_CODE_UNSET,
            message=_text(given.status_message),
        ),
    )
    return made.SerializeToString()


def _count(number: int | None) -> int:
    return min(number or 0, _MOST_COUNTED)


def _pairs(values: dict[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=_text(name), value=_value(value)) for name, value in values.items()]


def _value(value: Any) -> AnyValue:
    match value:
        case None:
            return AnyValue()
        case bool():
            return AnyValue(bool_value=value)
        case str():
            return AnyValue(string_value=_text(value))
        case int() if -(2**63) <= value < 2**63:
            return AnyValue(int_value=value)
        case int() | float():
            return AnyValue(double_value=float(value))
        case dict():
            return AnyValue(kvlist_value=KeyValueList(values=_pairs(cast("dict[str, Any]", value))))
        case _:
            return AnyValue(array_value=ArrayValue(values=[_value(item) for item in cast("list[Any]", value)]))


def _text(text: str) -> str:
    """As UTF-8 can hold it: half of a character is none."""
    return json.replace_surrogates(text)
