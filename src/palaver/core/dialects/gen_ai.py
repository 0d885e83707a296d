"""OpenTelemetry's gen_ai messages: `{"role": "user", "parts": [{"type": "text", "content": "…"}]}`.

Instrumentations put them into the attributes `gen_ai.input.messages` and `gen_ai.output.messages`. Palaver extensions,
which other clients ignore, are under a part's `palaver`; a data part is an empty text with an extension. Unknown parts
and server-side tools are kept in a data part `gen-ai:<type>` and written back unchanged.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, assert_never, cast

import msgspec

from palaver.core.dialects import chat_completions
from palaver.core.dialects.detection import content_of, dialect_of, read_role
from palaver.core.json import (
    Object,
    argument_text,
    as_list,
    dict_or_empty,
    ensure_json,
    json_text,
    optional_str,
    without_none,
)
from palaver.core.messages import (
    ROLE_ALIASES,
    UNKNOWN_MEDIA_TYPE,
    Data,
    File,
    Message,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    file_from_url,
    join_texts_or_json,
    read_annotations,
    split_results,
)

LOSSES: Sequence[str] = (
    "Messages lose their ids and metadata.",
    "An empty message gets an empty text part.",
    "Tool results outside tool messages become separate tool messages.",
    "A call without an id gets one.",
    "A tool result without an id answers the first call without an id that has no result yet.",
    "Of several calls with the same id in one message, only the first is kept.",
    "A tool result that is a list of text parts becomes their joined text.",
    "A file with several locations (id, URL, content) keeps only one.",
    "A file without a location gets empty content.",
    "A `data:` URL becomes inline content.",
)

_RAW = "gen-ai:"
_TEXT_TYPES = ("text", "input_text", "output_text")
_DICT, _LIST = (dict,), (list,)
_MODALITIES = ("image", "audio", "video")
"""Modalities that are the first half of a media type."""


def read(elements: Sequence[Any], start: int = 0) -> list[Message]:
    """Return one message per element, and one for every result outside a tool message."""
    unanswered_call_ids: deque[str] = deque()
    messages: list[Message] = []
    for index, element in enumerate(elements, start):
        fields = dict_or_empty(element)
        message = _read_plain_text(fields)
        if message is not None:
            messages.append(message)
        else:
            messages += _assign_call_ids(_read_message(fields, index), index, unanswered_call_ids)
    return messages


def write(messages: Sequence[Message]) -> list[Any]:
    """Return messages as an instrumentation records them."""
    return [_write_message(piece) for message in messages for piece in split_results(message)]


# Reading


def _read_plain_text(element: Object) -> Message | None:
    """Return the message of an element that is one text part, as most are; None for any other."""
    parts: Any = element.get("parts")
    role = element.get("role")
    if (
        type(parts) not in _LIST
        or type(role) is not str
        or len(parts) != 1
        or len(element) != (3 if "finish_reason" in element else 2)
        or type(part := parts[0]) not in _DICT
        or len(part) != 2
        or part.get("type") != "text"
        or type(text := part.get("content")) is not str
        or role not in ROLE_ALIASES
    ):
        return None
    return Message(ROLE_ALIASES[role], (Text(text),))


def _read_message(element: Object, index: int) -> Message:
    """Read one element; calls may have no id yet."""
    call_id = optional_str(element.get("tool_call_id"))
    role, name = read_role(element, answers_a_call=call_id is not None)
    element_name, element_id = element.get("name"), element.get("id")
    content = content_of(element)
    parts = [_read_part(item) for item in as_list(content)]
    if role == "tool" and call_id is not None and not any(type(part) is ToolResult for part in parts):
        parts = [ToolResult(call_id, join_texts_or_json(parts, content))]
    parts += chat_completions.read_tool_calls(element, index)
    return Message(
        role,
        tuple(parts),
        element_id if isinstance(element_id, str) else None,
        element_name if isinstance(element_name, str) else name,
    )


def _read_part(item: Any) -> Part:
    return _read_known_part(item) or Data(
        f"{_RAW}{optional_str(dict_or_empty(item).get('type')) or 'part'}", ensure_json(item)
    )


def _read_known_part(item: Any) -> Part | None:
    """Read a part of a known type; None for an unknown or malformed one."""
    text = _text_of(item)
    if text is not None:
        return _make_text(text, _extension(item))
    part = dict_or_empty(item)
    kind = part.get("type")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    return reader(part) if reader is not None else None


def _read_reasoning(part: Object) -> Reasoning | None:
    for key in ("content", "text", "thinking"):
        if isinstance(thought := part.get(key), str):
            return Reasoning(thought, optional_str(_extension(part).get("encrypted")))
    return None


def _read_call(part: Object) -> ToolCall | None:
    name = part.get("name")
    if not isinstance(name, str):
        return None
    return ToolCall(optional_str(part.get("id")) or "", name, argument_text(part.get("arguments")))


def _read_result(part: Object) -> ToolResult:
    output = _read_output(part.get("response"), part.get("result"))
    return ToolResult(optional_str(part.get("id")) or "", output, _extension(part).get("is_error") is True)


def _read_blob(part: Object) -> File | None:
    data = part.get("content")
    return File(_media_type(part) or UNKNOWN_MEDIA_TYPE, data=data, **_details(part)) if isinstance(data, str) else None


def _read_uri(part: Object) -> File | None:
    uri = part.get("uri")
    if not isinstance(uri, str):
        return None
    return file_from_url(uri, UNKNOWN_MEDIA_TYPE, media_type=_media_type(part), **_details(part))


def _read_stored_file(part: Object) -> File | None:
    file_id = part.get("file_id")
    return (
        File(_media_type(part) or UNKNOWN_MEDIA_TYPE, file_id=file_id, **_details(part))
        if isinstance(file_id, str)
        else None
    )


_READERS: Mapping[str, Callable[[Object], Part | None]] = {
    "reasoning": _read_reasoning,
    "thinking": _read_reasoning,
    "tool_call": _read_call,
    "tool_call_response": _read_result,
    "blob": _read_blob,
    "uri": _read_uri,
    "file": _read_stored_file,
}


def _extension(part: Any) -> Object:
    return dict_or_empty(dict_or_empty(part).get("palaver"))


def _make_text(text: str, extension: Object) -> Text | Refusal | Data:
    if not extension:
        return Text(text)
    data = dict_or_empty(extension.get("data"))
    name = data.get("name")
    if isinstance(name, str) and not text:
        return Data(name, ensure_json(data.get("value")))
    if extension.get("refusal") is True:
        return Refusal(text)
    return Text(text, read_annotations(extension["annotations"]) if "annotations" in extension else ())


def _media_type(part: Object) -> str | None:
    media_type, modality = part.get("mime_type"), part.get("modality")
    if media_type and isinstance(media_type, str):
        return media_type
    return f"{modality}/*" if modality in _MODALITIES else None


def _details(part: Object) -> dict[str, str | None]:
    extension = _extension(part)
    return {key: optional_str(extension.get(key)) for key in ("filename", "detail")}


def _assign_call_ids(message: Message, index: int, unanswered_call_ids: deque[str]) -> Iterable[Message]:
    """Give ids to calls, drop duplicates and split off results.

    `unanswered_call_ids` holds generated ids of calls, matched in order with results that have no id.
    """
    parts: list[Part] = []
    call_ids: set[str] = set()
    has_results = False
    for position, part in enumerate(message.parts):
        if type(part) is ToolCall:
            if not part.call_id:
                part = ToolCall(f"call_{index}_{position}", part.name, part.arguments)
                unanswered_call_ids.append(part.call_id)
            if part.call_id in call_ids:
                continue
            call_ids.add(part.call_id)
        elif type(part) is ToolResult:
            has_results = True
            if unanswered_call_ids and not part.call_id:
                part = ToolResult(unanswered_call_ids.popleft(), part.output, part.is_error)
        parts.append(part)
    if not call_ids and not has_results:
        return (message,)  # The most common case.
    with_call_ids = Message(message.role, tuple(parts), message.id, message.name)
    return split_results(with_call_ids) if has_results and message.role != "tool" else (with_call_ids,)


def _text_of(item: Any) -> str | None:
    if not isinstance(item, dict):
        return item if isinstance(item, str) else None
    part = cast("dict[str, Any]", item)
    content, text = part.get("content"), part.get("text")
    if "type" not in part:
        content = text
    elif part["type"] not in _TEXT_TYPES:
        return None
    elif not isinstance(content, str):
        content = text
    return content if isinstance(content, str) else None


def _read_output(response: Any, result: Any) -> Any:
    """Return a tool's output from `response` or `result`; a list of only texts is joined."""
    value = result if response is None else response
    if value and isinstance(value, list):
        items = cast("list[Any]", value)
        texts = [text for item in items if isinstance(item, dict) and (text := _text_of(item)) is not None]
        if len(texts) == len(items):
            return "".join(texts)
    return ensure_json(value)


# Writing


def _write_message(message: Message) -> dict[str, Any]:
    element = {"role": message.role, **without_none(name=message.name)}
    parts = message.parts or (Text(text=""),)
    raw_values = [_raw_value(part) for part in parts]
    encoded = {**element, "parts": [raw or _write_part(part) for raw, part in zip(raw_values, parts, strict=True)]}
    if any(raw_values) and dialect_of(encoded) != "gen-ai":  # Raw parts alone would be detected as another dialect.
        encoded["parts"] = [_write_part(part) for part in parts]
    return encoded


def _raw_value(part: Part) -> dict[str, Any] | None:
    """Return the raw value of an unknown part, unless it would be read as something else."""
    match part:
        case Data(name=name, value={"type": str(kind)}) if kind and name == _RAW + kind:
            return part.value if _read_known_part(part.value) is None else None
        case _:
            return None


def _write_part(part: Part) -> dict[str, Any]:
    match part:
        case Text(text=text, annotations=notes):
            return {
                "type": "text",
                "content": text,
                **_palaver_fields(annotations=msgspec.to_builtins(list(notes)) or None),
            }
        case Reasoning(text=text, encrypted=encrypted):
            return {"type": "reasoning", "content": text, **_palaver_fields(encrypted=encrypted)}
        case Refusal(text=text):
            return {"type": "text", "content": text, **_palaver_fields(refusal=True)}
        case Data(name=name, value=value):
            return {"type": "text", "content": "", **_palaver_fields(data={"name": name, "value": value})}
        case ToolCall(call_id=call_id, name=name):
            return {"type": "tool_call", "id": call_id or None, "name": name, "arguments": _write_arguments(part)}
        case ToolResult(call_id=call_id, output=output, is_error=failed):
            result = {"type": "tool_call_response", "id": call_id or None, "response": output}
            return {**result, **_palaver_fields(is_error=failed or None)}
        case File():
            return _write_file(part)
        case _:
            assert_never(part)


def _palaver_fields(**fields: Any) -> dict[str, Any]:
    values = without_none(**fields)
    return {"palaver": values} if values else {}


def _write_arguments(call: ToolCall) -> Any:
    """Return arguments as an object if that round-trips, else as text."""
    value = call.parsed
    return dict_or_empty(value) if isinstance(value, dict) and json_text(value) == call.arguments else call.arguments


def _write_file(file: File) -> dict[str, Any]:
    kind = file.media_type.partition("/")[0]
    fields = {"modality": kind if kind in _MODALITIES else "document", "mime_type": file.media_type}
    extension = _palaver_fields(filename=file.filename, detail=file.detail)
    if file.url is not None:
        return {"type": "uri", **fields, "uri": file.url, **extension}
    if file.file_id is not None and file.data is None:
        return {"type": "file", **fields, "file_id": file.file_id, **extension}
    return {"type": "blob", **fields, "content": file.data or "", **extension}
