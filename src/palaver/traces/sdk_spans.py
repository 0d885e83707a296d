"""Convert spans of the OpenTelemetry SDK below a run into records.

They are read by the conventions like any span; the run is known, and with it how much may be recorded.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from palaver.core import secret_mask
from palaver.traces.model import Link, RawSpan, Span, SpanEvent
from palaver.traces.otlp import limits
from palaver.traces.otlp.common import InvalidSpan, check_size, is_pending_span, span_name, to_datetime
from palaver.traces.run_facts import SpanOwner
from palaver.traces.span_mapper import to_span

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

_NS_PER_MS = 1_000_000


def build_sdk_spans(span: "ReadableSpan", owner: SpanOwner) -> Sequence[Span]:
    """Return the record of a span below a run, or nothing if it cannot be stored."""
    raw = to_raw_span(span)
    return [to_run_span(raw, owner)] if raw is not None else []


def to_run_span(raw: RawSpan, owner: SpanOwner) -> Span:
    """Build the record with the run's project, session and recording level."""
    if owner.secrets:
        raw = _mask_secrets(raw, owner.secrets)
    if owner.record != "full":
        raw = strip_content(raw)
    span = to_span(raw, project=owner.project)
    if owner.record != "full":
        span = msgspec.structs.replace(span, messages_in=(), messages_out=(), inputs=None, outputs=None)
    return msgspec.structs.replace(span, run_id=owner.run_id, session=span.session or owner.session or None)


def _mask_secrets(raw: RawSpan, secrets: Sequence[str]) -> RawSpan:
    return msgspec.structs.replace(
        raw,
        name=secret_mask.mask_values(raw.name, secrets),
        status_message=secret_mask.mask_values(raw.status_message, secrets),
        attributes=secret_mask.mask_values(raw.attributes, secrets),
        events=tuple(
            msgspec.structs.replace(event, attributes=secret_mask.mask_values(event.attributes, secrets))
            for event in raw.events
        ),
    )


_METADATA_ATTRIBUTES = frozenset(
    (
        "gen_ai.operation.name",
        "gen_ai.request.model",
        "gen_ai.response.model",
        "gen_ai.provider.name",
        "gen_ai.system",
        "gen_ai.tool.name",
        "gen_ai.tool.call.id",
        "gen_ai.conversation.id",
        "gen_ai.response.finish_reasons",
        "gen_ai.agent.name",
        "openinference.span.kind",
        "llm.model_name",
        "llm.provider",
        "llm.system",
        "session.id",
        "user.id",
        "traceloop.span.kind",
        "error.type",
    )
)
"""Text attributes that are not content: kinds, names and ids."""


def strip_content(raw: RawSpan) -> RawSpan:
    """Remove content: only numbers and known metadata stay."""
    attributes = {
        name: value
        for name, value in raw.attributes.items()
        if name in _METADATA_ATTRIBUTES or isinstance(value, bool | int | float)
    }
    events = [
        msgspec.structs.replace(
            event, attributes={key: text for key, text in event.attributes.items() if key == "exception.type"}
        )
        for event in raw.events
    ]
    return msgspec.structs.replace(raw, attributes=attributes, events=tuple(events), links=(), status_message="")


def to_raw_span(span: "ReadableSpan") -> RawSpan | None:
    """Convert to the form of a received span; None for a pending notice or a span that is too large."""
    losses = limits.Losses()
    context, parent = span.context, span.parent
    if context is None or span.start_time is None:
        return None
    span_id = f"{context.span_id:016x}"
    attributes = limits.collect_attributes(_pairs(span.attributes), _convert_value, losses)
    if is_pending_span(attributes):
        return None
    events, links = tuple(_convert_events(span, losses)), tuple(_convert_links(span, losses))
    try:
        check_size(
            _approximate_bytes(attributes) + sum(_approximate_bytes(event.attributes) for event in events),
            attributes,
            events,
            links,
        )
    except InvalidSpan:
        return None
    end = span.end_time or span.start_time
    if end < span.start_time:
        losses.note("clock")
    scope = span.instrumentation_scope
    return RawSpan(
        trace_id=f"{context.trace_id:032x}",
        span_id=span_id,
        parent_id=f"{parent.span_id:016x}" if parent is not None else None,
        name=span_name(span.name, losses),
        start=to_datetime(span.start_time),
        duration_ms=max(0, end - span.start_time) / _NS_PER_MS,
        failed=span.status.status_code.name == "ERROR",
        status_message=limits.truncate_text(span.status.description or "", "status_message", losses),
        attributes=attributes,
        resource=limits.collect_attributes(_pairs(span.resource.attributes), _convert_value, losses),
        events=events,
        links=links,
        scope=limits.truncate_name(scope.name, "scope", losses) if scope is not None and scope.name else None,
        dropped=losses.dropped(),
        notes=tuple(losses.notes),
    )


def _pairs(attributes: Mapping[str, Any] | None) -> Iterator[tuple[str, Any]]:
    return iter(attributes.items() if attributes else ())


def _convert_events(span: "ReadableSpan", losses: limits.Losses) -> Iterator[SpanEvent]:
    losses.events += max(0, len(span.events) - limits.MAX_EVENTS)
    for event in span.events[: limits.MAX_EVENTS]:
        attributes = limits.collect_attributes(
            _pairs(event.attributes), _convert_value, losses, limits.MAX_NESTED_ATTRIBUTES
        )
        yield SpanEvent(limits.truncate_name(event.name, "event", losses), to_datetime(event.timestamp), attributes)


def _convert_links(span: "ReadableSpan", losses: limits.Losses) -> Iterator[Link]:
    losses.links += max(0, len(span.links) - limits.MAX_LINKS)
    for link in span.links[: limits.MAX_LINKS]:
        attributes = limits.collect_attributes(
            _pairs(link.attributes), _convert_value, losses, limits.MAX_NESTED_ATTRIBUTES
        )
        yield Link(f"{link.context.trace_id:032x}", f"{link.context.span_id:016x}", attributes)


def _convert_value(value: Any, name: str, losses: limits.Losses, depth: int = 0) -> Any:
    match value:
        case str():
            return limits.truncate_text(value, name, losses)
        case bool() | int() | None:
            return value
        case float():
            return limits.json_number(value)
        case bytes():
            return limits.truncate_text(value.hex(), name, losses)
        case Mapping() if depth < limits.MAX_VALUE_DEPTH:
            pairs = _pairs(cast("Mapping[str, Any]", value))
            return limits.collect_map(pairs, lambda item: _convert_value(item, name, losses, depth + 1), losses)
        case Sequence() if depth < limits.MAX_VALUE_DEPTH:
            return [_convert_value(item, name, losses, depth + 1) for item in cast("Sequence[Any]", value)]
        case _:
            losses.note(f"cut:{name}")
            return None


def _approximate_bytes(value: Any) -> int:
    match value:
        case str():
            return len(value)
        case dict():
            return sum(len(key) + _approximate_bytes(item) for key, item in cast("dict[str, Any]", value).items())
        case list():
            return sum(map(_approximate_bytes, cast("list[Any]", value)))
        case _:
            return 8
