"""/api/runs: what ran, by whatever protocol, in whatever process: listed, looked at, followed and cancelled."""

from typing import Annotated, Any

from litestar import Response, get, post
from litestar.params import FromPath, QueryParameter

from palaver.core.api_keys import parse_key_id
from palaver.core.events import Event
from palaver.core.runs import RunStatus
from palaver.engine.run_reader import RunReader
from palaver.errors import InvalidValue
from palaver.server.api.conventions import (
    After,
    Asked,
    Filter,
    Limit,
    Page,
    Search,
    Window,
    answer,
    caller_of,
    parse_timestamp,
    streams,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.api.run_views import HEAD, RunInput, RunReply, RunView, Told, frames, run_view, said_so_far
from palaver.server.rate_limit import RateLimits
from palaver.server.request import Exchange
from palaver.server.settings import Settings
from palaver.server.streaming import replay_events
from palaver.storage import run_log, runs
from palaver.storage.database import Database
from palaver.storage.runs import RunFilters, StoredRun, decode_call

_NO_KEY = "-"
"""No key has this id, so that nothing is found for a name that is none."""
_PARTS = frozenset({"input", "reply"})

Status = Annotated[RunStatus | None, QueryParameter(description="How it goes, or how it ended.")]
Since = Annotated[str | None, QueryParameter(name="from", description="RFC 3339: made then or later.")]
Until = Annotated[str | None, QueryParameter(name="to", description="RFC 3339: made before that.")]
Include = Annotated[str, QueryParameter(max_length=40, description="`input`, `reply`, or both with a comma.")]
AfterEvent = Annotated[
    int | None, QueryParameter(name="after", ge=-1, le=1 << 31, description="The number of the last event one has.")
]


class RunController(ApiController):
    path = "/api/runs"

    database: Database
    settings: Settings
    rate_limits: RateLimits
    run_reader: RunReader

    @get(operation_id="list_runs", summary="Newest first, without what was asked and said")
    async def list_runs(  # noqa: PLR0913, PLR0917 - one for each filter
        self,
        request: Asked,
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
            key=None if key is None else parse_key_id(key) or _NO_KEY,
            user=user,
            since=parse_timestamp(since, "?from"),
            until=parse_timestamp(until, "?to"),
            search=search,
        )
        page = await self.database.read(runs.list_runs, caller_of(request).project, filters, Window(limit, after))
        return page.map(lambda row: run_view(row, self.run_reader))

    @get("/{run:str}", operation_id="get_run", summary="One run, and what it was asked and said if wanted")
    async def get_run(self, request: Asked, run: FromPath[str], include: Include = "") -> Response[RunView]:
        wanted = {part.strip() for part in include.split(",") if part.strip()}
        if not wanted <= _PARTS:
            raise InvalidValue("include takes input and reply.", pointer="?include")
        project = caller_of(request).project
        found = await self.run_reader.get_run(project, run)
        more: dict[str, Any] = {}
        if "input" in wanted:
            more["input"] = await _asked(self.database, project, found)
        if "reply" in wanted:
            more["reply"] = await _said(self.run_reader, project, found)
        return answer(request, run_view(found.row, self.run_reader, **more))

    @get(
        "/{run:str}/events",
        operation_id="follow_run",
        summary="Its events as they come, from the start or after one of them",
        media_type="text/event-stream",
        operation_class=streams(Event),
    )
    async def follow_run(self, request: Asked, run: FromPath[str], after: AfterEvent = None) -> Response[Any]:
        caller = caller_of(request)
        row = await self.run_reader.get_row(caller.project, run)
        seen = max(-1 if after is None else after, _last_event_id(request))
        if not row.is_alive and seen >= row.seq:
            return Response(None, status_code=204)
        following = self.run_reader.follow(caller.project, run, seen)

        async def tell(exchange: Exchange) -> None:
            with self.rate_limits.streams.slot(caller):
                await replay_events(exchange, HEAD, frames(seen), following, stall=self.settings.stream_stall)

        return Told(tell)

    @post(
        "/{run:str}/cancel",
        operation_id="cancel_run",
        summary="End it; one that has ended stays as it is",
        status_code=200,
    )
    async def cancel_run(self, request: Asked, run: FromPath[str]) -> Response[RunView]:
        return answer(request, run_view(await self.run_reader.cancel(caller_of(request).project, run), self.run_reader))


async def _asked(database: Database, project: str, found: StoredRun) -> RunInput | None:
    call = decode_call(found)
    if call is None:
        return None
    seen = await database.read(run_log.messages_seen_by, project, found)
    messages = None if seen is None else [*call.messages[: call.preface], *seen]
    return RunInput(messages=messages, inputs=call.inputs, parameters=call.parameters)


async def _said(records: RunReader, project: str, found: StoredRun) -> RunReply | None:
    if found.row.is_alive:
        reply = said_so_far(await records.read_log(project, found.row.id))
    elif found.reply is None:
        return None
    else:
        reply = found.reply
    return RunReply(messages=reply.messages, value=reply.value)


def _last_event_id(request: Asked) -> int:
    """What an EventSource says that it has, when it comes back."""
    given = request.headers.get("last-event-id", "").strip()
    if not given:
        return -1
    if not given.isascii() or not given.isdecimal() or len(given) > 10:
        raise InvalidValue("Last-Event-ID must be the number of an event.")
    return int(given)
