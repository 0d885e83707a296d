"""What services there are, each in a sentence, and a README of each (job-chat, 1.1)."""

import re
from collections.abc import Mapping
from typing import Any, cast

from palaver.core.descriptions import Description

_SENTENCE = re.compile(r"(.+?[.!?])(?:\s+(?![a-z])|$)", re.DOTALL)  # "e.g. this" goes on.
_HEADING = re.compile(r"^#.*$|^[^\n]+\n(?:=+|-+)[ \t]*$", re.MULTILINE)


def entry(service: Description, readme: str, version: str) -> dict[str, Any]:
    """One service in the list."""
    return {
        "name": service.name,
        "summary": summary(readme) or summary(service.description),
        "is_chat": service.is_chat,
        "version": version,
    }


def summary(text: str) -> str:
    """The first sentence of a text, of Markdown the first under its headings."""
    paragraphs = (paragraph.strip() for paragraph in re.split(r"\n\s*\n", _HEADING.sub("\n", text)))
    first = " ".join(next(filter(None, paragraphs), "").split())
    found = _SENTENCE.match(first)
    return found[1] if found else first


def readme(service: Description) -> str:
    """A README for a service that brings none: what it says of itself, and what it takes."""
    sections = [f"# {service.name}", service.description, _call(service), _inputs(service.schemas.inputs)]
    return "\n\n".join(filter(None, sections)) + "\n"


def _call(service: Description) -> str:
    payload = '{"content": "…", "history": []}' if service.is_chat else "{…}"
    return f"POST a JSON object to `/services/{service.name}`, as `{payload}`; to `…/stream` for events as they come."


def _inputs(schema: Mapping[str, Any]) -> str:
    properties = cast("Mapping[str, Any]", schema.get("properties") or {})
    required = cast("list[str]", schema.get("required") or [])
    rows = [
        f"| `{name}` | {_type(shape)} | {'yes' if name in required else 'no'} | {_line(shape, 'description')} |"
        for name, shape in properties.items()
        if name != "messages"
    ]
    return "\n".join(["| input | type | required | |", "|---|---|---|---|", *rows]) if rows else ""


def _type(shape: Any) -> str:
    match shape:
        case {"type": str(word)}:
            return word
        case {"anyOf": list()}:
            return " or ".join(_type(one) for one in cast("list[Any]", shape["anyOf"]))
        case _:
            return "any"


def _line(shape: Any, name: str) -> str:
    said = cast("Mapping[str, Any]", shape).get(name) if isinstance(shape, dict) else None
    return " ".join(said.replace("|", "\\|").split()) if isinstance(said, str) else ""
