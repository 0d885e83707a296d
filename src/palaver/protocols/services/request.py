"""Parse and validate the payload of a service.

All errors are reported at once. If a payload is rejected, its inputs are compared with the types of the workflow's
schema too; otherwise the workflow validates them itself.
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
    field: str
    why: str
    """The rest of a sentence that starts with the field."""


def invalid_payload(field_errors: Iterable[FieldError]) -> InvalidBody:
    """The error of an invalid payload: all errors, the first one as the message."""
    all_errors = list(field_errors)
    errors = [{"field": field, "message": why} for field, why in all_errors]
    return InvalidBody(" ".join(all_errors[0]), details={"errors": errors})


class ServiceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is needed to encode the response. Holds the conversation, so it is not stored with the run."""

    workflow: str
    is_chat: bool = True
    stream: bool = False
    sparse: bool = False
    """Send only logs and the last event of a stream."""
    history: tuple[Any, ...] = ()
    """Including the user's turn."""


_Object = Mapping[str, Any]
_MAX_DEPTH = 8


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPE_CHECKS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "object": (lambda value: isinstance(value, dict), "must be an object"),
    "array": (lambda value: isinstance(value, list), "must be a list"),
    "string": (lambda value: isinstance(value, str), "must be a string"),
    "boolean": (lambda value: isinstance(value, bool), "must be true or false"),
    "number": (_is_number, "must be a number"),
    "integer": (lambda value: isinstance(value, int) and not isinstance(value, bool), "must be an integer"),
    "null": (lambda value: value is None, "must be null"),
}


def input_errors(inputs: _Object, schema: _Object) -> Iterator[FieldError]:
    """Yield missing inputs, and those of another type than in the schema."""
    for name in cast("list[Any]", schema.get("required") or []):
        if name not in inputs and name != "messages":
            yield FieldError(str(name), "is required")
    yield from _property_errors(inputs, schema, "", _MAX_DEPTH)


def _property_errors(value: _Object, schema: _Object, prefix: str, depth: int) -> Iterator[FieldError]:
    properties: Any = schema.get("properties")
    for name, property_schema in cast("_Object", properties or {}).items():
        if name in value and isinstance(property_schema, dict) and depth:
            yield from _value_errors(value[name], cast("_Object", property_schema), f"{prefix}{name}", depth - 1)


def _value_errors(value: object, schema: _Object, field: str, depth: int) -> Iterator[FieldError]:
    types = _schema_types(schema)
    if types and not any(_TYPE_CHECKS[name][0](value) for name in types):
        yield FieldError(field, _TYPE_CHECKS[types[0]][1])
    elif isinstance(value, dict):
        yield from _property_errors(cast("_Object", value), schema, f"{field}.", depth)


def _schema_types(value: Any) -> list[str]:
    """Return the types that a schema names; empty if it is more complex."""
    if not isinstance(value, dict):
        return []
    schema = cast("_Object", value)
    type_value, any_of = schema.get("type"), schema.get("anyOf")
    types: list[Any] = [type_value] if isinstance(type_value, str) else []
    if isinstance(type_value, list):
        types = cast("list[Any]", type_value)
    elif not types and isinstance(any_of, list):
        types = [name for member in cast("list[Any]", any_of) for name in _schema_types(member) or [None]]
    return types if all(isinstance(name, str) and name in _TYPE_CHECKS for name in types) else []


API_KEY_PREFIX = "plv_"
"""The prefix of our own keys. Any other key is for the workflow."""
CONTROL_FIELDS = frozenset({"api_key", "stream", "metrics_opt_in"})
"""Fields that are not inputs of the workflow."""

_CHAT_FIELDS = frozenset({"content", "history", "messages", "parameters"})
_ROLES = ("user", "assistant")
_MAX_SESSION_LENGTH = 64
_BYTE_OFFSET = re.compile(r"\(byte (\d+)\)")


class ServicePayload(NamedTuple):
    messages: tuple[Message, ...]
    history: tuple[Any, ...]
    """The conversation including the user's turn, for the response."""
    inputs: dict[str, Any]
    parameters: dict[str, Any]
    record: RecordMode
    is_sparse: bool


def parse_payload_object(request: HttpRequest) -> dict[str, Any]:
    """Parse the body. A syntax error is reported by line and column."""
    try:
        value = json.decode(request.body, request.json_limits)
    except InvalidJson as error:
        raise _locate_error(error, request.body) from None
    if not isinstance(value, dict):
        raise InvalidBody("The body must be a JSON object.")
    return cast("dict[str, Any]", value)


def _locate_error(error: InvalidJson, body: bytes) -> InvalidJson:
    match = _BYTE_OFFSET.search(error.message)
    if match is None:
        return error
    before = body[: int(match[1])]
    line, column = before.count(b"\n") + 1, len(before.rpartition(b"\n")[2].decode(errors="replace")) + 1
    message = error.message.replace(match[0], f"(line {line}, column {column})")
    return InvalidJson(message, details={"line": line, "column": column})


def session_label(payload: _Object, new_label: str) -> str:
    """Return the label of the conversation: the client's, or a new one."""
    match payload.get("meta"):
        case {"session_id": str(label)} if 0 < len(label) <= _MAX_SESSION_LENGTH:
            return label
        case _:
            return new_label


def payload_api_key(payload: _Object) -> str | None:
    """Return the credential in a payload, or None."""
    match payload.get("api_key"):
        case None:
            return None
        case str(text):
            return text.strip() or None
        case _:
            raise invalid_payload([FieldError("api_key", "must be a string")])


def find_palaver_key(body: bytes, limits: json.JsonLimits) -> str | None:
    """Find one of our keys in an unparsed body. Errors of the body are reported later."""
    if b"api_key" not in body and b"\\u" not in body:
        return None
    try:
        value = json.decode(body, limits)
        text = payload_api_key(cast("_Object", value)) if isinstance(value, dict) else None
    except PalaverError:
        return None
    return text if text is not None and text.startswith(API_KEY_PREFIX) else None


def parse_payload(payload: _Object, workflow: Description, label: str, *, is_stream: bool) -> ServicePayload:
    """Parse a payload. Raises InvalidBody with all errors."""
    errors: list[FieldError] = []
    streamed = _boolean(payload, "stream", errors) if is_stream else None
    opt_in = _boolean(payload, "metrics_opt_in", errors)
    record: RecordMode = "metadata" if opt_in is False else "full"
    inputs = _inputs({**payload, "session_id": label}, workflow)
    parameters: Any = payload.get("parameters") if workflow.is_chat else None
    if parameters is not None and not isinstance(parameters, dict):
        errors.append(FieldError("parameters", "must be an object"))
    messages, history = _conversation(payload, errors) if workflow.is_chat else ((), ())
    if errors:
        raise invalid_payload([*errors, *input_errors(inputs, workflow.schemas.inputs)])
    is_sparse = is_stream and streamed is False
    return ServicePayload(messages, history, inputs, cast("dict[str, Any]", parameters or {}), record, is_sparse)


def _boolean(payload: _Object, name: str, errors: list[FieldError]) -> bool | None:
    value = payload.get(name)
    if value is None or isinstance(value, bool):
        return value
    errors.append(FieldError(name, "must be true or false"))
    return None


def _inputs(payload: dict[str, Any], workflow: Description) -> dict[str, Any]:
    """Return the declared inputs; all fields if the workflow accepts any."""
    if workflow.is_chat:
        payload = _remove_user({name: value for name, value in payload.items() if name not in _CHAT_FIELDS})
    schema = workflow.schemas.inputs
    declared = schema.get("properties")
    takes_all = declared is None or schema.get("additionalProperties") is True
    return {
        name: value
        for name, value in payload.items()
        if name not in CONTROL_FIELDS and (takes_all or name in cast("_Object", declared))
    }


def _remove_user(payload: dict[str, Any]) -> dict[str, Any]:
    """Remove the user's identity, which Lightning sends in `meta.user`."""
    match payload.get("meta"):
        case {"user": _, **other_fields}:
            return {**payload, "meta": other_fields}
        case _:
            return payload


# Conversations


def _conversation(payload: _Object, errors: list[FieldError]) -> tuple[tuple[Message, ...], tuple[Any, ...]]:
    messages_value: Any = payload.get("messages")
    if messages_value is None:
        return _turns(payload, errors)
    if payload.get("content") is not None or payload.get("history") is not None:
        errors.append(FieldError("messages", "can't be combined with content or history"))
        return (), ()
    messages = tuple(dialects.read(messages_value))
    turns = [message for message in messages if message.role in _ROLES]
    return messages, tuple({"role": message.role, "content": message.text} for message in turns)


def _turns(payload: _Object, errors: list[FieldError]) -> tuple[tuple[Message, ...], tuple[Any, ...]]:
    """Parse `history` and `content`. Blank turns are repeated in the response, but not passed to the workflow."""
    content: Any = payload.get("content")
    if content is None:
        errors.append(FieldError("content", "is required"))
    elif not isinstance(content, str):
        errors.append(FieldError("content", "must be a string"))
    elif not content.strip():
        errors.append(FieldError("content", "must not be blank"))
    history = _history(payload, errors)
    if errors or content is None:
        return (), ()
    messages = [
        Message.user(turn["content"]) if turn["role"] == "user" else Message.assistant(turn["content"])
        for turn in history
        if turn["content"].strip()
    ]
    return (*messages, Message.user(content)), (*history, {"role": "user", "content": content})


def _history(payload: _Object, errors: list[FieldError]) -> Sequence[Any]:
    history: Any = payload.get("history")
    if history is None:
        return ()
    if not isinstance(history, list):
        errors.append(FieldError("history", "must be a list"))
        return ()
    turns = cast("list[Any]", history)
    for index, turn in enumerate(turns):
        if not isinstance(turn, dict):
            errors.append(FieldError(f"history[{index}]", "must be an object"))
            continue
        fields = cast("_Object", turn)
        if fields.get("role") not in _ROLES:
            errors.append(FieldError(f"history[{index}].role", "must be 'user' or 'assistant'"))
        if not isinstance(fields.get("content"), str):
            errors.append(FieldError(f"history[{index}].content", "must be a string"))
    return turns
