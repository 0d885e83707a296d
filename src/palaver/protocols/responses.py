"""POST /v1/responses, /responses and /invocations: OpenAI's Responses, also as MLflow's agents speak it.

One protocol in two profiles; the route alone decides (contract: responses, 1). What a request says stands in
response_request, the stream in response_frames, and what both kinds of answer share in response_output.
"""

from collections.abc import Sequence

from palaver.core.calls import Call
from palaver.core.events import TERMINAL, Event, RunFailed, RunStarted
from palaver.core.linear import linear
from palaver.errors import PalaverError
from palaver.protocols import openai_errors, response_request, sse
from palaver.protocols.base import Answer, Find, Frames, Headers, Request
from palaver.protocols.response_frames import Writer
from palaver.protocols.response_object import ResponseObject
from palaver.protocols.response_output import Output
from palaver.protocols.response_request import Reading

_ONE_ITEM = 5
"""So many events cannot hold two items that interleave: a start, a piece and an end between those of the run."""
_JSON = (("content-type", "application/json"),)
_STREAM = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache, no-transform"),
    ("x-accel-buffering", "no"),
)


def decode(request: Request, find: Find) -> tuple[Call, Reading]:
    """The call, and how to answer it."""
    return response_request.read(request, find)


def head(started: RunStarted, reading: Reading) -> Answer | None:
    """The head of a stream; None for a JSON answer."""
    if not reading.stream:
        return None
    return Answer(status=200, headers=(*_STREAM, *_ids(started)), keep_alive=sse.KEEP_ALIVE)


def frames(reading: Reading) -> Frames:
    """The encoder of one stream."""
    return Writer(reading).frames


def whole(events: Sequence[Event], reading: Reading, *, status: int) -> Answer:
    """The response object; of a run that failed, the error."""
    started, last = events[0], events[-1]
    assert isinstance(started, RunStarted)
    assert isinstance(last, TERMINAL)
    if isinstance(last, RunFailed):
        return openai_errors.run_failure(last, started, status=status, headers=_ids(started))
    output = Output(reading)
    for event in linear(events) if len(events) > _ONE_ITEM else events:
        output.take(event)
    body = ResponseObject(started, reading).complete(last, output.items, output.usage(last), output.custom)
    return Answer(status=status, headers=(*_JSON, *_ids(started)), body=body)


def failure(error: PalaverError, reading: Reading | None, *, status: int) -> Answer:
    """The error of a request that started no run."""
    return openai_errors.failure(error, status=status, pointed=reading.param if reading else openai_errors.param)


def _ids(started: RunStarted) -> Headers:
    return (("x-palaver-run-id", started.run_id), ("x-palaver-trace-id", started.trace_id))
