"""/api/threads: conversations with branches, and threads and messages as responses."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.params import FromPath, FromQuery
from msgspec import UNSET, Meta, UnsetType
from sqlalchemy import Connection

from palaver.core import dialects
from palaver.core.boards import Cell
from palaver.core.extraction import truncation
from palaver.core.history_validation import HistoryLimits, check_history_limits, validate_history
from palaver.core.messages import Message, Part, Role, has_files
from palaver.core.thread_tree import NodeStatus
from palaver.core.variants import check_parameters_size, parse_reference
from palaver.discovery.registry import Registry
from palaver.errors import InvalidValue
from palaver.protocols.base import HttpResponse
from palaver.server import file_references
from palaver.server.api.conventions import (
    After,
    ApiRequest,
    Filter,
    Limit,
    Search,
    Timestamp,
    caller_of,
    encode_object,
    if_match_check,
    make_view,
    new_id,
    object_response,
    operation_with_body,
    read_body,
    run_idempotent,
    utc_now,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.settings import Settings
from palaver.storage import boards
from palaver.storage.database import Database
from palaver.storage.feedback import FeedbackCounts
from palaver.storage.pagination import Page, Window
from palaver.storage.spans import retention
from palaver.storage.threads import copies as thread_copies
from palaver.storage.threads import repository as threads
from palaver.storage.threads.copies import Branches
from palaver.storage.threads.message_tree import LINE_LENGTH, Node, TreeNode


class PartialReply(msgspec.Struct, frozen=True):
    """The messages that an active run has produced so far in its thread."""

    answers: str | None
    """The node that becomes the parent of the run's first message."""
    messages: Sequence[Message]
    since: datetime


FindPartialReply = Callable[[str, str], Awaitable[PartialReply | None]]
"""`(project, run)`: the reply so far; None if the run is not active."""


class ThreadSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A thread in a list."""

    id: str
    title: str
    title_by: threads.TitleBy
    workflow: str | None
    variant: str | None
    head: str | None
    run: str | None
    pinned: bool
    origin: str
    board: str | None
    messages: int
    asked: Any = msgspec.field(name="in")
    answered: Any = msgspec.field(name="out")
    created_at: Timestamp
    updated_at: Timestamp
    match: threads.Match | UnsetType = UNSET
    """Where the search text was found."""


class ThreadView(ThreadSummary, frozen=True, kw_only=True):
    """A thread with its settings, without its messages."""

    parameters: Mapping[str, Any]
    inputs: Mapping[str, Any]
    metadata: Mapping[str, Any]


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a thread, with its siblings and feedback."""

    id: str
    parent: str | None
    role: Role
    parts: Sequence[Part]
    name: str | None
    metadata: Mapping[str, Any]
    origin: str
    run: str | None
    status: NodeStatus
    error: Mapping[str, Any] | None
    siblings: Sequence[str]
    """Ids of all children of the same parent, including this message, in order of creation."""
    feedback: FeedbackCounts
    usage: Mapping[str, Any] | None
    seconds: float | None
    """Duration of the message's run, in seconds; null without a run, or while the run is active."""
    created_at: Timestamp


class AddedMessages(msgspec.Struct, frozen=True):
    """Messages that were added to a thread."""

    messages: list[NodeView]


def thread_summary(item: threads.ThreadListItem) -> ThreadSummary:
    thread = item.thread
    match = UNSET if item.match is None else item.match
    return make_view(ThreadSummary, thread, asked=thread.preview_in, answered=thread.preview_out, match=match)


def thread_view(thread: threads.Thread) -> ThreadView:
    return make_view(ThreadView, thread, asked=thread.preview_in, answered=thread.preview_out)


def node_view(
    node: Node,
    siblings: Mapping[str | None, Sequence[str]],
    feedback: Mapping[tuple[str, str], FeedbackCounts],
    seconds: Mapping[str, float] = MappingProxyType({}),
) -> NodeView:
    message = node.message
    return make_view(
        NodeView,
        node,
        role=message.role,
        parts=message.parts,
        name=message.name,
        metadata=message.metadata,
        siblings=siblings.get(node.parent, [node.id]),
        feedback=feedback.get((node.run or "", node.id), FeedbackCounts()),
        seconds=seconds.get(node.run or ""),
    )


def partial_nodes(reply: PartialReply, run: str) -> list[Node]:
    """Return the nodes that a run is writing, up to the first message without an id."""
    nodes: list[Node] = []
    for message in reply.messages:
        if message.id is None:
            break
        parent = nodes[-1].id if nodes else reply.answers
        nodes.append(
            Node(
                id=message.id,
                parent=parent,
                place=0,
                message=message,
                origin="run",
                run=run,
                status="streaming",
                created_at=reply.since,
            )
        )
    return nodes


def node_leaf(node: Node) -> TreeNode:
    return TreeNode(
        id=node.id,
        parent=node.parent,
        role=node.message.role,
        run=node.run,
        status=node.status,
        line=truncation.message_line(node.message, LINE_LENGTH),
    )


def add_siblings(
    siblings: Mapping[str | None, Collection[str]], nodes: Sequence[Node]
) -> dict[str | None, Sequence[str]]:
    """Add nodes that are not stored yet to the ids of their siblings."""
    ids_by_parent: dict[str | None, Sequence[str]] = {parent: list(children) for parent, children in siblings.items()}
    for node in nodes:
        ids = ids_by_parent.get(node.parent, ())
        ids_by_parent[node.parent] = ids if node.id in ids else [*ids, node.id]
    return ids_by_parent


Title = Annotated[str, Meta(max_length=threads.MAX_TITLE_LENGTH)]
Workflow = Annotated[str, Meta(max_length=64)]
Object = dict[str, Any]
_Id = Annotated[str, Meta(max_length=64, pattern=r"^[^\x00]*$")]
MAX_INITIAL_MESSAGES = 2_000
_ERASE_BATCH_SIZE = 500
"""Runs whose spans are deleted in one go."""


class ThreadCell(msgspec.Struct, frozen=True):
    """The board cell to store the thread in."""

    board: _Id
    """Id of the board."""
    row: _Id
    """Id of the row."""
    column: _Id
    """Id of the column."""


class CreateThread(msgspec.Struct, frozen=True, kw_only=True):
    """A thread to create."""

    workflow: Workflow
    """Name of the workflow that answers."""
    variant: str | None = None
    """Variant for the thread's runs, such as `short:3`."""
    parameters: Object = {}
    """Changes to the parameters of the variant."""
    inputs: Object = {}
    """Inputs for the thread's runs."""
    title: Title | None = None
    """Title (default: derived from the first message)."""
    messages: Any = ()
    """A list in any supported dialect."""
    cell: ThreadCell | None = None
    """The board cell that shows the thread."""


class ThroughNode(msgspec.Struct, frozen=True):
    """A message whose most recently used branch becomes the current one."""

    through: str
    """Id of the message."""


class ThreadPatch(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to a thread. Omitted fields are not changed; null resets a field."""

    title: Title | UnsetType | None = UNSET
    """Title; null for one derived from the first message."""
    pinned: bool | UnsetType | None = UNSET
    """Whether the thread is pinned to the top of the list."""
    workflow: Workflow | UnsetType | None = UNSET
    variant: str | UnsetType | None = UNSET
    """Variant for the thread's runs, such as `short:3`."""
    parameters: Object | UnsetType | None = UNSET
    """Changes to the parameters of the variant."""
    inputs: Object | UnsetType | None = UNSET
    """Inputs for the thread's runs."""
    head: str | ThroughNode | UnsetType | None = UNSET
    """The new current branch: the id of its last message, or a message that it passes through."""


class DuplicateThread(msgspec.Struct, frozen=True, kw_only=True):
    """Options for copying or forking a thread."""

    upto: str | None = None
    """Id of the last message to copy (default: all messages)."""
    branches: Branches = "current"
    """Copy the current branch, or all branches."""
    workflow: Workflow | UnsetType | None = UNSET
    variant: str | UnsetType | None = UNSET
    title: Title | UnsetType | None = UNSET


class ThreadController(ApiController):
    path = "/api/threads"

    database: Database
    settings: Settings
    registry: Registry

    @get(operation_id="list_threads", summary="List threads, most recently active first")
    async def list_threads(
        self,
        request: ApiRequest,
        search: Search = None,
        workflow: Filter = None,
        pinned: FromQuery[bool | None] = None,
        origin: Filter = None,
        limit: Limit = 50,
        after: After = None,
    ) -> Page[ThreadSummary]:
        filters = threads.ThreadFilters(search=search, workflow=workflow, pinned=pinned, origin=origin)
        page = await self.database.read(threads.list_threads, caller_of(request).project, filters, Window(limit, after))
        return page.map(thread_summary)

    @post(operation_id="make_thread", summary="Create a thread", operation_class=operation_with_body(CreateThread))
    async def make_thread(self, request: ApiRequest) -> Response[ThreadView]:
        raw, body = await read_body(request, self.settings, CreateThread)
        self.registry.find(body.workflow)
        _check_variant(body.variant, body.parameters)
        messages = decode_messages(request, body.messages, self.settings, limit=MAX_INITIAL_MESSAGES)
        check_tool_results(messages, 0)
        project, thread_id, now = caller_of(request).project, new_id("conv"), utc_now()
        new_thread = threads.NewThread(
            id=thread_id,
            at=now,
            workflow=body.workflow,
            variant=body.variant,
            parameters=body.parameters,
            inputs=body.inputs,
            title=body.title or None,
            board=body.cell.board if body.cell else None,
        )

        def work(db: Connection) -> HttpResponse:
            created = threads.create_thread(db, project, new_thread, attach_files(db, project, messages, raw))
            if body.cell is not None:
                cell = Cell(row=body.cell.row, column=body.cell.column, thread=thread_id)
                boards.fill_cells(db, project, body.cell.board, [cell])
            return _created_response(created, self.settings)

        return await run_idempotent(request, self.database, raw, work)

    @get("/{thread:str}", operation_id="get_thread", summary="Get a thread")
    async def get_thread(self, request: ApiRequest, thread: FromPath[str]) -> Response[ThreadView]:
        stored_thread = await self.database.read(threads.require_thread, caller_of(request).project, thread)
        return object_response(request, thread_view(stored_thread))

    @patch(
        "/{thread:str}",
        operation_id="change_thread",
        summary="Change a thread's title, settings or current branch",
        operation_class=operation_with_body(ThreadPatch),
    )
    async def change_thread(self, request: ApiRequest, thread: FromPath[str]) -> Response[ThreadView]:
        _, body = await read_body(request, self.settings, ThreadPatch)
        if isinstance(body.workflow, str):
            self.registry.find(body.workflow)
        _check_variant(body.variant, body.parameters)
        project, check = caller_of(request).project, if_match_check(request, thread_view)

        def work(db: Connection) -> threads.Thread:
            check(threads.require_thread(db, project, thread))
            changed = threads.update_thread(db, project, thread, _changes(body))
            match body.head:
                case UnsetType():
                    return changed
                case ThroughNode(through=node):
                    return threads.move_head(db, project, thread, node, through=True)
                case node:
                    return threads.move_head(db, project, thread, node)

        return object_response(request, thread_view(await self.database.write(work)))

    @delete(
        "/{thread:str}",
        operation_id="delete_thread",
        summary="Delete a thread and its runs; with traces=true, also their traces",
    )
    async def delete_thread(
        self, request: ApiRequest, thread: FromPath[str], *, traces: FromQuery[bool] = False
    ) -> None:
        project, check = caller_of(request).project, if_match_check(request, thread_view)

        def work(db: Connection) -> list[str]:
            check(threads.require_thread(db, project, thread))
            return threads.delete_thread(db, project, thread)

        run_ids = await self.database.write(work)
        if traces:
            await _erase_traces(self.database, project, thread, run_ids)

    @post(
        "/{thread:str}/duplicate",
        operation_id="duplicate_thread",
        summary="Copy a thread, or fork it at a message",
        operation_class=operation_with_body(DuplicateThread),
    )
    async def duplicate_thread(self, request: ApiRequest, thread: FromPath[str]) -> Response[ThreadView]:
        raw, body = await read_body(request, self.settings, DuplicateThread)
        if isinstance(body.workflow, str):
            self.registry.find(body.workflow)
        _check_variant(body.variant, UNSET)
        changes = threads.ThreadChanges(title=body.title or UNSET, workflow=body.workflow, variant=body.variant)
        project, thread_id, now = caller_of(request).project, new_id("conv"), utc_now()

        def work(db: Connection) -> HttpResponse:
            created = thread_copies.duplicate_thread(
                db, project, thread, id=thread_id, at=now, upto=body.upto, branches=body.branches, changes=changes
            )
            return _created_response(created, self.settings)

        return await run_idempotent(request, self.database, raw, work)


def decode_messages(request: ApiRequest, value: Any, settings: Settings, *, limit: int) -> list[Message]:
    """Decode messages of any dialect, and check the limits."""
    messages = dialects.read(value) if value else []
    if has_files(messages):
        host = request.headers.get("host", "")
        messages = list(file_references.resolve_file_urls(messages, host=host, root_path=settings.root_path))
    if len(messages) > limit:
        raise InvalidValue(f"Too many messages: {len(messages):,} (limit: {limit:,}).", pointer="/messages")
    check_history_limits(messages, settings.history_limits)
    return messages


def attach_files(db: Connection, project: str, messages: list[Message], raw: bytes) -> list[Message]:
    """Resolve the files that messages name. Raises NotFound for a file that the project does not have."""
    return list(file_references.require_files(db, project, messages, raw)) if has_files(messages) else messages


_NO_LIMITS = HistoryLimits(messages=1 << 30, parts=1 << 30, files=1 << 30, file=1 << 60)


def check_tool_results(messages: list[Message], first_new: int) -> None:
    """Raise for a tool result in `messages[first_new:]` that answers no earlier call."""
    if any(message.tool_results for message in messages[first_new:]):
        validate_history(messages, limits=_NO_LIMITS)


async def _erase_traces(database: Database, project: str, thread: str, run_ids: list[str]) -> None:
    """Delete the spans of the thread's runs, and all spans with the thread as their session."""
    for offset in range(0, len(run_ids), _ERASE_BATCH_SIZE):
        while await database.write(retention.delete_run_spans, project, run_ids[offset : offset + _ERASE_BATCH_SIZE]):
            pass
    while await database.write(retention.delete_labelled, project, "session", thread):
        pass


def _check_variant(variant: str | UnsetType | None, parameters: Object | UnsetType | None) -> None:
    if isinstance(variant, str) and parse_reference(variant, pointer="/variant").workflow is not None:
        raise InvalidValue("Invalid variant: use name or name:3, without a workflow.", pointer="/variant")
    if isinstance(parameters, dict):
        check_parameters_size(parameters)


def _changes(body: ThreadPatch) -> threads.ThreadChanges:
    empty_values: dict[str, Any] = {"pinned": False, "parameters": {}, "inputs": {}}
    title = body.title or None if body.title is not UNSET else UNSET  # An empty title clears it as well.
    names = [name for name in ThreadPatch.__struct_fields__ if name not in ("head", "title")]
    fields: dict[str, Any] = {name: getattr(body, name) for name in names}
    fields = {name: empty_values.get(name) if value is None else value for name, value in fields.items()}
    return threads.ThreadChanges(title=title, **fields)


def _created_response(thread: threads.Thread, settings: Settings) -> HttpResponse:
    return encode_object(thread_view(thread), status=201, location=f"{settings.root_path}/api/threads/{thread.id}")
