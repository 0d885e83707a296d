"""Messages in the events of a span, as gen_ai's first instrumentations recorded them and some still do."""

import msgspec
from msgspec import UNSET

from palaver.core.extraction import Prefer
from palaver.core.messages import Message
from palaver.traces.conventions import gen_ai
from palaver.traces.conventions.attributes import SpanFields
from palaver.traces.conventions.messages import CHOICE_EVENT, MESSAGE_EVENTS, event_body, parse_messages, split_events
from palaver.traces.conventions.vocabulary import parse_finish
from palaver.traces.model import ConventionName, RawSpan, SpanEvent

NAME: ConventionName = "events"
ROOTS: frozenset[str] = frozenset()
"""Reads no span attributes."""

_DETAILS = "gen_ai.client.inference.operation.details"
_CONTENT_EVENTS: dict[str, tuple[str, Prefer]] = {
    "gen_ai.content.prompt": ("gen_ai.prompt", "input"),
    "gen_ai.content.completion": ("gen_ai.completion", "output"),
}


def read_fields(raw: RawSpan) -> SpanFields:
    """Read the events. One that carries a whole span's attributes is read as gen_ai."""
    events = [event for event in raw.events if event.name.startswith("gen_ai.")]
    if not events:
        return SpanFields()
    details = next((event.attributes for event in events if event.name == _DETAILS), None)
    fields = SpanFields() if details is None else gen_ai.read_attributes(details)
    bodies = [(event.name, event_body(event.attributes)) for event in events if event.name in MESSAGE_EVENTS]
    bodies_in, bodies_out = split_events(bodies)
    messages_in = parse_messages(bodies_in, "input") or _content_messages(events, "input") or fields.messages_in or ()
    finishes = (parse_finish(body.get("finish_reason")) for name, body in bodies if name == CHOICE_EVENT)
    first_finish = next((finish for finish in finishes if finish is not UNSET), UNSET)
    return msgspec.structs.replace(
        fields,
        messages_in=gen_ai.prepend_instructions(messages_in, details or {}) or UNSET,
        messages_out=parse_messages(bodies_out, "output") or _content_messages(events, "output") or fields.messages_out,
        finish=first_finish if fields.finish is UNSET else fields.finish,
    )


def _content_messages(events: list[SpanEvent], side: Prefer) -> tuple[Message, ...]:
    for event in events:
        name, event_side = _CONTENT_EVENTS.get(event.name, ("", "input"))
        if name and event_side == side and (messages := parse_messages(event.attributes.get(name), side)):
            return messages
    return ()
