"""The JSON form of OTLP, as far as we read and write it. What else is in it is ignored."""

import msgspec

from palaver.traces.record import Redaction

Int = int | str | float | None
"""A 64-bit number: text by the specification, a number from many."""


class _Form(msgspec.Struct, rename="camel", gc=False):
    """What all have in common: null stands for a field that was not given."""


class Values(_Form):
    """A list."""

    values: "list[AnyValue | None] | None" = None


class Pairs(_Form):
    """A map."""

    values: "list[KeyValue] | None" = None


class AnyValue(_Form, omit_defaults=True):
    """A value: at most one of these."""

    string_value: str | None = None
    bool_value: bool | None = None
    int_value: Int = None
    double_value: float | str | None = None
    array_value: Values | None = None
    kvlist_value: Pairs | None = None
    bytes_value: str | None = None


class KeyValue(_Form):
    """A name and its value."""

    key: str | None = None
    value: AnyValue | None = None


class Event(_Form):
    """Something that happened during a span."""

    time_unix_nano: Int = None
    name: str | None = None
    attributes: list[KeyValue] | None = None
    dropped_attributes_count: Int = None


class LinkForm(_Form):
    """Another span."""

    trace_id: str | None = None
    span_id: str | None = None
    attributes: list[KeyValue] | None = None
    dropped_attributes_count: Int = None


class StatusForm(_Form):
    """How it ended."""

    code: int | str | None = None
    message: str | None = None


class Ours(_Form, omit_defaults=True):
    """What OTLP has no field for, and an export of ours brings along. Other readers ignore it."""

    notes: list[str] | None = None
    bytes: int | None = None
    redactions: list[Redaction] | None = None


class SpanForm(_Form, omit_defaults=True):
    """A span."""

    trace_id: str | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    name: str | None = None
    start_time_unix_nano: Int = None
    end_time_unix_nano: Int = None
    attributes: list[KeyValue] | None = None
    dropped_attributes_count: Int = None
    events: list[Event] | None = None
    dropped_events_count: Int = None
    links: list[LinkForm] | None = None
    dropped_links_count: Int = None
    status: StatusForm | None = None
    palaver: Ours | None = None


class WrittenSpan(SpanForm, omit_defaults=True):
    """A span with what we do not read: whatever stands there is no reason to refuse one."""

    kind: int | None = None


class Resource(_Form):
    """Who sends."""

    attributes: list[KeyValue] | None = None


class Scope(_Form):
    """Which library sends."""

    name: str | None = None


class ScopeSpans(_Form):
    """The spans of one library. Each is decoded by itself."""

    scope: Scope | None = None
    spans: list[msgspec.Raw] | None = None


class ResourceSpans(_Form):
    """The spans of one sender."""

    resource: Resource | None = None
    scope_spans: list[ScopeSpans] | None = None


class Request(_Form):
    """ExportTraceServiceRequest."""

    resource_spans: list[ResourceSpans] | None = None
