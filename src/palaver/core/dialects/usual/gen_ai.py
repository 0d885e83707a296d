"""The usual shapes of OpenTelemetry's gen_ai messages: text, reasoning, calls, results and files in parts.

Each of these parts tells by itself whose it is, so that one of them is enough. Recognised and read in one loop: the
shape of an element is its message, in a list of its own where calls and results have still to be settled. What both
ways of reading do alike, with the ids of calls, with results and files, is here too.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, cast

import msgspec

from palaver.core.dialects.pieces import UNKNOWN_MEDIA, Object, argument_text, file_at, kept
from palaver.core.dialects.roles import ROLES
from palaver.core.dialects.usual import Unusual, from_first
from palaver.core.messages import Message
from palaver.core.parts import File, Part, Reasoning, Text, ToolCall, ToolResult

MODALITIES = ("image", "audio", "video")
"""Those that a media type begins with."""

_encode = msgspec.json.Encoder().encode
_SMALL = 512
"""Bytes of JSON in which nothing can be nested too deeply to be written."""
_TEXTS = ("text", "input_text", "output_text")
_MESSAGE = frozenset({"role", "parts", "name", "id", "finish_reason"})
_CALL = frozenset({"type", "id", "name", "arguments", "builtin"})
_RESULT = frozenset({"type", "id", "name", "response", "result", "builtin", "palaver"})
"""What each may have: of anything else the long way may know more."""
_PLACES: Mapping[Any, str] = {"blob": "content", "uri": "uri", "file": "file_id"}
"""Where a file is told of, by the type of its part."""


def shapes(elements: list[Any]) -> list[Any]:
    """Of each its message, as far as all have a usual shape, then None."""
    found: list[Any] = []
    element: Object
    try:
        for element in elements:
            if type(element) is not dict:
                raise Unusual
            parts: list[Object] = element["parts"]
            if type(parts) is not list:
                raise Unusual
            part = parts[0]
            if (
                len(parts) == 1
                and (len(element) == 2 or (len(element) == 3 and "finish_reason" in element))
                and type(part) is dict
                and len(part) == 2
                and part["type"] == "text"
            ):  # Words and nothing else, as most are.
                if type(text := part["content"]) is not str:
                    raise Unusual
                found.append(Message(ROLES[element["role"]], (Text(text),)))
            else:
                found.append(_shape(element, parts))
    except Exception:  # It is unusual, or holds what is no JSON and may raise anything.
        return from_first(elements, found)
    return found


def _shape(element: Object, parts: list[Object]) -> Message | list[Message]:
    own_id = name = None
    if len(element) > 2:
        own_id, name = element.get("id"), element.get("name")
        if not (_is_given(own_id) and _is_given(name) and _MESSAGE.issuperset(element)):
            raise Unusual
    role, linked = ROLES[element["role"]], 0
    said: list[Part] = []
    for part in parts:
        if type(part) is not dict:
            raise Unusual
        kind = part["type"]
        if len(part) == 2 and (kind == "text" or kind == "reasoning"):  # noqa: PLR1714 - a tuple costs more
            if type(text := part["content"]) is not str:
                raise Unusual
            said.append(Text(text) if kind == "text" else Reasoning(text))
        elif kind == "tool_call":
            said.append(call := _call(part))
            linked += 1 if call.call_id else 2  # Nothing is to be settled for one call that has an id,
        elif kind == "tool_call_response":
            said.append(result := _result(part))
            linked += 1 if result.call_id and role == "tool" else 2  # and its answer by a tool.
        else:
            said.append(_file(part, kind))
    message = Message(role, tuple(said), own_id, name)
    return message if linked < 2 else [message]


def _is_given(value: Any) -> bool:
    return value is None or type(value) is str


def _call(part: Object) -> ToolCall:
    call_id, name, arguments = part.get("id"), part["name"], part.get("arguments")
    if type(name) is not str or not (type(call_id) is str or call_id is None) or not _CALL.issuperset(part):
        raise Unusual
    written = _encode(arguments).decode() if type(arguments) is dict else argument_text(arguments)
    return ToolCall(call_id or "", name, written)


def _result(part: Object) -> ToolResult:
    call_id, told, ours = part.get("id"), part.get("response"), part.get("palaver")
    if not (type(call_id) is str or call_id is None) or not _RESULT.issuperset(part):
        raise Unusual
    if type(told) is not str and (type(told) is not dict or len(_encode(told)) > _SMALL):
        told = output(told, part.get("result"))
    if ours is None:
        return ToolResult(call_id or "", told)
    if type(ours) is not dict or len(cast("Object", ours)) != 1 or ours["is_error"] is not True:
        raise Unusual
    return ToolResult(call_id or "", told, True)


def _file(part: Object, kind: Any) -> File:
    place = _PLACES[kind]
    held, told, modality = part[place], part.get("mime_type"), part.get("modality")
    if type(held) is not str or not (_is_given(told) and _is_given(modality)):
        raise Unusual
    if len(part) != 2 + ("mime_type" in part) + ("modality" in part):
        raise Unusual
    told = media_type(told, modality)
    if place == "uri":
        return file_of(held, told)
    if place == "content":
        return File(told or UNKNOWN_MEDIA, None, held)
    if modality is None:
        raise Unusual  # It would be one of ours.
    return File(told or UNKNOWN_MEDIA, None, None, held)


def read(
    shapes: Sequence[Any], start: int, unnamed: deque[str], long_way: Callable[[int], Iterable[Message]]
) -> list[Message]:
    """The messages; those of an element without a shape the long way gives, by its place."""
    messages: list[Message] = []
    for place, shape in enumerate(shapes):
        if type(shape) is Message:
            messages.append(shape)
        elif shape is None:
            messages += long_way(place)
        else:
            messages += whole(shape[0], start + place, unnamed)
    return messages


# What both ways do


def whole(message: Message, index: int, unnamed: deque[str]) -> Iterable[Message]:
    """The message with ids for all its calls and each of them once, its results apart.

    `unnamed` are the ids that we gave to calls, as long as no result without an id has come.
    """
    parts: list[Part] = []
    calls: set[str] = set()
    answers = False
    for place, part in enumerate(message.parts):
        if type(part) is ToolCall:
            if not part.call_id:
                part = ToolCall(f"call_{index}_{place}", part.name, part.arguments)
                unnamed.append(part.call_id)
            if part.call_id in calls:
                continue
            calls.add(part.call_id)
        elif type(part) is ToolResult:
            answers = True
            if unnamed and not part.call_id:
                part = ToolResult(unnamed.popleft(), part.output, part.is_error)
        parts.append(part)
    if not calls and not answers:
        return (message,)  # As most are.
    settled = Message(message.role, tuple(parts), message.id, message.name)
    return apart(settled) if answers and message.role != "tool" else (settled,)


def apart(message: Message) -> Iterable[Message]:
    """The message, its results in tool messages of their own; only the first of its pieces keeps the id."""
    if message.role == "tool" or not message.tool_results:
        yield message
        return
    own_id = message.id
    for are_results, parts in groupby(message.parts, lambda part: type(part) is ToolResult):
        if are_results:
            yield from (Message("tool", (part,)) for part in parts)
        else:
            yield Message(message.role, tuple(parts), own_id, message.name)
            own_id = None


def words(item: Any) -> str | None:
    """What is said in so many words; None for any other part."""
    if not isinstance(item, dict):
        return item if isinstance(item, str) else None
    part = cast("dict[str, Any]", item)
    said, text = part.get("content"), part.get("text")
    if "type" not in part:
        said = text
    elif part["type"] not in _TEXTS:
        return None
    elif not isinstance(said, str):
        said = text
    return said if isinstance(said, str) else None


def output(response: Any, result: Any) -> Any:
    """What a tool answered, under the one name or the other; a list of nothing but texts is their text."""
    told = result if response is None else response
    if told and isinstance(told, list):
        items = cast("list[Any]", told)
        texts = [text for item in items if isinstance(item, dict) and (text := words(item)) is not None]
        if len(texts) == len(items):
            return "".join(texts)
    return kept(told)


def media_type(told: Any, modality: Any) -> str | None:
    """As it is told, or as much of it as the modality says."""
    if told and isinstance(told, str):
        return told
    return f"{modality}/*" if modality in MODALITIES else None


def file_of(uri: str, told: str | None, filename: str | None = None, detail: str | None = None) -> File:
    """A file by its address; what we are told of its type holds against what a `data:` URL says."""
    file = file_at(uri, told or UNKNOWN_MEDIA, filename=filename, detail=detail)
    return file if told is None or told == file.media_type else msgspec.structs.replace(file, media_type=told)
