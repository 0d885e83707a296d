"""What a message of Responses holds: text, refusals, files and annotations, read and written.

The items around it are responses.py's.
"""

from collections.abc import Callable
from typing import Any

from palaver.core import jsons
from palaver.core.dialects.pieces import (
    UNKNOWN_MEDIA,
    Object,
    address,
    file_at,
    given,
    integer,
    kept,
    listed,
    mapping,
    string,
)
from palaver.core.parts import Annotation, Data, File, Part, Reasoning, Refusal, Text

RAW = "responses:"
"""What the names of data parts begin with that hold a thing of this dialect as it came."""

_TEXTS = ("text", "input_text", "output_text", "reasoning")


def read(content: Any) -> tuple[Part, ...]:
    """The parts of a message's content, be it a string or a list; one that we do not know is kept raw."""
    if type(content) is str:
        return (Text(content),) if content else ()
    return tuple([part for item in listed(content) if (part := _part(item)) is not None])


def said(part: Part) -> dict[str, Any] | None:
    """A piece of the assistant's content."""
    match part:
        case Text(text=text, annotations=notes) if text:
            written = [annotation(note, text) for note in notes if note.kind != "url" or note.url is not None]
            return {"type": "output_text", "text": text, "annotations": written}
        case Refusal(text=text):
            return {"type": "refusal", "refusal": text}
        case _:
            return None


def asked(part: Part) -> dict[str, Any] | None:
    """A piece of anybody else's content."""
    match part:
        case Text(text=text) if text:
            return {"type": "input_text", "text": text}
        case File():
            return _file(part)
        case Data(value=dict(value)) if is_itself(part, _part):  # pyright: ignore[reportUnknownVariableType]  # JSON
            return value  # pyright: ignore[reportUnknownVariableType]  # JSON
        case _:
            return None


def is_itself(part: Data, read: Callable[[Any], object]) -> bool:
    """Would the part's raw value be read as this very part, and not as a call, say, that nobody made?"""
    try:
        read_back = read(part.value)
    except jsons.NotJson:
        return False
    return isinstance(read_back, Data) and read_back.name == part.name and read_back.value is part.value


# Reading


def _part(item: Any) -> Part | None:
    fields = mapping(item)
    kind, text = string(fields.get("type")), string(fields.get("text"))
    if not fields:
        text = string(item)
    elif text is None and kind in _TEXTS:
        text = string(fields.get("content"))  # OpenTelemetry's parts have it there.
    if text is not None:
        return _told(text, kind, fields) if text else None
    match kind:
        case "refusal":
            part = _refused(fields)
        case "input_image" | "image_url":
            part = _image(fields, kind)
        case "input_file":
            named = [string(fields.get(name)) for name in ("file_data", "file_url", "file_id", "filename")]
            part = attached(*named)
        case "input_audio":
            part = _sound(fields)
        case _:
            part = None
    return Data(f"{RAW}{kind or 'part'}", kept(item)) if part is None else part


def _told(text: str, kind: str | None, item: Object) -> Text | Reasoning:
    """Words, or thoughts, which are nobody's words yet."""
    if kind == "reasoning":
        return Reasoning(text)
    notes = item.get("annotations")
    return Text(text, _notes(notes)) if notes is not None else Text(text)


def _refused(item: Object) -> Refusal | None:
    text = string(item.get("refusal"))
    return None if text is None else Refusal(text)


def _image(item: Object, kind: str) -> File | None:
    """By its address, which may be an object and have the detail in it; or by its id."""
    inside = mapping(item.get("image_url"))
    url, file_id = string(inside.get("url") if inside else item.get("image_url")), string(item.get("file_id"))
    detail = string(item.get("detail")) or string(inside.get("detail"))
    if url is not None:
        return file_at(url, "image/*", detail=detail)
    return File("image/*", file_id=file_id, detail=detail) if file_id is not None and kind == "input_image" else None


def _sound(item: Object) -> File | None:
    for fields in (mapping(item.get("input_audio")), item):
        data, form = string(fields.get("data")), string(fields.get("format"))
        if data is not None and form is not None:
            return File(f"audio/{form}", data=data)
    return None


def attached(data: str | None, url: str | None, file_id: str | None, filename: str | None) -> File:
    """A document, by the first of its places."""
    if data is not None:
        if data.startswith("data:"):
            return file_at(data, UNKNOWN_MEDIA, filename=filename)
        return File(UNKNOWN_MEDIA, data=data, filename=filename)
    if url is not None:
        return file_at(url, UNKNOWN_MEDIA, filename=filename)
    return File(UNKNOWN_MEDIA, file_id=file_id, filename=filename)


def _notes(notes: Any) -> tuple[Annotation, ...]:
    return tuple([note for found in listed(notes) if (note := _noted(mapping(found))) is not None])


def _noted(note: Object) -> Annotation | None:
    title = string(note.get("title")) or string(note.get("filename")) or None
    start, end = integer(note.get("start_index", note.get("index"))), integer(note.get("end_index"))
    match string(note.get("type")):
        case "url_citation" if (url := string(note.get("url"))) is not None:
            return Annotation("url", title, url, None, start, end)
        case "file_citation" | "container_file_citation" | "file_path" if (
            file_id := string(note.get("file_id"))
        ) is not None:
            return Annotation("file", title, None, file_id or None, start, end)
        case "palaver:span":
            return Annotation("span", title, None, None, start, end)
        case _:
            return None


# Writing


def _file(file: File) -> dict[str, Any]:
    kind, _, form = file.media_type.partition("/")
    if kind == "audio" and file.data:
        return {"type": "input_audio", "input_audio": {"data": file.data, "format": form}}
    if kind == "image":
        place = given(file_id=file.file_id) or {"image_url": address(file)}
        return {"type": "input_image", **place, **given(detail=file.detail)}
    place = given(file_id=file.file_id) or given(file_url=file.url) or {"file_data": address(file)}
    return {"type": "input_file", **place, **given(filename=file.filename)}


def annotation(note: Annotation, text: str) -> dict[str, Any]:
    """A note on that text; clients insist on every field, so what is unknown is `""`, 0 or the text's length."""
    title, start = note.title or "", note.start or 0
    end = len(text) if note.end is None else note.end
    match note.kind:
        case "url":
            named = {"type": "url_citation", "url": note.url or "", "title": title}
            return {**named, "start_index": start, "end_index": end}
        case "file":
            return {"type": "file_citation", "file_id": note.file_id or "", "filename": title, "index": start}
        case "span":
            return {"type": "palaver:span", "title": title, "start_index": start, "end_index": end}
