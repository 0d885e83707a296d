"""POST /{w}/invoke: Agenta's call, answered as JSON, in lines or as server-sent events (contract: discovery, 5-8)."""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from palaver.core import json
from palaver.core.dialects import chat_completions
from palaver.core.events import Event, RunFailed, RunStarted
from palaver.core.fold import fold
from palaver.core.runs import Call
from palaver.errors import PalaverError
from palaver.protocols import sse, upstream
from palaver.protocols.agenta.records import RecordDecoder, RecordEncoder
from palaver.protocols.agenta.request import JSON, SSE, AgentaRequest, parse_body, parse_call, parse_object
from palaver.protocols.agenta.response import (
    VERSION,
    encode_outputs,
    error_response,
    json_response,
    response_headers,
    run_error_response,
)
from palaver.protocols.base import EventEncoder, HttpRequest, HttpResponse, WorkflowLookup
from palaver.protocols.ui_stream.encoder import UIStreamEncoder

NDJSON, JSONL = "application/x-ndjson", "application/jsonl"
OFFERS = (JSON, NDJSON, JSONL, SSE)


def decode(request: HttpRequest, find: WorkflowLookup) -> tuple[Call, AgentaRequest]:
    """The call, in either form, and how to answer it."""
    workflow = find(request.workflow)
    form = parse_body(parse_object(request), request.headers, is_chat=workflow.is_chat)
    return parse_call(request, form, workflow, offers=OFFERS)


def response_head(started: RunStarted, reading: AgentaRequest) -> HttpResponse | None:
    """The head of a stream; None for a JSON answer."""
    if reading.form == JSON:
        return None
    named = (("content-type", reading.form), ("cache-control", "no-cache, no-transform"), ("x-accel-buffering", "no"))
    told_as = reading.ui.headers if reading.ui else ()
    keep_alive = sse.KEEP_ALIVE if reading.form == SSE else b""
    return HttpResponse(status=200, headers=(*named, *told_as, *response_headers(started)), keep_alive=keep_alive)


def stream_encoder(reading: AgentaRequest) -> EventEncoder:
    """Records, wrapped as the form wants them; or the parts of a UI message."""
    if reading.ui is not None:
        # A run that fails before it has said anything is answered with its status here: so the start waits.
        return UIStreamEncoder(reading.ui, at_once=False).frames
    return RecordEncoder(sse.data_event if reading.form == SSE else _as_line, is_chat=reading.is_chat).frames


def encode_response(events: Sequence[Event], reading: AgentaRequest, *, status: int) -> HttpResponse:
    """The envelope, or in the flat form the outputs alone."""
    started, last, reply = events[0], events[-1], fold(events)
    assert isinstance(started, RunStarted)
    outputs = encode_outputs(reply, events, reading)
    if isinstance(last, RunFailed):
        said = outputs if reading.envelope and reply.messages else UNSET
        return run_error_response(last, started, status=status, said=said)
    if not reading.envelope:
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


def encode_error(error: PalaverError, reading: AgentaRequest | None, *, status: int) -> HttpResponse:
    """One error shape for all of Agenta's routes."""
    return error_response(error, reading, status=status)


# The client half: how we call such a service


def build_invoke_request(call: Call, *, is_chat: bool, stream: bool) -> HttpRequest:
    """The envelope. Streams are only asked of those who say that they stream: others decide after the work is done."""
    inputs = dict(call.inputs)
    if is_chat:
        # A call that came while the service was away was not read as a chat's: its history is still an input.
        inputs.setdefault("messages", chat_completions.write(call.messages))
    body: dict[str, Any] = {"version": VERSION, "data": {"inputs": inputs, "parameters": call.parameters}}
    if call.session:
        body["session_id"] = call.session
    return HttpRequest(headers=upstream.request_headers(call, accept=SSE if stream else "*/*"), body=json.encode(body))


class InvokeReplyDecoder:
    """Reads the reply of such a service: bytes in, events and values out, by its content type."""

    def __init__(self, content_type: str, *, longest: int = sse.MAX_RECORD_BYTES) -> None:
        media = upstream.media_type(content_type)
        self.streamed = media in (NDJSON, JSONL, SSE)
        self._content_type = content_type
        self._lines = sse.EventStreamDecoder(longest=longest) if media == SSE else sse.LineDecoder(longest=longest)
        self._record = RecordDecoder()
        self._body = bytearray()

    def feed(self, data: bytes) -> list[object]:
        """What can be told by now."""
        if not self.streamed:
            self._body += data
            return []
        return [value for line in self._lines.feed(data) if line for value in self._record(line)]

    def end(self) -> list[object]:
        """What was left to tell at the end of the body."""
        if self.streamed:
            told = [value for line in self._lines.end() for value in self._record(line, whole=False)]
            return [*told, *self._record.end()]
        body = bytes(self._body)
        match upstream.decode_body(self._content_type, body):
            case {"status": {"code": int(code)}} if code >= 400:  # Some say 200 first and this inside.
                return [RunFailed(code="upstream_failed", message=upstream.error_message(body) or "")]
            case {"data": {"outputs": outputs}}:
                return [outputs]
            case {"version": str(), "status": dict()}:
                return [None]  # An envelope without outputs.
            case bare:
                return [bare]


def _as_line(record: bytes) -> bytes:
    return record + b"\n"
