"""What a LangChain message says, piece by piece: text, reasoning, refusals, files, the places of its calls.

Content is a string, or a list of blocks in any of the spellings that providers gave them. Pure, and without LangChain:
a message is looked at by its attributes, a block by its keys. How pieces become events is langchain_stream.py's.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, cast

import msgspec

from palaver.core import json
from palaver.core.dialects.common import (
    UNKNOWN_MEDIA,
    as_list,
    dict_or_empty,
    file_from_url,
    optional_int,
    optional_str,
)
from palaver.core.events import FinishReason
from palaver.core.messages import Annotation, Data, File, Refusal, Usage

_Block = Mapping[str, Any]


class TextPiece(msgspec.Struct, frozen=True, kw_only=True):
    """Some text, and notes on it whose places count from the beginning of its block."""

    text: str
    notes: tuple[Annotation, ...] = ()
    block: str | None = None
    """The id of the block, where it has one: two texts of different ids are two."""
    index: int | str | None = None
    """Which block of a streamed message this continues."""


class ReasoningPiece(msgspec.Struct, frozen=True, kw_only=True):
    """Some of a model's thinking."""

    text: str
    encrypted: str | None = None
    paragraph: int | None = None
    """Which paragraph of a streamed summary this continues."""


class CallMark(msgspec.Struct, frozen=True, kw_only=True):
    """Here stands a call."""

    call_id: str


class Called(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a whole message; `call_id` is empty where the model gave none."""

    call_id: str
    name: str
    arguments: str
    understood: bool = True
    """Could LangChain read its arguments?"""


Piece = TextPiece | ReasoningPiece | CallMark | Refusal | File | Data

_CALLS = ("tool_use", "tool_call", "function_call")
_NOTHING = ("redacted_thinking", "input_json_delta", "tool_call_chunk", "invalid_tool_call")
_MEDIA = {"image": "image/*", "image_url": "image/*", "input_image": "image/*", "audio": "audio/*", "video": "video/*"}
_FILES = (*_MEDIA, "file", "input_file", "input_audio")


def pieces(message: Any) -> list[Piece]:
    """What a message or chunk says, in order; what stands beside its content is put where it belongs."""
    found = [piece for block in as_list(message.content) for piece in _pieces(block)]
    extra = dict_or_empty(message.additional_kwargs)
    if not any(isinstance(piece, ReasoningPiece) for piece in found):
        beside = extra.get("reasoning")
        thought = (
            optional_str(extra.get("reasoning_content")) or optional_str(beside) or _summary(dict_or_empty(beside))
        )
        found = [*([ReasoningPiece(text=thought)] if thought else ()), *found]
    refusal = optional_str(extra.get("refusal"))
    return [*found, *([Refusal(text=refusal)] if refusal else ())]


def text_of(message: Any) -> str:
    """Its text alone."""
    found = (piece for block in as_list(message.content) for piece in _pieces(block))
    return "".join([piece.text for piece in found if isinstance(piece, TextPiece)])


def _pieces(block: Any) -> Iterator[Piece]:
    """One or none."""
    if isinstance(block, str):
        if block:
            yield TextPiece(text=block)
        return
    block = dict_or_empty(block)
    match block.get("type"):
        case "text" | "output_text" | None if isinstance(block.get("text"), str):
            notes = tuple(_notes(block))
            if block["text"] or notes:
                index = block.get("index")
                index = index if isinstance(index, int | str) else None
                yield TextPiece(text=block["text"], notes=notes, block=optional_str(block.get("id")), index=index)
        case "thinking" | "reasoning" | "reasoning_content":
            yield from _reasoning(block)
        case "refusal" if isinstance(block.get("refusal"), str):
            if block["refusal"]:
                yield Refusal(text=block["refusal"])
        case kind if kind in _FILES and (file := _file(block)) is not None:
            yield file
        case kind if kind in _CALLS:
            if call_id := optional_str(block.get("call_id")) or optional_str(block.get("id")):
                yield CallMark(call_id=call_id)
        case kind if kind in _NOTHING:
            pass
        case kind:
            yield Data(name=f"langchain:{kind if isinstance(kind, str) and kind else 'block'}", value=plain(block))


def _reasoning(block: _Block) -> Iterator[ReasoningPiece]:
    """Thinking as Anthropic, OpenAI, Bedrock and LangChain itself spell it; an empty one may still bring its seal."""
    inner = dict_or_empty(block.get("reasoning_content"))  # Bedrock's.
    extras = dict_or_empty(block.get("extras"))
    said = (block.get("thinking"), block.get("reasoning"), inner.get("text"), block.get("reasoning_content"))
    text = next((text for text in said if isinstance(text, str)), "") or _summary(block)
    seals = (block.get("signature"), block.get("encrypted_content"), inner.get("signature"), extras.get("signature"))
    encrypted = next((seal for seal in seals if isinstance(seal, str) and seal), None)
    if text or encrypted:
        summary = [dict_or_empty(part) for part in as_list(block.get("summary"))]
        paragraph = optional_int(summary[0].get("index")) if summary else None
        yield ReasoningPiece(text=text, encrypted=encrypted, paragraph=paragraph)


def _summary(block: _Block) -> str:
    texts = [optional_str(dict_or_empty(part).get("text")) for part in as_list(block.get("summary"))]
    return "\n\n".join([text for text in texts if text])


# Files


def _file(block: _Block) -> File | None:
    """A file by URL, as base64, or by id, wherever its provider puts that; None where it is nowhere."""
    kind = str(block["type"])
    inner = dict_or_empty(block.get(kind)) or dict_or_empty(block.get("source")) or block
    name = optional_str(inner.get("filename")) or optional_str(dict_or_empty(block.get("extras")).get("filename"))
    said = optional_str(inner.get("mime_type")) or optional_str(inner.get("media_type"))
    form = optional_str(inner.get("format"))
    media = said or (f"audio/{form}" if form and "audio" in kind else _MEDIA.get(kind, UNKNOWN_MEDIA))
    detail = optional_str(inner.get("detail"))
    address = next(
        (inner[key] for key in ("url", "image_url", "file_url", "file_data") if optional_str(inner.get(key))), None
    )
    data = optional_str(inner.get("base64")) or optional_str(inner.get("data"))
    if address is not None and (":" in address[:6] or not data):
        return file_from_url(address, media, filename=name, detail=detail)
    if data:
        return File(media_type=media, data=data, filename=name, detail=detail)
    file_id = optional_str(inner.get("file_id"))
    return File(media_type=media, file_id=file_id, filename=name, detail=detail) if file_id else None


# Notes on text


def _notes(block: _Block) -> Iterator[Annotation]:
    for note in [*as_list(block.get("annotations")), *as_list(block.get("citations"))]:
        note = dict_or_empty(note)
        # A document's own indexes (start_char_index …) count in the document, not in what is said.
        start, end = optional_int(note.get("start_index")), optional_int(note.get("end_index"))
        title = (
            optional_str(note.get("title"))
            or optional_str(note.get("document_title"))
            or optional_str(note.get("filename"))
        )
        url, file_id = optional_str(note.get("url")), optional_str(note.get("file_id"))
        if url is not None:
            yield Annotation(kind="url", title=title, url=url, start=start, end=end)
        elif file_id is not None or "document_index" in note or "document_title" in note:
            yield Annotation(kind="file", title=title, file_id=file_id, start=start, end=end)
        elif start is not None or end is not None:
            yield Annotation(kind="span", title=title, start=start, end=end)


def shifted(note: Annotation, by: int) -> Annotation:
    """The note, counted from further back."""
    if not by:
        return note
    start = None if note.start is None else note.start + by
    return msgspec.structs.replace(note, start=start, end=None if note.end is None else note.end + by)


# Calls


def calls(message: Any) -> list[Called]:
    """The calls of a whole message: those that LangChain understood, then those that it could not."""
    exact = {
        dict_or_empty(call).get("id"): optional_str(dict_or_empty(dict_or_empty(call).get("function")).get("arguments"))
        for call in as_list(dict_or_empty(message.additional_kwargs).get("tool_calls"))
    }
    understood = [
        Called(
            call_id=call.get("id") or "",
            name=call["name"],
            arguments=_either(exact.get(call.get("id")) if call.get("id") else None, call["args"]),
        )
        for call in _calls_of(message, "tool_calls")
    ]
    return understood + [
        Called(
            call_id=call.get("id") or "",
            name=call.get("name") or "unknown",
            arguments=call.get("args") or "",
            understood=False,
        )
        for call in _calls_of(message, "invalid_tool_calls")
    ]


def _either(exact: str | None, arguments: Any) -> str:
    return exact if exact is not None else json_text(arguments)


def _calls_of(message: Any, kind: Literal["tool_calls", "invalid_tool_calls"]) -> Sequence[Mapping[str, Any]]:
    return getattr(message, kind, None) or ()


def json_text(value: Any) -> str:
    """Compact JSON; what has none is written as `str()` says it."""
    return json.encode(plain(value)).decode()


def plain(value: Any) -> Any:
    """The value as JSON; a part of it that is not JSON becomes its `str()`."""
    try:
        return json.to_builtins(value)
    except json.NotJson:
        pass
    match value:
        case dict():
            return {str(key): plain(inner) for key, inner in cast("dict[Any, Any]", value).items()}
        case list() | tuple():
            return [plain(inner) for inner in cast("Sequence[Any]", value)]
        case _:
            return json.replace_surrogates(str(value))


# What it cost, and how it ended


def usage_of(message: Any) -> Usage | None:
    """What the message or chunk says that it cost."""
    if known := dict_or_empty(getattr(message, "usage_metadata", None)):
        read, made = dict_or_empty(known.get("input_token_details")), dict_or_empty(known.get("output_token_details"))
        return Usage(
            input_tokens=optional_int(known.get("input_tokens")) or 0,
            output_tokens=optional_int(known.get("output_tokens")) or 0,
            cached_input_tokens=optional_int(read.get("cache_read")),
            cache_creation_input_tokens=optional_int(read.get("cache_creation")),
            reasoning_tokens=optional_int(made.get("reasoning")),
        )
    extra = dict_or_empty(message.response_metadata)
    told = dict_or_empty(extra.get("token_usage")) or dict_or_empty(extra.get("usage"))
    asked, answered = optional_int(told.get("prompt_tokens")), optional_int(told.get("completion_tokens"))
    if asked is None and answered is None:
        return None
    return Usage(input_tokens=asked or 0, output_tokens=answered or 0)


_FINISHES: Mapping[str, FinishReason] = {
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "content_filter": "content-filter",
    "refusal": "content-filter",
    "safety": "content-filter",
}


def finish_of(message: Any) -> FinishReason | None:
    """How the model ended its message; None where it does not say."""
    extra = dict_or_empty(message.response_metadata)
    reasons = [optional_str(extra.get(key)) for key in ("finish_reason", "stop_reason", "done_reason")]
    reasons.append(optional_str(dict_or_empty(extra.get("incomplete_details")).get("reason")))
    for reason in reasons:
        if reason and reason.lower() in _FINISHES:
            return _FINISHES[reason.lower()]
    return "stop" if any(reasons) else None
