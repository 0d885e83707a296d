"""Headers, outputs and error documents of /inspect, /invoke, /run and /test."""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from palaver.core import json
from palaver.core.dialects import chat_completions
from palaver.core.events import Event, PartAdded, RunFailed, RunStarted, TextDelta
from palaver.core.messages import Data
from palaver.core.runs import Reply
from palaver.errors import FaultyCall, MissingInput, PalaverError, RequestError
from palaver.protocols.agenta.request import JSON, AgentaRequest, RejectedCall
from palaver.protocols.base import Headers, HttpResponse, run_headers
from palaver.protocols.ui_stream.encoder import encode_ui_message

VERSION = "2025.07.14"


def response_headers(started: RunStarted | None, session: str | None = None) -> Headers:
    """Return the headers of every response; ids once they exist."""
    session = started.session if started else session
    named = [("x-ag-version", VERSION)]
    if session:
        named += [("x-ag-session-id", session), ("baggage", f"ag.session.id={session}")]
    if started:
        named += [("x-ag-trace-id", started.trace_id), ("x-ag-span-id", started.span_id), *run_headers(started)]
    return tuple(named)


def encode_outputs(reply: Reply, events: Sequence[Event], request: AgentaRequest) -> Any:
    """Encode a chat's messages, a single one as an object, or as a UI message; any other workflow's value."""
    if not request.is_chat:
        return _value_so_far(events) if reply.value is UNSET else reply.value
    if request.ui is not None:
        return encode_ui_message(events, request.ui)
    written = chat_completions.write(reply.messages)
    if not written:
        return {"role": "assistant", "content": ""}
    return written[-1] if request.trim or len(written) == 1 else written


def json_response(
    status: int, document: Any, *, started: RunStarted | None = None, session: str | None = None
) -> HttpResponse:
    named = (("content-type", JSON), *response_headers(started, session))
    return HttpResponse(status=status, headers=named, body=json.encode(document))


def error_response(error: PalaverError, request: AgentaRequest | None, *, status: int) -> HttpResponse:
    """The error document of a request that started no run."""
    if isinstance(error, RejectedCall):
        error, request = error.error, error.request
    error_fields: dict[str, Any] = {"code": status, "type": error.code, "message": error.message}
    if isinstance(error, FaultyCall):
        error_fields["errors"] = [_error_entry(fault, request) for fault in error.faults]
        error_fields["message"] = error_fields["errors"][0]["message"]
    elif isinstance(error, RequestError) and error.pointer is not None:
        error_fields["errors"] = [_error_entry(error, request)]
    error_fields |= {key: value for key, value in error.details.items() if key not in error_fields}
    session = request.session if request else None
    return json_response(status, _error_document(error_fields, None, session), session=session)


def run_error_response(failed: RunFailed, started: RunStarted, *, status: int, outputs: Any = UNSET) -> HttpResponse:
    """The error document of a failed run; `outputs` is its output so far, if the form has a place for it."""
    error_fields: dict[str, Any] = {"code": status, "type": failed.code, "message": failed.message}
    if failed.details:
        error_fields["details"] = failed.details
    document = _error_document(error_fields, started, started.session)
    if outputs is not UNSET:
        document["data"] = {"outputs": outputs}
    return json_response(status, document, started=started)


def _error_document(error_fields: dict[str, Any], started: RunStarted | None, session: str | None) -> dict[str, Any]:
    document: dict[str, Any] = {"version": VERSION, "status": error_fields}
    if started:
        document |= {"trace_id": started.trace_id, "span_id": started.span_id}
    return document | ({"session_id": session} if session else {})


def _error_entry(fault: RequestError, request: AgentaRequest | None) -> dict[str, Any]:
    pointer, message = fault.pointer or "", fault.message
    if request is not None:
        name = pointer.removeprefix("/inputs/")
        pointer = request.pointer(pointer)
        if isinstance(fault, MissingInput) and name in request.strays:
            message = f"{message} It was found at /{name}; it belongs in {pointer}."
    return {"type": fault.code, "pointer": pointer, "message": message}


def _value_so_far(events: Sequence[Event]) -> Any:
    """Return the value of a cancelled workflow that is not a chat, built from what it had yielded."""
    values: list[Any] = []
    in_text = False
    for event in events:
        match event:
            case TextDelta(delta=delta) if in_text:
                values[-1] += delta
            case TextDelta(delta=delta):
                values.append(delta)
                in_text = True
            case PartAdded(part=Data(name="output", value=value), transient=False):
                values.append(value)
                in_text = False
            case _:
                pass
    return values if len(values) > 1 else values[0] if values else None
