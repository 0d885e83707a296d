"""Resolve what a call continues (a response, a conversation, a thread) and its variant, and lock the conversation.

The stored history is authoritative: a message that the client sends repeats it, contradicts it, or is new.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection

from palaver.core.history_validation import HistoryLimits, validate_history
from palaver.core.messages import Message, file_ids, has_files
from palaver.core.runs import Call, Origin
from palaver.engine.engine import new_run_id
from palaver.engine.run_reader import RunReader
from palaver.errors import (
    ConversationNotFound,
    HistoryConflict,
    InvalidValue,
    ItemNotFound,
    StillRunning,
    ThreadNotFound,
)
from palaver.protocols.history_merge import PendingApprovals, new_messages
from palaver.protocols.responses import store
from palaver.protocols.responses.request import ResponsesRequest, continue_history, resolve_references
from palaver.protocols.responses.response_object import response_id
from palaver.protocols.ui_stream.request import UIRequest
from palaver.server import file_references
from palaver.server.auth import Caller
from palaver.server.turn_lock import TurnLock
from palaver.server.variant_resolver import merge_parameters, resolve_variant
from palaver.storage import files, redaction, run_log, runs
from palaver.storage.database import Database
from palaver.storage.idempotency import IdempotentRequest
from palaver.storage.threads import message_tree
from palaver.storage.threads import repository as threads
from palaver.storage.threads.message_tree import Node, assign_node_id
from palaver.storage.threads.repository import Thread
from palaver.workflows.workflow import TurnPolicy, Workflow

THREAD_ID_PREFIX = "conv_"
HEAD = "head"


class ThreadTurn(NamedTuple):
    """New messages, and the message that they follow."""

    parent: str | None
    """The id of the message that `new_messages` follow; without new messages, the one to answer."""
    stored: tuple[Message, ...]
    """The branch that ends with `parent`."""
    new_messages: tuple[Message, ...] = ()


TurnPlan = Callable[[Connection, str, str], ThreadTurn]
"""`plan(db, project, thread)`: the turn, from the current state of the thread."""


def plan_append(parent: str | None, messages: Sequence[Message]) -> TurnPlan:
    """Append messages after `parent` (an id, `head` or None) and answer them; without messages, answer `parent`."""

    def plan(db: Connection, project: str, thread: str) -> ThreadTurn:
        parent_id = threads.require_thread(db, project, thread).head if parent == HEAD else parent
        message_tree.check_parent(db, project, thread, parent_id)
        stored = _messages_up_to(db, project, thread, parent_id)
        PendingApprovals(stored).check(messages)
        return ThreadTurn(parent_id, stored, tuple(messages))

    return plan


def plan_regenerate(message_id: str) -> TurnPlan:
    """Regenerate an answer: answer the message before it again."""

    def plan(db: Connection, project: str, thread: str) -> ThreadTurn:
        if message_tree.get_node(db, project, thread, message_id) is None:
            raise ItemNotFound(message_id, pointer="/again")
        branch = threads.get_branch(db, project, thread, message_id)
        if branch[-1].message.role not in ("assistant", "tool"):
            message = "'again' must be the id of an answer. To answer this message, pass it as 'parent' instead."
            raise InvalidValue(message, pointer="/again")
        return _turn_after(db, project, thread, _without_answer(branch))

    return plan


def plan_answer(message_id: str, sent_messages: Sequence[Message]) -> TurnPlan:
    """Answer a stored message. Raises HistoryConflict if the last user message of `sent_messages` differs from it."""

    def plan(db: Connection, project: str, thread: str) -> ThreadTurn:
        message_tree.check_parent(db, project, thread, message_id)
        stored = _messages_up_to(db, project, thread, message_id)
        workflow = threads.require_thread(db, project, thread).workflow
        # Redacted, as it would have been stored.
        question = _last_user_text(redaction.redact_messages(db, project, workflow, sent_messages))
        if question is not None and question != _last_user_text(stored):
            raise HistoryConflict("The last user message of the request differs from the one stored in the thread.")
        return ThreadTurn(message_id, stored)

    return plan


def plan_ui_chat(sent_messages: Sequence[Message], ui_request: UIRequest) -> TurnPlan:
    """Plan the turn of an AI SDK client. It sends its whole history each time; only new messages are used."""

    def plan(db: Connection, project: str, thread: str) -> ThreadTurn:
        branch = threads.get_branch(db, project, thread)
        target = message_tree.get_node(db, project, thread, ui_request.about) if ui_request.about is not None else None
        if ui_request.regenerates:
            if target is not None:
                branch = threads.get_branch(db, project, thread, target.id)
            return _turn_after(db, project, thread, _without_answer(branch))
        recent = _messages_after_last_answer(sent_messages)
        if target is not None and target.message.role == "user":
            return ThreadTurn(target.parent, _messages_up_to(db, project, thread, target.parent), tuple(recent[-1:]))
        known_ids = {node.message.metadata.get("client_id") for node in branch}
        stored = tuple(node.message for node in branch)
        PendingApprovals(stored).check(_from_last_answer(sent_messages))  # With the message that asked for approval.
        unknown = [message for message in recent if message.id not in known_ids or not message.id]
        unstored = new_messages(stored, unknown)
        return ThreadTurn(branch[-1].id if branch else None, stored, tuple(unstored.values()))

    return plan


def _messages_up_to(db: Connection, project: str, thread: str, node_id: str | None) -> tuple[Message, ...]:
    return tuple(node.message for node in threads.get_branch(db, project, thread, node_id))


def _turn_after(db: Connection, project: str, thread: str, branch: Sequence[Node]) -> ThreadTurn:
    parent_id = branch[-1].id if branch else None
    message_tree.check_parent(db, project, thread, parent_id)
    return ThreadTurn(parent_id, tuple(node.message for node in branch))


def _without_answer(branch: Sequence[Node]) -> Sequence[Node]:
    """Return the branch without the answer at its end: the last assistant and tool messages of one run."""
    end = len(branch)
    while end and branch[end - 1].run == branch[-1].run and branch[end - 1].message.role in ("assistant", "tool"):
        end -= 1
    return branch[:end]


def _last_user_text(messages: Sequence[Message]) -> str | None:
    return next((message.text for message in reversed(messages) if message.role == "user"), None)


def _messages_after_last_answer(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages after the last answer, with the tool results and approvals that clients put into it."""
    return [message for message in _from_last_answer(messages) if message.role != "assistant"]


def _from_last_answer(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages from the last assistant message on; all, if the assistant has not answered."""
    last = max((index for index, message in enumerate(messages) if message.role == "assistant"), default=0)
    return messages[last:]


class ResolvedCall(NamedTuple):
    """A call with the history that it continues."""

    call: Call
    protocol_request: Any
    origin: Origin
    run_id: str | None = None
    """The id of the run, if it has to be known before the run starts: it holds a lock or a claim."""
    added_nodes: Sequence[Node] = ()
    """The messages that it added to a thread."""
    claim: IdempotentRequest | None = None
    """The idempotency claim held by this run."""
    earlier_run: str | None = None
    """The run of an earlier request with the same Idempotency-Key."""


@dataclass(frozen=True, eq=False, repr=False)
class HistoryResolver:
    database: Database
    run_reader: RunReader
    turn_lock: TurnLock
    _: KW_ONLY
    history_limits: HistoryLimits
    now: Callable[[], datetime]

    # Threads, and variants

    async def get_thread(self, project: str, thread_id: str, workflow: Workflow | None) -> Thread:
        """Return a thread of the project. Raises ThreadNotFound, also for a thread of another workflow."""
        thread = await self.database.read(threads.require_thread, project, thread_id)
        if workflow is not None and thread.workflow not in (None, workflow.description.name):
            raise ThreadNotFound(thread_id)
        return thread

    async def apply_variant(
        self,
        project: str,
        workflow: Workflow,
        unresolved: ResolvedCall,
        variant: str | None,
        thread: Thread | None = None,
    ) -> ResolvedCall:
        """Merge the parameters of the call over the parameters of its variant and thread.

        Parameters of a thread are changes to the thread's own variant: they don't apply to another.
        """
        defaults: Mapping[str, Any] = {}
        if thread is not None:
            defaults = thread.parameters if variant in (None, thread.variant) else {}
            variant = variant or thread.variant
        call, origin = unresolved.call, unresolved.origin
        parameters = {**defaults, **call.parameters}
        if variant is not None:
            resolved_variant = await resolve_variant(self.database, project, workflow, variant)
            parameters = merge_parameters(resolved_variant, parameters)
            origin = replace(origin, variant=resolved_variant.reference)
        inputs = {**thread.inputs, **call.inputs} if thread is not None else call.inputs
        return unresolved._replace(call=replace(call, parameters=parameters, inputs=inputs), origin=origin)

    @asynccontextmanager
    async def in_thread(
        self, thread: Thread, workflow: Workflow, policy: TurnPolicy, unresolved: ResolvedCall, plan: TurnPlan
    ) -> AsyncGenerator[ResolvedCall]:
        """Resolve a call that is answered in a thread. Open the run inside the block, as with `responses`."""
        call, protocol_request, origin = unresolved.call, unresolved.protocol_request, unresolved.origin
        project, run = origin.project, unresolved.run_id or new_run_id()
        async with self.turn_lock.hold(project, thread.id, run, policy):
            turn = await self.database.read(_plan_turn, plan, project, thread.id)
            preface = call.messages[: call.preface]
            call = replace(call, messages=(*preface, *turn.stored, *turn.new_messages), session=thread.id)
            # Before anything is stored, raise for a call that the workflow rejects.
            validate_history(call.messages, system=workflow.options.system, limits=self.history_limits)
            workflow.bind(call)
            added_nodes: Sequence[Node] = ()
            if turn.new_messages:
                added_nodes = await self.database.write(
                    threads.append_messages,
                    project,
                    thread.id,
                    turn.parent,
                    turn.new_messages,
                    origin="client",
                    at=self.now(),
                )
                # The stored messages may be redacted; the run gets the original ones.
                messages_with_ids = [
                    assign_node_id(message, node.id)
                    for message, node in zip(turn.new_messages, added_nodes, strict=True)
                ]
                call = replace(call, messages=(*preface, *turn.stored, *messages_with_ids))
            if isinstance(protocol_request, UIRequest):
                protocol_request = with_message_id(protocol_request, run)
            answers = added_nodes[-1].id if added_nodes else turn.parent
            origin = replace(origin, reading=protocol_request, thread=thread.id, answers=answers, stored_messages=())
            yield ResolvedCall(call, protocol_request, origin, run, added_nodes)

    # Responses

    @asynccontextmanager
    async def responses(
        self, caller: Caller, workflow: Workflow, workflow_name: str | None, unresolved: ResolvedCall
    ) -> AsyncGenerator[ResolvedCall]:
        """Resolve a call of the Responses protocol; `workflow_name` is the workflow in its path.

        Open the run inside the block: if that fails, the conversation is unlocked.
        """
        call, protocol_request = unresolved.call, unresolved.protocol_request
        if protocol_request.references:
            run = store.run_of_previous(call.previous) if call.previous is not None else None
            source, references = (run, call.conversation), protocol_request.references
            items = await self.database.read(_find_items, caller.project, references, source)
            body = {"input": protocol_request.unresolved}
            call, protocol_request = resolve_references(call, protocol_request, items)
            if has_files(call.messages):
                messages = await self.database.read(_resolve_files, caller.project, call.messages, body)
                call = replace(call, messages=messages)
        unresolved = unresolved._replace(call=call, protocol_request=protocol_request)
        if call.previous is not None:
            yield await self._after_previous(caller, workflow_name, unresolved)
        elif call.conversation is not None:
            async with self._in_conversation(caller, workflow, unresolved) as resolved:
                yield resolved
        else:
            yield unresolved

    async def _after_previous(
        self, caller: Caller, workflow_name: str | None, unresolved: ResolvedCall
    ) -> ResolvedCall:
        call, protocol_request, origin = unresolved.call, unresolved.protocol_request, unresolved.origin
        assert call.previous is not None
        run = store.run_of_previous(call.previous)
        if self.run_reader.find_active(caller.project, run) is not None:
            await self.run_reader.flush()  # It may not be stored yet.
        chain, messages = await self.database.read(_previous_chain, caller.project, run)
        if not chain or (workflow_name is not None and chain[-1].row.workflow != workflow_name):
            raise store.previous_not_found(call.previous)
        last = chain[-1].row
        if last.is_alive:
            raise StillRunning(f"Response {call.previous!r} is still in progress.", pointer="/previous_response_id")
        preface_length = call.preface
        call, protocol_request = continue_history(call, protocol_request, messages)
        sent_messages = (*call.messages[:preface_length], *call.messages[preface_length + len(messages) :])
        call = replace(call, session=call.session or last.session)
        return unresolved._replace(
            call=call,
            protocol_request=protocol_request,
            origin=replace(origin, previous=run, stored_messages=sent_messages),
        )

    @asynccontextmanager
    async def _in_conversation(
        self, caller: Caller, workflow: Workflow, unresolved: ResolvedCall
    ) -> AsyncGenerator[ResolvedCall]:
        call, protocol_request, origin = unresolved.call, unresolved.protocol_request, unresolved.origin
        project, thread, run = caller.project, call.conversation, unresolved.run_id or new_run_id()
        assert thread is not None
        stored_thread = await self.database.read(threads.get_thread, project, thread)
        if stored_thread is None or stored_thread.workflow not in (None, workflow.description.name):
            raise ConversationNotFound(thread, pointer="/conversation")
        async with self.turn_lock.hold(project, thread, run, workflow.options.turns, noun="conversation"):
            stored = await self.database.read(_branch_messages, project, thread)
            first_new = call.preface + len(stored)
            call, protocol_request = continue_history(call, protocol_request, stored)
            workflow.bind(call)  # Raises before anything is stored.
            question = call.messages[first_new:]
            answers = await self.database.write(_append_question, project, thread, question, self.now())
            call = replace(call, session=call.session or thread)
            yield ResolvedCall(
                call,
                protocol_request,
                replace(origin, thread=thread, answers=answers, stored_messages=call.messages[: call.preface]),
                run,
            )


def with_message_id(ui_request: UIRequest, run: str) -> UIRequest:
    """Set the id of the message that the client receives to that of the first node that the run adds to its thread."""
    if ui_request.message is not None:
        return ui_request
    return replace(ui_request, message=f"msg_{run.removeprefix('run_')}_1")


def _append_question(
    db: Connection, project: str, thread: str, messages: tuple[Message, ...], at: datetime
) -> str | None:
    """Append messages below the head, which moves when they are answered; return the node to answer."""
    if not messages:
        return threads.require_thread(db, project, thread).head
    added = threads.append_messages(db, project, thread, "head", messages, origin="client", at=at, head="stays")
    return added[-1].id


def _plan_turn(db: Connection, plan: TurnPlan, project: str, thread: str) -> ThreadTurn:
    """Plan a turn and look up its files. Raises NotFound for a missing file of a new message."""
    turn = plan(db, project, thread)
    if has_files(turn.new_messages):
        turn = turn._replace(new_messages=file_references.require_files(db, project, turn.new_messages))
    return turn._replace(stored=tuple(files.replace_missing_files(db, project, turn.stored)))


def _resolve_files(db: Connection, project: str, messages: tuple[Message, ...], body: object) -> tuple[Message, ...]:
    """Look up files of a call with item references. Only files that the client sent must exist."""
    sent_ids = {file_id for file_id in file_ids(messages) if file_references.file_pointer(body, file_id) is not None}
    resolved: list[Message] = []
    for message in messages:
        was_sent = not sent_ids.isdisjoint(file_ids([message]))
        resolved += (
            file_references.require_files(db, project, [message], body)
            if was_sent
            else files.replace_missing_files(db, project, [message])
        )
    return tuple(resolved)


def _branch_messages(db: Connection, project: str, thread: str) -> Sequence[Message]:
    return files.replace_missing_files(db, project, [node.message for node in threads.get_branch(db, project, thread)])


def _previous_chain(db: Connection, project: str, run: str) -> tuple[list[runs.StoredRun], Sequence[Message]]:
    chain = run_log.run_chain(db, project, run) or []
    return chain, files.replace_missing_files(db, project, run_log.chain_messages(db, project, chain))


_ItemSource = tuple[str | None, str | None]
"""A run and a thread, one of which may hold an item."""


def _find_items(
    db: Connection, project: str, item_ids: Sequence[str], preferred_source: _ItemSource
) -> Mapping[str, Mapping[str, Any]]:
    """Return the stored items that exist, by id: of the continued conversation, else of any response or thread."""
    items: dict[str, Mapping[str, Any]] = {}
    for item_id in item_ids:
        for run, thread in (preferred_source, *_item_sources(db, project, item_id)):
            if item_id not in items:
                items |= _source_items(db, project, run, thread)
    return items


def _item_sources(db: Connection, project: str, item_id: str) -> list[_ItemSource]:
    """Return where an item may be: the run whose id is part of the item's, and threads with a node of that id."""
    run_suffix = item_id.partition("_")[2].partition("_")[0]
    return [
        (f"run_{run_suffix}", None),
        *((None, thread) for thread in run_log.find_threads_with_message(db, project, item_id)),
    ]


def _source_items(db: Connection, project: str, run: str | None, thread: str | None) -> Mapping[str, Mapping[str, Any]]:
    if thread is not None and threads.get_thread(db, project, thread) is not None:
        branch = threads.get_branch(db, project, thread)
        return store.items_by_id(store.message_items([node.message for node in branch], thread))
    stored_run = runs.get_stored_run(db, project, run) if run is not None else None
    if stored_run is None or not stored_run.row.stored:
        return {}
    reply = stored_run.reply.messages if stored_run.reply is not None else ()
    messages = [*(run_log.messages_seen_by(db, project, stored_run) or ()), *reply]
    items = store.items_by_id(store.message_items(messages, response_id(stored_run.row.id)))
    log = runs.read_events(db, project, stored_run.row.id)
    return items | store.output_items(log, msgspec.convert(stored_run.reading, ResponsesRequest))
