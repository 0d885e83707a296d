"""The strict search: where in a value a conversation stands, step by step as the algorithm is written down.

    1  null, text, numbers, any leaf   nothing; texts are never parsed here
    2  a list                          itself, if it is messages; its elements are not searched
    3  an object: its keys             the list under the first key, group by group, that is messages
    4  its wrappers                    these steps again on each, in order
    5  its choices                     their messages, or else deltas, if together they are messages
    6  the object itself               alone in a list, if it is a message
    7                                  nothing

A preference changes the order, never whether something is found. A value is visited when at most six keys lead to it.
An object that is being visited, or was visited from no deeper, is passed over; one met again nearer to the root is not.
"""

from collections.abc import Sequence
from typing import Any

from palaver.core.extraction.places import DEEPEST, STRICT, Names, Order, Path, Prefer, ordered
from palaver.core.kinds import Object, get, honest, is_list, is_object, items
from palaver.core.recognition import is_chat_messages


def extract_chat_messages(value: object, prefer: Prefer | None = None) -> list[Any] | None:
    """The messages in a value, as they stand there; None where it holds no conversation.

    With `prefer`, those of that side where there are several. Whatever the value, nothing is raised.
    """
    order = ordered(STRICT, prefer)
    try:
        return _visit(value, 0, order, {})
    except Exception:  # Somebody's own objects, which cannot even be compared.
        return _visit(honest(value), 0, order, {})


def _visit(value: object, depth: int, order: Order, seen: dict[int, int]) -> list[Any] | None:
    if is_list(value):  # 2
        return value if is_chat_messages(value) else None
    if not is_object(value) or seen.get(id(value), DEEPEST + 1) <= depth:  # 1
        return None
    seen[id(value)] = depth
    plan = order.plan(value)
    found = _under_keys(value, plan.keys)  # 3
    if found is None and plan.wrappers:
        found = _in_wrappers(value, plan.wrappers, depth, order, seen)  # 4
    if found is None and plan.answers:
        found = _in_choices(get(value, "choices"))  # 5
    if found is None and plan.is_message and is_chat_messages([value]):
        found = [value]  # 6
    return found  # 7


def _under_keys(value: Object, keys: Names) -> list[Any] | None:
    for key in keys:
        found = get(value, key)
        if is_list(found) and is_chat_messages(found):
            return found
    return None


def _in_wrappers(
    value: Object, wrappers: Sequence[Path], depth: int, order: Order, seen: dict[int, int]
) -> list[Any] | None:
    for path in wrappers:
        inner: Any = value
        for key in path:
            inner = get(inner, key) if is_object(inner) else None
        if inner is not None and depth + len(path) <= DEEPEST:
            found = _visit(inner, depth + len(path), order, seen)
            if found is not None:
                return found
    return None


def _in_choices(choices: object) -> list[Any] | None:
    said = [_said(choice) for choice in items(choices)] if is_list(choices) else []
    messages = [message for message in said if message is not None]
    return messages if is_chat_messages(messages) else None


def _said(choice: object) -> Object | None:
    """What a choice says: its message, else its delta; an empty one counts as missing."""
    if not is_object(choice):
        return None
    for key in ("message", "delta"):
        said = get(choice, key)
        if is_object(said) and Object.__len__(said):
            return said
    return None
