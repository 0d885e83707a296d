"""/api/runs: list, read, follow and cancel runs of any protocol and process."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, QueryParameter
from msgspec import UNSET, UnsetType

from palaver.core import json
from palaver.core.api_keys import format_key_id, parse_key_id
from palaver.core.events import TERMINAL_EVENTS, Event, RunFailed
from palaver.core.fold import fold
from palaver.core.messages import Message
from palaver.core.runs import NO_SEQ, Reply, RunStatus, interruption_events
from palaver.engine.run_reader import RunReader
from palaver.errors import InvalidValue, RunNotFound
from palaver.server.api.conventions import (
    After,
    ApiRequest,
    Filter,
    Limit,
    Search,
    Timestamp,
    caller_of,
    make_view,
    object_response,
    operation_with_stream,
    parse_timestamp,
    utc_now,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.api.streaming import EVENT_STREAM_HEAD, StreamingResponse, last_event_id
from palaver.server.api.threads import FindPartialReply, PartialReply
from palaver.server.rate_limit import RateLimits
from palaver.server.replay import replay_events
from palaver.server.request import Exchange
from palaver.server.settings import Settings
from palaver.storage import run_log, runs
from palaver.storage.database import Database
from palaver.storage.pagination import Page, Window
from palaver.storage.runs import RunFilters, RunRow, StoredRun, decode_call


class RunInput(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a run. `messages` is null if some messages were deleted."""

    messages: Sequence[Message] | None
    inputs: Mapping[str, Any]
    parameters: Mapping[str, Any]


class RunReply(msgspec.Struct, frozen=True, kw_only=True):
    """The output of a run so far."""

    messages: Sequence[Message]
    value: Any | UnsetType = UNSET


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A run."""

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
    """Number of the run's last event."""
    readers: int
    """Number of clients that follow the run in this process."""
    usage: Mapping[str, Any] | None
    cost: float | None = None
    asked: Any = msgspec.field(name="in")
    answered: Any = msgspec.field(name="out")
    created_at: Timestamp
    started_at: Timestamp | None
    first_output_at: Timestamp | None
    ended_at: Timestamp | None
    input: RunInput | UnsetType | None = UNSET
    reply: RunReply | UnsetType | None = UNSET
    """`input` and `reply` are only present if requested with `include`; null if not recorded."""


def run_view(row: RunRow, run_reader: RunReader, **extra: Any) -> RunView:
    active = run_reader.find_active(row.project, row.id)
    if active is not None and row.is_alive:
        seq = max(len(active.log) - 1, row.seq)
        row = msgspec.structs.replace(row, seq=seq, first_output_at=active.first_output_at)
    return make_view(
        RunView,
        row,
        key=None if row.key is None else format_key_id(row.key),
        readers=0 if active is None else run_reader.unread_runs.count_readers(active),
        asked=row.preview_in,
        answered=row.preview_out,
        **extra,
    )


def fold_unfinished(log: Sequence[Event]) -> Reply:
    """Fold a log; a run that is still active is folded as if it were interrupted now."""
    is_finished = bool(log) and isinstance(log[-1], TERMINAL_EVENTS)
    return fold(log if is_finished else [*log, *interruption_events(log, utc_now())])


def partial_reply_finder(run_reader: RunReader) -> FindPartialReply:
    async def find(project: str, run: str) -> PartialReply | None:
        try:
            row = await run_reader.get_row(project, run)
        except RunNotFound:
            return None  # Not started yet.
        if not row.is_alive:
            return None
        reply = fold_unfinished(await run_reader.read_log(project, run))
        return PartialReply(row.answers, reply.messages, row.created_at)

    return find


def event_frames(after: int = -1) -> Callable[[Event], bytes]:
    """Return an encoder of server-sent events that skips those up to `after`."""

    def frame(event: Event) -> bytes:
        if event.seq > after:
            return b"id: %d\ndata: %b\n\n" % (event.seq, json.encode(event))
        if event.seq == NO_SEQ and isinstance(event, RunFailed):
            return b"data: %b\n\n" % json.encode(event)  # No id: clients resume after the last stored event.
        return b""

    return frame


_UNKNOWN_KEY = "-"
"""Matches no key, so that filtering by a malformed id finds nothing."""
_INCLUDABLE = frozenset({"input", "reply"})

Status = Annotated[RunStatus | None, QueryParameter(description="Status of the run.")]
Since = Annotated[
    str | None, QueryParameter(name="from", description="RFC 3339 timestamp: only runs created at or after this time.")
]
Until = Annotated[
    str | None, QueryParameter(name="to", description="RFC 3339 timestamp: only runs created before this time.")
]
Include = Annotated[str, QueryParameter(max_length=40, description="`input`, `reply`, or both, separated by a comma.")]
AfterEvent = Annotated[
    int | None, QueryParameter(name="after", ge=-1, le=1 << 31, description="Number of the last event received.")
]


class RunController(ApiController):
    path = "/api/runs"

    database: Database
    settings: Settings
    rate_limits: RateLimits
    run_reader: RunReader

    @get(operation_id="list_runs", summary="List runs, newest first, without input and reply")
    async def list_runs(  # noqa: PLR0913, PLR0917 - one for each filter
        self,
        request: ApiRequest,
        workflow: Filter = None,
        variant: Filter = None,
        status: Status = None,
        protocol: Filter = None,
        thread: Filter = None,
        board: Filter = None,
        evaluation: Filter = None,
        key: Filter = None,
        user: Filter = None,
        since: Since = None,
        until: Until = None,
        search: Search = None,
        limit: Limit = 50,
        after: After = None,
    ) -> Page[RunView]:
        filters = RunFilters(
            workflow=workflow,
            variant=variant,
            status=status,
            protocol=protocol,
            thread=thread,
            board=board,
            evaluation=evaluation,
            key=None if key is None else parse_key_id(key) or _UNKNOWN_KEY,
            user=user,
            since=parse_timestamp(since, "?from"),
            until=parse_timestamp(until, "?to"),
            search=search,
        )
        page = await self.database.read(runs.list_runs, caller_of(request).project, filters, Window(limit, after))
        return page.map(lambda row: run_view(row, self.run_reader))

    @get("/{run:str}", operation_id="get_run", summary="Get a run, optionally with its input and reply")
    async def get_run(self, request: ApiRequest, run: FromPath[str], include: Include = "") -> Response[RunView]:
        included = {part.strip() for part in include.split(",") if part.strip()}
        if not included <= _INCLUDABLE:
            raise InvalidValue("include must be input, reply, or both.", pointer="?include")
        project = caller_of(request).project
        stored_run = await self.run_reader.get_run(project, run)
        extra: dict[str, Any] = {}
        if "input" in included:
            extra["input"] = await _run_input(self.database, project, stored_run)
        if "reply" in included:
            extra["reply"] = await _run_reply(self.run_reader, project, stored_run)
        return object_response(request, run_view(stored_run.row, self.run_reader, **extra))

    @get(
        "/{run:str}/events",
        operation_id="follow_run",
        summary="Stream a run's events, from the start or after an event",
        media_type="text/event-stream",
        operation_class=operation_with_stream(Event),
    )
    async def follow_run(self, request: ApiRequest, run: FromPath[str], after: AfterEvent = None) -> Response[Any]:
        caller = caller_of(request)
        row = await self.run_reader.get_row(caller.project, run)
        last_id = last_event_id(request)
        last_seen = max(-1 if after is None else after, -1 if last_id is None else last_id)
        if not row.is_alive and last_seen >= row.seq:
            return Response(None, status_code=204)
        events = self.run_reader.follow(caller.project, run, last_seen)

        async def send(exchange: Exchange) -> None:
            with self.rate_limits.streams.slot(caller):
                await replay_events(
                    exchange, EVENT_STREAM_HEAD, event_frames(last_seen), events, stall=self.settings.stream_stall
                )

        return StreamingResponse(send)

    @post(
        "/{run:str}/cancel",
        operation_id="cancel_run",
        summary="Cancel a run; a finished run is not changed",
        status_code=200,
    )
    async def cancel_run(self, request: ApiRequest, run: FromPath[str]) -> Response[RunView]:
        return object_response(
            request, run_view(await self.run_reader.cancel(caller_of(request).project, run), self.run_reader)
        )


async def _run_input(database: Database, project: str, stored_run: StoredRun) -> RunInput | None:
    call = decode_call(stored_run)
    if call is None:
        return None
    history = await database.read(run_log.messages_seen_by, project, stored_run)
    messages = None if history is None else [*call.messages[: call.preface], *history]
    return RunInput(messages=messages, inputs=call.inputs, parameters=call.parameters)


async def _run_reply(run_reader: RunReader, project: str, stored_run: StoredRun) -> RunReply | None:
    if stored_run.row.is_alive:
        reply = fold_unfinished(await run_reader.read_log(project, stored_run.row.id))
    elif stored_run.reply is None:
        return None
    else:
        reply = stored_run.reply
    return RunReply(messages=reply.messages, value=reply.value)
