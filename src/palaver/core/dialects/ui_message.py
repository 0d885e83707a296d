"""AI SDK UI messages: `{"role": "user", "parts": [{"type": "text", …}]}`.

One UI message is a whole turn of the assistant's: its steps, its tools with what they answered. Reading cuts it into
ours, writing puts ours together. Text and reasoning parts look like our own dialect's, whose additions are read as well
(`annotations` of a text, `name` of a message). What has no place of its own is kept under `providerMetadata.palaver`.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from palaver.core.dialects.pieces import (
    UNKNOWN_MEDIA,
    Object,
    address,
    argument_text,
    file_at,
    given,
    listed,
    mapping,
    result_text,
    string,
)
from palaver.core.dialects.roles import role_of
from palaver.core.messages import Message, Role
from palaver.core.parts import (
    APPROVAL_RESPONSE,
    Annotation,
    Data,
    File,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)
from palaver.core.recognition import actor

LOSSES: Sequence[str] = (
    "names of messages; a developer's message becomes the system's; one without an id gets one",
    "messages of one turn become one: only the first keeps its id and metadata, and empty ones vanish",
    "a result stands after the message with its call, and splits it; one without a call before it, or a second one",
    "what else a tool message holds, and its id, name and metadata",
    "calls of anybody but the assistant, and a second one of the same id in one message; one without an id gets one",
    "a call's arguments keep their value, not their text: none become `{}`, a JSON string loses its quotes",
    "a failed result that is not text becomes its JSON text",
    "of annotations all but the url and title of a url, the title of a file",
    "all but one of a file's places, its detail; data named `file` that looks like a stored file becomes one",
)

_RAW = "ui-message:"
_DENIED = "Denied."
_Spoken = Text | Reasoning | File | ToolCall | Refusal | Data


def read(elements: Sequence[Any]) -> list[Message]:
    """One message and more per element: calls, their results and what follows stand in messages of their own."""
    return [message for index, element in enumerate(elements) for message in _messages(element, index)]


def write(messages: Sequence[Message]) -> list[Any]:
    """UI messages: one for every turn of the assistant's, one for every other message."""
    turns = _Turns()
    for message in messages:
        turns.add(message)
    return turns.written


# Reading


class _Steps:
    """Cuts a UI message: what is said up to some results, the results, what is said after them, and so on."""

    def __init__(self, role: Role, name: str | None) -> None:
        self.messages: list[Message] = []
        self._role: Role = role
        self._name = name
        self._begin()

    def _begin(self) -> None:
        self._parts: list[Part] = []
        self._calls: set[str] = set()
        self._notes: dict[int, list[Annotation]] = {}
        """By the place of their text; the last one is open."""
        self._results: dict[str, ToolResult] = {}
        self._answers: list[Part] = []

    def say(self, part: Part) -> None:
        """What is said after a result starts a message."""
        if self._results or self._answers:
            self.cut()
        if isinstance(part, Text):
            self._notes[len(self._parts)] = list(part.annotations)
        self._parts.append(part)

    def call(self, call: ToolCall) -> None:
        """Calls that stand together were made together, whether or not they have their results."""
        if call.call_id not in self._calls:
            self._calls.add(call.call_id)
            self._parts.append(call)

    def result(self, result: ToolResult) -> None:
        """It waits for the end of its step."""
        self._results.setdefault(result.call_id, result)

    def answer(self, part: Data) -> None:
        """What the user decided about a call."""
        self._answers.append(part)

    def note(self, note: Annotation) -> bool:
        """Add it to the last text, if there is one."""
        if not self._notes:
            return False
        self._notes[next(reversed(self._notes))].append(note)
        return True

    def cut(self) -> None:
        for place, notes in self._notes.items():
            self._parts[place] = msgspec.structs.replace(self._parts[place], annotations=tuple(notes))
        if self._parts:
            self.messages.append(Message(role=self._role, parts=tuple(self._parts), name=self._name))
        self.messages += [Message(role="tool", parts=(result,)) for result in self._results.values()]
        if self._answers:
            self.messages.append(Message(role="user", parts=tuple(self._answers)))
        self._begin()


def _messages(element: Object, index: int) -> list[Message]:
    role, name = role_of(actor(element) or "")
    own_name = string(element.get("name"))
    name = name if own_name is None else own_name
    steps = _Steps(role, name)
    for place, part in enumerate(listed(element.get("parts"))):
        _take(part, f"call_{index}_{place}", steps)
    steps.cut()
    first, *rest = steps.messages or [Message(role=role, parts=(), name=name)]
    metadata = dict(mapping(element.get("metadata")))
    return [msgspec.structs.replace(first, id=string(element.get("id")), metadata=metadata), *rest]


def _take(part: Any, otherwise: str, steps: _Steps) -> None:
    kind = string(mapping(part).get("type")) or ""
    if kind == "step-start":
        steps.cut()
    elif kind in ("source-url", "source-document"):
        note = _source(part)
        if note is None or not steps.note(note):
            steps.say(Data(name=_RAW + kind, value=part))
    elif kind == "dynamic-tool" or kind.startswith("tool-"):
        _take_tool(part, kind, otherwise, steps)
    else:
        steps.say(_part(part, kind))


def _part(part: Any, kind: str) -> Part:
    match part:
        case {"type": "text", "text": str(text)}:
            if _ours(part).get("refusal") is True:
                return Refusal(text=text)
            return Text(text=text, annotations=_annotations(part))
        case {"type": "reasoning", "text": str(text)}:
            return Reasoning(text=text, encrypted=string(_ours(part).get("encrypted")))
        case {"type": "file", "url": str(url)}:
            return _file(part, url)
        case {"type": "data-file", "data": {"media_type": str(media_type), "file_id": str(file_id), **rest}}:
            return File(media_type=media_type, file_id=file_id, filename=string(rest.get("filename")))
        case {"type": str(named)} if named.startswith("data-"):
            return Data(name=named.removeprefix("data-"), value=part.get("data"))
        case _:
            return Data(name=f"{_RAW}{kind or 'part'}", value=part)


def _ours(part: Any) -> Object:
    return mapping(mapping(mapping(part).get("providerMetadata")).get("palaver"))


def _annotations(part: Object) -> tuple[Annotation, ...]:
    """Those of our own dialect."""
    try:
        return msgspec.convert(part.get("annotations", ()), tuple[Annotation, ...])
    except msgspec.ValidationError:
        return ()


def _file(part: Object, url: str) -> File:
    file = file_at(url, UNKNOWN_MEDIA, filename=string(part.get("filename")))
    told = string(part.get("mediaType")) or string(part.get("mimeType"))  # The latter before version 5.
    return msgspec.structs.replace(file, media_type=told or file.media_type)


def _source(part: Object) -> Annotation | None:
    match part:
        case {"type": "source-url", "url": str(url)}:
            return Annotation(kind="url", url=url, title=string(part.get("title")))
        case {"type": "source-document"}:
            return Annotation(kind="file", title=string(part.get("title")) or string(part.get("filename")))
        case _:
            return None


def _take_tool(part: Object, kind: str, otherwise: str, steps: _Steps) -> None:
    """A tool part: the call, and by its state what came of it."""
    inner = part.get("toolInvocation")  # Version 4 wraps it.
    fields = mapping(inner) if kind == "tool-invocation" and isinstance(inner, dict) else part
    named = string(fields.get("toolName"))
    call_id = string(fields.get("toolCallId")) or otherwise
    arguments = next((fields[key] for key in ("input", "rawInput", "args") if fields.get(key) is not None), None)
    name = named if named is not None else kind.removeprefix("tool-")
    steps.call(ToolCall(call_id=call_id, name=name, arguments=argument_text(arguments)))
    match fields.get("state"):
        case "output-available" | "result":
            steps.result(_result(fields, call_id))
        case None if "output" in fields or "result" in fields:
            steps.result(_result(fields, call_id))
        case "output-error":
            steps.result(ToolResult(call_id=call_id, output=fields.get("errorText"), is_error=True))
        case "output-denied":
            steps.result(ToolResult(call_id=call_id, output=_DENIED, is_error=True))
        case "approval-responded":
            approval = mapping(fields.get("approval"))
            decided = {"approve": approval.get("approved"), "reason": approval.get("reason")}
            steps.answer(Data(name=APPROVAL_RESPONSE, value={"id": string(approval.get("id")) or call_id, **decided}))
        case _:
            pass  # Its input is still coming, or it waits for its output or for approval.


def _result(fields: Object, call_id: str) -> ToolResult:
    output = fields.get("output", fields.get("result"))
    if fields.get("type") == "tool-result":  # A model message's: its output says what kind of value it is.
        match output:
            case {"type": str(kind), "value": value}:
                return ToolResult(call_id=call_id, output=value, is_error=kind.startswith("error-"))
            case _:
                pass
    return ToolResult(call_id=call_id, output=output)


# Writing


class _Turns:
    """Puts an assistant's messages and the results between them into one UI message."""

    def __init__(self) -> None:
        self.written: list[Any] = []
        self._turn: list[dict[str, Any]] | None = None
        """The parts of the assistant's message that is open."""
        self._open: dict[str, dict[str, Any]] = {}
        """Tool parts that wait for their result."""

    def add(self, message: Message) -> None:
        if message.role == "tool":
            for result in message.tool_results:
                self._answer(result)
            return
        turn = self._turn if message.role == "assistant" else None
        parts = self._start(message) if turn is None else turn
        before = len(parts)
        for part in message.parts:
            if isinstance(part, ToolResult):
                self._answer(part)
            elif message.role == "assistant" or not isinstance(part, ToolCall):
                parts += self._written(part, len(parts))
        if 0 < before < len(parts):
            parts.insert(before, {"type": "step-start"})

    def _start(self, message: Message) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        self._turn = parts if message.role == "assistant" else None
        role = "system" if message.role == "developer" else message.role
        written = {"id": message.id or f"message-{len(self.written)}", "role": role, "parts": parts}
        self.written.append({**written, "metadata": message.metadata} if message.metadata else written)
        return parts

    def _answer(self, result: ToolResult) -> None:
        part = self._open.pop(result.call_id, None)
        if part is None:
            return  # No call asked for it.
        if result.is_error:
            part |= {"state": "output-error", "errorText": result_text(result.output)}
        else:
            part |= {"state": "output-available", "output": result.output}

    def _written(self, part: _Spoken, place: int) -> Iterable[dict[str, Any]]:
        match part:
            case Text(text=text, annotations=notes):
                return [{"type": "text", "text": text}, *_sources(notes, place)]
            case ToolCall(call_id=call_id):
                tool = {"type": "dynamic-tool", "toolName": part.name, "toolCallId": call_id}
                self._open[call_id] = tool | {"state": "input-available", "input": part.parsed}
                return [self._open[call_id]]
            case _:
                return [_written(part)]


def _written(part: Reasoning | Refusal | File | Data) -> dict[str, Any]:
    match part:
        case Reasoning(text=text, encrypted=encrypted):
            return {"type": "reasoning", "text": text, **_kept(encrypted=encrypted)}
        case Refusal(text=text):
            return {"type": "text", "text": text, **_kept(refusal=True)}
        case File(file_id=str(file_id), url=None, data=None):
            told = {"media_type": part.media_type, "file_id": file_id}
            return {"type": "data-file", "data": {**told, **given(filename=part.filename)}}
        case File():
            place = {"mediaType": part.media_type, "url": address(part)}
            return {"type": "file", **place, **given(filename=part.filename)}
        case Data(name=name, value=value):
            return value if _is_raw(part) else {"type": f"data-{name}", "data": value}


def _kept(**fields: Any) -> dict[str, Any]:
    kept = given(**fields)
    return {"providerMetadata": {"palaver": kept}} if kept else {}


def _is_raw(part: Data) -> bool:
    """Would its value be read as this very part, wherever it stands, and not as something that nobody said?"""
    kind = part.name.removeprefix(_RAW)
    if kind == part.name or mapping(part.value).get("type") != kind or kind.startswith("source-"):
        return False
    alone = _Steps("assistant", None)
    _take(part.value, "", alone)
    alone.cut()
    match alone.messages:
        case [Message(parts=(Data(name=name, value=value),))]:
            return name == part.name and value is part.value
        case _:
            return False


def _sources(notes: Sequence[Annotation], place: int) -> Iterable[dict[str, Any]]:
    told = [note for note in notes if note.kind == "file" or (note.kind == "url" and note.url is not None)]
    for number, note in enumerate(told, place):
        source = {"sourceId": f"source-{number}"}
        if note.kind == "url":
            yield {"type": "source-url", **source, "url": note.url, **given(title=note.title)}
        else:
            yield {"type": "source-document", **source, "mediaType": UNKNOWN_MEDIA, "title": note.title or ""}
