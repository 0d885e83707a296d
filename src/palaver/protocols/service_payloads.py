"""The payload of a service: one JSON object, and what it asks of a workflow (contract: job-chat, 1.2 and 1.3)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from palaver.core import dialects, json
from palaver.core.descriptions import Description
from palaver.core.messages import Message
from palaver.core.runs import RecordMode
from palaver.errors import InvalidBody, InvalidJson, PalaverError
from palaver.protocols.base import Request
from palaver.protocols.service_errors import Misfit, refused
from palaver.protocols.service_inputs import misfits

OURS = "plv_"
"""What our own keys begin with. Any other is for the workflow."""
CONSUMED = frozenset({"api_key", "stream", "metrics_opt_in"})
"""What is said to us, and not to the workflow."""

_OF_CHATS = frozenset({"content", "history", "messages", "parameters"})
_ROLES = ("user", "assistant")
_LONGEST_SESSION = 64
_PLACE = re.compile(r"\(byte (\d+)\)")
_Object = Mapping[str, Any]


class Asked(NamedTuple):
    """What a payload asks of a workflow."""

    messages: tuple[Message, ...]
    history: tuple[Any, ...]
    """The conversation with the user's turn, as it will be told again."""
    inputs: dict[str, Any]
    parameters: dict[str, Any]
    record: RecordMode
    is_sparse: bool
    """Of a stream: only logs and the last event. Absent means that everything may be told as it happens."""


def read(request: Request) -> dict[str, Any]:
    """The object in a body. Of text that is no JSON the place is told, by line and column."""
    try:
        value = json.decode(request.body, request.bounds)
    except InvalidJson as error:
        raise _placed(error, request.body) from None
    if not isinstance(value, dict):
        raise InvalidBody("The body must be a JSON object.")
    return cast("dict[str, Any]", value)


def _placed(error: InvalidJson, body: bytes) -> InvalidJson:
    found = _PLACE.search(error.message)
    if found is None:
        return error
    before = body[: int(found[1])]
    line, column = before.count(b"\n") + 1, len(before.rpartition(b"\n")[2].decode(errors="replace")) + 1
    message = error.message.replace(found[0], f"(line {line}, column {column})")
    return InvalidJson(message, details={"line": line, "column": column})


def session(payload: _Object, fresh: str) -> str:
    """The label that groups the calls of one conversation: the client's, or a fresh one."""
    match payload.get("meta"):
        case {"session_id": str(label)} if 0 < len(label) <= _LONGEST_SESSION:
            return label
        case _:
            return fresh


def key(payload: _Object) -> str | None:
    """The credential in a payload; None where there is none."""
    match payload.get("api_key"):
        case None:
            return None
        case str(text):
            return text.strip() or None
        case _:
            raise refused([Misfit("api_key", "must be a string")])


def key_of_ours(body: bytes, bounds: json.JsonLimits) -> str | None:
    """A key of ours in a body that nobody has read yet. What is wrong with the body is told later, by who reads it."""
    if b"api_key" not in body and b"\\u" not in body:
        return None
    try:
        value = json.decode(body, bounds)
        text = key(cast("_Object", value)) if isinstance(value, dict) else None
    except PalaverError:
        return None
    return text if text is not None and text.startswith(OURS) else None


def asked(payload: _Object, workflow: Description, label: str, *, is_stream: bool) -> Asked:
    """What it asks; a RequestError that lists everything that is wrong with it."""
    wrong: list[Misfit] = []
    streamed = _boolean(payload, "stream", wrong) if is_stream else None
    opted = _boolean(payload, "metrics_opt_in", wrong)
    record: RecordMode = "metadata" if opted is False else "full"
    inputs = _inputs({**payload, "session_id": label}, workflow)
    parameters: Any = payload.get("parameters") if workflow.is_chat else None
    if parameters is not None and not isinstance(parameters, dict):
        wrong.append(Misfit("parameters", "must be an object"))
    messages, history = _conversation(payload, wrong) if workflow.is_chat else ((), ())
    if wrong:
        raise refused([*wrong, *misfits(inputs, workflow.schemas.inputs)])
    is_sparse = is_stream and streamed is False
    return Asked(messages, history, inputs, cast("dict[str, Any]", parameters or {}), record, is_sparse)


def _boolean(payload: _Object, name: str, wrong: list[Misfit]) -> bool | None:
    value = payload.get(name)
    if value is None or isinstance(value, bool):
        return value
    wrong.append(Misfit(name, "must be true or false"))
    return None


def _inputs(payload: dict[str, Any], workflow: Description) -> dict[str, Any]:
    """What the workflow takes by name; all of it where it takes anything, or does not say what it takes."""
    if workflow.is_chat:
        payload = _without_user({name: value for name, value in payload.items() if name not in _OF_CHATS})
    schema = workflow.schemas.inputs
    declared = schema.get("properties")
    takes_all = declared is None or schema.get("additionalProperties") is True
    return {
        name: value
        for name, value in payload.items()
        if name not in CONSUMED and (takes_all or name in cast("_Object", declared))
    }


def _without_user(payload: dict[str, Any]) -> dict[str, Any]:
    """Who the user is, which Lightning tells in `meta.user`, is no business of the workflow's, nor of our records."""
    match payload.get("meta"):
        case {"user": _, **rest}:
            return {**payload, "meta": rest}
        case _:
            return payload


# Conversations


def _conversation(payload: _Object, wrong: list[Misfit]) -> tuple[tuple[Message, ...], tuple[Any, ...]]:
    given: Any = payload.get("messages")
    if given is None:
        return _turns(payload, wrong)
    if payload.get("content") is not None or payload.get("history") is not None:
        wrong.append(Misfit("messages", "stands instead of content and history: send one or the other"))
        return (), ()
    messages = tuple(dialects.read(given))
    said = [message for message in messages if message.role in _ROLES]
    return messages, tuple({"role": message.role, "content": message.text} for message in said)


def _turns(payload: _Object, wrong: list[Misfit]) -> tuple[tuple[Message, ...], tuple[Any, ...]]:
    """The history, of which blank turns are told again but are not said to the workflow; and the user's turn."""
    content: Any = payload.get("content")
    if content is None:
        wrong.append(Misfit("content", "is required"))
    elif not isinstance(content, str):
        wrong.append(Misfit("content", "must be a string"))
    elif not content.strip():
        wrong.append(Misfit("content", "must not be blank"))
    history = _history(payload, wrong)
    if wrong or content is None:
        return (), ()
    messages = [
        Message.user(turn["content"]) if turn["role"] == "user" else Message.assistant(turn["content"])
        for turn in history
        if turn["content"].strip()
    ]
    return (*messages, Message.user(content)), (*history, {"role": "user", "content": content})


def _history(payload: _Object, wrong: list[Misfit]) -> Sequence[Any]:
    given: Any = payload.get("history")
    if given is None:
        return ()
    if not isinstance(given, list):
        wrong.append(Misfit("history", "must be a list"))
        return ()
    turns = cast("list[Any]", given)
    for index, turn in enumerate(turns):
        if not isinstance(turn, dict):
            wrong.append(Misfit(f"history[{index}]", "must be an object"))
            continue
        fields = cast("_Object", turn)
        if fields.get("role") not in _ROLES:
            wrong.append(Misfit(f"history[{index}].role", "must be 'user' or 'assistant'"))
        if not isinstance(fields.get("content"), str):
            wrong.append(Misfit(f"history[{index}].content", "must be a string"))
    return turns
