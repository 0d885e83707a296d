"""Spans as OTLP, which `decode` takes back: lines of JSON, or requests in either form.

Of a record only what was sent is written, as it was sent; the mapping finds the rest of it again. A session or a user
goes with the resource, where it yields to what the span says itself: that is where it may have come from.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple, cast

import msgspec

from palaver.traces.otlp import forms, packing
from palaver.traces.otlp.forms import AnyValue, KeyValue, WrittenSpan
from palaver.traces.otlp.packing import Source
from palaver.traces.otlp.spans import UNNAMED, end_of, nanoseconds
from palaver.traces.otlp.unpacking import Form
from palaver.traces.record import Span

_MOST_IN_A_LINE = 100
_LONGEST_LINE = 1024 * 1024
"""Bytes after which another line is begun; one span may be longer."""
_encode = msgspec.json.Encoder().encode


class Request(NamedTuple):
    """A request for /v1/traces."""

    body: bytes
    spans: int
    """How many it holds."""


def encode(spans: Iterable[Span]) -> Iterator[bytes]:
    """Lines of which each is a request for /v1/traces, the spans in their order."""
    return (request.body + b"\n" for request in requests(spans, "json"))


def requests(spans: Iterable[Span], form: Form) -> Iterator[Request]:
    """The same as requests. As protobuf they lack what OTLP has no field for: notes, and what was redacted."""
    written = _json if form == "json" else packing.span
    joined = _line if form == "json" else packing.request
    some: list[tuple[Source, bytes]] = []
    size = 0
    for span in spans:
        data = written(span)
        if some and (len(some) >= _MOST_IN_A_LINE or size + len(data) > _LONGEST_LINE):
            yield Request(joined(some), len(some))
            some, size = [], 0
        some.append((_source(span), data))
        size += len(data)
    if some:
        yield Request(joined(some), len(some))


def _source(span: Span) -> Source:
    given = (("service.name", span.service), ("session.id", span.session), ("user.id", span.user))
    return tuple((name, value) for name, value in given if value is not None), span.scope


def _line(spans: Sequence[tuple[Source, bytes]]) -> bytes:
    groups = [
        forms.ResourceSpans(
            resource=forms.Resource([KeyValue(name, AnyValue(string_value=value)) for name, value in resource]),
            scope_spans=[
                forms.ScopeSpans(scope=forms.Scope(scope), spans=[msgspec.Raw(data) for _, data in together]),
            ],
        )
        for (resource, scope), together in groupby(spans, key=lambda one: one[0])
    ]
    return _encode(forms.Request(groups))


def _json(span: Span) -> bytes:
    return _encode(_form(span))


def _form(span: Span) -> WrittenSpan:
    start = nanoseconds(span.start)
    dropped = span.dropped
    ours = forms.Ours(
        notes=list(span.notes) or None, bytes=dropped.get("bytes"), redactions=list(span.redactions) or None
    )
    return WrittenSpan(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_id,
        kind=packing.kind_of(span) or None,
        name="" if span.name == UNNAMED and UNNAMED in span.notes else span.name,
        start_time_unix_nano=str(start),
        end_time_unix_nano=str(end_of(start, span.duration_ms)),
        attributes=_pairs(span.attributes),
        dropped_attributes_count=dropped.get("attributes"),
        events=[
            forms.Event(
                time_unix_nano=str(nanoseconds(event.at)) if event.at else None,
                name=event.name,
                attributes=_pairs(event.attributes),
            )
            for event in span.events
        ],
        dropped_events_count=dropped.get("events"),
        links=[forms.LinkForm(link.trace_id, link.span_id, _pairs(link.attributes)) for link in span.links],
        dropped_links_count=dropped.get("links"),
        status=forms.StatusForm(code=2 if span.status == "error" else 0, message=span.status_message),
        palaver=ours if ours != forms.Ours() else None,
    )


def _pairs(values: dict[str, Any]) -> list[KeyValue]:
    return [KeyValue(name, _value(value)) for name, value in values.items()]


def _value(value: Any) -> AnyValue:
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
            return AnyValue(kvlist_value=forms.Pairs(_pairs(cast("dict[str, Any]", value))))
        case _:
            return AnyValue(array_value=forms.Values([_value(item) for item in cast("list[Any]", value)]))
