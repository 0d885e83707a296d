"""What a LangChain message holds: a string, or blocks as a dozen vendors have them. All are read, the standard written.

The messages around it are langchain.py's.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from palaver.core.dialects.pieces import (
    UNKNOWN_MEDIA,
    Object,
    argument_text,
    file_at,
    given,
    integer,
    listed,
    mapping,
    string,
)
from palaver.core.parts import Annotation, Data, File, Part, Reasoning, Refusal, Text, ToolCall

_FILES = frozenset("image image_url input_image file input_file audio input_audio video document".split())
_CALLS = frozenset("tool_use tool_call function_call".split())
_PIECES = frozenset("input_json_delta tool_call_chunk".split())


def read(content: Any, calls: Mapping[str, ToolCall]) -> list[Part]:
    """The parts of it; a block that stands for one of the calls is that call."""
    parts: list[Part] = []
    placed: set[str] = set()
    for block in listed(content):
        part = _part(block, calls)
        if isinstance(part, ToolCall):
            if part.call_id in placed:
                continue
            placed.add(part.call_id)
        if part is not None:
            parts.append(part)
    return parts


def write(parts: Sequence[Part]) -> str | list[dict[str, Any]]:
    """One string, or a list of blocks as soon as there is a file."""
    blocks: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, File):
            blocks.append(_written_file(part))
        elif isinstance(part, Text | Refusal) and part.text:
            if blocks and blocks[-1]["type"] == "text":
                blocks[-1] = {"type": "text", "text": blocks[-1]["text"] + part.text}
            else:
                blocks.append({"type": "text", "text": part.text})
    if all(block["type"] == "text" for block in blocks):
        return blocks[0]["text"] if blocks else ""
    return blocks


# Reading


def _part(block: Any, calls: Mapping[str, ToolCall]) -> Part | None:
    if isinstance(block, str):
        return Text(text=block) if block else None
    fields = mapping(block)
    kind = string(fields.get("type")) or ""
    text = string(fields.get("text"))
    if text is not None and kind in ("", "text", "output_text", "input_text"):
        return Text(text=text, annotations=_annotations(fields)) if text else None
    if kind in _FILES:
        file = _file(fields, kind.removeprefix("input_").removesuffix("_url"))
        return file or Data(name=f"langchain:{kind}", value=block)
    if kind in _CALLS:
        return _call(fields, calls)
    if kind in _PIECES:
        return None
    reasoning = _reasoning(block)
    if reasoning is not None:
        return reasoning if reasoning.text or reasoning.encrypted else None
    match block:
        case {"type": "refusal", "refusal": str(refused)}:
            return Refusal(text=refused)
        case _:
            return Data(name=f"langchain:{kind or 'part'}", value=block)


def _call(block: Object, calls: Mapping[str, ToolCall]) -> ToolCall | None:
    """The call whose place this marks; one that stands nowhere else is read from the block itself."""
    call_id = string(block.get("call_id")) or string(block.get("id"))
    if call_id is None or call_id in calls:
        return calls.get(call_id or "")
    arguments = next((block[key] for key in ("input", "args", "arguments") if block.get(key) is not None), None)
    return ToolCall(call_id=call_id, name=string(block.get("name")) or "unknown", arguments=argument_text(arguments))


def _reasoning(block: Any) -> Reasoning | None:
    """Anthropic's, OpenAI's, Bedrock's and LangChain's own."""
    fields = mapping(block)
    encrypted = string(fields.get("signature")) or string(fields.get("encrypted_content"))
    encrypted = encrypted or string(mapping(fields.get("extras")).get("signature"))
    match block:
        case {"type": "thinking", "thinking": str(text)}:
            return Reasoning(text=text, encrypted=encrypted)
        case {"type": "redacted_thinking", "data": str(data)}:
            return Reasoning(text="", encrypted=data)
        case {"type": "reasoning", "reasoning": str(text)} | {"type": "reasoning", "text": str(text)}:
            return Reasoning(text=text, encrypted=encrypted)
        case {"type": "reasoning", "summary": [*pieces]}:
            texts = (string(mapping(piece).get("text")) for piece in pieces)
            return Reasoning(text="\n\n".join(text for text in texts if text), encrypted=encrypted)
        case {"type": "reasoning_content", "reasoning_content": str(text) | {"text": str(text)} as inner}:
            return Reasoning(text=text, encrypted=string(mapping(inner).get("signature")) or encrypted)
        case {"type": "reasoning"}:
            return Reasoning(text="", encrypted=encrypted)
        case _:
            return None


def _file(block: Object, kind: str) -> File | None:
    """A file by its address, its content or its id, in the standard block or in a vendor's; None if it has none."""
    places = (mapping(block.get(key)) for key in (kind, "source", "image_url", "input_audio"))
    inner: Object = next(filter(None, places), mapping(None))
    if inner.get("type") == "text":
        return None  # What it holds is no base64.
    extras = mapping(block.get("extras")) or mapping(block.get("metadata"))

    def told(*keys: str) -> str | None:
        found = (string(place.get(key)) for place in (block, inner, extras) for key in keys)
        return next((value for value in found if value is not None), None)

    general = UNKNOWN_MEDIA if kind in ("file", "document") else f"{kind}/{told('format') or '*'}"
    file = File(
        media_type=told("mime_type", "media_type") or general,
        file_id=string(block.get("id")) if block.get("source_type") == "id" else told("file_id"),
        filename=told("filename"),
        detail=told("detail"),
    )
    data, url = told("base64", "data", "file_data"), told("image_url", "url", "file_url")
    if data is not None and not data.startswith("data:"):
        return msgspec.structs.replace(file, data=data, file_id=None)
    place = url if data is None else data
    if place is not None:
        return file_at(place, file.media_type, filename=file.filename, detail=file.detail)
    return file if file.file_id is not None else None


def _annotations(block: Object) -> tuple[Annotation, ...]:
    found = listed(block.get("annotations")) or listed(block.get("citations"))
    return tuple(note for item in found if (note := _noted(mapping(item))) is not None)


def _noted(note: Object) -> Annotation | None:
    title = string(note.get("title")) or string(note.get("document_title")) or string(note.get("filename"))
    start = integer(note.get("start_index", note.get("start_char_index", note.get("index"))))
    end = integer(note.get("end_index", note.get("end_char_index")))
    url, file_id = string(note.get("url")), string(note.get("file_id"))
    if url is not None:
        return Annotation(kind="url", url=url, title=title, start=start, end=end)
    if file_id is not None or "document_index" in note:
        return Annotation(kind="file", file_id=file_id, title=title, start=start, end=end)
    return Annotation(kind="span", title=title, start=start, end=end) if start is not None else None


# Writing


def _written_file(file: File) -> dict[str, Any]:
    kind = file.media_type.partition("/")[0]
    block = {"type": kind if kind in ("image", "audio") else "file", "mime_type": file.media_type}
    place = given(url=file.url) or given(file_id=file.file_id if file.data is None else None)
    extras = {"extras": {"filename": file.filename}} if file.filename is not None else {}
    return {**block, **(place or {"base64": file.data or ""}), **extras}
