"""The usual shapes of Anthropic's messages: text, thinking, calls, results and files as their SDKs write them.

Recognised and read in one loop over the elements: the shape of an element is its message, or a list of several. Text
alone is written as in Chat Completions. It stands in nearly every list, and reads the same here if it has nothing but
fields that are known; in a block of another kind, which is Anthropic's alone, there may stand anything beside.
"""

from base64 import b64encode
from typing import Any

import msgspec

from palaver.core.dialects.pieces import UNKNOWN_MEDIA, Object, argument_text, file_at, kept, listed, mapping, string
from palaver.core.dialects.roles import ROLES
from palaver.core.dialects.usual import Unusual, from_first
from palaver.core.messages import Message, Role
from palaver.core.parts import File, Part, Reasoning, Text, ToolCall, ToolResult

TEXTS = ("text", "input_text", "output_text")
_OBJECT, _LIST = (dict,), (list,)
_SPEAKERS: dict[Any, Role] = {written: role for written, role in ROLES.items() if role != "tool"}
_FIELDS = frozenset(
    "role content id type stop_reason stop_sequence stop_details model usage container context_management".split()
)
"""What a message that is sent or a whole answer may have."""
_TEXT_FIELDS = frozenset("type text citations cache_control".split())
_encode = msgspec.json.Encoder().encode


def shapes(elements: list[Any]) -> list[Any]:
    """Of each its message, or a list of several, as far as all have a usual shape, then None."""
    found: list[Any] = []
    objects: list[Object] = elements
    try:
        for element in objects:
            content, role = element["content"], _SPEAKERS[element["role"]]
            if type(element) is not dict:
                raise Unusual
            own_id = None if len(element) == 2 else _id(element)
            if type(content) is str:
                found.append(Message(role, (Text(content),) if content else (), own_id))
                continue
            blocks: list[Object] = content
            if type(blocks) is not list:
                raise Unusual
            if len(blocks) == 1:
                block = blocks[0]
                kind = block["type"]
                if kind == "text" and len(block) == 2 and type(block) is dict:
                    text = block["text"]
                    if text and type(text) is str:
                        found.append(Message(role, (Text(text),), own_id))  # Words and nothing else, as in most.
                        continue
                elif kind == "tool_result":
                    found.append(Message("tool", (_result(block),), own_id))
                    continue
                elif kind == "tool_use":
                    found.append(Message(role, (_call(block),), own_id))
                    continue
            found.append(_messages(blocks, role, own_id))
    except Exception:  # It is unusual, or holds what is no JSON and may raise anything.
        return from_first(elements, found)
    return found


def _id(element: Object) -> str | None:
    """Its id, if it is usual; a message of that type without a reason to stop is somebody else's."""
    own_id = element.get("id")
    if not _FIELDS.issuperset(element) or (own_id is not None and type(own_id) is not str):
        raise Unusual
    if "type" in element and (element["type"] != "message" or "stop_reason" not in element):
        raise Unusual
    return own_id


def _messages(blocks: list[Object], role: Role, own_id: str | None) -> Message | list[Message]:
    """What is said up to some results, the results one by one, what is said after them; the first has the id."""
    messages: list[Message] = []
    parts: list[Part] = []
    calls: set[str] | None = None
    for block in blocks:
        kind = block["type"]
        if type(block) is not dict:
            raise Unusual
        if kind == "text":
            text = block["text"]
            if type(text) is not str or (len(block) != 2 and not _is_bare(block)):
                raise Unusual
            if text:
                parts.append(Text(text))
        elif kind == "tool_result":
            if parts:
                messages.append(Message(role, tuple(parts), own_id))
                parts, own_id = [], None
            messages.append(Message("tool", (_result(block),), own_id))
            own_id = None
        elif kind == "tool_use":
            call = _call(block)
            calls = calls or set()
            if call.call_id not in calls:
                calls.add(call.call_id)
                parts.append(call)
        elif (part := _seldom(block, kind)) is not None:
            parts.append(part)
    if not messages:
        return Message(role, tuple(parts), own_id)
    if parts:
        messages.append(Message(role, tuple(parts), own_id))
    return messages if len(messages) > 1 else messages[0]


def _result(block: Object) -> ToolResult:
    call_id, told = block["tool_use_id"], block.get("content")
    if type(call_id) is not str or type(block) is not dict:
        raise Unusual
    failed = "is_error" in block and block["is_error"] is True
    return ToolResult(call_id, told if type(told) is str else output(told), failed)


def _call(block: Object) -> ToolCall:
    call_id, name, given = block["id"], block["name"], block["input"]
    if not (type(call_id) is type(name) is str and type(block) is dict):
        raise Unusual
    return ToolCall(call_id, name, _encode(given).decode() if type(given) in _OBJECT else argument_text(given))


def _is_bare(block: Object) -> bool:
    """Is it a text that cites nothing?"""
    cited = block.get("citations")
    return (cited is None or cited == []) and _TEXT_FIELDS.issuperset(block)


def _seldom(block: Object, kind: Any) -> Part | None:
    """Files and thoughts; None for thoughts of nothing."""
    if kind == "image" or kind == "document":  # noqa: PLR1714 - a tuple costs more
        source: Object = block["source"]
        title = string(block["title"]) if "title" in block else None
        part = file_from(source, title, "image/*" if kind == "image" else UNKNOWN_MEDIA)
        if part is None or type(source) is not dict:
            raise Unusual
        return part
    if kind == "thinking":
        thought, signature = block["thinking"], block.get("signature")
        if type(thought) is not str or (signature is not None and type(signature) is not str):
            raise Unusual
        return Reasoning(thought, signature or None) if thought or signature else None
    data = block["data"]
    if kind != "redacted_thinking" or type(data) is not str:
        raise Unusual
    return Reasoning("", data) if data else None


# For the long way too


def output(content: Any) -> Any:
    """A result's content; blocks of text are their text."""
    if type(content) is str or content is None:
        return content
    blocks: list[Any] = content if type(content) in _LIST else listed(content)
    if len(blocks) == 1 and type(blocks[0]) in _OBJECT and blocks[0].get("type") == "text":
        text = blocks[0].get("text")
        if type(text) is str:
            return text  # Most are.
    texts: list[str] = []
    for item in blocks:
        block = item if type(item) in _OBJECT else mapping(item)
        text = block.get("text") if block.get("type") in TEXTS else item
        if type(text) is not str and (text := string(text)) is None:
            return kept(content)
        texts.append(text)
    return texts[0] if len(texts) == 1 else "".join(texts)


def file_from(source: Object, title: str | None, unknown: str) -> File | None:
    """A file by where it is, None where that is nowhere we know; the media type of what is unknown tells an image."""
    kind = source.get("type")
    if kind == "url":
        url = string(source.get("url"))
        media_type = unknown if unknown == "image/*" else "application/pdf"  # Of documents, only that may be elsewhere.
        if url is None or url[:5] != "data:":
            return None if url is None else File(media_type, url, None, None, title)
        return file_at(url, media_type, filename=title)
    if kind == "file" and (file_id := string(source.get("file_id"))) is not None:
        return File(unknown, file_id=file_id, filename=title)
    data, media_type = string(source.get("data")), string(source.get("media_type"))
    if kind == "base64" and data is not None:
        return File(media_type or unknown, data=data, filename=title)
    if kind == "text" and data is not None:
        return File(media_type or "text/plain", data=base64(data), filename=title)
    return None


def base64(text: str) -> str:
    """How the text of a document is kept: as the content of a file."""
    return b64encode(text.encode(errors="replace")).decode()
