"""OpenTelemetry's gen_ai messages: `{"role": "user", "parts": [{"type": "text", "content": "…"}]}`.

What instrumentations put into the attributes `gen_ai.input.messages` and `gen_ai.output.messages`. Our own additions,
which others ignore, stand in a part's `palaver`; data is a text without words that has some. A part that we do not
know, and a tool that the provider ran itself, is kept in a data part `gen-ai:<type>`, and written back as it was.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, assert_never, cast

import msgspec

from palaver.core.dialects.pieces import (
    UNKNOWN_MEDIA,
    Object,
    argument_text,
    compact,
    content_of,
    file_at,
    given,
    listed,
    mapping,
    string,
)
from palaver.core.dialects.roles import role_of
from palaver.core.messages import Message
from palaver.core.parts import Annotation, Data, File, Part, Reasoning, Refusal, Text, ToolCall, ToolResult
from palaver.core.recognition import actor, element_dialect

LOSSES: Sequence[str] = (
    "ids and metadata of messages; one that says nothing gets an empty text",
    "results inside a message that is not a tool's become tool messages, and split it",
    "a call without an id gets one; a result without an id answers the first such call that has none yet",
    "a second call of the same id in one message",
    "a result that is a list of nothing but text parts becomes their text",
    "all but one of a file's places; one that has none becomes empty, a `data:` URL what it holds",
)

_RAW = "gen-ai:"
_MODALITIES = ("image", "audio", "video")


def read(elements: Sequence[Any]) -> list[Message]:
    """One message per element, and one for every result that does not stand in a tool's."""
    unnamed: deque[str] = deque()
    return [
        message
        for index, element in enumerate(elements)
        for message in _apart(_message(mapping(element), index, unnamed))
    ]


def write(messages: Sequence[Message]) -> list[Any]:
    """Messages as an instrumentation records them."""
    return [_written(piece) for message in messages for piece in _apart(message)]


def _apart(message: Message) -> Iterable[Message]:
    """The message, its results in tool messages of their own; only the first of its pieces keeps the id."""
    if message.role == "tool" or not message.tool_results:
        yield message
        return
    own_id = message.id
    for are_results, parts in groupby(message.parts, lambda part: isinstance(part, ToolResult)):
        if are_results:
            yield from (Message(role="tool", parts=(part,)) for part in parts)
        else:
            yield Message(role=message.role, parts=tuple(parts), id=own_id, name=message.name)
            own_id = None


# Reading


def _message(element: Object, index: int, unnamed: deque[str]) -> Message:
    """`unnamed` are the ids that we gave to calls, as long as no result without an id has come."""
    role, name = role_of(actor(element) or "")
    own_name = string(element.get("name"))
    parts: list[Part] = []
    calls: set[str] = set()
    for place, item in enumerate(listed(content_of(element))):
        part = _part(item)
        match part:
            case ToolCall(call_id=call_id):
                if not call_id:
                    part = msgspec.structs.replace(part, call_id=f"call_{index}_{place}")
                    unnamed.append(part.call_id)
                if part.call_id in calls:
                    continue
                calls.add(part.call_id)
            case ToolResult(call_id="") if unnamed:
                part = msgspec.structs.replace(part, call_id=unnamed.popleft())
            case _:
                pass
        parts.append(part)
    name = name if own_name is None else own_name
    return Message(role=role, parts=tuple(parts), id=string(element.get("id")), name=name)


def _part(item: Any) -> Part:
    words = _words(item)
    if words is not None:
        return _text(words, _ours(item))
    match item:
        case {"type": "reasoning" | "thinking"} if (thought := _said(item, "content", "text", "thinking")) is not None:
            return Reasoning(text=thought, encrypted=string(_ours(item).get("encrypted")))
        case {"type": "tool_call", "name": str(name)}:
            arguments = argument_text(item.get("arguments"))
            return ToolCall(call_id=string(item.get("id")) or "", name=name, arguments=arguments)
        case {"type": "tool_call_response"}:
            failed = _ours(item).get("is_error") is True
            return ToolResult(call_id=string(item.get("id")) or "", output=_output(item), is_error=failed)
        case {"type": "blob", "content": str(data)}:
            return File(media_type=_media_type(item) or UNKNOWN_MEDIA, data=data, **_about(item))
        case {"type": "uri", "uri": str(uri)}:
            told = _media_type(item)
            file = file_at(uri, told or UNKNOWN_MEDIA, **_about(item))
            return msgspec.structs.replace(file, media_type=told or file.media_type)
        case {"type": "file", "file_id": str(file_id)}:
            return File(media_type=_media_type(item) or UNKNOWN_MEDIA, file_id=file_id, **_about(item))
        case _:
            return Data(name=f"{_RAW}{string(mapping(item).get('type')) or 'part'}", value=item)


def _words(item: Any) -> str | None:
    """What is said in so many words; None for any other part."""
    match item:
        case str(words):
            return words
        case {"type": "text" | "input_text" | "output_text"}:
            return _said(item, "content", "text")
        case {"text": str(words), **rest} if "type" not in rest:
            return words
        case _:
            return None


def _said(part: Object, *keys: str) -> str | None:
    return next((words for key in keys if (words := string(part.get(key))) is not None), None)


def _ours(part: Any) -> Object:
    return mapping(mapping(part).get("palaver"))


def _text(words: str, ours: Object) -> Text | Refusal | Data:
    match ours:
        case {"data": {"name": str(name), **rest}} if not words:
            return Data(name=name, value=rest.get("value"))
        case {"refusal": True}:
            return Refusal(text=words)
        case {"annotations": notes}:
            return Text(text=words, annotations=_annotations(notes))
        case _:
            return Text(text=words)


def _annotations(notes: Any) -> tuple[Annotation, ...]:
    try:
        return msgspec.convert(notes, tuple[Annotation, ...])
    except (msgspec.ValidationError, UnicodeError):
        return ()


def _output(part: Object) -> Any:
    output = next((part[key] for key in ("response", "result") if part.get(key) is not None), None)
    items = cast("list[Any]", output) if isinstance(output, list) else []
    texts = [words for item in items if isinstance(item, dict) and (words := _words(item)) is not None]
    return "".join(texts) if items and len(texts) == len(items) else cast("Any", output)


def _media_type(part: Object) -> str | None:
    modality = part.get("modality")
    return string(part.get("mime_type")) or (f"{modality}/*" if modality in _MODALITIES else None)


def _about(part: Object) -> dict[str, str | None]:
    ours = _ours(part)
    return {key: string(ours.get(key)) for key in ("filename", "detail")}


# Writing


def _written(message: Message) -> dict[str, Any]:
    element = {"role": message.role, **given(name=message.name)}
    said = message.parts or (Text(text=""),)
    written = {**element, "parts": [_raw(part) or _written_part(part) for part in said]}
    if element_dialect(written) != "gen-ai":  # Foreign parts alone would be taken for somebody else's.
        written["parts"] = [_written_part(part) for part in said]
    return written


def _raw(part: Part) -> dict[str, Any] | None:
    """A part that we did not know, as it was; not where its value would be read as what nobody said."""
    match part:
        case Data(name=name, value={"type": str(kind)}) if kind and name == _RAW + kind:
            read_back = _part(part.value)
            return part.value if isinstance(read_back, Data) and read_back.value is part.value else None
        case _:
            return None


def _written_part(part: Part) -> dict[str, Any]:
    match part:
        case Text(text=words, annotations=notes):
            return {"type": "text", "content": words, **_kept(annotations=msgspec.to_builtins(list(notes)) or None)}
        case Reasoning(text=words, encrypted=encrypted):
            return {"type": "reasoning", "content": words, **_kept(encrypted=encrypted)}
        case Refusal(text=words):
            return {"type": "text", "content": words, **_kept(refusal=True)}
        case Data(name=name, value=value):
            return {"type": "text", "content": "", **_kept(data={"name": name, "value": value})}
        case ToolCall(call_id=call_id, name=name):
            return {"type": "tool_call", "id": call_id or None, "name": name, "arguments": _arguments(part)}
        case ToolResult(call_id=call_id, output=output, is_error=failed):
            result = {"type": "tool_call_response", "id": call_id or None, "response": output}
            return {**result, **_kept(is_error=failed or None)}
        case File():
            return _file(part)
        case _:
            assert_never(part)


def _kept(**fields: Any) -> dict[str, Any]:
    kept = given(**fields)
    return {"palaver": kept} if kept else {}


def _arguments(call: ToolCall) -> Any:
    """An object, as most record it, where its text comes back from it; else the text."""
    value = call.parsed
    return mapping(value) if isinstance(value, dict) and compact(value) == call.arguments else call.arguments


def _file(file: File) -> dict[str, Any]:
    kind = file.media_type.partition("/")[0]
    told = {"modality": kind if kind in _MODALITIES else "document", "mime_type": file.media_type}
    kept = _kept(filename=file.filename, detail=file.detail)
    if file.url is not None:
        return {"type": "uri", **told, "uri": file.url, **kept}
    if file.file_id is not None and file.data is None:
        return {"type": "file", **told, "file_id": file.file_id, **kept}
    return {"type": "blob", **told, "content": file.data or "", **kept}
