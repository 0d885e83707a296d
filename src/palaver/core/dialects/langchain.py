"""LangChain messages as data: `{"type": "human", "content": "…"}`, inside `data`, or as `lc` serialises them.

LangChain is not imported and no objects are revived. Messages are written as its `convert_to_messages` accepts them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from palaver.core.dialects.chat_completions import write_content
from palaver.core.json import (
    Object,
    argument_text,
    as_list,
    dict_or_empty,
    ensure_json,
    optional_int,
    optional_str,
    result_text,
    without_none,
)
from palaver.core.messages import (
    ROLE_ALIASES,
    UNKNOWN_MEDIA_TYPE,
    Annotation,
    Data,
    File,
    Message,
    Part,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolResult,
    file_from_url,
    join_texts_or_json,
    parse_role,
    split_results,
)

LOSSES: Sequence[str] = (
    "Messages lose their metadata.",
    "Assistant messages that end up empty are dropped.",
    "Adjacent text parts are joined.",
    "Refusals become text.",
    "Empty text and refusals are dropped.",
    "Reasoning, data and annotations are lost.",
    "Calls move to the end of their message; calls whose arguments are not an object come last.",
    "Of several calls with the same id in one message, only the first is kept.",
    "Only assistant messages keep calls.",
    "Call arguments that are an object keep their value but not their exact text.",
    "Empty call arguments become `{}`.",
    "A call without an id or name gets one.",
    "A tool result that is not text becomes JSON text.",
    "A tool message without a name gets the name of the tool.",
    "Tool results outside tool messages become separate tool messages.",
    "Tool messages lose all parts except tool results.",
    "A file with several locations (id, URL, content) keeps only one.",
    "Files lose their `detail`.",
)

_TEXT_TYPES = ("text", "", "output_text", "input_text")
_FILE_TYPES = frozenset("image image_url input_image file input_file audio input_audio video document".split())
_CALL_TYPES = frozenset("tool_use tool_call function_call".split())
_CHUNK_TYPES = frozenset("input_json_delta tool_call_chunk".split())
_REASONING_TYPES = frozenset("thinking redacted_thinking reasoning reasoning_content".split())


def _read_content(content: Any, calls: Mapping[str, ToolCall]) -> list[Part]:
    """Read the parts of content; a block that refers to a call in `calls` becomes that call."""
    if type(content) is str:
        return [Text(content)] if content else []
    parts: list[Part] = []
    seen_ids: set[str] = set()
    for block in as_list(content):
        part = _read_part(block, calls)
        if part is None:
            continue
        if type(part) is ToolCall:
            if part.call_id in seen_ids:
                continue
            seen_ids.add(part.call_id)
        parts.append(part)
    return parts


# Reading content parts


def _read_part(block: Any, calls: Mapping[str, ToolCall]) -> Part | None:
    if isinstance(block, str):
        return Text(block) if block else None
    fields = dict_or_empty(block)
    kind, text = fields.get("type"), fields.get("text")
    kind = kind if isinstance(kind, str) else ""
    if isinstance(text, str) and kind in _TEXT_TYPES:
        return Text(text, _read_annotations(fields) if len(fields) > 2 else ()) if text else None
    if kind in _CALL_TYPES:
        return _read_call_block(fields, calls)
    if kind in _FILE_TYPES:
        file = _read_file(fields, kind.removeprefix("input_").removesuffix("_url"))
        return file or Data(f"langchain:{kind}", ensure_json(block))
    if kind in _CHUNK_TYPES:
        return None
    reasoning = _read_reasoning(fields, kind) if kind in _REASONING_TYPES else None
    if reasoning is not None:
        return reasoning if reasoning.text or reasoning.encrypted else None
    refusal = fields.get("refusal")
    if kind == "refusal" and isinstance(refusal, str):
        return Refusal(refusal)
    return Data(f"langchain:{kind or 'part'}", ensure_json(block))


def _read_call_block(block: Object, calls: Mapping[str, ToolCall]) -> ToolCall | None:
    """Return the call that a block refers to, else one read from the block itself."""
    call_id = optional_str(block.get("call_id")) or optional_str(block.get("id"))
    if call_id is None or call_id in calls:
        return calls.get(call_id or "")
    arguments = next((block[key] for key in ("input", "args", "arguments") if block.get(key) is not None), None)
    return ToolCall(
        call_id=call_id, name=optional_str(block.get("name")) or "unknown", arguments=argument_text(arguments)
    )


def _read_reasoning(block: Object, kind: str) -> Reasoning | None:
    """Read reasoning of Anthropic, OpenAI, Bedrock or LangChain; None if malformed."""
    encrypted = optional_str(block.get("signature")) or optional_str(block.get("encrypted_content"))
    encrypted = encrypted or optional_str(dict_or_empty(block.get("extras")).get("signature"))
    inner = block.get(kind)
    if kind == "redacted_thinking":
        data = block.get("data")
        return Reasoning("", data) if isinstance(data, str) else None
    if isinstance(inner, str):  # The text is stored under the name of the block's type.
        return Reasoning(inner, encrypted)
    if kind == "thinking":
        return None
    if kind == "reasoning_content":
        content = dict_or_empty(inner)
        text = content.get("text")
        return Reasoning(text, optional_str(content.get("signature")) or encrypted) if isinstance(text, str) else None
    text, summary = block.get("text"), block.get("summary")
    if isinstance(text, str):
        return Reasoning(text, encrypted)
    return Reasoning(_join_texts(as_list(summary) if isinstance(summary, list) else ()), encrypted)


def _join_texts(pieces: Iterable[Any]) -> str:
    texts = [optional_str(dict_or_empty(piece).get("text")) for piece in pieces]
    return "\n\n".join([text for text in texts if text])


def _read_file(block: Object, kind: str) -> File | None:
    """Read a file by URL, content or id, from a standard or a vendor's block; None if it has none of them."""
    inner: Object = {}
    for key in (kind, "source", "image_url", "input_audio"):
        inner = inner or dict_or_empty(block.get(key))
    if inner.get("type") == "text":
        return None  # Its data is not base64.
    sources = (block, inner, dict_or_empty(block.get("extras")) or dict_or_empty(block.get("metadata")))
    default_type = (
        UNKNOWN_MEDIA_TYPE if kind in ("file", "document") else f"{kind}/{_first_str(sources, 'format') or '*'}"
    )
    media_type = _first_str(sources, "mime_type", "media_type") or default_type
    filename, detail = _first_str(sources, "filename"), _first_str(sources, "detail")
    data, url = _first_str(sources, "base64", "data", "file_data"), _first_str(sources, "image_url", "url", "file_url")
    if data is not None and not data.startswith("data:"):
        return File(media_type, None, data, None, filename, detail)
    location = url if data is None else data
    if location is not None:
        return file_from_url(location, media_type, filename=filename, detail=detail)
    file_id = optional_str(block.get("id")) if block.get("source_type") == "id" else _first_str(sources, "file_id")
    return File(media_type, None, None, file_id, filename, detail) if file_id is not None else None


def _first_str(sources: tuple[Object, ...], *keys: str) -> str | None:
    for source in sources:
        if source:
            for key in keys:
                if isinstance(value := source.get(key), str):
                    return value
    return None


def _read_annotations(block: Object) -> tuple[Annotation, ...]:
    items = as_list(block.get("annotations")) or as_list(block.get("citations"))
    if not items:
        return ()
    return tuple(note for item in items if (note := _read_annotation(dict_or_empty(item))) is not None)


def _read_annotation(note: Object) -> Annotation | None:
    title = (
        optional_str(note.get("title"))
        or optional_str(note.get("document_title"))
        or optional_str(note.get("filename"))
    )
    start = optional_int(note.get("start_index", note.get("start_char_index", note.get("index"))))
    end = optional_int(note.get("end_index", note.get("end_char_index")))
    url, file_id = optional_str(note.get("url")), optional_str(note.get("file_id"))
    if url is not None:
        return Annotation(kind="url", url=url, title=title, start=start, end=end)
    if file_id is not None or "document_index" in note:
        return Annotation(kind="file", file_id=file_id, title=title, start=start, end=end)
    return Annotation(kind="span", title=title, start=start, end=end) if start is not None else None


# Writing content parts


def _write_file(file: File) -> dict[str, Any]:
    kind = file.media_type.partition("/")[0]
    block = {"type": kind if kind in ("image", "audio") else "file", "mime_type": file.media_type}
    location = without_none(url=file.url) or without_none(file_id=file.file_id if file.data is None else None)
    extras = {"extras": {"filename": file.filename}} if file.filename is not None else {}
    return {**block, **(location or {"base64": file.data or ""}), **extras}


_EMPTY: tuple[Any, ...] = (None, [])
_NAMES = ("Human", "AI", "System", "Tool", "Function")
_KIND_BY_TYPE_NAME: Mapping[str, str] = {
    alias: name.lower() for name in _NAMES for alias in (name.lower(), f"{name}Message", f"{name}MessageChunk")
}
"""The kind of message by its type or class name."""
_TYPE_BY_ROLE: dict[Role, str] = {
    "system": "system",
    "developer": "system",
    "user": "human",
    "assistant": "ai",
    "tool": "tool",
}


def read(elements: Sequence[Any], start: int = 0) -> list[Message]:
    """Return one message per element; RemoveMessage is skipped."""
    functions: dict[str, str] = {}
    optional_messages = [_read_message(element, index, functions) for index, element in enumerate(elements, start)]
    return [message for message in optional_messages if message is not None]


def write(messages: Sequence[Message]) -> list[Any]:
    """Return dicts in the flat format; a tool message has the name of its call."""
    names: dict[str, str] = {}
    return [element for message in messages for element in _write_messages(message, names)]


# Reading messages


def _read_message(element: Object, index: int, functions: dict[str, str]) -> Message | None:
    """Read one element. `functions` maps function names to call ids, for legacy results that only have a name."""
    kind, fields = _unwrap(element)
    role, name = ROLE_ALIASES.get(kind), None
    if role is None:
        if kind == "remove":
            return None
        role, name = parse_role((optional_str(fields.get("role")) or "assistant") if kind == "chat" else kind)
    extra = dict_or_empty(fields.get("additional_kwargs"))
    if role == "system" and extra.get("__openai_role__") == "developer":
        role = "developer"
    message_name, message_id = fields.get("name"), fields.get("id")
    name = message_name if isinstance(message_name, str) else name
    message_id = message_id if isinstance(message_id, str) else None
    if role == "tool":
        call_id = fields.get("tool_call_id")
        call_id = call_id if isinstance(call_id, str) else functions.get(name or "", "")
        return Message("tool", (_read_result(fields, call_id),), message_id, name)
    calls = _read_calls(fields, extra, index)
    for call in calls.values():
        functions[call.name] = call.call_id
    return Message(role, tuple(_read_parts(fields, extra, calls)), message_id, name)


def _unwrap(element: Object) -> tuple[str, Object]:
    """Return the kind of message and its fields: from `kwargs`, `data` or the element itself."""
    fields, kind, path = element, element.get("type"), element.get("id")
    kwargs, data = dict_or_empty(element.get("kwargs")), dict_or_empty(element.get("data"))
    if path and isinstance(path, list) and "content" in kwargs:
        fields, kind = kwargs, as_list(path)[-1]
    elif "content" in data:
        fields = data
    if not isinstance(kind, str):
        return "", fields
    return _KIND_BY_TYPE_NAME.get(kind) or kind.removesuffix("Chunk").removesuffix("Message").lower(), fields


def _read_parts(fields: Object, extra: Object, calls: dict[str, ToolCall]) -> list[Part]:
    parts = _read_content(fields.get("content"), calls)
    if calls:
        seen_ids = {part.call_id for part in parts if type(part) is ToolCall}
        trailing: list[Part] = [call for call in calls.values() if call.call_id not in seen_ids]
    else:
        trailing = []
    if extra:
        reasoning = optional_str(extra.get("reasoning_content"))
        reasoning = reasoning or _join_texts(as_list(dict_or_empty(extra.get("reasoning")).get("summary")))
        refusal = optional_str(extra.get("refusal"))
        if refusal and not any(type(part) is Refusal for part in parts):
            trailing.insert(0, Refusal(refusal))
        if reasoning and not any(type(part) is Reasoning for part in parts):
            parts.insert(0, Reasoning(reasoning))
    return parts + trailing


def _read_calls(fields: Object, extra: Object, index: int) -> dict[str, ToolCall]:
    """Return the calls by id, with the exact text of the arguments: LangChain repairs those in `tool_calls`."""
    if not extra and fields.get("tool_calls") in _EMPTY and fields.get("invalid_tool_calls") in _EMPTY:
        return {}
    listing = as_list(fields.get("tool_calls")) + as_list(fields.get("invalid_tool_calls"))
    listing = listing or as_list(extra.get("tool_calls")) or as_list(extra.get("function_call"))
    calls: dict[str, ToolCall] = {}
    exact = _exact_arguments(fields, extra) if listing else {}
    for number, item in enumerate(listing):
        call = dict_or_empty(item)
        function = dict_or_empty(call.get("function")) or call
        call_id = optional_str(call.get("id")) or f"call_{index}_{number}"
        arguments = exact.get(call_id, function.get("args", function.get("arguments")))
        name = optional_str(function.get("name")) or "unknown"
        calls.setdefault(call_id, ToolCall(call_id, name, argument_text(arguments)))
    return calls


def _exact_arguments(fields: Object, extra: Object) -> dict[str, str]:
    exact: dict[str, str] = {}
    for item in as_list(fields.get("tool_call_chunks")):
        piece = dict_or_empty(item)
        call_id, arguments = piece.get("id"), piece.get("args")
        if isinstance(call_id, str) and isinstance(arguments, str):
            exact[call_id] = arguments
    for item in as_list(extra.get("tool_calls")):
        call = dict_or_empty(item)
        call_id, arguments = call.get("id"), dict_or_empty(call.get("function")).get("arguments")
        if isinstance(call_id, str) and isinstance(arguments, str):
            exact[call_id] = arguments
    return exact


def _read_result(fields: Object, call_id: str) -> ToolResult:
    output, failed = fields.get("content"), fields.get("status") == "error"
    if type(output) is not str:
        output = join_texts_or_json(_read_content(output, {}), output)
    return ToolResult(call_id, output, failed)


# Writing messages


def _write_messages(message: Message, names: dict[str, str]) -> Iterable[dict[str, Any]]:
    names |= {call.call_id: call.name for call in message.tool_calls}
    elements: list[dict[str, Any]] = []
    for piece in split_results(message):
        if piece.role == "tool":
            elements += [_write_result(result, names, piece.name) for result in piece.tool_results]
            continue
        element = _write_message(piece)
        if piece.role != "assistant" or element["content"] or "tool_calls" in element:
            elements.append(element)
    # Only the first has the id: graphs treat two messages with one id as the same.
    if elements:
        elements[0] |= without_none(id=message.id)
    return elements


def _write_result(result: ToolResult, names: dict[str, str], message_name: str | None) -> dict[str, Any]:
    name = names.get(result.call_id) if message_name is None else message_name
    fields = {"tool_call_id": result.call_id, "status": "error" if result.is_error else "success"}
    return {**_base_fields("tool", result_text(result.output)), **fields, **without_none(name=name)}


def _write_message(message: Message) -> dict[str, Any]:
    content = write_content(message.parts, _write_file, (Text, Refusal))
    element = _base_fields(_TYPE_BY_ROLE[message.role], content) | without_none(name=message.name)
    if message.role == "developer":
        element["additional_kwargs"] = {"__openai_role__": "developer"}
    calls = [(call, call.parsed) for call in message.tool_calls if message.role == "assistant"]
    if calls:
        element["tool_calls"] = [
            {"name": call.name, "args": args, "id": call.call_id, "type": "tool_call"}
            for call, args in calls
            if isinstance(args, dict)
        ]
    if invalid := [call for call, args in calls if not isinstance(args, dict)]:
        element["invalid_tool_calls"] = [
            {"name": call.name, "args": call.arguments, "id": call.call_id, "error": None, "type": "invalid_tool_call"}
            for call in invalid
        ]
    return element


def _base_fields(kind: str, content: Any) -> dict[str, Any]:
    # `additional_kwargs` and `response_metadata` let detection tell a list of system messages from rows of a log.
    return {"type": kind, "content": content, "additional_kwargs": {}, "response_metadata": {}}
