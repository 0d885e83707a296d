"""What /inspect, /invoke, /run and /test have in common: Agenta's version, headers, outputs and errors."""

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


# Answers


def response_headers(started: RunStarted | None, session: str | None = None) -> Headers:
    """The headers of every answer; ids where they exist by then."""
    session = started.session if started else session
    named = [("x-ag-version", VERSION)]
    if session:
        named += [("x-ag-session-id", session), ("baggage", f"ag.session.id={session}")]
    if started:
        named += [("x-ag-trace-id", started.trace_id), ("x-ag-span-id", started.span_id), *run_headers(started)]
    return tuple(named)


def encode_outputs(reply: Reply, events: Sequence[Event], reading: AgentaRequest) -> Any:
    """A chat's messages in Chat Completions form, one alone as an object, or as a UI message; any other's value."""
    if not reading.is_chat:
        return _value_so_far(events) if reply.value is UNSET else reply.value
    if reading.ui is not None:
        return encode_ui_message(events, reading.ui)
    written = chat_completions.write(reply.messages)
    if not written:
        return {"role": "assistant", "content": ""}
    return written[-1] if reading.trim or len(written) == 1 else written


def json_response(
    status: int, document: Any, *, started: RunStarted | None = None, session: str | None = None
) -> HttpResponse:
    """A JSON answer with the headers of every answer."""
    named = (("content-type", JSON), *response_headers(started, session))
    return HttpResponse(status=status, headers=named, body=json.encode(document))


def error_response(error: PalaverError, reading: AgentaRequest | None, *, status: int) -> HttpResponse:
    """The error document of a request that started no run."""
    if isinstance(error, RejectedCall):
        error, reading = error.error, error.reading
    told: dict[str, Any] = {"code": status, "type": error.code, "message": error.message}
    if isinstance(error, FaultyCall):
        told["errors"] = [_error_entry(fault, reading) for fault in error.faults]
        told["message"] = told["errors"][0]["message"]
    elif isinstance(error, RequestError) and error.pointer is not None:
        told["errors"] = [_error_entry(error, reading)]
    told |= {key: value for key, value in error.details.items() if key not in told}
    session = reading.session if reading else None
    return json_response(status, _error_document(told, None, session), session=session)


def run_error_response(failed: RunFailed, started: RunStarted, *, status: int, said: Any = UNSET) -> HttpResponse:
    """The error document of a run that failed; `said` is what it had said by then, if the form has a place for it."""
    told: dict[str, Any] = {"code": status, "type": failed.code, "message": failed.message}
    if failed.details:
        told["details"] = failed.details
    document = _error_document(told, started, started.session)
    if said is not UNSET:
        document["data"] = {"outputs": said}
    return json_response(status, document, started=started)


def _error_document(told: dict[str, Any], started: RunStarted | None, session: str | None) -> dict[str, Any]:
    document: dict[str, Any] = {"version": VERSION, "status": told}
    if started:
        document |= {"trace_id": started.trace_id, "span_id": started.span_id}
    return document | ({"session_id": session} if session else {})


def _error_entry(fault: RequestError, reading: AgentaRequest | None) -> dict[str, Any]:
    pointer, message = fault.pointer or "", fault.message
    if reading is not None:
        name = pointer.removeprefix("/inputs/")
        pointer = reading.pointer(pointer)
        if isinstance(fault, MissingInput) and name in reading.strays:
            message = f"{message} It was found at /{name}; it belongs in {pointer}."
    return {"type": fault.code, "pointer": pointer, "message": message}


def _value_so_far(events: Sequence[Event]) -> Any:
    """What a workflow that is no chat had yielded when it was stopped, made up as its value would have been."""
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
