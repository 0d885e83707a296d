"""OTLP as protobuf: a request is taken apart by hand, each span is read by the library.

So a span that cannot be read, of a text that is no UTF-8 for example, is refused alone.
"""

from base64 import b64encode
from collections.abc import Collection
from datetime import datetime
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from palaver.errors import InvalidBody, TooLarge
from palaver.traces.otlp import spans
from palaver.traces.otlp.bounds import (
    DEEPEST,
    LARGEST_SPAN,
    MOST_ATTRIBUTES,
    MOST_EVENTS,
    MOST_INNER,
    MOST_LINKS,
    Budget,
    Losses,
    collected,
    finite,
    kept,
    mapped,
    named,
)
from palaver.traces.otlp.spans import Batch, Context, Rejected, Unusable
from palaver.traces.otlp.wire import SMALL, Broken, Field, Walk
from palaver.traces.record import Link, Raw, SpanEvent


def decode(body: bytes, received_at: datetime, most: int) -> Batch:
    """The spans of a request, at most so many."""
    found: list[Raw] = []
    rejected: list[Rejected] = []
    walk, budget = Walk(body), Budget()
    pending = count = 0
    try:
        for group in walk.messages(1, 0, len(body)):
            resource = _resource(walk, group, budget)
            for part in walk.messages(2, group.start, group.stop):
                context = Context(received_at, resource, _scope(walk, part))
                for field in walk.messages(2, part.start, part.stop):
                    if count >= most:
                        raise TooLarge(f"The request has more than {most} spans: let the exporter send fewer at once.")
                    count += 1
                    try:
                        span = _span(walk, field, context, budget)
                    except (Unusable, Broken, DecodeError) as error:
                        rejected.append(Rejected(count - 1, _reason(error)))
                        continue
                    if span is None:
                        pending += 1
                    else:
                        found.append(span)
    except (Broken, DecodeError) as error:
        raise InvalidBody(f"The body is not an ExportTraceServiceRequest: {_reason(error)}.") from None
    return Batch(found, rejected, pending)


def _reason(error: Exception) -> str:
    return "it cannot be decoded" if isinstance(error, DecodeError) else str(error)


def _bytes(walk: Walk, field: Field, kind: str, losses: Losses) -> bytes:
    if field.size <= SMALL:
        return walk.data[field.start : field.stop]
    data = walk.thinned(kind, field.start, field.stop, losses)
    if len(data) > LARGEST_SPAN:
        raise Unusable(f"it has {len(data)} bytes, more than {LARGEST_SPAN}")
    return data


def _resource(walk: Walk, group: Field, budget: Budget) -> dict[str, Any]:
    """Its attributes. What is too much of them is left out without a word, as no span keeps them."""
    losses = Losses(budget)
    found: dict[str, Any] = {}
    for field in walk.messages(1, group.start, group.stop):
        try:
            resource = Resource.FromString(_bytes(walk, field, "resource", losses))
        except Unusable as error:
            raise Broken(f"a resource cannot be kept: {error}") from None
        found |= _attributes(resource.attributes, losses)
    return found


def _scope(walk: Walk, part: Field) -> str | None:
    name = ""
    for field in walk.messages(1, part.start, part.stop):
        try:
            name = InstrumentationScope.FromString(_bytes(walk, field, "scope", Losses())).name
        except Unusable as error:
            raise Broken(f"a scope cannot be kept: {error}") from None
    return named(name, "scope", Losses()) or None


def _span(walk: Walk, field: Field, context: Context, budget: Budget) -> Raw | None:
    losses = Losses(budget)
    data = _bytes(walk, field, "span", losses)
    sent = SpanMessage.FromString(data)
    trace_id = spans.trace_id_of(sent.trace_id)
    span_id = spans.span_id_of(sent.span_id)
    losses.attributes += sent.dropped_attributes_count
    losses.events += sent.dropped_events_count
    losses.links += sent.dropped_links_count
    attributes = _attributes(sent.attributes, losses)
    if spans.is_pending(attributes):
        return None
    status_message = kept(sent.status.message, "status_message", losses)
    events, links = _events(sent.events, losses), _links(sent.links, losses)
    spans.check_size(len(data), status_message, attributes, events, links)
    start, duration = spans.times(sent.start_time_unix_nano, sent.end_time_unix_nano, context, losses)
    return Raw(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=spans.parent_of(sent.parent_span_id, span_id, losses),
        name=spans.titled(sent.name, losses),
        start=start,
        duration_ms=duration,
        failed=sent.status.code == Status.STATUS_CODE_ERROR,
        status_message=status_message,
        attributes=attributes,
        resource=context.resource,
        events=events,
        links=links,
        scope=context.scope,
        dropped=losses.dropped(),
        notes=tuple(losses.notes),
    )


def _events(sent: Collection[SpanMessage.Event], losses: Losses) -> tuple[SpanEvent, ...]:
    losses.budget.spend(len(sent))
    found: list[SpanEvent] = []
    for event in sent:
        if len(found) >= MOST_EVENTS:
            losses.events += 1
            continue
        losses.attributes += event.dropped_attributes_count
        found.append(
            SpanEvent(
                name=named(event.name, "event", losses),
                at=spans.moment(event.time_unix_nano) if event.time_unix_nano else None,
                attributes=_attributes(event.attributes, losses, MOST_INNER),
            )
        )
    return tuple(found)


def _links(sent: Collection[SpanMessage.Link], losses: Losses) -> tuple[Link, ...]:
    losses.budget.spend(len(sent))
    found: list[Link] = []
    for one in sent:
        link = None
        if len(found) < MOST_LINKS:
            losses.attributes += one.dropped_attributes_count
            link = spans.linked(one.trace_id, one.span_id, _attributes(one.attributes, losses, MOST_INNER))
        if link is None:
            losses.links += 1
        else:
            found.append(link)
    return tuple(found)


def _attributes(sent: Collection[KeyValue], losses: Losses, most: int = MOST_ATTRIBUTES) -> dict[str, Any]:
    losses.budget.spend(len(sent))
    return collected(((pair.key, pair.value) for pair in sent), _read, losses, most)


def _read(value: AnyValue, name: str, losses: Losses, depth: int = 0) -> Any:
    """A value as plain JSON; bytes are base64, and what no JSON number is stands as text."""
    match value.WhichOneof("value"):
        case "string_value":
            return kept(value.string_value, name, losses)
        case "int_value":
            return value.int_value
        case "bool_value":
            return value.bool_value
        case "double_value":
            return finite(value.double_value)
        case "bytes_value":
            return kept(b64encode(value.bytes_value).decode(), name, losses)
        case "array_value" | "kvlist_value" if depth >= DEEPEST:
            losses.bytes += value.ByteSize()
            losses.note(f"cut:{name}")
            return None
        case "array_value":
            losses.budget.spend(len(value.array_value.values))
            return [_read(item, name, losses, depth + 1) for item in value.array_value.values]
        case "kvlist_value":
            losses.budget.spend(len(value.kvlist_value.values))
            pairs = ((pair.key, pair.value) for pair in value.kvlist_value.values)
            return mapped(pairs, lambda item: _read(item, name, losses, depth + 1), losses)
        case _:
            return None
