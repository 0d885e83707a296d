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
from palaver.errors import InvalidType, InvalidValue, ResponseNotFound
from palaver.protocols import responses
from palaver.protocols.base import Answer, Frames, Request, ids
from palaver.protocols.openai_errors import PreviousResponseNotFound
from palaver.protocols.response_frames import Rest
from palaver.protocols.response_object import ResponseObject, Running, response_id
from palaver.protocols.response_output import Output
from palaver.protocols.response_request import Reading, opened

_PREFIX = "resp_"
_BOOLEANS = {"true": True, "false": False}
_INTEGER = re.compile(r"-?[0-9]{1,18}")  # No stream and no list is longer.
_RUN = re.compile(r"_([0-9a-hjkmnp-tv-z]{26})_i?[0-9]+(\.[0-9]+)?$")
"""How an id ends that the grammar, or a page of items, made."""


class Asked(NamedTuple):
    """How a stored response is to be read."""

    stream: bool = False
    after: int = -1
    """The number of the last frame that the client has."""


def decode(request: Request) -> Asked:
    """GET /{id}: the response, or its stream from some frame on."""
    given, after = request.query.get("stream", "false"), request.query.get("starting_after")
    stream = _BOOLEANS.get(given)
    if stream is None:
        raise InvalidValue("stream must be true or false.", pointer="/stream")
    if after is None:
        return Asked(stream)
    if not stream:
        raise InvalidValue("starting_after needs stream=true.", pointer="/starting_after")
    return Asked(stream, integer("starting_after", after, 0))


def integer(name: str, text: str, low: int, high: int | None = None) -> int:
    """A whole number of a query, of that range."""
    if not _INTEGER.fullmatch(text):
        raise InvalidType(f"{name} must be a whole number.", pointer=f"/{name}")
    value = int(text)
    if value < low or (high is not None and value > high):
        wanted = f"at least {low}" if high is None else f"between {low} and {high}"
        raise InvalidValue(f"{name} must be {wanted}.", pointer=f"/{name}")
    return value


# Names


def run_id(response: str) -> str:
    """The run of a response: one thing, two spellings."""
    if not response.startswith(_PREFIX):
        raise ResponseNotFound(response)
    return "run_" + response.removeprefix(_PREFIX)


def previous_run_id(response: str) -> str:
    """The run that a call goes on from, by its `previous`."""
    if not response.startswith(_PREFIX):
        raise unknown_previous(response)
    return run_id(response)


def unknown_previous(response: str) -> PreviousResponseNotFound:
    """The error of a call that goes on from what is not there, was not stored, or is another project's."""
    return PreviousResponseNotFound(response, pointer="/previous_response_id")


# What is shown


def stored(
    events: Sequence[Event], reading: Reading, *, started: RunStarted, status_if_running: Running = "in_progress"
) -> bytes:
    """The response object of a log that may not be finished, or not even begun: then `started` says whose it will be.

    At its end it is what the stream said last. Before, it has the items that are done, and no usage.
    """
    reading = opened(reading)
    output, done = _said(events, reading)
    response = ResponseObject(_begun(events, started), reading)
    last = events[-1] if events else None
    if isinstance(last, TERMINAL_EVENTS):
        return response.complete(last, done, output.usage(last), output.custom)
    return response.running(status_if_running, done)


def shown(
    events: Sequence[Event], reading: Reading, *, started: RunStarted, status_if_running: Running = "in_progress"
) -> Answer:
    """GET /{id}, and POST /{id}/cancel once the run has ended: 200, also for a run that failed."""
    body = stored(events, reading, started=started, status_if_running=status_if_running)
    return Answer(status=200, headers=(responses.JSON, *ids(_begun(events, started))), body=body)


def resumed(reading: Reading, after: int = -1) -> Frames:
    """The encoder of a stream for a client that has its frames up to that number: it is given the log from its start.

    Its head is that of any stream, `responses.streamed`. Whoever has everything is told `[DONE]` and nothing else.
    """
    return Rest(opened(reading), after).frames


def deleted(run_id: str) -> Answer:
    """DELETE /{id}: it is gone."""
    document = {"id": response_id(run_id), "object": "response", "deleted": True}
    return Answer(status=200, headers=(responses.JSON,), body=json.encode(document))


# What others refer to


def runs_named(items: Iterable[str]) -> list[str]:
    """The runs that gave or were given the items of these ids, as far as they tell: a call is named by its maker."""
    found = (_RUN.search(item) for item in items)
    return list(dict.fromkeys(f"run_{named[1]}" for named in found if named is not None))


def items(events: Sequence[Event], reading: Reading) -> dict[str, dict[str, Any]]:
    """The items that a response gave, by the ids that it gave them: an `item_reference` may name each.

    Reasoning is sealed here if it ever was, for it goes back to the workflow and not to a client.
    """
    _, done = _said(events, replace(opened(reading), encrypted=True))
    given = [msgspec.json.decode(item, type=dict[str, Any]) for item in done]
    return {item["id"]: item for item in given}


def _said(events: Sequence[Event], reading: Reading) -> tuple[Output, list[bytes]]:
    """What was said so far, and the items of it that are done."""
    output = Output(reading)
    for event in linearize(events):
        output.take(event)
    return output, [item for item in output.items if item]


def _begun(events: Sequence[Event], started: RunStarted) -> RunStarted:
    first = events[0] if events else None
    return first if isinstance(first, RunStarted) else started
