"""POST /v1/chat/completions: what most clients speak (contract: other-protocols, 1).

A run is one completion, one choice, one message: the texts of its messages are joined, and of its calls only those are
told that the client is to run.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from palaver.core import json
from palaver.core.dialects import chat_completions as dialect
from palaver.core.events import TERMINAL_EVENTS, Event, RunFailed, RunStarted
from palaver.core.runs import Call
from palaver.errors import PalaverError
from palaver.protocols import completion_messages, completion_options, openai_errors, openai_fields, sse, upstream
from palaver.protocols.base import Answer, Find, Frames, Request, ids
from palaver.protocols.completion_chunks import Writer, headline, joined, usage_told
from palaver.protocols.completion_deltas import Deltas
from palaver.protocols.completion_replies import SSE, Replies
from palaver.protocols.openai_fields import Fields

__all__ = ["Reading", "Replies", "decode", "failure", "frames", "head", "request", "whole"]

JSON = "application/json"

_LONGEST_MODEL = 256
_SHARED = ("custom_inputs", "parameters", "context", "metadata", "safety_identifier", "user")
_NOTHING: Mapping[str, Any] = {}


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How a request was made, and hence how it is to be answered."""

    model: str = ""
    stream: bool = False
    include_usage: bool = False
    client_tools: frozenset[str] = frozenset()


def decode(request: Request, find: Find) -> tuple[Call, Reading]:
    """The call, and how to answer it. At the root, `model` names the workflow."""
    fields = Fields.of(request)
    body = fields.body
    model = fields.string("model", longest=_LONGEST_MODEL)
    workflow = find(model if request.workflow is None else request.workflow)
    options = completion_options.read(fields)
    said = openai_fields.shared(fields, workflow) if not body.keys().isdisjoint(_SHARED) else None
    reading = Reading(
        model=model or workflow.name,
        stream=fields.boolean("stream", default=False),
        include_usage=fields.below("stream_options").boolean("include_usage", default=False),
        client_tools=openai_fields.client_tools(Fields(options)) if "tools" in options else frozenset(),
    )
    call = Call(
        workflow=workflow.name,
        messages=completion_messages.read(fields) if workflow.is_chat else (),
        inputs=said.inputs if said else _NOTHING,
        parameters=said.parameters if said else _NOTHING,
        session=said.session if said else None,
        user=said.user if said else None,
        client_tools=reading.client_tools,
        options=options,
        tags=said.metadata if said else _NOTHING,
        trace_parent=request.trace_parent,
    )
    return call, reading


def head(started: RunStarted, reading: Reading) -> Answer | None:
    """The head of a stream; None for a whole answer."""
    if not reading.stream:
        return None
    named = (
        ("content-type", f"{SSE}; charset=utf-8"),
        ("cache-control", "no-cache, no-transform"),
        ("x-accel-buffering", "no"),
    )
    return Answer(status=200, headers=(*named, *ids(started)), keep_alive=sse.KEEP_ALIVE)


def frames(reading: Reading) -> Frames:
    """Chunks, as server-sent events without a name."""
    return Writer(reading.model, reading.client_tools, include_usage=reading.include_usage).frames


def whole(events: Sequence[Event], reading: Reading, *, status: int) -> Answer:
    """The completion; of a run that failed, the error alone, and of one that was stopped, what it had said."""
    started, last = events[0], events[-1]
    assert isinstance(started, RunStarted)
    assert isinstance(last, TERMINAL_EVENTS)
    if isinstance(last, RunFailed):
        return openai_errors.run_failure(last, started, status=status, headers=ids(started))
    deltas = Deltas(reading.client_tools)
    message = joined(delta for event in events for delta in deltas.feed(event))
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": deltas.finish_reason}
    document = headline(started, reading.model, "chat.completion") | {"system_fingerprint": None, "choices": [choice]}
    if usage := last.usage or deltas.usage:
        document["usage"] = usage_told(usage)
    return Answer(status=status, headers=(("content-type", JSON), *ids(started)), body=json.encode(document))


def failure(error: PalaverError, reading: Reading | None, *, status: int) -> Answer:
    """The one error body of OpenAI's protocols."""
    return openai_errors.failure(error, status=status, pointed=_param)


def _param(pointer: str) -> str:
    """A pointer of the waist in the words of the body: inputs came as `custom_inputs`."""
    first, slash, rest = pointer.removeprefix("/").partition("/")
    return openai_errors.param(f"/custom_inputs{slash}{rest}" if first == "inputs" else pointer)


# The client half: how we call such a service


def request(call: Call, *, is_chat: bool, stream: bool, model: str | None = None) -> Request:
    """A completion, asked of anybody's server. Only what every one of them takes is sent, unless more was given."""
    inputs = dict(call.inputs)
    # A call that came while the service was away was not read as a chat's: its history is still an input.
    history = inputs.pop("messages", None) or _history(call)
    body: dict[str, Any] = {} if model is None else {"model": model}
    body |= {"messages": history, **completion_options.write(call.options)}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if inputs:
        body["custom_inputs"] = inputs
    if call.parameters:
        body["parameters"] = call.parameters
    return Request(headers=upstream.headers(call, accept=SSE if stream else JSON), body=json.encode(body))


def _history(call: Call) -> list[dict[str, Any]]:
    """The messages without what is ours alone: some servers refuse a key that they do not know."""
    ours = ("palaver", "reasoning_content", "annotations")
    history: list[dict[str, Any]] = []
    for message in dialect.write(call.messages):
        told = {name: value for name, value in message.items() if name not in ours}
        if told["role"] != "assistant" or told["content"] != "":  # Null where it has calls or a refusal instead.
            history.append(told)
    return history
