"""POST /services/{w} and /services/{w}/stream: called by OpenFn's Lightning, its CLI and curl.

A payload in, a document out; a stream ends with the same document. Also the catalog of services and their READMEs.
"""

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, cast

from msgspec.structs import replace

from palaver.core import json
from palaver.core.descriptions import Description
from palaver.core.events import Event, RunCancelled, RunFailed, RunStarted
from palaver.core.fold import fold
from palaver.core.runs import Call, Secret
from palaver.errors import PalaverError, RequestError
from palaver.protocols import sse
from palaver.protocols.base import (
    EventEncoder,
    Headers,
    HttpRequest,
    HttpResponse,
    RejectedRequest,
    WorkflowLookup,
    json_response,
    run_headers,
)
from palaver.protocols.services.request import (
    API_KEY_PREFIX,
    ServiceRequest,
    parse_payload,
    parse_payload_object,
    payload_api_key,
    session_label,
)
from palaver.protocols.services.response import (
    ServiceStreamEncoder,
    StatusLookup,
    error_document,
    named_event,
    reply_document,
    run_error_document,
)

VERSION = version("palaver")
STREAM_ROUTE = "services/{w}/stream"
_VERSION_HEADERS: Headers = (("x-api-version", VERSION),)
_SSE_HEADERS: Headers = (
    ("content-type", "text/event-stream"),
    ("cache-control", "no-cache"),
    ("x-accel-buffering", "no"),
    *_VERSION_HEADERS,
)


def decode(request: HttpRequest, find: WorkflowLookup) -> tuple[Call, ServiceRequest]:
    workflow = find(request.workflow)
    payload = parse_payload_object(request)
    key = payload_api_key(payload)
    service_request = ServiceRequest(
        workflow=workflow.name, is_chat=workflow.is_chat, stream=request.route == STREAM_ROUTE
    )
    try:
        label = session_label(payload, request.new_id)
        parsed = parse_payload(payload, workflow, label, is_stream=service_request.stream)
    except RequestError as error:
        raise RejectedRequest(error, service_request) from None
    call = Call(
        workflow=workflow.name,
        messages=parsed.messages,
        inputs=parsed.inputs,
        parameters=parsed.parameters,
        session=label or None,
        secrets={"api_key": Secret(key)} if key is not None and not key.startswith(API_KEY_PREFIX) else {},
        trace_parent=request.trace_parent,
        record=parsed.record,
    )
    return call, replace(service_request, sparse=parsed.is_sparse, history=parsed.history)


def response_head(started: RunStarted, request: ServiceRequest) -> HttpResponse | None:
    if not request.stream:
        return None
    return HttpResponse(status=200, headers=(*_SSE_HEADERS, *run_headers(started)), keep_alive=sse.KEEP_ALIVE)


def stream_encoder(
    request: ServiceRequest, *, status: StatusLookup = lambda failed: failed.status or 500
) -> EventEncoder:
    return ServiceStreamEncoder(request, status).encode


def encode_response(events: Sequence[Event], request: ServiceRequest, *, status: int) -> HttpResponse:
    """Encode the document or the error; on the stream route, all events at once."""
    started, last = events[0], events[-1]
    assert isinstance(started, RunStarted)
    if request.stream:
        body = b"".join(map(stream_encoder(request, status=lambda _: status), events))
        return HttpResponse(status=200, headers=(*_SSE_HEADERS, *run_headers(started)), body=body)
    if isinstance(last, RunFailed | RunCancelled):
        document = run_error_document(last, status=status)
        return _json_response(document["code"], document, started)
    return _json_response(status, reply_document(fold(events), request), started)


def encode_error(error: PalaverError, request: ServiceRequest | None, *, status: int) -> HttpResponse:
    """Encode the error; on the stream route, as its only event."""
    if isinstance(error, RejectedRequest):
        error, request = error.error, error.request
    document = error_document(error, status=status)
    if request is not None and request.stream:
        return HttpResponse(status=200, headers=_SSE_HEADERS, body=named_event("error", json.encode(document)))
    return _json_response(status, document)


def document_response(document: Any, *, stream: bool) -> HttpResponse:
    """A document without a run, on either route."""
    if stream:
        return HttpResponse(status=200, headers=_SSE_HEADERS, body=named_event("complete", json.encode(document)))
    return _json_response(200, document)


def markdown_response(text: str) -> HttpResponse:
    headers = (("content-type", "text/markdown; charset=utf-8"), *_VERSION_HEADERS)
    return HttpResponse(status=200, headers=headers, body=json.replace_surrogates(text).encode())


def _json_response(status: int, document: Any, started: RunStarted | None = None) -> HttpResponse:
    headers = (*_VERSION_HEADERS, *run_headers(started)) if started else _VERSION_HEADERS
    return json_response(document, status=status, headers=headers)


_SENTENCE = re.compile(r"(.+?[.!?])(?:\s+(?![a-z])|$)", re.DOTALL)  # Not after "e.g.".
_HEADING = re.compile(r"^#.*$|^[^\n]+\n(?:=+|-+)[ \t]*$", re.MULTILINE)


def catalog_entry(service: Description, readme: str, version: str) -> dict[str, Any]:
    return {
        "name": service.name,
        "summary": first_sentence(readme) or first_sentence(service.description),
        "is_chat": service.is_chat,
        "version": version,
    }


def first_sentence(text: str) -> str:
    """Return the first sentence of a text; of Markdown, the first one below the headings."""
    paragraphs = (paragraph.strip() for paragraph in re.split(r"\n\s*\n", _HEADING.sub("\n", text)))
    first = " ".join(next(filter(None, paragraphs), "").split())
    match = _SENTENCE.match(first)
    return match[1] if match else first


def default_readme(service: Description) -> str:
    """Write a README for a service without one: its description and its inputs."""
    sections = [f"# {service.name}", service.description, _readme_call(service), _readme_inputs(service.schemas.inputs)]
    return "\n\n".join(filter(None, sections)) + "\n"


def _readme_call(service: Description) -> str:
    payload = '{"content": "…", "history": []}' if service.is_chat else "{…}"
    path = f"/services/{service.name}"
    return f"Send a JSON object such as `{payload}` to `POST {path}`, or to `POST {path}/stream` to stream events."


def _readme_inputs(schema: Mapping[str, Any]) -> str:
    properties = cast("Mapping[str, Any]", schema.get("properties") or {})
    required = cast("list[str]", schema.get("required") or [])
    rows = [
        f"| `{name}` | {_readme_type(input_schema)} | {'yes' if name in required else 'no'} "
        f"| {_readme_line(input_schema, 'description')} |"
        for name, input_schema in properties.items()
        if name != "messages"
    ]
    return "\n".join(["| input | type | required | description |", "|---|---|---|---|", *rows]) if rows else ""


def _readme_type(schema: Any) -> str:
    match schema:
        case {"type": str(word)}:
            return word
        case {"anyOf": list()}:
            return " or ".join(_readme_type(member) for member in cast("list[Any]", schema["anyOf"]))
        case _:
            return "any"


def _readme_line(schema: Any, name: str) -> str:
    text = cast("Mapping[str, Any]", schema).get(name) if isinstance(schema, dict) else None
    return " ".join(text.replace("|", "\\|").split()) if isinstance(text, str) else ""
