"""The two forms in which a body says a call: the envelope (it has `data`) and the flat one.

Each thing may be said in several places if all of them say the same; nothing goes silently before anything else.
"""

import re
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import unquote

import msgspec

from palaver.core import dialects, jsons
from palaver.core.messages import Message
from palaver.errors import (
    ConflictingFields,
    FaultyCall,
    InvalidBody,
    InvalidMessages,
    InvalidSessionId,
    MisplacedField,
    MissingInput,
    UnsupportedFlag,
)
from palaver.protocols.base import Request

_SESSION = re.compile(r"[A-Za-z0-9._:-]{1,128}", re.ASCII)
_KEPT = ("references", "links", "selector", "meta")
_KEPT_IN_DATA = ("revision", "testcase", "trace", "outputs")
_MEANT = frozenset({*_KEPT, *_KEPT_IN_DATA, "tags", "data", "messages", "inputs", "parameters", "ag_config", "flags"}) | {
    "session_id",
    "secrets",
    "credentials",
    "version",
}
_Object = Mapping[str, Any]


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """What a body says, in whichever form it says it."""

    envelope: bool
    messages: Any
    """The history as it was sent; None when it was not."""
    inputs: dict[str, Any]
    parameters: dict[str, Any]
    flags: _Object
    session: str | None
    references: dict[str, Any]
    tags: _Object
    places: dict[str, str]
    strays: frozenset[str]


def read_object(request: Request) -> dict[str, Any]:
    """The body as a JSON object."""
    value = jsons.received(request.body, request.bounds)
    if not isinstance(value, dict):
        raise InvalidBody(f"The body must be a JSON object, not {_called(value)}.", pointer="")
    return cast("dict[str, Any]", value)


def read_form(request: Request, *, is_chat: bool) -> Form:
    """The call that a body says, checked as far as its form goes."""
    body = read_object(request)
    envelope = "data" in body
    data = _object(body, "data") if envelope else {}
    if "messages" in data:
        raise MisplacedField("messages belongs in data.inputs.", pointer="/data/messages")
    base = "/data" if envelope else ""
    places = {"/messages": f"{base}/inputs/messages" if envelope else "/messages"}
    places |= {"/inputs": f"{base}/inputs", "/parameters": f"{base}/parameters"}
    inputs = _joined_inputs(body, data, places)
    history: Any = None
    if is_chat:
        history = inputs.pop("messages", None)
        places["/messages"] = places.pop("/inputs/messages", places["/messages"])
        if history is not None and not isinstance(history, list | dict):
            history = [history]  # Judged where messages are: its element is what is wrong.
    return Form(
        envelope=envelope,
        messages=history,
        inputs=inputs,
        parameters=_parameters(body, data, places),
        flags=_flags(body),
        session=_session(body, request.headers),
        references=_references(body, data),
        tags=_tags(body),
        places=places,
        strays=frozenset(body.keys() - _MEANT),
    )


def history(form: Form, *, is_chat: bool) -> tuple[Message, ...]:
    """The messages of a chat's call; a FaultyCall where they are missing or no messages."""
    if not is_chat:
        return ()
    if form.messages is None:
        raise FaultyCall([MissingInput("Input 'messages' is required.", pointer="/messages")])
    try:
        return tuple(dialects.read(form.messages))
    except InvalidMessages as error:
        raise FaultyCall([error]) from None


def _joined_inputs(body: _Object, data: _Object, places: dict[str, str]) -> dict[str, Any]:
    """The inputs of all places, key by key, the history under `messages`; notes where each was found."""
    joined: dict[str, Any] = {}

    def add(name: str, value: Any, pointer: str) -> None:
        if name in joined and joined[name] != value:
            first = places[f"/inputs/{name}"]
            raise ConflictingFields(f"{first} and {pointer} say different things: say it once.", pointer=pointer)
        if name not in joined:
            joined[name] = value
            places[f"/inputs/{name}"] = pointer

    for base, holder in (("/data", data), ("", body)):
        for name, value in _object(holder, "inputs", base).items():
            if not (name == "messages" and value is None):
                add(name, value, f"{base}/inputs/{name}")
    if body.get("messages") is not None:
        add("messages", body["messages"], "/messages")
    return joined


def _parameters(body: _Object, data: _Object, places: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] | None = None
    for base, holder, name in (("/data", data, "parameters"), ("", body, "parameters"), ("", body, "ag_config")):
        if holder.get(name) is None:
            continue
        value = _object(holder, name, base)
        if found is not None and found != value:
            first, second = places["/parameters"], f"{base}/{name}"
            raise ConflictingFields(f"{first} and {second} say different things: say it once.", pointer=second)
        if found is None:
            found, places["/parameters"] = value, f"{base}/{name}"
    return found or {}


def _flags(body: _Object) -> _Object:
    flags = _object(body, "flags")
    for name in ("stream", "trim", "force"):
        if not isinstance(flags.get(name, False), bool):
            raise InvalidBody(f"flags.{name} must be true or false.", pointer=f"/flags/{name}")
    if flags.get("force"):
        raise UnsupportedFlag("flags.force is not supported: leave it out.", pointer="/flags/force")
    return flags


def _session(body: _Object, headers: Mapping[str, str]) -> str | None:
    session, where = body.get("session_id"), "session_id"
    if session is None:
        session, where = headers.get("x-ag-session-id"), "header x-ag-session-id"
    if session is None:
        session, where = _baggage(headers.get("baggage", "")), "baggage ag.session.id"
    if session is not None and not (isinstance(session, str) and _SESSION.fullmatch(session)):
        raise InvalidSessionId(
            f"The {where} must be 1 to 128 letters, digits or any of . _ : -", pointer="/session_id" if "_" in where else None
        )
    return session


def _baggage(header: str) -> str | None:
    for member in header.split(","):
        name, _, value = member.partition(";")[0].partition("=")
        if name.strip() == "ag.session.id":
            return unquote(value.strip())
    return None


def _references(body: _Object, data: _Object) -> dict[str, Any]:
    kept = {name: body[name] for name in _KEPT if name in body}
    return kept | {name: holder[name] for name in _KEPT_IN_DATA for holder in (body, data) if name in holder}


def _tags(body: _Object) -> _Object:
    tags = body.get("tags")
    return cast("_Object", tags) if isinstance(tags, dict) else {} if tags is None else {"tags": tags}


def _object(holder: _Object, name: str, base: str = "") -> dict[str, Any]:
    value = holder.get(name)
    if value is None and name != "data":
        return {}
    if not isinstance(value, dict):
        raise InvalidBody(f"{name} must be an object, not {_called(value)}.", pointer=f"{base}/{name}")
    return cast("dict[str, Any]", value)


def _called(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return "a number"
