"""POST /v1/chat/completions: what most clients speak (contract: other-protocols, 1).

A run is one completion, one choice, one message: the texts of its messages are joined, and of its calls only those are
told that the client is to run.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from palaver.core import json
from palaver.core.events import TERMINAL_EVENTS, Event, RunFailed, RunStarted
from palaver.core.runs import Call
from palaver.errors import PalaverError
from palaver.protocols import openai_errors, openai_fields, sse
from palaver.protocols.base import EventEncoder, HttpRequest, HttpResponse, WorkflowLookup, run_headers
from palaver.protocols.chat_completions.client import JSON, SSE
from palaver.protocols.chat_completions.request import parse_messages, parse_options
from palaver.protocols.chat_completions.stream import (
    ChatStreamEncoder,
    DeltaEncoder,
    completion_fields,
    join_deltas,
    usage_fields,
)
from palaver.protocols.openai_fields import JsonFields

_MAX_MODEL_LENGTH = 256
_SHARED_FIELDS = ("custom_inputs", "parameters", "context", "metadata", "safety_identifier", "user")
_EMPTY: Mapping[str, Any] = {}


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """How a request was made, and hence how it is to be answered."""

    model: str = ""
    stream: bool = False
    include_usage: bool = False
    client_tools: frozenset[str] = frozenset()


def decode(request: HttpRequest, find: WorkflowLookup) -> tuple[Call, ChatRequest]:
    """The call, and how to answer it. At the root, `model` names the workflow."""
    fields = JsonFields.of(request)
    body = fields.body
    model = fields.string("model", longest=_MAX_MODEL_LENGTH)
    workflow = find(model if request.workflow is None else request.workflow)
    options = parse_options(fields)
    said = openai_fields.parse_shared_fields(fields, workflow) if not body.keys().isdisjoint(_SHARED_FIELDS) else None
    reading = ChatRequest(
        model=model or workflow.name,
        stream=fields.boolean("stream", default=False),
        include_usage=fields.below("stream_options").boolean("include_usage", default=False),
        client_tools=openai_fields.client_tool_names(JsonFields(options)) if "tools" in options else frozenset(),
    )
    call = Call(
        workflow=workflow.name,
        messages=parse_messages(fields) if workflow.is_chat else (),
        inputs=said.inputs if said else _EMPTY,
        parameters=said.parameters if said else _EMPTY,
        session=said.session if said else None,
        user=said.user if said else None,
        client_tools=reading.client_tools,
        options=options,
        tags=said.metadata if said else _EMPTY,
        trace_parent=request.trace_parent,
    )
    return call, reading


def response_head(started: RunStarted, reading: ChatRequest) -> HttpResponse | None:
    """The head of a stream; None for a whole answer."""
    if not reading.stream:
        return None
    named = (
        ("content-type", f"{SSE}; charset=utf-8"),
        ("cache-control", "no-cache, no-transform"),
        ("x-accel-buffering", "no"),
    )
    return HttpResponse(status=200, headers=(*named, *run_headers(started)), keep_alive=sse.KEEP_ALIVE)


def stream_encoder(reading: ChatRequest) -> EventEncoder:
    """Chunks, as server-sent events without a name."""
    return ChatStreamEncoder(reading.model, reading.client_tools, include_usage=reading.include_usage).frames


def encode_response(events: Sequence[Event], reading: ChatRequest, *, status: int) -> HttpResponse:
    """The completion; of a run that failed, the error alone, and of one that was stopped, what it had said."""
    started, last = events[0], events[-1]
    assert isinstance(started, RunStarted)
    assert isinstance(last, TERMINAL_EVENTS)
    if isinstance(last, RunFailed):
        return openai_errors.run_error_response(last, started, status=status, headers=run_headers(started))
    deltas = DeltaEncoder(reading.client_tools)
    message = join_deltas(delta for event in events for delta in deltas.feed(event))
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": deltas.finish_reason}
    document = completion_fields(started, reading.model, "chat.completion") | {
        "system_fingerprint": None,
        "choices": [choice],
    }
    if usage := last.usage or deltas.usage:
        document["usage"] = usage_fields(usage)
    return HttpResponse(
        status=status, headers=(("content-type", JSON), *run_headers(started)), body=json.encode(document)
    )


def encode_error(error: PalaverError, reading: ChatRequest | None, *, status: int) -> HttpResponse:
    """The one error body of OpenAI's protocols."""
    return openai_errors.error_response(error, status=status, pointed=_param)


def _param(pointer: str) -> str:
    """A pointer of the waist in the words of the body: inputs came as `custom_inputs`."""
    first, slash, rest = pointer.removeprefix("/").partition("/")
    return openai_errors.pointer_to_param(f"/custom_inputs{slash}{rest}" if first == "inputs" else pointer)
