"""Logfire and Pydantic AI: the conversation of an agent's run in one attribute. A part of the gen_ai convention.

pydantic_ai.all_messages        all messages of a run, those of earlier runs first
pydantic_ai.new_message_index   where those of this run begin, its prompt among them
events, all_messages_events     an older form of the same: a list of events, each with its `event.name`
"""

from collections.abc import Sequence
from typing import Any

from palaver.core.json import Object, is_list, is_object
from palaver.core.messages import Message
from palaver.traces.conventions.bodies import NAMES, sides
from palaver.traces.conventions.messages import messages_of
from palaver.traces.conventions.reading import Attributes, count, opened

ROOTS: frozenset[str] = frozenset(
    ("pydantic_ai", "events", "all_messages_events", "final_result", "operation", "tool_arguments", "tool_response")
)

_ALL, _INDEX = "pydantic_ai.all_messages", "pydantic_ai.new_message_index"
_EVENTS, _ALL_EVENTS = "events", "all_messages_events"

Sides = tuple[tuple[Message, ...], tuple[Message, ...]]


def is_run(attributes: Attributes) -> bool:
    """Is it the span of an agent's run? Before it said so, only these told."""
    return _ALL in attributes or _ALL_EVENTS in attributes


def conversation(attributes: Attributes) -> Sides:
    """What went in and what came out."""
    everything = opened(attributes.get(_ALL))
    if is_list(everything):
        return _from(everything, count(attributes.get(_INDEX)) or 0)
    said_in, said_out = sides(_told(opened(attributes.get(_EVENTS))))
    if not said_in and not said_out:
        said_in, said_out = sides(_told(opened(attributes.get(_ALL_EVENTS))))
    if said_in and not said_out:
        return _from(said_in, 0)
    return messages_of(said_in, "input"), messages_of(said_out, "output")


def _told(events: Any) -> list[tuple[str, Object]]:
    listed: list[Any] = events if is_list(events) else []
    return [
        (name, event)
        for event in listed
        if is_object(event) and isinstance(name := event.get("event.name"), str) and name in NAMES
    ]


def _from(elements: list[Any], index: int) -> Sides:
    """All elements, cut before the first answer of the run whose messages begin at `index`.

    Results of tools are among what a user says there, so that they are read, and stand apart, before anything is cut.
    The index counts Pydantic AI's own messages, of which one may have become two: it can only be too small.
    """
    before, messages = messages_of(elements[:index], "input"), messages_of(elements[index:], "input")
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
