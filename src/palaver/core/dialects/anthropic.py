"""Anthropic Messages: `{"role": "assistant", "content": [{"type": "tool_use", …}]}`.

Tool results live in a user's message, before what the user says: reading cuts them out, writing puts them back. What we
do not know, a provider's own tools among it, is kept raw. Our own addition is the block `palaver:data`.
"""

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, cast

import msgspec

from palaver.core.dialects import chat_completions
from palaver.core.dialects.pieces import (
    UNKNOWN_MEDIA,
    Object,
    argument_text,
    content_of,
    file_at,
    given,
    listed,
    mapping,
    result_text,
    string,
)
from palaver.core.dialects.roles import role_of
from palaver.core.messages import Message, Role
from palaver.core.parts import Annotation, Data, File, Part, Reasoning, Refusal, Text, ToolCall, ToolResult
from palaver.core.recognition import actor

LOSSES: Sequence[str] = (
    "ids, names and metadata of messages; a developer's message becomes the system's",
    "results inside a message that is not a tool's become tool messages, and split it; what else a tool message holds",
    "empty texts, refusals and reasoning vanish; annotations; a refusal becomes text",
    "an empty signature of reasoning; reasoning that has nothing else is redacted",
    "a second call of the same id in one message",
    "arguments that are an object keep their value, not their text; none become `{}`",
    "a tool result that is not text, nothing or blocks becomes its JSON text; blocks of text become one text",
    "a file's media type where its content is elsewhere (an image stays one), and all but one of its places",
    "the filename of an image, the detail of any file",
)

_RAW = "anthropic:"
_RESULT_BLOCKS = frozenset("text image document search_result tool_reference".split())


def read(elements: Sequence[Any]) -> list[Message]:
    """One message per element, and one more for every tool result in it."""
    return [message for index, element in enumerate(elements) for message in _messages(mapping(element), index)]


def write(messages: Sequence[Message]) -> list[Any]:
    """Dicts as the Anthropic SDKs send them; results and what the user says after them are one message."""
    written: list[Any] = []
    open_results: list[Any] | None = None
    for role, parts in (run for message in messages for run in _runs(message)):
        blocks = [block for part in parts if (block := _written(part)) is not None]
        if open_results is not None and blocks and role in ("tool", "user"):
            open_results += blocks
        else:
            written.append({"role": "user" if role == "tool" else role, "content": _content(blocks)})
            open_results = blocks
        if role != "tool":
            open_results = None
    return written


# Reading


def _messages(element: Object, index: int) -> list[Message]:
    role, name = role_of(actor(element) or "", answers_a_call="tool_call_id" in element)
    own_name, content = string(element.get("name")), content_of(element)
    name = name if own_name is None else own_name
    parts = _parts(element, content, index)
    if role == "tool":
        if not any(isinstance(part, ToolResult) for part in parts):
            result = ToolResult(call_id=string(element.get("tool_call_id")) or "", output=_output(content))
            return [Message(role="tool", parts=(result,), id=string(element.get("id")), name=name)]
        role = "user"
    messages = _cut(parts, role, name) or [Message(role=role, parts=(), name=name)]
    own_id = string(element.get("id"))
    if own_id is not None:
        messages[0] = msgspec.structs.replace(messages[0], id=own_id)
    return messages


def _cut(parts: Sequence[Part], role: Role, name: str | None) -> list[Message]:
    """What is said up to some results, the results one by one, what is said after them, and so on."""
    messages: list[Message] = []
    for are_results, run in groupby(parts, lambda part: isinstance(part, ToolResult)):
        if are_results:
            messages += [Message(role="tool", parts=(result,)) for result in run]
        else:
            messages.append(Message(role=role, parts=tuple(run), name=name))
    return messages


def _parts(element: Object, content: Any, index: int) -> list[Part]:
    """What the content holds, and calls that stand beside it as in Chat Completions; no call twice."""
    parts: list[Part] = []
    calls: set[str] = set()
    inside = (_part(item, f"call_{index}_{place}") for place, item in enumerate(listed(content)))
    for part in (*inside, *_calls_beside(element)):
        if isinstance(part, ToolCall):
            if part.call_id in calls:
                continue
            calls.add(part.call_id)
        if part is not None:
            parts.append(part)
    return parts


def _calls_beside(element: Object) -> Sequence[ToolCall]:
    fields = {key: element[key] for key in ("tool_calls", "function_call", "additional_kwargs") if key in element}
    return chat_completions.read([{"role": "assistant", **fields}])[0].tool_calls if fields else ()


def _part(item: Any, otherwise: str) -> Part | None:
    match item:
        case str(text) | {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            return Text(text=text, annotations=_annotations(item)) if text else None
        case {"type": "thinking", "thinking": str(text)} | {"type": "reasoning", "text": str(text)}:
            signature = string(mapping(item).get("signature")) or None
            return Reasoning(text=text, encrypted=signature) if text or signature else None
        case {"type": "redacted_thinking", "data": str(data)}:
            return Reasoning(text="", encrypted=data) if data else None
        case {"type": "tool_use", **fields}:
            call_id = string(fields.get("id"))
            return ToolCall(
                call_id=otherwise if call_id is None else call_id,
                name=string(fields.get("name")) or "",
                arguments=argument_text(fields.get("input")),
            )
        case {"type": "tool_result", **fields}:
            call_id, failed = string(fields.get("tool_use_id")) or "", fields.get("is_error") is True
            return ToolResult(call_id=call_id, output=_output(fields.get("content")), is_error=failed)
        case {"type": "image" | "document", "source": {"type": str()} as source}:
            return _file(mapping(item), cast("Object", source)) or _raw(item)
        case {"type": "image_url", "image_url": str(url) | {"url": str(url)}}:
            return file_at(url, "image/*")
        case {"type": "palaver:data", "source": {"name": str(name), "value": value}}:
            return Data(name=name, value=value)
        case {"text": str(text), **rest} if "type" not in rest:
            return Text(text=text) if text else None
        case _:
            return _raw(item)


def _raw(item: Any) -> Data:
    return Data(name=f"{_RAW}{string(mapping(item).get('type')) or 'part'}", value=item)


def _output(content: Any) -> Any:
    """A result's content; blocks of text are their text."""
    if content is None or isinstance(content, str):
        return content
    texts: list[str] = []
    for item in listed(content):
        match item:
            case str(text) | {"type": "text" | "input_text" | "output_text", "text": str(text)}:
                texts.append(text)
            case _:
                return content
    return "".join(texts)


def _file(block: Object, source: Object) -> File | None:
    is_image, title = block["type"] == "image", string(block.get("title"))
    media_type = string(source.get("media_type"))
    match source:
        case {"type": "base64", "data": str(data)}:
            known = media_type or ("image/*" if is_image else UNKNOWN_MEDIA)
            return File(media_type=known, data=data, filename=title)
        case {"type": "text", "data": str(text)}:
            return File(media_type=media_type or "text/plain", data=_base64(text), filename=title)
        case {"type": "url", "url": str(url)}:  # Of documents, only a PDF may be elsewhere.
            return file_at(url, "image/*" if is_image else "application/pdf", filename=title)
        case {"type": "file", "file_id": str(file_id)}:
            return File(media_type="image/*" if is_image else UNKNOWN_MEDIA, file_id=file_id, filename=title)
        case _:
            return None


def _base64(text: str) -> str:
    return b64encode(text.encode(errors="replace")).decode()


def _annotations(item: Any) -> tuple[Annotation, ...]:
    """What a text cites. Places in the source are not places in the text, so they are not read."""
    notes: list[Annotation] = []
    for citation in listed(mapping(item).get("citations")):
        match citation:
            case {"type": "web_search_result_location", "url": str(url), **rest}:
                notes.append(Annotation(kind="url", url=url, title=string(rest.get("title"))))
            case {"type": "search_result_location", "source": str(url), **rest}:
                notes.append(Annotation(kind="url", url=url, title=string(rest.get("title"))))
            case {"type": "char_location" | "page_location" | "content_block_location", **rest}:
                title, file_id = string(rest.get("document_title")), string(rest.get("file_id"))
                notes.append(Annotation(kind="file", title=title, file_id=file_id))
            case _:
                pass
    return tuple(notes)


# Writing


def _runs(message: Message) -> Iterable[tuple[Role, Sequence[Part]]]:
    """Who says what: results are a tool's, wherever they stand."""
    if message.role == "tool":
        if message.tool_results:
            yield "tool", message.tool_results
        return
    role = "system" if message.role == "developer" else message.role
    if not message.parts:
        yield role, ()
    for are_results, parts in groupby(message.parts, lambda part: isinstance(part, ToolResult)):
        yield ("tool" if are_results else role), tuple(parts)


def _content(blocks: list[Any]) -> str | list[Any]:
    """One text alone is a string, and so is nothing at all."""
    match blocks:
        case []:
            return ""
        case [{"type": "text", "text": str(text)}]:
            return text
        case _:
            return blocks


def _written(part: Part) -> dict[str, Any] | None:
    match part:
        case Text(text=text) | Refusal(text=text):
            return {"type": "text", "text": text} if text else None
        case Reasoning(text="", encrypted=encrypted):
            return {"type": "redacted_thinking", "data": encrypted} if encrypted else None
        case Reasoning(text=text, encrypted=encrypted):
            return {"type": "thinking", "thinking": text, "signature": encrypted or ""}
        case ToolCall(call_id=call_id, name=name):
            value = part.parsed
            arguments = mapping(value) if isinstance(value, dict) else part.arguments
            return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
        case ToolResult(call_id=call_id, is_error=is_error):
            told = given(content=_written_output(part.output), is_error=is_error or None)
            return {"type": "tool_result", "tool_use_id": call_id, **told}
        case File():
            return _written_file(part)
        case Data(name=name, value=value):
            return value if _is_raw(part) else {"type": "palaver:data", "source": {"name": name, "value": value}}


def _written_output(output: Any) -> Any:
    """Blocks that a result may hold go as they are."""
    if output is None:
        return None
    blocks = cast("list[Any]", output) if isinstance(output, list) else []
    if blocks and all(string(mapping(block).get("type")) in _RESULT_BLOCKS for block in blocks):
        return blocks
    return result_text(output)


def _written_file(file: File) -> dict[str, Any]:
    if file.media_type.startswith("image/"):
        return {"type": "image", "source": _source(file)}
    return {"type": "document", "source": _source(file), **given(title=file.filename)}


def _source(file: File) -> dict[str, Any]:
    if file.file_id is not None:
        return {"type": "file", "file_id": file.file_id}
    if file.url is not None:
        return {"type": "url", "url": file.url}
    data = file.data or ""
    text = _plain_text(data) if file.media_type == "text/plain" else None
    if text is not None:
        return {"type": "text", "media_type": file.media_type, "data": text}
    return {"type": "base64", "media_type": file.media_type, "data": data}


def _plain_text(data: str) -> str | None:
    """The text that is read as this very data, if there is one: a document of text is not sent as base64."""
    try:
        text = b64decode(data, validate=True).decode()
    except (NotBase64, ValueError):
        return None
    return text if _base64(text) == data else None


def _is_raw(part: Data) -> bool:
    """Would its value be read as this very part, and not as a call, say, that nobody made?"""
    kind = mapping(part.value).get("type")
    if part.name != f"{_RAW}{kind}" or kind in ("tool_use", "tool_result"):
        return False
    read_back = _part(part.value, "")
    return isinstance(read_back, Data) and read_back.name == part.name and read_back.value is part.value
