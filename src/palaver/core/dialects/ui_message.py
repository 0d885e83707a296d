"""AI SDK UI messages: `{"role": "user", "parts": [{"type": "text", …}]}`.

One UI message is a whole turn of the assistant's: its steps, its tools with what they answered. Reading cuts it into
ours, writing puts ours together. Text and reasoning parts look like our own dialect's, whose additions are read as well
(`annotations` of a text, `name` of a message). What has no place of its own is kept under `providerMetadata.palaver`.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from palaver.core.dialects import chat_completions
from palaver.core.dialects.pieces import (
    UNKNOWN_MEDIA,
    Object,
    address,
    first_of_each,
    given,
    kept,
    listed,
    mapping,
    result_text,
    string,
)
from palaver.core.dialects.roles import ROLES, role_of
from palaver.core.dialects.ui_message_content import CALLS, RAW, data, file, raw, source, spoken, tool
from palaver.core.elements import actor
from palaver.core.messages import NOTHING, Message, Role
from palaver.core.parts import Annotation, Data, File, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

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

_CHAT = frozenset({*CALLS, "tool_call_id", "text", "message", "delta"})
"""What Chat Completions have beside their content, or in place of it."""
_Spoken = Text | Reasoning | File | ToolCall | Refusal | Data


def read(elements: Sequence[Any], start: int = 0) -> list[Message]:
    """One message and more per element: calls, their results and what follows stand in messages of their own."""
    messages: list[Message] = []
    for index, element in enumerate(elements, start):
        messages += _messages(element, index)
    return messages


def write(messages: Sequence[Message]) -> list[Any]:
    """UI messages: one for every turn of the assistant's, one for every other message."""
    turns = _Turns()
    for message in messages:
        turns.add(message)
    return turns.written


# Reading


class _Steps:
    """Cuts a UI message: what is said up to some results, the results, what is said after them, and so on."""

    __slots__ = ("_answers", "_calls", "_last_text", "_notes", "_parts", "_results", "_speaker", "messages")

    def __init__(self, role: Role, name: str | None, own_id: str | None, metadata: dict[str, Any]) -> None:
        self.messages: list[Message] = []
        self._speaker = role, name, own_id, metadata
        self._begin()

    def _begin(self) -> None:
        self._parts: list[Part] = []
        self._last_text = -1
        """Its place."""
        self._notes: dict[int, list[Annotation]] = {}
        """By the place of their text."""
        self._calls: dict[str, ToolCall] = {}
        self._results: dict[str, ToolResult] = {}
        self._answers: list[Part] = []

    def say(self, part: Part) -> None:
        """What is said after a result starts a message."""
        if self._results or self._answers:
            self.cut()
        if type(part) is Text:
            self._last_text = len(self._parts)
        self._parts.append(part)

    def call(self, call: ToolCall, outcome: ToolResult | Data | None) -> None:
        """Calls that stand together were made together; what came of them waits for the end of the step."""
        if self._calls.setdefault(call.call_id, call) is call:
            self._parts.append(call)
        if type(outcome) is ToolResult:
            self._results.setdefault(call.call_id, outcome)
        elif outcome is not None:
            self._answers.append(outcome)

    def note(self, note: Annotation) -> bool:
        """Add it to the last text, if there is one."""
        if self._last_text < 0:
            return False
        self._notes.setdefault(self._last_text, []).append(note)
        return True

    def message(self, parts: tuple[Part, ...]) -> Message:
        """What is its first message's alone, no other has."""
        role, name, own_id, metadata = self._speaker
        return Message(role, parts, None, name) if self.messages else Message(role, parts, own_id, name, metadata)

    def cut(self) -> None:
        """The end of a step, if it says anything; a call does."""
        if not self._parts:
            return
        for place, notes in self._notes.items():
            text = self._parts[place]
            assert isinstance(text, Text)
            self._parts[place] = Text(text.text, (*text.annotations, *notes))
        self.messages.append(self.message(tuple(self._parts)))
        if self._results:
            self.messages += [Message("tool", (result,)) for result in self._results.values()]
        if self._answers:
            self.messages.append(Message("user", tuple(self._answers)))
        self._begin()


def _messages(element: Object, index: int) -> list[Message]:
    if _CHAT.isdisjoint(element):
        return _steps(element, index, ())
    role, _ = role_of(actor(element) or "", answers_a_call=True)
    if not element.get("parts") or (role == "tool" and string(element.get("tool_call_id")) is not None):
        return chat_completions.read([element], index)  # Its parts are its content.
    return _steps(element, index, [*first_of_each(chat_completions.calls_beside(element, index))])


def _steps(element: Object, index: int, beside: Sequence[ToolCall]) -> list[Message]:
    """The messages of its parts, the last of which makes the calls that stand beside them as well."""
    metadata = element.get("metadata")
    about = NOTHING if metadata is None else kept(dict(mapping(metadata)))
    steps = _Steps(*_speaker(element), string(element.get("id")), about)
    for place, part in enumerate(listed(element.get("parts"))):
        fields = mapping(part)
        kind = string(fields.get("type")) or ""
        if kind == "step-start":
            steps.cut()
        elif kind in ("text", "reasoning"):
            steps.say(spoken(fields, kind) or raw(part, kind))
        elif kind.startswith("tool-") or kind == "dynamic-tool":
            steps.call(*tool(fields, kind, f"call_{index}_{place}"))
        elif kind in ("source-url", "source-document"):
            note = source(fields, kind)
            if note is None or not steps.note(note):
                steps.say(raw(part, kind))
        elif kind == "file":
            steps.say(file(fields) or raw(part, kind))
        else:
            steps.say(data(fields, kind) if kind.startswith("data-") else raw(part, kind))
    known = {call.call_id for message in steps.messages for call in message.tool_calls} if beside else ()
    for call in beside:
        if call.call_id not in known:
            steps.call(call, None)
    steps.cut()
    return steps.messages or [steps.message(())]


def _speaker(element: Object) -> tuple[Role, str | None]:
    written, name = element.get("role"), string(element.get("name"))
    role = ROLES.get(written) if type(written) is str else None
    if role is not None:
        return role, name
    role, told = role_of(actor(element) or "")
    return role, told if name is None else name


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
    kind = part.name.removeprefix(RAW)
    if kind == part.name or mapping(part.value).get("type") != kind or kind.startswith("source-"):
        return False
    match _messages({"role": "assistant", "parts": [part.value]}, 0):
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
