"""What a Responses request says: the call, and the note of how to answer it (contract: responses, 2).

A field costs something only where it is sent: each has one reader in a table, and the rest of the body is ignored.
What a request refers to (the previous response, a conversation, stored items) the server looks up: it is only named.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, cast

import msgspec
from msgspec.structs import replace

from palaver.core.descriptions import Description
from palaver.core.dialects import responses as dialect
from palaver.core.ids import MAX_ID_LENGTH
from palaver.core.messages import Message, Text
from palaver.core.runs import Call
from palaver.errors import ConflictingFields, InvalidValue, WorkflowNotFound
from palaver.protocols.base import Find, Request
from palaver.protocols.openai_errors import MissingRequired, MutuallyExclusive, param
from palaver.protocols.openai_fields import Fields, client_tools, shared
from palaver.protocols.response_input import check_items, references

Profile = Literal["open", "invocations"]
"""`open` is for OpenAI's SDKs and validators, `invocations` for MLflow's clients and the Databricks provider."""
_PROFILES: Mapping[str, Profile] = {"v1/responses": "open", "invocations": "invocations", "responses": "invocations"}

_LONGEST_MODEL = 256
_NOTHING: Mapping[str, Any] = {}


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How a request was made, and hence how it is to be answered."""

    profile: Profile = "open"
    stream: bool = False
    model: str = ""
    workflow: str = ""
    is_chat: bool = True
    echo: Mapping[str, Any] = _NOTHING
    """Fields of the response object that repeat the request's, where they differ from the defaults."""
    metadata: Mapping[str, str] = _NOTHING
    encrypted: bool = False
    """Is reasoning to be given back as its provider sealed it?"""
    trace: bool = False
    """Is the trace's id to be told?"""
    places: tuple[str, ...] = ()
    """Where each message of the call stands in the body: `instructions`, `input[2]` …"""
    stored: bool = True
    """Is the response to be kept, to be read again, resumed, cancelled and gone on from?"""
    background: bool = False
    """Does it run on by itself, whoever reads it?"""
    queued_at: datetime | None = None
    """When a response in the background was created, which the server says: it may start much later."""
    unresolved: tuple[Mapping[str, Any], ...] = ()
    """The items of the input while some of them are references; response_history.resolved makes messages of them."""

    @property
    def references(self) -> Sequence[str]:
        """The ids of the stored items that the input refers to: to be looked up before the call can be made."""
        return list(references(self.unresolved).values())

    def param(self, pointer: str) -> str:
        """A pointer of the waist (`/messages/3`, `/inputs/x`, `/parameters/x`) in the words of the body."""
        first, _, rest = pointer.removeprefix("/").partition("/")
        match first:
            case "messages":
                index, _, below = rest.partition("/")
                known = index.isdecimal() and int(index) < len(self.places)
                return (self.places[int(index)] if known else "input") + (f".{below}" if below else "")
            case "inputs":
                return f"custom_inputs.{rest}" if rest else "custom_inputs"
            case _:
                return param(pointer)


def read(request: Request, find: Find) -> tuple[Call, Reading]:
    """The call, and how to answer it."""
    fields = Fields.of(request)
    body = fields.body
    profile = _PROFILES[request.route]
    model = fields.string("model", longest=_LONGEST_MODEL) if "model" in body else None
    workflow = _picked(request.workflow, model, find, profile)
    asked: dict[str, Any] = {}
    for name, value in body.items():
        if name in _READERS and value is not None:
            asked[name] = _READERS[name](fields, name)
    stream = asked.pop("stream", False)
    if asked:
        _check_stored(asked)
    said = None if _SHARED.isdisjoint(body) else shared(fields, workflow)
    goes_on = "previous_response_id" in asked or "conversation" in asked
    messages, places, unresolved = _messages(fields, goes_on=goes_on) if workflow.is_chat else _NO_MESSAGES
    returns_trace = asked.pop("databricks_options", False)
    trace = returns_trace or request.headers.get("x-mlflow-return-trace-id", "").lower() == "true"
    name, parent = workflow.name, request.trace_parent
    if not asked and said is None and not trace and not unresolved:  # Most requests: nothing but an input.
        call = Call(workflow=name, messages=messages, stored=True, trace_parent=parent)
        return call, _plain(profile, model or name, name, places, stream=stream, is_chat=workflow.is_chat)
    call = Call(
        workflow=name,
        messages=messages,
        preface=1 if "instructions" in asked and workflow.is_chat else 0,
        inputs=said.inputs if said else _NOTHING,
        parameters=said.parameters if said else _NOTHING,
        session=said.session if said else None,
        user=said.user if said else None,
        conversation=asked["conversation"]["id"] if "conversation" in asked else None,
        previous=asked.get("previous_response_id"),
        refers=bool(unresolved),
        stored=asked.get("store", True),
        background=asked.get("background", False),
        client_tools=client_tools(fields) if "tools" in asked else frozenset(),
        options={name: value for name, value in asked.items() if name not in _NO_OPTIONS},
        tags=said.metadata if said else _NOTHING,
        trace_parent=parent,
    )
    return call, Reading(
        profile=profile,
        stream=stream,
        model=model or name,
        workflow=name,
        is_chat=workflow.is_chat,
        echo=_echoed(asked, profile),
        metadata=said.metadata if said else _NOTHING,
        encrypted="reasoning.encrypted_content" in asked.get("include", ()),
        trace=trace,
        places=places,
        stored=asked.get("store", True),
        background=asked.get("background", False),
        unresolved=unresolved,
    )


def read_items(items: Sequence[Mapping[str, Any]]) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """The messages of items that have been checked, and where each begins."""
    indexed = dialect.read_indexed(items)
    return tuple([message for message, _ in indexed]), tuple([f"input[{index}]" for _, index in indexed])


def opened(reading: Reading) -> Reading:
    """The same request in the profile `open`, in which stored responses are shown however they were begun."""
    if reading.profile == "open":
        return reading
    return replace(reading, profile="open", echo=_all_completed(reading.echo))


@lru_cache(256)
def _plain(
    profile: Profile, model: str, workflow: str, places: tuple[str, ...], *, stream: bool, is_chat: bool
) -> Reading:
    return Reading(profile=profile, model=model, workflow=workflow, places=places, stream=stream, is_chat=is_chat)


def _picked(named: str | None, model: str | None, find: Find, profile: Profile) -> Description:
    """The workflow: the path's, else the one that `model` names, else the default one."""
    if named is not None or model is None:
        return find(named)
    try:
        return find(model)
    except WorkflowNotFound:
        if profile == "open":
            raise
        return find(None)  # Chat apps send `title-model` and the like.


_NO_MESSAGES: tuple[tuple[Message, ...], tuple[str, ...], tuple[Any, ...]] = (), (), ()


def _messages(fields: Fields, *, goes_on: bool) -> tuple[tuple[Message, ...], tuple[str, ...], tuple[Any, ...]]:
    """The messages and their places; where the input holds references its items, too, and none of their messages."""
    given = fields.body.get("input")
    instructions = fields.string("instructions") if "instructions" in fields.body else None
    messages, places, unresolved = _NO_MESSAGES
    if isinstance(given, str):
        messages, places = ((Message(role="user", parts=(Text(text=given),)),) if given else ()), ("input",)
    elif isinstance(given, list):
        items = cast("list[Any]", given)
        if check_items(items):
            unresolved = tuple(items)
        else:
            messages, places = read_items(items)
    elif given is not None:
        raise fields.wrong("input", "a string or a list of items", given)
    elif not goes_on:
        raise MissingRequired("input is required: a text, or a list of items.", pointer="/input")
    if instructions is not None:
        messages, places = (Message.system(instructions), *messages), ("instructions", *places)
    return messages, places, unresolved


def _check_stored(asked: dict[str, Any]) -> None:
    """Raise for contradictions, and forget what only says the default: most requests ask for nothing special."""
    if asked.get("store") is True:
        del asked["store"]
    if asked.get("background") is False:
        del asked["background"]
    if "background" in asked and "store" in asked:
        raise ConflictingFields("background needs store: leave store out, or set it to true.", pointer="/background")
    if "previous_response_id" in asked and "conversation" in asked:
        raise MutuallyExclusive(
            "previous_response_id and conversation exclude each other: send one of them.", pointer="/conversation"
        )


# Fields, each with its reader

_Reader = Callable[[Fields, str], Any]


def _number(low: float, high: float) -> _Reader:
    return lambda fields, name: fields.number(name, low, high)


def _integer(low: int, high: int | None = None) -> _Reader:
    return lambda fields, name: fields.integer(name, low, high)


def _string(longest: int | None = None, *of: str) -> _Reader:
    return lambda fields, name: fields.string(name, longest=longest, of=of)


def _boolean(fields: Fields, name: str) -> bool:
    return fields.boolean(name, default=False)


def _tool_choice(fields: Fields, name: str) -> Any:
    value = fields.body[name]
    match value:
        case "auto" | "none" | "required" | {"type": str()}:
            return value
        case _:
            pass
    if isinstance(value, str | dict):
        raise InvalidValue("tool_choice must be auto, none, required, or an object with a type.", pointer=f"/{name}")
    raise fields.wrong(name, "a string or an object", value)


def _included(fields: Fields, name: str) -> list[str]:
    value = fields.items(name) or []
    if not all(isinstance(item, str) for item in value):
        raise InvalidValue("include must be a list of strings.", pointer=f"/{name}")
    return value


def _conversation(fields: Fields, name: str) -> dict[str, str]:
    """As the response object repeats it."""
    if isinstance(fields.body[name], str):
        named = fields.string(name, longest=MAX_ID_LENGTH)
    else:
        named = fields.below(name).string("id", longest=MAX_ID_LENGTH)
    if not named:
        raise InvalidValue("conversation must be an id, or an object with an id.", pointer=f"/{name}")
    return {"id": named}


def _returns_trace(fields: Fields, name: str) -> bool:
    return fields.below(name).boolean("return_trace", default=False)


_READERS: Mapping[str, _Reader] = {
    "stream": _boolean,
    "store": _boolean,
    "background": _boolean,
    "parallel_tool_calls": _boolean,
    "previous_response_id": _string(MAX_ID_LENGTH),
    "conversation": _conversation,
    "temperature": _number(0, 2),
    "top_p": _number(0, 1),
    "presence_penalty": _number(-2, 2),
    "frequency_penalty": _number(-2, 2),
    "max_output_tokens": _integer(1),
    "max_tool_calls": _integer(1),
    "top_logprobs": _integer(0, 20),
    "tools": lambda fields, name: fields.items(name),
    "tool_choice": _tool_choice,
    "text": lambda fields, name: fields.object(name),
    "reasoning": lambda fields, name: fields.object(name),
    "truncation": _string(None, "auto", "disabled"),
    "service_tier": _string(64),
    "include": _included,
    "stream_options": lambda fields, name: fields.object(name),
    "prompt_cache_key": _string(512),
    "safety_identifier": _string(512),
    "user": _string(512),
    "instructions": _string(),
    "databricks_options": _returns_trace,
}
_SHARED = frozenset({"custom_inputs", "parameters", "context", "metadata", "safety_identifier", "user"})
_STORED = frozenset({"store", "background", "previous_response_id", "conversation"})
_NO_OPTIONS = _STORED | {"instructions", "safety_identifier", "user"}
_ECHOED = frozenset(_READERS) - {"include", "stream_options", "user"}


def _echoed(asked: Mapping[str, Any], profile: Profile) -> Mapping[str, Any]:
    """What the response object repeats. Nulls inside are for validators; the Databricks provider cannot take them."""
    echoed = {name: value for name, value in asked.items() if name in _ECHOED}
    return _all_completed(echoed) if profile == "open" else echoed


def _all_completed(echo: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: _completed(name, value) for name, value in echo.items()}


def _completed(name: str, value: Any) -> Any:
    """An echoed object with the fields that validators miss otherwise."""
    match name:
        case "tools":
            return [_completed_tool(tool) for tool in value]
        case "reasoning":
            return {"effort": None, "summary": None, **value}
        case "text":
            return {**value, "format": _completed_format(value.get("format"))}
        case _:
            return value


def _completed_tool(tool: dict[str, Any]) -> dict[str, Any]:
    if tool.get("type") != "function":
        return tool
    return {"description": None, "parameters": None, "strict": None, **tool}


def _completed_format(form: Any) -> Any:
    match form:
        case {"type": "json_schema"}:
            return {"description": None, "strict": None, **form}
        case None:
            return {"type": "text"}
        case _:
            return form
