"""The strict search: where in a value a conversation stands, step by step as the algorithm is written down.

    1  null, text, numbers, any leaf   nothing; texts are never parsed here
    2  a list                          itself, if it is messages; its elements are not searched
    3  an object: its keys             the list under the first key, group by group, that is messages
    4  its wrappers                    these steps again on each, in order
    5  its choices                     their messages, or else deltas, if together they are messages
    6  the object itself               alone in a list, if it is a message

A preference changes the order, never whether something is found. A value is visited when at most six keys lead to it.
An object that is being visited, or was visited from no deeper, is passed over; one met again nearer to the root is not.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, cast

from palaver.core.recognition import is_chat_messages

Prefer = Literal["input", "output"]
_Object = dict[str, Any]
_get = _Object.get  # Not the value's own: it may be anybody's subclass.
DEEPEST = 6
"""Keys that may lead to a value which is looked at."""

_INPUT = ("prompt", "input_messages")
_OUTPUT = ("completion", "output_messages", "responses")
_NEUTRAL = ("messages", "message_history", "history", "chat", "conversation", "logs")


class _Order(NamedTuple):
    """Where to look first."""

    keys: Sequence[str]
    wrappers: Sequence[tuple[str, ...]]
    """Each the keys that lead to it."""


_ORDERS: dict[Prefer | None, _Order] = {
    "input": _Order(
        (*_INPUT, *_NEUTRAL, *_OUTPUT),
        (("inputs",), ("data", "inputs"), ("request",), ("data",), ("outputs",), ("data", "outputs"), ("response",)),
    ),
    "output": _Order(
        (*_OUTPUT, *_NEUTRAL, *_INPUT),
        (("outputs",), ("data", "outputs"), ("response",), ("data",), ("inputs",), ("data", "inputs"), ("request",)),
    ),
    None: _Order(
        (*_NEUTRAL, *_INPUT, *_OUTPUT),
        (("data",), ("inputs",), ("outputs",), ("request",), ("response",)),
    ),
}


def extract_chat_messages(value: object, prefer: Prefer | None = None) -> list[Any] | None:
    """The messages in a value, as they stand there; None where it holds no conversation.

    With `prefer`, those of that side where there are several. Whatever the value, nothing is raised.
    """
    if prefer not in _ORDERS:
        raise ValueError(f"prefer must be None, 'input' or 'output', not {prefer!r}")
    return _visit(value, 0, _ORDERS[prefer], {})


def _visit(value: object, depth: int, order: _Order, seen: dict[int, int]) -> list[Any] | None:
    if isinstance(value, list):
        return cast("list[Any]", value) if is_chat_messages(cast("object", value)) else None
    if not isinstance(value, dict) or seen.get(id(cast("object", value)), DEEPEST + 1) <= depth:
        return None
    seen[id(cast("object", value))] = depth
    known = cast("_Object", value)
    return (
        _under_keys(known, order)
        or _in_wrappers(known, depth, order, seen)
        or _in_choices(_get(known, "choices"))
        or ([known] if is_chat_messages([known]) else None)
    )


def _under_keys(value: _Object, order: _Order) -> list[Any] | None:
    for key in order.keys:
        found = _get(value, key)
        if isinstance(found, list) and is_chat_messages(cast("object", found)):
            return cast("list[Any]", found)
    return None


def _in_wrappers(value: _Object, depth: int, order: _Order, seen: dict[int, int]) -> list[Any] | None:
    for path in order.wrappers:
        if depth + len(path) > DEEPEST:
            continue
        inner: Any = value
        for key in path:
            inner = _get(cast("_Object", inner), key) if isinstance(inner, dict) else None
        if isinstance(inner, list | dict):
            found = _visit(cast("object", inner), depth + len(path), order, seen)
            if found is not None:
                return found
    return None


def _in_choices(choices: object) -> list[Any] | None:
    if not isinstance(choices, list):
        return None
    said = [_said(choice) for choice in cast("list[Any]", choices)]
    messages = [message for message in said if message is not None]
    return messages if is_chat_messages(messages) else None


def _said(choice: object) -> object:
    """What a choice says: its message, else its delta; an empty one counts as missing."""
    if not isinstance(choice, dict):
        return None
    for key in ("message", "delta"):
        said = _get(cast("_Object", choice), key)
        if isinstance(said, dict) and said:
            return cast("object", said)
    return None
