"""Threads: conversations with branches. What is made, said, turned to and taken away in one, each in one transaction.

One thread is one row and a tree of nodes. Whoever changes the tree holds the row first, so that on every database two
who speak at once are heard one after the other. The row is in thread_rows.py, the nodes are in nodes.py; copies and
files of whole threads are in thread_copies.py.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType
from sqlalchemy import Connection, exists, insert, select, update
from sqlalchemy import delete as erasing

from palaver.core.messages import Message
from palaver.core.trees import Tree
from palaver.errors import InvalidValue, ItemNotFound, StillRunning, ThreadNotFound, TooLarge
from palaver.storage import cleaning, file_uses, runs
from palaver.storage.notices import Change, touch
from palaver.storage.tables import board_cells as cells_table
from palaver.storage.tables import feedback as feedback_table
from palaver.storage.tables import nodes as nodes_table
from palaver.storage.tables import runs as runs_table
from palaver.storage.tables import threads as threads_table
from palaver.storage.threads import branches, nodes
from palaver.storage.threads.nodes import MOST_CHILDREN, MOST_NODES, Draft, Node, NodeOrigin, NodeStatus
from palaver.storage.threads.rows import (
    Filters,
    Found,
    Match,
    Thread,
    ThreadRow,
    TitleBy,
    auto_title,
    get,
    held_row,
    previews,
    set_row,
    sure,
    title_of,
)
from palaver.storage.threads.rows import list_page as page

__all__ = [
    "Changes",
    "Filters",
    "Found",
    "Match",
    "NewThread",
    "Node",
    "NodeOrigin",
    "Thread",
    "ThreadRow",
    "append",
    "branch",
    "change",
    "create",
    "delete",
    "get",
    "join",
    "lock",
    "move_head",
    "page",
    "remove",
    "sure",
    "unlock",
]

_AT_ONCE = 500
"""Runs that are forgotten in one statement."""


class NewThread(msgspec.Struct, frozen=True, kw_only=True):
    """A thread that is to be made."""

    id: str
    at: datetime
    origin: str = "playground"
    workflow: str | None = None
    variant: str | None = None
    parameters: Mapping[str, Any] = {}
    inputs: Mapping[str, Any] = {}
    metadata: Mapping[str, Any] = {}
    title: str | None = None
    """None: made from what is asked first."""
    board: str | None = None
    pinned: bool = False


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What of a thread is to be changed; what is unset stays."""

    title: str | UnsetType | None = UNSET
    """None: made from what was asked first, again."""
    pinned: bool | UnsetType = UNSET
    workflow: str | UnsetType | None = UNSET
    variant: str | UnsetType | None = UNSET
    parameters: Mapping[str, Any] | UnsetType = UNSET
    inputs: Mapping[str, Any] | UnsetType = UNSET
    metadata: Mapping[str, Any] | UnsetType = UNSET


def create(
    db: Connection, project: str, thread: NewThread, messages: Sequence[Message] = (), *, by: NodeOrigin = "client"
) -> Thread:
    """Make a thread; what it begins with is its current branch."""
    insert_row(db, project, thread)
    if messages:
        append(db, project, thread.id, None, messages, origin=by, at=thread.at)
    else:
        set_row(db, project, thread.id, **previews(db, project, thread.id, None))
    return sure(db, project, thread.id)


def insert_row(db: Connection, project: str, thread: NewThread) -> None:
    """Keep a thread that has no messages yet."""
    fields = msgspec.structs.asdict(thread)
    at, title = fields.pop("at"), fields.pop("title")
    fields["inputs"] = cleaning.inputs(db, project, thread.workflow, thread.inputs)
    title = cleaning.title(db, project, thread.workflow, title or "")
    by: TitleBy = "auto" if thread.title is None else "user"
    counted = {"title_by": by, "messages": 0, "created_at": at, "updated_at": at}
    db.execute(insert(threads_table).values(project=project, **fields, **counted, **title_of(title)))


def change(db: Connection, project: str, thread: str, changes: Changes) -> Thread:
    """Change what is said about a thread; its place in the list stays."""
    row = held_row(db, project, thread)
    values = {name: value for name, value in msgspec.structs.asdict(changes).items() if value is not UNSET}
    if changes.inputs is not UNSET:
        values["inputs"] = cleaning.inputs(db, project, values.get("workflow", row.workflow), changes.inputs)
    if "title" in values:
        title = values.pop("title")
        values["title_by"] = "auto" if title is None else "user"
        title = _first_asked(db, project, thread) if title is None else title
        values |= title_of(cleaning.title(db, project, row.workflow, title))
    if values:
        set_row(db, project, thread, **values)
    return sure(db, project, thread)


def delete(db: Connection, project: str, thread: str) -> list[str]:
    """Erase a thread, its messages, its runs and their logs, what was thought of them, and files of theirs alone.

    The ids of the runs are given back, for whoever erases their traces too.
    """
    row = held_row(db, project, thread)
    if row.run is not None:
        raise StillRunning("A run is answering in this thread: cancel it first, or wait for its end.")
    asked = select(runs_table.c.id).where(runs_table.c.project == project, runs_table.c.thread == thread)
    ids = list(db.scalars(asked))
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        db.execute(erasing(feedback_table).where(feedback_table.c.project == project, feedback_table.c.run.in_(some)))
        runs.erase(db, project, some)
    if row.board is not None:
        cells = update(cells_table).where(cells_table.c.project == project, cells_table.c.board == row.board)
        db.execute(cells.where(cells_table.c.thread == thread).values(thread=None))
        touch(db, Change(project, "board", row.board))
    file_uses.drop(db, project, [thread])
    db.execute(erasing(threads_table).where(threads_table.c.project == project, threads_table.c.id == thread))
    touch(db, Change(project, "thread", thread))
    return ids


# What is said


def branch(db: Connection, project: str, thread: str, at: str | None = "head") -> list[Node]:
    """The messages up to a node, oldest first: the current branch, unless another end is named."""
    return branches.branch(db, project, thread, sure(db, project, thread).head if at == "head" else at)


def append(
    db: Connection,
    project: str,
    thread: str,
    parent: str | None,
    messages: Sequence[Message],
    *,
    origin: NodeOrigin,
    run: str | None = None,
    status: NodeStatus = "done",
    at: datetime,
    head: Literal["moves", "stays"] = "moves",
) -> list[Node]:
    """Put messages below a node, each below the one before it; `"head"` names the end of the current branch.

    A message keeps its id if nobody has it in this thread; else it gets a new one, and its own is noted as
    `metadata.client_id`. The head moves to the last, unless it is told to stay.
    """
    row = held_row(db, project, thread)
    parent = row.head if parent == "head" else parent
    if row.messages + len(messages) > MOST_NODES:
        raise TooLarge(f"This thread has {row.messages} messages; there is room for {MOST_NODES}: begin another.")
    nodes.check_parent(db, project, thread, parent)
    made = nodes.add(db, project, thread, parent, messages, Draft(origin=origin, run=run, status=status, at=at))
    if not made:
        return []
    to = made[-1].id if head == "moves" and status != "failed" else row.head
    _grown(db, project, row, made, head=to, at=at)
    return made


def move_head(db: Connection, project: str, thread: str, node: str | None, *, through: bool = False) -> Thread:
    """Turn to the branch that ends at a node or, `through` it, to the one that was last current below it."""
    held_row(db, project, thread)
    if node is not None:
        tree = nodes.tree(db, project, thread)
        if node not in tree:
            raise ItemNotFound(node, pointer="/head")
        if tree[node].status == "failed":
            raise InvalidValue("What a failed run said cannot be the current branch.", pointer="/head")
        node = tree.leaf(node) if through else node
        branches.turn(db, project, thread, node)
    set_row(db, project, thread, head=node, **previews(db, project, thread, node))
    return sure(db, project, thread)


def remove(
    db: Connection, project: str, thread: str, node: str, *, below: Literal["delete", "keep"] = "delete", at: datetime
) -> Thread:
    """Erase a message with all that follows it, or alone: then what follows it moves up to what it followed."""
    row = held_row(db, project, thread)
    tree = nodes.tree(db, project, thread)
    if node not in tree:
        raise ItemNotFound(node)
    if row.run is not None and node in _spoken_for(db, project, row, tree):
        raise StillRunning("A run is answering this message, or one below it: cancel it first, or wait for its end.")
    parent, children = tree[node].parent, tree.children(node)
    gone = tree.below(node) if below == "delete" else [node]
    if below == "keep":
        if len(tree.children(parent)) - 1 + len(children) > MOST_CHILDREN:
            raise TooLarge(f"What follows this message cannot move up: there is room for {MOST_CHILDREN} there.")
        lifted = update(nodes_table).where(_in(project, thread), nodes_table.c.parent == node)
        db.execute(lifted.values(parent=parent))
    for start in range(0, len(gone), _AT_ONCE):
        some = nodes_table.c.id.in_(gone[start : start + _AT_ONCE])
        db.execute(erasing(nodes_table).where(_in(project, thread), some))
    file_uses.drop_nodes(db, project, thread, gone)
    if parent is not None and tree[parent].last_child == node:
        nodes.point(db, project, thread, {parent: tree[node].last_child if below == "keep" else None})
    head = parent if row.head in set(gone) else row.head
    begun = head if row.run_head in set(gone) else row.run_head
    count, shown = row.messages - len(gone), previews(db, project, thread, head)
    set_row(db, project, thread, head=head, run_head=begun, messages=count, updated_at=at, **shown)
    return sure(db, project, thread)


# Turns


def lock(db: Connection, project: str, thread: str, run: str) -> bool:
    """Let a run be the one that answers in a thread; False while another is."""
    free = update(threads_table).where(
        threads_table.c.project == project, threads_table.c.id == thread, threads_table.c.run.is_(None)
    )
    if db.execute(free.values(run=run, run_head=threads_table.c.head)).rowcount:
        touch(db, Change(project, "thread", thread, run))
        return True
    sure(db, project, thread)
    return False


def unlock(db: Connection, project: str, thread: str, run: str) -> None:
    """Let others answer; it is not an error if that run did not."""
    theirs = update(threads_table).where(
        threads_table.c.project == project, threads_table.c.id == thread, threads_table.c.run == run
    )
    if db.execute(theirs.values(run=None, run_head=None)).rowcount:
        touch(db, Change(project, "thread", thread, run))


def taken_for_nothing(db: Connection) -> list[tuple[str, str, str]]:
    """The threads, each with its project and its run, in which a run is to answer that is not there, or has ended."""
    asked = select(threads_table.c.project, threads_table.c.id, threads_table.c.run).where(
        threads_table.c.run.is_not(None),
        ~exists().where(
            runs_table.c.project == threads_table.c.project,
            runs_table.c.id == threads_table.c.run,
            runs_table.c.ended_at.is_(None),
        ),
    )
    return [(project, thread, run) for project, thread, run in db.execute(asked)]


def join(
    db: Connection,
    project: str,
    thread: str,
    *,
    run: str,
    answers: str | None,
    messages: Sequence[Message],
    status: Literal["done", "partial", "failed"],
    error: Mapping[str, Any] | None = None,
    usage: Any = None,
    keep_head_on_failure: bool = False,
    at: datetime,
) -> None:
    """Put what a run said below what it answers, in the transaction that ends the run, and let others answer.

    The head moves to the last of it, if it stands at what was answered, or where it stood when the run began: else
    somebody has turned to another branch. What a failed run said is never gone on from; with `keep_head_on_failure`
    neither is what it was asked, so that asking again does not say it twice. A run must end: what is wrong with the
    thread meanwhile does not keep it from that.
    """
    try:
        row = held_row(db, project, thread)
    except ThreadNotFound:
        return
    if answers is not None and nodes.get(db, project, thread, answers) is None:
        answers = None
    if status == "failed" and not messages:
        messages = [Message.assistant()]  # Something has to show that it was tried.
    draft = Draft(origin="run", run=run, status=status, error=error, usage=usage, at=at)
    made = nodes.add(db, project, thread, answers, messages, draft)
    begun = row.run_head if row.run == run else answers
    head = row.head
    if head in (answers, begun):
        if status != "failed":
            head = made[-1].id if made else answers
        elif keep_head_on_failure:
            head = begun  # Else it stays: where the question was put, or, in a conversation, still before it.
    _grown(db, project, row, made, head=head, at=at, free=row.run == run)
    touch(db, Change(project, "thread", thread, run))


# Pieces


def _in(project: str, thread: str) -> Any:
    return (nodes_table.c.project == project) & (nodes_table.c.thread == thread)


def _grown(
    db: Connection,
    project: str,
    row: Any,
    made: Sequence[Node],
    *,
    head: str | None,
    at: datetime,
    free: bool = False,
) -> None:
    """Let the row show what was added, and the branch that is current now; `free`: others may answer."""
    values: dict[str, Any] = {"messages": row.messages + len(made), "updated_at": at}
    if free:
        values |= {"run": None, "run_head": None}
    if row.title_by == "auto" and not row.title:
        values |= title_of(auto_title([node.message for node in made]))
    if head != row.head:
        if made and made[0].parent == row.head and head == made[-1].id:
            # The usual case: all above it is current already.
            nodes.point(db, project, row.id, {row.head: made[0].id} if row.head is not None else {})
        elif head is not None:
            branches.turn(db, project, row.id, head)
        values |= {"head": head, **previews(db, project, row.id, head)}
    set_row(db, project, row.id, **values)


def _first_asked(db: Connection, project: str, thread: str) -> str:
    asked = select(nodes_table.c.id).where(_in(project, thread), nodes_table.c.role == "user")
    first = db.scalar(asked.order_by(nodes_table.c.place).limit(1))
    found = nodes.get(db, project, thread, first) if first is not None else None
    return "" if found is None else auto_title([found.message])


def _spoken_for(db: Connection, project: str, row: Any, tree: Tree) -> list[str]:
    """The nodes that the run which is answering was given; of one that is not recorded yet, the current branch."""
    asked = select(runs_table.c.answers).where(runs_table.c.project == project, runs_table.c.id == row.run)
    answers = db.scalar(asked)
    return tree.path(answers if answers in tree else row.head)
