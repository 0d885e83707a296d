"""Spans that OpenTelemetry's SDK made in this process, below a run of ours: as if they had been sent, and whose.

They are read by the conventions like anybody's. Only whose run it was is known here, and how much of it is recorded.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec

from palaver.core import masking
from palaver.traces.mapping import to_span
from palaver.traces.otlp.bounds import (
    DEEPEST,
    MOST_EVENTS,
    MOST_INNER,
    MOST_LINKS,
    Losses,
    collected,
    finite,
    kept,
    mapped,
    named,
)
from palaver.traces.otlp.spans import Unusable, check_size, is_pending, moment, titled
from palaver.traces.owner import Owner
from palaver.traces.record import Link, Raw, Span, SpanEvent

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

_MILLISECOND = 1_000_000


def spans_of(span: "ReadableSpan", owner: Owner) -> Sequence[Span]:
    """The record of a span below a run; nothing where it cannot be kept."""
    raw = raw_of(span)
    return [placed(raw, owner)] if raw is not None else []


def placed(raw: Raw, owner: Owner) -> Span:
    """The record of a span below a run: it is in the run's project, and says no more than the run may."""
    if owner.known:
        raw = _cleaned(raw, owner.known)
    if owner.record != "full":
        raw = bared(raw)
    found = to_span(raw, project=owner.project)
    if owner.record != "full":
        found = msgspec.structs.replace(found, messages_in=(), messages_out=(), inputs=None, outputs=None)
    return msgspec.structs.replace(found, run_id=owner.run_id, session=found.session or owner.session or None)


def _cleaned(raw: Raw, known: Sequence[str]) -> Raw:
    return msgspec.structs.replace(
        raw,
        name=masking.mask_values(raw.name, known),
        status_message=masking.mask_values(raw.status_message, known),
        attributes=masking.mask_values(raw.attributes, known),
        events=tuple(
            msgspec.structs.replace(event, attributes=masking.mask_values(event.attributes, known))
            for event in raw.events
        ),
    )


_WORDS = frozenset(
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
"""Texts that are no content: kinds, names and ids."""


def bared(raw: Raw) -> Raw:
    """A span without what anybody said: numbers stay, and a few words that are known to be none of that."""
    attributes = {
        name: value for name, value in raw.attributes.items() if name in _WORDS or isinstance(value, bool | int | float)
    }
    events = [
        msgspec.structs.replace(
            event, attributes={key: text for key, text in event.attributes.items() if key == "exception.type"}
        )
        for event in raw.events
    ]
    return msgspec.structs.replace(raw, attributes=attributes, events=tuple(events), links=(), status_message="")


# From the SDK's form


def raw_of(span: "ReadableSpan") -> Raw | None:
    """A span of the SDK's as if it had been sent; None for a notice, or one that is too large."""
    losses = Losses()
    context, parent = span.context, span.parent
    if context is None or span.start_time is None:
        return None
    span_id = f"{context.span_id:016x}"
    attributes = collected(_pairs(span.attributes), _value, losses)
    if is_pending(attributes):
        return None
    events, links = tuple(_events(span, losses)), tuple(_links(span, losses))
    try:
        check_size(_length(attributes) + sum(_length(event.attributes) for event in events), attributes, events, links)
    except Unusable:
        return None
    end = span.end_time or span.start_time
    if end < span.start_time:
        losses.note("clock")
    scope = span.instrumentation_scope
    return Raw(
        trace_id=f"{context.trace_id:032x}",
        span_id=span_id,
        parent_id=f"{parent.span_id:016x}" if parent is not None else None,
        name=titled(span.name, losses),
        start=moment(span.start_time),
        duration_ms=max(0, end - span.start_time) / _MILLISECOND,
        failed=span.status.status_code.name == "ERROR",
        status_message=kept(span.status.description or "", "status_message", losses),
        attributes=attributes,
        resource=collected(_pairs(span.resource.attributes), _value, losses),
        events=events,
        links=links,
        scope=named(scope.name, "scope", losses) if scope is not None and scope.name else None,
        dropped=losses.dropped(),
        notes=tuple(losses.notes),
    )


def _pairs(attributes: Mapping[str, Any] | None) -> Iterator[tuple[str, Any]]:
    return iter(attributes.items() if attributes else ())


def _events(span: "ReadableSpan", losses: Losses) -> Iterator[SpanEvent]:
    losses.events += max(0, len(span.events) - MOST_EVENTS)
    for event in span.events[:MOST_EVENTS]:
        said = collected(_pairs(event.attributes), _value, losses, MOST_INNER)
        yield SpanEvent(named(event.name, "event", losses), moment(event.timestamp), said)


def _links(span: "ReadableSpan", losses: Losses) -> Iterator[Link]:
    losses.links += max(0, len(span.links) - MOST_LINKS)
    for link in span.links[:MOST_LINKS]:
        said = collected(_pairs(link.attributes), _value, losses, MOST_INNER)
        yield Link(f"{link.context.trace_id:032x}", f"{link.context.span_id:016x}", said)


def _value(value: Any, name: str, losses: Losses, depth: int = 0) -> Any:
    match value:
        case str():
            return kept(value, name, losses)
        case bool() | int() | None:
            return value
        case float():
            return finite(value)
        case bytes():
            return kept(value.hex(), name, losses)
        case Mapping() if depth < DEEPEST:
            inner = partial(_inner, name=name, losses=losses, depth=depth + 1)
            return mapped(_pairs(cast("Mapping[str, Any]", value)), inner, losses)
        case Sequence() if depth < DEEPEST:
            return [_value(item, name, losses, depth + 1) for item in cast("Sequence[Any]", value)]
        case _:
            losses.note(f"cut:{name}")
            return None


def _inner(value: Any, name: str, losses: Losses, depth: int) -> Any:
    return _value(value, name, losses, depth)


def _length(value: Any) -> int:
    """About how many bytes it has."""
    match value:
        case str():
            return len(value)
        case dict():
            return sum(len(key) + _length(item) for key, item in cast("dict[str, Any]", value).items())
        case list():
            return sum(map(_length, cast("list[Any]", value)))
        case _:
            return 8
