"""The usual shapes of Gemini's contents: text, thoughts, calls, results and files as Google's SDKs write them.

Over the wire names are in camel case, and what is absent is left out; a Python SDK's own dump has them in snake case,
with null for what is absent.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, structs

from palaver.core.dialects.pieces import UNKNOWN_MEDIA, argument_text, file_at, kept, mapping
from palaver.core.dialects.roles import ROLES
from palaver.core.dialects.usual import Shape, Speaker, listing, shaped
from palaver.core.messages import Message
from palaver.core.parts import File, Part, Reasoning, Text, ToolCall, ToolResult

_Nothing = Annotated[list[Any], Meta(max_length=0)] | None


class _Call(Shape):
    name: str
    args: Any = None
    id: str | None = None
    partial_args: Any = None
    will_continue: Any = None


class _Response(Shape):
    name: str
    response: Any = None
    id: str | None = None
    parts: _Nothing = None
    scheduling: Any = None
    will_continue: Any = None


class _Blob(Shape, rename="camel"):
    data: str
    mime_type: str | None = None
    display_name: str | None = None


class _Place(Shape, rename="camel"):
    file_uri: str
    mime_type: str | None = None
    display_name: str | None = None


class _Part(Shape, rename="camel"):
    text: str | None = None
    function_response: _Response | None = None
    function_call: _Call | None = None
    inline_data: _Blob | None = None
    file_data: _Place | None = None
    thought: bool | None = None
    thought_signature: str | None = None


class _Content(Shape):
    role: Speaker | Literal["tool", "function"]
    parts: Annotated[list[_Part], Meta(min_length=1)]


class _DumpedBlob(Shape):
    data: str
    mime_type: str | None = None
    display_name: str | None = None


class _DumpedPlace(Shape):
    file_uri: str
    mime_type: str | None = None
    display_name: str | None = None


class _DumpedPart(Shape):
    text: str | None = None
    function_response: _Response | None = None
    function_call: _Call | None = None
    inline_data: _DumpedBlob | None = None
    file_data: _DumpedPlace | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    code_execution_result: None = None
    executable_code: None = None
    media_resolution: None = None
    part_metadata: None = None
    tool_call: None = None
    tool_response: None = None
    video_metadata: None = None


class _Dumped(Shape):
    role: Speaker | Literal["tool", "function"]
    parts: Annotated[list[_DumpedPart], Meta(min_length=1)]


_OBJECT = (dict,)
_TOOLS = frozenset({"tool", "function"})
_WIRE, _DUMP = listing(_Content), listing(_Dumped)


def shapes(elements: list[Any]) -> list[Any]:
    """Of each its shape, as far as all have one; a part that is nothing, and words of a tool's, are none."""
    found = shaped(elements, _WIRE)
    if found[0] is None:
        found = shaped(elements, _DUMP)
    for place, shape in enumerate(found):
        if shape is None:
            break
        is_tool = shape.role in _TOOLS
        for part in shape.parts:
            if is_tool:
                if part.function_response is None or part.text is not None:
                    return found[:place] + [None] * (len(found) - place)
            elif (
                part.text is None
                and part.function_call is None
                and part.function_response is None
                and not _has_file(part)
            ):
                return found[:place] + [None] * (len(found) - place)
    return found


def _has_file(part: _Part | _DumpedPart) -> bool:
    return part.inline_data is not None or part.file_data is not None


def read(shapes: Sequence[_Content | _Dumped], start: int, calls: "Calls") -> list[Message]:
    """The messages of elements each of which has a shape: one of each, and one for every result in it."""
    messages: list[Message] = []
    for index, shape in enumerate(shapes, start):
        role = ROLES[shape.role]
        parts: list[Part] = []
        made: set[str] | None = None
        is_cut = False
        for place, part in enumerate(shape.parts):
            text, signature = part.text, part.thought_signature
            if text is not None:
                if part.thought:
                    if text or signature:
                        parts.append(Reasoning(text, signature))
                    continue
                if signature:
                    parts.append(Reasoning("", signature))
                if text:
                    parts.append(Text(text))
            elif (answer := part.function_response) is not None:
                if parts:
                    messages.append(Message(role, tuple(parts)))
                    parts = []
                messages.append(result(answer.id, answer.name, answer.response, (), calls))
                is_cut, made = True, None
            else:
                if signature:
                    parts.append(Reasoning("", signature))
                if (call := part.function_call) is None:
                    parts.append(_file(part))
                    continue
                call_id = call.id or f"call_{index}_{place}"
                if made is None:
                    made = {call_id}
                elif call_id in made:
                    continue
                made.add(call_id)
                calls.add(call_id, call.name, index)
                parts.append(ToolCall(call_id, call.name, argument_text(call.args)))
        if parts or not is_cut:
            messages.append(Message(role, tuple(parts)))
    return messages


def _file(part: _Part | _DumpedPart) -> File:
    inline, elsewhere = part.inline_data, part.file_data
    if inline is not None:
        return File(inline.mime_type or UNKNOWN_MEDIA, None, inline.data, None, inline.display_name)
    assert elsewhere is not None
    return file_elsewhere(elsewhere.file_uri, elsewhere.mime_type, elsewhere.display_name)


# For the long way too


def file_elsewhere(uri: str, media_type: str | None, filename: str | None) -> File:
    """A file by its address, or by the id under which Google keeps it."""
    if "://" not in uri and not uri.startswith("data:"):
        return File(media_type or UNKNOWN_MEDIA, file_id=uri, filename=filename)
    file = file_at(uri, media_type or UNKNOWN_MEDIA, filename=filename)
    return file if media_type in (None, "", file.media_type) else structs.replace(file, media_type=media_type)


def result(call_id: str | None, name: str, output: Any, files: Sequence[File], calls: "Calls") -> Message:
    """By convention a response with `output` or `error` alone says which of the two it is."""
    call_id = calls.answer(call_id, name)
    fields = output if type(output) in _OBJECT else mapping(output)
    failed = False
    if len(fields) == 1:
        if "output" in fields:
            output = fields["output"]
        elif "error" in fields:
            output, failed = fields["error"], True
    named = None if calls.knows(call_id) else name or None
    return Message("tool", (ToolResult(call_id, kept(output), failed), *files), None, named)


class _Turn(Struct, gc=False):
    """The calls of one name in one message."""

    index: int
    ids: list[str]
    passed: int = 0
    """So many of them have an answer."""


class Calls:
    """The calls so far: whose result has no id is found by its name."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._turns: dict[str, list[_Turn]] = {}
        """By name."""
        self._answered: set[str] = set()

    def add(self, call_id: str, name: str, index: int) -> None:
        """A call in the message of that index."""
        self._names[call_id] = name
        self._answered.discard(call_id)
        turns = self._turns.get(name)
        if not turns:
            self._turns[name] = [_Turn(index, [call_id])]
        elif turns[-1].index == index:
            turns[-1].ids.append(call_id)
        else:
            turns.append(_Turn(index, [call_id]))

    def answer(self, call_id: str | None, name: str) -> str:
        """The id of the call that is answered: of the last message with such calls the first that is open."""
        call_id = call_id or self._first_open(self._turns.get(name))
        self._answered.add(call_id)
        return call_id

    def knows(self, call_id: str) -> bool:
        """Was there a call of this id?"""
        return call_id in self._names

    def _first_open(self, turns: list[_Turn] | None) -> str:
        while turns:
            turn = turns[-1]
            while turn.passed < len(turn.ids):
                call_id = turn.ids[turn.passed]
                turn.passed += 1
                if call_id not in self._answered:
                    return call_id
            turns.pop()
        return ""
