"""What a message of Responses holds: text, refusals, files and annotations, read and written.

The items around it are responses.py's.
"""

from typing import Any

from palaver.core.dialects.pieces import (
    UNKNOWN_MEDIA,
    Object,
    address,
    file_at,
    given,
    integer,
    listed,
    mapping,
    string,
)
from palaver.core.parts import Annotation, Data, File, Part, Refusal, Text

RAW = "responses:"
"""What the names of data parts begin with that hold a thing of this dialect as it came."""


def read(content: Any) -> tuple[Part, ...]:
    """The parts of a message's content, be it a string or a list; one that we do not know is kept raw."""
    return tuple(part for item in listed(content) if (part := _part(item)) is not None)


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
        case Data(value=dict(value)) if is_itself(part, _part(value)):  # pyright: ignore[reportUnknownVariableType]  # JSON
            return value  # pyright: ignore[reportUnknownVariableType]  # JSON
        case _:
            return None


def is_itself(part: Data, read_back: Part | None) -> bool:
    """Would the part's raw value be read as this very part, and not as a call, say, that nobody made?"""
    return isinstance(read_back, Data) and read_back.name == part.name and read_back.value is part.value


# Reading


def _part(item: Any) -> Part | None:
    match item:
        case str(text):
            return Text(text=text) if text else None
        case {"text": str(text)}:
            notes = (_noted(note) for note in listed(mapping(item).get("annotations")))
            return Text(text=text, annotations=tuple(note for note in notes if note is not None)) if text else None
        case {"type": "refusal", "refusal": str(text)}:
            return Refusal(text=text)
        case {"type": "input_image" | "image_url", "image_url": str(url) | {"url": str(url)}}:
            return file_at(url, "image/*", detail=_detail(item))
        case {"type": "input_image", "file_id": str(file_id)}:
            return File(media_type="image/*", file_id=file_id, detail=_detail(item))
        case {"type": "input_file"}:
            return _attached(mapping(item))
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(form)}}:
            return File(media_type=f"audio/{form}", data=data)
        case {"type": "input_audio", "data": str(data), "format": str(form)}:
            return File(media_type=f"audio/{form}", data=data)
        case _:
            return Data(name=f"{RAW}{string(mapping(item).get('type')) or 'part'}", value=item)


def _detail(item: Any) -> str | None:
    """Beside the URL, or inside with it."""
    fields = mapping(item)
    return string(fields.get("detail")) or string(mapping(fields.get("image_url")).get("detail"))


def _attached(item: Object) -> File:
    data, url, filename = item.get("file_data"), item.get("file_url"), string(item.get("filename"))
    if isinstance(data, str):
        if data.startswith("data:"):
            return file_at(data, UNKNOWN_MEDIA, filename=filename)
        return File(media_type=UNKNOWN_MEDIA, data=data, filename=filename)
    if isinstance(url, str):
        return file_at(url, UNKNOWN_MEDIA, filename=filename)
    return File(media_type=UNKNOWN_MEDIA, file_id=string(item.get("file_id")), filename=filename)


def _noted(note: Any) -> Annotation | None:
    fields = mapping(note)
    title = string(fields.get("title")) or string(fields.get("filename")) or None
    start, end = integer(fields.get("start_index", fields.get("index"))), integer(fields.get("end_index"))
    match note:
        case {"type": "url_citation", "url": str(url)}:
            return Annotation(kind="url", url=url, title=title, start=start, end=end)
        case {"type": "file_citation" | "container_file_citation" | "file_path", "file_id": str(file_id)}:
            return Annotation(kind="file", file_id=file_id or None, title=title, start=start, end=end)
        case {"type": "palaver:span"}:
            return Annotation(kind="span", title=title, start=start, end=end)
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
