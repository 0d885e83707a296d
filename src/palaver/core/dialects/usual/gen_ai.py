"""The usual shapes of OpenTelemetry's gen_ai messages: text, reasoning, calls, results and files in parts.

Each of these parts tells by itself whose it is, so that one of them is enough. What both ways of reading do alike, with
the ids of calls, with results and files, is here too.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Annotated, Any, Literal, cast, final

import msgspec
from msgspec import Meta

from palaver.core.dialects.pieces import UNKNOWN_MEDIA, argument_text, file_at, kept
from palaver.core.dialects.roles import ROLES
from palaver.core.dialects.usual import Shape, Speaker, listing, shaped
from palaver.core.messages import Message
from palaver.core.parts import File, Part, Reasoning, Text, ToolCall, ToolResult

MODALITIES = ("image", "audio", "video")
"""Those that a media type begins with."""

_TEXTS = ("text", "input_text", "output_text")


@final
class _Text(Shape, tag_field="type", tag="text"):
    content: str


@final
class _Reasoning(Shape, tag_field="type", tag="reasoning"):
    content: str


@final
class _Call(Shape, tag_field="type", tag="tool_call"):
    name: str
    id: str | None = None
    arguments: Any = None
    builtin: Any = None


@final
class _Failed(Shape):
    is_error: Literal[True]


@final
class _Result(Shape, tag_field="type", tag="tool_call_response"):
    id: str | None = None
    response: Any = None
    result: Any = None
    name: Any = None
    builtin: Any = None
    palaver: _Failed | None = None


@final
class _Blob(Shape, tag_field="type", tag="blob"):
    content: str
    modality: str | None = None
    mime_type: str | None = None


@final
class _Uri(Shape, tag_field="type", tag="uri"):
    uri: str
    modality: str | None = None
    mime_type: str | None = None


@final
class _File(Shape, tag_field="type", tag="file"):
    """Without a modality it would be one of ours."""

    file_id: str
    modality: str
    mime_type: str | None = None


_Part = _Text | _Reasoning | _Call | _Result | _Blob | _Uri | _File


@final
class _Usual(Shape):
    role: Speaker | Literal["tool", "function"]
    parts: Annotated[list[_Part], Meta(min_length=1)]
    name: str | None = None
    id: str | None = None
    finish_reason: Any = None


_ALL = listing(_Usual)


def shapes(elements: list[Any]) -> list[Any]:
    """Of each its shape, None for one that has none."""
    return shaped(elements, _ALL)


def read(
    shapes: Sequence[Any], start: int, unnamed: deque[str], long_way: Callable[[int], Iterable[Message]]
) -> list[Message]:
    """The messages; those of an element without a shape the long way gives, by its place."""
    messages: list[Message] = []
    for place, shape in enumerate(shapes):
        if shape is None:
            messages += long_way(place)
            continue
        role, parts = ROLES[shape.role], shape.parts
        if len(parts) == 1 and type(parts[0]) is _Text:  # Most are.
            messages.append(Message(role, (Text(parts[0].content),), shape.id, shape.name))
            continue
        said: list[Part] = []
        linked = 0
        for part in parts:
            if type(part) is _Text:
                said.append(Text(part.content))
            elif type(part) is _Reasoning:
                said.append(Reasoning(part.content))
            else:
                said.append(_part(part))
                if type(part) is _Call or type(part) is _Result:
                    # Nothing is to be settled for one call that has an id, and its answer by a tool.
                    linked += 1 if part.id and (role == "tool" or type(part) is _Call) else 2
        message = Message(role, tuple(said), shape.id, shape.name)
        if linked < 2:
            messages.append(message)
        else:
            messages += whole(message, start + place, unnamed)
    return messages


def _part(part: _Call | _Result | _Blob | _Uri | _File) -> Part:
    if type(part) is _Call:
        return ToolCall(part.id or "", part.name, argument_text(part.arguments))
    if type(part) is _Result:
        return ToolResult(part.id or "", output(part.response, part.result), part.palaver is not None)
    told = media_type(part.mime_type, part.modality)
    if type(part) is _Uri:
        return file_of(part.uri, told)
    if type(part) is _Blob:
        return File(told or UNKNOWN_MEDIA, None, part.content)
    return File(told or UNKNOWN_MEDIA, None, None, part.file_id)


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
