"""The usual shapes of Anthropic's messages: text, thinking, calls, results and files as their SDKs write them.

Text alone is written as in Chat Completions. It stands in nearly every list, and reads the same here.
"""

from base64 import b64encode
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from palaver.core.dialects.pieces import UNKNOWN_MEDIA, argument_text, file_at, kept, listed, mapping, string
from palaver.core.dialects.roles import ROLES
from palaver.core.dialects.usual import Shape, Speaker, listing, shaped
from palaver.core.messages import Message
from palaver.core.parts import File, Part, Reasoning, Text, ToolCall, ToolResult

_OBJECT = (dict,)
TEXTS = ("text", "input_text", "output_text")


class _Block(Shape, tag_field="type"):
    """What a message holds."""


class _Text(_Block, tag="text"):
    text: str
    citations: Annotated[list[Any], Meta(max_length=0)] | None = None
    cache_control: Any = None


class _Thinking(_Block, tag="thinking"):
    thinking: str
    signature: str | None = None


class _Redacted(_Block, tag="redacted_thinking"):
    data: str


class _Use(_Block, tag="tool_use"):
    id: str
    name: str
    input: Any
    cache_control: Any = None
    caller: Any = None


class _Result(_Block, tag="tool_result"):
    tool_use_id: str
    content: Any = None
    is_error: bool | None = None
    cache_control: Any = None


class _Base64(_Block, tag="base64"):
    data: str
    media_type: str | None = None


class _Url(_Block, tag="url"):
    url: str


class _Stored(_Block, tag="file"):
    file_id: str


class _Words(_Block, tag="text"):
    data: str
    media_type: str | None = None


class _Image(_Block, tag="image"):
    source: _Base64 | _Url | _Stored
    cache_control: Any = None


class _Document(_Block, tag="document"):
    source: _Base64 | _Url | _Stored | _Words
    title: str | None = None
    context: Any = None
    citations: Any = None
    cache_control: Any = None


class _Usual(Shape):
    """A message as it is sent, or a whole answer."""

    role: Speaker
    content: str | list[_Text | _Thinking | _Redacted | _Use | _Result | _Image | _Document]
    id: str | None = None
    type: Literal["message"] | UnsetType = UNSET
    stop_reason: str | UnsetType | None = UNSET
    stop_sequence: Any = None
    stop_details: Any = None
    model: Any = None
    usage: Any = None
    container: Any = None
    context_management: Any = None


_USUAL = listing(_Usual)


def shapes(elements: list[Any]) -> list[Any]:
    """Of each its shape, as far as all have one; a message of that type without a reason to stop is somebody else's."""
    found = shaped(elements, _USUAL)
    return [shape if shape and (shape.type is UNSET or shape.stop_reason is not UNSET) else None for shape in found]


def read(shapes: Sequence[_Usual]) -> list[Message]:
    """The messages of elements each of which has a shape.

    Of one: what is said up to some results, the results one by one, what is said after them; the first has the id.
    """
    messages: list[Message] = []
    for shape in shapes:
        content: Any = shape.content
        role, own_id = ROLES[shape.role], shape.id
        if content.__class__ is str:
            messages.append(Message(role, (Text(content),) if content else (), own_id))
            continue
        parts: list[Part] = []
        calls: set[str] | None = None
        is_cut = False
        for block in content:
            kind = block.__class__
            if kind is _Text:
                if text := block.text:
                    parts.append(Text(text))
            elif kind is _Result:
                if parts:
                    messages.append(Message(role, tuple(parts), own_id))
                    parts, own_id = [], None
                told = block.content
                told = told if told.__class__ is str else output(told)
                messages.append(Message("tool", (ToolResult(block.tool_use_id, told, block.is_error is True),), own_id))
                own_id, is_cut = None, True
            elif kind is _Use:
                call_id = block.id
                if calls is None:
                    calls = {call_id}
                elif call_id in calls:
                    continue
                calls.add(call_id)
                parts.append(ToolCall(call_id, block.name, argument_text(block.input)))
            elif kind is _Thinking:
                if block.thinking or block.signature:
                    parts.append(Reasoning(block.thinking, block.signature or None))
            elif kind is not _Redacted:
                parts.append(_file(block))
            elif block.data:
                parts.append(Reasoning("", block.data))
        if parts or not is_cut:
            messages.append(Message(role, tuple(parts), own_id))
    return messages


def _file(block: _Image | _Document) -> File:
    source, is_image = block.source, isinstance(block, _Image)
    unknown, title = ("image/*", None) if isinstance(block, _Image) else (UNKNOWN_MEDIA, block.title)
    match source:
        case _Base64(data=data):
            return File(source.media_type or unknown, None, data, None, title)
        case _Url(url=url):
            return file_at(url, "image/*" if is_image else "application/pdf", filename=title)
        case _Stored(file_id=file_id):
            return File(unknown, None, None, file_id, title)
        case _Words(data=text):
            return File(source.media_type or "text/plain", None, base64(text), None, title)


# For the long way too


def output(content: Any) -> Any:
    """A result's content; blocks of text are their text."""
    if type(content) is str or content is None:
        return content
    texts: list[str] = []
    for item in listed(content):
        block = item if type(item) in _OBJECT else mapping(item)
        text = block.get("text") if block.get("type") in TEXTS else item
        if type(text) is not str and (text := string(text)) is None:
            return kept(content)
        texts.append(text)
    return texts[0] if len(texts) == 1 else "".join(texts)


def base64(text: str) -> str:
    """How the text of a document is kept: as the content of a file."""
    return b64encode(text.encode(errors="replace")).decode()
