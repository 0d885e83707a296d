"""POST /v1/responses, /responses and /invocations: OpenAI's Responses, also as MLflow's agents use it.

One protocol with two profiles, chosen by the route (contract: responses, 1).
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from palaver.core import json
from palaver.core.events import (
    TERMINAL_EVENTS,
    Event,
    RunFailed,
    RunFinished,
    RunStarted,
    TerminalEvent,
    TextDelta,
    TextEnded,
    TextStarted,
)
from palaver.core.linearize import linearize
from palaver.core.runs import Call
from palaver.errors import PalaverError
from palaver.protocols import openai_errors, sse
from palaver.protocols.base import EventEncoder, HttpRequest, HttpResponse, WorkflowLookup, run_headers
from palaver.protocols.responses.output import (
    JSON_HEADER,
    OutputCollector,
    ResponseObject,
    encode_text_response,
    message_item,
)
from palaver.protocols.responses.request import ResponsesRequest, parse_request
from palaver.protocols.responses.stream import ResponseStreamEncoder, ResumedStreamEncoder

_STREAM_HEADERS = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache, no-transform"),
    ("x-accel-buffering", "no"),
)


def decode(request: HttpRequest, find: WorkflowLookup) -> tuple[Call, ResponsesRequest]:
    return parse_request(request, find)


def response_head(started: RunStarted, request: ResponsesRequest) -> HttpResponse | None:
    return stream_head(started) if request.stream else None


def stream_head(started: RunStarted) -> HttpResponse:
    """Return the head of any stream of that run."""
    return HttpResponse(status=200, headers=(*_STREAM_HEADERS, *run_headers(started)), keep_alive=sse.KEEP_ALIVE)


def stream_encoder(request: ResponsesRequest) -> EventEncoder:
    return ResponseStreamEncoder(request).encode


def encode_response(events: Sequence[Event], request: ResponsesRequest, *, status: int) -> HttpResponse:
    """Encode the response object, or the error of a failed run."""
    started, last = events[0], events[-1]
    assert isinstance(started, RunStarted)
    assert isinstance(last, TERMINAL_EVENTS)
    if isinstance(last, RunFailed):
        return openai_errors.run_error_response(last, started, status=status, headers=run_headers(started))
    text = _only_text(events, request)
    if text is not None and _is_plain(last) and last.at is not None:
        body = encode_text_response(started, request, json.encode(message_item(text.item, text.text)), last.at)
    else:
        output = OutputCollector(request)
        for event in linearize(events):
            output.take(event)
        usage = output.usage(last)
        body = ResponseObject(started, request).complete(last, output.items, usage, output.custom)
    return HttpResponse(status=status, headers=(JSON_HEADER, *run_headers(started)), body=body)


# Background runs


def with_queued_at(request: ResponsesRequest, at: datetime) -> ResponsesRequest:
    return replace(request, queued_at=at)


def encode_queued(started: RunStarted, request: ResponsesRequest) -> HttpResponse:
    return HttpResponse(
        status=200,
        headers=(JSON_HEADER, *run_headers(started)),
        body=ResponseObject(started, request).running("queued"),
    )


def queued_stream(started: RunStarted, request: ResponsesRequest) -> tuple[bytes, EventEncoder]:
    """Return the frames before the run starts, and an encoder that is fed all events of the run."""
    writer = ResponseStreamEncoder(request)
    opening = writer.queued(started)
    return opening, ResumedStreamEncoder(request, writer.number - 1).encode


def encode_error(error: PalaverError, request: ResponsesRequest | None, *, status: int) -> HttpResponse:
    return openai_errors.error_response(
        error, status=status, to_param=request.param if request else openai_errors.pointer_to_param
    )


def _is_plain(last: TerminalEvent) -> bool:
    return type(last) is RunFinished and last.finish == "stop" and last.usage is None


def _only_text(events: Sequence[Event], request: ResponsesRequest) -> TextEnded | None:
    """Return the text of a run that produced just one, as most do; None for any other run."""
    if len(events) < 5 or type(events[1]) is not TextStarted or request.metadata or request.trace:
        return None
    last = events[-2]
    if type(last) is not TextEnded or last.annotations:
        return None
    if len(events) > 5 and not all(type(event) is TextDelta for event in events[2:-2]):
        return None
    return last
