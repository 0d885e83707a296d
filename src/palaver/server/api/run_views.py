"""Runs as the REST API shows them, and their events as they are."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

import msgspec
from litestar import Response
from msgspec import UNSET, UnsetType

from palaver.core import json
from palaver.core.api_keys import format_key_id
from palaver.core.events import TERMINAL_EVENTS, Event, RunFailed
from palaver.core.fold import fold
from palaver.core.messages import Message
from palaver.core.runs import NO_SEQ, Reply, RunStatus, interruption_events
from palaver.engine.run_reader import RunReader
from palaver.errors import RunNotFound
from palaver.protocols import sse
from palaver.protocols.base import HttpResponse
from palaver.server.api.conventions import Time, told_time, utc_now
from palaver.server.api.thread_views import Answering, Running
from palaver.server.request import Exchange
from palaver.storage.runs import RunRow

SSE = "text/event-stream"
HEAD = HttpResponse(
    status=200,
    headers=(("content-type", SSE), ("cache-control", "no-cache, no-transform"), ("x-accel-buffering", "no")),
    keep_alive=sse.KEEP_ALIVE,
)
"""Of a stream of events."""


class RunInput(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was asked. Messages are null where some of them are gone."""

    messages: Sequence[Message] | None
    inputs: Mapping[str, Any]
    parameters: Mapping[str, Any]


class RunReply(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has said so far."""

    messages: Sequence[Message]
    value: Any | UnsetType = UNSET


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    id: str
    workflow: str
    variant: str | None
    status: RunStatus
    finish: str | None
    error: Mapping[str, Any] | None
    protocol: str
    background: bool
    thread: str | None
    answers: str | None
    board: str | None
    session: str
    user: str | None
    key: str | None
    trace_id: str | None
    seq: int
    """That of its last event."""
    readers: int
    """How many read it here."""
    usage: Mapping[str, Any] | None
    cost: float | None = None
    asked: Any = msgspec.field(name="in")
    answered: Any = msgspec.field(name="out")
    created_at: Time
    started_at: Time | None
    first_output_at: Time | None
    ended_at: Time | None
    input: RunInput | UnsetType | None = UNSET
    reply: RunReply | UnsetType | None = UNSET
    """Where they were asked for; null where they are not kept."""


_SAME = [name for name in RunView.__struct_fields__ if name in RunRow.__struct_fields__ and not name.endswith("_at")]
_TIMES = ("created_at", "started_at", "first_output_at", "ended_at")


def run_view(row: RunRow, records: RunReader, **more: Any) -> RunView:
    """A run as it is now."""
    fields: dict[str, Any] = {name: getattr(row, name) for name in _SAME}
    times = {name: getattr(row, name) for name in _TIMES}
    fields["key"] = None if row.key is None else format_key_id(row.key)
    alive = records.find_active(row.project, row.id)
    fields["readers"] = 0 if alive is None else records.abandoned.count_readers(alive)
    if alive is not None and row.is_alive:
        fields["seq"] = max(len(alive.log) - 1, row.seq)
        times["first_output_at"] = alive.first_output_at
    fields |= {name: None if moment is None else told_time(moment) for name, moment in times.items()}
    return RunView(**fields, asked=row.preview_in, answered=row.preview_out, **more)


def said_so_far(log: Sequence[Event]) -> Reply:
    """What a run has come to; of one that goes on, also what it has not said to its end."""
    whole = bool(log) and isinstance(log[-1], TERMINAL_EVENTS)
    return fold(log if whole else [*log, *interruption_events(log, utc_now())])


def speaking(records: RunReader) -> Running:
    """For those who show a thread: what a run in it is saying."""

    async def running(project: str, run: str) -> Answering | None:
        try:
            row = await records.get_row(project, run)
        except RunNotFound:
            return None  # It has not begun.
        if not row.is_alive:
            return None
        said = said_so_far(await records.read_log(project, run))
        return Answering(row.answers, said.messages, row.created_at)

    return running


# Streams


def frames(after: int = -1) -> Callable[[Event], bytes]:
    """The events after one of them, each under its number."""

    def frame(event: Event) -> bytes:
        if event.seq > after:
            return b"id: %d\ndata: %b\n\n" % (event.seq, json.encode(event))
        if event.seq == NO_SEQ and isinstance(event, RunFailed):
            return b"data: %b\n\n" % json.encode(event)  # No id: who comes back goes on after the last that has one.
        return b""

    return frame


class Told(Response[Any]):
    """An answer that is told bit by bit."""

    def __init__(self, tell: Callable[[Exchange], Awaitable[None]]) -> None:
        super().__init__(None, media_type=SSE)
        self._tell = tell

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        """An application of its own."""

        async def application(scope: Any, receive: Any, send: Any) -> None:
            exchange = Exchange(scope, receive, send)
            exchange.caller, exchange.authenticator = scope["palaver.caller"], scope["palaver.callers"]
            await self._tell(exchange)

        return cast("Any", application)
