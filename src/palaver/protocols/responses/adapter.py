"""POST /v1/responses, /responses and /invocations: OpenAI's Responses, also as MLflow's agents speak it.

One protocol in two profiles; the route alone decides (contract: responses, 1). What a request says stands in
response_request, the stream in response_frames, and what both kinds of answer share in response_output. What was stored
is asked for by other routes, which are response_store's.
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
    """The call, and how to answer it."""
    return parse_request(request, find)


def response_head(started: RunStarted, reading: ResponsesRequest) -> HttpResponse | None:
    """The head of a stream; None for a JSON answer."""
    return stream_head(started) if reading.stream else None


def stream_head(started: RunStarted) -> HttpResponse:
    """The head of any stream of that run."""
    return HttpResponse(status=200, headers=(*_STREAM_HEADERS, *run_headers(started)), keep_alive=sse.KEEP_ALIVE)


def stream_encoder(reading: ResponsesRequest) -> EventEncoder:
    """The encoder of one stream."""
    return ResponseStreamEncoder(reading).frames


def encode_response(events: Sequence[Event], reading: ResponsesRequest, *, status: int) -> HttpResponse:
    """The response object; of a run that failed, the error."""
    started, last = events[0], events[-1]
    assert isinstance(started, RunStarted)
    assert isinstance(last, TERMINAL_EVENTS)
    if isinstance(last, RunFailed):
        return openai_errors.run_error_response(last, started, status=status, headers=run_headers(started))
    only = _only_text(events, reading)
    if only is not None and _is_plain(last) and last.at is not None:
        body = encode_text_response(started, reading, json.encode(message_item(only.item, only.text)), last.at)
    else:
        output = OutputCollector(reading)
        for event in linearize(events):
            output.take(event)
        usage = output.usage(last)
        body = ResponseObject(started, reading).complete(last, output.items, usage, output.custom)
    return HttpResponse(status=status, headers=(JSON_HEADER, *run_headers(started)), body=body)


# In the background


def with_queued_at(reading: ResponsesRequest, at: datetime) -> ResponsesRequest:
    """How to answer a call that was kept at that time: it says so for ever, whenever it begins."""
    return replace(reading, queued_at=at)


def encode_queued(started: RunStarted, reading: ResponsesRequest) -> HttpResponse:
    """The response before its run starts: the whole answer to a call in the background that is not streamed."""
    return HttpResponse(
        status=200,
        headers=(JSON_HEADER, *run_headers(started)),
        body=ResponseObject(started, reading).running("queued"),
    )


def queued_stream(started: RunStarted, reading: ResponsesRequest) -> tuple[bytes, EventEncoder]:
    """What a stream says before its run starts, and the encoder of the rest, which is given all events of the run."""
    writer = ResponseStreamEncoder(reading)
    opening = writer.queued(started)
    return opening, ResumedStreamEncoder(reading, writer.number - 1).frames


def encode_error(error: PalaverError, reading: ResponsesRequest | None, *, status: int) -> HttpResponse:
    """The error of a request that started no run."""
    return openai_errors.error_response(
        error, status=status, pointed=reading.param if reading else openai_errors.pointer_to_param
    )


def _is_plain(last: TerminalEvent) -> bool:
    return type(last) is RunFinished and last.finish == "stop" and last.usage is None


def _only_text(events: Sequence[Event], reading: ResponsesRequest) -> TextEnded | None:
    """The text of a run that said just one, as most do: then there is nothing to collect or to put in order."""
    if len(events) < 5 or type(events[1]) is not TextStarted or reading.metadata or reading.trace:
        return None
    last = events[-2]
    if type(last) is not TextEnded or last.annotations:
        return None
    if len(events) > 5 and not all(type(event) is TextDelta for event in events[2:-2]):
        return None
    return last
