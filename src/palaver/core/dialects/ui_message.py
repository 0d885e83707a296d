"""AI SDK UI messages: `{"role": "user", "parts": [{"type": "text", …}]}`.

A UI message is a whole assistant turn with its steps, tools and results: reading splits it, writing merges messages.
Text and reasoning parts look like those of Palaver's own dialect, so its `annotations` and `name` are read as well.
Values without a field in the SDK's format are under `providerMetadata.palaver`.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from palaver.core.dialects import chat_completions
from palaver.core.dialects.detection import read_role, speaker_role
from palaver.core.json import (
    Object,
    argument_text,
    as_list,
    dict_or_empty,
    ensure_json,
    optional_str,
    result_text,
    without_none,
)
from palaver.core.messages import (
    APPROVAL_RESPONSE,
    NO_METADATA,
    ROLE_ALIASES,
    UNKNOWN_MEDIA_TYPE,
    Annotation,
    Data,
    File,
    Message,
    Part,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolResult,
    file_from_url,
    file_to_url,
    parse_role,
    read_annotations,
    unique_calls,
)

LOSSES: Sequence[str] = (
    "Messages lose their names.",
    "Developer messages become system messages.",
    "A message without an id gets one.",
    "Assistant messages of one turn are merged; only the first keeps its id and metadata.",
    "Empty messages in a turn are dropped.",
    "A tool result moves directly after its call and splits the message at that point.",
    "Tool results without an earlier call are dropped, and so are repeated ones.",
    "Tool messages lose their ids, names and metadata, and all parts except tool results.",
    "Only assistant messages keep calls.",
    "Of several calls with the same id in one message, only the first is kept.",
    "A call without an id gets one.",
    "Call arguments keep their value but not their exact text.",
    "Empty call arguments become `{}`.",
    "Call arguments that are a JSON string lose their quotes.",
    "A failed tool result that is not text becomes JSON text.",
    "Annotations keep only a URL and title (kind `url`) or a title (kind `file`).",
    "A file with several locations (id, URL, content) keeps only one.",
    "Files lose their `detail`.",
    "A data part named `file` that looks like a stored file becomes one.",
)

RAW = "ui-message:"
"""Prefix of the names of data parts that hold an unknown part."""

CALL_KEYS = ("tool_calls", "function_call", "additional_kwargs")
"""Keys of calls in Chat Completions, which may be next to the parts of any message."""

_DENIED = "Denied."


def read_text(part: Object, kind: str) -> Part | None:
    """Read text, a refusal or reasoning; None without a text."""
    text, metadata = optional_str(part.get("text")), part.get("providerMetadata")
    if text is None and kind == "reasoning":
        text = optional_str(part.get("reasoning"))  # Version 4.
    if text is None:
        return None
    extension = dict_or_empty(dict_or_empty(metadata).get("palaver")) if metadata is not None else {}
    if kind == "reasoning":
        return Reasoning(text, optional_str(extension.get("encrypted")))
    if extension.get("refusal") is True:
        return Refusal(text)
    return Text(text, read_annotations(part["annotations"])) if "annotations" in part else Text(text)


def read_file(part: Object) -> File | None:
    """Read a file by URL, or as base64 as in version 4; None if it has neither."""
    url, filename = optional_str(part.get("url")), optional_str(part.get("filename"))
    media_type = optional_str(part.get("mediaType")) or optional_str(part.get("mimeType"))
    if url is not None:
        return file_from_url(url, UNKNOWN_MEDIA_TYPE, media_type=media_type, filename=filename)
    content = optional_str(part.get("data"))
    return None if content is None else File(media_type or UNKNOWN_MEDIA_TYPE, None, content, None, filename)


def read_data(part: Object, kind: str) -> Part:
    """Read application data, or a file in Palaver's file store."""
    value = part.get("data")
    if kind == "data-file":
        fields = dict_or_empty(value)
        media_type, file_id = optional_str(fields.get("media_type")), optional_str(fields.get("file_id"))
        if media_type is not None and file_id is not None:
            return File(media_type, None, None, file_id, optional_str(fields.get("filename")))
    return Data(kind.removeprefix("data-"), ensure_json(value))


def read_source(part: Object, kind: str) -> Annotation | None:
    """Read a source as an annotation on the preceding text; None if it is empty."""
    title, url = optional_str(part.get("title")), optional_str(part.get("url"))
    if kind == "source-document":
        return Annotation("file", title or optional_str(part.get("filename")))
    return None if url is None else Annotation("url", title, url)


def keep_raw(part: Any, kind: str) -> Data:
    return Data(f"{RAW}{kind or 'part'}", ensure_json(part))


def read_tool(part: Object, kind: str, default_id: str) -> tuple[ToolCall, ToolResult | Data | None]:
    """Read a call and, by its state, its outcome: a result, or the user's approval."""
    fields = part
    if kind == "tool-invocation":
        fields = dict_or_empty(part.get("toolInvocation")) or part  # Version 4 wraps it.
    call_id, tool_name = optional_str(fields.get("toolCallId")), optional_str(fields.get("toolName"))
    arguments = fields.get("input")
    if arguments is None:
        arguments = fields.get("rawInput")
        arguments = fields.get("args") if arguments is None else arguments
    name = kind.removeprefix("tool-") if tool_name is None else tool_name
    call = ToolCall(call_id or default_id, name, argument_text(arguments))
    return call, _read_outcome(fields, optional_str(fields.get("state")), call.call_id)


def _read_outcome(fields: Object, state: str | None, call_id: str) -> ToolResult | Data | None:
    match state:
        case "output-available" | "result":
            return _read_result(fields, call_id)
        case None if "output" in fields or "result" in fields:
            return _read_result(fields, call_id)
        case "output-error":
            return ToolResult(call_id, ensure_json(fields.get("errorText")), True)
        case "output-denied":
            return ToolResult(call_id, _DENIED, True)
        case "approval-responded":
            approval = dict_or_empty(fields.get("approval"))
            approval_id = optional_str(approval.get("id")) or call_id
            decision = {"approve": approval.get("approved"), "reason": approval.get("reason")}
            call = {"call_id": call_id} if approval_id != call_id else {}
            return Data(APPROVAL_RESPONSE, ensure_json({"id": approval_id, **call, **decision}))
        case _:
            return None  # Input incomplete, or waiting for output or approval.


def _read_result(fields: Object, call_id: str) -> ToolResult:
    output = fields.get("output", fields.get("result"))
    if fields.get("type") == "tool-result":  # From a model message, with a typed output.
        typed = dict_or_empty(output)
        kind = optional_str(typed.get("type"))
        if kind is not None and "value" in typed:
            return ToolResult(call_id, ensure_json(typed["value"]), kind.startswith("error-"))
    return ToolResult(call_id, ensure_json(output))


_CHAT_KEYS = frozenset({*CALL_KEYS, "tool_call_id", "text", "message", "delta"})
"""Keys of Chat Completions next to or instead of `content`."""
_DICT, _LIST = (dict,), (list,)
_STEP_START = {"type": "step-start"}
_WritablePart = Text | Reasoning | File | ToolCall | Refusal | Data


def read(elements: Sequence[Any], start: int = 0) -> list[Message]:
    """Return one or more messages per element: results and the parts after them are separate messages."""
    messages: list[Message] = []
    for index, element in enumerate(elements, start):
        message = _read_plain_text(element)
        if message is not None:
            messages.append(message)
        else:
            messages += _read_messages(element, index)
    return messages


def write(messages: Sequence[Message]) -> list[Any]:
    """Return UI messages: one for every assistant turn, one for every other message."""
    turns = _TurnWriter()
    for message in messages:
        turns.add(message)
    return turns.elements


# Reading


class _StepSplitter:
    """Splits a UI message at results, which become messages."""

    __slots__ = ("_annotations", "_calls", "_last_text", "_parts", "_results", "_speaker", "_user_parts", "messages")

    def __init__(self, role: Role, name: str | None, message_id: str | None, metadata: dict[str, Any]) -> None:
        self.messages: list[Message] = []
        self._speaker = role, name, message_id, metadata
        self._start_step()

    def _start_step(self) -> None:
        self._parts: list[Part] = []
        self._last_text = -1
        """Index of the last text part."""
        self._annotations: dict[int, list[Annotation]] = {}
        """By index of the text part."""
        self._calls: dict[str, ToolCall] = {}
        self._results: dict[str, ToolResult] = {}
        self._user_parts: list[Part] = []

    def add(self, part: Part) -> None:
        """Add a part; after a result it starts a new message."""
        if self._results or self._user_parts:
            self.split()
        if type(part) is Text:
            self._last_text = len(self._parts)
        self._parts.append(part)

    def add_call(self, call: ToolCall, outcome: ToolResult | Data | None) -> None:
        """Add a call. Adjacent calls are one step; their outcomes follow at its end."""
        if self._calls.setdefault(call.call_id, call) is call:
            self._parts.append(call)
        if type(outcome) is ToolResult:
            self._results.setdefault(call.call_id, outcome)
        elif outcome is not None:
            self._user_parts.append(outcome)

    def add_annotation(self, annotation: Annotation) -> bool:
        """Add an annotation to the last text; return False without a text."""
        if self._last_text < 0:
            return False
        self._annotations.setdefault(self._last_text, []).append(annotation)
        return True

    def create_message(self, parts: tuple[Part, ...]) -> Message:
        """Create a message; only the first has the id and metadata."""
        role, name, message_id, metadata = self._speaker
        return Message(role, parts, None, name) if self.messages else Message(role, parts, message_id, name, metadata)

    def split(self) -> None:
        if not self._parts:
            return
        for position, notes in self._annotations.items():
            text = self._parts[position]
            assert isinstance(text, Text)
            self._parts[position] = Text(text.text, (*text.annotations, *notes))
        self.messages.append(self.create_message(tuple(self._parts)))
        if self._results:
            self.messages += [Message("tool", (result,)) for result in self._results.values()]
        if self._user_parts:
            self.messages.append(Message("user", tuple(self._user_parts)))
        self._start_step()


def _read_plain_text(element: Object) -> Message | None:
    """Return the message of an element that is one text part, as most are; None for any other."""
    parts: Any = element.get("parts")
    role, message_id = element.get("role"), element.get("id")
    if (
        type(parts) not in _LIST
        or type(role) is not str
        or not (len(parts) == 1 or (len(parts) == 2 and parts[0] == _STEP_START))
        or len(element) != (2 if message_id is None else 3)
        or type(part := parts[-1]) not in _DICT
        or len(part) != (3 if "state" in part else 2)
        or part.get("type") != "text"
        or type(text := part.get("text")) is not str
        or role not in ROLE_ALIASES
    ):
        return None
    return Message(ROLE_ALIASES[role], (Text(text),), optional_str(message_id))


def _read_messages(element: Object, index: int) -> list[Message]:
    if _CHAT_KEYS.isdisjoint(element):
        return _read_steps(element, index, ())
    role, _ = parse_role(speaker_role(element) or "", answers_a_call=True)
    if not element.get("parts") or (role == "tool" and optional_str(element.get("tool_call_id")) is not None):
        return chat_completions.read([element], index)
    return _read_steps(element, index, [*unique_calls(chat_completions.read_tool_calls(element, index))])


def _read_steps(element: Object, index: int, extra_calls: Sequence[ToolCall]) -> list[Message]:
    """Read the parts; `extra_calls` are added to the last message."""
    metadata = element.get("metadata")
    metadata_value = NO_METADATA if metadata is None else ensure_json(dict(dict_or_empty(metadata)))
    steps = _StepSplitter(*_speaker(element), optional_str(element.get("id")), metadata_value)
    for position, part in enumerate(as_list(element.get("parts"))):
        fields = dict_or_empty(part)
        kind = optional_str(fields.get("type")) or ""
        if kind == "step-start":
            steps.split()
        elif kind in ("text", "reasoning"):
            steps.add(read_text(fields, kind) or keep_raw(part, kind))
        elif kind.startswith("tool-") or kind == "dynamic-tool":
            steps.add_call(*read_tool(fields, kind, f"call_{index}_{position}"))
        elif kind in ("source-url", "source-document"):
            annotation = read_source(fields, kind)
            if annotation is None or not steps.add_annotation(annotation):
                steps.add(keep_raw(part, kind))
        elif kind == "file":
            steps.add(read_file(fields) or keep_raw(part, kind))
        else:
            steps.add(read_data(fields, kind) if kind.startswith("data-") else keep_raw(part, kind))
    call_ids = {call.call_id for message in steps.messages for call in message.tool_calls} if extra_calls else ()
    for call in extra_calls:
        if call.call_id not in call_ids:
            steps.add_call(call, None)
    steps.split()
    return steps.messages or [steps.create_message(())]


def _speaker(element: Object) -> tuple[Role, str | None]:
    role, role_name = read_role(element)
    name = optional_str(element.get("name"))
    return role, role_name if name is None else name


# Writing


class _TurnWriter:
    """Merges assistant messages and the results between them into one UI message."""

    def __init__(self) -> None:
        self.elements: list[Any] = []
        self._turn: list[dict[str, Any]] | None = None
        """Parts of the open assistant message."""
        self._unanswered: dict[str, dict[str, Any]] = {}
        """Tool parts without a result, by call id."""

    def add(self, message: Message) -> None:
        if message.role == "tool":
            for result in message.tool_results:
                self._set_result(result)
            return
        turn = self._turn if message.role == "assistant" else None
        parts = self._start_element(message) if turn is None else turn
        start = len(parts)
        for part in message.parts:
            if isinstance(part, ToolResult):
                self._set_result(part)
            elif message.role == "assistant" or not isinstance(part, ToolCall):
                parts += self._write_part(part, len(parts))
        if 0 < start < len(parts):
            parts.insert(start, {"type": "step-start"})

    def _start_element(self, message: Message) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        self._turn = parts if message.role == "assistant" else None
        role = "system" if message.role == "developer" else message.role
        element = {"id": message.id or f"message-{len(self.elements)}", "role": role, "parts": parts}
        self.elements.append({**element, "metadata": message.metadata} if message.metadata else element)
        return parts

    def _set_result(self, result: ToolResult) -> None:
        part = self._unanswered.pop(result.call_id, None)
        if part is None:
            return  # A result without a call.
        if result.is_error:
            part |= {"state": "output-error", "errorText": result_text(result.output)}
        else:
            part |= {"state": "output-available", "output": result.output}

    def _write_part(self, part: _WritablePart, position: int) -> Iterable[dict[str, Any]]:
        match part:
            case Text(text=text, annotations=notes):
                return [{"type": "text", "text": text}, *_write_sources(notes, position)]
            case ToolCall(call_id=call_id):
                tool = {"type": "dynamic-tool", "toolName": part.name, "toolCallId": call_id}
                self._unanswered[call_id] = tool | {"state": "input-available", "input": part.parsed}
                return [self._unanswered[call_id]]
            case _:
                return [_write_part(part)]


def _write_part(part: Reasoning | Refusal | File | Data) -> dict[str, Any]:
    match part:
        case Reasoning(text=text, encrypted=encrypted):
            return {"type": "reasoning", "text": text, **_palaver_metadata(encrypted=encrypted)}
        case Refusal(text=text):
            return {"type": "text", "text": text, **_palaver_metadata(refusal=True)}
        case File(file_id=str(file_id), url=None, data=None):
            fields = {"media_type": part.media_type, "file_id": file_id}
            return {"type": "data-file", "data": {**fields, **without_none(filename=part.filename)}}
        case File():
            fields = {"mediaType": part.media_type, "url": file_to_url(part)}
            return {"type": "file", **fields, **without_none(filename=part.filename)}
        case Data(name=name, value=value):
            return value if _is_raw(part) else {"type": f"data-{name}", "data": value}


def _palaver_metadata(**fields: Any) -> dict[str, Any]:
    values = without_none(**fields)
    return {"providerMetadata": {"palaver": values}} if values else {}


def _is_raw(part: Data) -> bool:
    """Whether reading the value yields this part again."""
    kind = part.name.removeprefix(RAW)
    if kind == part.name or dict_or_empty(part.value).get("type") != kind or kind.startswith("source-"):
        return False
    match _read_messages({"role": "assistant", "parts": [part.value]}, 0):
        case [Message(parts=(Data(name=name, value=value),))]:
            return name == part.name and value is part.value
        case _:
            return False


def _write_sources(notes: Sequence[Annotation], start: int) -> Iterable[dict[str, Any]]:
    citations = [note for note in notes if note.kind == "file" or (note.kind == "url" and note.url is not None)]
    for number, note in enumerate(citations, start):
        source = {"sourceId": f"source-{number}"}
        if note.kind == "url":
            yield {"type": "source-url", **source, "url": note.url, **without_none(title=note.title)}
        else:
            yield {"type": "source-document", **source, "mediaType": UNKNOWN_MEDIA_TYPE, "title": note.title or ""}
