"""Error bodies and typed fields of OpenAI-shaped protocols.

OpenAI's SDKs show `error.message`, MLflow's clients `detail`; the AI SDK's provider prints the whole body. Where SDKs
expect another code than ours, `openai_code` is sent. Fields of a wrong type or out of range raise; null is absent.
"""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, cast

from palaver.core import json
from palaver.core.descriptions import Description
from palaver.core.events import RunCancelled, RunFailed, RunStarted
from palaver.core.ids import truncate_id
from palaver.errors import (
    ConflictingFields,
    FaultyCall,
    InvalidType,
    InvalidValue,
    NotImplementedYet,
    PalaverError,
    RequestError,
    ResponseNotFound,
)
from palaver.protocols.base import Headers, HttpRequest, HttpResponse, json_response

_OPENAI_CODES = {
    "workflow_not_found": "model_not_found",
    "invalid_body": "invalid_type",
    "unauthorized": "invalid_api_key",
}
_ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found", 429: "too_many_requests"}
STREAM_HEADERS = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache, no-transform"),
    ("x-accel-buffering", "no"),
)
_POINTER_STEP = re.compile(r"/([^/]*)")


class MissingRequired(InvalidValue):
    openai_code = "missing_required_parameter"


class MutuallyExclusive(ConflictingFields):
    openai_code = "mutually_exclusive"


class StringTooLong(InvalidValue):
    openai_code = "string_too_long"


class UnsupportedValue(InvalidValue):
    """A valid value that we do not support."""

    openai_code = "unsupported_value"


class PreviousResponseNotFound(ResponseNotFound):
    """The previous response does not exist or was not stored."""

    openai_code = "previous_response_not_found"


def pointer_to_param(pointer: str) -> str:
    """Convert a JSON pointer to a param: `/input/2/content/0` is `input[2].content[0]`."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in _POINTER_STEP.findall(pointer)]
    return "".join(f"[{step}]" if step.isdecimal() else f".{step}" for step in steps).removeprefix(".")


def error_response(
    error: PalaverError, *, status: int, to_param: Callable[[str], str] = pointer_to_param
) -> HttpResponse:
    """The response to a request that started no run. `to_param` converts a JSON pointer within the Call to a param."""
    if isinstance(error, FaultyCall):
        error = error.faults[0]  # An OpenAI error body holds a single error.
    pointer = error.pointer if isinstance(error, RequestError) else None
    code = getattr(error, "openai_code", None) or _OPENAI_CODES.get(error.code, error.code)
    error_fields = {
        "message": error.message,
        "type": _ERROR_TYPES.get(status) or ("server_error" if status >= 500 else "invalid_request"),
        "code": code,
        "param": to_param(pointer) or None if pointer is not None else None,
    }
    # SDKs retry a 5xx. That helps if the server is busy, not if the feature is missing.
    retry_headers = (("x-should-retry", "false"),) if error.code == NotImplementedYet.code else ()
    return json_response({"error": error_fields, "detail": error.message}, status=status, headers=retry_headers)


def run_error_response(failed: RunFailed, started: RunStarted, *, status: int, headers: Headers = ()) -> HttpResponse:
    """The response of a failed run that was not streamed. Without x-should-retry SDKs would run it three times."""
    response_id = "resp_" + started.run_id.removeprefix("run_")
    document = {"error": error_object(failed), "detail": failed.message, "response_id": response_id}
    return json_response(document, status=status, headers=(*headers, ("x-should-retry", "false")))


def error_object(ended: RunFailed | RunCancelled) -> dict[str, Any]:
    if isinstance(ended, RunCancelled):
        return {"message": "The run was cancelled.", "type": "model_error", "code": "cancelled", "param": None}
    return {"message": ended.message, "type": "model_error", "code": ended.code, "param": None}


_TYPE_NAMES: Mapping[json.JsonKind, str] = {
    "null": "null",
    "boolean": "a boolean",
    "number": "a number",
    "string": "a string",
    "array": "a list",
    "object": "an object",
}
_MAX_LABEL_LENGTH = 128
_MAX_TOOLS = 128
_MAX_METADATA_PAIRS, _MAX_KEY_LENGTH, _MAX_VALUE_LENGTH = 16, 64, 512  # Limits of metadata.
_Object = Mapping[str, Any]


class JsonFields:
    """A JSON object with typed accessors. `base_pointer` is its JSON pointer."""

    def __init__(self, body: _Object, base_pointer: str = "") -> None:
        self.body = body
        self._base_pointer = base_pointer

    @classmethod
    def from_request(cls, request: HttpRequest) -> "JsonFields":
        """Parse the body of a request."""
        value = json.decode(request.body, request.json_limits)
        if not isinstance(value, dict):
            raise InvalidType(f"The body must be an object, not {json_type_name(value)}.", pointer="")
        return cls(cast("_Object", value))

    def pointer(self, name: str) -> str:
        return f"{self._base_pointer}/{json.escape_pointer(name)}"

    def boolean(self, name: str, *, default: bool) -> bool:
        value = self._typed(name, bool, "true or false")
        return default if value is None else value

    def number(self, name: str, low: float, high: float) -> float | None:
        return self._in_range(name, self._typed(name, int | float, "a number"), low, high)

    def integer(self, name: str, low: int, high: int | None = None) -> int | None:
        return self._in_range(name, self._typed(name, int, "an integer"), low, high)

    def string(self, name: str, *, max_length: int | None = None, choices: Collection[str] = ()) -> str | None:
        value = self._typed(name, str, "a string")
        if value is None:
            return None
        if max_length is not None and len(value) > max_length:
            raise StringTooLong(f"{name} can have at most {max_length:,} characters.", pointer=self.pointer(name))
        if choices and value not in choices:
            raise InvalidValue(f"{name} must be one of {', '.join(choices)}.", pointer=self.pointer(name))
        return value

    def required_string(self, name: str, *, max_length: int | None = None, choices: Collection[str] = ()) -> str:
        value = self.string(name, max_length=max_length, choices=choices)
        if value is None:
            raise self.type_error(name, "a string", None)
        return value

    def object(self, name: str) -> dict[str, Any] | None:
        return self._typed(name, dict, "an object")

    def items(self, name: str) -> list[Any] | None:
        return self._typed(name, list, "a list")

    def nested(self, name: str) -> "JsonFields":
        """Return the fields of a nested object; an absent one is empty."""
        return JsonFields(self.object(name) or {}, self.pointer(name))

    def type_error(self, name: str, expected: str, value: Any) -> InvalidType:
        return InvalidType(f"{name} must be {expected}, not {json_type_name(value)}.", pointer=self.pointer(name))

    def _typed(self, name: str, types: Any, expected: str) -> Any:
        """Return the value, None if it is absent. In JSON a boolean is no number."""
        value = self.body.get(name)
        if value is not None and (not isinstance(value, types) or (isinstance(value, bool) and types is not bool)):
            raise self.type_error(name, expected, value)
        return value

    def _in_range(self, name: str, value: Any, low: float, high: float | None) -> Any:
        if value is not None:
            _check_range(name, value, low, high, self.pointer(name))
        return value


def _check_range(name: str, value: float, low: float, high: float | None, pointer: str) -> None:
    if value < low or (high is not None and value > high):
        expected = f"at least {low}" if high is None else f"between {low} and {high}"
        raise InvalidValue(f"{name} must be {expected}.", pointer=pointer)


FieldParser = Callable[[JsonFields, str], Any]
"""Parses one field of a body, by name."""


def number_parser(low: float, high: float) -> FieldParser:
    return lambda fields, name: fields.number(name, low, high)


def integer_parser(low: int, high: int | None = None) -> FieldParser:
    return lambda fields, name: fields.integer(name, low, high)


def string_parser(max_length: int | None = None, *choices: str) -> FieldParser:
    return lambda fields, name: fields.string(name, max_length=max_length, choices=choices)


def parse_boolean(fields: JsonFields, name: str) -> bool:
    return fields.boolean(name, default=False)


def parse_tool_choice(fields: JsonFields, name: str) -> Any:
    match fields.body[name]:
        case "auto" | "none" | "required" | {"type": str()} as choice:
            return choice
        case str() | dict():
            raise InvalidValue(f"{name} must be auto, none, required, or an object with a type.", pointer=f"/{name}")
        case other:
            raise fields.type_error(name, "a string or an object", other)


class SharedFields(NamedTuple):
    inputs: dict[str, Any]
    parameters: dict[str, Any]
    session: str | None
    user: str | None
    metadata: dict[str, str]


def parse_shared_fields(fields: JsonFields, workflow: Description) -> SharedFields:
    """Parse inputs, parameters, labels and metadata. Inputs that the workflow does not declare are dropped."""
    custom_inputs = fields.object("custom_inputs") or {}
    context = fields.nested("context")
    session = next((label for key in ("thread_id", "session_id") if (label := _label(custom_inputs.get(key)))), None)
    return SharedFields(
        inputs=_declared_inputs(custom_inputs, workflow),
        parameters=fields.object("parameters") or {},
        session=session or _label(context.string("conversation_id")),
        user=_label(context.string("user_id") or fields.string("safety_identifier") or fields.string("user")),
        metadata=parse_metadata(fields),
    )


def client_tool_names(fields: JsonFields) -> frozenset[str]:
    """Return the names of the tools that the client runs itself, in either protocol's form."""
    tools = fields.items("tools") or []
    if len(tools) > _MAX_TOOLS:
        raise InvalidValue(f"Too many tools: {len(tools):,} (limit: {_MAX_TOOLS}).", pointer="/tools")
    names: set[str] = set()
    for index, tool in enumerate(tools):
        match tool:
            case {"type": "function", "function": {"name": str(name)}} | {"type": str(), "name": str(name)}:
                names.add(name)
            case {"type": str()}:
                pass
            case _:
                raise InvalidType(f"tools[{index}] must be an object with a type.", pointer=f"/tools/{index}")
    return frozenset(names)


def parse_metadata(fields: JsonFields) -> dict[str, str]:
    """Parse at most 16 pairs of short strings."""
    metadata = fields.object("metadata") or {}
    if len(metadata) > _MAX_METADATA_PAIRS:
        raise InvalidValue(f"metadata can have at most {_MAX_METADATA_PAIRS} keys.", pointer="/metadata")
    for key, value in metadata.items():
        pointer = f"/metadata/{json.escape_pointer(key)}"
        if not isinstance(value, str):
            raise InvalidType(
                f"metadata.{key[:_MAX_KEY_LENGTH]} must be a string, not {json_type_name(value)}.", pointer=pointer
            )
        if len(key) > _MAX_KEY_LENGTH or len(value) > _MAX_VALUE_LENGTH:
            raise StringTooLong(
                f"metadata keys can have at most {_MAX_KEY_LENGTH} characters, values at most {_MAX_VALUE_LENGTH}.",
                pointer=pointer,
            )
    return metadata


def json_type_name(value: object) -> str:
    """Name the JSON type of a value, for error messages."""
    return _TYPE_NAMES[json.json_kind(value)]


def _declared_inputs(custom_inputs: dict[str, Any], workflow: Description) -> dict[str, Any]:
    if not custom_inputs:
        return custom_inputs
    inputs = workflow.schemas.inputs
    properties = inputs.get("properties")
    if properties is None or inputs.get("additionalProperties") is True:
        return custom_inputs  # Any inputs are allowed.
    return {name: value for name, value in custom_inputs.items() if name in properties}


def _label(value: object) -> str | None:
    """Return a session or user label, shortened to 128 characters. Labels grant no access."""
    if not isinstance(value, str) or not value:
        return None
    return value if len(value) <= _MAX_LABEL_LENGTH else truncate_id(value)


_INTEGER = re.compile(r"-?[0-9]{1,18}")


def parse_integer(name: str, text: str, low: int, high: int | None = None) -> int:
    """Parse an integer query parameter. Raises InvalidType or InvalidValue."""
    if not _INTEGER.fullmatch(text):
        raise InvalidType(f"{name} must be an integer.", pointer=f"/{name}")
    value = int(text)
    _check_range(name, value, low, high, f"/{name}")
    return value
