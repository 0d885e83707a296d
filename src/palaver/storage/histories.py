"""What a stored run saw before it answered: its conversation up to there, wherever that is kept."""

import msgspec
from sqlalchemy import Connection, select, update

from palaver.core.files import file_ids
from palaver.core.messages import Message
from palaver.storage import file_uses, runs
from palaver.storage.runs import Whole, call_of
from palaver.storage.tables import nodes
from palaver.storage.threads import keeping as threads
from palaver.storage.threads.nodes import Node, row_of

_LONGEST = 2_000
"""Runs of one chain. No call takes more messages."""


def previous(db: Connection, project: str, run: str) -> list[Whole] | None:
    """The runs that a call which goes on from this one follows, oldest first; None if one of them is not there."""
    found: list[Whole] = []
    wanted: str | None = run
    while wanted is not None and len(found) < _LONGEST:
        one = runs.whole(db, project, wanted)
        if one is None or not one.row.stored:
            return None
        found.insert(0, one)
        wanted = None if one.row.thread is not None else one.row.previous
    return found


def seen(db: Connection, project: str, run: Whole) -> list[Message] | None:
    """Every message that a run saw, without the instructions that were for it alone; None if some are gone."""
    before = previous(db, project, run.row.previous) if run.row.previous and not run.row.thread else []
    if before is None:
        return None
    return [*told(db, project, before), *_said(db, project, run)]


def told(db: Connection, project: str, chain: list[Whole]) -> list[Message]:
    """What was asked and answered in a chain of runs."""
    messages: list[Message] = []
    for run in chain:
        messages += _said(db, project, run)
        messages += run.reply.messages if run.reply is not None else ()
    return messages


def threads_with(db: Connection, project: str, node: str) -> list[str]:
    """The threads that have a message of that id."""
    asked = select(nodes.c.thread).where(nodes.c.project == project, nodes.c.id == node).limit(10)
    return list(db.scalars(asked))


def rewrite(db: Connection, project: str, thread: str, node: Node, message: Message) -> None:
    """Let a node say less: one of the items that it is was taken out."""
    row = row_of(msgspec.structs.replace(node, message=message))
    theirs = update(nodes).where(nodes.c.project == project, nodes.c.thread == thread, nodes.c.id == node.id)
    db.execute(theirs.values({name: row[name] for name in ("message", "line", "folded")}))
    if lost := set(file_ids([node.message])).difference(file_ids([message])):
        file_uses.drop_nodes(db, project, thread, [node.id], only=lost)


def _said(db: Connection, project: str, run: Whole) -> list[Message]:
    if run.row.thread is not None:
        if run.row.answers is None:
            return []
        return [node.message for node in threads.branch(db, project, run.row.thread, run.row.answers)]
    call = call_of(run)
    return list(call.messages[call.preface :]) if call is not None else []
