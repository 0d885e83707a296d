"""The usual shapes of Chat Completions: text, images, calls and results as the OpenAI SDKs write them.

Recognised and read in one loop over the elements, so that the shape of an element is its message: for messages as small
as these that is quicker than to let msgspec tell first and then to read. What neither recognition nor a reader looks at
may stand in an element: people add a date, a score, whatever they like.
"""

from typing import Any

from palaver.core.dialects.pieces import Object, file_at, first_of_each
from palaver.core.dialects.roles import ROLES
from palaver.core.dialects.usual import Unusual, from_first
from palaver.core.messages import Message, Role
from palaver.core.parts import Part, Reasoning, Refusal, Text, ToolCall, ToolResult
from palaver.core.recognition import Nobodys, is_nobodys

_OBJECT, _LIST = (dict,), (list,)
_ABSENT: Any = object()
_CONTENTS = (str, list, type(None))
_MOST = 64
"""Fields of an element that are gone through. Where there are more, the long way looks up those that it knows."""
_SPEAKERS: dict[Any, Role] = {written: role for written, role in ROLES.items() if role != "tool"}
_ODD = frozenset(
    "type parts text message delta sender author function_call additional_kwargs palaver annotations audio".split()
)
"""What the long way looks at, and this one does not, unless it is null or empty."""


def shapes(elements: list[Any]) -> list[Any]:
    """Of each its message, as far as all have a usual shape, then None."""
    found: list[Any] = []
    last = elements[-1]
    if type(last) in _OBJECT and type(last.get("content")) not in _CONTENTS and is_nobodys(last):
        raise Nobodys  # A list that was cut off, or ends in something else: the others need not be read.
    try:
        for element in elements:
            if type(element) not in _OBJECT or len(element) > _MOST:
                raise Unusual
            content = element.get("content")
            if len(element) == 2 and content is not None:  # Nothing but who and what, as most are.
                parts = ((Text(content),) if content else ()) if type(content) is str else _parts(content)
                found.append(Message(_SPEAKERS[element["role"]], parts))
            else:
                found.append(_message(element) if "role" in element else _sent(element))
    except Exception:  # It is unusual, or holds what is no JSON and may raise anything.
        return from_first(elements, found)
    return found


def _message(element: Object) -> Message:
    content: Any = _ABSENT
    calls = call_id = name = own_id = reasoning = refusal = None
    for key, value in element.items():
        if key == "content":
            content = value
        elif value is None or key == "role":
            pass
        elif key == "tool_calls":
            calls = value
        elif key == "tool_call_id":
            call_id = _text(value)
        elif key == "name":
            name = _text(value)
        elif key == "id":
            own_id = value
        elif key == "reasoning_content":
            reasoning = _text(value)
        elif key == "refusal":
            refusal = _text(value)
        elif key in _ODD and value != []:
            raise Unusual
    written = element["role"]
    if written == "tool":
        if call_id is None or (type(content) is not str and content is not None):
            raise Unusual
        return Message("tool", (ToolResult(call_id, content),), None, name)
    if call_id is not None or (content is _ABSENT and calls is None):
        raise Unusual
    parts: tuple[Part, ...] = ((Text(content),) if content else ()) if type(content) is str else _parts(content)
    if calls or reasoning or refusal:
        before = (Reasoning(reasoning),) if reasoning else ()
        after = (Refusal(refusal),) if refusal else ()
        parts = (*before, *parts, *after, *(_calls(calls) if calls else ()))
    return Message(_SPEAKERS[written], parts, own_id if type(own_id) is str else None, name)


def _sent(element: Object) -> Message:
    """How chat widgets and many applications of people's own keep their history: a sender and a text."""
    text, own_id = element["text"], element.get("id")
    if type(text) is not str or not (
        _SENT_ODD.isdisjoint(element) or all(element.get(key) is None for key in _SENT_ODD)
    ):
        raise Unusual
    return Message(_SPEAKERS[element["sender"]], (Text(text),) if text else (), own_id if type(own_id) is str else None)


_SENT_ODD = frozenset(
    "type parts content name tool_calls tool_call_id function_call additional_kwargs palaver annotations refusal"
    " reasoning_content".split()
)


def _text(value: Any) -> str:
    if type(value) is not str:
        raise Unusual
    return value


def _parts(content: Any) -> tuple[Part, ...]:
    if content is None or content is _ABSENT:
        return ()
    if type(content) not in _LIST:
        raise Unusual
    parts: list[Part] = []
    for piece in content:
        kind = piece["type"]
        if type(piece) not in _OBJECT or "source" in piece:
            raise Unusual
        if kind == "text":
            if text := _text(piece["text"]):
                parts.append(Text(text))
        elif kind == "image_url" and type(piece["image_url"]) in _OBJECT:
            image = piece["image_url"]
            detail = image.get("detail")
            parts.append(file_at(_text(image["url"]), "image/*", detail=None if detail is None else _text(detail)))
        else:
            raise Unusual
    return tuple(parts)


def _calls(items: Any) -> list[ToolCall]:
    if type(items) not in _LIST:
        raise Unusual
    calls: list[ToolCall] = []
    for item in items:
        call = item.get("tool_call") or item  # OpenInference wraps it.
        function = call["function"]
        call_id, name, arguments = call["id"], function["name"], function["arguments"]
        if not call_id or not (type(call_id) is type(name) is type(arguments) is str):
            raise Unusual
        calls.append(ToolCall(call_id, name, arguments))
    return calls if len(calls) < 2 else [*first_of_each(calls)]
