"""Messages in the events of a span: what gen_ai's first instrumentations recorded, and some still do."""

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core.extraction import Prefer
from palaver.core.messages import Message
from palaver.traces.conventions import gen_ai
from palaver.traces.conventions.base import Found
from palaver.traces.conventions.bodies import CHOICE, NAMES, body_of, sides
from palaver.traces.conventions.meanings import finish_of
from palaver.traces.conventions.messages import messages_of
from palaver.traces.record import Convention, Raw, SpanEvent

NAME: Convention = "events"
ROOTS: frozenset[str] = frozenset()
"""It looks at no attribute of the span itself."""

_DETAILS = "gen_ai.client.inference.operation.details"
_WHOLE: dict[str, tuple[str, Prefer]] = {
    "gen_ai.content.prompt": ("gen_ai.prompt", "input"),
    "gen_ai.content.completion": ("gen_ai.completion", "output"),
}


def read(raw: Raw) -> Found:
    """What the events say. Those that carry a whole span's attributes are read as such."""
    told = [event for event in raw.events if event.name.startswith("gen_ai.")]
    if not told:
        return Found()
    details = next((event.attributes for event in told if event.name == _DETAILS), None)
    found = Found() if details is None else gen_ai.found(details)
    bodies = [(event.name, body_of(event.attributes)) for event in told if event.name in NAMES]
    said_in, said_out = sides(bodies)
    messages_in = messages_of(said_in, "input") or _whole(told, "input") or found.messages_in or ()
    finishes = [finish_of(body.get("finish_reason")) for name, body in bodies if name == CHOICE]
    return msgspec.structs.replace(
        found,
        messages_in=gen_ai.led(messages_in, details or {}) or UNSET,
        messages_out=messages_of(said_out, "output") or _whole(told, "output") or found.messages_out,
        finish=_first(finishes) if found.finish is UNSET else found.finish,
    )


def _whole(told: list[SpanEvent], side: Prefer) -> tuple[Message, ...]:
    """All messages of one side in one event."""
    for event in told:
        name, whose = _WHOLE.get(event.name, ("", "input"))
        if name and whose == side and (messages := messages_of(event.attributes.get(name), side)):
            return messages
    return ()


def _first(finishes: list[str | UnsetType]) -> str | UnsetType:
    return next((finish for finish in finishes if finish is not UNSET), UNSET)
