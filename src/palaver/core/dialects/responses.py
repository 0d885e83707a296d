"""OpenAI Responses: items such as `{"type": "message", …}` and `{"type": "function_call", …}`.

Calls, results, reasoning and data are separate items; reading merges those of one assistant turn. A bare
`{role, content}` is also a message. An `mcp_call` is a call together with its result. `palaver:data` and `palaver:file`
are Palaver extensions. An unknown item is kept in a data part `responses:<type>` and written back unchanged.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from palaver.core import json
from palaver.core.dialects import chat_completions
from palaver.core.dialects.detection import content_of, speaker_role
from palaver.core.ids import is_truncated_id
from palaver.core.json import (
    Object,
    argument_text,
    as_list,
    dict_or_empty,
    ensure_json,
    is_list,
    optional_int,
    optional_str,
    result_text,
    without_none,
)
from palaver.core.messages import (
    APPROVAL_REQUEST,
    APPROVAL_RESPONSE,
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
    file_to_url,
    join_texts_or_json,
    parse_role,
)

LOSSES: Sequence[str] = (
    "Messages lose their names and metadata.",
    "A message that consists only of items such as calls and results loses its id.",
    "Assistant messages are split differently: text and reasoning start a new message, except right after reasoning.",
    "Empty text and empty reasoning are dropped, and so are assistant messages that end up empty.",
    "Only assistant messages keep annotations.",
    "A URL citation loses its file, a file citation its URL and end, and any other citation its URL and file.",
    "An annotation without a start or end gets 0 or the length of the text.",
    "Empty titles and file ids of annotations are lost.",
    "User, system and developer messages lose reasoning, refusals, calls and data, but keep approvals.",
    "A tool result that is neither text nor a list of content parts becomes JSON text.",
    "Tool results outside tool messages become separate tool messages.",
    "Tool messages lose all parts except tool results.",
    "Outside assistant messages, a file whose content is not inline loses its media type, but an image stays an image.",
    "Outside assistant messages, a file with several locations (id, URL, content) keeps only one.",
    "Outside assistant messages, images and inline audio lose their filename.",
    "Outside assistant messages, only images keep their `detail`.",
    "An approval becomes a user message.",
    "An approval request keeps only its id, name and arguments.",
    "Custom tool calls and their outputs become function calls and outputs.",
)

RAW = "responses:"
"""Prefix of the names of data parts that hold a raw item or part of this dialect."""

_TEXT_TYPES = ("text", "input_text", "output_text", "reasoning")


def read_content(content: Any) -> tuple[Part, ...]:
    """Read the parts of a message's content, a string or a list; unknown ones are kept raw."""
    if type(content) is str:
        return (Text(content),) if content else ()
    return tuple([part for item in as_list(content) if (part := _read_part(item)) is not None])


def write_assistant_content(part: Part) -> dict[str, Any] | None:
    """Return a content part of an assistant message; None for parts that become separate items."""
    match part:
        case Text(text=text, annotations=notes) if text:
            annotations = [write_annotation(note, text) for note in notes if note.kind != "url" or note.url is not None]
            return {"type": "output_text", "text": text, "annotations": annotations}
        case Refusal(text=text):
            return {"type": "refusal", "refusal": text}
        case _:
            return None


def write_input_content(part: Part) -> dict[str, Any] | None:
    """Return a content part of any other message; None for parts that become separate items."""
    match part:
        case Text(text=text) if text:
            return {"type": "input_text", "text": text}
        case File():
            return _write_file(part)
        case Data(value=dict(value)) if is_round_trip(part, _read_part):  # pyright: ignore[reportUnknownVariableType]  # JSON
            return value  # pyright: ignore[reportUnknownVariableType]  # JSON
        case _:
            return None


def is_round_trip(part: Data, read: Callable[[Any], object]) -> bool:
    """Whether reading the part's raw value yields the same part again, and not, for example, a call."""
    try:
        read_back = read(part.value)
    except json.NotJson:
        return False
    return isinstance(read_back, Data) and read_back.name == part.name and read_back.value is part.value


# Reading


def _read_part(item: Any) -> Part | None:
    fields = dict_or_empty(item)
    kind, text = optional_str(fields.get("type")), optional_str(fields.get("text"))
    if not fields:
        text = optional_str(item)
    elif text is None and kind in _TEXT_TYPES:
        text = optional_str(fields.get("content"))  # As in OpenTelemetry's parts.
    if text is not None:
        return _read_text(text, kind, fields) if text else None
    match kind:
        case "refusal":
            refusal = optional_str(fields.get("refusal"))
            part = None if refusal is None else Refusal(refusal)
        case "input_image" | "image_url":
            part = _read_image(fields, kind)
        case "input_file":
            sources = [optional_str(fields.get(name)) for name in ("file_data", "file_url", "file_id", "filename")]
            part = file_from_sources(*sources)
        case "input_audio":
            part = _read_audio(fields)
        case _:
            part = None
    return Data(f"{RAW}{kind or 'part'}", ensure_json(item)) if part is None else part


def _read_text(text: str, kind: str | None, item: Object) -> Text | Reasoning:
    if kind == "reasoning":
        return Reasoning(text)
    notes = item.get("annotations")
    return Text(text, _read_annotations(notes)) if notes is not None else Text(text)


def _read_image(item: Object, kind: str) -> File | None:
    """Read an image by URL, which may be an object with the detail, or by id."""
    inner = dict_or_empty(item.get("image_url"))
    url, file_id = optional_str(inner.get("url") if inner else item.get("image_url")), optional_str(item.get("file_id"))
    detail = optional_str(item.get("detail")) or optional_str(inner.get("detail"))
    if url is not None:
        return file_from_url(url, "image/*", detail=detail)
    return File("image/*", file_id=file_id, detail=detail) if file_id is not None and kind == "input_image" else None


def _read_audio(item: Object) -> File | None:
    for fields in (dict_or_empty(item.get("input_audio")), item):
        data, audio_format = optional_str(fields.get("data")), optional_str(fields.get("format"))
        if data is not None and audio_format is not None:
            return File(f"audio/{audio_format}", data=data)
    return None


def file_from_sources(data: str | None, url: str | None, file_id: str | None, filename: str | None) -> File:
    """Create a file from the first given source."""
    if data is not None:
        if data.startswith("data:"):
            return file_from_url(data, UNKNOWN_MEDIA_TYPE, filename=filename)
        return File(UNKNOWN_MEDIA_TYPE, data=data, filename=filename)
    if url is not None:
        return file_from_url(url, UNKNOWN_MEDIA_TYPE, filename=filename)
    return File(UNKNOWN_MEDIA_TYPE, file_id=file_id, filename=filename)


def _read_annotations(notes: Any) -> tuple[Annotation, ...]:
    return tuple([note for item in as_list(notes) if (note := _read_annotation(dict_or_empty(item))) is not None])


def _read_annotation(note: Object) -> Annotation | None:
    title = optional_str(note.get("title")) or optional_str(note.get("filename")) or None
    start, end = optional_int(note.get("start_index", note.get("index"))), optional_int(note.get("end_index"))
    match optional_str(note.get("type")):
        case "url_citation" if (url := optional_str(note.get("url"))) is not None:
            return Annotation("url", title, url, None, start, end)
        case "file_citation" | "container_file_citation" | "file_path" if (
            file_id := optional_str(note.get("file_id"))
        ) is not None:
            return Annotation("file", title, None, file_id or None, start, end)
        case "palaver:span":
            return Annotation("span", title, None, None, start, end)
        case _:
            return None


# Writing


def _write_file(file: File) -> dict[str, Any]:
    kind, _, subtype = file.media_type.partition("/")
    if kind == "audio" and file.data:
        return {"type": "input_audio", "input_audio": {"data": file.data, "format": subtype}}
    if kind == "image":
        source = without_none(file_id=file.file_id) or {"image_url": file_to_url(file)}
        return {"type": "input_image", **source, **without_none(detail=file.detail)}
    source = without_none(file_id=file.file_id) or without_none(file_url=file.url) or {"file_data": file_to_url(file)}
    return {"type": "input_file", **source, **without_none(filename=file.filename)}


def write_annotation(note: Annotation, text: str) -> dict[str, Any]:
    """Write an annotation. Clients require every field; unknown ones are `""`, 0 or the length of the text."""
    title, start = note.title or "", note.start or 0
    end = len(text) if note.end is None else note.end
    match note.kind:
        case "url":
            citation = {"type": "url_citation", "url": note.url or "", "title": title}
            return {**citation, "start_index": start, "end_index": end}
        case "file":
            return {"type": "file_citation", "file_id": note.file_id or "", "filename": title, "index": start}
        case "span":
            return {"type": "palaver:span", "title": title, "start_index": start, "end_index": end}


ItemContent = Message | Part | tuple[Message]
"""A message, or a part of an assistant turn; a tuple is a message that is never merged."""
EMPTY_REASONING = Reasoning("")

_CHAT_KEYS = frozenset("tool_calls function_call tool_call_id reasoning_content refusal palaver".split())
"""Keys that only Chat Completions messages have."""


def read(elements: Sequence[Any], start: int = 0) -> list[Message]:
    """Merge items into messages; plain Chat Completions text between them is not merged."""
    return _merge(_read_items(elements, start)[0])


def read_indexed(elements: Sequence[Any], start: int = 0) -> list[tuple[Message, int]]:
    """Return each message with the index of its first item; plain assistant text counts as an item."""
    items, positions = _read_items(elements, start)
    contents = [content[0] if type(content) is tuple else content for content in items]
    first_positions = [positions[index] for index in _first_indexes(contents)]
    return list(zip(_merge(contents), first_positions, strict=True))


def write(messages: Sequence[Message]) -> list[Any]:
    """Return items as a client sends them in `input`."""
    return [item for message in messages for item in _write_items(message)]


# Reading items


def _merge(contents: Sequence[ItemContent]) -> list[Message]:
    """Merge the contents of items; an assistant message has all parts of its turn."""
    messages: list[Message] = []
    earlier: list[ItemContent] = []  # Contents of the turn that is being merged, before `last`.
    last: ItemContent | None = None
    for content in contents:
        if type(content) is Message and content.role != "assistant":
            if last is not None:
                messages.append(last if type(last) is Message and not earlier else _merge_turn(earlier, last))
                last = None
            messages.append(content)
        elif content is not EMPTY_REASONING:
            if last is not None:
                if _is_same_message(content, last):
                    earlier.append(last)
                else:
                    messages.append(last if type(last) is Message and not earlier else _merge_turn(earlier, last))
            last = content
    return messages if last is None else [*messages, _merge_turn(earlier, last)]


def _first_indexes(contents: Sequence[ItemContent]) -> list[int]:
    indexes: list[int] = []
    last: ItemContent | None = None
    for index, content in enumerate(contents):
        if content is not EMPTY_REASONING:
            if last is None or not _is_same_message(content, last):
                indexes.append(index)
            last = content
    return indexes


def _is_same_message(content: ItemContent, last: ItemContent) -> bool:
    """Whether two consecutive contents belong to one message.

    A turn has at most one assistant message; only reasoning may precede it.
    """
    for item in (content, last):
        if type(item) is tuple or (type(item) is Message and item.role != "assistant"):
            return False
    return type(last) is Reasoning or (type(content) is not Message and type(content) is not Reasoning)


def _merge_turn(earlier: list[ItemContent], last: ItemContent) -> Message:
    """Merge the parts of a turn into one message and clear `earlier`."""
    if not earlier and type(last) is ToolCall:
        return Message("assistant", (last,))
    if type(last) is tuple:
        return last[0]
    message_id = name = None
    parts: list[Any] = []
    for content in (*earlier, last):
        if type(content) is Message:
            message_id, name = content.id, content.name
            parts += content.parts
        else:
            parts.append(content)
    earlier.clear()
    return Message("assistant", tuple(parts), message_id, name)


def _read_items(elements: Sequence[Any], start: int) -> tuple[list[ItemContent], list[int]]:
    """Read each item; return the contents, each with the position of its item."""
    call_ids: set[str] = set()  # An approval request refers to an earlier call.
    contents: list[ItemContent] = []
    positions: list[int] = []
    for index, element in enumerate(elements, start):
        content = _read_item(element, index, call_ids)
        if type(content) is ToolCall:
            call_ids.add(content.call_id)
        contents.append(content)
        positions.append(index)
        if type(content) is ToolCall and element["type"] == "mcp_call" and (result := read_mcp_result(element)):
            contents.append(Message("tool", (result,)))
            positions.append(index)
    return contents, positions


def _read_item(item: Any, index: int, call_ids: set[str]) -> ItemContent:
    fields = dict_or_empty(item)
    kind, role = optional_str(fields.get("type")) or "", speaker_role(fields)
    if role is not None and (kind == "message" or not kind or "content" in fields):
        message = _read_message(fields, role)
        is_mergeable = message.role != "assistant" or "type" in fields or optional_str(fields.get("content")) is None
        return message if is_mergeable else (message,)
    match kind:
        case "function_call":
            return _read_call(
                fields, index, optional_str(fields.get("name")) or "", argument_text(fields.get("arguments"))
            )
        case "function_call_output":
            return _read_output(fields, optional_str(fields.get("call_id")) or "")
        case "mcp_call" if (name := optional_str(fields.get("name"))) is not None:
            return ToolCall(mcp_call_id(fields) or f"call_{index}", name, mcp_arguments(fields))
        case "reasoning":
            return _read_reasoning(fields)
        case "mcp_approval_response":
            return Message("user", (_read_approval(fields),))
        case _:
            return _read_other_item(fields, kind, index, call_ids) or Data(f"{RAW}{kind or 'item'}", ensure_json(item))


def _read_message(item: Object, role_text: str) -> Message:
    if not item.keys().isdisjoint(_CHAT_KEYS) and any(item.get(key) is not None for key in _CHAT_KEYS):
        return chat_completions.read([item])[0]
    role, name = ROLE_ALIASES.get(role_text), None
    if role is None:
        role, name = parse_role(role_text)
    content = content_of(item)
    parts = read_content(content)
    if role == "tool":  # Without a call id.
        return Message("tool", (ToolResult("", join_texts_or_json(parts, content)),))
    message_name = optional_str(item.get("name"))
    return Message(role, parts, optional_str(item.get("id")), name if message_name is None else message_name)


def _read_call(item: Object, index: int, name: str, arguments: str) -> ToolCall:
    call_id = optional_str(item.get("call_id"))
    if call_id is None:
        call_id = optional_str(item.get("id")) or f"call_{index}"
    return ToolCall(call_id, name, arguments)


def _read_output(item: Object, call_id: str) -> Message:
    return Message(
        "tool", (ToolResult(call_id, ensure_json(item.get("output")), item.get("palaver:is_error") is True),)
    )


_SCOPED_CALL_ID = re.compile(r"mcp_[0-9a-hjkmnp-tv-z]{26}_(.+)", re.DOTALL)
"""The item id of a call in a response of Palaver: the id of its run, and the id of the call."""


def mcp_call_id(item: Object) -> str | None:
    """Return the call id of an `mcp_call`: the original one if the item is Palaver's, else the id of the item."""
    item_id = optional_str(item.get("id"))
    match = _SCOPED_CALL_ID.fullmatch(item_id) if item_id is not None else None
    short_id = match[1] if match is not None and not is_truncated_id(match[0]) else item_id
    return optional_str(item.get("palaver:call_id")) or short_id


def mcp_arguments(item: Object) -> str:
    """Return the arguments of an `mcp_call`. Palaver encodes arguments that are not JSON as a JSON string."""
    text = argument_text(item.get("arguments"))
    decoded = json.parse_or_text(text) if text.startswith('"') else text
    return decoded if isinstance(decoded, str) else text


def read_mcp_result(item: Object) -> ToolResult | None:
    """Return the result in an `mcp_call`; None if the call was not completed."""
    call_id, output, error = mcp_call_id(item) or "", item.get("output"), item.get("error")
    if error is not None:
        content = dict_or_empty(error).get("content", error)
        text = join_texts_or_json(read_content(content), content) if is_list(content) else content
        return ToolResult(call_id, ensure_json(text), is_error=True)
    if output is None and item.get("status") != "completed":
        return None
    return ToolResult(call_id, "" if output is None else ensure_json(output))


def _read_reasoning(item: Object) -> Reasoning:
    text = _join_texts(item.get("summary")) or _join_texts(item.get("content"))
    encrypted = optional_str(item.get("encrypted_content"))
    return Reasoning(text, encrypted) if text or encrypted else EMPTY_REASONING


def _join_texts(pieces: Any) -> str:
    texts = [optional_str(piece) or optional_str(dict_or_empty(piece).get("text")) for piece in as_list(pieces)]
    return "\n\n".join([text for text in texts if text])


def _read_approval(item: Object) -> Data:
    value = {"id": item.get("approval_request_id"), "approve": item.get("approve"), "reason": item.get("reason")}
    return Data(APPROVAL_RESPONSE, ensure_json(value))


def _read_other_item(item: Object, kind: str, index: int, call_ids: set[str]) -> ItemContent | None:
    """Read a custom tool's call or output, or an item that is a part; None for an unknown item."""
    name = optional_str(item.get("name"))
    if kind == "custom_tool_call" and name is not None and (arguments := optional_str(item.get("input"))) is not None:
        return _read_call(item, index, name, arguments)
    if (
        kind == "custom_tool_call_output"
        and (call_id := optional_str(item.get("call_id"))) is not None
        and "output" in item
    ):
        return _read_output(item, call_id)
    if kind == "mcp_approval_request" and name is not None and (request_id := optional_str(item.get("id"))) is not None:
        call_id = request_id if request_id in call_ids else None
        value = {"id": request_id, "call_id": call_id, "name": name, "arguments": argument_text(item.get("arguments"))}
        return Data(APPROVAL_REQUEST, value)
    if kind == "palaver:data" and name is not None:
        return Data(name, ensure_json(item.get("value")))
    if kind == "palaver:file" and (media_type := optional_str(item.get("media_type"))) is not None:
        return File(
            media_type, *[optional_str(item.get(key)) for key in ("url", "data", "file_id", "filename", "detail")]
        )
    return None


# Writing


def _write_items(message: Message) -> Iterable[dict[str, Any]]:
    if message.role == "tool":
        yield from map(_write_result, message.tool_results)
        return
    is_assistant = message.role == "assistant"
    message_id, contents, needs_message_item = message.id, list[dict[str, Any]](), not is_assistant
    for part in message.parts:
        content = write_assistant_content(part) if is_assistant else write_input_content(part)
        if content is not None:
            contents.append(content)
            continue
        item = _write_item(part, is_assistant=is_assistant)
        if item is not None:
            if contents:
                yield _message_item(message.role, contents, message_id)
                message_id, contents = None, []  # Two items must not have one id.
            yield item
            needs_message_item = False
    if contents or needs_message_item:
        yield _message_item(message.role, contents, message_id)


def _message_item(role: Role, contents: list[dict[str, Any]], message_id: str | None) -> dict[str, Any]:
    return {"type": "message", **without_none(id=message_id), "role": role, "content": contents}


def _write_item(part: Part, *, is_assistant: bool) -> dict[str, Any] | None:
    """Return the part as an item; other roles than the assistant only have results and approvals."""
    match part:
        case ToolResult():
            return _write_result(part)
        case Data(name="approval-response", value={"id": str(request_id), "approve": bool(approve)}):
            reason = optional_str(dict_or_empty(part.value).get("reason"))
            item = {"type": "mcp_approval_response", "approval_request_id": request_id, "approve": approve}
            return {**item, **without_none(reason=reason)}
        case _ if not is_assistant:
            return None
        case ToolCall(call_id=call_id, name=name, arguments=arguments):
            return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
        case Reasoning(text=text, encrypted=encrypted) if text or encrypted:
            summary = [{"type": "summary_text", "text": text}] if text else []
            return {"type": "reasoning", "summary": summary, **without_none(encrypted_content=encrypted)}
        case File():
            fields = without_none(media_type=part.media_type, url=part.url, data=part.data, file_id=part.file_id)
            return {"type": "palaver:file", **fields, **without_none(filename=part.filename, detail=part.detail)}
        case Data():
            return _write_data(part)
        case _:
            return None


def _write_data(part: Data) -> dict[str, Any]:
    value = dict_or_empty(part.value)
    match value:
        case {"id": str(request_id), "name": str(name), "arguments": str(arguments)} if part.name == APPROVAL_REQUEST:
            item = {"type": "mcp_approval_request", "id": request_id, "name": name, "arguments": arguments}
            return {**item, "server_label": "palaver"}
        case _ if part.name.startswith(RAW):
            if optional_str(value.get("type")) and is_round_trip(part, lambda item: _read_item(item, 0, set())):
                return part.value
        case _:
            pass
    return {"type": "palaver:data", "name": part.name, "value": part.value}


def _write_result(result: ToolResult) -> dict[str, Any]:
    output = result.output if _is_content(result.output) else result_text(result.output)
    item: dict[str, Any] = {"type": "function_call_output", "call_id": result.call_id, "output": output}
    return {**item, "palaver:is_error": True} if result.is_error else item


def _is_content(output: Any) -> bool:
    kinds = ("input_text", "input_image", "input_file")
    return bool(output) and is_list(output) and all(dict_or_empty(part).get("type") in kinds for part in output)
