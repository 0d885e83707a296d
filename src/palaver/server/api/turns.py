"""POST /api/threads/{thread}/turns: something is said in a thread, or nothing, and a run answers."""

import asyncio
from typing import Any

import msgspec
from litestar import Response, post
from litestar.params import FromPath
from msgspec import UNSET, UnsetType
from sqlalchemy import Connection

from palaver.core.events import Event
from palaver.core.messages import Message
from palaver.engine.engine import new_run_id
from palaver.engine.poller import poll_until
from palaver.engine.run_reader import RunReader
from palaver.errors import ConflictingFields, Overloaded
from palaver.protocols.base import Headers, HttpResponse, run_headers, valid_traceparent
from palaver.server.api.conventions import Asked, caller_of, read_body, response, shown_as, takes, utc_now
from palaver.server.api.dependencies import ApiController
from palaver.server.api.idempotency import asked_once
from palaver.server.api.run_views import HEAD, SSE, RunView, Told, frames, run_view
from palaver.server.api.thread_messages import MOST_MESSAGES
from palaver.server.api.thread_views import NodeView, node_view
from palaver.server.api.threads import said, with_files
from palaver.server.calls import ThreadRunner, TurnOptions
from palaver.server.conversations import HEAD as END
from palaver.server.conversations import ResolvedCall, ThreadTurn, TurnPlan, plan_append, plan_regenerate
from palaver.server.error_responses import add_headers
from palaver.server.idempotency import REPLAYED_HEADER, wait_for_run
from palaver.server.rate_limit import RateLimits
from palaver.server.request import Exchange
from palaver.server.settings import Settings
from palaver.server.streaming import replay_events
from palaver.storage import idempotency
from palaver.storage.database import Database
from palaver.storage.idempotency import IdempotentRequest, StoredResponse
from palaver.storage.runs import RunRow
from palaver.storage.threads import message_tree

Object = dict[str, Any]
_RESPONSE_TIMEOUT_S = 10.0


class TakeTurn(msgspec.Struct, frozen=True, kw_only=True):
    """The body that takes a turn. What it does not say, the thread does."""

    parent: str | UnsetType | None = UNSET
    """The message that is followed, null for none; where it is absent the end of the current branch."""
    messages: Any = ()
    """What is said, in any dialect that we read; nothing: `parent` is answered as it stands."""
    again: str | None = None
    """Instead of both: the message whose question is to be answered once more."""
    variant: str | None = None
    parameters: Object = {}
    inputs: Object = {}
    background: bool = False


class Taken(msgspec.Struct, frozen=True):
    """The run that answers, and what was said before it."""

    run: RunView
    messages: list[NodeView]


class TurnController(ApiController):
    path = "/api/threads"

    database: Database
    settings: Settings
    run_reader: RunReader
    rate_limits: RateLimits
    thread_runner: ThreadRunner

    @post(
        "/{thread:str}/turns",
        operation_id="take_turn",
        summary="Say something and begin the run that answers; as a stream of its events, if that is what one accepts",
        operation_class=takes(TakeTurn, streams=Event),
        status_code=202,
    )
    async def take_turn(self, request: Asked, thread: FromPath[str]) -> Response[Taken]:
        raw, body = await read_body(request, self.settings, TakeTurn)
        messages, caller = said(request, body.messages, self.settings, most=MOST_MESSAGES), caller_of(request)
        look = _look(body, messages, raw)
        given = TurnOptions(
            variant=body.variant,
            parameters=body.parameters,
            inputs=body.inputs,
            background=body.background,
            trace_parent=valid_traceparent(request.headers.get("traceparent")),
        )
        once, run = asked_once(request, raw, utc_now()), new_run_id()
        if once is not None:
            before = await self.database.write(idempotency.claim_for_run, once, run)
            if before is not None:
                return await self._given_again(request, once, before)
        try:
            joined = await self.thread_runner.start_turn(caller, thread, look, given, run)
        except BaseException:
            if once is not None:
                await asyncio.shield(self.database.write(idempotency.release_claim, once, run))
            raise
        row = await self.run_reader.get_row(caller.project, run)
        named = run_headers(await self.run_reader.get_started_event(row))
        whole = await self._taken(joined, row, named)
        if once is not None:
            kept = StoredResponse(status=whole.status, headers=whole.headers, body=whole.body, run=run)
            await self.database.write(idempotency.store_response, once, kept)
        return self._told(request, row, named) if _wants_stream(request) else response(whole)

    async def _taken(self, joined: ResolvedCall, row: RunRow, named: Headers) -> HttpResponse:
        """The run as it begins, and what was said."""
        project, thread = joined.origin.project, joined.origin.thread
        assert thread is not None
        beside: dict[str | None, list[str]] = {}
        if joined.added_nodes:
            beside = await self.database.read(
                message_tree.list_children_ids, project, thread, [joined.added_nodes[0].parent]
            )
        shown = Taken(
            run_view(row, self.run_reader), [node_view(node, dict(beside), {}) for node in joined.added_nodes]
        )
        whole = shown_as(shown, status=202, location=f"{self.settings.root_path}/api/runs/{row.id}")
        return add_headers(whole, *named)

    def _told(self, request: Asked, row: RunRow, named: Headers, *, replayed: bool = False) -> Response[Any]:
        caller = caller_of(request)
        following = self.run_reader.follow(caller.project, row.id)
        head = add_headers(HEAD, *named, *((REPLAYED_HEADER,) if replayed else ()))

        async def tell(exchange: Exchange) -> None:
            with self.rate_limits.streams.slot(caller):
                await replay_events(exchange, head, frames(), following, stall=self.settings.stream_stall)

        return Told(tell)

    async def _given_again(self, request: Asked, once: IdempotentRequest, before: StoredResponse) -> Response[Any]:
        """What was answered before: the same, or the run's stream from its start."""
        assert before.run is not None
        row = await wait_for_run(self.run_reader, caller_of(request).project, before.run)
        if _wants_stream(request):
            return self._told(request, row, run_headers(await self.run_reader.get_started_event(row)), replayed=True)

        async def find() -> StoredResponse | None:
            kept = await self.database.write(idempotency.claim_for_run, once, row.id)
            return (
                None if kept is None or kept.status is None else kept
            )  # Else the first request is still being answered.

        try:
            kept = before if before.status is not None else await poll_until(find, timeout_s=_RESPONSE_TIMEOUT_S)
        except TimeoutError:
            raise Overloaded("The same was asked a moment ago, and is not answered yet: try again.") from None
        assert kept.status is not None
        return response(HttpResponse(status=kept.status, headers=(*kept.headers, REPLAYED_HEADER), body=kept.body))


def _look(body: TakeTurn, messages: list[Message], raw: bytes) -> TurnPlan:
    if body.again is not None:
        if messages or body.parent is not UNSET:
            raise ConflictingFields("again says what is answered: leave out parent and messages.", pointer="/again")
        return plan_regenerate(body.again)
    look = plan_append(END if body.parent is UNSET else body.parent, messages)

    def checked(db: Connection, project: str, thread: str) -> ThreadTurn:
        with_files(db, project, messages, raw)  # Here it is known where they stand in the body.
        return look(db, project, thread)

    return checked


def _wants_stream(request: Asked) -> bool:
    return SSE in request.headers.get("accept", "")
