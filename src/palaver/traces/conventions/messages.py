"""Messages out of what an attribute holds, in any dialect, whole or broken.

`messages_of` reads whatever stands where messages should: a convention whose messages come in loose fields puts each
into an object as Chat Completions has it (`role, content, tool_calls, tool_call_id`) and gives the list of them. A call
without an id, and a result that does not say which call it answers, have the id `""` at first: a span's messages may
come from two conventions, so mapping.py has them named, once and together, by `settled`.
"""

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
from palaver.core.json import as_dict, is_list, is_object, list_items
from palaver.core.messages import Data, Message, Part, Reasoning, Role, Text, ToolCall, ToolResult
from palaver.traces.conventions.reading import MOST_ENTRIES, opened

UNREADABLE = "unreadable"
"""The name of the data in which an entry stays that could not be read."""

_SPEAKERS: dict[Prefer, Role] = {"input": "user", "output": "assistant"}
_FAR = 9_000_000_000_000
"""Dialects name a call without an id by its place. From here on no list has places, so such names are known as ours."""
_OURS = "call_90000"
_NUMBERED = re.compile(r"call_[0-9_]+")
_CALLS = frozenset((ToolCall, ToolResult, Data))
_SERVER_CALL, _SERVER_RESULT = "gen-ai:server_tool_call", "gen-ai:server_tool_call_response"
_THOUGHT = "ui-message:thinking"
"""Where all that was said is a thought by its older name, which tells nobody whose part it is."""


def messages_of(value: Any, side: Prefer) -> tuple[Message, ...]:
    """The messages in a value, or its JSON text. Nothing is lost, nothing raised.

    Plain text is one message, the user's on the input side and the assistant's on the other; an entry that cannot be
    read is a message with one part of data, `unreadable`. Where there is one, two thousand entries are read, and all
    others are one such part: two bytes of a stranger's must not cost us a message.
    """
    value = opened(value)
    if value is None or value in ("", [], {}):
        return ()
    if type(value) is str:
        return (Message(_SPEAKERS[side], (Text(value),)),)
    try:
        found = dialects.detect(value)
        if found is not None:
            return _tidy(_read(found))
    except Exception:  # noqa: S110 - An element made trouble: then one by one, so that it spoils no other.
        pass
    if is_object(value) and (conversation := read_conversation(value, side)) is not None:
        return conversation_messages(conversation.messages, value)
    elements = list_items(value) if is_list(value) else [value]
    alone, rest = elements[:MOST_ENTRIES], elements[MOST_ENTRIES:]
    read = [message for place, element in enumerate(alone) for message in _one(element, side, place)]
    return _tidy([*read, _unreadable(rest, side)] if rest else read)


def parts_in(content: Any) -> Any:
    """What was said, opened where it is JSON text of a list of parts; any other text is just what was said."""
    if type(content) is not str or content.lstrip()[:1] != "[":
        return content
    parts = opened(content)
    return parts if is_list(parts) and parts and all(map(_is_part, parts)) else content


def _is_part(item: Any) -> bool:
    return is_object(item) and (type(item.get("type")) is str or type(item.get("text")) is str)


def conversation_messages(messages: Sequence[Message], source: Any) -> tuple[Message, ...]:
    """Messages that the search for a conversation found in a value: ids that only the search gave are taken back."""
    calls = {part.call_id for message in messages for part in message.parts if type(part) is ToolCall}
    suspects = {name for name in calls if _NUMBERED.fullmatch(name)}
    if suspects and json.is_encodable(source):
        invented = suspects.difference(_NUMBERED.findall(json.encode(source).decode()))
        messages = [_without_ids(message, invented) for message in messages] if invented else messages
    return _tidy(messages)


def _read(found: Sequence[Segment]) -> list[Message]:
    messages: list[Message] = []
    for stretch in found:
        reader = dialects.DIALECT_MODULES[stretch.dialect]
        messages += reader.read(stretch.elements, _FAR + stretch.start)
    return messages


def _one(element: Any, side: Prefer, place: int) -> Iterable[Message]:
    """An entry by itself: in any dialect, with any role or none, or as text."""
    if isinstance(element, str):
        return (Message(_SPEAKERS[side], (Text(element),)),) if element else ()
    try:
        fields = as_dict(element)
        message = fields if detect_element(fields) else unwrap_message(fields)
        if message is None and fields is not None:
            message = {**fields, "role": _SPEAKERS[side]}
        verdict = detect_element(message)
        if message is not None and verdict is not None:
            return dialects.DIALECT_MODULES[verdict[0]].read([message], _FAR + place)
        if is_list(element) and (found := dialects.detect(element)) is not None:
            return _read(found)
    except Exception:  # noqa: S110 - What it holds cannot be written down.
        pass
    return (_unreadable(element, side),)


def _unreadable(element: Any, side: Prefer) -> Message:
    role = dict_or_empty(element).get("role")
    known = ROLE_ALIASES.get(role.lower(), _SPEAKERS[side]) if isinstance(role, str) else _SPEAKERS[side]
    return Message(known, (Data(UNREADABLE, element if json.is_encodable(element) else None),))


# What the dialects leave to do


def _tidy(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Without the ids that dialects made up; what a provider's own tools did are calls and results like any other."""
    tidied: list[Message] = []
    for message in messages:
        for part in message.parts:
            if type(part) in _CALLS:
                tidied += _tidied(message)
                break
        else:
            tidied.append(message)
    return tuple(tidied)


def _tidied(message: Message) -> Iterable[Message]:
    parts: list[Part] = []
    for part in message.parts:
        if type(part) is ToolCall and part.call_id.startswith(_OURS):
            part = ToolCall("", part.name, part.arguments)
        elif type(part) is ToolResult and part.call_id.startswith(_OURS):
            part = ToolResult("", part.output, part.is_error)
        elif type(part) is Data:
            part = _known_part(part)
        parts.append(part)
    # Who calls a tool may say nothing: many write that down as an empty text.
    said = [part for part in parts if not (type(part) is Text and not part.text)]
    return split_results(msgspec.structs.replace(message, parts=tuple(said)))


def _known_part(part: Data) -> Part:
    if part.name == _THOUGHT:
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


def settled(
    messages_in: tuple[Message, ...], messages_out: tuple[Message, ...]
) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Both, with an id for every call: its own, trimmed and of bounded length, or `call_<n>` for the n-th of the span.

    A result without an id answers the earliest call that none has answered yet. So does one that names a call which is
    not there: OpenAI's Responses have two ids for each, and who writes them down may take the wrong one for the call.
    """
    messages = (*messages_in, *messages_out)
    if not any(type(part) is ToolCall or type(part) is ToolResult for message in messages for part in message.parts):
        return messages_in, messages_out
    names = _Names(messages)
    named = tuple([names.named(message) for message in messages])
    return named[: len(messages_in)], named[len(messages_in) :]


class _Names:
    """The calls of one span: how many there were, whose ids are taken, and which is answered by whom."""

    __slots__ = ("_answers", "_last", "_names", "_renamed", "_results", "_taken")

    def __init__(self, messages: Iterable[Message]) -> None:
        parts = [
            part for message in messages for part in message.parts if type(part) is ToolCall or type(part) is ToolResult
        ]
        self._taken = {_trimmed(part.call_id) for part in parts}
        self._renamed, self._answers = _paired(parts)
        self._names: list[str] = []
        self._results = self._last = 0

    def named(self, message: Message) -> Message:
        parts: list[Part] = []
        changed = False
        for part in message.parts:
            if type(part) is ToolCall:
                named = self._call(_trimmed(part.call_id))
                if named != part.call_id:
                    part, changed = ToolCall(named, part.name, part.arguments), True
            elif type(part) is ToolResult:
                named = self._result(_trimmed(part.call_id))
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


def _paired(parts: Sequence[ToolCall | ToolResult]) -> tuple[dict[int, str], dict[int, int]]:
    """Calls that nobody answers by name, and results that name no call: each takes the earliest that still waits.

    By the number of a call, the name that its result has for it; and by that of a result without any, that of its call.
    """
    called = {_trimmed(part.call_id) for part in parts if type(part) is ToolCall}
    answered = {_trimmed(part.call_id) for part in parts if type(part) is ToolResult}
    renamed: dict[int, str] = {}
    answers: dict[int, int] = {}
    waiting: deque[int] = deque()
    calls = results = 0
    for part in parts:
        name = _trimmed(part.call_id)
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


def _trimmed(given: str) -> str:
    return truncate_id(given.strip())
