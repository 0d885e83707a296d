"""OTLP in protobuf: requests are split by `WireReader`, and each span is decoded and encoded by the library.

So an undecodable span (e.g. invalid UTF-8) is rejected individually. The library makes objects of every value, forty
bytes for two bytes on the wire; so what exceeds the limits is cut out of large spans before they are decoded.
"""

from base64 import b64encode
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple, cast

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from palaver.core.json import replace_surrogates
from palaver.errors import InvalidBody, TooLarge
from palaver.traces.model import Link, RawSpan, Span, SpanEvent
from palaver.traces.otlp import common
from palaver.traces.otlp.limits import (
    MAX_ATTRIBUTES,
    MAX_EVENTS,
    MAX_LINKS,
    MAX_NAME_CHARS,
    MAX_NESTED_ATTRIBUTES,
    MAX_SPAN_BYTES,
    MAX_TEXT_BYTES,
    MAX_VALUE_DEPTH,
    Losses,
    ValueBudget,
    collect_attributes,
    collect_map,
    json_number,
    truncate_name,
    truncate_text,
)

MAX_REQUEST_FIELDS = 500_000
"""Maximum number of fields in one request: about half a second of work."""
SMALL_MESSAGE_BYTES = MAX_TEXT_BYTES
"""Smaller messages need no truncation."""
_SLACK_BYTES = 8
"""Kept beyond the limit, so that the decoder sees that the text was longer, and notes it."""
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5

# Field numbers of nested messages and of texts, by message.
_MESSAGE_FIELDS: dict[str, dict[int, str]] = {
    "span": {9: "pair", 11: "event", 13: "link", 15: "status"},
    "event": {3: "pair"},
    "link": {4: "pair"},
    "status": {},
    "resource": {1: "pair"},
    "scope": {3: "pair"},
    "pair": {2: "value"},
    "value": {5: "list", 6: "map"},
    "list": {1: "value"},
    "map": {1: "pair"},
}
_TEXT_FIELDS: dict[str, frozenset[int]] = {
    "span": frozenset({3, 5}),
    "event": frozenset({2}),
    "link": frozenset({3}),
    "status": frozenset({2}),
    "scope": frozenset({1, 2}),
    "pair": frozenset({1}),
    "value": frozenset({1, 7}),
}
_ATTRIBUTE_FIELDS = {"span": 9, "resource": 1}
_MAX_MESSAGE_DEPTH = 3 * MAX_VALUE_DEPTH
"""A list in a list is three nested messages."""


class MalformedMessage(ValueError):
    """Bytes that are not a protobuf message."""


class Field(NamedTuple):
    """One field. Only fields of wire type 2 have a length and can be messages."""

    number: int
    wire_type: int
    tag_start: int
    """Offset of the tag."""
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start


class WireReader:
    """Splits one request into fields, up to a number of fields."""

    def __init__(self, data: bytes, budget: int = MAX_REQUEST_FIELDS) -> None:
        self.data = data
        self._budget = budget

    def fields(self, position: int, stop: int) -> Iterator[Field]:
        """Iterate over the fields of the message in data[position:stop]."""
        data = self.data
        while position < stop:
            if not self._budget:
                raise TooLarge("The request has too many fields. Configure the exporter to send smaller batches.")
            self._budget -= 1
            tag_start = position
            tag = data[position]
            tag, position = (tag, position + 1) if tag < 0x80 else self._varint(position)
            wire_type = tag & 7
            if wire_type == _LENGTH:
                size, position = self._varint(position)
                end = position + size
            elif wire_type == _VARINT:
                end = self._varint(position)[1]
            elif wire_type in {_FIXED64, _FIXED32}:
                end = position + (8 if wire_type == _FIXED64 else 4)
            else:
                raise MalformedMessage(f"unsupported wire type {wire_type}")
            if end > stop or tag < 8:
                raise MalformedMessage(
                    "a field is longer than its message" if end > stop else "a field has the number 0"
                )
            yield Field(tag >> 3, wire_type, tag_start, position, end)
            position = end

    def messages(self, number: int, position: int, stop: int) -> Iterator[Field]:
        """Iterate over the length-delimited fields with this number."""
        return (field for field in self.fields(position, stop) if field.number == number and field.wire_type == _LENGTH)

    def truncate(self, kind: str, position: int, stop: int, losses: Losses, depth: int = 0) -> bytes:
        """Return the message without excess attributes and with long texts truncated."""
        if depth > _MAX_MESSAGE_DEPTH:
            raise MalformedMessage("a value is nested too deeply")
        pieces: list[bytes] = []
        names: set[bytes] = set()
        copied_to = position
        for field in self.fields(position, stop):
            is_long = field.size > SMALL_MESSAGE_BYTES + _SLACK_BYTES
            replacement = self._truncate_field(kind, field, losses, depth) if is_long else None
            if replacement is None and field.number == _ATTRIBUTE_FIELDS.get(kind) and not self._has_room(field, names):
                losses.attributes += 1
                replacement = b""
            if replacement is not None:
                pieces += self.data[copied_to : field.tag_start], replacement
                copied_to = field.stop
        pieces.append(self.data[copied_to:stop])
        return b"".join(pieces)

    def _truncate_field(self, kind: str, field: Field, losses: Losses, depth: int) -> bytes | None:
        """Return a long field truncated; None if its content is unknown."""
        if field.number in _TEXT_FIELDS.get(kind, ()):
            end = field.start + MAX_TEXT_BYTES + _SLACK_BYTES
            while end > field.start + MAX_TEXT_BYTES and self.data[end] & 0xC0 == 0x80:  # Not at a character boundary.
                end -= 1
            losses.bytes += field.stop - end
            content = self.data[field.start : end]
        elif inner := _MESSAGE_FIELDS[kind].get(field.number):
            content = self.truncate(inner, field.start, field.stop, losses, depth + 1)
        else:
            return None
        return encode_field(field.number, content)

    def _has_room(self, field: Field, names: set[bytes]) -> bool:
        """Whether the attribute is within the limits: a known name, or not too many yet."""
        name_field = next(self.messages(1, field.start, field.stop), None)
        name = self.data[name_field.start : name_field.stop] if name_field else b""
        if len(name) > MAX_NAME_CHARS and len(name.decode(errors="replace")) > MAX_NAME_CHARS:
            return False
        if name not in names and len(names) >= MAX_ATTRIBUTES:
            return False
        names.add(name)
        return True

    def _varint(self, position: int) -> tuple[int, int]:
        data, value, shift = self.data, 0, 0
        try:
            while (byte := data[position]) >= 0x80:
                value |= (byte & 0x7F) << shift
                shift += 7
                position += 1
                if shift > 63:
                    raise MalformedMessage("a varint is longer than ten bytes")
        except IndexError:
            raise MalformedMessage("it is truncated in the middle of a field") from None
        return value | byte << shift, position + 1


def encode_varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_field(number: int, content: bytes) -> bytes:
    """Encode a field of wire type 2: bytes, a text or a message."""
    return encode_varint(number << 3 | _LENGTH) + encode_varint(len(content)) + content


_MAX_UINT32 = (1 << 32) - 1


def encode_protobuf_request(spans: Sequence[tuple[common.SpanSource, bytes]]) -> bytes:
    groups: list[bytes] = []
    for (resource, scope), members in groupby(spans, key=lambda item: item[0]):
        resource_bytes = Resource(attributes=_key_values(dict(resource))).SerializeToString()
        scope_bytes = InstrumentationScope(name=scope or "").SerializeToString()
        span_fields = b"".join(encode_field(2, data) for _, data in members)
        groups.append(
            encode_field(
                1, encode_field(1, resource_bytes) + encode_field(2, encode_field(1, scope_bytes) + span_fields)
            )
        )
    return b"".join(groups)


def encode_protobuf_span(span: Span) -> bytes:
    start, dropped = common.to_nanoseconds(span.start), span.dropped
    message = SpanMessage(
        trace_id=bytes.fromhex(span.trace_id),
        span_id=bytes.fromhex(span.span_id),
        parent_span_id=bytes.fromhex(span.parent_id or ""),
        kind=cast("Any", common.otlp_kind(span)),
        name="" if span.name == common.UNNAMED and common.UNNAMED in span.notes else replace_surrogates(span.name),
        start_time_unix_nano=start,
        end_time_unix_nano=common.end_nanoseconds(start, span.duration_ms),
        attributes=_key_values(span.attributes),
        dropped_attributes_count=_uint32(dropped.get("attributes")),
        events=[
            SpanMessage.Event(
                time_unix_nano=common.to_nanoseconds(event.at) if event.at else 0,
                name=replace_surrogates(event.name),
                attributes=_key_values(event.attributes),
            )
            for event in span.events
        ],
        dropped_events_count=_uint32(dropped.get("events")),
        links=[
            SpanMessage.Link(
                trace_id=bytes.fromhex(link.trace_id),
                span_id=bytes.fromhex(link.span_id),
                attributes=_key_values(link.attributes),
            )
            for link in span.links
        ],
        dropped_links_count=_uint32(dropped.get("links")),
        status=Status(
            code=Status.STATUS_CODE_ERROR if span.status == "error" else Status.STATUS_CODE_UNSET,
            message=replace_surrogates(span.status_message),
        ),
    )
    return message.SerializeToString()


def _uint32(number: int | None) -> int:
    return min(number or 0, _MAX_UINT32)


def _key_values(values: dict[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=replace_surrogates(name), value=_any_value(value)) for name, value in values.items()]


def _any_value(value: Any) -> AnyValue:
    match value:
        case None:
            return AnyValue()
        case bool():
            return AnyValue(bool_value=value)
        case str():
            return AnyValue(string_value=replace_surrogates(value))
        case int() if -(2**63) <= value < 2**63:
            return AnyValue(int_value=value)
        case int() | float():
            return AnyValue(double_value=float(value))
        case dict():
            return AnyValue(kvlist_value=KeyValueList(values=_key_values(cast("dict[str, Any]", value))))
        case _:
            return AnyValue(array_value=ArrayValue(values=[_any_value(item) for item in cast("list[Any]", value)]))


def decode(body: bytes, received_at: datetime, max_spans: int) -> common.SpanBatch:
    """Decode up to `max_spans` spans. Raises InvalidBody or TooLarge."""
    spans: list[RawSpan] = []
    rejected: list[common.RejectedSpan] = []
    reader, budget = WireReader(body), ValueBudget()
    pending = count = 0
    try:
        for group in reader.messages(1, 0, len(body)):
            resource = _decode_resource(reader, group, budget)
            for scope in reader.messages(2, group.start, group.stop):
                context = common.SpanContext(received_at, resource, _decode_scope(reader, scope))
                for field in reader.messages(2, scope.start, scope.stop):
                    if count >= max_spans:
                        raise common.too_many_spans(max_spans)
                    count += 1
                    try:
                        span = _decode_span(reader, field, context, budget)
                    except (common.InvalidSpan, MalformedMessage, DecodeError) as error:
                        rejected.append(common.RejectedSpan(count - 1, _reason(error)))
                        continue
                    if span is None:
                        pending += 1
                    else:
                        spans.append(span)
    except (MalformedMessage, DecodeError) as error:
        raise InvalidBody(f"The body is not a valid ExportTraceServiceRequest: {_reason(error)}.") from None
    return common.SpanBatch(spans, rejected, pending)


def _reason(error: Exception) -> str:
    return "malformed Protobuf" if isinstance(error, DecodeError) else str(error)


def _message_bytes(reader: WireReader, field: Field, kind: str, losses: Losses) -> bytes:
    if field.size <= SMALL_MESSAGE_BYTES:
        return reader.data[field.start : field.stop]
    data = reader.truncate(kind, field.start, field.stop, losses)
    if len(data) > MAX_SPAN_BYTES:
        raise common.InvalidSpan(f"too large: {len(data):,} bytes (limit: {MAX_SPAN_BYTES:,})")
    return data


def _decode_resource(reader: WireReader, group: Field, budget: ValueBudget) -> dict[str, Any]:
    """Return the resource's attributes. Losses are not reported, as no span stores them."""
    losses = Losses(budget)
    attributes: dict[str, Any] = {}
    for field in reader.messages(1, group.start, group.stop):
        try:
            resource = Resource.FromString(_message_bytes(reader, field, "resource", losses))
        except common.InvalidSpan as error:
            raise MalformedMessage(f"invalid resource: {error}") from None
        attributes |= _decode_attributes(resource.attributes, losses)
    return attributes


def _decode_scope(reader: WireReader, scope_spans: Field) -> str | None:
    name = ""
    for field in reader.messages(1, scope_spans.start, scope_spans.stop):
        try:
            name = InstrumentationScope.FromString(_message_bytes(reader, field, "scope", Losses())).name
        except common.InvalidSpan as error:
            raise MalformedMessage(f"invalid scope: {error}") from None
    return truncate_name(name, "scope", Losses()) or None


def _decode_span(reader: WireReader, field: Field, context: common.SpanContext, budget: ValueBudget) -> RawSpan | None:
    losses = Losses(budget)
    data = _message_bytes(reader, field, "span", losses)
    message = SpanMessage.FromString(data)
    trace_id = common.parse_trace_id(message.trace_id)
    span_id = common.parse_span_id(message.span_id)
    losses.attributes += message.dropped_attributes_count
    losses.events += message.dropped_events_count
    losses.links += message.dropped_links_count
    attributes = _decode_attributes(message.attributes, losses)
    if common.is_pending_span(attributes):
        return None
    status_message = truncate_text(message.status.message, "status_message", losses)
    events, links = _decode_events(message.events, losses), _decode_links(message.links, losses)
    common.check_size(len(data), status_message, attributes, events, links)
    start, duration = common.parse_times(message.start_time_unix_nano, message.end_time_unix_nano, context, losses)
    return RawSpan(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=common.parse_parent_id(message.parent_span_id, span_id, losses),
        name=common.span_name(message.name, losses),
        start=start,
        duration_ms=duration,
        failed=message.status.code == Status.STATUS_CODE_ERROR,
        status_message=status_message,
        attributes=attributes,
        resource=context.resource,
        events=events,
        links=links,
        scope=context.scope,
        dropped=losses.dropped(),
        notes=tuple(losses.notes),
    )


def _decode_events(messages: Collection[SpanMessage.Event], losses: Losses) -> tuple[SpanEvent, ...]:
    losses.budget.spend(len(messages))
    events: list[SpanEvent] = []
    for event in messages:
        if len(events) >= MAX_EVENTS:
            losses.events += 1
            continue
        losses.attributes += event.dropped_attributes_count
        events.append(
            SpanEvent(
                name=truncate_name(event.name, "event", losses),
                at=common.to_datetime(event.time_unix_nano) if event.time_unix_nano else None,
                attributes=_decode_attributes(event.attributes, losses, MAX_NESTED_ATTRIBUTES),
            )
        )
    return tuple(events)


def _decode_links(messages: Collection[SpanMessage.Link], losses: Losses) -> tuple[Link, ...]:
    losses.budget.spend(len(messages))
    links: list[Link] = []
    for message in messages:
        link = None
        if len(links) < MAX_LINKS:
            losses.attributes += message.dropped_attributes_count
            link = common.parse_link(
                message.trace_id, message.span_id, _decode_attributes(message.attributes, losses, MAX_NESTED_ATTRIBUTES)
            )
        if link is None:
            losses.links += 1
        else:
            links.append(link)
    return tuple(links)


def _decode_attributes(pairs: Collection[KeyValue], losses: Losses, max_count: int = MAX_ATTRIBUTES) -> dict[str, Any]:
    losses.budget.spend(len(pairs))
    return collect_attributes(((pair.key, pair.value) for pair in pairs), _decode_value, losses, max_count)


def _decode_value(value: AnyValue, name: str, losses: Losses, depth: int = 0) -> Any:
    """Convert to a JSON value; bytes become base64, and NaN and infinities text."""
    match value.WhichOneof("value"):
        case "string_value":
            return truncate_text(value.string_value, name, losses)
        case "int_value":
            return value.int_value
        case "bool_value":
            return value.bool_value
        case "double_value":
            return json_number(value.double_value)
        case "bytes_value":
            return truncate_text(b64encode(value.bytes_value).decode(), name, losses)
        case "array_value" | "kvlist_value" if depth >= MAX_VALUE_DEPTH:
            losses.bytes += value.ByteSize()
            losses.note(f"cut:{name}")
            return None
        case "array_value":
            losses.budget.spend(len(value.array_value.values))
            return [_decode_value(item, name, losses, depth + 1) for item in value.array_value.values]
        case "kvlist_value":
            losses.budget.spend(len(value.kvlist_value.values))
            pairs = ((pair.key, pair.value) for pair in value.kvlist_value.values)
            return collect_map(pairs, lambda item: _decode_value(item, name, losses, depth + 1), losses)
        case _:
            return None
