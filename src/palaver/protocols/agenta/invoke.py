"""POST /{w}/invoke: Agenta's call, answered as JSON, JSON lines or server-sent events."""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from palaver.core import json
from palaver.core.dialects import chat_completions
from palaver.core.events import Event, RunFailed, RunStarted
from palaver.core.fold import fold
from palaver.core.runs import Call
from palaver.errors import PalaverError
from palaver.protocols import client_base, sse
from palaver.protocols.agenta.content_negotiation import INVOKE_OFFERS, JSON, JSONL, NDJSON, SSE
from palaver.protocols.agenta.request import AgentaRequest, parse_body, parse_call, parse_object
from palaver.protocols.agenta.response import (
    VERSION,
    RecordDecoder,
    RecordEncoder,
    encode_outputs,
    error_response,
    json_response,
    response_headers,
    run_error_response,
)
from palaver.protocols.base import EventEncoder, HttpRequest, HttpResponse, WorkflowLookup
from palaver.protocols.ui_stream.adapter import UIStreamEncoder


def decode(request: HttpRequest, find: WorkflowLookup) -> tuple[Call, AgentaRequest]:
    workflow = find(request.workflow)
    body = parse_body(parse_object(request), request.headers, is_chat=workflow.is_chat)
    return parse_call(request, body, workflow, offers=INVOKE_OFFERS)


def response_head(started: RunStarted, request: AgentaRequest) -> HttpResponse | None:
    if request.form == JSON:
        return None
    stream_headers = (
        ("content-type", request.form),
        ("cache-control", "no-cache, no-transform"),
        ("x-accel-buffering", "no"),
    )
    ui_headers = request.ui.headers if request.ui else ()
    keep_alive = sse.KEEP_ALIVE if request.form == SSE else b""
    return HttpResponse(
        status=200, headers=(*stream_headers, *ui_headers, *response_headers(started)), keep_alive=keep_alive
    )


def stream_encoder(request: AgentaRequest) -> EventEncoder:
    if request.ui is not None:
        # A run that fails before its first output is answered with its status: so the start waits.
        return UIStreamEncoder(request.ui, start_at_once=False).encode
    return RecordEncoder(sse.data_event if request.form == SSE else _frame_line, is_chat=request.is_chat).encode


def encode_response(events: Sequence[Event], request: AgentaRequest, *, status: int) -> HttpResponse:
    """Encode the envelope, or only the outputs if the body was flat."""
    started, last, reply = events[0], events[-1], fold(events)
    assert isinstance(started, RunStarted)
    outputs = encode_outputs(reply, events, request)
    if isinstance(last, RunFailed):
        outputs_so_far = outputs if request.envelope and reply.messages else UNSET
        return run_error_response(last, started, status=status, outputs=outputs_so_far)
    if not request.envelope:
        return json_response(status, outputs, started=started)
    meta: dict[str, Any] = {"run_id": reply.run_id, "finish": reply.finish}
    if reply.usage is not None:
        meta["usage"] = reply.usage
    document = {
        "version": VERSION,
        "status": {"code": status, "message": "Success"},
        "trace_id": started.trace_id,
        "span_id": started.span_id,
        "session_id": started.session,
        "data": {"outputs": outputs},
        "meta": meta,
    }
    return json_response(status, document, started=started)


def encode_error(error: PalaverError, request: AgentaRequest | None, *, status: int) -> HttpResponse:
    return error_response(error, request, status=status)


# Client


def build_invoke_request(call: Call, *, is_chat: bool, stream: bool, model: str | None = None) -> HttpRequest:
    """Build an envelope. Only services that declare streaming are asked for a stream. `model` has no effect."""
    inputs = dict(call.inputs)
    if is_chat:
        # If the service was down, the call was not parsed as a chat's: its history is still an input.
        inputs.setdefault("messages", chat_completions.write(call.messages))
    body: dict[str, Any] = {"version": VERSION, "data": {"inputs": inputs, "parameters": call.parameters}}
    if call.session:
        body["session_id"] = call.session
    return HttpRequest(
        headers=client_base.request_headers(call, accept=SSE if stream else "*/*"), body=json.encode(body)
    )


class InvokeReplyDecoder(client_base.ReplyDecoder):
    """Decodes a reply to events and values, by its content type."""

    def __init__(self, content_type: str, *, max_bytes: int = sse.MAX_RECORD_BYTES) -> None:
        super().__init__(content_type, max_bytes=max_bytes)
        if client_base.media_type(content_type) in (NDJSON, JSONL):
            self.streamed, self._records = True, sse.LineDecoder(max_bytes=max_bytes)
        self._record = RecordDecoder()

    def end(self) -> list[object]:
        if not self.streamed:
            return super().end()
        values = [value for line in self._records.end() for value in self._record(line, is_complete=False)]
        return [*values, *self._record.end()]

    def _decode_record(self, record: bytes) -> list[object]:
        return self._record(record) if record else []

    def _decode_body(self, body: Any) -> list[object]:
        match body:
            # Some servers send the status 200 with an error in the body.
            case {"status": {"code": int(code)}} if code >= 400:
                return [RunFailed(code="upstream_failed", message=client_base.error_message(bytes(self._body)) or "")]
            case {"data": {"outputs": outputs}}:
                return [outputs]
            case {"version": str(), "status": dict()}:
                return [None]  # An envelope without outputs.
            case bare:
                return [bare]


def _frame_line(record: bytes) -> bytes:
    return record + b"\n"
