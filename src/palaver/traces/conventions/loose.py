"""Messages that come in loose fields, `0.role`, `0.content`, `0.tool_calls.0.name`, put together.

Three conventions write them so, and differ in little words between: `message.role`, `tool_call.function.name`. Each
becomes an object as Chat Completions has it, for messages.py to read; an entry of which nothing is known stays as it
is, and will be unreadable there.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from palaver.core.json import Object, is_list, list_items
from palaver.traces.conventions.reading import Entry, indexed, opened

_FIELDS = ("role", "content", "name", "tool_call_id")
_PLACES = ("image.image.url", "image_url.url", "image_url")
_CALL = (("id", "id"), ("name", "name"), ("arguments", "arguments"))
_FUNCTION = (("name", "function.name"), ("arguments", "function.arguments"))


class Words(msgspec.Struct, frozen=True):
    """The words that a convention puts between, each with its dot."""

    message: str = ""
    contents: str = "content"
    """Under which the parts of a message are counted."""
    content: str = ""
    call: str = ""


def elements(entries: Iterable[Entry], words: Words) -> list[Any]:
    """Each entry as one object."""
    return [_element(entry, words) for entry in entries]


def _element(entry: Entry, words: Words) -> Any:
    before = words.message
    message = {field: entry[before + field] for field in _FIELDS if entry.get(before + field) is not None}
    if len(message) < len(entry):  # There is more than who said what.
        pieces = indexed(entry, before + words.contents)
        calls = _calls(entry, words, pieces)
        if calls:
            message["tool_calls"] = calls
        function = _function(entry, before)
        if function is not None:
            message["function_call"] = function
        content = [_piece(piece, words) for piece in pieces if not _is_call(piece, words)]
        if content:
            message["content"] = content
    if not message:
        return entry[""] if len(entry) == 1 and "" in entry else entry
    if len(message) == 1 and "role" in message:
        message["content"] = ""  # It was said to be silent: many leave out a text that is empty.
    return message


def _calls(entry: Entry, words: Words, pieces: Sequence[Entry]) -> list[Any]:
    counted = [_call(call, words.call) for call in indexed(entry, f"{words.message}tool_calls")]
    if counted:
        return counted
    among = [_call(piece, words.call) for piece in pieces if _is_call(piece, words)]
    whole = opened(entry.get(f"{words.message}tool_calls"))
    return among or (list_items(whole) if is_list(whole) else [])


def _is_call(piece: Entry, words: Words) -> bool:
    return bool(words.call) and f"{words.call}function.name" in piece


def _call(call: Entry, before: str) -> Object:
    told = {key: call[before + name] for key, name in _CALL if before + name in call}
    return told | {key: call[before + name] for key, name in _FUNCTION if before + name in call}


def _function(entry: Entry, before: str) -> Object | None:
    """A call as it was made before there could be several."""
    for name, arguments in (
        ("function_call.name", "function_call.arguments"),
        ("function_call_name", "function_call_arguments_json"),
    ):
        if isinstance(called := entry.get(before + name), str):
            return {"name": called, "arguments": entry.get(before + arguments)}
    return None


def _piece(piece: Entry, words: Words) -> Any:
    told = {name.removeprefix(words.content): value for name, value in piece.items()}
    if "" in told:
        return told[""] if isinstance(told[""], str) else {"type": "part", "value": told[""]}
    for place in _PLACES:
        if isinstance(url := told.get(place), str):
            return {"type": "image_url", "image_url": {"url": url}}
    if isinstance(url := told.get("audio.audio.url"), str):
        otherwise = None if url.startswith("data:") else "audio/*"  # Such a URL says itself what it is.
        return {"type": "file", "data": url, "mediaType": told.get("audio.audio.mime_type", otherwise)}
    return told
