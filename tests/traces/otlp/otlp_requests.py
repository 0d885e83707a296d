"""Requests as exporters send them, written with OpenTelemetry's own messages."""

from datetime import UTC, datetime
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

PROTOBUF, JSON = "application/x-protobuf", "application/json"
NOW = datetime(2026, 11, 15, 7, 20, tzinfo=UTC)
START = 1_794_727_200_123_456_789
"""`NOW` plus 0.123456789 seconds, in nanoseconds since the epoch."""
TRACE_ID, SPAN_ID = bytes.fromhex("0af7651916cd43dd8448eb211c80319c"), bytes.fromhex("b7ad6b7169203331")


def value(source: Any) -> AnyValue:
    match source:
        case None:
            return AnyValue()
        case bool():
            return AnyValue(bool_value=source)
        case int():
            return AnyValue(int_value=source)
        case float():
            return AnyValue(double_value=source)
        case bytes():
            return AnyValue(bytes_value=source)
        case str():
            return AnyValue(string_value=source)
        case list():
            return AnyValue(array_value=ArrayValue(values=[value(item) for item in source]))
        case dict():
            return AnyValue(kvlist_value=KeyValueList(values=pairs(source)))
        case _:
            raise TypeError(source)


def pairs(source: dict[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=name, value=value(item)) for name, item in source.items()]


def span(attributes: dict[str, Any] | None = None, /, **fields: Any) -> Span:
    source = {
        "trace_id": TRACE_ID,
        "span_id": SPAN_ID,
        "name": "chat gpt-4o",
        "start_time_unix_nano": START,
        "end_time_unix_nano": START + 812_400_000,
        "attributes": pairs(attributes or {}),
    }
    return Span(**(source | fields))


def request(*spans: Span, resource: dict[str, Any] | None = None, scope: str = "my.lib") -> bytes:
    return ExportTraceServiceRequest(
        resource_spans=[
            ResourceSpans(
                resource=Resource(attributes=pairs({"service.name": "shop"} if resource is None else resource)),
                scope_spans=[ScopeSpans(scope=InstrumentationScope(name=scope), spans=spans)],
            )
        ]
    ).SerializeToString()


def field(number: int, content: bytes) -> bytes:
    """Encode a length-delimited protobuf field."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])
