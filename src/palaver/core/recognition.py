"""Is this value messages, and in which dialect? One test, used by replies, requests, tables and evaluators alike.

Pure, total functions: whatever the value, nothing here raises. *Object* means dict and *list* means list; tuples, bytes
and other Python objects are leaves and never match. The search for messages inside a larger value is extraction's.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from palaver.core.elements import (
    DIALECTS,
    Dialect,
    actor,
    inside,
    is_known,
    judge,
    quick_look,
    says_something,
)
from palaver.core.kinds import honest, is_list, items, plain

_TYPE_DICT, _TYPE_LIST = (dict,), (list,)


class Stretch(msgspec.Struct, frozen=True, gc=False):
    """Elements that stand together in one dialect, out of OpenInference's `{"message": {…}}` where they stood in it."""

    dialect: Dialect
    elements: list[Any]
    start: int = 0
    """The place of the first of them in the whole."""


def is_nobodys(element: object) -> bool:
    """Is it an element of no dialect?"""
    message = plain(element)
    return judge(message) is None and judge(inside(message)) is None


def is_chat_messages(value: object) -> bool:
    """The strict test: a list of nothing but messages, at least one of them by somebody we know."""
    if not is_list(value):
        return False
    try:
        return _are_messages(items(value))
    except Exception:  # Somebody's own objects, which cannot even be compared.
        return _are_messages(honest(value))


def _are_messages(elements: list[Any]) -> bool:
    known = False
    for element in elements:
        fields = element if type(element) in _TYPE_DICT else plain(element)
        if fields is None:
            return False
        role = fields.get("role")
        who = role if type(role) is str and role else actor(fields)
        if who is None or not (type(fields.get("content")) is str or says_something(fields)):
            return False
        known = known or is_known(who)
    return known


def dialect_of(value: object) -> Dialect | None:
    """The dialect of a list of messages, or of one message; None where it is no such thing."""
    try:
        found = stretches(value)
    except Exception:  # Somebody's own objects, which cannot even be compared.
        found = stretches(honest(value))
    return name_of(found) if found else None


def name_of(found: Sequence[Stretch]) -> Dialect:
    """The dialect of the whole: the first of the table that occurs in it."""
    return found[0].dialect if len(found) == 1 else min([one.dialect for one in found], key=DIALECTS.index)


def stretches(value: object) -> list[Stretch] | None:
    """A list of messages, or one message, cut where the dialect changes; None where it is no messages."""
    elements: Any = value if type(value) in _TYPE_LIST else items(value) if is_list(value) else [value]
    if not elements:
        return None
    first: Any = elements[0] if type(elements[0]) in _TYPE_DICT else plain(elements[0])
    guess = quick_look(first) or judge(first)
    if guess is None and (guess := judge(inside(first))) is not None:
        elements = [_out(element) for element in elements]
    if guess is None or (not guess[1] and all(map(_is_doubtful, elements))):
        return None
    return _cut(elements, guess[0])


def _is_doubtful(element: Any) -> bool:
    """A row of `{role: admin, content}` or `{type: system, content}`, which makes nothing certain: a quick look."""
    if type(element) not in _TYPE_DICT or type(element.get("content")) is not str or "parts" in element:
        return False
    role = element.get("role")
    if type(role) is str and role:
        return "type" not in element and not is_known(role)
    kind = element.get("type")
    return (
        (kind == "system" or kind == "tool" or kind == "function")  # noqa: PLR1714 - a tuple costs more
        and not ("sender" in element or "author" in element or "lc" in element or "data" in element)
        and not ("additional_kwargs" in element or "response_metadata" in element)
    )


def _cut(elements: list[Any], dialect: Dialect) -> list[Stretch] | None:
    """Cut where the dialect changes; `dialect` is that of the first."""
    found: list[Stretch] = []
    messages: list[Any] = []
    start, certain = 0, False
    for index, element in enumerate(elements):
        message = element if type(element) in _TYPE_DICT else plain(element)
        verdict = quick_look(message) or judge(message) or judge(message := inside(message))
        if verdict is None:
            return None
        if verdict[0] != dialect:
            found.append(Stretch(dialect, messages, start))
            dialect, messages, start = verdict[0], [], index
        messages.append(message)
        certain = certain or verdict[1]
    found.append(Stretch(dialect, messages, start))
    return found if certain else None


def _out(element: Any) -> Any:
    """The message out of OpenInference's `{"message": {…}}`, where it is nothing but that; the rest is judged."""
    inner = element.get("message") if type(element) in _TYPE_DICT and len(element) == 1 else None
    return inner if type(inner) in _TYPE_DICT else element


def why_not(value: object) -> tuple[int | None, str]:
    """For a value that is no messages: the index of the first bad element, and what is wrong with it."""
    if not is_list(value):
        return None, "is not a list of messages"
    for index, element in enumerate(items(value)):
        if is_nobodys(element):
            message = plain(element)
            if message is None:
                return index, "is not an object"
            if actor(message) is None:
                return index, "has no role"
            return index, "says nothing that we can read (content, parts, tool_calls …)"
    return None, "has no message with a known role"
