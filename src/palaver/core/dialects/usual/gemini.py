"""The usual shapes of Gemini's contents: text, thoughts, calls, results and files as Google's SDKs write them.

Over the wire names are in camel case, and what is absent is left out; a Python SDK's own dump has them in snake case,
with null for what is absent. They are recognised and read in one loop, so that the shape of an element is its message;
but where it calls or answers, whose ids depend on its place and on what was called before, that is left open.
"""

from collections.abc import Sequence
from typing import Any, final

from msgspec import Struct, json, structs

from palaver.core.dialects.pieces import UNKNOWN_MEDIA, Object, argument_text, file_at, kept, mapping
from palaver.core.dialects.roles import ROLES
from palaver.core.dialects.usual import Unusual, from_first
from palaver.core.messages import Message, Role
from palaver.core.parts import File, Part, Reasoning, Text, ToolCall, ToolResult

_OBJECT = (dict,)
_MAYBE_TEXT = (str, type(None))
_PLAIN = frozenset({*_MAYBE_TEXT, int, float, bool, list})
_SMALL, _FLAT = 512, 256
"""Bytes of JSON, and brackets in it, with which nothing can be nested too deeply to be written."""
_encode = json.Encoder().encode


@final
class _Call(Struct, gc=False):
    """A call, or the element that is nothing but this one."""

    role: Role
    call_id: str | None
    name: str
    arguments: str
    place: int


@final
class _Answer(Struct, gc=False):
    """A result, or the element that is nothing but this one."""

    call_id: str | None
    name: str
    output: Any
    failed: bool


class _Mixed(Struct, gc=False):
    """An element that calls or answers, and has other parts too."""

    role: Role
    said: list[Part | _Call | _Answer]


def shapes(elements: list[Object]) -> list[Any]:
    """Of each its shape, as far as all have one, then None; a part that is nothing, and words of a tool's, are none."""
    found: list[Any] = []
    try:
        for element in elements:
            if type(element) is not dict or len(element) != 2:
                raise Unusual
            parts: list[Object] = element["parts"]
            if type(parts) is not list:
                raise Unusual
            role, part = ROLES[element["role"]], parts[0]
            if len(parts) == len(part) == 1 and type(part) is dict and role != "tool":  # As most are.
                if "text" in part:
                    text = part["text"]
                    if type(text) is not str:
                        raise Unusual
                    found.append(Message(role, (Text(text),) if text else ()))
                elif "functionCall" in part:
                    found.append(_call(role, part["functionCall"], 0))
                elif "functionResponse" in part:
                    found.append(_answer(part["functionResponse"]))
                else:
                    found.append(_shape(role, parts))
            else:
                found.append(_shape(role, parts))
    except Exception:  # It is unusual, or holds what is no JSON and may raise anything.
        return from_first(elements, found)
    return found


def _shape(role: Role, parts: list[Any]) -> Message | _Call | _Answer | _Mixed:
    said: list[Any] = []
    is_open = False
    for place, part in enumerate(parts):
        if type(part) not in _OBJECT:
            raise Unusual
        text, size = part.get("text"), len(part)
        signature = None if size == 1 or (size == 2 and "thought" in part) else _signature(part)
        if text is not None:
            if type(text) is not str or role == "tool":
                raise Unusual
            if size > 1 and part.get("thought") is True:
                if text or signature:
                    said.append(Reasoning(text, signature))
                continue
        elif (answer := _either(part, "functionResponse", "function_response")) is not None:
            said.append(_answer(answer))
            is_open = True
            continue
        elif role == "tool":
            raise Unusual
        if signature:
            said.append(Reasoning("", signature))
        if text is not None:
            if text:
                said.append(Text(text))
        elif (call := _either(part, "functionCall", "function_call")) is not None:
            said.append(_call(role, call, place))
            is_open = True
        else:
            said.append(_file(part))
    if not is_open:
        return Message(role, tuple(said))
    return said[0] if len(said) == 1 else _Mixed(role, said)


def _either(part: Object, name: str, other: str) -> Any:
    value = part.get(name)
    return part.get(other) if value is None else value


def _text(value: Any) -> str | None:
    if value is not None and type(value) is not str:
        raise Unusual
    return value


def _signature(part: Object) -> str | None:
    """What signs a part of several fields, none of which makes it another's, or ours."""
    if "type" in part or part.get("partMetadata") is not None or part.get("part_metadata") is not None:
        raise Unusual
    return _text(_either(part, "thoughtSignature", "thought_signature"))


def _call(role: Role, call: Any, place: int) -> _Call:
    if type(call) not in _OBJECT or type(name := call["name"]) is not str:
        raise Unusual
    args = call.get("args")
    arguments = _encode(args).decode() if type(args) in _OBJECT else argument_text(args)
    return _Call(role, _text(call["id"]) if "id" in call else None, name, arguments, place)


def _answer(answer: Any) -> _Answer:
    if type(answer) not in _OBJECT or type(name := answer["name"]) is not str or answer.get("parts"):
        raise Unusual
    output, failed = answer.get("response"), False
    if type(output) not in _OBJECT:
        if type(output) not in _PLAIN:
            raise Unusual
    elif len(output) == 1:
        output, failed = _told(output)
    if type(output) is not str and output is not None:
        written = _encode(output)
        if len(written) > _SMALL and written.count(b"[") + written.count(b"{") > _FLAT:
            output = kept(output)
    return _Answer(_text(answer["id"]) if "id" in answer else None, name, output, failed)


def _file(part: Object) -> File:
    inline = None if len(part) == 1 and "fileData" in part else _either(part, "inlineData", "inline_data")
    told = _either(part, "fileData", "file_data") if inline is None else inline
    if type(told) not in _OBJECT:
        raise Unusual
    if (media_type := told.get("mimeType")) is None:
        media_type = told.get("mime_type")
    if (filename := told.get("displayName")) is None:
        filename = told.get("display_name")
    place = _either(told, "fileUri", "file_uri") if inline is None else told["data"]
    if type(place) is not str or type(media_type) not in _MAYBE_TEXT or type(filename) not in _MAYBE_TEXT:
        raise Unusual
    if inline is None:
        return file_elsewhere(place, media_type, filename)
    return File(media_type or UNKNOWN_MEDIA, None, place, None, filename)


def read(shapes: Sequence[Any], start: int, calls: "Calls") -> list[Message]:
    """The messages of elements each of which has a shape: one of each, and one for every result in it."""
    messages: list[Message] = []
    last = len(shapes) - 1
    answered: str | None = None
    """The call that the next one certainly answers."""
    for place, shape in enumerate(shapes):
        if type(shape) is Message:
            messages.append(shape)
        elif type(shape) is _Call:
            name, call_id = shape.name, shape.call_id or f"call_{start + place}_{shape.place}"
            after = shapes[place + 1] if place < last else None
            if type(after) is _Answer and after.name == name and not after.call_id:
                calls.waits[call_id], answered = False, call_id
            else:
                calls.add(call_id, name, start + place)
            messages.append(Message(shape.role, (ToolCall(call_id, name, shape.arguments),)))
        elif type(shape) is _Answer:
            call_id, name = (answered, None) if answered else calls.answer(shape.call_id, shape.name)
            messages.append(Message("tool", (ToolResult(call_id, shape.output, shape.failed),), None, name))
            answered = None
        else:
            messages += _read_mixed(shape, start + place, calls)
    return messages


def _read_mixed(shape: _Mixed, index: int, calls: "Calls") -> list[Message]:
    messages: list[Message] = []
    parts: list[Part] = []
    made: set[str] = set()
    for part in shape.said:
        if type(part) is _Call:
            call_id = part.call_id or f"call_{index}_{part.place}"
            if call_id not in made:
                made.add(call_id)
                calls.add(call_id, part.name, index)
                parts.append(ToolCall(call_id, part.name, part.arguments))
        elif type(part) is _Answer:
            if parts:
                messages.append(Message(shape.role, tuple(parts)))
            messages += read((part,), index, calls)
            parts, made = [], set()
        else:
            parts.append(part)
    if parts:
        messages.append(Message(shape.role, tuple(parts)))
    return messages


# For the long way too


def file_elsewhere(uri: str, media_type: str | None, filename: str | None) -> File:
    """A file by its address, or by the id under which Google keeps it."""
    if not uri.startswith("data:"):
        url, file_id = (uri, None) if "://" in uri else (None, uri)
        return File(media_type or UNKNOWN_MEDIA, url, None, file_id, filename)
    file = file_at(uri, media_type or UNKNOWN_MEDIA, filename=filename)
    return file if media_type in (None, "", file.media_type) else structs.replace(file, media_type=media_type)


def result(call_id: str | None, name: str, output: Any, files: Sequence[File], calls: "Calls") -> Message:
    """What answers a call, with its files."""
    call_id, named = calls.answer(call_id, name)
    fields, failed = mapping(output), False
    if len(fields) == 1:
        output, failed = _told(fields)
    return Message("tool", (ToolResult(call_id, kept(output), failed), *files), None, named)


def _told(fields: Object) -> tuple[Any, bool]:
    """By convention a response with `output` or `error` alone says which of the two it is."""
    if "output" in fields:
        return fields["output"], False
    return (fields["error"], True) if "error" in fields else (fields, False)


class _Turn(Struct, gc=False):
    """The calls of one name in one message."""

    index: int
    ids: list[str]
    passed: int = 0
    """So many of them have an answer."""


class Calls(Struct):
    """The calls so far: whose result has no id is found by its name.

    Most are answered in the order in which the last message made them. Only when one is not are they sorted by name.
    """

    waits: dict[str, bool] = {}
    """By id, of each: does it wait for an answer?"""
    _index: int = -1
    _last: list[tuple[str, str]] = []
    """Ids and names of those in the message of that index."""
    _passed: int = 0
    """So many of them were answered in their order."""
    _older: list[tuple[int, list[tuple[str, str]]]] = []
    """Those of messages before that were not."""
    _turns: dict[str, list[_Turn]] = {}
    """By name, those that were sorted."""
    _sorted: int = -1
    """The index of the last message whose calls were."""

    def add(self, call_id: str, name: str, index: int) -> None:
        """A call in the message of that index."""
        self.waits[call_id] = True
        if index != self._index:
            if self._passed < len(self._last):
                self._leave()
            self._index, self._last, self._passed = index, [(call_id, name)], 0
        elif index != self._sorted:
            self._last.append((call_id, name))
        else:
            self._sort(call_id, name, index)

    def answer(self, call_id: str | None, name: str) -> tuple[str, str | None]:
        """The id of the call that is answered, of the last message with such calls the first that is open.

        And the name, if no such call is known, which else would have it.
        """
        if not call_id:
            call_id, called = self._last[self._passed] if self._passed < len(self._last) else ("", None)
            if called == name and self.waits[call_id]:
                self._passed += 1
            else:
                call_id = self._out_of_order(name)
        if call_id not in self.waits:
            return call_id, name or None
        self.waits[call_id] = False
        return call_id, None

    def _out_of_order(self, name: str) -> str:
        if self._last:
            self._leave()
        for index, made in self._older:
            for call_id, called in made:
                self._sort(call_id, called, index)
        self._older, self._sorted = [], self._index
        return self._first_open(self._turns.get(name))

    def _leave(self) -> None:
        """Those that were not answered in order may still be, out of it."""
        self._older.append((self._index, self._last[self._passed :]))
        self._last, self._passed = [], 0

    def _sort(self, call_id: str, name: str, index: int) -> None:
        turns = self._turns.get(name)
        if not turns:
            self._turns[name] = [_Turn(index, [call_id])]
        elif turns[-1].index == index:
            turns[-1].ids.append(call_id)
        else:
            turns.append(_Turn(index, [call_id]))

    def _first_open(self, turns: list[_Turn] | None) -> str:
        while turns:
            turn = turns[-1]
            while turn.passed < len(turn.ids):
                call_id = turn.ids[turn.passed]
                turn.passed += 1
                if self.waits[call_id]:
                    return call_id
            turns.pop()
        return ""
