"""Map a decoded span to the span record by reading it with each convention in order.

The first convention that has a value for a field provides it; later ones fill gaps. A convention that raises leaves the
note `unmapped:<convention>` and the others still apply. No attribute can set the project of a span.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from palaver.core.messages import Message, Usage
from palaver.traces.conventions import (
    agenta,
    ai_sdk,
    events,
    gen_ai,
    langfuse,
    mlflow,
    openinference,
    openllmetry,
    palaver,
    pydantic_ai,
)
from palaver.traces.conventions.attributes import Convention, SpanFields, parse_label
from palaver.traces.conventions.messages import assign_call_ids, find_messages
from palaver.traces.model import ConventionName as Name
from palaver.traces.model import RawSpan, Span, SpanException, SpanStatus
from palaver.traces.otlp.limits import MAX_NAME_CHARS

_PRIMARY: tuple[Convention, ...] = (palaver, gen_ai)
_VENDORS: tuple[Convention, ...] = (openinference, ai_sdk, agenta, mlflow, langfuse, openllmetry, events)

_FIELDS = tuple(field for field in SpanFields.__struct_fields__ if field != "notes")
_COLLECTIONS = frozenset(("messages_in", "messages_out", "parameters", "tools"))
"""Empty values of these fields count as absent."""
_TOKENS = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_creation_input_tokens", "reasoning_tokens")
_STATUS_BY_FINISH: Mapping[str, SpanStatus] = {"cancelled": "cancelled", "interrupted": "incomplete"}
_MAX_NOTES = 100


def to_span(raw: RawSpan, *, project: str, trusted: bool = False) -> Span:
    """Build the record. `trusted` is only set for Palaver's own recorder, whose run id is kept."""
    collected = _collect_fields(raw)
    get, attributes = collected.fields.get, raw.attributes
    messages_in, messages_out = collected.conversation(attributes)
    cost, kind = get("cost"), get("kind") or ("llm" if messages_in or messages_out else "unknown")
    return Span(
        trace_id=raw.trace_id,
        span_id=raw.span_id,
        parent_id=raw.parent_id,
        project=project,
        name=_name(raw),
        kind=kind,
        status=_status(raw),
        status_message=raw.status_message,
        start=raw.start,
        duration_ms=raw.duration_ms,
        messages_in=messages_in,
        messages_out=messages_out,
        inputs=get("inputs"),
        outputs=get("outputs"),
        parameters=dict(get("parameters") or {}),
        tools=get("tools") or (),
        tool=get("tool") if kind == "tool" else None,
        usage=_usage(collected.fields),
        cost=cost,
        cost_source=None if cost is None else "reported",
        model=get("model"),
        provider=get("provider"),
        finish=get("finish"),
        session=get("session") or parse_label(raw.resource.get("session.id")),
        user=get("user") or parse_label(raw.resource.get("user.id")),
        workflow=get("workflow"),
        run_id=parse_label(attributes.get("palaver.run.id")) if trusted else None,
        exception=_exception(raw),
        service=parse_label(raw.resource.get("service.name")) or parse_label(attributes.get("service.name")),
        scope=raw.scope,
        conventions=tuple(collected.names),
        attributes=attributes,
        events=raw.events,
        links=raw.links,
        dropped=raw.dropped,
        notes=tuple(dict.fromkeys((*raw.notes, *collected.notes[:_MAX_NOTES]))),
        redactions=raw.redactions,
    )


class _FieldCollector:
    """The fields collected so far, the conventions that provided them, and notes."""

    __slots__ = ("fields", "names", "notes")

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.names: dict[Name, None] = {}
        self.notes: list[str] = []

    def collect(self, convention: Convention, raw: RawSpan) -> None:
        try:
            fields = convention.read_fields(raw)
        except Exception:  # A bug in the convention's reader: the other conventions still apply.
            self.notes.append(f"unmapped:{convention.NAME}")
            return
        self.notes += fields.notes
        for field in _FIELDS:
            value = getattr(fields, field)
            if value is UNSET or value is None or field in self.fields or (field in _COLLECTIONS and not value):
                continue
            self.fields[field] = value
            self.names[convention.NAME] = None

    def collect_label(self, field: str, attributes: Mapping[str, Any], *names: str) -> None:
        """Set a label from attributes that belong to no convention."""
        for name in names:
            if field not in self.fields and (text := parse_label(attributes.get(name))) is not None:
                self.fields[field] = text

    def conversation(self, attributes: Mapping[str, Any]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
        """Return the messages of both sides, searching inputs and outputs where no attribute held messages."""
        try:
            messages_in = self.fields.get("messages_in") or find_messages(self.fields.get("inputs"), "input")
            messages_out = self.fields.get("messages_out") or find_messages(self.fields.get("outputs"), "output")
            return assign_call_ids(gen_ai.prepend_instructions(messages_in, attributes), messages_out)
        except Exception:  # A bug, as above.
            self.notes.append("unmapped:messages")
            return (), ()


def _collect_fields(raw: RawSpan) -> _FieldCollector:
    attributes, collector = raw.attributes, _FieldCollector()
    roots = {name.partition(".")[0] for name in attributes}
    for convention in _PRIMARY:
        if not convention.ROOTS.isdisjoint(roots):
            collector.collect(convention, raw)
    collector.collect_label("session", attributes, "session.id")
    collector.collect_label("user", attributes, "user.id", "enduser.id")
    for convention in _VENDORS:
        if not convention.ROOTS.isdisjoint(roots) or (convention is events and raw.events):
            collector.collect(convention, raw)
    if "gen_ai" in roots and ("input_tokens" not in collector.fields or "output_tokens" not in collector.fields):
        collector.collect(pydantic_ai, raw)
    collector.collect_label("session", attributes, "langfuse.session.id")
    collector.collect_label("user", attributes, "langfuse.user.id", "llm.user")
    return collector


def _usage(fields: Mapping[str, Any]) -> Usage | None:
    if fields.keys().isdisjoint(_TOKENS):
        return None
    input_tokens, output_tokens, *details = (fields.get(name) for name in _TOKENS)
    return Usage(input_tokens or 0, output_tokens or 0, *details)


def _name(raw: RawSpan) -> str:
    """Return the name. Logfire's may be a template: then the name is its message, the template with its values."""
    message = raw.attributes.get("logfire.msg")
    is_template = raw.attributes.get("logfire.msg_template") == raw.name
    return message[:MAX_NAME_CHARS] if is_template and isinstance(message, str) and message.strip() else raw.name


def _status(raw: RawSpan) -> SpanStatus:
    """Return the status; Palaver's own runs may also be cancelled or incomplete."""
    finish = raw.attributes.get("palaver.finish")
    return (_STATUS_BY_FINISH.get(finish) if isinstance(finish, str) else None) or ("error" if raw.failed else "ok")


def _exception(raw: RawSpan) -> SpanException | None:
    """Return the last recorded exception: earlier ones were usually handled."""
    for event in reversed(raw.events):
        if event.name == "exception":
            kind, message = (event.attributes.get(f"exception.{name}") for name in ("type", "message"))
            if kind or message:
                return SpanException(type=parse_label(kind) or "", message=message if isinstance(message, str) else "")
    return None
