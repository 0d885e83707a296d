"""Stored responses: parse queries, encode, resume and delete them (contract: responses, 6).

Always in the profile `open`. The server checks whether a response was stored and who may read it.
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
"""The end of an id that the grammar, or a page of items, created."""


class StoredResponseQuery(NamedTuple):
    stream: bool = False
    after: int = -1
    """The sequence number of the last frame that the client has."""


def parse_query(request: HttpRequest) -> StoredResponseQuery:
    """Parse GET /{id}: the response, or its stream after some frame."""
    stream_text, after = request.query.get("stream", "false"), request.query.get("starting_after")
    stream = _BOOLEANS.get(stream_text)
    if stream is None:
        raise InvalidValue("stream must be true or false.", pointer="/stream")
    if after is None:
        return StoredResponseQuery(stream)
    if not stream:
        raise InvalidValue("starting_after needs stream=true.", pointer="/starting_after")
    return StoredResponseQuery(stream, parse_integer("starting_after", after, 0))


# Ids


def run_of_response(response: str) -> str:
    """Return the run of a response id. Raises ResponseNotFound."""
    if not response.startswith(_PREFIX):
        raise ResponseNotFound(response)
    return "run_" + response.removeprefix(_PREFIX)


def run_of_previous(response: str) -> str:
    """Return the run of a `previous_response_id`. Raises PreviousResponseNotFound."""
    if not response.startswith(_PREFIX):
        raise previous_not_found(response)
    return run_of_response(response)


def previous_not_found(response: str) -> PreviousResponseNotFound:
    return PreviousResponseNotFound(response, pointer="/previous_response_id")


# Responses


def encode_stored(
    events: Sequence[Event],
    request: ResponsesRequest,
    *,
    started: RunStarted,
    status_if_running: PendingStatus = "in_progress",
) -> bytes:
    """Encode the response object of a log that may be unfinished or empty; `started` is used if it is empty.

    A finished response equals the last one of its stream. Before, it has the items done so far and no usage.
    """
    request = in_open_profile(request)
    output, done = _collect_output(events, request)
    response = ResponseObject(_run_started(events, started), request)
    last = events[-1] if events else None
    if isinstance(last, TERMINAL_EVENTS):
        return response.complete(last, done, output.usage(last), output.custom)
    return response.running(status_if_running, done)


def stored_response(
    events: Sequence[Event],
    request: ResponsesRequest,
    *,
    started: RunStarted,
    status_if_running: PendingStatus = "in_progress",
) -> HttpResponse:
    """The response to GET /{id}, and to POST /{id}/cancel once the run has ended: 200, also for a failed run."""
    body = encode_stored(events, request, started=started, status_if_running=status_if_running)
    return HttpResponse(status=200, headers=(JSON_HEADER, *run_headers(_run_started(events, started))), body=body)


def resumed_encoder(request: ResponsesRequest, after: int = -1) -> EventEncoder:
    """Return an encoder that skips the frames up to `after`. It must be fed the log from its start.

    Its head is `adapter.stream_head`. A client that has all frames gets only `[DONE]`.
    """
    return ResumedStreamEncoder(in_open_profile(request), after).encode


def deleted_response(run_id: str) -> HttpResponse:
    document = {"id": response_id(run_id), "object": "response", "deleted": True}
    return HttpResponse(status=200, headers=(JSON_HEADER,), body=json.encode(document))


# References


def runs_of_items(items: Iterable[str]) -> list[str]:
    """Return the runs that created the items of these ids, as far as the ids tell."""
    matches = (_ITEM_RUN.search(item) for item in items)
    return list(dict.fromkeys(f"run_{match[1]}" for match in matches if match is not None))


def output_items(events: Sequence[Event], request: ResponsesRequest) -> dict[str, dict[str, Any]]:
    """Return the output items of a response by id, for `item_reference`.

    Encrypted reasoning is included, because the items go to the workflow and not to a client.
    """
    _, done = _collect_output(events, replace(in_open_profile(request), encrypted=True))
    items = [msgspec.json.decode(item, type=dict[str, Any]) for item in done]
    return {item["id"]: item for item in items}


def _collect_output(events: Sequence[Event], request: ResponsesRequest) -> tuple[OutputCollector, list[bytes]]:
    """Return the output so far, and its finished items."""
    output = OutputCollector(request)
    for event in linearize(events):
        output.take(event)
    return output, [item for item in output.items if item]


def _run_started(events: Sequence[Event], started: RunStarted) -> RunStarted:
    first = events[0] if events else None
    return first if isinstance(first, RunStarted) else started
