"""OTLP as JSON: ids in hexadecimal, 64-bit numbers as text or number, bytes as base64, unknown fields ignored.

A span is decoded by itself, so that a field of the wrong type refuses that span and no other.
"""

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from palaver.errors import InvalidBody, TooLarge
from palaver.traces.otlp import spans
from palaver.traces.otlp.bounds import (
    DEEPEST,
    LONGEST_LABEL,
    MOST_ATTRIBUTES,
    MOST_EVENTS,
    MOST_INNER,
    MOST_LINKS,
    MOST_NOTES,
    Budget,
    Losses,
    collected,
    finite,
    kept,
    mapped,
    named,
    shown,
)
from palaver.traces.otlp.forms import (
    AnyValue,
    Event,
    Int,
    KeyValue,
    LinkForm,
    Ours,
    Request,
    Resource,
    Scope,
    SpanForm,
    StatusForm,
)
from palaver.traces.otlp.spans import Batch, Context, Rejected, Unusable
from palaver.traces.record import Link, Raw, Redaction, SpanEvent

_MOST_OBJECTS = 500_000
"""In one span: each takes some hundred bytes of memory, whatever little it holds."""
_LARGE, _DENSE = 4 * 1024 * 1024, 12
"""A body that is large, and has an object for every twelve of its bytes, is made to fill memory."""
_FAILED = frozenset({2, "2", "STATUS_CODE_ERROR"})
_MOST_ESCAPES = 1_000_000
_LONE = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL)
_ERRORS = (msgspec.MsgspecError, UnicodeError, RecursionError)
_decode_request = msgspec.json.Decoder(Request).decode
_decode_span = msgspec.json.Decoder(SpanForm).decode
_encode = msgspec.json.Encoder().encode


def decode(body: bytes, received_at: datetime, most: int) -> Batch:
    """The spans of a request, at most so many."""
    if len(body) > _LARGE and _objects(body) * _DENSE > len(body):
        raise TooLarge("The body consists of empty objects.")
    request = _request(body)
    found: list[Raw] = []
    rejected: list[Rejected] = []
    budget = Budget()
    pending = count = 0
    for group in request.resource_spans or ():
        resource = _resource(group.resource, budget)
        for part in group.scope_spans or ():
            context = Context(received_at, resource, _scope(part.scope))
            for sent in part.spans or ():
                if count >= most:
                    raise TooLarge(f"The request has more than {most} spans: let the exporter send fewer at once.")
                count += 1
                try:
                    span = _span(sent, context, budget)
                except (Unusable, *_ERRORS) as error:
                    rejected.append(Rejected(count - 1, _reason(error)))
                    continue
                if span is None:
                    pending += 1
                else:
                    found.append(span)
    return Batch(found, rejected, pending)


def _request(body: bytes) -> Request:
    try:
        try:
            return _decode_request(body)
        except msgspec.DecodeError:
            if not _LONE.search(body) or body.count(b"\\") > _MOST_ESCAPES:
                raise
            # JavaScript cuts its texts in the middle of a character, and writes the half of it that is left.
            return _decode_request(_ESCAPE.sub(lambda found: b"\\ufffd" if found["lone"] else found[0], body))
    except _ERRORS as error:
        raise InvalidBody(f"The body is not an ExportTraceServiceRequest: {_reason(error)}.") from None


def _reason(error: Exception) -> str:
    match error:
        case UnicodeError():
            return "it is not UTF-8"
        case RecursionError():
            return "it is nested too deeply"
        case msgspec.MsgspecError():
            text = str(error)
            return text if text.startswith("JSON") else text[:1].lower() + text[1:]
        case _:
            return str(error)


def _resource(sent: Resource | None, budget: Budget) -> dict[str, Any]:
    """Its attributes. What is too much of them is left out without a word, as no span keeps them."""
    try:
        return _attributes(sent.attributes if sent else None, Losses(budget))
    except Unusable as error:
        raise InvalidBody(f"The body is not an ExportTraceServiceRequest: a resource: {error}.") from None


def _scope(sent: Scope | None) -> str | None:
    return named((sent and sent.name) or "", "scope", Losses()) or None


def _span(data: msgspec.Raw, context: Context, budget: Budget) -> Raw | None:
    view = memoryview(data)
    if len(view) > 3 * _MOST_OBJECTS and _objects(bytes(view)) > _MOST_OBJECTS:
        raise Unusable(f"it has more than {_MOST_OBJECTS} values")
    sent = _decode_span(data)
    losses = Losses(budget)
    trace_id = spans.trace_id_of(_id(sent.trace_id, "trace id"))
    span_id = spans.span_id_of(_id(sent.span_id, "span id"))
    losses.attributes += _count(sent.dropped_attributes_count)
    losses.events += _count(sent.dropped_events_count)
    losses.links += _count(sent.dropped_links_count)
    attributes = _attributes(sent.attributes, losses)
    if spans.is_pending(attributes):
        return None
    redactions = _ours(sent.palaver, losses)
    status = sent.status or StatusForm()
    status_message = kept(status.message or "", "status_message", losses)
    events, links = _events(sent.events or (), losses), _links(sent.links or (), losses)
    spans.check_size(len(view), status_message, attributes, events, links)
    start, duration = spans.times(_count(sent.start_time_unix_nano), _count(sent.end_time_unix_nano), context, losses)
    return Raw(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=spans.parent_of(_given(sent.parent_span_id), span_id, losses),
        name=spans.titled(sent.name or "", losses),
        start=start,
        duration_ms=duration,
        failed=status.code in _FAILED,
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


def _objects(text: bytes) -> int:
    """How many there are; those of a JSON text that is itself a value, whose quotes are escaped, are none."""
    return text.count(b"{") - text.count(b"{\\")


def _ours(sent: Ours | None, losses: Losses) -> tuple[Redaction, ...]:
    if sent is None:
        return ()
    for text in (sent.notes or ())[:MOST_NOTES]:
        losses.note(_label(text))
    losses.bytes += min(max(sent.bytes or 0, 0), 2**63 - 1)
    return tuple(Redaction(_label(one.path), _label(one.by), one.count) for one in (sent.redactions or ())[:MOST_NOTES])


def _label(text: str) -> str:
    return shown(text[:LONGEST_LABEL])


def _id(text: str | None, word: str) -> bytes:
    try:
        return bytes.fromhex(text or "")
    except ValueError:
        raise Unusable(f"{word} is not hexadecimal") from None


def _given(text: str | None) -> bytes:
    """An id that a span can do without: one that is none has no length that an id has."""
    try:
        return bytes.fromhex(text or "")
    except ValueError:
        return b"?"


def _integer(sent: Int) -> int:
    """A 64-bit number, however it was written."""
    try:
        number = int(sent or 0)
    except (ValueError, OverflowError):
        number = 2**64
    if not -(2**63) <= number < 2**64 or (isinstance(sent, float) and not sent.is_integer()):
        raise Unusable(f"{str(sent)[:40]!r} is not a 64-bit number")
    return number


def _count(sent: Int) -> int:
    return max(0, _integer(sent))


def _events(sent: Sequence[Event], losses: Losses) -> tuple[SpanEvent, ...]:
    losses.budget.spend(len(sent))
    losses.events += max(0, len(sent) - MOST_EVENTS)
    found: list[SpanEvent] = []
    for event in sent[:MOST_EVENTS]:
        losses.attributes += _count(event.dropped_attributes_count)
        at = _count(event.time_unix_nano)
        found.append(
            SpanEvent(
                name=named(event.name or "", "event", losses),
                at=spans.moment(at) if at else None,
                attributes=_attributes(event.attributes, losses, MOST_INNER),
            )
        )
    return tuple(found)


def _links(sent: Sequence[LinkForm], losses: Losses) -> tuple[Link, ...]:
    losses.budget.spend(len(sent))
    found: list[Link] = []
    for one in sent:
        link = None
        if len(found) < MOST_LINKS:
            losses.attributes += _count(one.dropped_attributes_count)
            attributes = _attributes(one.attributes, losses, MOST_INNER)
            link = spans.linked(_given(one.trace_id), _given(one.span_id), attributes)
        if link is None:
            losses.links += 1
        else:
            found.append(link)
    return tuple(found)


def _attributes(sent: Sequence[KeyValue] | None, losses: Losses, most: int = MOST_ATTRIBUTES) -> dict[str, Any]:
    if not sent:
        return {}
    losses.budget.spend(len(sent))
    return collected(((pair.key or "", pair.value) for pair in sent), _read, losses, most)


def _read(value: AnyValue | None, name: str, losses: Losses, depth: int = 0) -> Any:
    """A value as plain JSON; bytes stay base64, and what no JSON number is stands as text."""
    if value is None:
        return None
    if value.string_value is not None:
        return kept(value.string_value, name, losses)
    if value.int_value is not None:
        return _integer(value.int_value)
    if value.bool_value is not None:
        return value.bool_value
    if value.double_value is not None:
        return _double(value.double_value)
    if value.bytes_value is not None:
        return kept(_base64(value.bytes_value), name, losses)
    if depth >= DEEPEST and (value.array_value is not None or value.kvlist_value is not None):
        losses.bytes += len(_encode(value))
        losses.note(f"cut:{name}")
        return None
    if value.array_value is not None:
        values = value.array_value.values or ()
        losses.budget.spend(len(values))
        return [_read(item, name, losses, depth + 1) for item in values]
    if value.kvlist_value is not None:
        members = value.kvlist_value.values or ()
        losses.budget.spend(len(members))
        pairs = ((pair.key or "", pair.value) for pair in members)
        return mapped(pairs, lambda item: _read(item, name, losses, depth + 1), losses)
    return None


def _double(sent: float | str) -> float | str:
    try:
        return finite(float(sent))
    except ValueError:
        raise Unusable(f"{str(sent)[:40]!r} is not a number") from None


def _base64(text: str) -> str:
    """As the standard alphabet writes it, whichever it was sent in."""
    try:
        return b64encode(b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4))).decode()
    except (Base64Error, ValueError):
        raise Unusable("a bytesValue is not base64") from None
