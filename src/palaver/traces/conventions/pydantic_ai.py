"""Pydantic AI and Logfire: the conversation and the usage of an agent run. A part of the gen_ai convention.

pydantic_ai.all_messages        all messages of a run, those of earlier runs first
pydantic_ai.new_message_index   index of this run's first message, its prompt
events, all_messages_events     an older form: a list of events, each with its `event.name`
gen_ai.aggregated_usage.*       token counts of the whole run, used only if no other convention has counts
"""

from collections.abc import Sequence
from typing import Any

from palaver.core.json import Object, is_list, is_object
from palaver.core.messages import Message
from palaver.traces.conventions.attributes import AttributeReader, Attributes, SpanFields, parse_container, parse_count
from palaver.traces.conventions.messages import MESSAGE_EVENTS, parse_messages, split_events
from palaver.traces.model import ConventionName, RawSpan

NAME: ConventionName = "gen_ai"
ROOTS: frozenset[str] = frozenset(
    "gen_ai pydantic_ai events all_messages_events final_result operation tool_arguments tool_response".split()
)

_ALL_MESSAGES, _NEW_MESSAGE_INDEX = "pydantic_ai.all_messages", "pydantic_ai.new_message_index"
_EVENTS, _ALL_EVENTS = "events", "all_messages_events"
_AGGREGATED_USAGE = "gen_ai.aggregated_usage."

Sides = tuple[tuple[Message, ...], tuple[Message, ...]]


def is_agent_run(attributes: Attributes) -> bool:
    """Whether it is the span of an agent run, for versions without an operation name."""
    return _ALL_MESSAGES in attributes or _ALL_EVENTS in attributes


def agent_conversation(attributes: Attributes) -> Sides:
    """Return the input and the output messages of a run."""
    messages = parse_container(attributes.get(_ALL_MESSAGES))
    if is_list(messages):
        return _split_sides(messages, parse_count(attributes.get(_NEW_MESSAGE_INDEX)) or 0)
    events_in, events_out = split_events(_message_events(parse_container(attributes.get(_EVENTS))))
    if not events_in and not events_out:
        events_in, events_out = split_events(_message_events(parse_container(attributes.get(_ALL_EVENTS))))
    if events_in and not events_out:
        return _split_sides(events_in, 0)
    return parse_messages(events_in, "input"), parse_messages(events_out, "output")


def _message_events(events: Any) -> list[tuple[str, Object]]:
    items: list[Any] = events if is_list(events) else []
    return [
        (name, event)
        for event in items
        if is_object(event) and isinstance(name := event.get("event.name"), str) and name in MESSAGE_EVENTS
    ]


def _split_sides(elements: list[Any], index: int) -> Sides:
    """Split all messages before the first answer of the run whose messages begin at `index`.

    Tool results are inside user messages there, so all are parsed before the split. The index counts Pydantic AI's
    messages, of which one may become two here: it can only be too small.
    """
    earlier, messages = parse_messages(elements[:index], "input"), parse_messages(elements[index:], "input")
    split = _first_answer(messages) if index and earlier else _after_last_user(messages)
    return (*earlier, *messages[:split]), messages[split:]


def _first_answer(messages: Sequence[Message]) -> int:
    """Return the index of the first answer after the first prompt, if any."""
    roles = [message.role for message in messages]
    prompt = roles.index("user") if "user" in roles else 0
    return next((index for index in range(prompt, len(roles)) if roles[index] == "assistant"), len(roles))


def _after_last_user(messages: Sequence[Message]) -> int:
    """Return the index after the last user message, or after the instructions."""
    last = max((index for index, message in enumerate(messages) if message.role == "user"), default=None)
    if last is not None:
        return last + 1
    return next(
        (index for index, message in enumerate(messages) if message.role not in ("system", "developer")),
        len(messages),
    )


def read_fields(raw: RawSpan) -> SpanFields:
    reader = AttributeReader(raw.attributes)
    return SpanFields(
        input_tokens=reader.count(_AGGREGATED_USAGE + "input_tokens"),
        output_tokens=reader.count(_AGGREGATED_USAGE + "output_tokens"),
        cached_input_tokens=reader.count(_AGGREGATED_USAGE + "cache_read.input_tokens"),
        cache_creation_input_tokens=reader.count(_AGGREGATED_USAGE + "cache_creation.input_tokens"),
        notes=tuple(reader.notes),
    )
