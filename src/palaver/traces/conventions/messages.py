"""Build messages from attribute values, from indexed fields, and from events."""

import re
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from palaver.core import dialects, json
from palaver.core.dialects.common import ROLE_ALIASES, argument_text, dict_or_empty, optional_str
from palaver.core.dialects.detection import Segment, detect_element, unwrap_message
from palaver.core.dialects.gen_ai import split_results
from palaver.core.extraction import Prefer, read_conversation
from palaver.core.ids import truncate_id
from palaver.core.json import Object, as_dict, is_list, is_object, list_items
from palaver.core.messages import Data, Message, Part, Reasoning, Role, Text, ToolCall, ToolResult
from palaver.traces.conventions.attributes import MAX_ENTRIES, Entry, collect_indexed, parse_container

UNREADABLE = "unreadable"
"""The name of the data in which an entry stays that could not be read."""

_DEFAULT_ROLES: dict[Prefer, Role] = {"input": "user", "output": "assistant"}
_INDEX_OFFSET = 9_000_000_000_000
"""Dialects name a call without an id by its place. From here on no list has places, so such names are known as ours."""
_GENERATED_PREFIX = "call_90000"
_GENERATED_ID = re.compile(r"call_[0-9_]+")
_PART_TYPES_TO_TIDY = frozenset((ToolCall, ToolResult, Data))
_SERVER_CALL, _SERVER_RESULT = "gen-ai:server_tool_call", "gen-ai:server_tool_call_response"
_OLD_THINKING = "ui-message:thinking"
"""Where all that was said is a thought by its older name, which tells nobody whose part it is."""


def parse_messages(value: Any, side: Prefer) -> tuple[Message, ...]:
    """The messages in a value, or its JSON text. Nothing is lost, nothing raised.

    Plain text is one message, the user's on the input side and the assistant's on the other; an entry that cannot be
    read is a message with one part of data, `unreadable`. Where there is one, two thousand entries are read, and all
    others are one such part: two bytes of a stranger's must not cost us a message.
    """
    value = parse_container(value)
    if value is None or value in ("", [], {}):
        return ()
    if type(value) is str:
        return (Message(_DEFAULT_ROLES[side], (Text(value),)),)
    try:
        found = dialects.detect(value)
        if found is not None:
            return _tidy(_read_stretches(found))
    except Exception:  # noqa: S110 - An element made trouble: then one by one, so that it spoils no other.
        pass
    if is_object(value) and (conversation := read_conversation(value, side)) is not None:
        return tidy_conversation(conversation.messages, value)
    elements = list_items(value) if is_list(value) else [value]
    alone, rest = elements[:MAX_ENTRIES], elements[MAX_ENTRIES:]
    read = [message for place, element in enumerate(alone) for message in _parse_element(element, side, place)]
    return _tidy([*read, _unreadable_message(rest, side)] if rest else read)


def parse_parts(content: Any) -> Any:
    """What was said, opened where it is JSON text of a list of parts; any other text is just what was said."""
    if type(content) is not str or content.lstrip()[:1] != "[":
        return content
    parts = parse_container(content)
    return parts if is_list(parts) and parts and all(map(_is_part, parts)) else content


def _is_part(item: Any) -> bool:
    return is_object(item) and (type(item.get("type")) is str or type(item.get("text")) is str)


def tidy_conversation(messages: Sequence[Message], source: Any) -> tuple[Message, ...]:
    """Messages that the search for a conversation found in a value: ids that only the search gave are taken back."""
    calls = {part.call_id for message in messages for part in message.parts if type(part) is ToolCall}
    suspects = {name for name in calls if _GENERATED_ID.fullmatch(name)}
    if suspects and json.is_encodable(source):
        invented = suspects.difference(_GENERATED_ID.findall(json.encode(source).decode()))
        messages = [_without_ids(message, invented) for message in messages] if invented else messages
    return _tidy(messages)


def _read_stretches(found: Sequence[Segment]) -> list[Message]:
    messages: list[Message] = []
    for stretch in found:
        reader = dialects.DIALECT_MODULES[stretch.dialect]
        messages += reader.read(stretch.elements, _INDEX_OFFSET + stretch.start)
    return messages


def _parse_element(element: Any, side: Prefer, place: int) -> Iterable[Message]:
    """An entry by itself: in any dialect, with any role or none, or as text."""
    if isinstance(element, str):
        return (Message(_DEFAULT_ROLES[side], (Text(element),)),) if element else ()
    try:
        fields = as_dict(element)
        message = fields if detect_element(fields) else unwrap_message(fields)
        if message is None and fields is not None:
            message = {**fields, "role": _DEFAULT_ROLES[side]}
        verdict = detect_element(message)
        if message is not None and verdict is not None:
            return dialects.DIALECT_MODULES[verdict[0]].read([message], _INDEX_OFFSET + place)
        if is_list(element) and (found := dialects.detect(element)) is not None:
            return _read_stretches(found)
    except Exception:  # noqa: S110 - What it holds cannot be written down.
        pass
    return (_unreadable_message(element, side),)


def _unreadable_message(element: Any, side: Prefer) -> Message:
    role = dict_or_empty(element).get("role")
    known = ROLE_ALIASES.get(role.lower(), _DEFAULT_ROLES[side]) if isinstance(role, str) else _DEFAULT_ROLES[side]
    return Message(known, (Data(UNREADABLE, element if json.is_encodable(element) else None),))


# What the dialects leave to do


def _tidy(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Without the ids that dialects made up; what a provider's own tools did are calls and results like any other."""
    tidied: list[Message] = []
    for message in messages:
        for part in message.parts:
            if type(part) in _PART_TYPES_TO_TIDY:
                tidied += _tidy_message(message)
                break
        else:
            tidied.append(message)
    return tuple(tidied)


def _tidy_message(message: Message) -> Iterable[Message]:
    parts: list[Part] = []
    for part in message.parts:
        if type(part) is ToolCall and part.call_id.startswith(_GENERATED_PREFIX):
            part = ToolCall("", part.name, part.arguments)
        elif type(part) is ToolResult and part.call_id.startswith(_GENERATED_PREFIX):
            part = ToolResult("", part.output, part.is_error)
        elif type(part) is Data:
            part = _known_part(part)
        parts.append(part)
    # Who calls a tool may say nothing: many write that down as an empty text.
    said = [part for part in parts if not (type(part) is Text and not part.text)]
    return split_results(msgspec.structs.replace(message, parts=tuple(said)))


def _known_part(part: Data) -> Part:
    if part.name == _OLD_THINKING:
        told = dict_or_empty(part.value)
        thought = optional_str(told.get("content")) or optional_str(told.get("thinking"))
        return Reasoning(thought) if thought else part
    if part.name == _SERVER_CALL:
        told = dict_or_empty(part.value)
        given = told.get("server_tool_call", told.get("arguments"))
        name = optional_str(told.get("name")) or optional_str(dict_or_empty(given).get("type")) or ""
        return ToolCall(optional_str(told.get("id")) or "", name, argument_text(given))
    if part.name == _SERVER_RESULT:
        told = dict_or_empty(part.value)
        answer = told.get("server_tool_call_response", told.get("response", told.get("result")))
        return ToolResult(optional_str(told.get("id")) or "", answer)
    return part


def _without_ids(message: Message, invented: set[str]) -> Message:
    parts: list[Part] = []
    for part in message.parts:
        if type(part) is ToolCall and part.call_id in invented:
            part = ToolCall("", part.name, part.arguments)
        elif type(part) is ToolResult and part.call_id in invented:
            part = ToolResult("", part.output, part.is_error)
        parts.append(part)
    return msgspec.structs.replace(message, parts=tuple(parts))


# The ids of calls


def assign_call_ids(
    messages_in: tuple[Message, ...], messages_out: tuple[Message, ...]
) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Both, with an id for every call: its own, trimmed and of bounded length, or `call_<n>` for the n-th of the span.

    A result without an id answers the earliest call that none has answered yet. So does one that names a call which is
    not there: OpenAI's Responses have two ids for each, and who writes them down may take the wrong one for the call.
    """
    messages = (*messages_in, *messages_out)
    if not any(type(part) is ToolCall or type(part) is ToolResult for message in messages for part in message.parts):
        return messages_in, messages_out
    names = _CallIds(messages)
    named = tuple([names.named(message) for message in messages])
    return named[: len(messages_in)], named[len(messages_in) :]


class _CallIds:
    """The calls of one span: how many there were, whose ids are taken, and which is answered by whom."""

    __slots__ = ("_answers", "_last", "_names", "_renamed", "_results", "_taken")

    def __init__(self, messages: Iterable[Message]) -> None:
        parts = [
            part for message in messages for part in message.parts if type(part) is ToolCall or type(part) is ToolResult
        ]
        self._taken = {_trim_id(part.call_id) for part in parts}
        self._renamed, self._answers = _pair_calls(parts)
        self._names: list[str] = []
        self._results = self._last = 0

    def named(self, message: Message) -> Message:
        parts: list[Part] = []
        changed = False
        for part in message.parts:
            if type(part) is ToolCall:
                named = self._call(_trim_id(part.call_id))
                if named != part.call_id:
                    part, changed = ToolCall(named, part.name, part.arguments), True
            elif type(part) is ToolResult:
                named = self._result(_trim_id(part.call_id))
                if named != part.call_id:
                    part, changed = ToolResult(named, part.output, part.is_error), True
            parts.append(part)
        return msgspec.structs.replace(message, parts=tuple(parts)) if changed else message

    def _call(self, given: str) -> str:
        number = len(self._names)
        given = self._renamed.get(number, given)
        if not given:
            self._last = max(number + 1, self._last + 1)
            while (given := f"call_{self._last}") in self._taken:  # A stranger's own id may look like that.
                self._last += 1
        self._names.append(given)
        return given

    def _result(self, given: str) -> str:
        call = self._answers.get(self._results)
        self._results += 1
        return given if call is None else self._names[call]


def _pair_calls(parts: Sequence[ToolCall | ToolResult]) -> tuple[dict[int, str], dict[int, int]]:
    """Calls that nobody answers by name, and results that name no call: each takes the earliest that still waits.

    By the number of a call, the name that its result has for it; and by that of a result without any, that of its call.
    """
    called = {_trim_id(part.call_id) for part in parts if type(part) is ToolCall}
    answered = {_trim_id(part.call_id) for part in parts if type(part) is ToolResult}
    renamed: dict[int, str] = {}
    answers: dict[int, int] = {}
    waiting: deque[int] = deque()
    calls = results = 0
    for part in parts:
        name = _trim_id(part.call_id)
        if type(part) is ToolCall:
            if not name or name not in answered:
                waiting.append(calls)
            calls += 1
            continue
        if waiting and not name:
            answers[results] = waiting.popleft()
        elif waiting and name not in called:
            renamed[waiting.popleft()] = name
            called.add(name)
        results += 1
    return renamed, answers


def _trim_id(given: str) -> str:
    return truncate_id(given.strip())


_MESSAGE_FIELDS = ("role", "content", "name", "tool_call_id")
_IMAGE_URL_FIELDS = ("image.image.url", "image_url.url", "image_url")
_CALL_FIELDS = (("id", "id"), ("name", "name"), ("arguments", "arguments"))
_FUNCTION_FIELDS = (("name", "function.name"), ("arguments", "function.arguments"))


class FieldNames(msgspec.Struct, frozen=True):
    """The words that a convention puts between, each with its dot."""

    message: str = ""
    contents: str = "content"
    """Under which the parts of a message are counted."""
    content: str = ""
    call: str = ""


def build_elements(entries: Iterable[Entry], words: FieldNames) -> list[Any]:
    """Each entry as one object."""
    return [_build_element(entry, words) for entry in entries]


def _build_element(entry: Entry, words: FieldNames) -> Any:
    before = words.message
    message = {field: entry[before + field] for field in _MESSAGE_FIELDS if entry.get(before + field) is not None}
    if len(message) < len(entry):  # There is more than who said what.
        pieces = collect_indexed(entry, before + words.contents)
        calls = _build_calls(entry, words, pieces)
        if calls:
            message["tool_calls"] = calls
        function = _build_function_call(entry, before)
        if function is not None:
            message["function_call"] = function
        content = [_build_part(piece, words) for piece in pieces if not _is_call(piece, words)]
        if content:
            message["content"] = content
    if not message:
        return entry[""] if len(entry) == 1 and "" in entry else entry
    if len(message) == 1 and "role" in message:
        message["content"] = ""  # It was said to be silent: many leave out a text that is empty.
    return message


def _build_calls(entry: Entry, words: FieldNames, pieces: Sequence[Entry]) -> list[Any]:
    counted = [_build_call(call, words.call) for call in collect_indexed(entry, f"{words.message}tool_calls")]
    if counted:
        return counted
    among = [_build_call(piece, words.call) for piece in pieces if _is_call(piece, words)]
    whole = parse_container(entry.get(f"{words.message}tool_calls"))
    return among or (list_items(whole) if is_list(whole) else [])


def _is_call(piece: Entry, words: FieldNames) -> bool:
    return bool(words.call) and f"{words.call}function.name" in piece


def _build_call(call: Entry, before: str) -> Object:
    told = {key: call[before + name] for key, name in _CALL_FIELDS if before + name in call}
    return told | {key: call[before + name] for key, name in _FUNCTION_FIELDS if before + name in call}


def _build_function_call(entry: Entry, before: str) -> Object | None:
    """A call as it was made before there could be several."""
    for name, arguments in (
        ("function_call.name", "function_call.arguments"),
        ("function_call_name", "function_call_arguments_json"),
    ):
        if isinstance(called := entry.get(before + name), str):
            return {"name": called, "arguments": entry.get(before + arguments)}
    return None


def _build_part(piece: Entry, words: FieldNames) -> Any:
    told = {name.removeprefix(words.content): value for name, value in piece.items()}
    if "" in told:
        return told[""] if isinstance(told[""], str) else {"type": "part", "value": told[""]}
    for place in _IMAGE_URL_FIELDS:
        if isinstance(url := told.get(place), str):
            return {"type": "image_url", "image_url": {"url": url}}
    if isinstance(url := told.get("audio.audio.url"), str):
        otherwise = None if url.startswith("data:") else "audio/*"  # Such a URL says itself what it is.
        return {"type": "file", "data": url, "mediaType": told.get("audio.audio.mime_type", otherwise)}
    return told


_EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
CHOICE_EVENT = "gen_ai.choice"
MESSAGE_EVENTS = frozenset((*_EVENT_ROLES, CHOICE_EVENT))
"""The events that are messages."""

_EVENT_CONTENT = "gen_ai.event.content"


def event_body(attributes: Object) -> Object:
    """What an event says: its attributes, or the JSON in one of them."""
    told = parse_container(attributes.get(_EVENT_CONTENT))
    if told is None:
        return attributes
    return {**attributes, **told} if is_object(told) else {"content": told, **attributes}


def event_message(name: str, body: Object) -> tuple[Prefer, Object] | None:
    """On which side something is said, and what; None for an event without content, and for any other event."""
    if name == CHOICE_EVENT:
        message = _choice_message(body)
        return None if message is None else ("output", message)
    role = _EVENT_ROLES.get(name)
    message = None if role is None else _body_message(body, role)
    return None if message is None else ("input", message)


def split_events(events: Iterable[tuple[str, Object]]) -> tuple[list[Object], list[Object]]:
    """What went in and what came out, of events by name."""
    said: dict[Prefer, list[Object]] = {"input": [], "output": []}
    for name, body in events:
        if (found := event_message(name, body)) is not None:
            said[found[0]].append(found[1])
    return said["input"], said["output"]


def _choice_message(body: Object) -> Object | None:
    message = parse_container(body.get("message"))
    if is_object(message):
        return _body_message(message, "assistant")
    return _body_message({**body, "content": body.get("content") if message is None else message}, "assistant")


def _body_message(body: Object, otherwise: str) -> Object | None:
    content, calls, role = parse_parts(body.get("content")), parse_container(body.get("tool_calls")), body.get("role")
    if content is None and not calls:
        return None  # Instrumentations that must not record content send the event all the same.
    message: Object = {"role": role if isinstance(role, str) and role else otherwise, "content": _as_content(content)}
    if is_list(calls):
        message["tool_calls"] = [dict_or_empty(parse_container(call)) for call in calls]
    if message["role"] == "tool" and isinstance(call_id := body.get("id", body.get("tool_call_id")), str):
        message["tool_call_id"] = call_id
    if isinstance(name := body.get("name"), str):
        message["name"] = name
    return message


def _as_content(content: Any) -> Any:
    """Text and lists as they stand; one part, or anything else that was said, as a list of it."""
    return content if content is None or isinstance(content, str) or is_list(content) else [content]
