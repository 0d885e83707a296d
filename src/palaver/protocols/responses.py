"""POST /v1/responses, /responses and /invocations: OpenAI's Responses, also as MLflow's agents speak it.

One protocol in two profiles; the route alone decides (contract: responses, 1). What a request says stands in
response_request, the stream in response_frames, and what both kinds of answer share in response_output.
"""

from collections.abc import Sequence

from palaver.core import jsons
from palaver.core.calls import Call
from palaver.core.events import (
    TERMINAL,
    Event,
    RunFailed,
    RunFinished,
    RunStarted,
    Terminal,
    TextDelta,
    TextEnded,
    TextStarted,
)
from palaver.core.linear import linear
from palaver.errors import PalaverError
from palaver.protocols import openai_errors, response_request, sse
from palaver.protocols import response_items as items
from palaver.protocols.base import Answer, Find, Frames, Headers, Request
from palaver.protocols.response_frames import Writer
from palaver.protocols.response_object import ResponseObject, plain
from palaver.protocols.response_output import Output
from palaver.protocols.response_request import Reading

_JSON = ("content-type", "application/json")
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
    only = _only_text(events, reading)
    if only is not None and _is_plain(last) and last.at is not None:
        body = plain(started, reading, jsons.encode(items.message(only.item, only.text)), last.at)
    else:
        output = Output(reading)
        for event in linear(events):
            output.take(event)
        usage = output.usage(last)
        body = ResponseObject(started, reading).complete(last, output.items, usage, output.custom)
    headers = (_JSON, ("x-palaver-run-id", started.run_id), ("x-palaver-trace-id", started.trace_id))
    return Answer(status=status, headers=headers, body=body)


def failure(error: PalaverError, reading: Reading | None, *, status: int) -> Answer:
    """The error of a request that started no run."""
    return openai_errors.failure(error, status=status, pointed=reading.param if reading else openai_errors.param)


def _is_plain(last: Terminal) -> bool:
    return type(last) is RunFinished and last.finish == "stop" and last.usage is None


def _only_text(events: Sequence[Event], reading: Reading) -> TextEnded | None:
    """The text of a run that said just one, as most do: then there is nothing to collect or to put in order."""
    if len(events) < 5 or type(events[1]) is not TextStarted or reading.metadata or reading.trace:
        return None
    last = events[-2]
    if type(last) is not TextEnded or last.annotations:
        return None
    if len(events) > 5 and not all(type(event) is TextDelta for event in events[2:-2]):
        return None
    return last


def _ids(started: RunStarted) -> Headers:
    return (("x-palaver-run-id", started.run_id), ("x-palaver-trace-id", started.trace_id))
