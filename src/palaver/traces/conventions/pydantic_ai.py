"""Pydantic AI and Logfire: the conversation and the usage of an agent run. A part of the gen_ai convention."""

from collections.abc import Sequence
from typing import Any

from palaver.core.json import Object, is_list, is_object
from palaver.core.messages import Message
from palaver.traces.conventions.attributes import AttributeReader, Attributes, parse_container, parse_count
from palaver.traces.conventions.base import SpanFields
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
    """Is it the span of an agent's run? Before it said so, only these told."""
    return _ALL_MESSAGES in attributes or _ALL_EVENTS in attributes


def agent_conversation(attributes: Attributes) -> Sides:
    """What went in and what came out."""
    everything = parse_container(attributes.get(_ALL_MESSAGES))
    if is_list(everything):
        return _split_sides(everything, parse_count(attributes.get(_NEW_MESSAGE_INDEX)) or 0)
    said_in, said_out = split_events(_message_events(parse_container(attributes.get(_EVENTS))))
    if not said_in and not said_out:
        said_in, said_out = split_events(_message_events(parse_container(attributes.get(_ALL_EVENTS))))
    if said_in and not said_out:
        return _split_sides(said_in, 0)
    return parse_messages(said_in, "input"), parse_messages(said_out, "output")


def _message_events(events: Any) -> list[tuple[str, Object]]:
    listed: list[Any] = events if is_list(events) else []
    return [
        (name, event)
        for event in listed
        if is_object(event) and isinstance(name := event.get("event.name"), str) and name in MESSAGE_EVENTS
    ]


def _split_sides(elements: list[Any], index: int) -> Sides:
    """All elements, cut before the first answer of the run whose messages begin at `index`.

    Results of tools are among what a user says there, so that they are read, and stand apart, before anything is cut.
    The index counts Pydantic AI's own messages, of which one may have become two: it can only be too small.
    """
    before, messages = parse_messages(elements[:index], "input"), parse_messages(elements[index:], "input")
    cut = _first_answer(messages) if index and before else _after_last_user(messages)
    return (*before, *messages[:cut]), messages[cut:]


def _first_answer(messages: Sequence[Message]) -> int:
    """The first answer after the first prompt; without a prompt, the first answer."""
    roles = [message.role for message in messages]
    prompt = roles.index("user") if "user" in roles else 0
    return next((place for place in range(prompt, len(roles)) if roles[place] == "assistant"), len(roles))


def _after_last_user(messages: Sequence[Message]) -> int:
    """After the last message of a user; without one, after the instructions."""
    last = max((place for place, message in enumerate(messages) if message.role == "user"), default=None)
    if last is not None:
        return last + 1
    return next(
        (place for place, message in enumerate(messages) if message.role not in ("system", "developer")),
        len(messages),
    )


def read(raw: RawSpan) -> SpanFields:
    """The counts, for whoever is asked last."""
    reader = AttributeReader(raw.attributes)
    return SpanFields(
        input_tokens=reader.count(_AGGREGATED_USAGE + "input_tokens"),
        output_tokens=reader.count(_AGGREGATED_USAGE + "output_tokens"),
        cached_input_tokens=reader.count(_AGGREGATED_USAGE + "cache_read.input_tokens"),
        cache_creation_input_tokens=reader.count(_AGGREGATED_USAGE + "cache_creation.input_tokens"),
        notes=tuple(reader.notes),
    )
