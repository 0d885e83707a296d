"""/api/threads: conversations with branches. Their messages are in thread_messages.py, files in thread_files.py."""

from typing import Annotated, Any

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.params import FromPath, FromQuery
from msgspec import UNSET, Meta, UnsetType
from sqlalchemy import Connection

from palaver.core import dialects
from palaver.core.boards import Cell as BoardCell
from palaver.core.history import HistoryLimits, check_history_limits, validate_history
from palaver.core.messages import Message, has_files
from palaver.core.variants import check_parameters_size, parse_reference
from palaver.discovery.registry import Registry
from palaver.errors import InvalidValue
from palaver.protocols.base import HttpResponse
from palaver.server import file_references
from palaver.server.api.conventions import (
    After,
    Asked,
    Filter,
    Limit,
    Search,
    answer,
    caller_of,
    new_id,
    read_body,
    shown_as,
    takes,
    unless_stale,
    utc_now,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.api.idempotency import once
from palaver.server.api.thread_views import ThreadSummary, ThreadView, summary, view
from palaver.server.settings import Settings
from palaver.storage import boards
from palaver.storage.database import Database
from palaver.storage.pagination import Page, Window
from palaver.storage.spans import retention as span_erasing
from palaver.storage.threads import copies as thread_copies
from palaver.storage.threads import repository as threads
from palaver.storage.threads.copies import Branches
from palaver.storage.threads.repository import MAX_TITLE_LENGTH, NewThread, Thread, ThreadChanges, ThreadFilters

Title = Annotated[str, Meta(max_length=MAX_TITLE_LENGTH)]
Workflow = Annotated[str, Meta(max_length=64)]
Object = dict[str, Any]
_Id = Annotated[str, Meta(max_length=64, pattern=r"^[^\x00]*$")]
MOST_MESSAGES = 2_000
"""That a thread may begin with."""
_AT_ONCE = 500
"""Runs of which the traces are erased together."""


class Cell(msgspec.Struct, frozen=True):
    """The cell of a board that a thread is for."""

    board: _Id
    row: _Id
    column: _Id


class MakeThread(msgspec.Struct, frozen=True, kw_only=True):
    """The body that makes a thread."""

    workflow: Workflow
    variant: str | None = None
    parameters: Object = {}
    inputs: Object = {}
    title: Title | None = None
    messages: Any = ()
    """A list in any dialect that we read."""
    cell: Cell | None = None


class Through(msgspec.Struct, frozen=True):
    """The end of the branch that was last current below a node."""

    through: str


class ChangeThread(msgspec.Struct, frozen=True, kw_only=True):
    """The body that changes a thread: what is absent stays, null clears."""

    title: Title | UnsetType | None = UNSET
    pinned: bool | UnsetType | None = UNSET
    workflow: Workflow | UnsetType | None = UNSET
    variant: str | UnsetType | None = UNSET
    parameters: Object | UnsetType | None = UNSET
    inputs: Object | UnsetType | None = UNSET
    head: str | Through | UnsetType | None = UNSET


class Duplicate(msgspec.Struct, frozen=True, kw_only=True):
    """The body that copies a thread, or forks it."""

    upto: str | None = None
    branches: Branches = "current"
    workflow: Workflow | UnsetType | None = UNSET
    variant: str | UnsetType | None = UNSET
    title: Title | UnsetType | None = UNSET


class ThreadController(ApiController):
    path = "/api/threads"

    database: Database
    settings: Settings
    registry: Registry

    @get(operation_id="list_threads", summary="Threads, those in which something was said last first")
    async def list_threads(
        self,
        request: Asked,
        search: Search = None,
        workflow: Filter = None,
        pinned: FromQuery[bool | None] = None,
        origin: Filter = None,
        limit: Limit = 50,
        after: After = None,
    ) -> Page[ThreadSummary]:
        filters = ThreadFilters(search=search, workflow=workflow, pinned=pinned, origin=origin)
        found = await self.database.read(
            threads.list_threads, caller_of(request).project, filters, Window(limit, after)
        )
        return found.map(summary)

    @post(operation_id="make_thread", summary="A new thread", operation_class=takes(MakeThread))
    async def make_thread(self, request: Asked) -> Response[ThreadView]:
        raw, given = await read_body(request, self.settings, MakeThread)
        self.registry.find(given.workflow)
        _check(given.variant, given.parameters)
        messages = said(request, given.messages, self.settings, most=MOST_MESSAGES)
        check_results(messages, 0)
        project, name, now = caller_of(request).project, new_id("conv"), utc_now()
        wanted = NewThread(
            id=name,
            at=now,
            workflow=given.workflow,
            variant=given.variant,
            parameters=given.parameters,
            inputs=given.inputs,
            title=given.title or None,
            board=given.cell.board if given.cell else None,
        )

        def work(db: Connection) -> HttpResponse:
            made = threads.create_thread(db, project, wanted, with_files(db, project, messages, raw))
            if given.cell is not None:
                filled = BoardCell(row=given.cell.row, column=given.cell.column, thread=name)
                boards.fill_cells(db, project, given.cell.board, [filled])
            return _made(made, self.settings)

        return await once(request, self.database, raw, work)

    @get("/{thread:str}", operation_id="get_thread", summary="One thread")
    async def get_thread(self, request: Asked, thread: FromPath[str]) -> Response[ThreadView]:
        found = await self.database.read(threads.require_thread, caller_of(request).project, thread)
        return answer(request, view(found))

    @patch(
        "/{thread:str}",
        operation_id="change_thread",
        summary="Its title, what its runs are given, its current branch",
        operation_class=takes(ChangeThread),
    )
    async def change_thread(self, request: Asked, thread: FromPath[str]) -> Response[ThreadView]:
        _, given = await read_body(request, self.settings, ChangeThread)
        if isinstance(given.workflow, str):
            self.registry.find(given.workflow)
        _check(given.variant, given.parameters)
        project, check = caller_of(request).project, unless_stale(request, view)

        def work(db: Connection) -> Thread:
            check(threads.require_thread(db, project, thread))
            changed = threads.update_thread(db, project, thread, _changes(given))
            match given.head:
                case UnsetType():
                    return changed
                case Through(through=node):
                    return threads.move_head(db, project, thread, node, through=True)
                case node:
                    return threads.move_head(db, project, thread, node)

        return answer(request, view(await self.database.write(work)))

    @delete(
        "/{thread:str}",
        operation_id="delete_thread",
        summary="Erase it, and its runs; with traces, what they left there as well",
    )
    async def delete_thread(self, request: Asked, thread: FromPath[str], *, traces: FromQuery[bool] = False) -> None:
        project, check = caller_of(request).project, unless_stale(request, view)

        def work(db: Connection) -> list[str]:
            check(threads.require_thread(db, project, thread))
            return threads.delete_thread(db, project, thread)

        of_runs = await self.database.write(work)
        if traces:
            await _erase_traces(self.database, project, thread, of_runs)

    @post(
        "/{thread:str}/duplicate",
        operation_id="duplicate_thread",
        summary="A copy, or a fork at a message",
        operation_class=takes(Duplicate),
    )
    async def duplicate_thread(self, request: Asked, thread: FromPath[str]) -> Response[ThreadView]:
        raw, given = await read_body(request, self.settings, Duplicate)
        if isinstance(given.workflow, str):
            self.registry.find(given.workflow)
        _check(given.variant, UNSET)
        changes = ThreadChanges(title=given.title or UNSET, workflow=given.workflow, variant=given.variant)
        project, name, now = caller_of(request).project, new_id("conv"), utc_now()

        def work(db: Connection) -> HttpResponse:
            made = thread_copies.duplicate_thread(
                db, project, thread, id=name, at=now, upto=given.upto, branches=given.branches, changes=changes
            )
            return _made(made, self.settings)

        return await once(request, self.database, raw, work)


def said(request: Asked, given: Any, settings: Settings, *, most: int) -> list[Message]:
    """The messages of a body, in any dialect, within their limits."""
    messages = dialects.read(given) if given else []
    if has_files(messages):
        host = request.headers.get("host", "")
        messages = list(file_references.resolve_file_urls(messages, host=host, root_path=settings.root_path))
    if len(messages) > most:
        raise InvalidValue(f"There are {len(messages)} messages; at most {most} are taken.", pointer="/messages")
    check_history_limits(messages, settings.history_limits)
    return messages


def with_files(db: Connection, project: str, messages: list[Message], raw: bytes) -> list[Message]:
    """The messages of a body with the files that they name; NotFound for one that the project does not have."""
    return list(file_references.require_files(db, project, messages, raw)) if has_files(messages) else messages


_ANY = HistoryLimits(messages=1 << 30, parts=1 << 30, files=1 << 30, file=1 << 60)


def check_results(messages: list[Message], new: int) -> None:
    """Raise for a tool's result, among the messages from `new` on, that answers no call of those before it."""
    if any(message.tool_results for message in messages[new:]):
        validate_history(messages, limits=_ANY)


async def _erase_traces(database: Database, project: str, thread: str, of_runs: list[str]) -> None:
    """What a thread left in the traces: that of its runs, and what others sent that names it as its session."""
    for first in range(0, len(of_runs), _AT_ONCE):
        while await database.write(span_erasing.delete_run_spans, project, of_runs[first : first + _AT_ONCE]):
            pass
    while await database.write(span_erasing.delete_labelled, project, "session", thread):
        pass


def _check(variant: str | UnsetType | None, parameters: Object | UnsetType | None) -> None:
    if isinstance(variant, str) and parse_reference(variant, pointer="/variant").workflow is not None:
        raise InvalidValue("A thread's variant is one of its workflow's: give name or name:3.", pointer="/variant")
    if isinstance(parameters, dict):
        check_parameters_size(parameters)


def _changes(given: ChangeThread) -> ThreadChanges:
    cleared: dict[str, Any] = {"pinned": False, "parameters": {}, "inputs": {}}
    given_title = given.title or None if given.title is not UNSET else UNSET  # No title is none, however it is said.
    names = [name for name in ChangeThread.__struct_fields__ if name not in ("head", "title")]
    fields: dict[str, Any] = {name: getattr(given, name) for name in names}
    fields = {name: cleared.get(name) if value is None else value for name, value in fields.items()}
    return ThreadChanges(title=given_title, **fields)


def _made(thread: Thread, settings: Settings) -> HttpResponse:
    return shown_as(view(thread), status=201, location=f"{settings.root_path}/api/threads/{thread.id}")
