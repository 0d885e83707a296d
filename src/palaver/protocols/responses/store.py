"""Stored responses: what is asked of them, and how they are shown and resumed (contract: responses, 6).

All of it in the profile `open`, however the response was begun. Whose a response is, and whether it was stored at all,
the server knows: here are only its request and its events.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from palaver.core import json
from palaver.core.events import TERMINAL_EVENTS, Event, RunStarted
from palaver.core.linearize import linearize
from palaver.errors import InvalidValue, ResponseNotFound
from palaver.protocols.base import EventEncoder, HttpRequest, HttpResponse, run_headers
from palaver.protocols.openai_errors import PreviousResponseNotFound
from palaver.protocols.openai_fields import parse_integer
from palaver.protocols.responses.output import JSON_HEADER, OutputCollector, PendingStatus, ResponseObject, response_id
from palaver.protocols.responses.request import ResponsesRequest, in_open_profile
from palaver.protocols.responses.stream import ResumedStreamEncoder

_PREFIX = "resp_"
_BOOLEANS = {"true": True, "false": False}
_ITEM_RUN = re.compile(r"_([0-9a-hjkmnp-tv-z]{26})_i?[0-9]+(\.[0-9]+)?$")
"""How an id ends that the grammar, or a page of items, made."""


class StoredResponseQuery(NamedTuple):
    """How a stored response is to be read."""

    stream: bool = False
    after: int = -1
    """The number of the last frame that the client has."""


def parse_query(request: HttpRequest) -> StoredResponseQuery:
    """GET /{id}: the response, or its stream from some frame on."""
    given, after = request.query.get("stream", "false"), request.query.get("starting_after")
    stream = _BOOLEANS.get(given)
    if stream is None:
        raise InvalidValue("stream must be true or false.", pointer="/stream")
    if after is None:
        return StoredResponseQuery(stream)
    if not stream:
        raise InvalidValue("starting_after needs stream=true.", pointer="/starting_after")
    return StoredResponseQuery(stream, parse_integer("starting_after", after, 0))


# Names


def run_of_response(response: str) -> str:
    """The run of a response: one thing, two spellings."""
    if not response.startswith(_PREFIX):
        raise ResponseNotFound(response)
    return "run_" + response.removeprefix(_PREFIX)


def run_of_previous(response: str) -> str:
    """The run that a call goes on from, by its `previous`."""
    if not response.startswith(_PREFIX):
        raise previous_not_found(response)
    return run_of_response(response)


def previous_not_found(response: str) -> PreviousResponseNotFound:
    """The error of a call that goes on from what is not there, was not stored, or is another project's."""
    return PreviousResponseNotFound(response, pointer="/previous_response_id")


# What is shown


def encode_stored(
    events: Sequence[Event],
    reading: ResponsesRequest,
    *,
    started: RunStarted,
    status_if_running: PendingStatus = "in_progress",
) -> bytes:
    """The response object of a log that may not be finished, or not even begun: then `started` says whose it will be.

    At its end it is what the stream said last. Before, it has the items that are done, and no usage.
    """
    reading = in_open_profile(reading)
    output, done = _collect_output(events, reading)
    response = ResponseObject(_run_started(events, started), reading)
    last = events[-1] if events else None
    if isinstance(last, TERMINAL_EVENTS):
        return response.complete(last, done, output.usage(last), output.custom)
    return response.running(status_if_running, done)


def stored_response(
    events: Sequence[Event],
    reading: ResponsesRequest,
    *,
    started: RunStarted,
    status_if_running: PendingStatus = "in_progress",
) -> HttpResponse:
    """GET /{id}, and POST /{id}/cancel once the run has ended: 200, also for a run that failed."""
    body = encode_stored(events, reading, started=started, status_if_running=status_if_running)
    return HttpResponse(status=200, headers=(JSON_HEADER, *run_headers(_run_started(events, started))), body=body)


def resumed_encoder(reading: ResponsesRequest, after: int = -1) -> EventEncoder:
    """The encoder of a stream for a client that has its frames up to that number: it is given the log from its start.

    Its head is that of any stream, `responses.streamed`. Whoever has everything is told `[DONE]` and nothing else.
    """
    return ResumedStreamEncoder(in_open_profile(reading), after).frames


def deleted_response(run_id: str) -> HttpResponse:
    """DELETE /{id}: it is gone."""
    document = {"id": response_id(run_id), "object": "response", "deleted": True}
    return HttpResponse(status=200, headers=(JSON_HEADER,), body=json.encode(document))


# What others refer to


def runs_of_items(items: Iterable[str]) -> list[str]:
    """The runs that gave or were given the items of these ids, as far as they tell: a call is named by its maker."""
    found = (_ITEM_RUN.search(item) for item in items)
    return list(dict.fromkeys(f"run_{named[1]}" for named in found if named is not None))


def output_items(events: Sequence[Event], reading: ResponsesRequest) -> dict[str, dict[str, Any]]:
    """The items that a response gave, by the ids that it gave them: an `item_reference` may name each.

    Reasoning is sealed here if it ever was, for it goes back to the workflow and not to a client.
    """
    _, done = _collect_output(events, replace(in_open_profile(reading), encrypted=True))
    given = [msgspec.json.decode(item, type=dict[str, Any]) for item in done]
    return {item["id"]: item for item in given}


def _collect_output(events: Sequence[Event], reading: ResponsesRequest) -> tuple[OutputCollector, list[bytes]]:
    """What was said so far, and the items of it that are done."""
    output = OutputCollector(reading)
    for event in linearize(events):
        output.take(event)
    return output, [item for item in output.items if item]


def _run_started(events: Sequence[Event], started: RunStarted) -> RunStarted:
    first = events[0] if events else None
    return first if isinstance(first, RunStarted) else started
