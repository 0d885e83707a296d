"""Anthropic Messages: `{"role": "assistant", "content": [{"type": "tool_use", …}]}`.

Tool results are in a user message, before the user's text: reading splits them off, writing merges them back. Unknown
blocks, such as those of server-side tools, are kept raw. The block `palaver:data` is a Palaver extension.
"""

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

from palaver.core.dialects import chat_completions
from palaver.core.dialects.detection import content_of, read_role
from palaver.core.json import (
    Object,
    argument_text,
    as_list,
    dict_or_empty,
    ensure_json,
    optional_str,
    result_text,
    without_none,
)
from palaver.core.messages import (
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
    split_results,
)

LOSSES: Sequence[str] = (
    "Messages lose their ids, names and metadata.",
    "Developer messages become system messages.",
    "Tool results outside tool messages become separate tool messages.",
    "Tool messages lose all parts except tool results.",
    "Empty text, refusals and reasoning are dropped.",
    "Refusals become text.",
    "Annotations are lost.",
    "Empty reasoning signatures are lost.",
    "Reasoning that has only a signature becomes redacted reasoning.",
    "Of several calls with the same id in one message, only the first is kept.",
    "Call arguments that are an object keep their value but not their exact text.",
    "Empty call arguments become `{}`.",
    "A tool result that is not text, null or content blocks becomes JSON text.",
    "A tool result that consists of text blocks becomes their joined text.",
    "A file whose content is not inline loses its media type, except that an image stays an image.",
    "A file with several locations (id, URL, content) keeps only one.",
    "Images lose their filename.",
    "Files lose their `detail`.",
)

_RAW = "anthropic:"
_TEXT_TYPES = ("text", "input_text", "output_text")
_OBJECT, _LIST = (dict,), (list,)
_REASONING_TYPES = ("thinking", "reasoning")
_WEB_CITATIONS = ("web_search_result_location", "search_result_location")
_FILE_CITATIONS = ("char_location", "page_location", "content_block_location")
_RESULT_BLOCKS = frozenset("text image document search_result tool_reference".split())


def read(elements: Sequence[Any], start: int = 0) -> list[Message]:
    """Return one message per element, and one for every tool result in it."""
    messages: list[Message] = []
    for index, element in enumerate(elements, start):
        messages += _read_messages(dict_or_empty(element), index)
    return messages


def write(messages: Sequence[Message]) -> list[Any]:
    """Return dicts as the Anthropic SDKs send them; results and the user text after them share a message."""
    elements: list[Any] = []
    open_results: list[Any] | None = None
    for role, parts in (group for message in messages for group in _group_by_role(message)):
        blocks = [block for part in parts if (block := _write_part(part)) is not None]
        if open_results is not None and blocks and role in ("tool", "user"):
            open_results += blocks
        else:
            elements.append({"role": "user" if role == "tool" else role, "content": _content(blocks)})
            open_results = blocks
        if role != "tool":
            open_results = None
    return elements


# Reading


def _read_messages(element: Object, index: int) -> list[Message]:
    message_id, name = optional_str(element.get("id")), optional_str(element.get("name"))
    role, role_name = read_role(element, answers_a_call="tool_call_id" in element)
    name = role_name if name is None else name
    content = content_of(element)
    parts = _read_parts(element, content, index)
    if ToolResult not in map(type, parts):
        if role == "tool":
            parts = [ToolResult(optional_str(element.get("tool_call_id")) or "", _read_output(content))]
        return [Message(role, tuple(parts), message_id, name)]
    messages = split_results(Message("user" if role == "tool" else role, tuple(parts), None, name))
    if message_id is not None:
        messages[0] = msgspec.structs.replace(messages[0], id=message_id)
    return messages


def _read_parts(element: Object, content: Any, index: int) -> list[Part]:
    """Return the parts of the content and the calls in Chat Completions fields, without duplicates."""
    parts: list[Part] = []
    calls: dict[str, ToolCall] = {}
    for position, item in enumerate(as_list(content)):
        part = _read_part(item, index, position)
        if type(part) is ToolCall:
            if calls.setdefault(part.call_id, part) is part:
                parts.append(part)
        elif part is not None:
            parts.append(part)
    if extra_calls := chat_completions.read_tool_calls(element, index):
        parts += [call for call in extra_calls if call.call_id not in calls]
    return parts


def _read_part(item: Any, index: int, position: int) -> Part | None:
    fields = {} if type(item) is str else dict_or_empty(item)
    if not fields:
        text = optional_str(item)
        return _keep_raw(item) if text is None else Text(text) if text else None
    kind, text = fields.get("type"), optional_str(fields.get("text"))
    if text is not None and ("type" not in fields or kind in _TEXT_TYPES):
        annotations = _read_citations(fields["citations"]) if "type" in fields and "citations" in fields else ()
        return Text(text, annotations) if text else None
    if kind == "tool_use":
        call_id, name = optional_str(fields.get("id")), optional_str(fields.get("name"))
        call_id = f"call_{index}_{position}" if call_id is None else call_id
        return ToolCall(call_id, name or "", argument_text(fields.get("input")))
    if kind == "tool_result":
        is_error = fields.get("is_error") is True
        return ToolResult(optional_str(fields.get("tool_use_id")) or "", _read_output(fields.get("content")), is_error)
    if kind in _REASONING_TYPES:
        return _read_reasoning(fields, text if kind == "reasoning" else optional_str(fields.get("thinking")))
    if kind == "redacted_thinking" and (data := optional_str(fields.get("data"))) is not None:
        return Reasoning("", data) if data else None
    return _read_file_or_data(fields, kind) or _keep_raw(item)


def _keep_raw(item: Any) -> Data:
    return Data(f"{_RAW}{optional_str(dict_or_empty(item).get('type')) or 'part'}", ensure_json(item))


def _read_reasoning(fields: Object, text: str | None) -> Part | None:
    if text is None:
        return _keep_raw(fields)
    signature = optional_str(fields.get("signature")) or None
    return Reasoning(text, signature) if text or signature else None


def _read_file_or_data(fields: Object, kind: Any) -> Part | None:
    source = dict_or_empty(fields.get("source"))
    if kind in ("image", "document"):
        return _read_file(
            source, optional_str(fields.get("title")), "image/*" if kind == "image" else UNKNOWN_MEDIA_TYPE
        )
    if kind == "image_url":
        image = fields.get("image_url")
        url = optional_str(dict_or_empty(image).get("url") if dict_or_empty(image) else image)
        return None if url is None else file_from_url(url, "image/*")
    if kind == "palaver:data" and (name := optional_str(source.get("name"))) is not None and "value" in source:
        return Data(name, ensure_json(source["value"]))
    return None


def _read_citations(citations: Any) -> tuple[Annotation, ...]:
    """Read citations. Their offsets refer to the source, not to the text, and are ignored."""
    return tuple([note for item in as_list(citations) if (note := _read_citation(dict_or_empty(item))) is not None])


def _read_citation(citation: Object) -> Annotation | None:
    kind = citation.get("type")
    if kind in _WEB_CITATIONS:
        url = optional_str(citation.get("url" if kind == _WEB_CITATIONS[0] else "source"))
        return None if url is None else Annotation("url", optional_str(citation.get("title")), url)
    if kind in _FILE_CITATIONS:
        return Annotation(
            "file", optional_str(citation.get("document_title")), None, optional_str(citation.get("file_id"))
        )
    return None


def _read_output(content: Any) -> Any:
    """Return a result's content; text blocks are joined."""
    if type(content) is str or content is None:
        return content
    blocks: list[Any] = content if type(content) in _LIST else as_list(content)
    if len(blocks) == 1 and type(blocks[0]) in _OBJECT and blocks[0].get("type") == "text":
        text = blocks[0].get("text")
        if type(text) is str:
            return text
    texts: list[str] = []
    for item in blocks:
        block = item if type(item) in _OBJECT else dict_or_empty(item)
        text = block.get("text") if block.get("type") in _TEXT_TYPES else item
        if type(text) is not str and (text := optional_str(text)) is None:
            return ensure_json(content)
        texts.append(text)
    return texts[0] if len(texts) == 1 else "".join(texts)


def _read_file(source: Object, title: str | None, default_type: str) -> File | None:
    """Read a file from its source, or None for an unknown source type; `default_type` is the default media type."""
    kind = source.get("type")
    if kind == "url":
        url = optional_str(source.get("url"))
        media_type = default_type if default_type == "image/*" else "application/pdf"  # The only type allowed by URL.
        if url is None or url[:5] != "data:":
            return None if url is None else File(media_type, url, None, None, title)
        return file_from_url(url, media_type, filename=title)
    if kind == "file" and (file_id := optional_str(source.get("file_id"))) is not None:
        return File(default_type, file_id=file_id, filename=title)
    data, media_type = optional_str(source.get("data")), optional_str(source.get("media_type"))
    if kind == "base64" and data is not None:
        return File(media_type or default_type, data=data, filename=title)
    if kind == "text" and data is not None:
        return File(media_type or "text/plain", data=_encode_text(data), filename=title)
    return None


def _encode_text(text: str) -> str:
    return b64encode(text.encode(errors="replace")).decode()


# Writing


def _group_by_role(message: Message) -> Iterable[tuple[Role, Sequence[Part]]]:
    for piece in split_results(message):
        if piece.role != "tool":
            yield ("system" if piece.role == "developer" else piece.role), piece.parts
        elif piece.tool_results:
            yield "tool", piece.tool_results


def _content(blocks: list[Any]) -> str | list[Any]:
    match blocks:
        case []:
            return ""
        case [{"type": "text", "text": str(text)}]:
            return text
        case _:
            return blocks


def _write_part(part: Part) -> dict[str, Any] | None:
    match part:
        case Text(text=text) | Refusal(text=text):
            return {"type": "text", "text": text} if text else None
        case Reasoning(text="", encrypted=encrypted):
            return {"type": "redacted_thinking", "data": encrypted} if encrypted else None
        case Reasoning(text=text, encrypted=encrypted):
            return {"type": "thinking", "thinking": text, "signature": encrypted or ""}
        case ToolCall(call_id=call_id, name=name):
            value = part.parsed
            arguments = dict_or_empty(value) if isinstance(value, dict) else part.arguments
            return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
        case ToolResult(call_id=call_id, is_error=is_error):
            fields = without_none(content=_write_output(part.output), is_error=is_error or None)
            return {"type": "tool_result", "tool_use_id": call_id, **fields}
        case File():
            return _write_file(part)
        case Data(name=name, value=value):
            return value if _is_raw(part) else {"type": "palaver:data", "source": {"name": name, "value": value}}


def _write_output(output: Any) -> Any:
    """Return content blocks unchanged, anything else as text."""
    if output is None:
        return None
    blocks = cast("list[Any]", output) if isinstance(output, list) else []
    if blocks and all(optional_str(dict_or_empty(block).get("type")) in _RESULT_BLOCKS for block in blocks):
        return blocks
    return result_text(output)


def _write_file(file: File) -> dict[str, Any]:
    if file.media_type.startswith("image/"):
        return {"type": "image", "source": _source(file)}
    return {"type": "document", "source": _source(file), **without_none(title=file.filename)}


def _source(file: File) -> dict[str, Any]:
    if file.file_id is not None:
        return {"type": "file", "file_id": file.file_id}
    if file.url is not None:
        return {"type": "url", "url": file.url}
    data = file.data or ""
    text = _decode_text(data) if file.media_type == "text/plain" else None
    if text is not None:
        return {"type": "text", "media_type": file.media_type, "data": text}
    return {"type": "base64", "media_type": file.media_type, "data": data}


def _decode_text(data: str) -> str | None:
    """Return the text of a plain text document, if it round-trips, so that it is not sent as base64."""
    try:
        text = b64decode(data, validate=True).decode()
    except (NotBase64, ValueError):
        return None
    return text if _encode_text(text) == data else None


def _is_raw(part: Data) -> bool:
    """Whether reading the part's value yields the same part again, and not, for example, a call."""
    kind = dict_or_empty(part.value).get("type")
    if part.name != f"{_RAW}{kind}" or kind in ("tool_use", "tool_result"):
        return False
    read_back = _read_part(part.value, 0, 0)
    return isinstance(read_back, Data) and read_back.name == part.name and read_back.value is part.value
