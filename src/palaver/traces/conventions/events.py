"""Messages in the events of a span, as gen_ai's first instrumentations recorded them and some still do."""

from typing import Any

import msgspec
from msgspec import UNSET

from palaver.core.extraction import Prefer
from palaver.core.json import Object, as_list, dict_or_empty
from palaver.core.messages import Message
from palaver.traces.conventions import gen_ai
from palaver.traces.conventions.attributes import SpanFields, parse_container
from palaver.traces.conventions.messages import (
    CHOICE_EVENT,
    MESSAGE_EVENTS,
    event_body,
    parse_messages,
    parse_parts,
    split_events,
)
from palaver.traces.conventions.vocabulary import parse_finish
from palaver.traces.model import ConventionName, RawSpan, SpanEvent

NAME: ConventionName = "events"
ROOTS: frozenset[str] = frozenset()
"""Reads no span attributes."""

_DETAILS = "gen_ai.client.inference.operation.details"
_LISTS = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions")
_CONTENT_EVENTS: dict[str, tuple[str, Prefer]] = {
    "gen_ai.content.prompt": ("gen_ai.prompt", "input"),
    "gen_ai.content.completion": ("gen_ai.completion", "output"),
}


def read_fields(raw: RawSpan) -> SpanFields:
    """Read the events. One that carries a whole span's attributes is read as gen_ai."""
    events = [event for event in raw.events if event.name.startswith("gen_ai.")]
    if not events:
        return SpanFields()
    details = _merge_details([event.attributes for event in events if event.name == _DETAILS])
    fields = gen_ai.read_attributes(details) if details else SpanFields()
    bodies = [(event.name, event_body(event.attributes)) for event in events if event.name in MESSAGE_EVENTS]
    bodies_in, bodies_out = split_events(bodies)
    messages_in = parse_messages(bodies_in, "input") or _content_messages(events, "input") or fields.messages_in or ()
    finishes = (parse_finish(body.get("finish_reason")) for name, body in bodies if name == CHOICE_EVENT)
    first_finish = next((finish for finish in finishes if finish is not UNSET), UNSET)
    fields = msgspec.structs.replace(
        fields,
        messages_in=gen_ai.prepend_instructions(messages_in, details) or UNSET,
        messages_out=parse_messages(bodies_out, "output") or _content_messages(events, "output") or fields.messages_out,
        finish=first_finish if fields.finish is UNSET else fields.finish,
    )
    return _tool_fields(fields, bodies) if raw.attributes.get("gen_ai.operation.name") == "execute_tool" else fields


def _tool_fields(fields: SpanFields, bodies: list[tuple[str, Object]]) -> SpanFields:
    """Return the arguments and the result of a tool, of which Strands makes messages."""
    names = ("gen_ai.tool.message", "content"), (CHOICE_EVENT, "message")
    values = [next((body.get(key) for name, body in bodies if name == event), None) for event, key in names]
    arguments, result = parse_container(values[0]), parse_parts(values[1])
    if arguments is None and result is None:
        calls = [call for message in fields.messages_in or () for call in message.tool_calls]
        results = [answer for message in fields.messages_out or () for answer in message.tool_results]
        arguments = calls[0].parsed if calls else None
        result = results[0].output if results else None
    texts = [text for part in as_list(result) if isinstance(text := dict_or_empty(part).get("text"), str)]
    if texts and len(texts) == len(as_list(result)):
        result = "".join(texts)
    return SpanFields(inputs=UNSET if arguments is None else arguments, outputs=UNSET if result is None else result)


def _merge_details(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge the attributes of events that each carry a part of the messages, as those of Strands do."""
    details: dict[str, Any] = dict(events[0]) if events else {}
    for attributes in events[1:]:
        for name, value in attributes.items():
            previous = details.get(name)
            if previous is None:
                details[name] = value
            elif name in _LISTS and value != previous:
                details[name] = [*as_list(parse_container(previous)), *as_list(parse_container(value))]
    return details


def _content_messages(events: list[SpanEvent], side: Prefer) -> tuple[Message, ...]:
    for event in events:
        name, event_side = _CONTENT_EVENTS.get(event.name, ("", "input"))
        if name and event_side == side and (messages := parse_messages(event.attributes.get(name), side)):
            return messages
    return ()
