"""From a span as it was sent to the canonical record: conventions are asked in order, field by field.

Each convention is asked inside its own guard: one that raises leaves a note `unmapped:<convention>`, and the others
their fields. The first that has a value for a field gives it; later ones fill gaps. No attribute, whoever sent it, can
say to which project a span belongs.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from palaver.core.extraction import Prefer, read_conversation
from palaver.core.messages import Message, Usage
from palaver.traces.conventions import (
    agenta,
    ai_sdk,
    events,
    gen_ai,
    mlflow,
    openinference,
    openllmetry,
    palaver,
    pydantic_ai,
)
from palaver.traces.conventions.attributes import parse_label
from palaver.traces.conventions.base import Convention, SpanFields
from palaver.traces.conventions.messages import assign_call_ids, tidy_conversation
from palaver.traces.model import ConventionName as Name
from palaver.traces.model import Raised, RawSpan, Span, SpanStatus

_PRIMARY: tuple[Convention, ...] = (palaver, gen_ai)
_VENDORS: tuple[Convention, ...] = (openinference, ai_sdk, agenta, mlflow, openllmetry, events)

_FIELDS = tuple(field for field in SpanFields.__struct_fields__ if field != "notes")
_COLLECTIONS = frozenset(("messages_in", "messages_out", "parameters", "tools"))
"""Of these an empty one says nothing."""
_TOKENS = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_creation_input_tokens", "reasoning_tokens")
_STATUS_BY_FINISH: Mapping[str, SpanStatus] = {"cancelled": "cancelled", "interrupted": "incomplete"}
_MAX_NOTES = 100


def to_span(raw: RawSpan, *, project: str, trusted: bool = False) -> Span:
    """The record of a span. `trusted` is our own recorder: only then its word on whose run it was counts."""
    found = _collect_fields(raw)
    get, attributes = found.fields.get, raw.attributes
    messages_in, messages_out = found.conversation(attributes)
    cost, kind = get("cost"), get("kind") or ("llm" if messages_in or messages_out else "unknown")
    return Span(
        trace_id=raw.trace_id,
        span_id=raw.span_id,
        parent_id=raw.parent_id,
        project=project,
        name=raw.name,
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
        usage=_usage(found.fields),
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
        conventions=tuple(found.names),
        attributes=attributes,
        events=raw.events,
        links=raw.links,
        dropped=raw.dropped,
        notes=tuple(dict.fromkeys((*raw.notes, *found.notes[:_MAX_NOTES]))),
        redactions=raw.redactions,
    )


class _FieldCollector:
    """What was found so far: fields, who gave them, and what to note."""

    __slots__ = ("fields", "names", "notes")

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.names: dict[Name, None] = {}
        self.notes: list[str] = []

    def ask(self, convention: Convention, raw: RawSpan) -> None:
        try:
            found = convention.read(raw)
        except Exception:  # Its reader is at fault, whatever the sender did: the rest of the span is still good.
            self.notes.append(f"unmapped:{convention.NAME}")
            return
        self.notes += found.notes
        for field in _FIELDS:
            value = getattr(found, field)
            if value is UNSET or value is None or field in self.fields or (field in _COLLECTIONS and not value):
                continue
            self.fields[field] = value
            self.names[convention.NAME] = None

    def label(self, field: str, attributes: Mapping[str, Any], *names: str) -> None:
        """A label that belongs to no convention in particular."""
        for name in names:
            if field not in self.fields and (text := parse_label(attributes.get(name))) is not None:
                self.fields[field] = text

    def conversation(self, attributes: Mapping[str, Any]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
        """The messages of both sides; what no message attribute gave is looked for in inputs and outputs."""
        try:
            messages_in = self.fields.get("messages_in") or _find_messages(self.fields.get("inputs"), "input")
            messages_out = self.fields.get("messages_out") or _find_messages(self.fields.get("outputs"), "output")
            return assign_call_ids(gen_ai.prepend_instructions(messages_in, attributes), messages_out)
        except Exception:  # As above.
            self.notes.append("unmapped:messages")
            return (), ()


def _collect_fields(raw: RawSpan) -> _FieldCollector:
    attributes, gathered = raw.attributes, _FieldCollector()
    roots = {name.partition(".")[0] for name in attributes}
    for convention in _PRIMARY:
        if not convention.ROOTS.isdisjoint(roots):
            gathered.ask(convention, raw)
    gathered.label("session", attributes, "session.id")
    gathered.label("user", attributes, "user.id", "enduser.id")
    for convention in _VENDORS:
        if not convention.ROOTS.isdisjoint(roots) or (convention is events and raw.events):
            gathered.ask(convention, raw)
    if "gen_ai" in roots and ("input_tokens" not in gathered.fields or "output_tokens" not in gathered.fields):
        gathered.ask(pydantic_ai, raw)
    gathered.label("session", attributes, "langfuse.session.id")
    gathered.label("user", attributes, "langfuse.user.id", "llm.user")
    return gathered


def _find_messages(value: Any, side: Prefer) -> tuple[Message, ...]:
    if value is None:
        return ()
    conversation = read_conversation(value, side)
    return () if conversation is None else tidy_conversation(conversation.messages, value)


def _usage(fields: Mapping[str, Any]) -> Usage | None:
    if fields.keys().isdisjoint(_TOKENS):
        return None
    known_in, known_out, *rest = (fields.get(name) for name in _TOKENS)
    return Usage(known_in or 0, known_out or 0, *rest)


def _status(raw: RawSpan) -> SpanStatus:
    """That of a run of ours may be another than good or bad."""
    end = raw.attributes.get("palaver.finish")
    return (_STATUS_BY_FINISH.get(end) if isinstance(end, str) else None) or ("error" if raw.failed else "ok")


def _exception(raw: RawSpan) -> Raised | None:
    """The last that was recorded: those before it were mostly handled."""
    for event in reversed(raw.events):
        if event.name == "exception":
            kind, message = (event.attributes.get(f"exception.{name}") for name in ("type", "message"))
            if kind or message:
                return Raised(type=parse_label(kind) or "", message=message if isinstance(message, str) else "")
    return None
