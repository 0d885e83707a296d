"""OTLP in JSON: ids in hexadecimal, 64-bit numbers as text or number, bytes as base64, unknown fields ignored.

Each span is decoded by itself, so that a field of the wrong type rejects that span only.
"""

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, cast

import msgspec

from palaver.errors import InvalidBody, TooLarge
from palaver.traces.model import Link, RawSpan, Redaction, Span, SpanEvent
from palaver.traces.otlp import common
from palaver.traces.otlp.limits import (
    MAX_ATTRIBUTES,
    MAX_EVENTS,
    MAX_LINKS,
    MAX_NESTED_ATTRIBUTES,
    MAX_NOTE_CHARS,
    MAX_NOTES,
    MAX_VALUE_DEPTH,
    Losses,
    ValueBudget,
    collect_attributes,
    collect_map,
    json_number,
    replace_control_chars,
    truncate_name,
    truncate_text,
)

Int64 = int | str | float | None
"""A 64-bit number: text by the specification, a number from many senders."""


class _OtlpStruct(msgspec.Struct, rename="camel", gc=False):
    """Base of OTLP's messages. null means that a field is absent."""


class ArrayValue(_OtlpStruct):
    values: "list[AnyValue | None] | None" = None


class KeyValueList(_OtlpStruct):
    values: "list[KeyValue] | None" = None


class AnyValue(_OtlpStruct, omit_defaults=True):
    """A value; at most one field is set."""

    string_value: str | None = None
    bool_value: bool | None = None
    int_value: Int64 = None
    double_value: float | str | None = None
    array_value: ArrayValue | None = None
    kvlist_value: KeyValueList | None = None
    bytes_value: str | None = None


class KeyValue(_OtlpStruct):
    key: str | None = None
    value: AnyValue | None = None


class JsonEvent(_OtlpStruct):
    time_unix_nano: Int64 = None
    name: str | None = None
    attributes: list[KeyValue] | None = None
    dropped_attributes_count: Int64 = None


class JsonLink(_OtlpStruct):
    trace_id: str | None = None
    span_id: str | None = None
    attributes: list[KeyValue] | None = None
    dropped_attributes_count: Int64 = None


class JsonStatus(_OtlpStruct):
    code: int | str | None = None
    message: str | None = None


class PalaverFields(_OtlpStruct, omit_defaults=True):
    """Palaver's own fields in an export; other readers ignore them."""

    notes: list[str] | None = None
    bytes: int | None = None
    redactions: list[Redaction] | None = None


class JsonSpan(_OtlpStruct, omit_defaults=True):
    trace_id: str | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    name: str | None = None
    start_time_unix_nano: Int64 = None
    end_time_unix_nano: Int64 = None
    attributes: list[KeyValue] | None = None
    dropped_attributes_count: Int64 = None
    events: list[JsonEvent] | None = None
    dropped_events_count: Int64 = None
    links: list[JsonLink] | None = None
    dropped_links_count: Int64 = None
    status: JsonStatus | None = None
    palaver: PalaverFields | None = None


class JsonSpanWithKind(JsonSpan, omit_defaults=True):
    """A span with its kind, which is written but not read: an odd kind must not reject a span."""

    kind: int | None = None


class Resource(_OtlpStruct):
    attributes: list[KeyValue] | None = None


class Scope(_OtlpStruct):
    name: str | None = None


class ScopeSpans(_OtlpStruct):
    """The spans of one instrumentation library, each decoded by itself."""

    scope: Scope | None = None
    spans: list[msgspec.Raw] | None = None


class ResourceSpans(_OtlpStruct):
    resource: Resource | None = None
    scope_spans: list[ScopeSpans] | None = None


class ExportRequest(_OtlpStruct):
    resource_spans: list[ResourceSpans] | None = None


_MAX_SPAN_OBJECTS = 500_000
"""Each object of a span takes about a hundred bytes of memory."""
_LARGE_BODY_BYTES, _MIN_BYTES_PER_OBJECT = 4 * 1024 * 1024, 12
"""A large body with an object for every twelve bytes is an attempt to exhaust memory."""
_ERROR_CODES = frozenset({2, "2", "STATUS_CODE_ERROR"})
_MAX_ESCAPES = 1_000_000
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL)
_DECODE_ERRORS = (msgspec.MsgspecError, UnicodeError, RecursionError)
_decode_json_request = msgspec.json.Decoder(ExportRequest).decode
_decode_json_span = msgspec.json.Decoder(JsonSpan).decode
_encode = msgspec.json.Encoder().encode


def decode(body: bytes, received_at: datetime, max_spans: int) -> common.SpanBatch:
    """Decode up to `max_spans` spans. Raises InvalidBody or TooLarge."""
    if len(body) > _LARGE_BODY_BYTES and _count_objects(body) * _MIN_BYTES_PER_OBJECT > len(body):
        raise TooLarge("The body consists mostly of empty objects.")
    request = _decode_request(body)
    spans: list[RawSpan] = []
    rejected: list[common.RejectedSpan] = []
    budget = ValueBudget()
    pending = count = 0
    for group in request.resource_spans or ():
        resource = _decode_resource(group.resource, budget)
        for scope in group.scope_spans or ():
            context = common.SpanContext(received_at, resource, _decode_scope(scope.scope))
            for raw in scope.spans or ():
                if count >= max_spans:
                    raise common.too_many_spans(max_spans)
                count += 1
                try:
                    span = _decode_span(raw, context, budget)
                except (common.InvalidSpan, *_DECODE_ERRORS) as error:
                    rejected.append(common.RejectedSpan(count - 1, _reason(error)))
                    continue
                if span is None:
                    pending += 1
                else:
                    spans.append(span)
    return common.SpanBatch(spans, rejected, pending)


def _decode_request(body: bytes) -> ExportRequest:
    try:
        try:
            return _decode_json_request(body)
        except msgspec.DecodeError:
            if not _SURROGATE.search(body) or body.count(b"\\") > _MAX_ESCAPES:
                raise
            # JavaScript may cut a text inside a surrogate pair and send the remaining half.
            return _decode_json_request(_ESCAPE.sub(lambda match: b"\\ufffd" if match["lone"] else match[0], body))
    except _DECODE_ERRORS as error:
        raise InvalidBody(f"The body is not a valid ExportTraceServiceRequest: {_reason(error)}.") from None


def _reason(error: Exception) -> str:
    match error:
        case UnicodeError():
            return "invalid UTF-8"
        case RecursionError():
            return "nested too deeply"
        case msgspec.MsgspecError():
            text = str(error)
            return text if text.startswith("JSON") else text[:1].lower() + text[1:]
        case _:
            return str(error)


def _decode_resource(raw: Resource | None, budget: ValueBudget) -> dict[str, Any]:
    """Return the resource's attributes. Losses are not reported, as no span stores them."""
    try:
        return _decode_attributes(raw.attributes if raw else None, Losses(budget))
    except common.InvalidSpan as error:
        raise InvalidBody(f"The body is not a valid ExportTraceServiceRequest: invalid resource: {error}.") from None


def _decode_scope(raw: Scope | None) -> str | None:
    return truncate_name((raw and raw.name) or "", "scope", Losses()) or None


def _decode_span(data: msgspec.Raw, context: common.SpanContext, budget: ValueBudget) -> RawSpan | None:
    view = memoryview(data)
    if len(view) > 3 * _MAX_SPAN_OBJECTS and _count_objects(bytes(view)) > _MAX_SPAN_OBJECTS:
        raise common.InvalidSpan(f"more than {_MAX_SPAN_OBJECTS:,} values")
    raw = _decode_json_span(data)
    losses = Losses(budget)
    trace_id = common.parse_trace_id(_hex_id(raw.trace_id, "trace id"))
    span_id = common.parse_span_id(_hex_id(raw.span_id, "span id"))
    losses.attributes += _unsigned(raw.dropped_attributes_count)
    losses.events += _unsigned(raw.dropped_events_count)
    losses.links += _unsigned(raw.dropped_links_count)
    attributes = _decode_attributes(raw.attributes, losses)
    if common.is_pending_span(attributes):
        return None
    redactions = _decode_palaver_fields(raw.palaver, losses)
    status = raw.status or JsonStatus()
    status_message = truncate_text(status.message or "", "status_message", losses)
    events, links = _decode_events(raw.events or (), losses), _decode_links(raw.links or (), losses)
    common.check_size(len(view), status_message, attributes, events, links)
    start, duration = common.parse_times(
        _unsigned(raw.start_time_unix_nano), _unsigned(raw.end_time_unix_nano), context, losses
    )
    return RawSpan(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=common.parse_parent_id(_optional_hex_id(raw.parent_span_id), span_id, losses),
        name=common.span_name(raw.name or "", losses),
        start=start,
        duration_ms=duration,
        failed=status.code in _ERROR_CODES,
        status_message=status_message,
        attributes=attributes,
        resource=context.resource,
        events=events,
        links=links,
        scope=context.scope,
        dropped=losses.dropped(),
        notes=tuple(losses.notes),
        redactions=redactions,
    )


def _count_objects(text: bytes) -> int:
    """Count objects, except those inside escaped JSON texts."""
    return text.count(b"{") - text.count(b"{\\")


def _decode_palaver_fields(raw: PalaverFields | None, losses: Losses) -> tuple[Redaction, ...]:
    if raw is None:
        return ()
    for text in (raw.notes or ())[:MAX_NOTES]:
        losses.note(_note_text(text))
    losses.bytes += min(max(raw.bytes or 0, 0), 2**63 - 1)
    return tuple(
        Redaction(_note_text(item.path), _note_text(item.by), item.count) for item in (raw.redactions or ())[:MAX_NOTES]
    )


def _note_text(text: str) -> str:
    return replace_control_chars(text[:MAX_NOTE_CHARS])


def _hex_id(text: str | None, label: str) -> bytes:
    try:
        return bytes.fromhex(text or "")
    except ValueError:
        raise common.InvalidSpan(f"{label} is not hexadecimal") from None


def _optional_hex_id(text: str | None) -> bytes:
    """Decode an optional id; an invalid one gets an invalid length."""
    try:
        return bytes.fromhex(text or "")
    except ValueError:
        return b"?"


def _int64(raw: Int64) -> int:
    """Convert to int. Raises InvalidSpan if it is not a 64-bit number."""
    try:
        number = int(raw or 0)
    except (ValueError, OverflowError):
        number = 2**64
    if not -(2**63) <= number < 2**64 or (isinstance(raw, float) and not raw.is_integer()):
        raise common.InvalidSpan(f"{str(raw)[:40]!r} is not a 64-bit integer")
    return number


def _unsigned(raw: Int64) -> int:
    return max(0, _int64(raw))


def _decode_events(raw: Sequence[JsonEvent], losses: Losses) -> tuple[SpanEvent, ...]:
    losses.budget.spend(len(raw))
    losses.events += max(0, len(raw) - MAX_EVENTS)
    events: list[SpanEvent] = []
    for event in raw[:MAX_EVENTS]:
        losses.attributes += _unsigned(event.dropped_attributes_count)
        time_ns = _unsigned(event.time_unix_nano)
        events.append(
            SpanEvent(
                name=truncate_name(event.name or "", "event", losses),
                at=common.to_datetime(time_ns) if time_ns else None,
                attributes=_decode_attributes(event.attributes, losses, MAX_NESTED_ATTRIBUTES),
            )
        )
    return tuple(events)


def _decode_links(raw: Sequence[JsonLink], losses: Losses) -> tuple[Link, ...]:
    losses.budget.spend(len(raw))
    links: list[Link] = []
    for message in raw:
        link = None
        if len(links) < MAX_LINKS:
            losses.attributes += _unsigned(message.dropped_attributes_count)
            attributes = _decode_attributes(message.attributes, losses, MAX_NESTED_ATTRIBUTES)
            link = common.parse_link(_optional_hex_id(message.trace_id), _optional_hex_id(message.span_id), attributes)
        if link is None:
            losses.links += 1
        else:
            links.append(link)
    return tuple(links)


def _decode_attributes(
    raw: Sequence[KeyValue] | None, losses: Losses, max_count: int = MAX_ATTRIBUTES
) -> dict[str, Any]:
    if not raw:
        return {}
    losses.budget.spend(len(raw))
    return collect_attributes(((pair.key or "", pair.value) for pair in raw), _decode_value, losses, max_count)


def _decode_value(value: AnyValue | None, name: str, losses: Losses, depth: int = 0) -> Any:
    """Convert to a JSON value; bytes stay base64, and NaN and infinities become text."""
    if value is None:
        return None
    if value.string_value is not None:
        return truncate_text(value.string_value, name, losses)
    if value.int_value is not None:
        return _int64(value.int_value)
    if value.bool_value is not None:
        return value.bool_value
    if value.double_value is not None:
        return _double(value.double_value)
    if value.bytes_value is not None:
        return truncate_text(_base64(value.bytes_value), name, losses)
    if depth >= MAX_VALUE_DEPTH and (value.array_value is not None or value.kvlist_value is not None):
        losses.bytes += len(_encode(value))
        losses.note(f"cut:{name}")
        return None
    if value.array_value is not None:
        values = value.array_value.values or ()
        losses.budget.spend(len(values))
        return [_decode_value(item, name, losses, depth + 1) for item in values]
    if value.kvlist_value is not None:
        members = value.kvlist_value.values or ()
        losses.budget.spend(len(members))
        pairs = ((pair.key or "", pair.value) for pair in members)
        return collect_map(pairs, lambda item: _decode_value(item, name, losses, depth + 1), losses)
    return None


def _double(raw: float | str) -> float | str:
    try:
        return json_number(float(raw))
    except ValueError:
        raise common.InvalidSpan(f"{str(raw)[:40]!r} is not a number") from None


def _base64(text: str) -> str:
    """Normalize base64 to the standard alphabet with padding."""
    try:
        return b64encode(b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4))).decode()
    except (Base64Error, ValueError):
        raise common.InvalidSpan("a bytesValue is not valid base64") from None


def encode_json_request(spans: Sequence[tuple[common.SpanSource, bytes]]) -> bytes:
    groups = [
        ResourceSpans(
            resource=Resource([KeyValue(name, AnyValue(string_value=value)) for name, value in resource]),
            scope_spans=[
                ScopeSpans(scope=Scope(scope), spans=[msgspec.Raw(data) for _, data in members]),
            ],
        )
        for (resource, scope), members in groupby(spans, key=lambda item: item[0])
    ]
    return _encode(ExportRequest(groups))


def encode_json_span(span: Span) -> bytes:
    return _encode(_to_json_span(span))


def _to_json_span(span: Span) -> JsonSpanWithKind:
    start = common.to_nanoseconds(span.start)
    dropped = span.dropped
    palaver_fields = PalaverFields(
        notes=list(span.notes) or None, bytes=dropped.get("bytes"), redactions=list(span.redactions) or None
    )
    return JsonSpanWithKind(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_id,
        kind=common.otlp_kind(span) or None,
        name="" if span.name == common.UNNAMED and common.UNNAMED in span.notes else span.name,
        start_time_unix_nano=str(start),
        end_time_unix_nano=str(common.end_nanoseconds(start, span.duration_ms)),
        attributes=_key_values(span.attributes),
        dropped_attributes_count=dropped.get("attributes"),
        events=[
            JsonEvent(
                time_unix_nano=str(common.to_nanoseconds(event.at)) if event.at else None,
                name=event.name,
                attributes=_key_values(event.attributes),
            )
            for event in span.events
        ],
        dropped_events_count=dropped.get("events"),
        links=[JsonLink(link.trace_id, link.span_id, _key_values(link.attributes)) for link in span.links],
        dropped_links_count=dropped.get("links"),
        status=JsonStatus(code=2 if span.status == "error" else 0, message=span.status_message),
        palaver=palaver_fields if palaver_fields != PalaverFields() else None,
    )


def _key_values(values: dict[str, Any]) -> list[KeyValue]:
    return [KeyValue(name, _any_value(value)) for name, value in values.items()]


def _any_value(value: Any) -> AnyValue:
    match value:
        case None:
            return AnyValue()
        case bool():
            return AnyValue(bool_value=value)
        case str():
            return AnyValue(string_value=value)
        case int() if -(2**63) <= value < 2**64:
            return AnyValue(int_value=str(value))
        case int() | float():
            return AnyValue(double_value=float(value))
        case dict():
            return AnyValue(kvlist_value=KeyValueList(_key_values(cast("dict[str, Any]", value))))
        case _:
            return AnyValue(array_value=ArrayValue([_any_value(item) for item in cast("list[Any]", value)]))
