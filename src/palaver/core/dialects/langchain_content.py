"""What a LangChain message holds: a string, or blocks as a dozen vendors have them. All are read, the standard written.

The messages around it are langchain.py's.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from palaver.core.dialects.pieces import (
    UNKNOWN_MEDIA,
    Object,
    argument_text,
    file_at,
    given,
    integer,
    kept,
    listed,
    mapping,
    string,
)
from palaver.core.parts import Annotation, Data, File, Part, Reasoning, Refusal, Text, ToolCall

_TEXTS = ("text", "", "output_text", "input_text")
_FILES = frozenset("image image_url input_image file input_file audio input_audio video document".split())
_CALLS = frozenset("tool_use tool_call function_call".split())
_PIECES = frozenset("input_json_delta tool_call_chunk".split())
_REASONING = frozenset("thinking redacted_thinking reasoning reasoning_content".split())


def read(content: Any, calls: Mapping[str, ToolCall]) -> list[Part]:
    """The parts of it; a block that stands for one of the calls is that call."""
    if type(content) is str:
        return [Text(content)] if content else []
    parts: list[Part] = []
    placed: set[str] = set()
    for block in listed(content):
        part = _part(block, calls)
        if part is None:
            continue
        if type(part) is ToolCall:
            if part.call_id in placed:
                continue
            placed.add(part.call_id)
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
        return Text(block) if block else None
    fields = mapping(block)
    kind, text = fields.get("type"), fields.get("text")
    kind = kind if isinstance(kind, str) else ""
    if isinstance(text, str) and kind in _TEXTS:
        return Text(text, _annotations(fields) if len(fields) > 2 else ()) if text else None
    if kind in _CALLS:
        return _call(fields, calls)
    if kind in _FILES:
        file = _file(fields, kind.removeprefix("input_").removesuffix("_url"))
        return file or Data(f"langchain:{kind}", kept(block))
    if kind in _PIECES:
        return None
    reasoning = _reasoning(fields, kind) if kind in _REASONING else None
    if reasoning is not None:
        return reasoning if reasoning.text or reasoning.encrypted else None
    refusal = fields.get("refusal")
    if kind == "refusal" and isinstance(refusal, str):
        return Refusal(refusal)
    return Data(f"langchain:{kind or 'part'}", kept(block))


def _call(block: Object, calls: Mapping[str, ToolCall]) -> ToolCall | None:
    """The call whose place this marks; one that stands nowhere else is read from the block itself."""
    call_id = string(block.get("call_id")) or string(block.get("id"))
    if call_id is None or call_id in calls:
        return calls.get(call_id or "")
    arguments = next((block[key] for key in ("input", "args", "arguments") if block.get(key) is not None), None)
    return ToolCall(call_id=call_id, name=string(block.get("name")) or "unknown", arguments=argument_text(arguments))


def _reasoning(block: Object, kind: str) -> Reasoning | None:
    """Anthropic's, OpenAI's, Bedrock's and LangChain's own; None where it is not as theirs."""
    encrypted = string(block.get("signature")) or string(block.get("encrypted_content"))
    encrypted = encrypted or string(mapping(block.get("extras")).get("signature"))
    inner = block.get(kind)
    if kind == "redacted_thinking":
        data = block.get("data")
        return Reasoning("", data) if isinstance(data, str) else None
    if isinstance(inner, str):  # It is named as its type is.
        return Reasoning(inner, encrypted)
    if kind == "thinking":
        return None
    if kind == "reasoning_content":
        told = mapping(inner)
        text = told.get("text")
        return Reasoning(text, string(told.get("signature")) or encrypted) if isinstance(text, str) else None
    text, summary = block.get("text"), block.get("summary")
    if isinstance(text, str):
        return Reasoning(text, encrypted)
    texts = [string(mapping(piece).get("text")) for piece in (listed(summary) if isinstance(summary, list) else ())]
    return Reasoning("\n\n".join([text for text in texts if text]), encrypted)


def _file(block: Object, kind: str) -> File | None:
    """A file by its address, its content or its id, in the standard block or in a vendor's; None if it has none."""
    inner: Object = {}
    for key in (kind, "source", "image_url", "input_audio"):
        inner = inner or mapping(block.get(key))
    if inner.get("type") == "text":
        return None  # What it holds is no base64.
    places = (block, inner, mapping(block.get("extras")) or mapping(block.get("metadata")))
    general = UNKNOWN_MEDIA if kind in ("file", "document") else f"{kind}/{_told(places, 'format') or '*'}"
    media_type = _told(places, "mime_type", "media_type") or general
    filename, detail = _told(places, "filename"), _told(places, "detail")
    data, url = _told(places, "base64", "data", "file_data"), _told(places, "image_url", "url", "file_url")
    if data is not None and not data.startswith("data:"):
        return File(media_type, None, data, None, filename, detail)
    place = url if data is None else data
    if place is not None:
        return file_at(place, media_type, filename=filename, detail=detail)
    file_id = string(block.get("id")) if block.get("source_type") == "id" else _told(places, "file_id")
    return File(media_type, None, None, file_id, filename, detail) if file_id is not None else None


def _told(places: tuple[Object, ...], *keys: str) -> str | None:
    for place in places:
        if place:
            for key in keys:
                if isinstance(value := place.get(key), str):
                    return value
    return None


def _annotations(block: Object) -> tuple[Annotation, ...]:
    found = listed(block.get("annotations")) or listed(block.get("citations"))
    if not found:
        return ()
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
