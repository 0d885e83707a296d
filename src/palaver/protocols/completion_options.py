"""The options of a completion, under the names that Responses has for them, and back again.

One name and one shape for each, so that a workflow need not ask over which protocol it was called.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from palaver.errors import InvalidType, InvalidValue
from palaver.protocols.openai_errors import UnsupportedValue
from palaver.protocols.openai_fields import Fields

_FORMATS = ("text", "json_object", "json_schema")
_Object = Mapping[str, Any]


def read(fields: Fields) -> dict[str, Any]:
    """What was asked for, checked as far as its form goes; whether it is honoured is the workflow's matter."""
    body = fields.body
    asked = {name: _READERS[name](fields, name) for name in body if name in _READERS and body[name] is not None}
    return _renamed(asked) if asked else asked


def write(options: _Object) -> dict[str, Any]:
    """The options as they are sent to somebody else, without those that this protocol has no name for."""
    text, reasoning = _object(options.get("text")), _object(options.get("reasoning"))
    tools = [nested for tool in options.get("tools") or () if (nested := _nested(tool)) is not None]
    choice = options.get("tool_choice")
    sent: dict[str, Any] = {name: value for name, value in options.items() if name in _TOLD}
    sent |= {
        "max_completion_tokens": options.get("max_output_tokens"),
        "response_format": _written_format(_object(text.get("format"))),
        "verbosity": text.get("verbosity"),
        "reasoning_effort": reasoning.get("effort"),
    }
    if tools:  # The rest means nothing without them, and is refused by some.
        sent |= {"tools": tools, "parallel_tool_calls": options.get("parallel_tool_calls")}
        sent["tool_choice"] = choice if isinstance(choice, str) else _nested(choice)
    return _present(sent)


# Reading: each field has its reader, and costs something only where it is sent

_Reader = Callable[[Fields, str], Any]


def _number(low: float, high: float) -> _Reader:
    return lambda fields, name: fields.number(name, low, high)


def _integer(low: int, high: int | None = None) -> _Reader:
    return lambda fields, name: fields.integer(name, low, high)


def _string(longest: int | None = None) -> _Reader:
    return lambda fields, name: fields.string(name, longest=longest)


def _boolean(fields: Fields, name: str) -> bool:
    return fields.boolean(name, default=False)


def _object_of(fields: Fields, name: str) -> dict[str, Any] | None:
    return fields.object(name)


def _one(fields: Fields, name: str) -> None:
    if (fields.integer(name, 1) or 1) > 1:
        raise UnsupportedValue(f"{name} must be 1: a run is one answer.", pointer=f"/{name}")


def _no_audio(fields: Fields, name: str) -> None:
    if name == "audio" or "audio" in (fields.items(name) or ()):
        raise UnsupportedValue(f"{name} asks for sound, and answers are text.", pointer=f"/{name}")


def _stop(fields: Fields, name: str) -> str | list[Any] | None:
    given = fields.body[name]
    if isinstance(given, str):
        return given
    listed = fields.items(name) or []
    if not all(isinstance(one, str) for one in listed):
        raise InvalidType("stop must be a string or a list of strings.", pointer="/stop")
    return listed


def _tools(fields: Fields, name: str) -> list[Any]:
    """The tools, each flat, as Responses has them; what is no tool at all is left for the common check."""
    return [_flat(tool) for tool in fields.items(name) or ()]


def _functions(fields: Fields, name: str) -> list[Any]:
    listed = fields.items(name) or []
    for index, function in enumerate(listed):
        match function:
            case {"name": str()}:
                pass
            case _:
                raise InvalidType(f"{name}[{index}] must be an object with a name.", pointer=f"/{name}/{index}")
    return [{"type": "function", **function} for function in listed]


def _tool_choice(fields: Fields, name: str) -> Any:
    match fields.body[name]:
        case "auto" | "none" | "required" as choice:
            return choice
        case {"type": str()} as choice:
            return _flat(cast("_Object", choice))
        case str() | dict():
            wanted = "auto, none, required, or an object with a type"
            raise InvalidValue(f"tool_choice must be {wanted}.", pointer=f"/{name}")
        case other:
            raise fields.wrong(name, "a string or an object", other)


def _function_choice(fields: Fields, name: str) -> Any:
    match fields.body[name]:
        case "auto" | "none" as choice:
            return choice
        case {"name": str(function)}:
            return {"type": "function", "name": function}
        case str() | dict():
            raise InvalidValue("function_call must be auto, none, or an object with a name.", pointer=f"/{name}")
        case other:
            raise fields.wrong(name, "a string or an object", other)


def _format(fields: Fields, name: str) -> Any:
    inner = fields.below(name)
    if inner.string("type", of=_FORMATS) is None:
        raise inner.wrong("type", "a string", None)
    if inner.body["type"] == "json_schema" and inner.object("json_schema") is None:
        raise inner.wrong("json_schema", "an object", None)
    return _flat(inner.body)


_READERS: Mapping[str, _Reader] = {
    "temperature": _number(0, 2),
    "top_p": _number(0, 1),
    "presence_penalty": _number(-2, 2),
    "frequency_penalty": _number(-2, 2),
    "max_completion_tokens": _integer(1),
    "max_tokens": _integer(1),
    "stop": _stop,
    "seed": _integer(-(2**63)),
    "logit_bias": _object_of,
    "logprobs": _boolean,
    "top_logprobs": _integer(0, 20),
    "tools": _tools,
    "functions": _functions,
    "tool_choice": _tool_choice,
    "function_call": _function_choice,
    "parallel_tool_calls": _boolean,
    "response_format": _format,
    "verbosity": _string(),
    "reasoning_effort": _string(),
    "prediction": _object_of,
    "web_search_options": _object_of,
    "service_tier": _string(64),
    "prompt_cache_key": _string(512),
    "n": _one,
    "modalities": _no_audio,
    "audio": _no_audio,
}
_TOLD = frozenset(
    "temperature top_p presence_penalty frequency_penalty stop seed logit_bias logprobs top_logprobs service_tier"
    " prediction web_search_options".split()
)
"""What is told to others as it was asked. The rest has another name there, or is none of a stranger's business."""


def _renamed(asked: dict[str, Any]) -> dict[str, Any]:
    def take(name: str) -> Any:
        return asked.pop(name, None)

    older, newer = take("max_tokens"), take("max_completion_tokens")
    choice, function_choice = take("tool_choice"), take("function_call")
    named: dict[str, Any] = {
        "max_output_tokens": older if newer is None else newer,
        "tools": [*(take("tools") or ()), *(take("functions") or ())] or None,
        "tool_choice": function_choice if choice is None else choice,
        "text": _present({"format": take("response_format"), "verbosity": take("verbosity")}) or None,
        "reasoning": _present({"effort": take("reasoning_effort")}) or None,
    }
    return _present(asked | named)


# One shape and the other: `{"type": "function", "function": {"name": …}}` and `{"type": "function", "name": …}`


def _flat(value: Any) -> Any:
    """What stands under its own type, beside it; anything else as it is."""
    given = _object(value)
    kind = given.get("type")
    inner = given.get(kind) if isinstance(kind, str) else None
    return {"type": kind, **cast("_Object", inner)} if isinstance(inner, dict) else value


def _nested(value: Any) -> dict[str, Any] | None:
    """A function or a custom tool in this protocol's shape; None for what it does not know."""
    given = _object(value)
    match given:
        case {"type": "function" | "custom" as kind, "name": str()}:
            return {"type": kind, kind: _present({name: told for name, told in given.items() if name != "type"})}
        case _:
            return None


def _written_format(given: _Object) -> _Object | None:
    match given:
        case {"type": "json_schema"}:
            inner = {name: told for name, told in given.items() if name != "type"}
            return {"type": "json_schema", "json_schema": _present(inner)}
        case {"type": str()}:
            return given
        case _:
            return None


def _object(value: Any) -> _Object:
    return cast("_Object", value) if isinstance(value, dict) else {}


def _present(values: _Object) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
