"""Gemini contents: `{"role": "model", "parts": [{"text": "…"}]}`, whose parts have no type but a field that tells.

Names are read in camel and in snake case, and a field of null counts as absent: Google's SDKs write both. Results stand
in a user's message, and need no id. A signature that stands on what is not a thought becomes a reasoning of its own
before it. Our own additions, which others ignore, are under a part's `partMetadata.palaver`.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, TypeGuard

import msgspec

from palaver.core.dialects.pieces import (
    UNKNOWN_MEDIA,
    Object,
    argument_text,
    content_of,
    file_at,
    given,
    listed,
    mapping,
    string,
)
from palaver.core.dialects.roles import role_of
from palaver.core.messages import Message, Role
from palaver.core.parts import Data, File, Part, Reasoning, Refusal, Text, ToolCall, ToolResult
from palaver.core.recognition import actor

LOSSES: Sequence[str] = (
    "ids, names and metadata of messages; a developer's message becomes the system's",
    "empty texts, empty reasoning that is not encrypted; annotations",
    "results inside a message that is not a tool's become tool messages, and split it; what else a tool message holds",
    "the name of a tool message whose call stands before it",
    "a second call of the same id in one message; a call without an id gets one, and so does its result",
    "a call's arguments keep their value, not their text: none become `{}`, no object becomes one with it",
    "all but one of a file's places, its detail; a url without a scheme becomes the id of a stored file",
)

_RAW = "gemini:"
_SNAKE = {
    "functionCall": "function_call",
    "functionResponse": "function_response",
    "inlineData": "inline_data",
    "fileData": "file_data",
    "executableCode": "executable_code",
    "codeExecutionResult": "code_execution_result",
    "mimeType": "mime_type",
    "fileUri": "file_uri",
    "displayName": "display_name",
    "thoughtSignature": "thought_signature",
    "partMetadata": "part_metadata",
}
_SAID = ("text", "functionCall", "functionResponse", "inlineData", "fileData")
_KEPT = ("executableCode", "codeExecutionResult")
_ASIDE = frozenset(
    "thought thoughtSignature thought_signature partMetadata part_metadata videoMetadata video_metadata type".split()
)
"""What says something about a part, and is not what the part is."""


def read(elements: Sequence[Any]) -> list[Message]:
    """One message per element, and one for every result in it."""
    calls = _Calls()
    return [message for index, element in enumerate(elements) for message in _messages(element, index, calls)]


def write(messages: Sequence[Message]) -> list[Any]:
    """Contents, with the results that follow each other in one of them."""
    contents = _Contents()
    for message in messages:
        contents.add(message)
    return contents.written


# Reading


class _Calls:
    """The calls so far: whose result has no id is found by its name."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._open: dict[str, list[tuple[int, deque[str]]]] = {}
        """By name: the messages with such calls, and their ids."""
        self._answered: set[str] = set()

    def add(self, call: ToolCall, index: int) -> None:
        self._names[call.call_id] = call.name
        self._answered.discard(call.call_id)
        turns = self._open.setdefault(call.name, [])
        if not turns or turns[-1][0] != index:
            turns.append((index, deque()))
        turns[-1][1].append(call.call_id)

    def answer(self, call_id: str | None, name: str) -> str:
        """The id of the call that is answered: of the last message with such calls the first that is open."""
        call_id = call_id or self._first_open(self._open.get(name, []))
        self._answered.add(call_id)
        return call_id

    def knows(self, call_id: str) -> bool:
        return call_id in self._names

    def _first_open(self, turns: list[tuple[int, deque[str]]]) -> str:
        while turns:
            waiting = turns[-1][1]
            while waiting:
                call_id = waiting.popleft()
                if call_id not in self._answered:
                    return call_id
            turns.pop()
        return ""


def _messages(element: Any, index: int, calls: _Calls) -> Iterable[Message]:
    fields = mapping(element)
    role, name = role_of(actor(fields) or "user")
    messages: list[Message] = []
    items = list(enumerate(listed(content_of(fields))))
    for are_results, group in groupby(items, lambda item: _response(item[1]) is not None):
        if are_results:
            messages += [_result(_response(item) or {}, calls) for _, item in group]
            continue
        run = list(group)
        parts = tuple(_parts(run, index, calls))
        if role == "tool":  # It says not which call it answers.
            texts = [part.text for part in parts if isinstance(part, Text)]
            output = "".join(texts) if len(texts) == len(parts) else [item for _, item in run]
            messages.append(Message.tool(string(fields.get("tool_call_id")) or "", output))
        elif parts:
            messages.append(Message(role=role, parts=parts, name=name))
    return messages or [Message(role=role, parts=(), name=name)]


def _parts(items: Iterable[tuple[int, Any]], index: int, calls: _Calls) -> Iterator[Part]:
    seen: set[str] = set()
    for place, item in items:
        part = _part(item, f"call_{index}_{place}")
        if not isinstance(part, Reasoning | Data) and (signature := string(_field(item, "thoughtSignature"))):
            yield Reasoning(text="", encrypted=signature)
        if isinstance(part, ToolCall):
            if part.call_id in seen:
                continue
            seen.add(part.call_id)
            calls.add(part, index)
        match part:
            case Text(text=""):
                pass
            case Reasoning(text="", encrypted=None | ""):
                pass
            case _:
                yield part


def _part(item: Any, otherwise: str) -> Part:
    if isinstance(item, str):
        return Text(text=item)
    text = mapping(item).get("text")
    if isinstance(text, str):
        return Text(text=text) if len(item) == 1 else _text(item, text)
    match _field(item, "functionCall"):
        case {} as call:
            call_id, name = string(call.get("id")), string(call.get("name"))
            return ToolCall(call_id=call_id or otherwise, name=name or "", arguments=argument_text(call.get("args")))
        case _:
            return _file(item) or Data(name=_RAW + _kind(item), value=item)


def _text(item: Object, text: str) -> Part:
    """The parts that have a text, ours among them."""
    kind = item.get("type")
    if item.get("thought") is True or kind == "reasoning":
        return Reasoning(text=text, encrypted=string(_field(item, "thoughtSignature")))
    if kind not in (None, "text", "input_text", "output_text"):
        return Data(name=_RAW + _kind(item), value=item)
    match mapping(_field(item, "partMetadata")).get("palaver"):
        case {"refusal": True}:
            return Refusal(text=text)
        case {"data": {"name": str(name)} as data}:
            return Data(name=name, value=mapping(data).get("value"))
        case _:
            return Text(text=text)


def _file(item: Any) -> File | None:
    inline, elsewhere = mapping(_field(item, "inlineData")), mapping(_field(item, "fileData"))
    told = inline or elsewhere
    media_type = string(_field(told, "mimeType"))
    filename = string(_field(told, "displayName"))
    data, uri = inline.get("data"), _field(elsewhere, "fileUri")
    if isinstance(data, str):
        return File(media_type=media_type or UNKNOWN_MEDIA, data=data, filename=filename)
    if not isinstance(uri, str):
        return None
    if "://" not in uri and not uri.startswith("data:"):
        return File(media_type=media_type or UNKNOWN_MEDIA, file_id=uri, filename=filename)
    file = file_at(uri, UNKNOWN_MEDIA, filename=filename)
    return msgspec.structs.replace(file, media_type=media_type or file.media_type)


def _kind(item: Any) -> str:
    """The field that tells what the part is, else its type."""
    fields = mapping(item)
    for name in (*_SAID[1:], *_KEPT):
        if _field(fields, name) is not None:
            return name
    named = next((key for key in fields if fields[key] is not None and key not in _ASIDE), None)
    return string(fields.get("type")) or string(named) or "part"


def _response(item: Any) -> Object | None:
    fields = mapping(item)
    if isinstance(fields.get("text"), str):
        return None  # Most are only text.
    response = _field(fields, "functionResponse")
    return mapping(response) if isinstance(response, dict) else None


def _result(response: Object, calls: _Calls) -> Message:
    """By convention a response with `output` or `error` alone says which of the two it is."""
    name, output = string(response.get("name")) or "", response.get("response")
    call_id = calls.answer(string(response.get("id")), name)
    failed = False
    if _is_told(output):
        failed = "error" in output
        output = output["error" if failed else "output"]
    files = (file for item in listed(response.get("parts")) if (file := _file(item)) is not None)
    return Message(
        role="tool",
        parts=(ToolResult(call_id=call_id, output=output, is_error=failed), *files),
        name=None if calls.knows(call_id) else name or None,
    )


def _is_told(output: Any) -> TypeGuard[Object]:
    fields = mapping(output)
    return len(fields) == 1 and ("output" in fields or "error" in fields)


def _field(item: Any, name: str) -> Any:
    """What stands under that name, in either spelling."""
    fields = mapping(item)
    value = fields.get(name)
    return fields.get(_SNAKE[name]) if value is None and name in _SNAKE else value


# Writing


class _Contents:
    """Writes messages one by one; a result has the name of its call."""

    def __init__(self) -> None:
        self.written: list[Any] = []
        self._names: dict[str, str] = {}
        self._results: list[dict[str, Any]] | None = None
        """The parts of the last content, if they are results: the next one must join them."""

    def add(self, message: Message) -> None:
        if message.role == "tool":
            for result in message.tool_results:
                self._answer(result, message.name)
            return
        if not message.parts:
            self._say(message.role, ())
        for are_results, parts in groupby(message.parts, lambda part: isinstance(part, ToolResult)):
            if are_results:
                for part in parts:
                    if isinstance(part, ToolResult):
                        self._answer(part, None)
            else:
                self._say(message.role, parts)

    def _say(self, role: Role, said: Iterable[Part]) -> None:
        parts: list[dict[str, Any]] = []
        signature: str | None = None
        """Waits for the part that it stands on."""
        for part in said:
            if isinstance(part, Text | Reasoning) and not (part.text or _encrypted(part)):
                continue
            if isinstance(part, ToolCall):
                self._names[part.call_id] = part.name
            signs = given(thoughtSignature=signature)
            if signature is not None and not isinstance(part, Text | ToolCall | File):
                parts.append({"text": "", "thought": True, **signs})
                signs = {}
            signature = _encrypted(part) if isinstance(part, Reasoning) and not part.text else None
            if signature is None:
                parts.append(_written(part) | signs)
        if signature is not None:
            parts.append({"text": "", "thought": True, "thoughtSignature": signature})
        spoken = {"assistant": "model", "developer": "system"}.get(role, role)
        self.written.append({"role": spoken, "parts": parts or [{"text": ""}]})
        self._results = None

    def _answer(self, result: ToolResult, name: str | None) -> None:
        if self._results is None:
            self._results = []
            self.written.append({"role": "user", "parts": self._results})
        named = {**given(id=result.call_id or None), "name": self._names.get(result.call_id, name or "")}
        self._results.append({"functionResponse": {**named, "response": _told(result)}})


def _told(result: ToolResult) -> Object:
    """The output as the object that a response must be."""
    output = result.output
    if result.is_error:
        return {"error": output}
    return {"output": output} if _is_told(output) or not isinstance(output, dict) else mapping(output)


def _encrypted(part: Part) -> str | None:
    return (part.encrypted or None) if isinstance(part, Reasoning) else None


def _written(part: Part) -> dict[str, Any]:
    match part:
        case Reasoning(text=text, encrypted=encrypted):
            return {"text": text, "thought": True, **given(thoughtSignature=encrypted)}
        case ToolCall(call_id=call_id, name=name, parsed=value):
            args = mapping(value) if isinstance(value, dict) else {"arguments": value}
            return {"functionCall": {**given(id=call_id or None), "name": name, "args": args}}
        case File(media_type=media_type, url=url, file_id=file_id):
            told = {"mimeType": media_type, **given(displayName=part.filename)}
            uri = file_id if url is None else url
            if part.data or uri is None:
                return {"inlineData": {**told, "data": part.data or ""}}
            return {"fileData": {**told, "fileUri": uri}}
        case Refusal(text=text):
            return {"text": text, "partMetadata": {"palaver": {"refusal": True}}}
        case Data(name=name, value=value):
            kept = {"name": name, "value": value}
            return value if _is_raw(part) else {"text": "", "partMetadata": {"palaver": {"data": kept}}}
        case Text(text=text):
            return {"text": text}
        case ToolResult():
            raise AssertionError("a result has a content of its own")


def _is_raw(part: Data) -> bool:
    """Would its value be recognised, and read as this very part?"""
    value = mapping(part.value)
    said = any(_field(value, name) is not None for name in _SAID)
    return not said and "type" not in value and part.name in [_RAW + kind for kind in _KEPT if kind == _kind(value)]
