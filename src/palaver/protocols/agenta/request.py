"""Parse the bodies of /invoke, /run and /test: the envelope, which has `data`, and the flat form.

A value may be given in several places if they all agree.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import unquote

import msgspec

from palaver.core import dialects, json
from palaver.core.descriptions import Description
from palaver.core.messages import Message
from palaver.core.runs import Call
from palaver.errors import (
    ConflictingFields,
    FaultyCall,
    InvalidBody,
    InvalidMessages,
    InvalidSessionId,
    MisplacedField,
    MissingInput,
    RequestError,
    UnsupportedFlag,
)
from palaver.protocols.agenta.content_negotiation import JSON, negotiate, ui_offers, ui_version
from palaver.protocols.base import HttpRequest, RejectedRequest
from palaver.protocols.openai import json_type_name
from palaver.protocols.ui_stream.request import UIRequest, ui_request

_SESSION = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_REFERENCE_FIELDS = ("references", "links", "selector", "meta")
_DATA_REFERENCE_FIELDS = ("revision", "testcase", "trace", "outputs")  # In the flat form at the root.
# `secrets` and `credentials` are accepted and ignored.
_KNOWN_FIELDS = frozenset(
    "version session_id flags data messages inputs parameters ag_config tags secrets credentials".split()
)
_KNOWN_DATA_FIELDS = frozenset(("inputs", "parameters", *_DATA_REFERENCE_FIELDS))
_Object = Mapping[str, Any]
_MAX_MISPLACED = 20


class CallBody(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a body, in either form."""

    envelope: bool
    messages: Any
    """A chat's history as it was sent, or None."""
    inputs: dict[str, Any]
    parameters: dict[str, Any]
    flags: _Object
    session: str | None
    references: dict[str, Any]
    tags: _Object
    places: dict[str, str]
    """JSON pointers into the call to those into the body: `/inputs/x` -> `/data/inputs/x`."""
    strays: Mapping[str, str]
    """Unknown keys of the body and of `data`, escaped for a JSON pointer, and the pointer to each."""


def parse_object(request: HttpRequest) -> dict[str, Any]:
    value = json.decode(request.body, request.json_limits)
    if not isinstance(value, dict):
        raise InvalidBody(f"The body must be a JSON object, not {json_type_name(value)}.", pointer="")
    return cast("dict[str, Any]", value)


def parse_body(body: _Object, headers: Mapping[str, str], *, is_chat: bool) -> CallBody:
    envelope = "data" in body
    data = _object(body, "data") if envelope else {}
    if "messages" in data:
        raise MisplacedField("messages belongs in data.inputs.", pointer="/data/messages")
    base = "/data" if envelope else ""
    places = {
        "/inputs": f"{base}/inputs",
        "/parameters": f"{base}/parameters",
        "/messages": "/data/inputs/messages" if envelope else "/messages",
    }
    inputs = _inputs(body, data, places, is_chat=is_chat)
    history = None
    if is_chat and "messages" in inputs:
        history = inputs.pop("messages")
        places["/messages"] = places.pop("/inputs/messages")
    parameters = _parameters(body, data, places)
    holder = data if envelope else body
    return CallBody(
        envelope=envelope,
        messages=history,
        inputs=inputs,
        parameters=parameters,
        session=_session(body, headers),
        flags=_flags(body),
        references={name: body[name] for name in _REFERENCE_FIELDS if name in body}
        | {name: holder[name] for name in _DATA_REFERENCE_FIELDS if name in holder},
        tags=_tags(body),
        places=places,
        strays=_unknown_fields(body, data, envelope=envelope),
    )


def check_places(call_body: CallBody, workflow: Description) -> None:
    """Raise MisplacedField if an optional input is beside `inputs`, where it would have no effect.

    A required one is missing, which is reported together with the other faults of the call.
    """
    schema = workflow.schemas.inputs
    names = {json.escape_pointer(name): name for name in schema.get("properties", ())} if call_body.strays else {}
    misplaced = [name for name in call_body.strays if name in names and f"/inputs/{name}" not in call_body.places]
    if any(names[name] not in schema.get("required", ()) for name in misplaced):
        target = call_body.places["/inputs"]
        found = "; ".join(f"{call_body.strays[name]} belongs in {target}/{name}" for name in misplaced[:_MAX_MISPLACED])
        raise MisplacedField(f"Inputs are in the wrong place: {found}.", pointer=call_body.strays[misplaced[0]])


def parse_history(call_body: CallBody) -> tuple[Message, ...]:
    """Parse the messages of a chat's call. Raises FaultyCall."""
    if call_body.messages is None:
        raise FaultyCall([MissingInput("Input 'messages' is required.", pointer="/messages")])
    try:
        return tuple(dialects.read(call_body.messages))
    except InvalidMessages as error:
        raise FaultyCall([error]) from None


def conflicting_fields(first: str, second: str) -> ConflictingFields:
    return ConflictingFields(f"{first} and {second} have different values. Send only one of them.", pointer=second)


def _inputs(body: _Object, data: _Object, places: dict[str, str], *, is_chat: bool) -> dict[str, Any]:
    """Merge the inputs of all places, the history under `messages`; records the place of each."""
    inputs: dict[str, Any] = {}

    def add(name: str, value: Any, pointer: str) -> None:
        first = places.setdefault(f"/inputs/{json.escape_pointer(name)}", pointer)
        if name not in inputs:
            inputs[name] = value
        elif not json.json_equal(inputs[name], value):
            raise conflicting_fields(first, pointer)

    for base, holder in (("/data", data), ("", body)):
        for name, value in _object(holder, "inputs", base).items():
            if not (is_chat and name == "messages" and value is None):  # Null is a value, but not a history.
                add(name, value, f"{base}/inputs/{json.escape_pointer(name)}")
    if body.get("messages") is not None:
        add("messages", body["messages"], "/messages")
    return inputs


def _parameters(body: _Object, data: _Object, places: dict[str, str]) -> dict[str, Any]:
    parameters: dict[str, Any] | None = None
    for base, holder, name in (("/data", data, "parameters"), ("", body, "parameters"), ("", body, "ag_config")):
        if holder.get(name) is None:
            continue
        value, pointer = _object(holder, name, base), f"{base}/{name}"
        if parameters is None:
            parameters, places["/parameters"] = value, pointer
        elif not json.json_equal(parameters, value):
            raise conflicting_fields(places["/parameters"], pointer)
    return parameters or {}


def _session(body: _Object, headers: Mapping[str, str]) -> str | None:
    pattern = "1 to 128 letters, digits, '.', '_', ':' or '-'."
    session = body.get("session_id")
    if session is not None:
        if not isinstance(session, str) or not _SESSION.fullmatch(session):
            raise InvalidSessionId(f"session_id must be {pattern}", pointer="/session_id")
        return session
    for source, value in (
        ("The header x-ag-session-id", headers.get("x-ag-session-id")),
        ("ag.session.id in the baggage header", _baggage(headers.get("baggage", ""))),
    ):
        if value is not None:
            if not _SESSION.fullmatch(value):
                raise InvalidSessionId(f"{source} must be {pattern}")
            return value
    return None


def _baggage(header: str) -> str | None:
    for member in header.split(","):
        name, _, value = member.partition(";")[0].partition("=")
        if name.strip() == "ag.session.id":
            return unquote(value.strip())
    return None


def _flags(body: _Object) -> _Object:
    flags = _object(body, "flags")
    for name in ("stream", "trim", "force"):
        if not isinstance(flags.get(name, False), bool):
            raise InvalidBody(f"flags.{name} must be true or false.", pointer=f"/flags/{name}")
    if flags.get("force"):
        raise UnsupportedFlag("flags.force is not supported. Omit it.", pointer="/flags/force")
    return flags


def _tags(body: _Object) -> _Object:
    tags = body.get("tags")
    return cast("_Object", tags) if isinstance(tags, dict) else {} if tags is None else {"tags": tags}


def _unknown_fields(body: _Object, data: _Object, *, envelope: bool) -> Mapping[str, str]:
    known_fields = _KNOWN_FIELDS.union(_REFERENCE_FIELDS, () if envelope else _DATA_REFERENCE_FIELDS)
    places = [("/data", name) for name in data if name not in _KNOWN_DATA_FIELDS]
    places += [("", name) for name in body if name not in known_fields]
    return {(escaped := json.escape_pointer(name)): f"{base}/{escaped}" for base, name in places}


def _object(holder: _Object, name: str, base: str = "") -> dict[str, Any]:
    value = holder.get(name)
    if value is None and name != "data":
        return {}
    if not isinstance(value, dict):
        raise InvalidBody(f"{name} must be an object, not {json_type_name(value)}.", pointer=f"{base}/{name}")
    return cast("dict[str, Any]", value)


class AgentaRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is needed to encode the response."""

    form: str = JSON
    """The media type of the response."""
    envelope: bool = False
    trim: bool = False
    """Whether to return only the last message."""
    is_chat: bool = True
    ui: UIRequest | None = None
    """Set if the client wants UI messages (the vercel format) instead of Chat Completions messages."""
    session: str | None = None
    places: Mapping[str, str] = {}
    """JSON pointers into the call to those into the body."""
    strays: Mapping[str, str] = {}
    """Unknown keys and their places; one of them may be a misplaced input."""

    def pointer(self, pointer: str) -> str:
        """Convert a pointer into the call (`/messages/3`, `/inputs/x`, `/parameters/x`) to one into the body."""
        prefix = max((candidate for candidate in self.places if _is_below(pointer, candidate)), key=len, default=None)
        return pointer if prefix is None else self.places[prefix] + pointer[len(prefix) :]


def parse_call(
    request: HttpRequest, call_body: CallBody, workflow: Description, *, offers: Sequence[str]
) -> tuple[Call, AgentaRequest]:
    """Build the call and the request. The media type is negotiated before the messages are parsed."""
    check_places(call_body, workflow)
    agenta_request = AgentaRequest(
        envelope=call_body.envelope,
        trim=call_body.flags.get("trim", request.headers.get("x-ag-messages-transcript") == "last"),
        is_chat=workflow.is_chat,
        session=call_body.session,
        places=call_body.places,
        strays=call_body.strays,
    )
    try:
        version = ui_version(request.headers)
        media_type = negotiate(request.headers, call_body.flags, offers if version is None else ui_offers(offers))
        messages = parse_history(call_body) if workflow.is_chat else ()
    except RequestError as error:
        raise RejectedRequest(error, agenta_request) from None
    ui = None if version is None else ui_request(version, call_body.messages, messages)
    call = Call(
        workflow=workflow.name,
        messages=messages,
        inputs=call_body.inputs,
        parameters=call_body.parameters,
        session=call_body.session,
        references=call_body.references,
        tags=call_body.tags,
        trace_parent=request.trace_parent,
    )
    return call, msgspec.structs.replace(agenta_request, form=media_type, ui=ui)


def _is_below(pointer: str, parent: str) -> bool:
    return pointer == parent or pointer.startswith(f"{parent}/")
