"""The usual shapes of Chat Completions: text, images, calls and results as the OpenAI SDKs write them."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from palaver.core.dialects.pieces import file_at, first_of_each
from palaver.core.dialects.roles import ROLES
from palaver.core.dialects.usual import Id, Shape, Speaker, all_shaped, listing, shaped
from palaver.core.messages import Message, Role
from palaver.core.parts import Part, Reasoning, Refusal, Text, ToolCall, ToolResult

_OBJECT = (dict,)
Nothing = Annotated[list[Any], Meta(max_length=0)] | None


class _Bare(Shape, kw_only=True, forbid_unknown_fields=False):
    """What a message of any of these shapes may have only as null, as the long way looks at it.

    What neither recognition nor a reader looks at may stand there: people add a date, a score, whatever they like.
    """

    type: None = None
    parts: None = None
    audio: None = None
    function_call: None = None
    additional_kwargs: None = None
    palaver: None = None
    annotations: Nothing = None


class _Plain(_Bare, kw_only=True):
    """Text by anybody, with what people add."""

    role: Speaker
    content: str
    name: None = None
    id: None = None
    tool_calls: None = None
    tool_call_id: None = None
    refusal: None = None
    reasoning_content: None = None


class _Text(Shape, forbid_unknown_fields=False, tag_field="type", tag="text"):
    text: str
    source: None = None


class _Url(Shape, forbid_unknown_fields=False):
    url: str
    detail: str | None = None


class _Image(Shape, forbid_unknown_fields=False, tag_field="type", tag="image_url"):
    image_url: _Url
    source: None = None


class _Pure(Shape):
    """Nothing but who and what: most messages there are."""

    role: Speaker
    content: Annotated[str, Meta(min_length=1)]


class _Parted(Shape):
    """The same with a list of parts, or with no word."""

    role: Speaker
    content: str | list[_Text | _Image]


class _Function(Shape, forbid_unknown_fields=False):
    name: str
    arguments: str


class _Called(Shape, forbid_unknown_fields=False):
    id: Id
    function: _Function
    tool_call: None = None


class _Call(Shape, forbid_unknown_fields=False):
    """A call; OpenInference wraps it."""

    id: str | None = None
    function: _Function | None = None
    tool_call: _Called | None = None


class _Said(_Bare, kw_only=True, tag_field="role"):
    """Text and images by somebody whose role is the tag."""

    content: str | list[_Text | _Image]
    name: str | None = None
    id: str | int | None = None
    tool_calls: None = None
    tool_call_id: None = None
    refusal: None = None
    reasoning_content: None = None


class _User(_Said, tag="user"): ...


class _System(_Said, tag="system"): ...


class _Developer(_Said, tag="developer"): ...


class _Assistant(_Bare, kw_only=True, tag_field="role", tag="assistant"):
    content: str | list[_Text | _Image] | UnsetType | None = UNSET
    tool_calls: list[_Call] | None = None
    tool_call_id: None = None
    name: str | None = None
    id: str | int | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    text: None = None
    message: None = None
    delta: None = None


class _Tool(_Bare, kw_only=True, tag_field="role", tag="tool"):
    tool_call_id: str
    content: str
    name: str | None = None


_ROLES: dict[Any, Role] = {_User: "user", _Assistant: "assistant", _System: "system", _Developer: "developer"}


class _Sent(_Bare, kw_only=True):
    """How chat widgets and many applications of people's own keep their history."""

    sender: Speaker
    text: str
    role: None = None
    content: None = None
    name: None = None
    id: str | int | None = None
    tool_calls: None = None
    tool_call_id: None = None
    refusal: None = None
    reasoning_content: None = None


_PURE, _PARTED, _PLAIN, _SENT = listing(_Pure), listing(_Parted), listing(_Plain), listing(_Sent)
_USUAL = listing(_User | _Assistant | _Tool | _System | _Developer)
_USUAL_ROLES = frozenset(("user", "assistant", "tool", "system", "developer"))
_FEW = 3
_TWO = len(_Pure.__struct_fields__)
_CONTENT, _TEXTS = itemgetter("content"), {str}


def shapes(elements: list[Any]) -> list[Any]:
    """Of each its shape, None for one that has none. An attempt in vain costs as much as some messages."""
    first, last = elements[0], elements[-1]
    if type(first) not in _OBJECT or type(last) not in _OBJECT:
        return []
    if "sender" in first:
        return shaped(elements, _SENT)
    if (
        len(first) == _TWO
        and len(last) == _TWO
        and (kind := _pure_kind(elements))
        and (found := all_shaped(elements, kind))
    ):
        return found
    role = first.get("role")
    if type(role) is not str or role not in _USUAL_ROLES:
        return shaped(elements, _PLAIN)
    return [
        None if type(shape) is _Assistant and (shape.tool_calls or shape.content is UNSET) and _is_odd(shape) else shape
        for shape in shaped(elements, _USUAL)
    ]


def _pure_kind(elements: list[Any]) -> Any:
    """What they may be if all are nothing but who and what."""
    if len(elements) <= _FEW:  # To look at all costs more than an attempt in vain.
        return _PURE if type(elements[0].get("content")) is type(elements[-1].get("content")) is str else _PARTED
    try:
        kinds = {*map(type, map(_CONTENT, elements))}
        return None if sum(map(len, elements)) > _TWO * len(elements) else _PURE if kinds == _TEXTS else _PARTED
    except Exception:  # One has no content, or is no dict.
        return None


def _is_odd(shape: _Assistant) -> bool:
    """Does it say nothing, or make a call that is not whole?"""
    if shape.tool_calls:
        return any(call.tool_call is None and not (call.id and call.function) for call in shape.tool_calls)
    return shape.content is UNSET and shape.tool_calls is None


def read(shapes: Sequence[Any]) -> list[Message]:
    """The messages of elements each of which has a shape."""
    if type(shapes[0]) is _Pure:
        return [Message(ROLES[shape.role], (Text(shape.content),)) for shape in shapes]
    if type(shapes[0]) is _Parted:
        return [Message(ROLES[shape.role], _parts(shape.content)) for shape in shapes]
    messages: list[Message] = []
    for shape in shapes:
        kind = shape.__class__
        if kind is _Tool:
            messages.append(Message("tool", (ToolResult(shape.tool_call_id, shape.content),), None, shape.name))
            continue
        if kind is _Sent:
            said, role, name = shape.text, ROLES[shape.sender], None
        else:
            said, role, name = shape.content, _ROLES.get(kind) or ROLES[shape.role], shape.name
        parts = ((Text(said),) if said else ()) if type(said) is str else _parts(said)
        if kind is _Assistant and (shape.tool_calls or shape.refusal or shape.reasoning_content):
            parts = _whole(parts, shape)
        messages.append(Message(role, parts, shape.id if type(shape.id) is str else None, name))
    return messages


def _whole(parts: tuple[Part, ...], shape: _Assistant) -> tuple[Part, ...]:
    """With what stands beside the content."""
    if shape.reasoning_content:
        parts = (Reasoning(shape.reasoning_content), *parts)
    if shape.refusal:
        parts = (*parts, Refusal(shape.refusal))
    calls = [_call(call.tool_call or call) for call in shape.tool_calls or ()]
    return (*parts, *(calls if len(calls) < 2 else first_of_each(calls)))


def _call(call: Any) -> ToolCall:
    return ToolCall(call.id, call.function.name, call.function.arguments)


def _parts(content: Any) -> tuple[Part, ...]:
    if type(content) is str:
        return (Text(content),) if content else ()
    parts: list[Part] = []
    for piece in content or ():
        if type(piece) is not _Text:
            parts.append(file_at(piece.image_url.url, "image/*", detail=piece.image_url.detail))
        elif piece.text:
            parts.append(Text(piece.text))
    return tuple(parts)
