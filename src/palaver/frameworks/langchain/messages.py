"""Convert LangChain's messages to pieces of content, and Palaver's messages to LangChain's.

Content is a string, or a list of blocks in any provider's shape. Reading needs no LangChain: messages are read by
attribute, blocks by key. stream.py converts pieces to events.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from palaver.core import json
from palaver.core.events import FinishReason
from palaver.core.json import as_list, dict_or_empty, optional_int, optional_str, result_text, without_none
from palaver.core.messages import (
    UNKNOWN_MEDIA_TYPE,
    Annotation,
    Data,
    File,
    Message,
    Part,
    Refusal,
    Text,
    Usage,
    file_from_url,
)

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage


_Block = Mapping[str, Any]


class TextPiece(msgspec.Struct, frozen=True, kw_only=True):
    """Text, with annotations whose offsets count from the start of its block."""

    text: str
    annotations: tuple[Annotation, ...] = ()
    block_id: str | None = None
    """Texts with different block ids are separate."""
    index: int | str | None = None
    """The block of a streamed message that this continues."""


class ReasoningPiece(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    encrypted: str | None = None
    paragraph: int | None = None
    """The paragraph of a streamed summary that this continues."""


class CallMarker(msgspec.Struct, frozen=True, kw_only=True):
    """The position of a call in the content."""

    call_id: str


class MessageCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a complete message; `call_id` is empty if the model sent none."""

    call_id: str
    name: str
    arguments: str
    parsed: bool = True
    """Whether LangChain could parse its arguments."""


ContentPiece = TextPiece | ReasoningPiece | CallMarker | Refusal | File | Data

_CALL_BLOCKS = ("tool_use", "tool_call", "function_call")
_IGNORED_BLOCKS = ("redacted_thinking", "input_json_delta", "tool_call_chunk", "invalid_tool_call")
_MEDIA_TYPES = {
    "image": "image/*",
    "image_url": "image/*",
    "input_image": "image/*",
    "audio": "audio/*",
    "video": "video/*",
}
_FILE_BLOCKS = (*_MEDIA_TYPES, "file", "input_file", "input_audio")


def content_pieces(message: Any) -> list[ContentPiece]:
    """Return the content of a message or chunk in order, including reasoning and refusals outside of `content`."""
    pieces = [piece for block in as_list(message.content) for piece in _block_pieces(block)]
    extra = dict_or_empty(message.additional_kwargs)
    if not any(isinstance(piece, ReasoningPiece) for piece in pieces):
        inner = extra.get("reasoning")
        text = optional_str(extra.get("reasoning_content")) or optional_str(inner) or _summary(dict_or_empty(inner))
        pieces = [*([ReasoningPiece(text=text)] if text else ()), *pieces]
    refusal = optional_str(extra.get("refusal"))
    return [*pieces, *([Refusal(text=refusal)] if refusal else ())]


def message_text(message: Any) -> str:
    pieces = (piece for block in as_list(message.content) for piece in _block_pieces(block))
    return "".join([piece.text for piece in pieces if isinstance(piece, TextPiece)])


def _block_pieces(block: Any) -> Iterator[ContentPiece]:
    if isinstance(block, str):
        if block:
            yield TextPiece(text=block)
        return
    block = dict_or_empty(block)
    match block.get("type"):
        case "text" | "output_text" | None if isinstance(block.get("text"), str):
            annotations, block_id = tuple(_read_annotations(block)), optional_str(block.get("id"))
            if block["text"] or annotations:
                index = block.get("index")
                index = index if isinstance(index, int | str) else None
                yield TextPiece(text=block["text"], annotations=annotations, block_id=block_id, index=index)
        case "thinking" | "reasoning" | "reasoning_content":
            yield from _read_reasoning(block)
        case "refusal" if isinstance(block.get("refusal"), str):
            if block["refusal"]:
                yield Refusal(text=block["refusal"])
        case kind if kind in _FILE_BLOCKS and (file := _read_file(block)) is not None:
            yield file
        case kind if kind in _CALL_BLOCKS:
            if call_id := optional_str(block.get("call_id")) or optional_str(block.get("id")):
                yield CallMarker(call_id=call_id)
        case kind if kind in _IGNORED_BLOCKS:
            pass
        case kind:
            yield Data(
                name=f"langchain:{kind if isinstance(kind, str) and kind else 'part'}", value=to_json_value(block)
            )


def _read_reasoning(block: _Block) -> Iterator[ReasoningPiece]:
    """Parse reasoning as Anthropic, OpenAI, Bedrock and LangChain have it. An empty one may have a signature."""
    inner = dict_or_empty(block.get("reasoning_content"))  # Bedrock.
    extras = dict_or_empty(block.get("extras"))
    candidates = (block.get("thinking"), block.get("reasoning"), inner.get("text"), block.get("reasoning_content"))
    text = next((text for text in candidates if isinstance(text, str)), "") or _summary(block)
    values = (block.get("signature"), block.get("encrypted_content"), inner.get("signature"), extras.get("signature"))
    encrypted = next((value for value in values if isinstance(value, str) and value), None)
    if text or encrypted:
        summary = [dict_or_empty(part) for part in as_list(block.get("summary"))]
        paragraph = optional_int(summary[0].get("index")) if summary else None
        yield ReasoningPiece(text=text, encrypted=encrypted, paragraph=paragraph)


def _summary(block: _Block) -> str:
    texts = [optional_str(dict_or_empty(part).get("text")) for part in as_list(block.get("summary"))]
    return "\n\n".join([text for text in texts if text])


# Files


def _read_file(block: _Block) -> File | None:
    """Parse a file by URL, base64 or id; None if it has none of them."""
    kind = str(block["type"])
    inner = dict_or_empty(block.get(kind)) or dict_or_empty(block.get("source")) or block
    filename = optional_str(inner.get("filename")) or optional_str(dict_or_empty(block.get("extras")).get("filename"))
    audio_format = optional_str(inner.get("format")) if "audio" in kind else None
    default = f"audio/{audio_format}" if audio_format else _MEDIA_TYPES.get(kind, UNKNOWN_MEDIA_TYPE)
    media_type = optional_str(inner.get("mime_type")) or optional_str(inner.get("media_type")) or default
    detail = optional_str(inner.get("detail"))
    url = next(
        (inner[key] for key in ("url", "image_url", "file_url", "file_data") if optional_str(inner.get(key))), None
    )
    data = optional_str(inner.get("base64")) or optional_str(inner.get("data"))
    if url is not None and (":" in url[:6] or not data):
        return file_from_url(url, media_type, filename=filename, detail=detail)
    if data:
        return File(media_type=media_type, data=data, filename=filename, detail=detail)
    file_id = optional_str(inner.get("file_id"))
    return File(media_type=media_type, file_id=file_id, filename=filename, detail=detail) if file_id else None


# Annotations


def _read_annotations(block: _Block) -> Iterator[Annotation]:
    for note in [*as_list(block.get("annotations")), *as_list(block.get("citations"))]:
        note = dict_or_empty(note)
        # start_char_index and end_char_index are offsets in the document, not in the text.
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


def shift_annotation(note: Annotation, offset: int) -> Annotation:
    if not offset:
        return note
    start = None if note.start is None else note.start + offset
    return msgspec.structs.replace(note, start=start, end=None if note.end is None else note.end + offset)


# Calls


def message_calls(message: Any) -> list[MessageCall]:
    """Return the calls of a complete message: those that LangChain could parse, then the others."""
    exact_arguments = {
        dict_or_empty(call).get("id"): optional_str(dict_or_empty(dict_or_empty(call).get("function")).get("arguments"))
        for call in as_list(dict_or_empty(message.additional_kwargs).get("tool_calls"))
    }
    calls: list[MessageCall] = []
    for call in _calls_of(message, "tool_calls"):
        call_id = call.get("id") or ""
        exact = exact_arguments.get(call_id) if call_id else None
        arguments = to_json_text(call["args"]) if exact is None else exact
        calls.append(MessageCall(call_id=call_id, name=call["name"], arguments=arguments))
    return calls + [
        MessageCall(
            call_id=call.get("id") or "",
            name=call.get("name") or "unknown",
            arguments=call.get("args") or "",
            parsed=False,
        )
        for call in _calls_of(message, "invalid_tool_calls")
    ]


def _calls_of(message: Any, kind: Literal["tool_calls", "invalid_tool_calls"]) -> Sequence[Mapping[str, Any]]:
    return getattr(message, kind, None) or ()


def to_json_text(value: Any) -> str:
    """Encode as compact JSON; values that are not JSON as `str()`."""
    return json.encode(to_json_value(value)).decode()


def to_json_value(value: Any) -> Any:
    """Convert to JSON values; anything else becomes its `str()`."""
    try:
        return json.to_builtins(value)
    except json.NotJson:
        pass
    match value:
        case dict():
            return {str(key): to_json_value(inner) for key, inner in cast("dict[Any, Any]", value).items()}
        case list() | tuple():
            return [to_json_value(inner) for inner in cast("Sequence[Any]", value)]
        case _:
            return json.replace_surrogates(str(value))


# Usage and finish reason


def message_usage(message: Any) -> Usage | None:
    if usage := dict_or_empty(getattr(message, "usage_metadata", None)):
        inputs, outputs = (
            dict_or_empty(usage.get("input_token_details")),
            dict_or_empty(usage.get("output_token_details")),
        )
        return Usage(
            input_tokens=optional_int(usage.get("input_tokens")) or 0,
            output_tokens=optional_int(usage.get("output_tokens")) or 0,
            cached_input_tokens=optional_int(inputs.get("cache_read")),
            cache_creation_input_tokens=optional_int(inputs.get("cache_creation")),
            reasoning_tokens=optional_int(outputs.get("reasoning")),
        )
    extra = dict_or_empty(message.response_metadata)
    counts = dict_or_empty(extra.get("token_usage")) or dict_or_empty(extra.get("usage"))
    prompt_tokens, completion_tokens = (
        optional_int(counts.get("prompt_tokens")),
        optional_int(counts.get("completion_tokens")),
    )
    if prompt_tokens is None and completion_tokens is None:
        return None
    return Usage(input_tokens=prompt_tokens or 0, output_tokens=completion_tokens or 0)


_FINISH_REASONS: Mapping[str, FinishReason] = {
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "content_filter": "content-filter",
    "refusal": "content-filter",
    "safety": "content-filter",
}


def finish_reason(message: Any) -> FinishReason | None:
    extra = dict_or_empty(message.response_metadata)
    reasons = [optional_str(extra.get(key)) for key in ("finish_reason", "stop_reason", "done_reason")]
    reasons.append(optional_str(dict_or_empty(extra.get("incomplete_details")).get("reason")))
    for reason in reasons:
        if reason and reason.lower() in _FINISH_REASONS:
            return _FINISH_REASONS[reason.lower()]
    return "stop" if any(reasons) else None


_COMPARED_ROLES = {"AIMessageChunk": "ai", "chat": "ai", "ChatMessageChunk": "ai", "function": "tool"}


def written(messages: Sequence[Message]) -> "list[BaseMessage]":
    """Convert messages to LangChain's, without reasoning and data."""
    names = {call.call_id: call.name for message in messages for call in message.tool_calls}
    return [converted for message in messages for converted in _to_langchain(message, names)]


def _to_langchain(message: Message, names: Mapping[str, str]) -> "Iterator[BaseMessage]":
    from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage

    fields: dict[str, Any] = {"content": _content(message.parts), **without_none(id=message.id, name=message.name)}
    match message.role:
        case "system":
            yield SystemMessage(**fields)
        case "developer":
            yield SystemMessage(**fields, additional_kwargs={"__openai_role__": "developer"})
        case "user":
            if not message.parts or not all(isinstance(part, Data) for part in message.parts):
                yield HumanMessage(**fields)  # Approvals are passed to a graph as a resume command.
        case "assistant":
            if fields["content"] or message.tool_calls:
                yield _to_ai_message(message, fields)
        case "tool":
            pass
    message_id = message.id if len(message.tool_results) == 1 and message.role == "tool" else None
    for result in message.tool_results:
        yield ToolMessage(
            content=result_text(result.output),
            tool_call_id=result.call_id,
            status="error" if result.is_error else "success",
            **without_none(id=message_id, name=names.get(result.call_id)),
        )


def _to_ai_message(message: Message, fields: dict[str, Any]) -> "AIMessage":
    """Convert an assistant message. Calls whose arguments are not an object are invalid, as in LangChain."""
    from langchain_core.messages import AIMessage

    calls = [(call, call.parsed) for call in message.tool_calls]
    return AIMessage(
        **fields,
        tool_calls=[
            {"type": "tool_call", "id": call.call_id, "name": call.name, "args": arguments}
            for call, arguments in calls
            if isinstance(arguments, dict)
        ],
        invalid_tool_calls=[
            {"type": "invalid_tool_call", "id": call.call_id, "name": call.name, "args": call.arguments, "error": None}
            for call, arguments in calls
            if not isinstance(arguments, dict)
        ],
    )


def _content(parts: Sequence[Part]) -> "str | list[str | dict[str, Any]]":
    blocks: list[str | dict[str, Any]] = []
    texts: list[str] = []
    for part in parts:
        match part:
            case Text(text=text) | Refusal(text=text):
                texts.append(text)
                blocks.append({"type": "text", "text": text})
            case File():
                blocks.append(_write_file(part))
            case _:
                pass
    return blocks if len(blocks) > len(texts) else "".join(texts)


def _write_file(file: File) -> dict[str, Any]:
    kind = file.media_type.partition("/")[0]
    extras = without_none(filename=file.filename, detail=file.detail)
    return {
        "type": kind if kind in ("image", "audio", "video") else "file",
        "mime_type": file.media_type,
        **without_none(url=file.url, base64=file.data, file_id=file.file_id, extras=extras or None),
    }


class HistoryEcho:
    """Recognizes messages of the history that a graph returns: by id, else by content, in order."""

    def __init__(self, history: Sequence[Any]) -> None:
        self._ids = {message.id for message in history if message.id}
        self._history_keys = [_comparison_key(message) for message in history]
        self._positions: dict[str, int] = {}
        self._keys_without_id: list[tuple[object, ...]] = []

    def remember(self, message: Any) -> None:
        """Remember a message without an id, which a graph may return again with one."""
        if not message.id:
            self._keys_without_id.append(_comparison_key(message))

    def repeats(self, message: Any, branch: str = "") -> bool:
        key, position = _comparison_key(message), self._positions.get(branch, 0)
        # Only after a user's or system message; otherwise the same text may be new.
        if key in self._history_keys[position : position + 1] and (position or message.type in ("human", "system")):
            self._positions[branch] = position + 1
        elif message.id in self._ids:
            return True
        elif message.id and key in self._keys_without_id:
            self._keys_without_id.remove(key)
        else:
            return False
        if message.id:
            self._ids.add(message.id)
        return True

    def new_messages(self, messages: Sequence[Any]) -> list[Any]:
        self._positions[""] = 0
        return [message for message in messages if not self.repeats(message)]


def _comparison_key(message: Any) -> tuple[object, ...]:
    call_ids = [call.get("id") for call in getattr(message, "tool_calls", None) or ()]
    call_ids += [call.get("id") for call in getattr(message, "invalid_tool_calls", None) or ()]
    return (
        _COMPARED_ROLES.get(message.type, message.type),
        message_text(message),
        tuple(call_ids),
        getattr(message, "tool_call_id", None),
    )
