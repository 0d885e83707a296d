"""POST /services/{w} and …/stream: what OpenFn's Lightning, its command and curl call (contract: job-chat, 1).

A payload in, one document out; streamed, the same document is the last event. How errors, payloads, blocks and answers
look stands in the files beside this one, what passes on a WebSocket in service_socket.py.
"""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from palaver.core import json
from palaver.core.events import Event, RunCancelled, RunFailed, RunStarted
from palaver.core.fold import fold
from palaver.core.runs import Call, Secret
from palaver.errors import PalaverError, RequestError
from palaver.protocols import service_errors, service_payloads, sse
from palaver.protocols.base import Answer, Find, Frames, Headers, Request, ids
from palaver.protocols.service_answers import Reading, answered
from palaver.protocols.service_blocks import Status, Writer, frame

VERSION = version("palaver")
STREAM = "services/{w}/stream"
"""The route that is answered with events."""
_EVERY: Headers = (("x-api-version", VERSION),)
_JSON: Headers = (("content-type", "application/json"), *_EVERY)
_SSE: Headers = (
    ("content-type", "text/event-stream"),
    ("cache-control", "no-cache"),
    ("x-accel-buffering", "no"),
    *_EVERY,
)


class Refused(RequestError):
    """A payload that was read but cannot be taken, with the reading that its answer needs."""

    def __init__(self, error: RequestError, reading: Reading) -> None:
        super().__init__(error.message, pointer=error.pointer, details=error.details)
        self.code = error.code
        self.error = error
        self.reading = reading


def decode(request: Request, find: Find) -> tuple[Call, Reading]:
    """The call, and how to answer it."""
    workflow = find(request.workflow)
    payload = service_payloads.read(request)
    key = service_payloads.key(payload)
    reading = Reading(workflow=workflow.name, is_chat=workflow.is_chat, stream=request.route == STREAM)
    try:
        label = service_payloads.session(payload, request.fresh)
        asked = service_payloads.asked(payload, workflow, label, is_stream=reading.stream)
    except RequestError as error:
        raise Refused(error, reading) from None
    call = Call(
        workflow=workflow.name,
        messages=asked.messages,
        inputs=asked.inputs,
        parameters=asked.parameters,
        session=label or None,
        secrets={"api_key": Secret(key)} if key is not None and not key.startswith(service_payloads.OURS) else {},
        trace_parent=request.trace_parent,
        record=asked.record,
    )
    told = Reading(
        workflow=workflow.name,
        is_chat=workflow.is_chat,
        stream=reading.stream,
        sparse=asked.is_sparse,
        history=asked.history,
    )
    return call, told


def head(started: RunStarted, reading: Reading) -> Answer | None:
    """The head of a stream; None for a whole answer."""
    if not reading.stream:
        return None
    return Answer(status=200, headers=(*_SSE, *ids(started)), keep_alive=sse.KEEP_ALIVE)


def frames(reading: Reading, *, status: Status = lambda failed: failed.status or 500) -> Frames:
    """Events, each with a name and one line of data."""
    return Writer(reading, status).frames


def whole(events: Sequence[Event], reading: Reading, *, status: int) -> Answer:
    """The document, or the error object; where a stream was asked for, all of it at once."""
    started, last = events[0], events[-1]
    assert isinstance(started, RunStarted)
    if reading.stream:
        body = b"".join(map(frames(reading, status=lambda _: status), events))
        return Answer(status=200, headers=(*_SSE, *ids(started)), body=body)
    if isinstance(last, RunFailed | RunCancelled):
        document = service_errors.of_end(last, status=status)
        return _answer(document["code"], document, started)
    return _answer(status, answered(fold(events), reading), started)


def failure(error: PalaverError, reading: Reading | None, *, status: int) -> Answer:
    """The error object; where a stream was asked for and the payload could be read, its one event."""
    if isinstance(error, Refused):
        error, reading = error.error, error.reading
    document = service_errors.of_error(error, status=status)
    if reading is not None and reading.stream:
        return Answer(status=200, headers=_SSE, body=frame("error", json.encode(document)))
    return _answer(status, document)


def told(document: Any, *, stream: bool) -> Answer:
    """A document for which nothing was run, on either route."""
    body = json.encode(document)
    return (
        Answer(status=200, headers=_SSE, body=frame("complete", body))
        if stream
        else Answer(status=200, headers=_JSON, body=body)
    )


def markdown(text: str) -> Answer:
    """A text for people."""
    headers = (("content-type", "text/markdown; charset=utf-8"), *_EVERY)
    return Answer(status=200, headers=headers, body=json.replace_surrogates(text).encode())


def _answer(status: int, document: Any, started: RunStarted | None = None) -> Answer:
    headers = (*_JSON, *ids(started)) if started else _JSON
    return Answer(status=status, headers=headers, body=json.encode(document))
