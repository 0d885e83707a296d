"""Messages in the events of a span: what gen_ai's first instrumentations recorded, and some still do."""

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core.extraction import Prefer
from palaver.core.messages import Message
from palaver.traces.conventions import gen_ai
from palaver.traces.conventions.base import SpanFields
from palaver.traces.conventions.messages import CHOICE_EVENT, MESSAGE_EVENTS, event_body, parse_messages, split_events
from palaver.traces.conventions.vocabulary import parse_finish
from palaver.traces.model import ConventionName, RawSpan, SpanEvent

NAME: ConventionName = "events"
ROOTS: frozenset[str] = frozenset()
"""It looks at no attribute of the span itself."""

_DETAILS = "gen_ai.client.inference.operation.details"
_CONTENT_EVENTS: dict[str, tuple[str, Prefer]] = {
    "gen_ai.content.prompt": ("gen_ai.prompt", "input"),
    "gen_ai.content.completion": ("gen_ai.completion", "output"),
}


def read(raw: RawSpan) -> SpanFields:
    """What the events say. Those that carry a whole span's attributes are read as such."""
    told = [event for event in raw.events if event.name.startswith("gen_ai.")]
    if not told:
        return SpanFields()
    details = next((event.attributes for event in told if event.name == _DETAILS), None)
    found = SpanFields() if details is None else gen_ai.read_attributes(details)
    bodies = [(event.name, event_body(event.attributes)) for event in told if event.name in MESSAGE_EVENTS]
    said_in, said_out = split_events(bodies)
    messages_in = parse_messages(said_in, "input") or _content_messages(told, "input") or found.messages_in or ()
    finishes = [parse_finish(body.get("finish_reason")) for name, body in bodies if name == CHOICE_EVENT]
    return msgspec.structs.replace(
        found,
        messages_in=gen_ai.prepend_instructions(messages_in, details or {}) or UNSET,
        messages_out=parse_messages(said_out, "output") or _content_messages(told, "output") or found.messages_out,
        finish=_first_finish(finishes) if found.finish is UNSET else found.finish,
    )


def _content_messages(told: list[SpanEvent], side: Prefer) -> tuple[Message, ...]:
    """All messages of one side in one event."""
    for event in told:
        name, whose = _CONTENT_EVENTS.get(event.name, ("", "input"))
        if name and whose == side and (messages := parse_messages(event.attributes.get(name), side)):
            return messages
    return ()


def _first_finish(finishes: list[str | UnsetType]) -> str | UnsetType:
    return next((finish for finish in finishes if finish is not UNSET), UNSET)
