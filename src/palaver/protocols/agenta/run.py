"""POST /{w}/run and /{w}/test: older forms of /invoke, with flat bodies and JSON responses."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec

from palaver.core import json
from palaver.core.dialects import chat_completions
from palaver.core.events import Event, RunFailed, RunStarted
from palaver.core.fold import fold
from palaver.core.runs import Call
from palaver.errors import MisplacedField, PalaverError
from palaver.protocols import client_base
from palaver.protocols.agenta.content_negotiation import JSON
from palaver.protocols.agenta.request import (
    AgentaRequest,
    conflicting_fields,
    parse_body,
    parse_call,
    parse_object,
)
from palaver.protocols.agenta.response import encode_outputs, error_response, json_response, run_error_response
from palaver.protocols.base import EventEncoder, HttpRequest, HttpResponse, WorkflowLookup

_REFERENCES = ("app", "app_id", "environment", "variant_slug", "variant_version")


def decode(request: HttpRequest, find: WorkflowLookup) -> tuple[Call, AgentaRequest]:
    """Parse a flat body. The names that select an app at Agenta are kept as references of the run."""
    workflow = find(request.workflow)
    body = parse_object(request)
    if "data" in body:
        raise MisplacedField("data is not supported on this route. Use /invoke.", pointer="/data")
    call_body = parse_body(body, request.headers, is_chat=workflow.is_chat)
    references = call_body.references | _references(body, request.query)
    strays = {name: place for name, place in call_body.strays.items() if name not in _REFERENCES}
    call_body = msgspec.structs.replace(call_body, references=references, strays=strays)
    return parse_call(request, call_body, workflow, offers=(JSON,))


def response_head(started: RunStarted, request: AgentaRequest) -> HttpResponse | None:
    """Return None: nothing is streamed."""
    return None


def stream_encoder(request: AgentaRequest) -> EventEncoder:
    return lambda _: b""


def encode_response(events: Sequence[Event], request: AgentaRequest, *, status: int) -> HttpResponse:
    """Encode the outputs under `data`; the tree id is the trace id as a UUID."""
    started, last = events[0], events[-1]
    assert isinstance(started, RunStarted)
    if isinstance(last, RunFailed):
        return run_error_response(last, started, status=status)
    outputs = encode_outputs(fold(events), events, request)
    document = {
        "version": "3.0",
        "data": outputs,
        "content_type": "text/plain" if isinstance(outputs, str) else JSON,
        "tree": None,
        "tree_id": str(UUID(started.trace_id)),
        "trace_id": started.trace_id,
        "span_id": started.span_id,
    }
    return json_response(status, document, started=started)


def encode_error(error: PalaverError, request: AgentaRequest | None, *, status: int) -> HttpResponse:
    return error_response(error, request, status=status)


# Client


def build_run_request(call: Call, *, is_chat: bool, stream: bool, model: str | None = None) -> HttpRequest:
    """Build a flat body. `stream` and `model` have no effect."""
    inputs = dict(call.inputs)
    body: dict[str, Any] = {"inputs": inputs, "ag_config": call.parameters}
    if is_chat:
        body["messages"] = inputs.pop("messages", None) or chat_completions.write(call.messages)
    return HttpRequest(headers=client_base.request_headers(call, accept=JSON), body=json.encode(body))


class RunReplyDecoder(client_base.ReplyDecoder):
    """Decodes a reply: the value under `data`, at the end of the body."""

    def __init__(self, content_type: str) -> None:
        super().__init__(content_type)
        self.streamed = False

    def _decode_body(self, body: Any) -> list[object]:
        match body:
            case {"data": outputs}:
                return [outputs]
            case bare:
                return [bare]


def _references(body: Mapping[str, Any], query: Mapping[str, str]) -> dict[str, Any]:
    references: dict[str, Any] = {}
    for name in _REFERENCES:
        in_body, in_query = body.get(name), query.get(name)
        if in_body is not None and in_query is not None and str(in_body) != in_query:
            raise conflicting_fields(f"?{name}", f"/{name}")
        if in_body is not None or in_query is not None:
            references[name] = in_query if in_body is None else in_body
    return references
