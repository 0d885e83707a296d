"""POST /v1/chat/completions (contract: other-protocols, 1).

A run is one completion with one choice and one message: the texts of its messages are joined, and only tool calls that
the client has to run are included.
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
    """What is needed to encode the response."""

    model: str = ""
    stream: bool = False
    include_usage: bool = False
    client_tools: frozenset[str] = frozenset()


def decode(request: HttpRequest, find: WorkflowLookup) -> tuple[Call, ChatRequest]:
    """At the root, `model` names the workflow."""
    fields = JsonFields.of(request)
    body = fields.body
    model = fields.string("model", longest=_MAX_MODEL_LENGTH)
    workflow = find(model if request.workflow is None else request.workflow)
    options = parse_options(fields)
    shared = openai_fields.parse_shared_fields(fields, workflow) if not body.keys().isdisjoint(_SHARED_FIELDS) else None
    chat_request = ChatRequest(
        model=model or workflow.name,
        stream=fields.boolean("stream", default=False),
        include_usage=fields.below("stream_options").boolean("include_usage", default=False),
        client_tools=openai_fields.client_tool_names(JsonFields(options)) if "tools" in options else frozenset(),
    )
    call = Call(
        workflow=workflow.name,
        messages=parse_messages(fields) if workflow.is_chat else (),
        inputs=shared.inputs if shared else _EMPTY,
        parameters=shared.parameters if shared else _EMPTY,
        session=shared.session if shared else None,
        user=shared.user if shared else None,
        client_tools=chat_request.client_tools,
        options=options,
        tags=shared.metadata if shared else _EMPTY,
        trace_parent=request.trace_parent,
    )
    return call, chat_request


def response_head(started: RunStarted, request: ChatRequest) -> HttpResponse | None:
    if not request.stream:
        return None
    named = (
        ("content-type", f"{SSE}; charset=utf-8"),
        ("cache-control", "no-cache, no-transform"),
        ("x-accel-buffering", "no"),
    )
    return HttpResponse(status=200, headers=(*named, *run_headers(started)), keep_alive=sse.KEEP_ALIVE)


def stream_encoder(request: ChatRequest) -> EventEncoder:
    return ChatStreamEncoder(request.model, request.client_tools, include_usage=request.include_usage).encode


def encode_response(events: Sequence[Event], request: ChatRequest, *, status: int) -> HttpResponse:
    """Encode the completion; of a failed run the error, of a cancelled one the text so far."""
    started, last = events[0], events[-1]
    assert isinstance(started, RunStarted)
    assert isinstance(last, TERMINAL_EVENTS)
    if isinstance(last, RunFailed):
        return openai_errors.run_error_response(last, started, status=status, headers=run_headers(started))
    deltas = DeltaEncoder(request.client_tools)
    message = join_deltas(delta for event in events for delta in deltas.feed(event))
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": deltas.finish_reason}
    document = completion_fields(started, request.model, "chat.completion") | {
        "system_fingerprint": None,
        "choices": [choice],
    }
    if usage := last.usage or deltas.usage:
        document["usage"] = usage_fields(usage)
    return HttpResponse(
        status=status, headers=(("content-type", JSON), *run_headers(started)), body=json.encode(document)
    )


def encode_error(error: PalaverError, request: ChatRequest | None, *, status: int) -> HttpResponse:
    return openai_errors.error_response(error, status=status, to_param=_param)


def _param(pointer: str) -> str:
    """Convert a pointer into the Call to a param: inputs are sent as `custom_inputs`."""
    first, slash, rest = pointer.removeprefix("/").partition("/")
    return openai_errors.pointer_to_param(f"/custom_inputs{slash}{rest}" if first == "inputs" else pointer)
