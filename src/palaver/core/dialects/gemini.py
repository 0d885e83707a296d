"""Gemini contents: `{"role": "model", "parts": [{"text": "…"}]}`; a part has no type but one distinctive field.

Keys are read in camel and in snake case, and a null field counts as absent: Google's SDKs write both. Results are in a
user message and need no id. A signature on anything but a thought becomes a separate reasoning part before it. Palaver
extensions, which other clients ignore, are under a part's `partMetadata.palaver`.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from palaver.core.dialects import chat_completions
from palaver.core.dialects.detection import content_of, read_role
from palaver.core.json import (
    Object,
    argument_text,
    as_list,
    dict_or_empty,
    ensure_json,
    is_object,
    is_text,
    optional_str,
    without_none,
)
from palaver.core.messages import (
    UNKNOWN_MEDIA_TYPE,
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
    join_texts_or_json,
    split_results,
    unique_calls,
)

LOSSES: Sequence[str] = (
    "Messages lose their ids, metadata and names, except for the name of a tool message without an earlier call.",
    "Developer messages become system messages.",
    "Empty text and empty reasoning that is not encrypted are dropped.",
    "Annotations are lost.",
    "Tool results outside tool messages become separate tool messages.",
    "Tool messages lose all parts except tool results.",
    "Of several calls with the same id in one message, only the first is kept.",
    "A call without an id gets one, and so does its result.",
    "Call arguments keep their value but not their exact text.",
    "Empty call arguments become `{}`.",
    "Call arguments that are not an object are wrapped in one.",
    "A file with several locations (id, URL, content) keeps only one.",
    "Files lose their `detail`.",
    "A URL without a scheme becomes the id of a stored file.",
)

_OBJECT = (dict,)
_RAW = "gemini:"
_SNAKE_CASE = {
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
_CONTENT_FIELDS = ("text", "functionCall", "functionResponse", "inlineData", "fileData")
_RAW_FIELDS = ("executableCode", "codeExecutionResult")
_KIND_FIELDS = (*_CONTENT_FIELDS[1:], *_RAW_FIELDS)
_METADATA_FIELDS = frozenset(
    "thought thoughtSignature thought_signature partMetadata part_metadata videoMetadata video_metadata type".split()
)
"""Fields that describe a part but do not determine its kind."""


def read(elements: Sequence[Any], start: int = 0) -> list[Message]:
    """Return one message per element, and one for every result in it."""
    calls = _CallMatcher()
    messages: list[Message] = []
    for index, element in enumerate(elements, start):
        messages += _read_messages(element, index, calls)
    return messages


def write(messages: Sequence[Message]) -> list[Any]:
    """Return contents; consecutive results share one."""
    contents = _ContentsWriter()
    for message in messages:
        contents.add(message)
    return contents.elements


# Reading


class _NamedCalls(Struct, gc=False):
    index: int
    ids: list[str]
    answered_count: int = 0
    """Number of calls that have a result."""


class _CallMatcher(Struct):
    """The calls so far, to match results without an id by name.

    Most results come in the order of the last message's calls; only if one does not are calls indexed by name.
    """

    pending: dict[str, bool] = {}
    """By call id, whether its result is still missing."""
    _index: int = -1
    _last: list[tuple[str, str]] = []
    """Ids and names of the calls in message `_index`."""
    _answered_count: int = 0
    """Number of them that were answered in order."""
    _unanswered: list[tuple[int, list[tuple[str, str]]]] = []
    """Unanswered calls of earlier messages."""
    _by_name: dict[str, list[_NamedCalls]] = {}
    """Indexed calls by name."""
    _indexed_message: int = -1
    """Index of the last message whose calls are indexed."""

    def add(self, call_id: str, name: str, index: int) -> None:
        self.pending[call_id] = True
        if index != self._index:
            if self._answered_count < len(self._last):
                self._retire_last()
            self._index, self._last, self._answered_count = index, [(call_id, name)], 0
        elif index != self._indexed_message:
            self._last.append((call_id, name))
        else:
            self._add_to_index(call_id, name, index)

    def answer(self, call_id: str | None, name: str) -> tuple[str, str | None]:
        """Return the id of the answered call, the first open one in the last message with such calls.

        The name is returned only if the call is unknown.
        """
        if not call_id:
            call_id, call_name = (
                self._last[self._answered_count] if self._answered_count < len(self._last) else ("", None)
            )
            if call_name == name and self.pending[call_id]:
                self._answered_count += 1
            else:
                call_id = self._match_by_name(name)
        if call_id not in self.pending:
            return call_id, name or None
        self.pending[call_id] = False
        return call_id, None

    def _match_by_name(self, name: str) -> str:
        if self._last:
            self._retire_last()
        for index, calls in self._unanswered:
            for call_id, call_name in calls:
                self._add_to_index(call_id, call_name, index)
        self._unanswered, self._indexed_message = [], self._index
        return self._first_open(self._by_name.get(name))

    def _retire_last(self) -> None:
        """Keep calls that were not answered in order; their results may still come."""
        self._unanswered.append((self._index, self._last[self._answered_count :]))
        self._last, self._answered_count = [], 0

    def _add_to_index(self, call_id: str, name: str, index: int) -> None:
        groups = self._by_name.get(name)
        if not groups:
            self._by_name[name] = [_NamedCalls(index, [call_id])]
        elif groups[-1].index == index:
            groups[-1].ids.append(call_id)
        else:
            groups.append(_NamedCalls(index, [call_id]))

    def _first_open(self, groups: list[_NamedCalls] | None) -> str:
        while groups:
            group = groups[-1]
            while group.answered_count < len(group.ids):
                call_id = group.ids[group.answered_count]
                group.answered_count += 1
                if self.pending[call_id]:
                    return call_id
            groups.pop()
        return ""


def _read_messages(element: Any, index: int, calls: _CallMatcher) -> list[Message]:
    fields = dict_or_empty(element)
    role, name = read_role(fields, "user")
    messages: list[Message] = []
    group: list[tuple[int, Any]] = []
    for position, item in enumerate(as_list(content_of(fields))):
        response = _function_response(item)
        if response is None:
            group.append((position, item))
            continue
        messages += _read_group(role, name, group, fields, index, calls)
        messages.append(_read_result(response, calls))
        group = []
    messages += _read_group(role, name, group, fields, index, calls)
    if role != "tool" and (extra_calls := chat_completions.read_tool_calls(fields, index)):
        parts = messages.pop().parts if group and messages else ()
        new_calls = [call for call in unique_calls(extra_calls) if call not in parts]
        messages.append(Message(role, (*parts, *new_calls), None, name))
    return messages or [Message(role, (), None, name)]


def _read_group(
    role: Role, name: str | None, group: list[tuple[int, Any]], element: Object, index: int, calls: _CallMatcher
) -> list[Message]:
    """Return the message of the parts between results, if any."""
    parts = _read_parts(group, index, calls)
    if role != "tool":
        return [Message(role, tuple(parts), None, name)] if parts else []
    if not group:
        return []
    output = join_texts_or_json(parts, [item for _, item in group])
    return [Message.tool(optional_str(element.get("tool_call_id")) or "", output)]  # Without a call id.


def _read_parts(group: list[tuple[int, Any]], index: int, calls: _CallMatcher) -> list[Part]:
    parts: list[Part] = []
    call_ids: set[str] = set()
    for position, item in group:
        part = _read_part(item, index, position)
        kind = type(part)
        if kind is not Reasoning and kind is not Data and (signature := _field(item, "thoughtSignature")):
            parts += [Reasoning("", encrypted)] if (encrypted := optional_str(signature)) else []
        if type(part) is ToolCall:
            if part.call_id in call_ids:
                continue
            call_ids.add(part.call_id)
            calls.add(part.call_id, part.name, index)
        if (type(part) is Text and not part.text) or (type(part) is Reasoning and not (part.text or part.encrypted)):
            continue
        parts.append(part)
    return parts


def _read_part(item: Any, index: int, position: int) -> Part:
    fields = dict_or_empty(item)
    text = optional_str(fields.get("text") if fields else item)
    if text is not None:
        return Text(text) if len(fields) <= 1 else _read_text(fields, text)
    call = _field(fields, "functionCall")
    if call is not None and is_object(call):
        call_fields = dict_or_empty(call)
        call_id = optional_str(call_fields.get("id")) or f"call_{index}_{position}"
        return ToolCall(call_id, optional_str(call_fields.get("name")) or "", argument_text(call_fields.get("args")))
    return _read_file(fields) or Data(_RAW + _kind(fields), ensure_json(item))


def _read_text(item: Object, text: str) -> Part:
    kind = item.get("type")
    if item.get("thought") is True or kind == "reasoning":
        return Reasoning(text, optional_str(_field(item, "thoughtSignature")))
    if kind not in (None, "text", "input_text", "output_text"):
        return Data(_RAW + _kind(item), ensure_json(item))
    extension = dict_or_empty(dict_or_empty(_field(item, "partMetadata")).get("palaver"))
    if extension.get("refusal") is True:
        return Refusal(text)
    data = dict_or_empty(extension.get("data"))
    name = optional_str(data.get("name"))
    return Text(text) if name is None else Data(name, ensure_json(data.get("value")))


def _read_file(item: Object) -> File | None:
    inline, remote = dict_or_empty(_field(item, "inlineData")), dict_or_empty(_field(item, "fileData"))
    source = inline or remote
    if not source:
        return None
    media_type, filename = optional_str(_field(source, "mimeType")), optional_str(_field(source, "displayName"))
    data, uri = optional_str(inline.get("data")), optional_str(_field(remote, "fileUri"))
    if data is not None:
        return File(media_type or UNKNOWN_MEDIA_TYPE, data=data, filename=filename)
    return None if uri is None else _remote_file(uri, media_type, filename)


def _kind(fields: Object) -> str:
    """Return the field that determines the kind of part, else its type."""
    for name in _KIND_FIELDS:
        if _field(fields, name) is not None:
            return name
    field = next((key for key in fields if fields[key] is not None and key not in _METADATA_FIELDS), None)
    return optional_str(fields.get("type")) or optional_str(field) or "part"


def _function_response(item: Any) -> Object | None:
    fields = dict_or_empty(item)
    text = fields.get("text")
    if text is not None and is_text(text):
        return None  # The most common part.
    response = _field(fields, "functionResponse")
    return dict_or_empty(response) if response is not None and is_object(response) else None


def _read_result(response: Object, calls: _CallMatcher) -> Message:
    files = [file for item in as_list(response.get("parts")) if (file := _read_file(dict_or_empty(item))) is not None]
    call_id, name = calls.answer(optional_str(response.get("id")), optional_str(response.get("name")) or "")
    output, is_error = response.get("response"), False
    fields = dict_or_empty(output)
    if len(fields) == 1:  # By convention `output` or `error`.
        is_error = "error" in fields
        output = fields["error"] if is_error else fields.get("output", fields)
    return Message("tool", (ToolResult(call_id, ensure_json(output), is_error), *files), None, name)


def _remote_file(uri: str, media_type: str | None, filename: str | None) -> File:
    """Read a file by URL, or by the id of Google's file store."""
    if not uri.startswith("data:"):
        url, file_id = (uri, None) if "://" in uri else (None, uri)
        return File(media_type or UNKNOWN_MEDIA_TYPE, url, None, file_id, filename)
    return file_from_url(uri, UNKNOWN_MEDIA_TYPE, media_type=media_type, filename=filename)


def _field(item: Any, name: str) -> Any:
    fields = item if type(item) in _OBJECT else dict_or_empty(item)
    value = fields.get(name)
    return fields.get(_SNAKE_CASE[name]) if value is None and name in _SNAKE_CASE else value


# Writing


class _ContentsWriter:
    """Writes messages one by one; a result gets the name of its call."""

    def __init__(self) -> None:
        self.elements: list[Any] = []
        self._names: dict[str, str] = {}
        self._results: list[dict[str, Any]] | None = None
        """The parts of the last content if they are results; the next result is added to them."""

    def add(self, message: Message) -> None:
        for piece in split_results(message):
            if piece.role == "tool":
                for result in piece.tool_results:
                    self._add_result(result, piece.name)
            else:
                self._add_content(piece.role, piece.parts)

    def _add_content(self, role: Role, content: Iterable[Part]) -> None:
        parts: list[dict[str, Any]] = []
        signature: str | None = None
        """Attached to the next part."""
        for part in content:
            if isinstance(part, Text | Reasoning) and not (part.text or _encrypted(part)):
                continue
            if isinstance(part, ToolCall):
                self._names[part.call_id] = part.name
            signature_field = without_none(thoughtSignature=signature)
            if signature is not None and not isinstance(part, Text | ToolCall | File):
                parts.append({"text": "", "thought": True, **signature_field})
                signature_field = {}
            signature = _encrypted(part) if isinstance(part, Reasoning) and not part.text else None
            if signature is None:
                parts.append(_write_part(part) | signature_field)
        if signature is not None:
            parts.append({"text": "", "thought": True, "thoughtSignature": signature})
        role_name = {"assistant": "model", "developer": "system"}.get(role, role)
        self.elements.append({"role": role_name, "parts": parts or [{"text": ""}]})
        self._results = None

    def _add_result(self, result: ToolResult, name: str | None) -> None:
        if self._results is None:
            self._results = []
            self.elements.append({"role": "user", "parts": self._results})
        fields = {**without_none(id=result.call_id or None), "name": self._names.get(result.call_id, name or "")}
        self._results.append({"functionResponse": {**fields, "response": _response_object(result)}})


def _response_object(result: ToolResult) -> Object:
    output = result.output
    if result.is_error:
        return {"error": output}
    fields = dict_or_empty(output)
    has_reserved_key = len(fields) == 1 and ("output" in fields or "error" in fields)
    return {"output": output} if has_reserved_key or not isinstance(output, dict) else fields


def _encrypted(part: Part) -> str | None:
    return (part.encrypted or None) if isinstance(part, Reasoning) else None


def _write_part(part: Part) -> dict[str, Any]:
    match part:
        case Reasoning(text=text, encrypted=encrypted):
            return {"text": text, "thought": True, **without_none(thoughtSignature=encrypted)}
        case ToolCall(call_id=call_id, name=name, parsed=value):
            args = dict_or_empty(value) if isinstance(value, dict) else {"arguments": value}
            return {"functionCall": {**without_none(id=call_id or None), "name": name, "args": args}}
        case File(media_type=media_type, url=url, file_id=file_id):
            fields = {"mimeType": media_type, **without_none(displayName=part.filename)}
            uri = file_id if url is None else url
            if part.data or uri is None:
                return {"inlineData": {**fields, "data": part.data or ""}}
            return {"fileData": {**fields, "fileUri": uri}}
        case Refusal(text=text):
            return {"text": text, "partMetadata": {"palaver": {"refusal": True}}}
        case Data(name=name, value=value):
            data = {"name": name, "value": value}
            return value if _is_raw(part) else {"text": "", "partMetadata": {"palaver": {"data": data}}}
        case Text(text=text):
            return {"text": text}
        case ToolResult():
            raise AssertionError("a result has a content of its own")


def _is_raw(part: Data) -> bool:
    """Whether the value would be detected as Gemini and read as this part again."""
    value = dict_or_empty(part.value)
    has_content = any(_field(value, name) is not None for name in _CONTENT_FIELDS)
    return (
        not has_content
        and "type" not in value
        and part.name in [_RAW + kind for kind in _RAW_FIELDS if kind == _kind(value)]
    )
