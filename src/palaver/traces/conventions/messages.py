"""Build messages from attribute values, from indexed fields, and from events.

`parse_messages` reads messages in any dialect, complete or broken. Conventions whose messages come in indexed fields
(`build_elements`) or in events (`split_events`) first put each into an object as Chat Completions has it. Calls without
an id, and results without a call id, get the id `""` at first: the messages of a span may come from two conventions, so
`span_mapper` assigns ids to all of them together with `assign_call_ids`.
"""

import re
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from palaver.core import dialects, json
from palaver.core.dialects.detection import Segment, detect_element, split_by_dialect, unwrap_message
from palaver.core.dialects.gen_ai import split_results
from palaver.core.extraction import Prefer, read_conversation
from palaver.core.ids import truncate_id
from palaver.core.json import (
    Object,
    argument_text,
    as_dict,
    as_list,
    dict_or_empty,
    is_list,
    is_object,
    list_items,
    optional_str,
)
from palaver.core.messages import ROLE_ALIASES, Data, Message, Part, Reasoning, Role, Text, ToolCall, ToolResult
from palaver.traces.conventions.attributes import MAX_ENTRIES, Entry, collect_indexed, parse_container

UNREADABLE = "unreadable"
"""Name of the data part that holds an entry which could not be read."""

_DEFAULT_ROLES: dict[Prefer, Role] = {"input": "user", "output": "assistant"}
_INDEX_OFFSET = 9_000_000_000_000
"""Dialects generate an id from the index of a call.

No list has indexes this large, so generated ids are recognizable.
"""
_GENERATED_PREFIX = "call_90000"
_GENERATED_ID = re.compile(r"call_[0-9_]+")
_PART_TYPES_TO_TIDY = frozenset((ToolCall, ToolResult, Data))
_SERVER_CALL, _SERVER_RESULT = "gen-ai:server_tool_call", "gen-ai:server_tool_call_response"
_OLD_THINKING = "ui-message:thinking"
"""The older name of reasoning, which alone identifies no dialect."""


def find_messages(value: Any, side: Prefer) -> tuple[Message, ...]:
    """Return the conversation anywhere in a value; empty if there is none."""
    conversation = None if value is None else read_conversation(value, side)
    return () if conversation is None else tidy_conversation(conversation.messages, value)


def parse_messages(value: Any, side: Prefer) -> tuple[Message, ...]:
    """Parse the messages in a value or its JSON text. Nothing is lost, nothing raises.

    Plain text is one message, of the user on the input side and of the assistant on the output side. An entry that
    cannot be read becomes a message with a data part `unreadable`. If there is one, only MAX_ENTRIES entries are read
    and the rest becomes one such part: a few bytes must not cost a message each.
    """
    value = parse_container(value)
    if value is None or value in ("", [], {}):
        return ()
    if type(value) is str:
        return (Message(_DEFAULT_ROLES[side], (Text(value),)),)
    try:
        segments = split_by_dialect(value)
        if segments is not None:
            return _tidy(_read_segments(segments))
    except Exception:  # noqa: S110 - An element failed: read them one by one, so that it affects no other.
        pass
    if is_object(value) and (conversation := read_conversation(value, side)) is not None:
        return tidy_conversation(conversation.messages, value)
    elements = list_items(value) if is_list(value) else [value]
    first, remaining = elements[:MAX_ENTRIES], elements[MAX_ENTRIES:]
    messages = [message for index, element in enumerate(first) for message in _parse_element(element, side, index)]
    return _tidy([*messages, _unreadable_message(remaining, side)] if remaining else messages)


def parse_parts(content: Any) -> Any:
    """Parse JSON text of a list of parts; return any other content unchanged."""
    if type(content) is not str or content.lstrip()[:1] != "[":
        return content
    parts = parse_container(content)
    return list(map(_typed_part, parts)) if is_list(parts) and parts and all(map(_is_part, parts)) else content


_CONVERSE_KINDS = ("toolUse", "toolResult", "reasoningContent")


def _is_part(item: Any) -> bool:
    if not is_object(item):
        return False
    has_kind = type(item.get("type")) is str or type(item.get("text")) is str
    return has_kind or any(is_object(item.get(kind)) for kind in _CONVERSE_KINDS)


def _typed_part(part: Object) -> Object:
    """Return a part of Bedrock's Converse, which Strands records, as Anthropic has it; others unchanged."""
    match part:
        case {"toolUse": {"name": str(name), **call}}:
            return {"type": "tool_use", "id": call.get("toolUseId"), "name": name, "input": call.get("input")}
        case {"toolResult": {"content": content, **result}}:
            is_error = result.get("status") == "error"
            blocks = [_result_block(block) for block in as_list(content)]
            call_id = result.get("toolUseId")
            return {"type": "tool_result", "tool_use_id": call_id, "content": blocks, "is_error": is_error}
        case {"reasoningContent": {"reasoningText": {"text": str(text), **signature}}}:
            return {"type": "thinking", "thinking": text, **signature}
        case _:
            return part


def _result_block(block: Any) -> Any:
    return {"type": "text", **block} if is_object(block) and "text" in block else block


def tidy_conversation(messages: Sequence[Message], source: Any) -> tuple[Message, ...]:
    """Clean up messages found by searching a value: ids that the search generated are removed."""
    call_ids = {part.call_id for message in messages for part in message.parts if type(part) is ToolCall}
    candidates = {call_id for call_id in call_ids if _GENERATED_ID.fullmatch(call_id)}
    if candidates and json.is_encodable(source):
        generated = candidates.difference(_GENERATED_ID.findall(json.encode(source).decode()))
        messages = [_remove_ids(message, generated) for message in messages] if generated else messages
    return _tidy(messages)


def _read_segments(segments: Sequence[Segment]) -> list[Message]:
    messages: list[Message] = []
    for segment in segments:
        messages += dialects.read_elements(segment.dialect, segment.elements, _INDEX_OFFSET + segment.start)
    return messages


def _parse_element(element: Any, side: Prefer, index: int) -> Iterable[Message]:
    """Parse one entry: in any dialect, with any role or none, or as text."""
    if isinstance(element, str):
        return (Message(_DEFAULT_ROLES[side], (Text(element),)),) if element else ()
    try:
        fields = as_dict(element)
        message = fields if detect_element(fields) else unwrap_message(fields)
        if message is None and fields is not None:
            message = {**fields, "role": _DEFAULT_ROLES[side]}
        detected = detect_element(message)
        if message is not None and detected is not None:
            return dialects.read_elements(detected[0], [message], _INDEX_OFFSET + index)
        if is_list(element) and (segments := split_by_dialect(element)) is not None:
            return _read_segments(segments)
    except Exception:  # noqa: S110 - It holds values that JSON can't encode.
        pass
    return (_unreadable_message(element, side),)


def _unreadable_message(element: Any, side: Prefer) -> Message:
    role = dict_or_empty(element).get("role")
    message_role = (
        ROLE_ALIASES.get(role.lower(), _DEFAULT_ROLES[side]) if isinstance(role, str) else _DEFAULT_ROLES[side]
    )
    return Message(message_role, (Data(UNREADABLE, element if json.is_encodable(element) else None),))


# Cleanup


def _tidy(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Remove generated ids, and turn a provider's own tool parts into calls and results."""
    result: list[Message] = []
    for message in messages:
        for part in message.parts:
            if type(part) in _PART_TYPES_TO_TIDY:
                result += _tidy_message(message)
                break
        else:
            result.append(message)
    return tuple(result)


def _tidy_message(message: Message) -> Iterable[Message]:
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolCall | ToolResult) and part.call_id.startswith(_GENERATED_PREFIX):
            part = msgspec.structs.replace(part, call_id="")
        elif type(part) is Data:
            part = _convert_known_part(part)
        parts.append(part)
    # Many senders add an empty text to tool calls.
    nonempty = [part for part in parts if not (type(part) is Text and not part.text)]
    return split_results(msgspec.structs.replace(message, parts=tuple(nonempty)))


def _convert_known_part(part: Data) -> Part:
    if part.name == _OLD_THINKING:
        value = dict_or_empty(part.value)
        text = optional_str(value.get("content")) or optional_str(value.get("thinking"))
        return Reasoning(text) if text else part
    if part.name == _SERVER_CALL:
        value = dict_or_empty(part.value)
        arguments = value.get("server_tool_call", value.get("arguments"))
        name = optional_str(value.get("name")) or optional_str(dict_or_empty(arguments).get("type")) or ""
        return ToolCall(optional_str(value.get("id")) or "", name, argument_text(arguments))
    if part.name == _SERVER_RESULT:
        value = dict_or_empty(part.value)
        answer = value.get("server_tool_call_response", value.get("response", value.get("result")))
        return ToolResult(optional_str(value.get("id")) or "", answer)
    return part


def _remove_ids(message: Message, generated: set[str]) -> Message:
    parts = [
        msgspec.structs.replace(part, call_id="")
        if isinstance(part, ToolCall | ToolResult) and part.call_id in generated
        else part
        for part in message.parts
    ]
    return msgspec.structs.replace(message, parts=tuple(parts))


# Call ids


def assign_call_ids(
    messages_in: tuple[Message, ...], messages_out: tuple[Message, ...]
) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Give every call an id: its own, trimmed and bounded, or `call_<n>` for the n-th call of the span.

    A result without an id answers the earliest unanswered call. So does one that names an unknown call: OpenAI's
    Responses have two ids per call, and senders may use the wrong one.
    """
    messages = (*messages_in, *messages_out)
    if not any(type(part) is ToolCall or type(part) is ToolResult for message in messages for part in message.parts):
        return messages_in, messages_out
    ids = _CallIds(messages)
    assigned = tuple([ids.assign(message) for message in messages])
    return assigned[: len(messages_in)], assigned[len(messages_in) :]


class _CallIds:
    """Call ids of one span: the ids in use, and which result answers which call."""

    __slots__ = ("_assigned_ids", "_call_by_result", "_ids", "_last_number", "_renamed", "_result_count")

    def __init__(self, messages: Iterable[Message]) -> None:
        parts = [
            part for message in messages for part in message.parts if type(part) is ToolCall or type(part) is ToolResult
        ]
        self._ids = {_trim_id(part.call_id) for part in parts}
        self._renamed, self._call_by_result = _pair_calls(parts)
        self._assigned_ids: list[str] = []
        self._result_count = self._last_number = 0

    def assign(self, message: Message) -> Message:
        parts: list[Part] = []
        changed = False
        for part in message.parts:
            if type(part) is ToolCall:
                call_id = self._assign_call_id(_trim_id(part.call_id))
                if call_id != part.call_id:
                    part, changed = ToolCall(call_id, part.name, part.arguments), True
            elif type(part) is ToolResult:
                call_id = self._assign_result_id(_trim_id(part.call_id))
                if call_id != part.call_id:
                    part, changed = ToolResult(call_id, part.output, part.is_error), True
            parts.append(part)
        return msgspec.structs.replace(message, parts=tuple(parts)) if changed else message

    def _assign_call_id(self, call_id: str) -> str:
        number = len(self._assigned_ids)
        call_id = self._renamed.get(number, call_id)
        if not call_id:
            self._last_number = max(number + 1, self._last_number + 1)
            while (call_id := f"call_{self._last_number}") in self._ids:  # A sender's own id may look the same.
                self._last_number += 1
        self._assigned_ids.append(call_id)
        return call_id

    def _assign_result_id(self, call_id: str) -> str:
        call = self._call_by_result.get(self._result_count)
        self._result_count += 1
        return call_id if call is None else self._assigned_ids[call]


def _pair_calls(parts: Sequence[ToolCall | ToolResult]) -> tuple[dict[int, str], dict[int, int]]:
    """Pair unanswered calls with results that name no known call, earliest first.

    Returns the id that a result has for its call, by call number, and the call number of results without an id, by
    result number.
    """
    call_ids = {_trim_id(part.call_id) for part in parts if type(part) is ToolCall}
    result_ids = {_trim_id(part.call_id) for part in parts if type(part) is ToolResult}
    renamed: dict[int, str] = {}
    call_by_result: dict[int, int] = {}
    unanswered: deque[int] = deque()
    call_count = result_count = 0
    for part in parts:
        call_id = _trim_id(part.call_id)
        if type(part) is ToolCall:
            if not call_id or call_id not in result_ids:
                unanswered.append(call_count)
            call_count += 1
            continue
        if unanswered and not call_id:
            call_by_result[result_count] = unanswered.popleft()
        elif unanswered and call_id not in call_ids:
            renamed[unanswered.popleft()] = call_id
            call_ids.add(call_id)
        result_count += 1
    return renamed, call_by_result


def _trim_id(call_id: str) -> str:
    return truncate_id(call_id.strip())


_MESSAGE_FIELDS = ("role", "content", "name", "tool_call_id")
_IMAGE_URL_FIELDS = ("image.image.url", "image_url.url", "image_url")
_CALL_FIELDS = (("id", "id"), ("name", "name"), ("arguments", "arguments"))
_FUNCTION_FIELDS = (("name", "function.name"), ("arguments", "function.arguments"))


class FieldNames(msgspec.Struct, frozen=True):
    """The prefixes that a convention puts before field names, each with its dot."""

    message: str = ""
    contents: str = "content"
    """Name under which the parts of a message are indexed."""
    content: str = ""
    call: str = ""


def build_elements(entries: Iterable[Entry], names: FieldNames) -> list[Any]:
    """Build one Chat Completions object per entry of indexed fields."""
    return [_build_element(entry, names) for entry in entries]


def _build_element(entry: Entry, names: FieldNames) -> Any:
    prefix = names.message
    message = {field: entry[prefix + field] for field in _MESSAGE_FIELDS if entry.get(prefix + field) is not None}
    if len(message) < len(entry):  # More than role and content.
        part_entries = collect_indexed(entry, prefix + names.contents)
        calls = _build_calls(entry, names, part_entries)
        if calls:
            message["tool_calls"] = calls
        function = _build_function_call(entry, prefix)
        if function is not None:
            message["function_call"] = function
        content = [_build_part(part_entry, names) for part_entry in part_entries if not _is_call(part_entry, names)]
        if content:
            message["content"] = content
    if not message:
        return entry[""] if len(entry) == 1 and "" in entry else entry
    if len(message) == 1 and "role" in message:
        message["content"] = ""  # Many senders leave out an empty text.
    return message


def _build_calls(entry: Entry, names: FieldNames, part_entries: Sequence[Entry]) -> list[Any]:
    calls = [_build_call(call, names.call) for call in collect_indexed(entry, f"{names.message}tool_calls")]
    if calls:
        return calls
    calls_in_parts = [_build_call(part_entry, names.call) for part_entry in part_entries if _is_call(part_entry, names)]
    value = parse_container(entry.get(f"{names.message}tool_calls"))
    return calls_in_parts or (list_items(value) if is_list(value) else [])


def _is_call(part_entry: Entry, names: FieldNames) -> bool:
    return bool(names.call) and f"{names.call}function.name" in part_entry


def _build_call(call: Entry, prefix: str) -> Object:
    fields = {key: call[prefix + name] for key, name in _CALL_FIELDS if prefix + name in call}
    return fields | {key: call[prefix + name] for key, name in _FUNCTION_FIELDS if prefix + name in call}


def _build_function_call(entry: Entry, prefix: str) -> Object | None:
    """Read a `function_call`, the predecessor of tool calls."""
    for name, arguments in (
        ("function_call.name", "function_call.arguments"),
        ("function_call_name", "function_call_arguments_json"),
    ):
        if isinstance(function := entry.get(prefix + name), str):
            return {"name": function, "arguments": entry.get(prefix + arguments)}
    return None


def _build_part(part_entry: Entry, names: FieldNames) -> Any:
    fields = {name.removeprefix(names.content): value for name, value in part_entry.items()}
    if "" in fields:
        return fields[""] if isinstance(fields[""], str) else {"type": "part", "value": fields[""]}
    for field in _IMAGE_URL_FIELDS:
        if isinstance(url := fields.get(field), str):
            return {"type": "image_url", "image_url": {"url": url}}
    if isinstance(url := fields.get("audio.audio.url"), str):
        default_type = None if url.startswith("data:") else "audio/*"  # A data URL has its media type.
        return {"type": "file", "data": url, "mediaType": fields.get("audio.audio.mime_type", default_type)}
    return fields


_EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
CHOICE_EVENT = "gen_ai.choice"
MESSAGE_EVENTS = frozenset((*_EVENT_ROLES, CHOICE_EVENT))
"""Names of the events that are messages."""

_EVENT_CONTENT = "gen_ai.event.content"


def event_body(attributes: Object) -> Object:
    """Return the attributes of an event, with the JSON content in one of them."""
    content = parse_container(attributes.get(_EVENT_CONTENT))
    if content is None:
        return attributes
    return {**attributes, **content} if is_object(content) else {"content": content, **attributes}


def event_message(name: str, body: Object) -> tuple[Prefer, Object] | None:
    """Return the side and message of an event; None for other events and events without content."""
    if name == CHOICE_EVENT:
        message = _choice_message(body)
        return None if message is None else ("output", message)
    role = _EVENT_ROLES.get(name)
    message = None if role is None else _body_message(body, role)
    return None if message is None else ("input", message)


def split_events(events: Iterable[tuple[str, Object]]) -> tuple[list[Object], list[Object]]:
    sides: dict[Prefer, list[Object]] = {"input": [], "output": []}
    for name, body in events:
        if (message := event_message(name, body)) is not None:
            sides[message[0]].append(message[1])
    return sides["input"], sides["output"]


def _choice_message(body: Object) -> Object | None:
    message = parse_container(body.get("message"))
    if is_object(message):
        return _body_message(message, "assistant")
    return _body_message({**body, "content": body.get("content") if message is None else message}, "assistant")


def _body_message(body: Object, default_role: str) -> Object | None:
    content, calls, role = parse_parts(body.get("content")), parse_container(body.get("tool_calls")), body.get("role")
    if content is None and not calls:
        return None  # Instrumentations send the event even where they must not record content.
    message: Object = {
        "role": role if isinstance(role, str) and role else default_role,
        "content": _as_content(content),
    }
    if is_list(calls):
        message["tool_calls"] = [dict_or_empty(parse_container(call)) for call in calls]
    if message["role"] == "tool" and isinstance(call_id := body.get("id", body.get("tool_call_id")), str):
        message["tool_call_id"] = call_id
    if isinstance(name := body.get("name"), str):
        message["name"] = name
    return message


def _as_content(content: Any) -> Any:
    """Return text and lists unchanged, and anything else as a list of one part."""
    return content if content is None or isinstance(content, str) or is_list(content) else [content]
