"""The usual shapes of Responses: messages, reasoning, calls, results and more as the OpenAI SDKs write them, our data.

Every item names its type but a message, which need not if what it holds is found in this dialect only. Between them
often stands plain text, written as in Chat Completions: it is taken along, and stands alone as it does there.
"""

from collections.abc import Iterable, Sequence
from itertools import compress, repeat
from typing import Annotated, Any, Union

import msgspec
from msgspec import Meta

from palaver.core.dialects.pieces import file_at, kept
from palaver.core.dialects.responses_content import RAW, attached
from palaver.core.dialects.roles import ROLES
from palaver.core.dialects.usual import Shape, Speaker, listing, shaped
from palaver.core.messages import Message
from palaver.core.parts import Annotation, Data, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

_Words = Annotated[str, Meta(min_length=1)]
"""Those that say something; what says nothing is left out, the long way."""


class _Cited(Shape, tag_field="type", tag="url_citation"):
    url: str
    title: str | None = None
    start_index: int | None = None
    end_index: int | None = None


class _CitedFile(Shape, tag_field="type", tag="file_citation"):
    file_id: str
    filename: str | None = None
    index: int | None = None


class _OutputText(Shape, tag_field="type", tag="output_text"):
    text: _Words
    annotations: list[_Cited | _CitedFile] | None = None
    logprobs: Any = None
    parsed: Any = None


class _InputText(Shape, tag_field="type", tag="input_text"):
    text: _Words


class _Image(Shape, tag_field="type", tag="input_image"):
    image_url: str
    detail: str | None = None
    file_id: str | None = None


class _Attached(Shape, tag_field="type", tag="input_file"):
    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None
    filename: str | None = None


class _Text(Shape, tag_field="type", tag="text"):
    text: _Words


class _Refusal(Shape, tag_field="type", tag="refusal"):
    refusal: str


_Own = _InputText | _OutputText | _Image | _Attached
"""What is found in this dialect only."""


class _Message(Shape, tag_field="type", tag="message"):
    role: Speaker
    content: list[_Own | _Text | _Refusal] | str
    id: str | None = None
    status: Any = None
    name: str | None = None
    phase: Any = None


class _Untyped(Shape):
    role: Speaker
    content: Annotated[list[_Own], Meta(min_length=1)] | str
    id: str | None = None
    status: Any = None
    name: str | None = None


class _Call(Shape, tag_field="type", tag="function_call"):
    call_id: str
    name: str
    arguments: str
    id: Any = None
    status: Any = None
    namespace: Any = None
    caller: Any = None
    created_by: Any = None


class _CustomCall(Shape, tag_field="type", tag="custom_tool_call"):
    call_id: str
    name: str
    input: str
    id: Any = None
    status: Any = None
    namespace: Any = None
    caller: Any = None


class _Output(Shape, tag_field="type", tag="function_call_output", rename={"is_error": "palaver:is_error"}):
    call_id: str
    output: Any
    id: Any = None
    status: Any = None
    is_error: bool = False
    created_by: Any = None


class _CustomOutput(Shape, tag_field="type", tag="custom_tool_call_output"):
    call_id: str
    output: Any
    id: Any = None
    status: Any = None


class _Thought(Shape):
    text: str
    type: str = ""


class _Reasoning(Shape, tag_field="type", tag="reasoning"):
    summary: list[_Thought]
    content: list[_Thought] | None = None
    encrypted_content: str | None = None
    id: Any = None
    status: Any = None


class _Data(Shape, tag_field="type", tag="palaver:data"):
    name: str
    value: Any = None
    id: Any = None
    status: Any = None


class _Kept(msgspec.Struct, gc=False):
    """What the provider's own tools did: kept as it is, whatever its fields but those that would tell otherwise."""

    id: str
    role: None = None
    sender: None = None
    author: None = None
    lc: None = None


_TOOLS = "web_search file_search code_interpreter image_generation computer local_shell shell apply_patch mcp".split()
_KEPT = [
    msgspec.defstruct("_Kept", [], bases=(_Kept,), tag_field="type", tag=tag, gc=False)
    for tag in ("mcp_list_tools", "item_reference", *(f"{tool}_call" for tool in _TOOLS))
]
_Item = _Message | _Call | _Output | _Reasoning | _CustomCall | _CustomOutput | _Data
_ITEMS = listing(Union[(_Item, *_KEPT)])
_UNTYPED = listing(_Untyped)

Said = Message | Part | tuple[Message] | None
"""A message, a part of the assistant's turn, or nothing; in brackets a message that nothing joins."""
_CONTENTS = frozenset((list, str, type(None)))


def shapes(elements: list[Any]) -> list[Any]:
    """Of each its shape, None for one that has none; nothing where nothing is certain."""
    found = shaped(elements, _ITEMS)
    if found and found[-1] is None:
        found = _apart(elements, found)
    for shape in found:
        if shape is not None and not isinstance(shape, _Reasoning | _Kept):
            return found if _are_plain(elements, found) else []
    return []  # Reasoning and the like alone are no conversation.


def read(elements: Iterable[Any], shapes: Sequence[Any]) -> list[Said]:
    """What each of these elements says, by its shape."""
    said: list[Said] = []
    for element, shape in zip(elements, shapes, strict=True):
        kind = type(shape)  # pyright: ignore[reportUnknownVariableType]  # Any of the shapes.
        if kind is _Message or kind is _Untyped:
            content: list[Any] | str = shape.content
            piece = content[0] if len(content) == 1 else None
            if type(piece) is _InputText or (type(piece) is _OutputText and not piece.annotations):
                parts: tuple[Part, ...] = (Text(piece.text),)  # Most are: there is nothing more to look at.
            else:
                parts = _parts(content)
            message = Message(ROLES[shape.role], parts, shape.id, shape.name)
            joins = kind is _Message or type(content) is list or message.role != "assistant"
            said.append(message if joins else (message,))
        elif kind is _Call:
            said.append(ToolCall(shape.call_id, shape.name, shape.arguments))
        elif kind is _Output:
            output = shape.output
            result = ToolResult(shape.call_id, output if type(output) is str else kept(output), shape.is_error)
            said.append(Message("tool", (result,)))
        elif kind is _Reasoning:
            text = (shape.summary and _thoughts(shape.summary)) or (_thoughts(shape.content) if shape.content else "")
            said.append(Reasoning(text, shape.encrypted_content) if text or shape.encrypted_content else None)
        else:
            said.append(_seldom(element, shape))
    return said


def _parts(content: list[Any] | str) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    return tuple([_part(piece) for piece in content])


def _seldom(element: Any, shape: _CustomCall | _CustomOutput | _Data | _Kept) -> Said:
    match shape:
        case _CustomCall():
            return ToolCall(shape.call_id, shape.name, shape.input)
        case _CustomOutput():
            return Message("tool", (ToolResult(shape.call_id, kept(shape.output)),))
        case _Data():
            return Data(shape.name, kept(shape.value))
        case _Kept():
            return Data(f"{RAW}{shape.__struct_config__.tag}", kept(element))


def _thoughts(pieces: Sequence[_Thought]) -> str:
    return "\n\n".join([piece.text for piece in pieces if piece.text])


def _part(piece: _Own | _Text | _Refusal) -> Part:
    match piece:
        case _OutputText(annotations=notes) if notes:
            return Text(piece.text, tuple([_noted(note) for note in notes]))
        case _InputText() | _OutputText() | _Text():
            return Text(piece.text)
        case _Image():
            return file_at(piece.image_url, "image/*", detail=piece.detail or None)
        case _Attached():
            return attached(piece.file_data, piece.file_url, piece.file_id, piece.filename)
        case _Refusal():
            return Refusal(piece.refusal)


def _noted(note: _Cited | _CitedFile) -> Annotation:
    if isinstance(note, _Cited):
        return Annotation("url", note.title or None, note.url, None, note.start_index, note.end_index)
    return Annotation("file", note.filename or None, None, note.file_id or None, note.index)


# Whose shapes are asked for


def _apart(elements: list[Any], found: list[Any]) -> list[Any]:
    """The same with more of them, where the first that has none names no type: such are asked about apart."""
    first = elements[next(place for place, shape in enumerate(found) if shape is None)]
    if type(first) is not dict or "type" in first:
        return found
    try:
        typed = [*map(dict[str, Any].__contains__, elements, repeat("type"))]
    except TypeError:  # There is what is no object.
        return found
    untyped = [not is_typed for is_typed in typed]
    items = iter(shaped([*compress(elements, typed)], _ITEMS))
    others = iter(shaped([*compress(elements, untyped)], _UNTYPED))
    return [next(items if is_typed else others) for is_typed in typed]


def _are_plain(elements: list[Any], found: list[Any]) -> bool:
    """Are those found objects that hold lists or text? msgspec would take a tuple for a list, recognition does not."""
    try:
        return _CONTENTS.issuperset(map(type, map(dict[str, Any].get, compress(elements, found), repeat("content"))))
    except TypeError:
        return False
