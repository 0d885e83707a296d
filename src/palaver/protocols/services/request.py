"""What is wrong with the inputs of a payload that is refused anyway, so that all is told at once (job-chat, 1.3).

A workflow judges its inputs itself, when it is called. This looks only at the types that its schema declares.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from palaver.core import dialects, json
from palaver.core.descriptions import Description
from palaver.core.messages import Message
from palaver.core.runs import RecordMode
from palaver.errors import InvalidBody, InvalidJson, PalaverError
from palaver.protocols.base import HttpRequest


class FieldError(NamedTuple):
    """One thing that is wrong with a payload."""

    field: str
    why: str
    """How the sentence goes on that begins with the field."""


def invalid_payload(misfits: Iterable[FieldError]) -> InvalidBody:
    """Everything that is wrong with a payload, the first of it in words."""
    listed = list(misfits)
    errors = [{"field": field, "message": why} for field, why in listed]
    return InvalidBody(" ".join(listed[0]), details={"errors": errors})


class ServiceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """How to answer. It holds the conversation, and is therefore not kept with the run."""

    workflow: str
    is_chat: bool = True
    stream: bool = False
    sparse: bool = False
    """In a stream: only logs and the last event."""
    history: tuple[Any, ...] = ()
    """With the user's turn."""


_Object = Mapping[str, Any]
_MAX_DEPTH = 8


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "object": (lambda value: isinstance(value, dict), "must be an object"),
    "array": (lambda value: isinstance(value, list), "must be a list"),
    "string": (lambda value: isinstance(value, str), "must be a string"),
    "boolean": (lambda value: isinstance(value, bool), "must be true or false"),
    "number": (_is_number, "must be a number"),
    "integer": (lambda value: isinstance(value, int) and not isinstance(value, bool), "must be a whole number"),
    "null": (lambda value: value is None, "must be null"),
}


def input_errors(inputs: _Object, schema: _Object) -> Iterator[FieldError]:
    """The inputs that are missing, and those of another type than the schema says."""
    for name in cast("list[Any]", schema.get("required") or []):
        if name not in inputs and name != "messages":
            yield FieldError(str(name), "is required")
    yield from _property_errors(inputs, schema, "", _MAX_DEPTH)


def _property_errors(value: _Object, schema: _Object, above: str, deepest: int) -> Iterator[FieldError]:
    properties: Any = schema.get("properties")
    for name, shape in cast("_Object", properties or {}).items():
        if name in value and isinstance(shape, dict) and deepest:
            yield from _value_errors(value[name], cast("_Object", shape), f"{above}{name}", deepest - 1)


def _value_errors(value: object, shape: _Object, field: str, deepest: int) -> Iterator[FieldError]:
    types = _schema_types(shape)
    if types and not any(_TYPES[one][0](value) for one in types):
        yield FieldError(field, _TYPES[types[0]][1])
    elif isinstance(value, dict):
        yield from _property_errors(cast("_Object", value), shape, f"{field}.", deepest)


def _schema_types(shape: Any) -> list[str]:
    """The types that a schema names; none where it says more than this can judge."""
    if not isinstance(shape, dict):
        return []
    said = cast("_Object", shape)
    given, any_of = said.get("type"), said.get("anyOf")
    named: list[Any] = [given] if isinstance(given, str) else []
    if isinstance(given, list):
        named = cast("list[Any]", given)
    elif not named and isinstance(any_of, list):
        named = [one for each in cast("list[Any]", any_of) for one in _schema_types(each) or [None]]
    return named if all(isinstance(one, str) and one in _TYPES for one in named) else []


API_KEY_PREFIX = "plv_"
"""What our own keys begin with. Any other is for the workflow."""
CONTROL_FIELDS = frozenset({"api_key", "stream", "metrics_opt_in"})
"""What is said to us, and not to the workflow."""

_CHAT_FIELDS = frozenset({"content", "history", "messages", "parameters"})
_ROLES = ("user", "assistant")
_MAX_SESSION_LENGTH = 64
_BYTE_OFFSET = re.compile(r"\(byte (\d+)\)")


class ServicePayload(NamedTuple):
    """What a payload asks of a workflow."""

    messages: tuple[Message, ...]
    history: tuple[Any, ...]
    """The conversation with the user's turn, as it will be told again."""
    inputs: dict[str, Any]
    parameters: dict[str, Any]
    record: RecordMode
    is_sparse: bool
    """Of a stream: only logs and the last event. Absent means that everything may be told as it happens."""


def parse_payload_object(request: HttpRequest) -> dict[str, Any]:
    """The object in a body. Of text that is no JSON the place is told, by line and column."""
    try:
        value = json.decode(request.body, request.bounds)
    except InvalidJson as error:
        raise _with_line_and_column(error, request.body) from None
    if not isinstance(value, dict):
        raise InvalidBody("The body must be a JSON object.")
    return cast("dict[str, Any]", value)


def _with_line_and_column(error: InvalidJson, body: bytes) -> InvalidJson:
    found = _BYTE_OFFSET.search(error.message)
    if found is None:
        return error
    before = body[: int(found[1])]
    line, column = before.count(b"\n") + 1, len(before.rpartition(b"\n")[2].decode(errors="replace")) + 1
    message = error.message.replace(found[0], f"(line {line}, column {column})")
    return InvalidJson(message, details={"line": line, "column": column})


def session_label(payload: _Object, fresh: str) -> str:
    """The label that groups the calls of one conversation: the client's, or a fresh one."""
    match payload.get("meta"):
        case {"session_id": str(label)} if 0 < len(label) <= _MAX_SESSION_LENGTH:
            return label
        case _:
            return fresh


def payload_api_key(payload: _Object) -> str | None:
    """The credential in a payload; None where there is none."""
    match payload.get("api_key"):
        case None:
            return None
        case str(text):
            return text.strip() or None
        case _:
            raise invalid_payload([FieldError("api_key", "must be a string")])


def find_palaver_key(body: bytes, bounds: json.JsonLimits) -> str | None:
    """A key of ours in a body that nobody has read yet. What is wrong with the body is told later, by who reads it."""
    if b"api_key" not in body and b"\\u" not in body:
        return None
    try:
        value = json.decode(body, bounds)
        text = payload_api_key(cast("_Object", value)) if isinstance(value, dict) else None
    except PalaverError:
        return None
    return text if text is not None and text.startswith(API_KEY_PREFIX) else None


def parse_payload(payload: _Object, workflow: Description, label: str, *, is_stream: bool) -> ServicePayload:
    """What it asks; a RequestError that lists everything that is wrong with it."""
    wrong: list[FieldError] = []
    streamed = _boolean(payload, "stream", wrong) if is_stream else None
    opted = _boolean(payload, "metrics_opt_in", wrong)
    record: RecordMode = "metadata" if opted is False else "full"
    inputs = _inputs({**payload, "session_id": label}, workflow)
    parameters: Any = payload.get("parameters") if workflow.is_chat else None
    if parameters is not None and not isinstance(parameters, dict):
        wrong.append(FieldError("parameters", "must be an object"))
    messages, history = _conversation(payload, wrong) if workflow.is_chat else ((), ())
    if wrong:
        raise invalid_payload([*wrong, *input_errors(inputs, workflow.schemas.inputs)])
    is_sparse = is_stream and streamed is False
    return ServicePayload(messages, history, inputs, cast("dict[str, Any]", parameters or {}), record, is_sparse)


def _boolean(payload: _Object, name: str, wrong: list[FieldError]) -> bool | None:
    value = payload.get(name)
    if value is None or isinstance(value, bool):
        return value
    wrong.append(FieldError(name, "must be true or false"))
    return None


def _inputs(payload: dict[str, Any], workflow: Description) -> dict[str, Any]:
    """What the workflow takes by name; all of it where it takes anything, or does not say what it takes."""
    if workflow.is_chat:
        payload = _without_user({name: value for name, value in payload.items() if name not in _CHAT_FIELDS})
    schema = workflow.schemas.inputs
    declared = schema.get("properties")
    takes_all = declared is None or schema.get("additionalProperties") is True
    return {
        name: value
        for name, value in payload.items()
        if name not in CONTROL_FIELDS and (takes_all or name in cast("_Object", declared))
    }


def _without_user(payload: dict[str, Any]) -> dict[str, Any]:
    """Who the user is, which Lightning tells in `meta.user`, is no business of the workflow's, nor of our records."""
    match payload.get("meta"):
        case {"user": _, **rest}:
            return {**payload, "meta": rest}
        case _:
            return payload


# Conversations


def _conversation(payload: _Object, wrong: list[FieldError]) -> tuple[tuple[Message, ...], tuple[Any, ...]]:
    given: Any = payload.get("messages")
    if given is None:
        return _turns(payload, wrong)
    if payload.get("content") is not None or payload.get("history") is not None:
        wrong.append(FieldError("messages", "stands instead of content and history: send one or the other"))
        return (), ()
    messages = tuple(dialects.read(given))
    said = [message for message in messages if message.role in _ROLES]
    return messages, tuple({"role": message.role, "content": message.text} for message in said)


def _turns(payload: _Object, wrong: list[FieldError]) -> tuple[tuple[Message, ...], tuple[Any, ...]]:
    """The history, of which blank turns are told again but are not said to the workflow; and the user's turn."""
    content: Any = payload.get("content")
    if content is None:
        wrong.append(FieldError("content", "is required"))
    elif not isinstance(content, str):
        wrong.append(FieldError("content", "must be a string"))
    elif not content.strip():
        wrong.append(FieldError("content", "must not be blank"))
    history = _history(payload, wrong)
    if wrong or content is None:
        return (), ()
    messages = [
        Message.user(turn["content"]) if turn["role"] == "user" else Message.assistant(turn["content"])
        for turn in history
        if turn["content"].strip()
    ]
    return (*messages, Message.user(content)), (*history, {"role": "user", "content": content})


def _history(payload: _Object, wrong: list[FieldError]) -> Sequence[Any]:
    given: Any = payload.get("history")
    if given is None:
        return ()
    if not isinstance(given, list):
        wrong.append(FieldError("history", "must be a list"))
        return ()
    turns = cast("list[Any]", given)
    for index, turn in enumerate(turns):
        if not isinstance(turn, dict):
            wrong.append(FieldError(f"history[{index}]", "must be an object"))
            continue
        fields = cast("_Object", turn)
        if fields.get("role") not in _ROLES:
            wrong.append(FieldError(f"history[{index}].role", "must be 'user' or 'assistant'"))
        if not isinstance(fields.get("content"), str):
            wrong.append(FieldError(f"history[{index}].content", "must be a string"))
    return turns
