"""Parse a Responses request into a Call and a ResponsesRequest.

Input items are validated strictly before the dialect reads them; errors name their path, as in `input[2].content[0]`.
References to stored objects are only named here: the server looks them up, see `resolve_references`.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, cast, get_args

import msgspec
from msgspec.structs import replace

from palaver.core.descriptions import Description
from palaver.core.dialects import responses as dialect
from palaver.core.ids import MAX_ID_LENGTH
from palaver.core.messages import Data, Message, Text, ToolCall, ToolResult
from palaver.core.runs import Call
from palaver.errors import ConflictingFields, InvalidType, InvalidValue, ItemNotFound, WorkflowNotFound
from palaver.protocols.base import HttpRequest, ServerTools, WorkflowLookup
from palaver.protocols.history_merge import new_messages
from palaver.protocols.openai import (
    FieldParser,
    JsonFields,
    MissingRequired,
    MutuallyExclusive,
    client_tool_names,
    integer_parser,
    json_type_name,
    number_parser,
    parse_boolean,
    parse_shared_fields,
    parse_tool_choice,
    pointer_to_param,
    string_parser,
)

_ROLES = ("user", "assistant", "system", "developer")
_Object = Mapping[str, Any]


def check_items(items: Sequence[Any], field: str = "input") -> bool:
    """Raise for the first invalid item in the list `field`; return whether there are references."""
    has_references = False
    for index, item in enumerate(items):
        pointer = f"/{field}/{index}"
        if not isinstance(item, dict):
            raise InvalidType(f"{field}[{index}] must be an object, not {json_type_name(item)}.", pointer=pointer)
        _check_item(cast("_Object", item), pointer)
        has_references |= _is_reference(cast("_Object", item))
    return has_references


def item_references(items: Sequence[_Object]) -> Mapping[int, str]:
    """Return the ids of the referenced stored items, by index."""
    return {index: item["id"] for index, item in enumerate(items) if _is_reference(item)}


def _is_reference(item: _Object) -> bool:
    """Whether the item refers to a stored one. Pydantic AI sends back calls without their results."""
    match item:
        case {"type": "item_reference"}:
            return True
        case {"type": "mcp_call", "id": str()}:
            return item.get("output") is None and item.get("error") is None
        case _:
            return False


def replace_references(items: Sequence[_Object], stored_items: Mapping[str, _Object]) -> list[_Object]:
    """Replace references by the stored items. Raises ItemNotFound."""
    resolved = list(items)
    for index, name in item_references(items).items():
        if name in stored_items:
            resolved[index] = stored_items[name]
        elif items[index]["type"] == "item_reference":
            raise ItemNotFound(name, pointer=f"/input/{index}/id")
    return resolved


def _check_item(item: _Object, pointer: str) -> None:
    """Raise for an invalid item."""
    kind = item.get("type", "message" if "role" in item else None)
    if not isinstance(kind, str):
        raise InvalidValue("An item must have a type or a role.", pointer=pointer)
    fields = JsonFields(item, pointer)
    fields.string("id", max_length=MAX_ID_LENGTH)
    match kind:
        case "message":
            _check_message(fields)
        case "function_call":
            fields.required_string("call_id", max_length=MAX_ID_LENGTH)
            fields.required_string("name")
            arguments = item.get("arguments")
            if arguments is not None and not isinstance(arguments, str):
                raise fields.type_error("arguments", "a JSON string", arguments)
        case "function_call_output":
            fields.required_string("call_id", max_length=MAX_ID_LENGTH)
            if item.get("output") is None:
                raise InvalidType("output is required and must not be null.", pointer=f"{pointer}/output")
        case "item_reference":
            fields.required_string("id")
        case "mcp_approval_response":
            fields.required_string("approval_request_id", max_length=MAX_ID_LENGTH)
            if not isinstance(item.get("approve"), bool):
                raise InvalidType("approve must be true or false.", pointer=f"{pointer}/approve")
        case "mcp_call":
            fields.required_string("name")
            fields.string("arguments")
        case _:
            pass  # Unknown items are kept as they are.


def _check_message(fields: JsonFields) -> None:
    role, content = fields.body.get("role"), fields.body.get("content")
    if role not in _ROLES:
        raise InvalidValue(f"role must be one of {', '.join(_ROLES)}.", pointer=fields.pointer("role"))
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        raise fields.type_error("content", "a string or a list of parts", content)
    for index, part in enumerate(cast("list[Any]", content)):
        if not _is_part(part):
            pointer = f"{fields.pointer('content')}/{index}"
            raise InvalidValue("Unsupported content part.", pointer=pointer)


def _is_part(part: Any) -> bool:
    match part:
        case {"type": "input_image"}:
            return _has(part, "image_url", "file_id")
        case {"type": "input_file"}:
            return _has(part, "file_data", "file_url", "file_id")
        case {"type": "refusal", "refusal": str()} | {"type": "input_audio", "input_audio": {"data": str()}}:
            return True
        case {"text": str()}:
            return True
        case _:
            return False


def _has(part: _Object, *names: str) -> bool:
    for name in names:
        match part.get(name):
            case str() | {"url": str()}:
                return True
            case _:
                pass
    return False


Profile = Literal["open", "invocations"]
"""`open` is for OpenAI's SDKs and validators, `invocations` for MLflow's clients and the Databricks provider."""
_PROFILES: Mapping[str, Profile] = {"v1/responses": "open", "invocations": "invocations", "responses": "invocations"}

_MAX_MODEL_LENGTH = 256
_EMPTY: Mapping[str, Any] = {}


class PendingCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool call of an earlier response, which this run may complete."""

    name: str
    arguments: str
    approval: str | None = None
    """The id of the request to approve it."""


class ResponsesRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is needed to encode the response. Stored with the run, so that the response can be read again."""

    profile: Profile = "open"
    stream: bool = False
    model: str = ""
    workflow: str = ""
    is_chat: bool = True
    echo: Mapping[str, Any] = _EMPTY
    """Fields of the response object that repeat the request, where they differ from the defaults."""
    metadata: Mapping[str, str] = _EMPTY
    encrypted: bool = False
    """Whether to include the encrypted content of reasoning."""
    trace: bool = False
    """Whether to include the trace id."""
    places: tuple[str, ...] = ()
    """The param of each message of the call: `instructions`, `input[2]` …"""
    stored: bool = True
    """Whether the response can be retrieved, resumed, cancelled and continued."""
    background: bool = False
    queued_at: datetime | None = None
    """Creation time of a background response, set by the server; its run may start much later."""
    unresolved: tuple[Mapping[str, Any], ...] = ()
    """The input items, while some of them are references."""
    server_tools: ServerTools | None = None
    """None in requests that were stored before this field existed: their calls and results keep the ids they had."""
    pending_calls: Mapping[str, PendingCall] = {}
    """The calls in the history that have no result yet, by call id."""

    @property
    def client_tools(self) -> frozenset[str]:
        """The names of the tools that the client runs itself."""
        tools: Sequence[_Object] = self.echo.get("tools", ())
        return frozenset([name for tool in tools if isinstance(name := tool.get("name"), str)])

    @property
    def references(self) -> Sequence[str]:
        """The ids of the referenced stored items."""
        return list(item_references(self.unresolved).values())

    def param(self, pointer: str) -> str:
        """Convert a pointer into the Call (`/messages/3`, `/inputs/x`, `/parameters/x`) to a param of the body."""
        first, _, tail = pointer.removeprefix("/").partition("/")
        match first:
            case "messages":
                index, _, below = tail.partition("/")
                is_known = index.isdecimal() and int(index) < len(self.places)
                return (self.places[int(index)] if is_known else "input") + (f".{below}" if below else "")
            case "inputs":
                return f"custom_inputs.{tail}" if tail else "custom_inputs"
            case _:
                return pointer_to_param(pointer)


def parse_request(request: HttpRequest, find: WorkflowLookup) -> tuple[Call, ResponsesRequest]:
    fields = JsonFields.from_request(request)
    body = fields.body
    profile = _PROFILES[request.route]
    model = fields.string("model", max_length=_MAX_MODEL_LENGTH) if "model" in body else None
    workflow = _select_workflow(request.workflow, model, find, profile)
    options: dict[str, Any] = {}
    for name, value in body.items():
        if name in _PARSERS and value is not None:
            options[name] = _PARSERS[name](fields, name)
    stream = options.pop("stream", False)
    _check_stored(options)
    shared = None if _SHARED_FIELDS.isdisjoint(body) else parse_shared_fields(fields, workflow)
    continues = "previous_response_id" in options or "conversation" in options
    messages, places, unresolved = _messages(fields, continues=continues) if workflow.is_chat else _NO_MESSAGES
    server_tools = options.pop("palaver", None) or request.server_tools
    pending_calls = find_pending_calls(messages) if profile == "open" else {}
    returns_trace = options.pop("databricks_options", False)
    trace = returns_trace or request.headers.get("x-mlflow-return-trace-id", "").lower() == "true"
    name, parent = workflow.name, request.trace_parent
    if not options and shared is None and not trace and not unresolved and not pending_calls:
        call = Call(workflow=name, messages=messages, stored=True, trace_parent=parent)
        return call, _simple_request(
            profile, model or name, name, places, server_tools, stream=stream, is_chat=workflow.is_chat
        )
    call = Call(
        workflow=name,
        messages=messages,
        preface=1 if "instructions" in options and workflow.is_chat else 0,
        inputs=shared.inputs if shared else _EMPTY,
        parameters=shared.parameters if shared else _EMPTY,
        session=shared.session if shared else None,
        user=shared.user if shared else None,
        conversation=options["conversation"]["id"] if "conversation" in options else None,
        previous=options.get("previous_response_id"),
        refers=bool(unresolved),
        stored=options.get("store", True),
        background=options.get("background", False),
        client_tools=client_tool_names(fields) if "tools" in options else frozenset(),
        options={name: value for name, value in options.items() if name not in _NOT_OPTIONS},
        tags=shared.metadata if shared else _EMPTY,
        trace_parent=parent,
    )
    return call, ResponsesRequest(
        profile=profile,
        stream=stream,
        model=model or name,
        workflow=name,
        is_chat=workflow.is_chat,
        echo=_echo_fields(options, profile),
        metadata=shared.metadata if shared else _EMPTY,
        encrypted="reasoning.encrypted_content" in options.get("include", ()),
        trace=trace,
        places=places,
        stored=options.get("store", True),
        background=options.get("background", False),
        unresolved=unresolved,
        server_tools=server_tools,
        pending_calls=pending_calls,
    )


def find_pending_calls(messages: Sequence[Message]) -> dict[str, PendingCall]:
    """Return the calls without a result, by call id."""
    pending: dict[str, PendingCall] = {}
    for message in messages:
        for part in message.parts:
            match part:
                case ToolCall(call_id=call_id, name=name, arguments=arguments):
                    pending[call_id] = PendingCall(name, arguments)
                case ToolResult(call_id=call_id):
                    pending.pop(call_id, None)
                case Data(name="approval-request", value={"id": str(approval)}):
                    call_id = part.value.get("call_id") or approval
                    if (call := pending.get(call_id)) is not None:
                        pending[call_id] = replace(call, approval=approval)
                case _:
                    pass
    return pending


def items_to_messages(items: Sequence[Mapping[str, Any]]) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """Convert validated items to messages, with the param of each."""
    indexed = dialect.read_indexed(items)
    return tuple([message for message, _ in indexed]), tuple([f"input[{index}]" for _, index in indexed])


def in_open_profile(request: ResponsesRequest) -> ResponsesRequest:
    """Return the request in the profile `open`, which is used for all stored responses."""
    if request.profile == "open":
        return request
    return replace(request, profile="open", echo=_complete_echo(request.echo))


@lru_cache(256)  # Most requests have nothing but an input.
def _simple_request(
    profile: Profile,
    model: str,
    workflow: str,
    places: tuple[str, ...],
    server_tools: ServerTools,
    *,
    stream: bool,
    is_chat: bool,
) -> ResponsesRequest:
    return ResponsesRequest(
        profile=profile,
        model=model,
        workflow=workflow,
        places=places,
        stream=stream,
        is_chat=is_chat,
        server_tools=server_tools,
    )


def _select_workflow(name: str | None, model: str | None, find: WorkflowLookup, profile: Profile) -> Description:
    """Select the workflow by path, else by `model`, else the default one."""
    if name is not None or model is None:
        return find(name)
    try:
        return find(model)
    except WorkflowNotFound:
        if profile == "open":
            raise
        return find(None)  # Chat apps send names such as `title-model`.


_NO_MESSAGES: tuple[tuple[Message, ...], tuple[str, ...], tuple[Any, ...]] = (), (), ()


def _messages(fields: JsonFields, *, continues: bool) -> tuple[tuple[Message, ...], tuple[str, ...], tuple[Any, ...]]:
    """Return the messages and their params; if the input has references, its items instead of their messages."""
    input_value = fields.body.get("input")
    instructions = fields.string("instructions") if "instructions" in fields.body else None
    messages, places, unresolved = _NO_MESSAGES
    if isinstance(input_value, str):
        messages, places = ((Message(role="user", parts=(Text(text=input_value),)),) if input_value else ()), ("input",)
    elif isinstance(input_value, list):
        items = cast("list[Any]", input_value)
        if check_items(items):
            unresolved = tuple(items)
        else:
            messages, places = items_to_messages(items)
    elif input_value is not None:
        raise fields.type_error("input", "a string or a list of items", input_value)
    elif not continues:
        raise MissingRequired("input is required and must be a string or a list of items.", pointer="/input")
    if instructions is not None:
        messages, places = (Message.system(instructions), *messages), ("instructions", *places)
    return messages, places, unresolved


def _check_stored(options: dict[str, Any]) -> None:
    """Raise for conflicting fields, and drop those that have their default value."""
    if options.get("store") is True:
        del options["store"]
    if options.get("background") is False:
        del options["background"]
    if "background" in options and "store" in options:
        raise ConflictingFields(
            "background can't be combined with store=false. Omit store or set it to true.", pointer="/background"
        )
    if "previous_response_id" in options and "conversation" in options:
        raise MutuallyExclusive("previous_response_id can't be combined with conversation.", pointer="/conversation")


# Fields, each with its parser


def _include(fields: JsonFields, name: str) -> list[str]:
    value = fields.items(name) or []
    if not all(isinstance(item, str) for item in value):
        raise InvalidValue("include must be a list of strings.", pointer=f"/{name}")
    return value


def _conversation(fields: JsonFields, name: str) -> dict[str, str]:
    if isinstance(fields.body[name], str):
        conversation_id = fields.string(name, max_length=MAX_ID_LENGTH)
    else:
        conversation_id = fields.nested(name).string("id", max_length=MAX_ID_LENGTH)
    if not conversation_id:
        raise InvalidValue("conversation must be an id or an object with an id.", pointer=f"/{name}")
    return {"id": conversation_id}


_parse_server_tools = string_parser(None, *get_args(ServerTools))

_PARSERS: Mapping[str, FieldParser] = {
    "stream": parse_boolean,
    "store": parse_boolean,
    "background": parse_boolean,
    "parallel_tool_calls": parse_boolean,
    "previous_response_id": string_parser(MAX_ID_LENGTH),
    "conversation": _conversation,
    "temperature": number_parser(0, 2),
    "top_p": number_parser(0, 1),
    "presence_penalty": number_parser(-2, 2),
    "frequency_penalty": number_parser(-2, 2),
    "max_output_tokens": integer_parser(1),
    "max_tool_calls": integer_parser(1),
    "top_logprobs": integer_parser(0, 20),
    "tools": JsonFields.items,
    "tool_choice": parse_tool_choice,
    "text": JsonFields.object,
    "reasoning": JsonFields.object,
    "truncation": string_parser(None, "auto", "disabled"),
    "service_tier": string_parser(64),
    "include": _include,
    "stream_options": JsonFields.object,
    "prompt_cache_key": string_parser(512),
    "safety_identifier": string_parser(512),
    "user": string_parser(512),
    "instructions": string_parser(),
    "databricks_options": lambda fields, name: parse_boolean(fields.nested(name), "return_trace"),
    "palaver": lambda fields, name: _parse_server_tools(fields.nested(name), "server_tools"),
}
_SHARED_FIELDS = frozenset({"custom_inputs", "parameters", "context", "metadata", "safety_identifier", "user"})
_STORAGE_FIELDS = frozenset({"store", "background", "previous_response_id", "conversation"})
_NOT_OPTIONS = _STORAGE_FIELDS | {"instructions", "safety_identifier", "user"}
_ECHOED_FIELDS = frozenset(_PARSERS) - {"include", "stream_options", "user", "palaver"}


def _echo_fields(options: Mapping[str, Any], profile: Profile) -> Mapping[str, Any]:
    """Return the fields to repeat. Validators want nested nulls, which the Databricks provider rejects."""
    echoed = {name: value for name, value in options.items() if name in _ECHOED_FIELDS}
    return _complete_echo(echoed) if profile == "open" else echoed


def _complete_echo(echo: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: _complete_field(name, value) for name, value in echo.items()}


def _complete_field(name: str, value: Any) -> Any:
    """Add the nested fields that validators require."""
    match name:
        case "tools":
            return [_complete_tool(tool) for tool in value]
        case "reasoning":
            return {"effort": None, "summary": None, **value}
        case "text":
            return {**value, "format": _complete_format(value.get("format"))}
        case _:
            return value


def _complete_tool(tool: dict[str, Any]) -> dict[str, Any]:
    if tool.get("type") != "function":
        return tool
    return {"description": None, "parameters": None, "strict": None, **tool}


def _complete_format(text_format: Any) -> Any:
    match text_format:
        case {"type": "json_schema"}:
            return {"description": None, "strict": None, **text_format}
        case None:
            return {"type": "text"}
        case _:
            return text_format


def resolve_references(
    call: Call, request: ResponsesRequest, stored_items: Mapping[str, Mapping[str, Any]]
) -> tuple[Call, ResponsesRequest]:
    """Replace the references in the input by stored items, given by id. Raises ItemNotFound."""
    if not request.unresolved:
        return call, request
    messages, places = items_to_messages(replace_references(request.unresolved, stored_items))
    messages, places = (*call.messages, *messages), (*request.places, *places)
    pending_calls = find_pending_calls(messages)
    return replace(call, messages=messages), replace(request, places=places, unresolved=(), pending_calls=pending_calls)


def continue_history(
    call: Call, request: ResponsesRequest, stored: Sequence[Message], *, answerable: Collection[str] | None = None
) -> tuple[Call, ResponsesRequest]:
    """Put the stored messages before those of the call that are not stored yet.

    `answerable` are the tool calls whose results may come from the client; None means all.
    """
    first = call.preface
    unstored = new_messages(stored, call.messages[first:], start=first, answerable=answerable)
    field = "previous_response_id" if call.previous is not None else "conversation"
    params = [request.places[index] for index in unstored]
    messages = (*call.messages[:first], *stored, *unstored.values())
    places = (*request.places[:first], *[field] * len(stored), *params)
    return replace(call, messages=messages), replace(request, places=places, pending_calls=find_pending_calls(messages))
