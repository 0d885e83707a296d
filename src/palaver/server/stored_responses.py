"""Stored responses and conversations of OpenAI's API: read, resume, cancel, delete and list their items.

Objects of another project are reported as not found; below `/{w}`, also those of another workflow.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime

import msgspec
from sqlalchemy import Connection

from palaver.core.events import Event
from palaver.core.history_validation import validate_history
from palaver.core.messages import Message, has_files
from palaver.engine.engine import new_id
from palaver.engine.run_reader import RunReader, started_event
from palaver.errors import (
    ConversationLocked,
    ConversationNotFound,
    NotCancellable,
    ResponseNotFound,
    RunNotFound,
    StillRunning,
)
from palaver.protocols import history_merge
from palaver.protocols.base import HttpRequest, HttpResponse
from palaver.protocols.responses import adapter as responses
from palaver.protocols.responses import store
from palaver.protocols.responses.conversations import (
    ConversationInput,
    conversation_response,
    deleted_conversation_response,
    parse_added_items,
    parse_create,
    parse_metadata_update,
)
from palaver.protocols.responses.request import ResponsesRequest
from palaver.server import file_references
from palaver.server.obfuscation import pad_deltas
from palaver.server.replay import replay_events
from palaver.server.request import Exchange
from palaver.server.settings import Settings
from palaver.storage import run_log, runs
from palaver.storage.database import Database
from palaver.storage.runs import StoredRun
from palaver.storage.threads import repository as threads
from palaver.storage.threads.message_tree import Node
from palaver.storage.threads.repository import NewThread, Thread, ThreadChanges, lock_thread_row


@dataclass(frozen=True, eq=False, repr=False)
class StoredResponses:
    """Handlers of the routes. Each returns the response, or None if it has sent a stream itself."""

    settings: Settings
    database: Database
    run_reader: RunReader
    _: KW_ONLY
    now: Callable[[], datetime]

    # Responses

    async def response(self, exchange: Exchange, request: HttpRequest) -> HttpResponse | None:
        """GET and DELETE /responses/{id}."""
        project, response_id = exchange.caller.project, request.parameters["id"]
        query = store.parse_query(request) if request.method != "DELETE" else None
        stored = await self._get_stored(project, response_id, request.workflow)
        if query is None:
            return await self._delete(project, stored)
        if not query.stream:
            return _encode_response(stored, await self.run_reader.read_log_of(stored.row))
        protocol_request, started = _decode_request(stored), started_event(stored.row)
        batches = self.run_reader.follow(project, stored.row.id)
        encode = store.resumed_encoder(protocol_request, query.after)
        encode = pad_deltas(encode) if self.settings.obfuscate else encode
        await replay_events(exchange, responses.stream_head(started), encode, batches, stall=self.settings.stream_stall)
        return None

    async def cancel(self, exchange: Exchange, request: HttpRequest) -> HttpResponse:
        """POST /responses/{id}/cancel. Can be repeated."""
        project, response_id = exchange.caller.project, request.parameters["id"]
        stored = await self._get_stored(project, response_id, request.workflow)
        if stored.row.is_alive:
            await self.run_reader.cancel(project, stored.row.id)
            stored = await self._get_stored(project, response_id, request.workflow)
        if stored.row.status != "cancelled":
            raise NotCancellable(f"Response {response_id!r} has already ended and cannot be cancelled.")
        return _encode_response(stored, await self.run_reader.read_log_of(stored.row))

    async def input_items(self, exchange: Exchange, request: HttpRequest) -> HttpResponse:
        """GET /responses/{id}/input_items."""
        query = store.parse_page_query(request)
        project, response_id = exchange.caller.project, request.parameters["id"]
        stored = await self._get_stored(project, response_id, request.workflow)
        messages = await self.database.read(run_log.messages_seen_by, project, stored)
        if messages is None:
            raise ResponseNotFound(response_id)  # A previous response was deleted.
        return store.page_response(store.message_items(messages, response_id), query)

    async def _get_stored(self, project: str, response_id: str, workflow: str | None) -> StoredRun:
        try:
            stored = await self.run_reader.get_run(project, store.run_of_response(response_id))
        except RunNotFound:
            raise ResponseNotFound(response_id) from None
        if not stored.row.stored or workflow not in (None, stored.row.workflow):
            raise ResponseNotFound(response_id)
        return stored

    async def _delete(self, project: str, stored: StoredRun) -> HttpResponse:
        if stored.row.is_alive:
            raise StillRunning("The response is still in progress. Cancel it first.")
        await self.database.write(runs.delete_runs, project, [stored.row.id])
        return store.deleted_response(stored.row.id)

    # Conversations

    async def conversations(self, exchange: Exchange, request: HttpRequest) -> HttpResponse:
        """POST /conversations."""
        content = await self._resolve_files(exchange, request, parse_create(request))
        validate_history(content.messages, system="keep", limits=self.settings.history_limits)  # As in _append_items.
        thread = NewThread(
            id=new_id("conv"), at=self.now(), origin="api", workflow=request.workflow, metadata=content.metadata
        )
        created = await self.database.write(threads.create_thread, exchange.caller.project, thread, content.messages)
        return _encode_conversation(created)

    async def conversation(self, exchange: Exchange, request: HttpRequest) -> HttpResponse:
        """GET, POST and DELETE /conversations/{id}."""
        project, thread_id = exchange.caller.project, request.parameters["id"]
        metadata = parse_metadata_update(request) if request.method == "POST" else None
        stored = await self._require_thread(project, request)
        if metadata is not None:
            changes = ThreadChanges(metadata=metadata)
            stored = await self.database.write(threads.update_thread, project, thread_id, changes)
        if request.method == "DELETE":
            await self.database.write(threads.delete_thread, project, thread_id)
            return deleted_conversation_response(thread_id)
        return _encode_conversation(stored)

    async def items(self, exchange: Exchange, request: HttpRequest) -> HttpResponse:
        """GET and POST /conversations/{id}/items."""
        project, thread_id = exchange.caller.project, request.parameters["id"]
        content: ConversationInput | None = None
        if request.method == "POST":
            content = await self._resolve_files(exchange, request, parse_added_items(request))
        query = store.parse_page_query(request) if content is None else None
        await self._require_thread(project, request)
        if content is None:
            branch = await self.database.read(threads.get_branch, project, thread_id)
            assert query is not None
            return store.page_response(_branch_items(branch, thread_id), query)
        created, branch = await self.database.write(_append_items, project, thread_id, content.messages, self.now())
        created_ids = {node.id for node in created}
        items = _branch_items(branch, thread_id)
        return store.all_items_response([item for item in items if branch[item.message].id in created_ids])

    async def item(self, exchange: Exchange, request: HttpRequest) -> HttpResponse:
        """GET and DELETE /conversations/{id}/items/{item}."""
        project, thread_id, item_id = exchange.caller.project, request.parameters["id"], request.parameters["item"]
        await self._require_thread(project, request)
        if request.method != "DELETE":
            branch = await self.database.read(threads.get_branch, project, thread_id)
            return store.item_response(store.find_item(_branch_items(branch, thread_id), item_id))
        await self.database.write(_remove_item, project, thread_id, item_id, self.now())
        return _encode_conversation(await self._require_thread(project, request))

    async def _resolve_files(
        self, exchange: Exchange, request: HttpRequest, content: ConversationInput
    ) -> ConversationInput:
        """Look up the files of new messages. Raises NotFound for a missing one."""
        if not has_files(content.messages):
            return content
        host, root_path = exchange.headers["host"], self.settings.root_path
        messages = file_references.resolve_file_urls(content.messages, host=host, root_path=root_path)
        messages = await self.database.read(
            file_references.require_files, exchange.caller.project, messages, request.body
        )
        return content._replace(messages=messages)

    async def _require_thread(self, project: str, request: HttpRequest) -> Thread:
        thread_id = request.parameters["id"]
        stored = await self.database.read(threads.get_thread, project, thread_id)
        if stored is None or (request.workflow is not None and stored.workflow not in (None, request.workflow)):
            raise ConversationNotFound(thread_id)
        return stored


def _encode_response(stored: StoredRun, log: Sequence[Event]) -> HttpResponse:
    status = "queued" if stored.row.status == "queued" else "in_progress"
    return store.stored_response(
        log, _decode_request(stored), started=started_event(stored.row), status_if_running=status
    )


def _decode_request(stored: StoredRun) -> ResponsesRequest:
    return msgspec.convert(stored.reading, ResponsesRequest)


def _encode_conversation(thread: Thread) -> HttpResponse:
    metadata = {name: value for name, value in thread.metadata.items() if isinstance(value, str)}
    return conversation_response(thread.id, thread.created_at, metadata)


def _branch_items(branch: Sequence[Node], thread: str) -> list[store.StoredItem]:
    return store.message_items([node.message for node in branch], thread)


def _append_items(
    db: Connection, project: str, thread: str, messages: tuple[Message, ...], at: datetime
) -> tuple[list[Node], list[Node]]:
    """Append new messages to a conversation; return their nodes, and the whole branch."""
    if lock_thread_row(db, project, thread).run is not None:  # Its answer would end up on another branch.
        raise ConversationLocked(f"Conversation {thread!r} already has a run in progress. Wait for it to finish.")
    stored = tuple(node.message for node in threads.get_branch(db, project, thread))
    new_messages = tuple(history_merge.new_messages(stored, messages).values())
    validate_history((*stored, *new_messages), system="keep")  # Raises for a result without its call.
    created = threads.append_messages(db, project, thread, "head", new_messages, origin="client", at=at)
    return created, threads.get_branch(db, project, thread)


def _remove_item(db: Connection, project: str, thread: str, item_id: str, at: datetime) -> None:
    """Delete an item: its message is removed, or replaced by one with its other items.

    A tool call is deleted with its result: without the call, the history would be invalid.
    """
    branch = threads.get_branch(db, project, thread)
    items = _branch_items(branch, thread)
    item = store.find_item(items, item_id)
    for removed in (item, *_call_outputs(items, item)):
        node = branch[removed.message]
        remaining_message = store.without_item(node.message, removed)
        if remaining_message is None:
            threads.delete_message(db, project, thread, node.id, below="keep", at=at)
        else:
            run_log.replace_message(db, project, thread, node, remaining_message)


def _call_outputs(items: Sequence[store.StoredItem], call: store.StoredItem) -> list[store.StoredItem]:
    """Return the result of a tool call, if any; after its result, the id of a call may be used again."""
    if call.item["type"] != "function_call":
        return []
    following_items = items[items.index(call) + 1 :]
    result = next((item for item in following_items if item.item.get("call_id") == call.item["call_id"]), None)
    return [result] if result is not None and result.item["type"] == "function_call_output" else []
