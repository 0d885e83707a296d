"""Stored responses and conversations of OpenAI's API: read, resume, cancel, delete and list their items.

Objects of another project are reported as not found; below `/{w}`, also those of another workflow.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection

from palaver.core.events import Event, RunStarted
from palaver.core.history import validate_history
from palaver.core.messages import Message, has_files
from palaver.engine.ids import new_id
from palaver.engine.run_reader import RunReader
from palaver.errors import (
    ConversationLocked,
    ConversationNotFound,
    NotCancellable,
    ResponseNotFound,
    RunNotFound,
    StillRunning,
)
from palaver.protocols import history
from palaver.protocols.base import HttpRequest, HttpResponse
from palaver.protocols.responses import adapter as responses
from palaver.protocols.responses import conversations, item_pages, store
from palaver.protocols.responses.conversations import ConversationInput
from palaver.protocols.responses.item_pages import StoredItem
from palaver.protocols.responses.request import ResponsesRequest
from palaver.server import file_references
from palaver.server.replay import replay_events
from palaver.server.request import Exchange
from palaver.server.settings import Settings
from palaver.server.streaming import pad_deltas
from palaver.storage import run_history, runs
from palaver.storage.database import Database
from palaver.storage.runs import StoredRun
from palaver.storage.threads import repository as threads
from palaver.storage.threads.message_tree import Node
from palaver.storage.threads.repository import NewThread, Thread, ThreadChanges, lock_thread_row


class StoredResponses:
    """The handlers. Each returns the response, or None if it has sent a stream itself."""

    def __init__(
        self, settings: Settings, database: Database, records: RunReader, *, now: Callable[[], datetime]
    ) -> None:
        self._settings = settings
        self._database = database
        self._records = records
        self._now = now

    # Responses

    async def response(self, exchange: Exchange, request: HttpRequest) -> HttpResponse | None:
        """GET and DELETE /responses/{id}."""
        project, name = exchange.caller.project, request.parameters["id"]
        asked = store.parse_query(request) if request.method != "DELETE" else None
        found = await self._found(project, name, request.workflow)
        if asked is None:
            return await self._delete(project, found)
        if not asked.stream:
            return _response_answer(found, await self._records.read_log_of(found.row))
        reading, started = _decode_reading(found), _run_started(found)
        following = self._records.follow(project, found.row.id)
        frames = store.resumed_encoder(reading, asked.after)
        frames = pad_deltas(frames) if self._settings.obfuscate else frames
        await replay_events(
            exchange, responses.stream_head(started), frames, following, stall=self._settings.stream_stall
        )
        return None

    async def cancel(self, exchange: Exchange, request: HttpRequest) -> HttpResponse:
        """POST /responses/{id}/cancel. Can be repeated."""
        project, name = exchange.caller.project, request.parameters["id"]
        found = await self._found(project, name, request.workflow)
        if found.row.is_alive:
            await self._records.cancel(project, found.row.id)
            found = await self._found(project, name, request.workflow)
        if found.row.status != "cancelled":
            raise NotCancellable(f"The response {name!r} has ended and cannot be cancelled any more.")
        return _response_answer(found, await self._records.read_log_of(found.row))

    async def input_items(self, exchange: Exchange, request: HttpRequest) -> HttpResponse:
        """GET /responses/{id}/input_items."""
        asked = item_pages.parse_page_query(request)
        project, name = exchange.caller.project, request.parameters["id"]
        found = await self._found(project, name, request.workflow)
        seen = await self._database.read(run_history.messages_seen_by, project, found)
        if seen is None:
            raise ResponseNotFound(name)  # A previous response was deleted.
        return item_pages.page_response(item_pages.message_items(seen, name), asked)

    async def _found(self, project: str, name: str, workflow: str | None) -> StoredRun:
        try:
            found = await self._records.get_run(project, store.run_of_response(name))
        except RunNotFound:
            raise ResponseNotFound(name) from None
        if not found.row.stored or workflow not in (None, found.row.workflow):
            raise ResponseNotFound(name)
        return found

    async def _delete(self, project: str, found: StoredRun) -> HttpResponse:
        if found.row.is_alive:
            raise StillRunning("The response has not ended: cancel it first.")
        await self._database.write(runs.delete_runs, project, [found.row.id])
        return store.deleted_response(found.row.id)

    # Conversations

    async def conversations(self, exchange: Exchange, request: HttpRequest) -> HttpResponse:
        """POST /conversations."""
        given = await self._with_files(exchange, request, conversations.parse_create(request))
        validate_history(given.messages, system="keep", bounds=self._settings.history_bounds)  # As in _append_items.
        thread = NewThread(
            id=new_id("conv"), at=self._now(), origin="api", workflow=request.workflow, metadata=given.metadata
        )
        made = await self._database.write(threads.create_thread, exchange.caller.project, thread, given.messages)
        return _conversation_answer(made)

    async def conversation(self, exchange: Exchange, request: HttpRequest) -> HttpResponse:
        """GET, POST and DELETE /conversations/{id}."""
        project, name = exchange.caller.project, request.parameters["id"]
        metadata = conversations.parse_metadata_update(request) if request.method == "POST" else None
        found = await self._thread(project, request)
        if metadata is not None:
            found = await self._database.write(threads.update_thread, project, name, ThreadChanges(metadata=metadata))
        if request.method == "DELETE":
            await self._database.write(threads.delete_thread, project, name)
            return conversations.deleted_conversation_response(name)
        return _conversation_answer(found)

    async def items(self, exchange: Exchange, request: HttpRequest) -> HttpResponse:
        """GET and POST /conversations/{id}/items."""
        project, name = exchange.caller.project, request.parameters["id"]
        given: ConversationInput | None = None
        if request.method == "POST":
            given = await self._with_files(exchange, request, conversations.parse_added_items(request))
        asked = item_pages.parse_page_query(request) if given is None else None
        await self._thread(project, request)
        if given is None:
            branch = await self._database.read(threads.get_branch, project, name)
            assert asked is not None
            return item_pages.page_response(_branch_items(branch, name), asked)
        made, branch = await self._database.write(_append_items, project, name, given.messages, self._now())
        new = {node.id for node in made}
        return item_pages.all_items_response(
            [item for item in _branch_items(branch, name) if branch[item.message].id in new]
        )

    async def item(self, exchange: Exchange, request: HttpRequest) -> HttpResponse:
        """GET and DELETE /conversations/{id}/items/{item}."""
        project, name, wanted = exchange.caller.project, request.parameters["id"], request.parameters["item"]
        await self._thread(project, request)
        if request.method != "DELETE":
            branch = await self._database.read(threads.get_branch, project, name)
            return item_pages.item_response(item_pages.find_item(_branch_items(branch, name), wanted))
        await self._database.write(_remove_item, project, name, wanted, self._now())
        return _conversation_answer(await self._thread(project, request))

    async def _with_files(
        self, exchange: Exchange, request: HttpRequest, given: ConversationInput
    ) -> ConversationInput:
        """Look up the files of new messages. Raises NotFound for a missing one."""
        if not has_files(given.messages):
            return given
        host, root_path = exchange.headers["host"], self._settings.root_path
        messages = file_references.resolve_file_urls(given.messages, host=host, root_path=root_path)
        messages = await self._database.read(
            file_references.require_files, exchange.caller.project, messages, request.body
        )
        return given._replace(messages=messages)

    async def _thread(self, project: str, request: HttpRequest) -> Thread:
        name = request.parameters["id"]
        found = await self._database.read(threads.get_thread, project, name)
        if found is None or (request.workflow is not None and found.workflow not in (None, request.workflow)):
            raise ConversationNotFound(name)
        return found


def _response_answer(found: StoredRun, log: Sequence[Event]) -> HttpResponse:
    running = "queued" if found.row.status == "queued" else "in_progress"
    return store.stored_response(log, _decode_reading(found), started=_run_started(found), status_if_running=running)


def _decode_reading(found: StoredRun) -> ResponsesRequest:
    return msgspec.convert(found.reading, ResponsesRequest)


def _run_started(found: StoredRun) -> RunStarted:
    row = found.row
    return RunStarted(0, row.id, row.session, row.created_at, row.trace_id or "")


def _conversation_answer(thread: Thread) -> HttpResponse:
    return conversations.conversation_response(thread.id, thread.created_at, _text_metadata(thread.metadata))


def _text_metadata(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    return {name: value for name, value in metadata.items() if isinstance(value, str)}


def _branch_items(branch: Sequence[Node], thread: str) -> list[StoredItem]:
    return item_pages.message_items([node.message for node in branch], thread)


def _append_items(
    db: Connection, project: str, thread: str, messages: tuple[Message, ...], at: datetime
) -> tuple[list[Node], list[Node]]:
    """Append new messages to a conversation; return their nodes, and the whole branch."""
    if lock_thread_row(db, project, thread).run is not None:  # Its answer would end up on another branch.
        raise ConversationLocked(f"A turn runs in the conversation {thread!r}: wait until it has ended.")
    stored = tuple(node.message for node in threads.get_branch(db, project, thread))
    fresh = tuple(history.new_messages(stored, messages).values())
    validate_history((*stored, *fresh), system="keep")  # Raises for a result without its call.
    made = threads.append_messages(db, project, thread, "head", fresh, origin="client", at=at)
    return made, threads.get_branch(db, project, thread)


def _remove_item(db: Connection, project: str, thread: str, wanted: str, at: datetime) -> None:
    """Delete an item: its message is removed, or replaced by one with its other items.

    A tool call is deleted with its result: without the call, the history would be invalid.
    """
    branch = threads.get_branch(db, project, thread)
    items = _branch_items(branch, thread)
    item = item_pages.find_item(items, wanted)
    for gone in (item, *_call_outputs(items, item)):
        node = branch[gone.message]
        left = item_pages.without_item(node.message, gone)
        if left is None:
            threads.delete_message(db, project, thread, node.id, below="keep", at=at)
        else:
            run_history.replace_message(db, project, thread, node, left)


def _call_outputs(items: Sequence[StoredItem], call: StoredItem) -> list[StoredItem]:
    """The result of a tool call, if any; after its result, the id of a call may be used again."""
    if call.item["type"] != "function_call":
        return []
    later = items[items.index(call) + 1 :]
    same = next((item for item in later if item.item.get("call_id") == call.item["call_id"]), None)
    return [same] if same is not None and same.item["type"] == "function_call_output" else []
