"""Events that say something, `gen_ai.user.message` and its kin, as messages in the making.

They come as events of a span, and as a list in one of its attributes (Logfire). What they say is put into an object as
Chat Completions has it; messages.py reads those.
"""

from collections.abc import Iterable
from typing import Any

from palaver.core.dialects.common import dict_or_empty
from palaver.core.extraction import Prefer
from palaver.core.json import Object, is_list, is_object
from palaver.traces.conventions.messages import parts_in
from palaver.traces.conventions.reading import opened

_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
CHOICE = "gen_ai.choice"
NAMES = frozenset((*_ROLES, CHOICE))
"""The events that are messages."""

_CONTENT = "gen_ai.event.content"


def body_of(attributes: Object) -> Object:
    """What an event says: its attributes, or the JSON in one of them."""
    told = opened(attributes.get(_CONTENT))
    if told is None:
        return attributes
    return {**attributes, **told} if is_object(told) else {"content": told, **attributes}


def spoken(name: str, body: Object) -> tuple[Prefer, Object] | None:
    """On which side something is said, and what; None for an event without content, and for any other event."""
    if name == CHOICE:
        message = _choice(body)
        return None if message is None else ("output", message)
    role = _ROLES.get(name)
    message = None if role is None else _message(body, role)
    return None if message is None else ("input", message)


def sides(events: Iterable[tuple[str, Object]]) -> tuple[list[Object], list[Object]]:
    """What went in and what came out, of events by name."""
    said: dict[Prefer, list[Object]] = {"input": [], "output": []}
    for name, body in events:
        if (found := spoken(name, body)) is not None:
            said[found[0]].append(found[1])
    return said["input"], said["output"]


def _choice(body: Object) -> Object | None:
    message = opened(body.get("message"))
    if is_object(message):
        return _message(message, "assistant")
    return _message({**body, "content": body.get("content") if message is None else message}, "assistant")


def _message(body: Object, otherwise: str) -> Object | None:
    content, calls, role = parts_in(body.get("content")), opened(body.get("tool_calls")), body.get("role")
    if content is None and not calls:
        return None  # Instrumentations that must not record content send the event all the same.
    message: Object = {"role": role if isinstance(role, str) and role else otherwise, "content": _said(content)}
    if is_list(calls):
        message["tool_calls"] = [dict_or_empty(opened(call)) for call in calls]
    if message["role"] == "tool" and isinstance(call_id := body.get("id", body.get("tool_call_id")), str):
        message["tool_call_id"] = call_id
    if isinstance(name := body.get("name"), str):
        message["name"] = name
    return message


def _said(content: Any) -> Any:
    """Text and lists as they stand; one part, or anything else that was said, as a list of it."""
    return content if content is None or isinstance(content, str) or is_list(content) else [content]
