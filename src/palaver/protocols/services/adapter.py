"""POST /services/{w} and …/stream: what OpenFn's Lightning, its command and curl call (contract: job-chat, 1).

A payload in, one document out; streamed, the same document is the last event. How errors, payloads, blocks and answers
look stands in the files beside this one, what passes on a WebSocket in service_socket.py.
"""

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, cast

from palaver.core import json
from palaver.core.descriptions import Description
from palaver.core.events import Event, RunCancelled, RunFailed, RunStarted
from palaver.core.fold import fold
from palaver.core.runs import Call, Secret
from palaver.errors import PalaverError, RequestError
from palaver.protocols import sse
from palaver.protocols.base import EventEncoder, Headers, HttpRequest, HttpResponse, WorkflowLookup, run_headers
from palaver.protocols.services.request import (
    API_KEY_PREFIX,
    ServiceRequest,
    parse_payload,
    parse_payload_object,
    payload_api_key,
    session_label,
)
from palaver.protocols.services.response import error_document, reply_document, run_error_document
from palaver.protocols.services.stream import ServiceStreamEncoder, StatusLookup, named_event

VERSION = version("palaver")
STREAM_ROUTE = "services/{w}/stream"
"""The route that is answered with events."""
_VERSION_HEADERS: Headers = (("x-api-version", VERSION),)
_JSON_HEADERS: Headers = (("content-type", "application/json"), *_VERSION_HEADERS)
_SSE_HEADERS: Headers = (
    ("content-type", "text/event-stream"),
    ("cache-control", "no-cache"),
    ("x-accel-buffering", "no"),
    *_VERSION_HEADERS,
)


class RejectedPayload(RequestError):
    """A payload that was read but cannot be taken, with the reading that its answer needs."""

    def __init__(self, error: RequestError, reading: ServiceRequest) -> None:
        super().__init__(error.message, pointer=error.pointer, details=error.details)
        self.code = error.code
        self.error = error
        self.reading = reading


def decode(request: HttpRequest, find: WorkflowLookup) -> tuple[Call, ServiceRequest]:
    """The call, and how to answer it."""
    workflow = find(request.workflow)
    payload = parse_payload_object(request)
    key = payload_api_key(payload)
    reading = ServiceRequest(workflow=workflow.name, is_chat=workflow.is_chat, stream=request.route == STREAM_ROUTE)
    try:
        label = session_label(payload, request.fresh)
        asked = parse_payload(payload, workflow, label, is_stream=reading.stream)
    except RequestError as error:
        raise RejectedPayload(error, reading) from None
    call = Call(
        workflow=workflow.name,
        messages=asked.messages,
        inputs=asked.inputs,
        parameters=asked.parameters,
        session=label or None,
        secrets={"api_key": Secret(key)} if key is not None and not key.startswith(API_KEY_PREFIX) else {},
        trace_parent=request.trace_parent,
        record=asked.record,
    )
    told = ServiceRequest(
        workflow=workflow.name,
        is_chat=workflow.is_chat,
        stream=reading.stream,
        sparse=asked.is_sparse,
        history=asked.history,
    )
    return call, told


def response_head(started: RunStarted, reading: ServiceRequest) -> HttpResponse | None:
    """The head of a stream; None for a whole answer."""
    if not reading.stream:
        return None
    return HttpResponse(status=200, headers=(*_SSE_HEADERS, *run_headers(started)), keep_alive=sse.KEEP_ALIVE)


def stream_encoder(
    reading: ServiceRequest, *, status: StatusLookup = lambda failed: failed.status or 500
) -> EventEncoder:
    """Events, each with a name and one line of data."""
    return ServiceStreamEncoder(reading, status).frames


def encode_response(events: Sequence[Event], reading: ServiceRequest, *, status: int) -> HttpResponse:
    """The document, or the error object; where a stream was asked for, all of it at once."""
    started, last = events[0], events[-1]
    assert isinstance(started, RunStarted)
    if reading.stream:
        body = b"".join(map(stream_encoder(reading, status=lambda _: status), events))
        return HttpResponse(status=200, headers=(*_SSE_HEADERS, *run_headers(started)), body=body)
    if isinstance(last, RunFailed | RunCancelled):
        document = run_error_document(last, status=status)
        return _json_response(document["code"], document, started)
    return _json_response(status, reply_document(fold(events), reading), started)


def encode_error(error: PalaverError, reading: ServiceRequest | None, *, status: int) -> HttpResponse:
    """The error object; where a stream was asked for and the payload could be read, its one event."""
    if isinstance(error, RejectedPayload):
        error, reading = error.error, error.reading
    document = error_document(error, status=status)
    if reading is not None and reading.stream:
        return HttpResponse(status=200, headers=_SSE_HEADERS, body=named_event("error", json.encode(document)))
    return _json_response(status, document)


def document_response(document: Any, *, stream: bool) -> HttpResponse:
    """A document for which nothing was run, on either route."""
    body = json.encode(document)
    return (
        HttpResponse(status=200, headers=_SSE_HEADERS, body=named_event("complete", body))
        if stream
        else HttpResponse(status=200, headers=_JSON_HEADERS, body=body)
    )


def markdown_response(text: str) -> HttpResponse:
    """A text for people."""
    headers = (("content-type", "text/markdown; charset=utf-8"), *_VERSION_HEADERS)
    return HttpResponse(status=200, headers=headers, body=json.replace_surrogates(text).encode())


def _json_response(status: int, document: Any, started: RunStarted | None = None) -> HttpResponse:
    headers = (*_JSON_HEADERS, *run_headers(started)) if started else _JSON_HEADERS
    return HttpResponse(status=status, headers=headers, body=json.encode(document))


_SENTENCE = re.compile(r"(.+?[.!?])(?:\s+(?![a-z])|$)", re.DOTALL)  # "e.g. this" goes on.
_HEADING = re.compile(r"^#.*$|^[^\n]+\n(?:=+|-+)[ \t]*$", re.MULTILINE)


def catalog_entry(service: Description, readme: str, version: str) -> dict[str, Any]:
    """One service in the list."""
    return {
        "name": service.name,
        "summary": first_sentence(readme) or first_sentence(service.description),
        "is_chat": service.is_chat,
        "version": version,
    }


def first_sentence(text: str) -> str:
    """The first sentence of a text, of Markdown the first under its headings."""
    paragraphs = (paragraph.strip() for paragraph in re.split(r"\n\s*\n", _HEADING.sub("\n", text)))
    first = " ".join(next(filter(None, paragraphs), "").split())
    found = _SENTENCE.match(first)
    return found[1] if found else first


def default_readme(service: Description) -> str:
    """A README for a service that brings none: what it says of itself, and what it takes."""
    sections = [f"# {service.name}", service.description, _readme_call(service), _readme_inputs(service.schemas.inputs)]
    return "\n\n".join(filter(None, sections)) + "\n"


def _readme_call(service: Description) -> str:
    payload = '{"content": "…", "history": []}' if service.is_chat else "{…}"
    return f"POST a JSON object to `/services/{service.name}`, as `{payload}`; to `…/stream` for events as they come."


def _readme_inputs(schema: Mapping[str, Any]) -> str:
    properties = cast("Mapping[str, Any]", schema.get("properties") or {})
    required = cast("list[str]", schema.get("required") or [])
    rows = [
        f"| `{name}` | {_readme_type(shape)} | {'yes' if name in required else 'no'} "
        f"| {_readme_line(shape, 'description')} |"
        for name, shape in properties.items()
        if name != "messages"
    ]
    return "\n".join(["| input | type | required | |", "|---|---|---|---|", *rows]) if rows else ""


def _readme_type(shape: Any) -> str:
    match shape:
        case {"type": str(word)}:
            return word
        case {"anyOf": list()}:
            return " or ".join(_readme_type(one) for one in cast("list[Any]", shape["anyOf"]))
        case _:
            return "any"


def _readme_line(shape: Any, name: str) -> str:
    said = cast("Mapping[str, Any]", shape).get(name) if isinstance(shape, dict) else None
    return " ".join(said.replace("|", "\\|").split()) if isinstance(said, str) else ""
