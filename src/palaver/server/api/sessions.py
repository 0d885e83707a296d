"""/api/sessions, and traces as conversations, to read or to continue in the playground."""

from functools import partial
from typing import Annotated

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery, QueryParameter
from msgspec import Meta
from sqlalchemy import Connection

from palaver.errors import NotFound
from palaver.server.api.conventions import (
    After,
    ApiRequest,
    Limit,
    Search,
    caller_of,
    make_view,
    object_response,
    operation_with_body,
    parse_timestamp,
    read_body,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.api.trace_views import SessionRow, Since, TraceQueryRunner, Until, missing_trace
from palaver.server.api.traces import shorten_texts
from palaver.server.settings import Settings
from palaver.storage.pagination import Page, Window
from palaver.storage.spans import queries as span_queries
from palaver.storage.spans import traces as span_traces
from palaver.storage.spans.queries import SpanQuery
from palaver.traces.conversation import MessageStep, Step, Tab, ThreadDraft, Turn, build_live, build_tabs, build_turn
from palaver.traces.model import Span
from palaver.traces.stored_spans import load_session_turns, load_turn

DEFAULT_TURN_LIMIT = 5
"""Traces of a session read per query."""
MAX_READ_BYTES = 8 * 1024 * 1024
"""A page of a session ends once this many bytes were read."""
MAX_PART_BYTES = 256 * 1024
"""The text of longer conversations is truncated."""

SessionName = Annotated[str, QueryParameter(min_length=1, max_length=1_000, description="Name of the session.")]
Turns = Annotated[int, QueryParameter(ge=1, le=200, description="Maximum number of traces.")]
_decode_span = msgspec.json.Decoder(Span).decode


class SessionThread(msgspec.Struct, frozen=True, kw_only=True):
    """A session as a conversation, with a tab for each branch."""

    session: str
    traces: int
    """Number of traces on this page."""
    tabs: list[Tab]
    next: str | None


class TraceConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A trace as a conversation: input messages, tool calls that are not in messages, and output messages."""

    trace_id: str
    span_id: str
    """The span that holds the messages."""
    steps: list[Step]
    cut: int = 0
    """Number of characters left out if the text of a long conversation is truncated."""


class OpenTraceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The span of a trace to continue from, and the number of its messages to keep (default: all)."""

    span_id: Annotated[str, Meta(max_length=64)] | None = None
    """Id of a span; by default the root span."""
    upto: Annotated[int, Meta(ge=0)] | None = None
    """Number of messages to keep; by default all."""


class TraceSessionController(ApiController):
    path = "/api"

    settings: Settings
    run_query: TraceQueryRunner

    @get("/sessions", operation_id="list_sessions", summary="List sessions, most recently active first")
    async def list_sessions(
        self,
        request: ApiRequest,
        search: Search = None,
        since: Since = None,
        until: Until = None,
        limit: Limit = 50,
        after: After = None,
    ) -> Page[SessionRow]:
        query = SpanQuery(since=parse_timestamp(since, "?from"), until=parse_timestamp(until, "?to"))
        project, window = caller_of(request).project, Window(limit, after)
        page = await self.run_query(query, span_queries.list_sessions, project, query, window, name=search)
        return page.map(partial(make_view, SessionRow))

    @get(
        "/sessions/{session:str}/thread",
        operation_id="get_session_thread",
        summary="Get a session as one conversation, with a tab for each branch",
    )
    async def get_session_thread(
        self, request: ApiRequest, session: FromPath[str], limit: Turns = 50, after: After = None
    ) -> Response[SessionThread]:
        return object_response(
            request, await _load_thread(self.run_query, caller_of(request).project, session, Window(limit, after))
        )

    @get(
        "/sessions/thread",
        operation_id="get_session_thread_by_name",
        summary="Get a session as one conversation, for session names that can't be part of a path",
    )
    async def get_session_thread_by_name(
        self, request: ApiRequest, session: SessionName, limit: Turns = 50, after: After = None
    ) -> Response[SessionThread]:
        return object_response(
            request, await _load_thread(self.run_query, caller_of(request).project, session, Window(limit, after))
        )

    @get(
        "/traces/{trace:str}/conversation",
        operation_id="get_trace_conversation",
        summary="Get the conversation of a trace; long text is truncated unless whole=true",
    )
    async def get_trace_conversation(
        self,
        request: ApiRequest,
        trace: FromPath[str],
        whole: FromQuery[bool] = False,  # noqa: FBT002 -- a query parameter
    ) -> Response[TraceConversation]:
        loaded = await self.run_query(None, load_turn, caller_of(request).project, trace.lower())
        if loaded is None:
            raise missing_trace(trace)
        return object_response(request, _conversation(loaded[1], whole=whole))

    @post(
        "/traces/{trace:str}/thread",
        operation_id="open_trace_as_thread",
        summary="Get what the playground needs to continue from a trace or span, without starting a run",
        operation_class=operation_with_body(OpenTraceRequest),
        status_code=200,
    )
    async def open_trace_as_thread(self, request: ApiRequest, trace: FromPath[str]) -> Response[ThreadDraft]:
        _, opening = await read_body(request, self.settings, OpenTraceRequest)
        return object_response(
            request, await self.run_query(None, _open_as_thread, caller_of(request).project, trace, opening)
        )


async def _load_thread(run_query: TraceQueryRunner, project: str, session: str, window: Window) -> SessionThread:
    turns: list[Turn] = []
    after, size = window.after, 0
    while len(turns) < window.limit and size < MAX_READ_BYTES:
        batch = Window(min(DEFAULT_TURN_LIMIT, window.limit - len(turns)), after)
        page, batch_turns, batch_bytes = await run_query(None, load_session_turns, project, session, batch)
        turns += batch_turns
        size += batch_bytes
        after = page.next
        if after is None:
            break
    if not turns and window.after is None:
        raise NotFound(f"Session {session[:80]!r} not found.")
    return SessionThread(session=session, traces=len(turns), tabs=build_tabs(turns), next=after)


def _conversation(turn: Turn, *, whole: bool) -> TraceConversation:
    ids = {"trace_id": turn.trace_id, "span_id": turn.span_id}
    steps: list[Step] = [MessageStep(**ids, message=message) for message in turn.messages_in]
    steps += turn.tools
    steps += [MessageStep(**ids, message=message) for message in turn.messages_out]
    encoded, cut = msgspec.json.encode(steps), 0
    if len(encoded) > MAX_PART_BYTES and not whole:
        shortened = msgspec.json.encode(shorten_texts(msgspec.json.decode(encoded)))
        steps, cut = msgspec.json.decode(shortened, type=list[Step]), len(encoded.decode()) - len(shortened.decode())
    return TraceConversation(trace_id=turn.trace_id, span_id=turn.span_id, steps=steps, cut=cut)


def _open_as_thread(db: Connection, project: str, trace: str, opening: OpenTraceRequest) -> ThreadDraft:
    loaded = load_turn(db, project, trace.lower())
    if loaded is None:
        raise missing_trace(trace)
    head, turn = loaded
    if opening.span_id is None:
        source = None
        if turn.span_id != head.span_id:
            body = span_traces.get_span_body(db, project, head.trace_id, turn.span_id)
            if body is not None:
                source = msgspec.structs.replace(head, tools=head.tools or _decode_span(body).tools)
        return build_live(head, turn, source, upto=opening.upto)
    body = span_traces.get_span_body(db, project, head.trace_id, opening.span_id.lower())
    if body is None:
        raise NotFound(f"Span {opening.span_id[:80]!r} not found in this trace.", pointer="/span_id")
    source = _decode_span(body)
    return build_live(head, build_turn(source), source, upto=opening.upto)
