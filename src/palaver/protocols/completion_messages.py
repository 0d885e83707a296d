"""The messages of a completion's request, checked before they are read: each fault is named by its place.

The dialect itself (core/dialects/chat_completions.py) reads whatever resembles a message. A client of this protocol is
told what is wrong instead, as it would be elsewhere.
"""

from collections.abc import Mapping
from typing import Any, cast

from palaver.core.dialects import chat_completions
from palaver.core.messages import Message
from palaver.errors import InvalidType, InvalidValue, UnknownCall
from palaver.protocols.openai_fields import Fields, called

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_ANYBODYS = frozenset("role content name id tool_call_id palaver".split())
_ASSISTANTS = _ANYBODYS.union("refusal reasoning_content annotations tool_calls function_call".split())
_PARTS = "text, image_url, input_audio, file or refusal"
_Object = Mapping[str, Any]


def read(fields: Fields) -> tuple[Message, ...]:
    """The history of a call; a RequestError where it is none."""
    given = fields.items("messages")
    if not given:
        raise InvalidType("messages must be a list of at least one message.", pointer="/messages")
    calls = _Calls()
    return tuple(chat_completions.read([_checked(message, index, calls) for index, message in enumerate(given)]))


class _Calls:
    """The calls that wait for their results, in the order in which they were made: id and name."""

    def __init__(self) -> None:
        self._open: dict[str, str] = {}

    def make(self, call_id: str, name: str) -> None:
        self._open.pop(call_id, None)  # Some models count their calls anew in every turn.
        self._open[call_id] = name

    def answer(self, call_id: str, pointer: str) -> None:
        if self._open.pop(call_id, None) is None:
            raise UnknownCall(f"No call {call_id[:64]!r} before this message waits for a result.", pointer=pointer)

    def last(self, name: str, pointer: str) -> str:
        """The last open call of that name."""
        for call_id, called_name in reversed(self._open.items()):
            if called_name == name:
                return call_id
        raise UnknownCall(f"No call of {name[:64]!r} before this message waits for a result.", pointer=pointer)


def _checked(value: Any, index: int, calls: _Calls) -> dict[str, Any]:
    """The message as the dialect reads it."""
    at = f"/messages/{index}"
    if not isinstance(value, dict):
        raise InvalidType(f"messages[{index}] must be an object, not {called(value)}.", pointer=at)
    message = cast("dict[str, Any]", value)
    known = _ASSISTANTS if message.get("role") == "assistant" else _ANYBODYS
    if not known.issuperset(message):  # The dialect would find meaning in more keys than this protocol has.
        message = {name: told for name, told in message.items() if name in known}
    fields = Fields(message, at)
    role = fields.string("role", of=ROLES)
    if role is None:
        raise fields.wrong("role", "a string", None)
    _check_content(fields, role)
    match role:
        case "assistant":
            _note_calls(fields, index, calls)
        case "tool":
            call_id = fields.string("tool_call_id")
            if call_id is None:
                raise fields.wrong("tool_call_id", "a string", None)
            calls.answer(call_id, fields.pointer("tool_call_id"))
        case "function":
            name = fields.string("name")
            if name is None:
                raise fields.wrong("name", "a string", None)
            call_id = calls.last(name, at)
            calls.answer(call_id, at)
            return {**message, "tool_call_id": call_id}
        case _:
            pass
    return message


def _check_content(fields: Fields, role: str) -> None:
    content = fields.body.get("content")
    if isinstance(content, str) or (content is None and role == "assistant"):
        return
    if not isinstance(content, list):
        raise fields.wrong("content", "a string or a list of parts", content)
    at = fields.pointer("content")
    for place, part in enumerate(cast("list[Any]", content)):
        if not isinstance(part, dict):
            raise InvalidType(f"A part of content must be an object, not {called(part)}.", pointer=f"{at}/{place}")
        if not _is_part(cast("_Object", part)):
            raise InvalidValue(f"A part of content is no {_PARTS} that can be read.", pointer=f"{at}/{place}")


def _is_part(part: _Object) -> bool:
    match part:
        case {"type": "text" | "input_text" | "output_text", "text": str()}:
            return True
        case {"type": "image_url", "image_url": str() | {"url": str()}}:
            return True
        case {"type": "input_audio", "input_audio": {"data": str(), "format": str()}}:
            return True
        case {"type": "file", "file": {"file_data": str()} | {"file_id": str()}}:
            return True
        case {"type": "refusal", "refusal": str()}:
            return True
        case _:
            return False


def _note_calls(fields: Fields, index: int, calls: _Calls) -> None:
    at = fields.pointer("tool_calls")
    for place, call in enumerate(fields.items("tool_calls") or ()):
        match call:
            case {"id": str(call_id), "function": {"name": str(name)} as function} if call_id:
                Fields(cast("_Object", function), f"{at}/{place}/function").string("arguments")
                calls.make(call_id, name)
            case {"type": str(kind)} if kind != "function":
                raise InvalidValue("A call must be of type function.", pointer=f"{at}/{place}/type")
            case _:
                wanted = "an object with an id and a function that has a name"
                raise InvalidType(f"A call must be {wanted}.", pointer=f"{at}/{place}")
    if fields.object("function_call") is not None:
        inner = fields.below("function_call")
        name = inner.string("name")
        if name is None:
            raise inner.wrong("name", "a string", None)
        inner.string("arguments")
        calls.make(f"call_{index}", name)  # The id that the dialect gives it.
