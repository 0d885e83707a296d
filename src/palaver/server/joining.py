"""What a call goes on from, and what its answer joins: a response before it, a conversation, a thread of the page's.

What is stored is the truth; what a client sends beside it is a copy, a contradiction, or new.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, NamedTuple

from msgspec.structs import replace
from sqlalchemy import Connection

from palaver.core.calls import Call
from palaver.core.files import file_ids, has_files
from palaver.core.history import Bounds, believed
from palaver.core.messages import Message
from palaver.core.origins import Origin
from palaver.engine.ids import new_run_id
from palaver.engine.run_reader import RunReader
from palaver.errors import ConversationNotFound, ItemNotFound, StillRunning, ThreadNotFound
from palaver.protocols import item_pages, response_history, response_store
from palaver.protocols.response_object import response_id
from palaver.protocols.ui_client import Client
from palaver.server import filing, variants
from palaver.server.callers import Caller
from palaver.server.thread_turns import Look, Turn
from palaver.server.turns import Turns
from palaver.storage import files, run_history, runs
from palaver.storage.database import Database
from palaver.storage.idempotency import IdempotentRequest
from palaver.storage.threads import repository as threads
from palaver.storage.threads.message_tree import Node, with_node_id
from palaver.storage.threads.repository import Thread
from palaver.workflows.options import TurnPolicy
from palaver.workflows.workflow import Workflow


class Joined(NamedTuple):
    """A call that knows all it goes on from."""

    call: Call
    reading: Any
    origin: Origin
    run_id: str | None = None
    """The run that holds the conversation, which has a name before it starts."""
    said: Sequence[Node] = ()
    """What it put into a thread before it was answered."""
    once: IdempotentRequest | None = None
    """What it is done once for, under that run's name."""
    said_before: str | None = None
    """The run that was begun for the same before."""


class Joining:
    """Looks up what calls refer to."""

    def __init__(
        self, database: Database, records: RunReader, turns: Turns, *, bounds: Bounds, now: Callable[[], datetime]
    ) -> None:
        self._database = database
        self._records = records
        self._turns = turns
        self._bounds = bounds
        self._now = now

    # Threads, and variants

    async def thread(self, project: str, name: str, workflow: Workflow | None) -> Thread:
        """A thread of that project and, if it has one, that workflow; ThreadNotFound for any other."""
        found = await self._database.read(threads.require_thread, project, name)
        if workflow is not None and found.workflow not in (None, workflow.description.name):
            raise ThreadNotFound(name)
        return found

    async def with_variant(
        self, project: str, workflow: Workflow, asked: Joined, variant: str | None, thread: Thread | None = None
    ) -> Joined:
        """The call with what its variant sets below its own parameters, and what its thread has for its runs.

        What a thread sets beside its variant are changes to that one: they do not go with another.
        """
        own: Mapping[str, Any] = {}
        if thread is not None:
            own = thread.parameters if variant in (None, thread.variant) else {}
            variant = variant or thread.variant
        call, origin = asked.call, asked.origin
        parameters = {**own, **call.parameters}
        if variant is not None:
            found = await variants.resolve(self._database, project, workflow, variant)
            parameters, origin = variants.laid_over(found, parameters), replace(origin, variant=found.reference)
        inputs = {**thread.inputs, **call.inputs} if thread is not None else call.inputs
        return asked._replace(call=replace(call, parameters=parameters, inputs=inputs), origin=origin)

    @asynccontextmanager
    async def in_thread(
        self, thread: Thread, workflow: Workflow, policy: TurnPolicy, asked: Joined, look: Look
    ) -> AsyncGenerator[Joined]:
        """A call that answers in a thread. The run is to be opened inside of the block, as for `responses`."""
        call, reading, origin = asked.call, asked.reading, asked.origin
        project, run = origin.project, asked.run_id or new_run_id()
        async with self._turns.taken(project, thread.id, run, policy):
            turn = await self._database.read(_looked, look, project, thread.id)
            preface = call.messages[: call.preface]
            call = replace(call, messages=(*preface, *turn.stored, *turn.said), session=thread.id)
            # What it cannot take is said before anything is kept.
            believed(call.messages, system=workflow.options.system, bounds=self._bounds)
            workflow.bind(call)
            made: Sequence[Node] = ()
            if turn.said:
                made = await self._database.write(_say, project, thread.id, turn, self._now())
                # What may be kept of it can be less than what is answered.
                said = [with_node_id(message, node.id) for message, node in zip(turn.said, made, strict=True)]
                call = replace(call, messages=(*preface, *turn.stored, *said))
            reading = in_thread(reading, run) if isinstance(reading, Client) else reading
            answers = made[-1].id if made else turn.parent
            origin = replace(origin, reading=reading, thread=thread.id, answers=answers, said=())
            yield Joined(call, reading, origin, run, made)

    # Responses

    @asynccontextmanager
    async def responses(
        self, caller: Caller, workflow: Workflow, named: str | None, asked: Joined
    ) -> AsyncGenerator[Joined]:
        """A call in the protocol of Responses; `named` is the workflow that its path names.

        The run is to be opened inside of the block: whatever keeps it from that lets go of the conversation.
        """
        call, reading = asked.call, asked.reading
        if reading.references:
            run = response_store.previous_run_id(call.previous) if call.previous is not None else None
            around = (run, call.conversation)
            found = await self._database.read(_items, caller.project, reading.references, around)
            sent = {"input": reading.unresolved}
            call, reading = response_history.resolved(call, reading, found)
            if has_files(call.messages):
                messages = await self._database.read(_resolved, caller.project, call.messages, sent)
                call = replace(call, messages=messages)
        asked = asked._replace(call=call, reading=reading)
        if call.previous is not None:
            yield await self._after_previous(caller, named, asked)
        elif call.conversation is not None:
            async with self._in_conversation(caller, workflow, asked) as joined:
                yield joined
        else:
            yield asked

    async def _after_previous(self, caller: Caller, named: str | None, asked: Joined) -> Joined:
        call, reading, origin = asked.call, asked.reading, asked.origin
        assert call.previous is not None
        run = response_store.previous_run_id(call.previous)
        if self._records.alive(caller.project, run) is not None:
            await self._records.written()  # It may be too young to be in the database.
        chain, messages = await self._database.read(_chain, caller.project, run)
        if not chain or (named is not None and chain[-1].row.workflow != named):
            raise response_store.unknown_previous(call.previous)
        last = chain[-1].row
        if last.is_alive:
            raise StillRunning(f"The response {call.previous!r} has not ended.", pointer="/previous_response_id")
        before = call.preface
        call, reading = response_history.continued(call, reading, messages)
        said = (*call.messages[:before], *call.messages[before + len(messages) :])
        call = replace(call, session=call.session or last.session)
        return asked._replace(call=call, reading=reading, origin=replace(origin, previous=run, said=said))

    @asynccontextmanager
    async def _in_conversation(self, caller: Caller, workflow: Workflow, asked: Joined) -> AsyncGenerator[Joined]:
        call, reading, origin = asked.call, asked.reading, asked.origin
        project, thread, run = caller.project, call.conversation, asked.run_id or new_run_id()
        assert thread is not None
        found = await self._database.read(threads.get_thread, project, thread)
        if found is None or found.workflow not in (None, workflow.description.name):
            raise ConversationNotFound(thread, pointer="/conversation")
        async with self._turns.taken(project, thread, run, workflow.options.turns):
            stored = await self._database.read(_stored, project, thread)
            before = call.preface + len(stored)
            call, reading = response_history.continued(call, reading, stored)
            workflow.bind(call)  # What it cannot take is said before anything is kept.
            answers = await self._database.write(_ask, project, thread, call.messages[before:], self._now())
            call = replace(call, session=call.session or thread)
            yield Joined(
                call, reading, replace(origin, thread=thread, answers=answers, said=call.messages[: call.preface]), run
            )


def in_thread(client: Client, run: str) -> Client:
    """A UI client of a run in a thread: there a message that it begins has the id of the message's first node."""
    return client if client.message is not None else replace(client, message=f"msg_{run.removeprefix('run_')}_1")


def _say(db: Connection, project: str, thread: str, turn: Turn, at: datetime) -> list[Node]:
    """Put what is said where it belongs; the current branch ends there now."""
    return threads.append_messages(db, project, thread, turn.parent, turn.said, origin="client", at=at)


def _ask(db: Connection, project: str, thread: str, messages: tuple[Message, ...], at: datetime) -> str | None:
    """Put what is asked below the head, which moves when it is answered; the node that the answer joins."""
    if not messages:
        return threads.require_thread(db, project, thread).head
    made = threads.append_messages(db, project, thread, "head", messages, origin="client", at=at, head="stays")
    return made[-1].id


def _looked(db: Connection, look: Look, project: str, thread: str) -> Turn:
    """The turn, with the files that it names: those of what is said must be there."""
    turn = look(db, project, thread)
    said = filing.known(db, project, turn.said) if has_files(turn.said) else turn.said
    return turn._replace(stored=tuple(files.replace_missing_files(db, project, turn.stored)), said=said)


def _resolved(db: Connection, project: str, messages: tuple[Message, ...], sent: object) -> tuple[Message, ...]:
    """The same of a call that refers to stored items: files must be there of what was sent beside the references."""
    new = {name for name in file_ids(messages) if filing.place(sent, name) is not None}
    told: list[Message] = []
    for message in messages:
        is_new = not new.isdisjoint(file_ids([message]))
        told += (
            filing.known(db, project, [message], sent)
            if is_new
            else files.replace_missing_files(db, project, [message])
        )
    return tuple(told)


def _stored(db: Connection, project: str, thread: str) -> Sequence[Message]:
    """The current branch."""
    return files.replace_missing_files(db, project, [node.message for node in threads.get_branch(db, project, thread)])


def _chain(db: Connection, project: str, run: str) -> tuple[list[runs.StoredRun], Sequence[Message]]:
    chain = run_history.run_chain(db, project, run) or []
    return chain, files.replace_missing_files(db, project, run_history.chain_messages(db, project, chain))


_Around = tuple[str | None, str | None]
"""The run that a call goes on from, and the conversation that it is in."""


def _items(db: Connection, project: str, names: Sequence[str], around: _Around) -> Mapping[str, Mapping[str, Any]]:
    """The stored items of these ids: of what the call goes on from, or else of the response or thread that has them."""
    found: dict[str, Mapping[str, Any]] = {}
    for name in names:
        for run, thread in (around, *_holding(db, project, name)):
            if name not in found:
                found |= {item.id: item.item for item in _placed(db, project, run, thread)}
        if name not in found:
            raise ItemNotFound(name)
    return found


def _holding(db: Connection, project: str, name: str) -> list[_Around]:
    """What may hold an item: the run whose id is in its own, and threads that have a node of its name."""
    stem = name.partition("_")[2].partition("_")[0]
    return [
        (f"run_{stem}", None),
        *((None, thread) for thread in run_history.find_threads_with_message(db, project, name)),
    ]


def _placed(db: Connection, project: str, run: str | None, thread: str | None) -> list[item_pages.Placed]:
    if thread is not None and threads.get_thread(db, project, thread) is not None:
        return item_pages.placed([node.message for node in threads.get_branch(db, project, thread)], thread)
    found = runs.get_stored_run(db, project, run) if run is not None else None
    if found is None or not found.row.stored:
        return []
    said = found.reply.messages if found.reply is not None else ()
    return item_pages.placed(
        [*(run_history.messages_seen_by(db, project, found) or ()), *said], response_id(found.row.id)
    )
