"""What several dialects share: where a message says something, files and their addresses, values as text."""

from collections.abc import Mapping
from typing import Any, cast

from palaver.core import jsons
from palaver.core.parts import File

Object = Mapping[str, Any]

UNKNOWN_MEDIA = "application/octet-stream"


def content_of(element: Object) -> Any:
    """What was said, wherever it stands: parts that are not empty, else the first of several names."""
    parts = element.get("parts")
    if isinstance(parts, list) and parts:
        return cast("list[Any]", parts)
    for key in ("content", "text", "message"):
        if element.get(key) is not None:
            return element[key]
    return mapping(element.get("delta")).get("content")


def file_at(url: str, media_type: str, *, filename: str | None = None, detail: str | None = None) -> File:
    """A file by its URL; a `data:` URL in base64 is taken apart."""
    head, comma, data = url.partition(",")
    if head.startswith("data:") and head.endswith(";base64") and comma:
        media_type = head.removeprefix("data:").removesuffix(";base64") or media_type
        return File(media_type=media_type, data=data, filename=filename, detail=detail)
    return File(media_type=media_type, url=url, filename=filename, detail=detail)


def address(file: File) -> str:
    """Its URL, or its content as one."""
    return file.url if file.url is not None else f"data:{file.media_type};base64,{file.data or ''}"


def compact(value: Any) -> str:
    """The value as compact JSON text; NotJson where it has none."""
    return jsons.encode(jsons.plain(value)).decode()


def argument_text(value: Any) -> str:
    """A call's arguments: text stays as it is, nothing is no text, a value becomes its JSON."""
    return value if isinstance(value, str) else "" if value is None else compact(value)


def result_text(value: Any) -> str:
    """A result for those who take only text."""
    return value if isinstance(value, str) else compact(value)


def string(value: Any) -> str | None:
    """The value, if it is text."""
    return value if isinstance(value, str) else None


def integer(value: Any) -> int | None:
    """The value, if it is a whole number."""
    return value if type(value) is int else None


def mapping(value: Any) -> Object:
    """The value, if it is an object; else an empty one."""
    return cast("Object", value) if isinstance(value, dict) else {}


def listed(value: Any) -> list[Any]:
    """The value, if it is a list; one value as a list of it; nothing as an empty one."""
    if isinstance(value, list):
        return cast("list[Any]", value)
    return [] if value is None else [value]


def given(**fields: Any) -> dict[str, Any]:
    """The fields that are known."""
    return {key: value for key, value in fields.items() if value is not None}
