"""POST /{w}/api/chat: the AI SDK's useChat, answered as a UI message stream, v1 (contract: other protocols, 2).

The client sends its whole history each time, and shows the body of an error as it is: so errors are plain text.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from palaver.core import json
from palaver.core.descriptions import Description
from palaver.core.dialects import ui_message
from palaver.core.events import Event, RunFailed, RunStarted
from palaver.core.runs import Call
from palaver.errors import InvalidMessages, InvalidSessionId, InvalidType, PalaverError
from palaver.protocols import sse
from palaver.protocols.base import EventEncoder, Headers, HttpRequest, HttpResponse, WorkflowLookup, run_headers
from palaver.protocols.openai import JsonFields, json_type_name
from palaver.protocols.ui_stream.encoder import UIStreamEncoder, encode_ui_message
from palaver.protocols.ui_stream.request import UIRequest, parse_version, ui_request

_SESSION = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_ROLES = ("system", "user", "assistant")
_TRIGGERS = ("submit-message", "regenerate-message")
_RESERVED_FIELDS = frozenset({"id", "messages", "trigger", "messageId", "inputs", "parameters", "tools"})
_REQUIRED_STRINGS = {
    "text": ("text",),
    "reasoning": ("text",),
    "file": ("mediaType", "url"),
    "dynamic-tool": ("toolCallId", "toolName"),
}
"""The fields of each part type that must be strings."""


def decode(request: HttpRequest, find: WorkflowLookup) -> tuple[Call, UIRequest]:
    workflow = find(request.workflow)
    fields = JsonFields.from_request(request)
    version = parse_version(request.headers)
    session = fields.string("id")
    if session is not None and not _SESSION.fullmatch(session):
        raise InvalidSessionId("id must be 1 to 128 letters, digits or any of . _ : -", pointer="/id")
    trigger = fields.string("trigger", choices=_TRIGGERS)
    elements = _elements(fields, workflow)
    messages = tuple(ui_message.read(elements)) if workflow.is_chat else ()
    tools = _tools(fields)
    named = frozenset(name for name, _ in tools)
    objects = [tool for _, tool in tools if tool is not None]
    call = Call(
        workflow=workflow.name,
        messages=messages,
        inputs=_inputs(fields, workflow),
        parameters=fields.object("parameters") or {},
        session=session,
        client_tools=named,
        options={"tools": objects} if objects else {},
        trace_parent=request.trace_parent,
    )
    about: Any = fields.body.get("messageId")
    return call, ui_request(
        version,
        elements,
        messages,
        tools=named,
        about=about if isinstance(about, str) else None,
        regenerates=trigger == "regenerate-message",
    )


def response_head(started: RunStarted, request: UIRequest) -> HttpResponse | None:
    named = (("content-type", "text/event-stream"), ("cache-control", "no-cache"), ("x-accel-buffering", "no"))
    headers = (*named, *request.headers, *run_headers(started))
    return HttpResponse(status=200, headers=headers, keep_alive=sse.KEEP_ALIVE)


def stream_encoder(request: UIRequest) -> EventEncoder:
    return UIStreamEncoder(request).encode


def encode_response(events: Sequence[Event], request: UIRequest, *, status: int) -> HttpResponse:
    """Encode the UI message that a client would build, or the error of a failed run."""
    started, last = events[0], events[-1]
    assert isinstance(started, RunStarted)
    if isinstance(last, RunFailed):
        return _text_response(status, last.message, (*request.headers[1:], *run_headers(started)))
    named = (("content-type", "application/json"), *request.headers[1:], *run_headers(started))
    return HttpResponse(status=status, headers=named, body=json.encode(encode_ui_message(events, request)))


def encode_error(error: PalaverError, request: UIRequest | None, *, status: int) -> HttpResponse:
    """Encode the message of the error as plain text."""
    return _text_response(status, error.message, request.headers[1:] if request else ())


def _text_response(status: int, message: str, headers: Headers) -> HttpResponse:
    body = json.replace_surrogates(message).encode()
    return HttpResponse(status=status, headers=(("content-type", "text/plain; charset=utf-8"), *headers), body=body)


# The body


def _elements(fields: JsonFields, workflow: Description) -> list[Any]:
    """Return the validated UI messages. A workflow that is not a chat needs none."""
    elements = fields.body.get("messages")
    if not workflow.is_chat and elements is None:
        return []
    if not isinstance(elements, list):
        raise fields.type_error("messages", "a list of UI messages", elements)
    listed = cast("list[Any]", elements)
    for index, element in enumerate(listed):
        _check_message(element, index)
    return listed


def _check_message(element: Any, index: int) -> None:
    pointer = f"/messages/{index}"
    match element:
        case {"role": "system" | "user" | "assistant", "parts": list()}:
            for position, part in enumerate(cast("list[Any]", element["parts"])):
                _check_part(part, f"{pointer}/parts/{position}", f"Part {position} of message {index}")
        case {"role": "system" | "user" | "assistant"}:
            raise InvalidMessages(f"Message {index} has no list of parts.", pointer=f"{pointer}/parts")
        case dict():
            raise InvalidMessages(f"Message {index} needs a role: {', '.join(_ROLES)}.", pointer=f"{pointer}/role")
        case _:
            raise InvalidMessages(f"Message {index} is {json_type_name(element)}, not a UI message.", pointer=pointer)


def _check_part(part: Any, pointer: str, subject: str) -> None:
    match part:
        case {"type": str(kind), **fields_of_part}:
            needed = _REQUIRED_STRINGS.get(kind, ("toolCallId",) if kind.startswith("tool-") else ())
            for name in needed:
                if not isinstance(fields_of_part.get(name), str):
                    raise InvalidMessages(f"{subject} needs a string {name}.", pointer=f"{pointer}/{name}")
        case _:
            raise InvalidMessages(f"{subject} is no object with a type.", pointer=pointer)


def _inputs(fields: JsonFields, workflow: Description) -> dict[str, Any]:
    """Return `inputs`, and top-level fields that the workflow declares: `sendMessage(m, {body: {subject}})`."""
    declared: Mapping[str, Any] = workflow.schemas.inputs.get("properties") or {}
    own = _RESERVED_FIELDS if workflow.is_chat else _RESERVED_FIELDS - {"messages"}
    beside = {name: value for name, value in fields.body.items() if name in declared and name not in own}
    return beside | (fields.object("inputs") or {})


def _tools(fields: JsonFields) -> list[tuple[str, dict[str, Any] | None]]:
    """Parse the client's tools: a list of names or objects, or an object by name."""
    given: Any = fields.body.get("tools")
    match given:
        case None:
            listed: list[Any] = []
        case list():
            listed = cast("list[Any]", given)
        case dict():
            by_name = cast("dict[str, Any]", given)
            listed = [{"name": name, **tool} if isinstance(tool, dict) else name for name, tool in by_name.items()]
        case _:
            raise fields.type_error("tools", "a list of tools", given)
    tools: list[tuple[str, dict[str, Any] | None]] = []
    for index, tool in enumerate(listed):
        match tool:
            case str():
                tools.append((tool, None))
            case {"name": str(name)} | {"function": {"name": str(name)}}:
                tools.append((name, tool))
            case _:
                raise InvalidType(f"tools[{index}] must be a name or an object with one.", pointer=f"/tools/{index}")
    return tools
