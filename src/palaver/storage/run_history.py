"""The conversation that a stored run saw: in its thread, or in the chain of runs before it."""

import msgspec
from sqlalchemy import Connection, select, update

from palaver.core.messages import Message, file_ids
from palaver.storage import files, runs
from palaver.storage.runs import StoredRun, decode_call
from palaver.storage.tables import nodes
from palaver.storage.threads import repository as threads
from palaver.storage.threads.message_tree import Node, node_row

_MAX_CHAIN = 2_000
"""Maximum length of a chain: a call does not accept more messages."""


def run_chain(db: Connection, project: str, run: str) -> list[StoredRun] | None:
    """Return the run and those it continues, oldest first; None if one of them is not stored."""
    found: list[StoredRun] = []
    wanted: str | None = run
    while wanted is not None and len(found) < _MAX_CHAIN:
        one = runs.get_stored_run(db, project, wanted)
        if one is None or not one.row.stored:
            return None
        found.insert(0, one)
        wanted = None if one.row.thread is not None else one.row.previous
    return found


def messages_seen_by(db: Connection, project: str, run: StoredRun) -> list[Message] | None:
    """Return the messages that a run saw, without its own instructions; None if some are deleted."""
    before = run_chain(db, project, run.row.previous) if run.row.previous and not run.row.thread else []
    if before is None:
        return None
    return [*chain_messages(db, project, before), *_run_messages(db, project, run)]


def chain_messages(db: Connection, project: str, chain: list[StoredRun]) -> list[Message]:
    """Return the questions and answers of a chain of runs."""
    messages: list[Message] = []
    for run in chain:
        messages += _run_messages(db, project, run)
        messages += run.reply.messages if run.reply is not None else ()
    return messages


def find_threads_with_message(db: Connection, project: str, node: str) -> list[str]:
    """Return the ids of threads that contain a message."""
    asked = select(nodes.c.thread).where(nodes.c.project == project, nodes.c.id == node).limit(10)
    return list(db.scalars(asked))


def replace_message(db: Connection, project: str, thread: str, node: Node, message: Message) -> None:
    """Replace a node's message after one of its items was deleted."""
    row = node_row(msgspec.structs.replace(node, message=message))
    theirs = update(nodes).where(nodes.c.project == project, nodes.c.thread == thread, nodes.c.id == node.id)
    db.execute(theirs.values({name: row[name] for name in ("message", "line", "folded")}))
    if lost := set(file_ids([node.message])).difference(file_ids([message])):
        files.remove_node_references(db, project, thread, [node.id], only=lost)


def _run_messages(db: Connection, project: str, run: StoredRun) -> list[Message]:
    if run.row.thread is not None:
        if run.row.answers is None:
            return []
        return [node.message for node in threads.get_branch(db, project, run.row.thread, run.row.answers)]
    call = decode_call(run)
    return list(call.messages[call.preface :]) if call is not None else []
