"""/api/threads/{thread}/messages, /tree and /turns: messages of a thread, and runs that answer them."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from litestar import Response, delete, get, post
from litestar.params import FromPath, FromQuery, QueryParameter
from msgspec import UNSET, UnsetType
from sqlalchemy import Connection

from palaver.core.events import Event
from palaver.core.messages import Message
from palaver.engine.engine import new_run_id
from palaver.engine.poller import poll_until
from palaver.engine.run_reader import RunReader
from palaver.errors import ConflictingFields, InvalidValue, ItemNotFound, Overloaded, UnknownCall
from palaver.protocols.base import Headers, HttpResponse, run_headers, valid_traceparent
from palaver.server.api.conventions import (
    After,
    ApiRequest,
    Limit,
    caller_of,
    encode_object,
    idempotent_request,
    litestar_response,
    operation_with_body,
    read_body,
    run_idempotent,
    utc_now,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.api.runs import RunView, event_frames, run_view
from palaver.server.api.streaming import EVENT_STREAM, EVENT_STREAM_HEAD, StreamingResponse
from palaver.server.api.threads import (
    AddedMessages,
    FindPartialReply,
    NodeView,
    PartialReply,
    add_siblings,
    attach_files,
    check_tool_results,
    decode_messages,
    node_leaf,
    node_view,
    partial_nodes,
)
from palaver.server.conversation_history import HEAD, ResolvedCall, ThreadTurn, TurnPlan, plan_append, plan_regenerate
from palaver.server.error_responses import add_headers
from palaver.server.idempotency import REPLAYED_HEADER, wait_for_run
from palaver.server.rate_limit import RateLimits
from palaver.server.replay import replay_events
from palaver.server.request import Exchange
from palaver.server.settings import Settings
from palaver.server.thread_runner import ThreadRunner, TurnOptions
from palaver.storage import feedback, idempotency, runs
from palaver.storage.database import Database
from palaver.storage.feedback import FeedbackCounts
from palaver.storage.idempotency import IdempotentRequest, StoredResponse
from palaver.storage.pagination import Page, Window
from palaver.storage.runs import RunRow
from palaver.storage.threads import message_tree
from palaver.storage.threads import repository as threads
from palaver.storage.threads.message_tree import Node, TreeNode
from palaver.storage.threads.repository import Thread

MAX_NEW_MESSAGES = 100
_MAX_TREE_NODES = 5_000

TreeLimit = Annotated[int, QueryParameter(ge=1, le=_MAX_TREE_NODES, description="Maximum number of messages.")]
At = Annotated[str, QueryParameter(max_length=80, description="The end of the branch: `head` or a message id.")]


class NewMessages(msgspec.Struct, frozen=True, kw_only=True):
    """Messages to add to a thread."""

    messages: Any
    """A list in any supported dialect, or one message."""
    parent: str | UnsetType | None = UNSET
    """Id of the message to add the messages below, or null for the start (default: the end of the current branch)."""
    replaces: str | None = None
    """Id of the message that the new messages replace, on a new branch next to it."""


class _BranchPage(NamedTuple):
    thread: Thread
    page: Page[Node]
    siblings: dict[str | None, list[str]]
    feedback: dict[tuple[str, str], FeedbackCounts]
    seconds: dict[str, float]


class ThreadMessageController(ApiController):
    path = "/api/threads"

    database: Database
    settings: Settings
    partial_reply: FindPartialReply

    async def _load_thread(self, project: str, thread: str) -> tuple[Thread, PartialReply | None]:
        """Return the thread and the partial reply of its active run.

        A run that ends between both reads has stored its messages by then.
        """
        stored = await self.database.read(threads.require_thread, project, thread)
        return stored, None if stored.run is None else await self.partial_reply(project, stored.run)

    @get(
        "/{thread:str}/messages",
        operation_id="list_messages",
        summary="List the messages of a branch, page by page from its end; each page is oldest first",
    )
    async def list_messages(
        self, request: ApiRequest, thread: FromPath[str], at: At = "head", limit: Limit = 50, after: After = None
    ) -> Page[NodeView]:
        caller = caller_of(request)
        stored_thread, partial = await self._load_thread(caller.project, thread)
        nodes = partial_nodes(partial, stored_thread.run or "") if partial is not None and after is None else []
        positions = {node.id: position for position, node in enumerate(nodes, 1)}
        end = at
        if partial is not None and at in positions:
            end, nodes = partial.answers, nodes[: positions[at]]
        branch = await self.database.read(
            _load_branch_page, caller.project, thread, end, at, caller.key, Window(limit, after)
        )
        last = branch.thread.head if end == "head" else end
        if partial is not None and last != partial.answers:
            nodes = []
        stored_ids = {node.id for node in branch.page.data}
        listed = [*branch.page.data, *(node for node in nodes if node.id not in stored_ids)]
        siblings = add_siblings(branch.siblings, nodes)
        return Page([node_view(node, siblings, branch.feedback, branch.seconds) for node in listed], branch.page.next)

    @get(
        "/{thread:str}/tree",
        operation_id="get_tree",
        summary="List the tree of all branches, in order of creation, without message content",
    )
    async def get_tree(
        self, request: ApiRequest, thread: FromPath[str], limit: TreeLimit = _MAX_TREE_NODES, after: After = None
    ) -> Page[TreeNode]:
        project = caller_of(request).project
        stored_thread, partial = await self._load_thread(project, thread)
        page = await self.database.read(message_tree.list_leaves, project, thread, Window(limit, after))
        if partial is None or page.next is not None:
            return page
        stored_ids = {node.id for node in page.data}
        nodes = partial_nodes(partial, stored_thread.run or "")
        return Page([*page.data, *(node_leaf(node) for node in nodes if node.id not in stored_ids)])

    @post(
        "/{thread:str}/messages",
        operation_id="add_messages",
        summary="Add messages below or in place of a message, and make them the end of the current branch",
        operation_class=operation_with_body(NewMessages),
    )
    async def add_messages(self, request: ApiRequest, thread: FromPath[str]) -> Response[AddedMessages]:
        raw, body = await read_body(request, self.settings, NewMessages)
        messages = decode_messages(request, body.messages, self.settings, limit=MAX_NEW_MESSAGES)
        if not messages:
            raise InvalidValue("messages must not be empty.", pointer="/messages")
        if body.replaces is not None and body.parent is not UNSET:
            raise ConflictingFields("'parent' can't be combined with 'replaces'.", pointer="/parent")
        project, now = caller_of(request).project, utc_now()

        def work(db: Connection) -> HttpResponse:
            parent = _find_parent(db, project, thread, body)
            attached = attach_files(db, project, messages, raw)
            _check_results(db, project, thread, parent, attached)
            created = threads.append_messages(db, project, thread, parent, attached, origin="client", at=now)
            siblings = message_tree.list_children_ids(db, project, thread, [created[0].parent])
            view = AddedMessages([node_view(node, dict(siblings), {}) for node in created])
            location = f"{self.settings.root_path}/api/threads/{thread}/messages?at={created[-1].id}"
            return encode_object(view, status=201, location=location)

        return await run_idempotent(request, self.database, raw, work)

    @delete(
        "/{thread:str}/messages/{message:str}",
        operation_id="delete_message",
        summary="Delete a message, with or without the messages below it",
    )
    async def delete_message(
        self,
        request: ApiRequest,
        thread: FromPath[str],
        message: FromPath[str],
        below: FromQuery[Literal["delete", "keep"]] = "delete",
    ) -> None:
        project = caller_of(request).project
        await self.database.write(threads.delete_message, project, thread, message, below=below, at=utc_now())


def _load_branch_page(
    db: Connection, project: str, thread: str, end: str | None, requested: str, key: str | None, window: Window
) -> _BranchPage:
    stored_thread = threads.require_thread(db, project, thread)
    end = stored_thread.head if end == "head" else end
    page = message_tree.list_branch(db, project, thread, end, requested=requested, window=window)
    siblings = message_tree.list_children_ids(db, project, thread, {end, *(node.parent for node in page.data)})
    run_ids = {node.run for node in page.data if node.run is not None}
    counts = feedback.count_feedback(db, project, run_ids, key=key)
    return _BranchPage(stored_thread, page, siblings, counts, runs.run_durations(db, project, run_ids))


def _find_parent(db: Connection, project: str, thread: str, body: NewMessages) -> str | None:
    stored_thread = threads.require_thread(db, project, thread)
    if body.replaces is not None:
        replaced = message_tree.get_node(db, project, thread, body.replaces)
        if replaced is None:
            raise ItemNotFound(body.replaces, pointer="/replaces")
        return replaced.parent
    return stored_thread.head if body.parent is UNSET or body.parent == "head" else body.parent


def _check_results(db: Connection, project: str, thread: str, parent: str | None, messages: Sequence[Message]) -> None:
    """Raise UnknownCall for a tool result that answers no open call of the branch."""
    if not any(message.tool_results for message in messages):
        return
    history = [node.message for node in message_tree.load_branch(db, project, thread, parent)]
    try:
        check_tool_results([*history, *messages], len(history))
    except UnknownCall as error:
        raise UnknownCall(error.message, pointer="/messages") from None


Object = dict[str, Any]
_RESPONSE_TIMEOUT_S = 10.0


class NewTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn to start. Omitted fields default to those of the thread."""

    parent: str | UnsetType | None = UNSET
    """Id of the message to continue from, or null for the start (default: the end of the current branch)."""
    messages: Any = ()
    """New messages in any supported dialect; without any, `parent` itself is answered."""
    again: str | None = None
    """Id of the answer to regenerate, instead of `parent` and `messages`."""
    variant: str | None = None
    """Variant of this run, such as `short:3`."""
    parameters: Object = {}
    """Parameters of this run."""
    inputs: Object = {}
    """Inputs of this run."""
    background: bool = False
    """Queue the run for the first process that is free."""


class StartedTurn(msgspec.Struct, frozen=True):
    """The run that was started, and the messages that were added before it."""

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
        summary="Add messages and start a run that answers them; streams its events if text/event-stream is accepted",
        operation_class=operation_with_body(NewTurn, events=Event),
        status_code=202,
    )
    async def take_turn(self, request: ApiRequest, thread: FromPath[str]) -> Response[StartedTurn]:
        raw, body = await read_body(request, self.settings, NewTurn)
        caller = caller_of(request)
        messages = decode_messages(request, body.messages, self.settings, limit=MAX_NEW_MESSAGES)
        plan = _plan_turn(body, messages, raw)
        options = TurnOptions(
            variant=body.variant,
            parameters=body.parameters,
            inputs=body.inputs,
            background=body.background,
            trace_parent=valid_traceparent(request.headers.get("traceparent")),
        )
        claim, run = idempotent_request(request, raw, utc_now()), new_run_id()
        if claim is not None:
            previous = await self.database.write(idempotency.claim_for_run, claim, run)
            if previous is not None:
                return await self._replay(request, claim, previous)
        try:
            call = await self.thread_runner.start_turn(caller, thread, plan, options, run)
        except BaseException:
            if claim is not None:
                await asyncio.shield(self.database.write(idempotency.release_claim, claim, run))
            raise
        row = await self.run_reader.get_row(caller.project, run)
        headers = run_headers(await self.run_reader.get_started_event(row))
        response = await self._turn_response(call, row, headers)
        if claim is not None:
            stored = StoredResponse(status=response.status, headers=response.headers, body=response.body, run=run)
            await self.database.write(idempotency.store_response, claim, stored)
        return self._stream(request, row, headers) if _wants_stream(request) else litestar_response(response)

    async def _turn_response(self, call: ResolvedCall, row: RunRow, headers: Headers) -> HttpResponse:
        project, thread = call.origin.project, call.origin.thread
        assert thread is not None
        siblings: dict[str | None, list[str]] = {}
        if call.added_nodes:
            siblings = await self.database.read(
                message_tree.list_children_ids, project, thread, [call.added_nodes[0].parent]
            )
        view = StartedTurn(
            run_view(row, self.run_reader), [node_view(node, dict(siblings), {}) for node in call.added_nodes]
        )
        response = encode_object(view, status=202, location=f"{self.settings.root_path}/api/runs/{row.id}")
        return add_headers(response, *headers)

    def _stream(self, request: ApiRequest, row: RunRow, headers: Headers, *, is_replay: bool = False) -> Response[Any]:
        caller = caller_of(request)
        events = self.run_reader.follow(caller.project, row.id)
        head = add_headers(EVENT_STREAM_HEAD, *headers, *((REPLAYED_HEADER,) if is_replay else ()))

        async def send(exchange: Exchange) -> None:
            with self.rate_limits.streams.slot(caller):
                await replay_events(exchange, head, event_frames(), events, stall=self.settings.stream_stall)

        return StreamingResponse(send)

    async def _replay(self, request: ApiRequest, claim: IdempotentRequest, previous: StoredResponse) -> Response[Any]:
        """Return the stored response, or the events of its run from the start."""
        assert previous.run is not None
        row = await wait_for_run(self.run_reader, caller_of(request).project, previous.run)
        if _wants_stream(request):
            return self._stream(request, row, run_headers(await self.run_reader.get_started_event(row)), is_replay=True)

        async def find() -> StoredResponse | None:
            stored = await self.database.write(idempotency.claim_for_run, claim, row.id)
            # Without a status the first request is still being answered.
            return None if stored is None or stored.status is None else stored

        try:
            stored = previous if previous.status is not None else await poll_until(find, timeout_s=_RESPONSE_TIMEOUT_S)
        except TimeoutError:
            raise Overloaded(
                "A request with this Idempotency-Key is still being processed. Try again shortly."
            ) from None
        assert stored.status is not None
        headers = (*stored.headers, REPLAYED_HEADER)
        return litestar_response(HttpResponse(status=stored.status, headers=headers, body=stored.body))


def _plan_turn(body: NewTurn, messages: list[Message], raw: bytes) -> TurnPlan:
    if body.again is not None:
        if messages or body.parent is not UNSET:
            raise ConflictingFields("'again' can't be combined with 'parent' or 'messages'.", pointer="/again")
        return plan_regenerate(body.again)
    plan = plan_append(HEAD if body.parent is UNSET else body.parent, messages)

    def plan_with_files(db: Connection, project: str, thread: str) -> ThreadTurn:
        attach_files(db, project, messages, raw)  # Errors raised here can point into the body.
        return plan(db, project, thread)

    return plan_with_files


def _wants_stream(request: ApiRequest) -> bool:
    return EVENT_STREAM in request.headers.get("accept", "")
