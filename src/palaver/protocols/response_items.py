"""Items of Responses, as plain JSON: what an answer is made of (contract: responses, 4.3).

Pure builders without any state, for the encoder and for anyone who has messages and wants items.
"""

from collections.abc import Sequence
from typing import Any, cast

from palaver.core import json
from palaver.core.messages import Annotation, Data, File

Item = dict[str, Any]


def message(item: str, text: str, annotations: Sequence[Item] = ()) -> Item:
    """A message of one text."""
    return _message(item, text_part(text, annotations))


def text_part(text: str, annotations: Sequence[Item] = ()) -> Item:
    """The part that holds a text."""
    return {"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": []}


def refused(item: str, text: str) -> Item:
    """A message that declines."""
    return _message(item, {"type": "refusal", "refusal": text})


def reasoning(item: str, text: str, encrypted: str | None = None) -> Item:
    """A model's thinking, as a summary of one part."""
    summary = [{"type": "summary_text", "text": text}]
    told: Item = {"type": "reasoning", "id": item, "status": "completed", "summary": summary}
    return told if encrypted is None else told | {"encrypted_content": encrypted}


def function_call(item: str, call_id: str, name: str, arguments: str) -> Item:
    """A call, with its arguments as they were produced; incomplete where they are not JSON."""
    is_broken = arguments.strip() and not json.is_json(arguments)
    status = "incomplete" if is_broken else "completed"
    return {
        "type": "function_call",
        "id": item,
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        "status": status,
    }


def function_call_output(item: str, call_id: str, output: Any, *, is_error: bool = False) -> Item:
    """What a tool answered, always as text."""
    told: Item = {
        "type": "function_call_output",
        "id": item,
        "call_id": call_id,
        "output": as_text(output),
        "status": "completed",
    }
    return told | {"palaver:is_error": True} if is_error else told


def approval(item: str, value: Any, workflow: str) -> Item:
    """A call that waits for a person; its id is the call's, so that clients show one tool and not two."""
    asked = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return {
        "type": "mcp_approval_request",
        "id": _string(asked.get("id")) or item,
        "name": _string(asked.get("name")) or "interrupt",
        "arguments": as_text(asked.get("arguments", {})),
        "server_label": workflow,
        "status": "completed",
    }


def data(item: str, part: Data) -> Item:
    """A data part, as an item of our own."""
    return {"type": "palaver:data", "id": item, "status": "completed", "name": part.name, "value": part.value}


def file(item: str, part: File) -> Item:
    """A file part, as an item of our own."""
    return {"type": "palaver:file", "id": item, "status": "completed"} | file_fields(part)


def file_fields(part: File) -> Item:
    """What is known of a file."""
    named = {name: getattr(part, name) for name in ("media_type", "url", "data", "file_id", "filename")}
    return {name: value for name, value in named.items() if value is not None}


def citation(note: Annotation, length: int) -> Item:
    """An annotation of a text that is so long. Clients insist on a title and on both indexes of a URL's."""
    match note.kind:
        case "url":
            return {
                "type": "url_citation",
                "url": note.url or "",
                "title": note.title or "",
                "start_index": note.start or 0,
                "end_index": length if note.end is None else note.end,
            }
        case "file":
            index = note.start or 0
            return {
                "type": "file_citation",
                "file_id": note.file_id or "",
                "filename": note.title or "",
                "index": index,
            }
        case "span":
            indexes = {"start_index": note.start or 0, "end_index": length if note.end is None else note.end}
            return {"type": "palaver:span", **indexes, "title": note.title or ""}


def as_text(value: Any) -> str:
    """A text as it is, any other value as compact JSON."""
    return value if isinstance(value, str) else json.encode(value).decode()


def _message(item: str, part: Item) -> Item:
    return {"type": "message", "id": item, "status": "completed", "role": "assistant", "content": [part]}


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""
