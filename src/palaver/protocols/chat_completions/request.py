"""Parse the options and messages of a Chat Completions request; encode options for the client.

Options have the names and shapes of the Responses API, so that a workflow sees the same ones over both protocols.
Messages are validated more strictly than the dialect does, so that a client learns what is wrong.
"""

from collections.abc import Mapping
from typing import Any, cast

from palaver.core.descriptions import Description
from palaver.core.dialects import chat_completions
from palaver.core.json import dict_or_empty, without_none
from palaver.core.messages import Message
from palaver.errors import InvalidType, InvalidValue, UnknownCall
from palaver.protocols.openai import (
    TEXT_FORMATS,
    FieldParser,
    JsonFields,
    UnsupportedValue,
    check_schema_format,
    check_support,
    integer_parser,
    json_type_name,
    moved_to,
    number_parser,
    parse_boolean,
    parse_logprobs,
    parse_n,
    parse_stop,
    parse_stream_options,
    parse_tool_choice,
    parse_top_logprobs,
    reject_with,
    string_parser,
)

_Object = Mapping[str, Any]


def parse_options(fields: JsonFields, workflow: Description) -> dict[str, Any]:
    """Parse options; fields that OpenAI's API does not have are ignored. Raises for those that have no effect."""
    body = fields.body
    options = {name: _PARSERS[name](fields, name) for name in body if name in _PARSERS and body[name] is not None}
    if options and (options := _to_responses_names(options)):
        check_support(options, workflow, _SPELLINGS)
    return options


def encode_options(options: _Object) -> dict[str, Any]:
    """Encode options for another server, without those that this protocol has no name for."""
    text, reasoning = dict_or_empty(options.get("text")), dict_or_empty(options.get("reasoning"))
    tools = [nested for tool in options.get("tools") or () if (nested := _nest(tool)) is not None]
    choice = options.get("tool_choice")
    encoded: dict[str, Any] = {name: value for name, value in options.items() if name in _FORWARDED_OPTIONS}
    encoded |= {
        "max_completion_tokens": options.get("max_output_tokens"),
        "response_format": _encode_format(dict_or_empty(text.get("format"))),
        "verbosity": text.get("verbosity"),
        "reasoning_effort": reasoning.get("effort"),
    }
    if tools:  # Some servers reject the other two without tools.
        encoded |= {"tools": tools, "parallel_tool_calls": options.get("parallel_tool_calls")}
        encoded["tool_choice"] = choice if isinstance(choice, str) else _nest(choice)
    return without_none(**encoded)


# Parsers, one for each field


def _reject_audio(fields: JsonFields, name: str) -> None:
    if name == "audio" or "audio" in (fields.items(name) or ()):
        raise UnsupportedValue(f"{name} requests audio, but only text output is supported.", pointer=f"/{name}")


def _check_store(fields: JsonFields, name: str) -> None:
    fields.boolean(name, default=False)  # Completions can't be retrieved either way; the operator configures records.


def _tools(fields: JsonFields, name: str) -> list[Any]:
    """Flatten the tools; invalid ones are rejected by `client_tool_names`."""
    return [_flatten(tool) for tool in fields.items(name) or ()]


def _functions(fields: JsonFields, name: str) -> list[Any]:
    functions = fields.items(name) or []
    for index, function in enumerate(functions):
        match function:
            case {"name": str()}:
                pass
            case _:
                raise InvalidType(f"{name}[{index}] must be an object with a name.", pointer=f"/{name}/{index}")
    return [{"type": "function", **function} for function in functions]


def _function_choice(fields: JsonFields, name: str) -> Any:
    match fields.body[name]:
        case "auto" | "none" as choice:
            return choice
        case {"name": str(function)}:
            return {"type": "function", "name": function}
        case str() | dict():
            raise InvalidValue("function_call must be auto, none, or an object with a name.", pointer=f"/{name}")
        case other:
            raise fields.type_error(name, "a string or an object", other)


def _format(fields: JsonFields, name: str) -> Any:
    inner = fields.nested(name)
    if inner.required_string("type", choices=TEXT_FORMATS) == "json_schema":
        if inner.object("json_schema") is None:
            raise inner.type_error("json_schema", "an object", None)
        check_schema_format(inner.nested("json_schema"))
    return _flatten(inner.body)


_PARSERS: Mapping[str, FieldParser] = {
    "temperature": number_parser(0, 2),
    "top_p": number_parser(0, 1),
    "presence_penalty": number_parser(-2, 2),
    "frequency_penalty": number_parser(-2, 2),
    "max_completion_tokens": integer_parser(1),
    "max_tokens": integer_parser(1),
    "stop": parse_stop,
    "seed": integer_parser(-(2**63)),
    "logit_bias": JsonFields.object,
    "logprobs": parse_logprobs,
    "top_logprobs": parse_top_logprobs,
    "tools": _tools,
    "functions": _functions,
    "tool_choice": lambda fields, name: _flatten(parse_tool_choice(fields, name)),
    "function_call": _function_choice,
    "parallel_tool_calls": parse_boolean,
    "response_format": _format,
    "verbosity": string_parser(),
    "reasoning_effort": string_parser(),
    "prediction": JsonFields.object,
    "web_search_options": JsonFields.object,
    "service_tier": string_parser(64),
    "prompt_cache_key": string_parser(512),
    "prompt_cache_options": JsonFields.object,
    "prompt_cache_retention": string_parser(64),
    "n": parse_n,
    "modalities": _reject_audio,
    "audio": _reject_audio,
    "moderation": reject_with("the workflow moderates its own input and output"),
    "store": _check_store,
    "stream_options": parse_stream_options,
    "max_output_tokens": moved_to("max_completion_tokens"),
    "text": moved_to("response_format or verbosity"),
    "instructions": moved_to("a message with the role 'system'"),
    "previous_response_id": moved_to("messages"),
    "conversation": moved_to("messages"),
}
_FORWARDED_OPTIONS = frozenset(
    "temperature top_p presence_penalty frequency_penalty stop seed logit_bias service_tier prediction"
    " web_search_options".split()
)
"""Options with the same name and shape in both protocols."""
_SPELLINGS = {
    "max_output_tokens": "max_completion_tokens",
    "text": "verbosity",
    "text.format": "response_format",
    "reasoning": "reasoning_effort",
}


def _to_responses_names(options: dict[str, Any]) -> dict[str, Any]:
    def take(name: str) -> Any:
        return options.pop(name, None)

    older, newer = take("max_tokens"), take("max_completion_tokens")
    choice, function_choice = take("tool_choice"), take("function_call")
    renamed: dict[str, Any] = {
        "max_output_tokens": older if newer is None else newer,
        "tools": [*(take("tools") or ()), *(take("functions") or ())] or None,
        "tool_choice": function_choice if choice is None else choice,
        "text": without_none(format=take("response_format"), verbosity=take("verbosity")) or None,
        "reasoning": without_none(effort=take("reasoning_effort")) or None,
    }
    return without_none(**options, **renamed)


# `{"type": "function", "function": {"name": …}}` and `{"type": "function", "name": …}`


def _flatten(value: Any) -> Any:
    """Move the fields of the nested object up to its type."""
    fields = dict_or_empty(value)
    kind = fields.get("type")
    inner = fields.get(kind) if isinstance(kind, str) else None
    return {"type": kind, **cast("_Object", inner)} if isinstance(inner, dict) else value


def _nest(value: Any) -> dict[str, Any] | None:
    """Return a function or custom tool in the nested shape; None for other types."""
    fields = dict_or_empty(value)
    match fields:
        case {"type": "function" | "custom" as kind, "name": str()}:
            return {"type": kind, kind: without_none(**{key: field for key, field in fields.items() if key != "type"})}
        case _:
            return None


def _encode_format(response_format: _Object) -> _Object | None:
    match response_format:
        case {"type": "json_schema"}:
            inner = {name: value for name, value in response_format.items() if name != "type"}
            return {"type": "json_schema", "json_schema": without_none(**inner)}
        case {"type": str()}:
            return response_format
        case _:
            return None


ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_COMMON_KEYS = frozenset("role content name id tool_call_id palaver".split())
_ASSISTANT_KEYS = _COMMON_KEYS.union("refusal reasoning_content annotations tool_calls function_call".split())
_PART_TYPES = "text, image_url, input_audio, file or refusal"


def parse_messages(fields: JsonFields) -> tuple[Message, ...]:
    """Parse the history of a call. Raises RequestError."""
    messages = fields.items("messages")
    if not messages:
        raise InvalidType("messages must be a list with at least one message.", pointer="/messages")
    calls = _OpenCalls()
    return tuple(
        chat_completions.read([_check_message(message, index, calls) for index, message in enumerate(messages)])
    )


class _OpenCalls:
    """Tool calls without a result, id to name, in order."""

    def __init__(self) -> None:
        self._open: dict[str, str] = {}

    def add(self, call_id: str, name: str) -> None:
        self._open.pop(call_id, None)  # Some models reuse ids in every turn.
        self._open[call_id] = name

    def answer(self, call_id: str, pointer: str) -> None:
        if self._open.pop(call_id, None) is None:
            raise UnknownCall(f"No earlier call with the id {call_id[:64]!r} is waiting for a result.", pointer=pointer)

    def find_last(self, name: str, pointer: str) -> str:
        for call_id, called_name in reversed(self._open.items()):
            if called_name == name:
                return call_id
        raise UnknownCall(f"No earlier call to {name[:64]!r} is waiting for a result.", pointer=pointer)


def _check_message(value: Any, index: int, calls: _OpenCalls) -> dict[str, Any]:
    """Return the message with only the keys of this protocol."""
    pointer = f"/messages/{index}"
    if not isinstance(value, dict):
        raise InvalidType(f"messages[{index}] must be an object, not {json_type_name(value)}.", pointer=pointer)
    message = cast("dict[str, Any]", value)
    allowed_keys = _ASSISTANT_KEYS if message.get("role") == "assistant" else _COMMON_KEYS
    if not allowed_keys.issuperset(message):  # The dialect would interpret more keys than this protocol has.
        message = {name: value for name, value in message.items() if name in allowed_keys}
    fields = JsonFields(message, pointer)
    role = fields.required_string("role", choices=ROLES)
    _check_content(fields, role)
    match role:
        case "assistant":
            _register_calls(fields, index, calls)
        case "tool":
            calls.answer(fields.required_string("tool_call_id"), fields.pointer("tool_call_id"))
        case "function":
            call_id = calls.find_last(fields.required_string("name"), pointer)
            calls.answer(call_id, pointer)
            return {**message, "tool_call_id": call_id}
        case _:
            pass
    return message


def _check_content(fields: JsonFields, role: str) -> None:
    content = fields.body.get("content")
    if isinstance(content, str) or (content is None and role == "assistant"):
        return
    if not isinstance(content, list):
        raise fields.type_error("content", "a string or a list of parts", content)
    for part_index, part in enumerate(cast("list[Any]", content)):
        pointer = f"{fields.pointer('content')}/{part_index}"
        if not isinstance(part, dict):
            raise InvalidType(f"A content part must be an object, not {json_type_name(part)}.", pointer=pointer)
        if not _is_part(cast("_Object", part)):
            raise InvalidValue(f"Invalid content part: must be a valid {_PART_TYPES} part.", pointer=pointer)


def _is_part(part: _Object) -> bool:
    match part:
        case (
            {"type": "text" | "input_text" | "output_text", "text": str()}
            | {"type": "image_url", "image_url": str() | {"url": str()}}
            | {"type": "input_audio", "input_audio": {"data": str(), "format": str()}}
            | {"type": "file", "file": {"file_data": str()} | {"file_id": str()}}
            | {"type": "refusal", "refusal": str()}
        ):
            return True
        case _:
            return False


def _register_calls(fields: JsonFields, index: int, calls: _OpenCalls) -> None:
    pointer = fields.pointer("tool_calls")
    for call_index, call in enumerate(fields.items("tool_calls") or ()):
        match call:
            case {"id": str(call_id), "function": {"name": str(name)} as function} if call_id:
                JsonFields(cast("_Object", function), f"{pointer}/{call_index}/function").string("arguments")
                calls.add(call_id, name)
            case {"type": str(kind)} if kind != "function":
                raise InvalidValue("A tool call must have the type 'function'.", pointer=f"{pointer}/{call_index}/type")
            case _:
                expected = "an object with an id and a function with a name"
                raise InvalidType(f"A tool call must be {expected}.", pointer=f"{pointer}/{call_index}")
    if fields.object("function_call") is not None:
        inner = fields.nested("function_call")
        name = inner.required_string("name")
        inner.string("arguments")
        calls.add(f"call_{index}", name)  # The id that the dialect assigns.
