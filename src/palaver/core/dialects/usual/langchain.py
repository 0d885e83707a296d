"""The usual shapes of LangChain's messages: text, images, reasoning, calls and results, in each of its three forms.

As `model_dump`, `messages_to_dict` and `dumpd` write them. What these say besides, the long way passes over as well.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, final

import msgspec
from msgspec import Meta

from palaver.core.dialects.pieces import argument_text, file_at, first_of_each
from palaver.core.dialects.roles import ROLES
from palaver.core.dialects.usual import Id, Shape, all_shaped, listing, shaped
from palaver.core.messages import Message, Role
from palaver.core.parts import Part, Reasoning, Refusal, Text, ToolCall, ToolResult

_Chunked = Literal["HumanMessageChunk", "AIMessageChunk", "SystemMessageChunk", "ToolMessageChunk"]
_Kind = Literal["human", "ai", "system", "tool", "function"] | _Chunked
_Name = Literal["HumanMessage", "AIMessage", "SystemMessage", "ToolMessage", "FunctionMessage"] | _Chunked
_Empty = Annotated[list[Any], Meta(max_length=0)] | None

_NAMES = ("Human", "AI", "System", "Tool", "Function")
KINDS: Mapping[str, str] = {
    written: name.lower() for name in _NAMES for written in (name.lower(), f"{name}Message", f"{name}MessageChunk")
}
"""What kind of message it is, by its type or by the name of its class."""

_ROLES: Mapping[str, Role] = {written: ROLES[kind] for written, kind in KINDS.items()}
_MANY = 8
"""In fewer it costs more to find that they are not all plain than it saves to know that they are."""


# Blocks of content


@final
class _Text(Shape, tag_field="type", tag="text"):
    text: str
    annotations: _Empty = None
    citations: _Empty = None
    id: Any = None
    index: Any = None
    extras: Any = None
    cache_control: Any = None


@final
class _Url(Shape):
    url: str
    detail: str | None = None


@final
class _Image(Shape, tag_field="type", tag="image_url"):
    image_url: _Url


@final
class _Signed(msgspec.Struct, gc=False):
    """Of which the rest is passed over."""

    signature: str | None = None


@final
class _Thinking(Shape, tag_field="type", tag="thinking"):
    thinking: str
    signature: str | None = None
    index: Any = None


@final
class _Summary(Shape):
    text: str
    type: Any = None
    index: Any = None


@final
class _Reasoning(Shape, tag_field="type", tag="reasoning"):
    reasoning: str | None = None
    summary: list[_Summary] | None = None
    encrypted_content: str | None = None
    extras: _Signed | None = None
    id: Any = None
    index: Any = None
    status: Any = None


@final
class _ToolUse(Shape, tag_field="type", tag="tool_use"):
    """Anthropic's."""

    id: Id
    name: Id
    input: Any
    index: Any = None
    caller: Any = None


@final
class _CallBlock(Shape, tag_field="type", tag="tool_call"):
    """LangChain's own."""

    id: Id
    name: Id
    args: Any
    index: Any = None
    extras: Any = None


@final
class _FunctionCall(Shape, tag_field="type", tag="function_call"):
    """Of Responses."""

    call_id: Id
    name: Id
    arguments: str
    id: Any = None
    index: Any = None
    status: Any = None


_Block = _Text | _Image | _Thinking | _Reasoning | _ToolUse | _CallBlock | _FunctionCall


# Calls beside the content


@final
class _Call(Shape):
    id: Id
    name: Id
    args: Any
    type: Any = None
    index: Any = None
    error: Any = None
    extras: Any = None


@final
class _Chunk(Shape):
    id: str | None = None
    args: str | None = None
    name: Any = None
    type: Any = None
    index: Any = None


@final
class _Function(Shape):
    name: Id
    arguments: str


@final
class _Exact(Shape):
    id: Id
    function: _Function
    type: Any = None
    index: Any = None


@final
class _Extra(msgspec.Struct, gc=False):
    """What providers say besides, of which nobody reads more than this."""

    tool_calls: list[_Exact] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    openai_role: str | None = msgspec.field(default=None, name="__openai_role__")
    reasoning: None = None
    function_call: None = None


_NO_EXTRA = _Extra()


# Messages


class _Said(Shape, kw_only=True):
    content: str | list[str | _Block]
    response_metadata: Any = None
    name: str | None = None
    id: str | None = None
    example: Any = None
    tool_calls: list[_Call] | None = None
    invalid_tool_calls: list[_Call] | None = None
    usage_metadata: Any = None
    tool_call_chunks: list[_Chunk] | None = None
    chunk_position: Any = None
    tool_call_id: str | None = None
    status: str | None = None
    artifact: Any = None


@final
class _Bare(_Said, kw_only=True):
    type: Literal["human", "ai", "HumanMessageChunk", "AIMessageChunk"]
    additional_kwargs: _Extra | None = None


@final
class _Flat(_Said, kw_only=True):
    """Certainly a message: others of these types might be rows of a log."""

    type: _Kind
    additional_kwargs: _Extra


@final
class _Plain(Shape):
    """Most messages there are."""

    type: Literal["human", "ai", "system"]
    content: str
    additional_kwargs: Annotated[dict[str, Any], Meta(max_length=0)]
    response_metadata: Any = None
    name: str | None = None
    id: str | None = None
    example: Any = None
    tool_calls: _Empty = None
    invalid_tool_calls: _Empty = None
    usage_metadata: Any = None


@final
class _Inner(_Said, kw_only=True):
    type: Any = None
    additional_kwargs: _Extra | None = None


@final
class _Inside(Shape):
    type: _Kind
    data: _Inner


@final
class _Serialised(Shape):
    lc: Literal[1]
    id: tuple[Any, Any, Any, _Name]
    kwargs: _Inner
    type: Any = None


_ALL_PLAIN, _ALL_FLAT, _ALL_BARE = listing(_Plain), listing(_Flat), listing(_Bare)
_ALL_INSIDE, _ALL_SERIALISED = listing(_Inside), listing(_Serialised)


def shapes(elements: list[Any]) -> list[Any]:
    """Of each its shape, None for one that has none, or that is not in the form of the first."""
    first = elements[0] if elements else None
    if type(first) is not dict:
        return []
    if "lc" in first:
        return shaped(elements, _ALL_SERIALISED)
    if "data" in first:
        return shaped(elements, _ALL_INSIDE)
    if "additional_kwargs" not in first:
        return shaped(elements, _ALL_BARE)
    plain = all_shaped(elements, _ALL_PLAIN) if len(elements) >= _MANY else []
    return plain or shaped(elements, _ALL_FLAT)


def read(shapes: Sequence[Any], functions: dict[str, str], long_way: Callable[[int], Message | None]) -> list[Message]:
    """The messages. Of an element without a shape, or whose result is not text, the long way is asked by its place."""
    if {*map(type, shapes)} == {_Plain}:
        return [Message(_ROLES[of.type], (Text(of.content),) if of.content else (), of.id, of.name) for of in shapes]
    messages: list[Message] = []
    for place, shape in enumerate(shapes):
        said: Any = shape
        if shape is None:
            role: Role = "tool"
        elif type(said) is _Inside:
            role, said = _ROLES[said.type], said.data
        elif type(said) is _Serialised:
            role, said = _ROLES[said.id[3]], said.kwargs
        else:
            role = _ROLES[said.type]
        if role == "tool":
            message = (_answer(said, functions) if shape is not None else None) or long_way(place)
            if message is not None:
                messages.append(message)
            continue
        content, extra, calls = said.content, said.additional_kwargs, said.tool_calls
        if (extra is not None and extra != _NO_EXTRA) or said.invalid_tool_calls:
            messages.append(_message(role, said, functions))
        elif type(content) is not str:
            if calls or said.tool_call_chunks:
                messages.append(_message(role, said, functions))
            else:
                messages.append(Message(role, tuple(_parts(content, {})), said.id, said.name))
        elif not calls:
            messages.append(Message(role, (Text(content),) if content else (), said.id, said.name))
        elif len(calls) > 1 or said.tool_call_chunks:
            messages.append(_message(role, said, functions))
        else:
            (of,) = calls
            functions[of.name] = of.id
            call = ToolCall(of.id, of.name, argument_text(of.args))
            messages.append(Message(role, (Text(content), call) if content else (call,), said.id, said.name))
    return messages


def _answer(said: _Flat | _Inner, functions: Mapping[str, str]) -> Message | None:
    """The message of a tool; None where it is not text."""
    content, call_id = said.content, said.tool_call_id
    if not isinstance(content, str):
        texts = [block if isinstance(block, str) else block.text for block in content if isinstance(block, str | _Text)]
        if len(texts) < len(content):
            return None
        content = "".join(texts)
    if call_id is None:
        call_id = functions.get(said.name or "", "")
    return Message("tool", (ToolResult(call_id, content, said.status == "error"),), said.id, said.name)


def _message(role: Role, said: _Bare | _Flat | _Inner, functions: dict[str, str]) -> Message:
    extra = said.additional_kwargs or _NO_EXTRA
    if role == "system" and extra.openai_role == "developer":
        role = "developer"
    calls = {call.call_id: call for call in _calls(said, extra)}
    parts = _parts(said.content, calls)
    if extra.reasoning_content and Reasoning not in [type(part) for part in parts]:
        parts.insert(0, Reasoning(extra.reasoning_content))
    if extra.refusal:
        parts.append(Refusal(extra.refusal))
    if calls:
        functions.update({call.name: call.call_id for call in calls.values()})
        placed = {part.call_id for part in parts if type(part) is ToolCall}
        parts += [call for call in calls.values() if call.call_id not in placed]
    return Message(role, tuple(parts), said.id, said.name)


def _calls(said: _Bare | _Flat | _Inner, extra: _Extra) -> Iterable[ToolCall]:
    """Each once, with its arguments in the text that the model wrote, where that is there."""
    exact: dict[str, str] = {}
    for piece in said.tool_call_chunks or ():
        if piece.id is not None and piece.args is not None:
            exact[piece.id] = piece.args
    for item in extra.tool_calls or ():
        exact[item.id] = item.function.arguments
    calls = [
        ToolCall(call.id, call.name, exact[call.id] if call.id in exact else argument_text(call.args))
        for call in (said.tool_calls or []) + (said.invalid_tool_calls or [])
    ]
    if not calls:
        calls = [ToolCall(item.id, item.function.name, exact[item.id]) for item in extra.tool_calls or ()]
    return calls if len(calls) < 2 else first_of_each(calls)


def _parts(content: str | list[str | _Block], calls: Mapping[str, ToolCall]) -> list[Part]:
    if isinstance(content, str):
        return [Text(content)] if content else []
    parts: list[Part] = []
    placed: set[str] = set()
    for block in content:
        if type(block) is _Text:
            if block.text:
                parts.append(Text(block.text))
        elif isinstance(block, str):
            if block:
                parts.append(Text(block))
        elif type(block) is _Image:
            parts.append(file_at(block.image_url.url, "image/*", detail=block.image_url.detail))
        elif type(block) is _Thinking:
            if block.thinking or block.signature:
                parts.append(Reasoning(block.thinking, block.signature or None))
        elif type(block) is _Reasoning:
            text = block.reasoning
            if text is None:
                text = "\n\n".join([piece.text for piece in block.summary or () if piece.text])
            encrypted = block.encrypted_content or (block.extras.signature if block.extras else None)
            if text or encrypted:
                parts.append(Reasoning(text, encrypted))
        else:
            call = _marked_call(block, calls)
            if call.call_id not in placed:
                placed.add(call.call_id)
                parts.append(call)
    return parts


def _marked_call(block: _ToolUse | _CallBlock | _FunctionCall, calls: Mapping[str, ToolCall]) -> ToolCall:
    """The call whose place the block marks; one that stands nowhere else is read from it."""
    call_id = block.call_id if type(block) is _FunctionCall else block.id
    if call_id in calls:
        return calls[call_id]
    if type(block) is _ToolUse:
        return ToolCall(call_id, block.name, argument_text(block.input))
    given = block.arguments if type(block) is _FunctionCall else block.args
    return ToolCall(call_id, block.name, argument_text(given))
