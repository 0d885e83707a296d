"""OpenTelemetry's gen_ai messages: `{"role": "user", "parts": [{"type": "text", "content": "…"}]}`.

What instrumentations put into the attributes `gen_ai.input.messages` and `gen_ai.output.messages`. Our own additions,
which others ignore, stand in a part's `palaver`; data is a text without words that has some. A part that we do not
know, and a tool that the provider ran itself, is kept in a data part `gen-ai:<type>`, and written back as it was.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, assert_never

import msgspec

from palaver.core.dialects import chat_completions
from palaver.core.dialects.pieces import (
    UNKNOWN_MEDIA,
    Object,
    argument_text,
    compact,
    content_of,
    given,
    kept,
    listed,
    mapping,
    string,
)
from palaver.core.dialects.roles import ROLES, role_of
from palaver.core.dialects.usual import gen_ai as usual
from palaver.core.elements import actor
from palaver.core.messages import Message
from palaver.core.parts import Annotation, Data, File, Part, Reasoning, Refusal, Text, ToolCall, ToolResult
from palaver.core.recognition import dialect_of

LOSSES: Sequence[str] = (
    "ids and metadata of messages; one that says nothing gets an empty text",
    "results inside a message that is not a tool's become tool messages, and split it",
    "a call without an id gets one; a result without an id answers the first such call that has none yet",
    "a second call of the same id in one message",
    "a result that is a list of nothing but text parts becomes their text",
    "all but one of a file's places; one that has none becomes empty, a `data:` URL what it holds",
)

_RAW = "gen-ai:"


def shapes(elements: list[Any]) -> list[Any]:
    """Text, reasoning, calls, results and files as instrumentations record them."""
    return usual.shapes(elements)


def read(elements: Sequence[Any], start: int = 0, shapes: Sequence[Any] = ()) -> list[Message]:
    """One message per element, and one for every result that does not stand in a tool's."""
    if {*map(type, shapes)} == {Message}:
        return list(shapes)
    unnamed: deque[str] = deque()
    return usual.read(
        shapes or [None] * len(elements),
        start,
        unnamed,
        lambda place: usual.whole(_message(mapping(elements[place]), start + place), start + place, unnamed),
    )


def write(messages: Sequence[Message]) -> list[Any]:
    """Messages as an instrumentation records them."""
    return [_written(piece) for message in messages for piece in usual.apart(message)]


# Reading, the long way


def _message(element: Object, index: int) -> Message:
    """As it stands: some calls may have no id yet."""
    written, name = element.get("role"), None
    role = ROLES.get(written) if type(written) is str else None
    answered = string(element.get("tool_call_id"))
    if role is None:
        role, name = role_of(actor(element) or "", answers_a_call=answered is not None)
    own_name, own_id = element.get("name"), element.get("id")
    parts = [_part(item) for item in listed(content_of(element))]
    if role == "tool" and answered is not None and not any(type(part) is ToolResult for part in parts):
        parts = [ToolResult(answered, _told(parts, element))]
    parts += chat_completions.calls_beside(element, index)
    return Message(
        role,
        tuple(parts),
        own_id if isinstance(own_id, str) else None,
        own_name if isinstance(own_name, str) else name,
    )


def _told(parts: list[Part], element: Object) -> Any:
    """What a tool answered: its text, if it is nothing else."""
    texts = [part.text for part in parts if type(part) is Text]
    return "".join(texts) if len(texts) == len(parts) else kept(content_of(element))


def _part(item: Any) -> Part:
    return _known(item) or Data(f"{_RAW}{string(mapping(item).get('type')) or 'part'}", kept(item))


def _known(item: Any) -> Part | None:
    """None for a part that we do not know, or that is not as it should be."""
    said = usual.words(item)
    if said is not None:
        return _text(said, _ours(item))
    part = mapping(item)
    kind = part.get("type")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    return reader(part) if reader is not None else None


def _reasoning(part: Object) -> Reasoning | None:
    for key in ("content", "text", "thinking"):
        if isinstance(thought := part.get(key), str):
            return Reasoning(thought, string(_ours(part).get("encrypted")))
    return None


def _call(part: Object) -> ToolCall | None:
    name = part.get("name")
    if not isinstance(name, str):
        return None
    return ToolCall(string(part.get("id")) or "", name, argument_text(part.get("arguments")))


def _result(part: Object) -> ToolResult:
    output = usual.output(part.get("response"), part.get("result"))
    return ToolResult(string(part.get("id")) or "", output, _ours(part).get("is_error") is True)


def _blob(part: Object) -> File | None:
    data = part.get("content")
    return File(_media_type(part) or UNKNOWN_MEDIA, data=data, **_about(part)) if isinstance(data, str) else None


def _uri(part: Object) -> File | None:
    uri = part.get("uri")
    return usual.file_of(uri, _media_type(part), **_about(part)) if isinstance(uri, str) else None


def _stored(part: Object) -> File | None:
    file_id = part.get("file_id")
    return (
        File(_media_type(part) or UNKNOWN_MEDIA, file_id=file_id, **_about(part)) if isinstance(file_id, str) else None
    )


_READERS: Mapping[str, Callable[[Object], Part | None]] = {
    "reasoning": _reasoning,
    "thinking": _reasoning,
    "tool_call": _call,
    "tool_call_response": _result,
    "blob": _blob,
    "uri": _uri,
    "file": _stored,
}


def _ours(part: Any) -> Object:
    return mapping(mapping(part).get("palaver"))


def _text(words: str, ours: Object) -> Text | Refusal | Data:
    if not ours:
        return Text(words)
    data = mapping(ours.get("data"))
    name = data.get("name")
    if isinstance(name, str) and not words:
        return Data(name, kept(data.get("value")))
    if ours.get("refusal") is True:
        return Refusal(words)
    return Text(words, _annotations(ours["annotations"]) if "annotations" in ours else ())


def _annotations(notes: Any) -> tuple[Annotation, ...]:
    try:
        return msgspec.convert(notes, tuple[Annotation, ...])
    except (msgspec.ValidationError, UnicodeError):
        return ()


def _media_type(part: Object) -> str | None:
    return usual.media_type(part.get("mime_type"), part.get("modality"))


def _about(part: Object) -> dict[str, str | None]:
    ours = _ours(part)
    return {key: string(ours.get(key)) for key in ("filename", "detail")}


# Writing


def _written(message: Message) -> dict[str, Any]:
    element = {"role": message.role, **given(name=message.name)}
    said = message.parts or (Text(text=""),)
    raws = [_raw(part) for part in said]
    written = {**element, "parts": [raw or _written_part(part) for raw, part in zip(raws, said, strict=True)]}
    if any(raws) and dialect_of(written) != "gen-ai":  # Foreign parts alone would be taken for somebody else's.
        written["parts"] = [_written_part(part) for part in said]
    return written


def _raw(part: Part) -> dict[str, Any] | None:
    """A part that we did not know, as it was; not where its value would be read as what nobody said."""
    match part:
        case Data(name=name, value={"type": str(kind)}) if kind and name == _RAW + kind:
            return part.value if _known(part.value) is None else None
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
    told = {"modality": kind if kind in usual.MODALITIES else "document", "mime_type": file.media_type}
    kept = _kept(filename=file.filename, detail=file.detail)
    if file.url is not None:
        return {"type": "uri", **told, "uri": file.url, **kept}
    if file.file_id is not None and file.data is None:
        return {"type": "file", **told, "file_id": file.file_id, **kept}
    return {"type": "blob", **told, "content": file.data or "", **kept}
