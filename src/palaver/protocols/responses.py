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
from palaver.protocols import openai_errors, response_request, sse
from palaver.protocols import response_items as items
from palaver.protocols.base import Answer, Find, Frames, Request, ids
from palaver.protocols.response_frames import Rest, Writer
from palaver.protocols.response_object import ResponseObject, plain
from palaver.protocols.response_output import Output
from palaver.protocols.response_request import Reading

JSON = ("content-type", "application/json")
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
    return streamed(started) if reading.stream else None


def streamed(started: RunStarted) -> Answer:
    """The head of any stream of that run."""
    return Answer(status=200, headers=(*_STREAM, *ids(started)), keep_alive=sse.KEEP_ALIVE)


def frames(reading: Reading) -> Frames:
    """The encoder of one stream."""
    return Writer(reading).frames


def whole(events: Sequence[Event], reading: Reading, *, status: int) -> Answer:
    """The response object; of a run that failed, the error."""
    started, last = events[0], events[-1]
    assert isinstance(started, RunStarted)
    assert isinstance(last, TERMINAL_EVENTS)
    if isinstance(last, RunFailed):
        return openai_errors.run_failure(last, started, status=status, headers=ids(started))
    only = _only_text(events, reading)
    if only is not None and _is_plain(last) and last.at is not None:
        body = plain(started, reading, json.encode(items.message(only.item, only.text)), last.at)
    else:
        output = Output(reading)
        for event in linearize(events):
            output.take(event)
        usage = output.usage(last)
        body = ResponseObject(started, reading).complete(last, output.items, usage, output.custom)
    return Answer(status=status, headers=(JSON, *ids(started)), body=body)


# In the background


def waiting(reading: Reading, at: datetime) -> Reading:
    """How to answer a call that was kept at that time: it says so for ever, whenever it begins."""
    return replace(reading, queued_at=at)


def queued(started: RunStarted, reading: Reading) -> Answer:
    """The response before its run starts: the whole answer to a call in the background that is not streamed."""
    return Answer(status=200, headers=(JSON, *ids(started)), body=ResponseObject(started, reading).running("queued"))


def queued_frames(started: RunStarted, reading: Reading) -> tuple[bytes, Frames]:
    """What a stream says before its run starts, and the encoder of the rest, which is given all events of the run."""
    writer = Writer(reading)
    opening = writer.queued(started)
    return opening, Rest(reading, writer.number - 1).frames


def failure(error: PalaverError, reading: Reading | None, *, status: int) -> Answer:
    """The error of a request that started no run."""
    return openai_errors.failure(error, status=status, pointed=reading.param if reading else openai_errors.param)


def _is_plain(last: TerminalEvent) -> bool:
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
