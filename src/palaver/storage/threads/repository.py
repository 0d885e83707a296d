"""Threads: conversations with branches.

A thread is a row and a tree of nodes (message_tree.py). Each function is one transaction and locks the row before it
changes the tree, so that concurrent changes to a thread happen one after the other on both databases.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType
from sqlalchemy import Connection, Select, delete, exists, func, insert, select, update
from sqlalchemy.engine import Row

from palaver.core import json
from palaver.core.extraction import preview
from palaver.core.extraction.truncation import one_line
from palaver.core.messages import Message
from palaver.core.thread_tree import ThreadTree
from palaver.errors import InvalidValue, ItemNotFound, StillRunning, ThreadNotFound, TooLarge
from palaver.storage import files, redaction, runs
from palaver.storage.notifications import Change, mark_changed
from palaver.storage.pagination import FIRST_PAGE, Page, Window, fetch_page
from palaver.storage.schema import folded_text, row_converter, split_batches, storable_text
from palaver.storage.tables import board_cells as cells_table
from palaver.storage.tables import feedback as feedback_table
from palaver.storage.tables import nodes, threads
from palaver.storage.tables import runs as runs_table
from palaver.storage.threads import message_tree
from palaver.storage.threads.message_tree import (
    MAX_CHILDREN,
    MAX_NODES,
    Node,
    NodeDraft,
    NodeOrigin,
    NodeStatus,
    load_last_turn,
)

TitleBy = Literal["auto", "user"]
"""Whether a title was derived from the first question or set by a user."""

MAX_TITLE_LENGTH = 200
_AUTO_TITLE_LENGTH = 80
_MAX_TURN_NODES = 64
"""How far above the head the last question is searched for."""
_MAX_ANSWER_MESSAGES = 8
"""Maximum number of messages of an answer in a preview."""
_MATCH_CONTEXT, _MATCH_LENGTH = 40, 160
"""Characters before a search match, and in total."""


class ThreadRow(msgspec.Struct, frozen=True, kw_only=True):
    """A thread in a list, without parameters and inputs."""

    id: str
    title: str
    title_by: TitleBy
    workflow: str | None
    variant: str | None
    head: str | None
    """The last node of the current branch."""
    run: str | None
    """The active run."""
    pinned: bool
    origin: str
    """Where it was created: `playground`, `api`, `import`."""
    board: str | None
    messages: int
    """Number of messages on all branches."""
    preview_in: Any
    preview_out: Any
    """The last question of the current branch, and the answer to it."""
    created_at: datetime
    updated_at: datetime
    """When a message was last added or removed."""


class Thread(ThreadRow, frozen=True, kw_only=True):
    """A thread without its messages."""

    parameters: Mapping[str, Any]
    inputs: Mapping[str, Any]
    metadata: Mapping[str, Any]


class Match(msgspec.Struct, frozen=True):
    """Where a search matched: in a message, or in the title."""

    message: str | None
    text: str


class ThreadFilters(msgspec.Struct, frozen=True, kw_only=True):
    search: str | None = None
    """Text in the title or in any message, case-insensitive."""
    workflow: str | None = None
    pinned: bool | None = None
    origin: str | None = None


class ThreadListItem(msgspec.Struct, frozen=True):
    """A thread in a list, and where a search matched."""

    thread: ThreadRow
    match: Match | None = None


_ROW_COLUMNS = [threads.c[name] for name in ThreadRow.__struct_fields__]
_THREAD_COLUMNS = [threads.c[name] for name in Thread.__struct_fields__]
_LOCKED_COLUMNS = [
    threads.c[name] for name in ("id", "workflow", "head", "run", "run_head", "title", "title_by", "messages", "board")
]
ALL_THREADS = ThreadFilters()


def get_thread(db: Connection, project: str, thread: str) -> Thread | None:
    """Return a thread; None for an unknown one, or one of another project."""
    row = db.execute(_where_thread(select(*_THREAD_COLUMNS), project, thread)).mappings().one_or_none()
    return None if row is None else Thread(**row)


def require_thread(db: Connection, project: str, thread: str) -> Thread:
    """Return a thread. Raises ThreadNotFound."""
    row = get_thread(db, project, thread)
    if row is None:
        raise ThreadNotFound(thread)
    return row


def lock_thread_row(db: Connection, project: str, thread: str) -> Row[Any]:
    """Lock the row of a thread until the transaction ends. Raises ThreadNotFound."""
    row = db.execute(_where_thread(select(*_LOCKED_COLUMNS), project, thread).with_for_update()).one_or_none()
    if row is None:
        raise ThreadNotFound(thread)
    return row


def update_thread_row(db: Connection, project: str, thread: str, **values: Any) -> None:
    db.execute(update(threads).where(threads.c.project == project, threads.c.id == thread).values(**values))
    mark_changed(db, Change(project, "thread", thread))


def _where_thread(query: Select[Any], project: str, thread: str) -> Select[Any]:
    return query.where(threads.c.project == project, threads.c.id == storable_text(thread))


# Lists


def list_threads(
    db: Connection, project: str, filters: ThreadFilters = ALL_THREADS, window: Window = FIRST_PAGE
) -> Page[ThreadListItem]:
    """List threads, last updated first."""
    query = select(*_ROW_COLUMNS).where(threads.c.project == project)
    if filters.workflow is not None:
        query = query.where(threads.c.workflow == storable_text(filters.workflow))
    if filters.origin is not None:
        query = query.where(threads.c.origin == storable_text(filters.origin))
    if filters.pinned is not None:
        query = query.where(threads.c.pinned == filters.pinned)
    needle = folded_text(filters.search or "")
    if needle:
        in_message = exists().where(
            nodes.c.project == project, nodes.c.thread == threads.c.id, nodes.c.folded.contains(needle, autoescape=True)
        )
        query = query.where(threads.c.title_folded.contains(needle, autoescape=True) | in_message)
    page = fetch_page(
        db,
        query,
        row_converter(ThreadRow),
        project=project,
        by=[threads.c.updated_at, threads.c.id],
        window=window,
        filters=msgspec.structs.asdict(filters),
    )
    matches = _find_matches(db, project, page.data, needle) if needle and page.data else {}
    return page.map(lambda row: ThreadListItem(row, matches.get(row.id)))


def _find_matches(db: Connection, project: str, rows: list[ThreadRow], needle: str) -> dict[str, Match]:
    """Return for each thread its first matching message, else its title."""
    matches = {row.id: Match(None, row.title) for row in rows}
    first = (
        select(nodes.c.thread, func.min(nodes.c.place).label("place"))
        .where(nodes.c.project == project, nodes.c.thread.in_(list(matches)))
        .where(nodes.c.folded.contains(needle, autoescape=True))
        .group_by(nodes.c.thread)
        .subquery()
    )
    is_first = (nodes.c.project == project) & (nodes.c.thread == first.c.thread) & (nodes.c.place == first.c.place)
    for thread, node, message in db.execute(select(nodes.c.thread, nodes.c.id, nodes.c.message).join(first, is_first)):
        text = msgspec.convert(message, Message).text
        start = max(0, folded_text(text).find(needle) - _MATCH_CONTEXT)
        matches[thread] = Match(node, one_line(text[start:], _MATCH_LENGTH))
    return matches


# Previews and titles


def branch_previews(db: Connection, project: str, thread: str, head: str | None) -> dict[str, Any]:
    """Return the preview columns for the branch that ends at `head`."""
    turn: list[Message] = []
    if head is not None:
        turn = load_last_turn(
            db, project, thread, head, max_nodes=_MAX_TURN_NODES, max_answer_messages=_MAX_ANSWER_MESSAGES
        )
    questions, replies = [m for m in turn if m.role == "user"], [m for m in turn if m.role != "user"]
    return {
        "preview_in": preview(json.to_builtins(questions) or None, "input"),
        "preview_out": preview(json.to_builtins(replies) or None, "output"),
    }


def title_columns(text: str) -> dict[str, Any]:
    return {"title": storable_text(text), "title_folded": folded_text(text)}


def auto_title(messages: Sequence[Message]) -> str:
    """Return the first user message on one line."""
    for message in messages:
        if message.role == "user" and (title := one_line(message.text, _AUTO_TITLE_LENGTH)):
            return title
    return ""


_MAX_IDS = 500
"""Maximum number of ids in one statement."""


class NewThread(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    at: datetime
    origin: str = "playground"
    workflow: str | None = None
    variant: str | None = None
    parameters: Mapping[str, Any] = {}
    inputs: Mapping[str, Any] = {}
    metadata: Mapping[str, Any] = {}
    title: str | None = None
    """None: derived from the first question."""
    board: str | None = None
    pinned: bool = False


class ThreadChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to a thread; unset fields stay."""

    title: str | UnsetType | None = UNSET
    """None: derived from the first question again."""
    pinned: bool | UnsetType = UNSET
    workflow: str | UnsetType | None = UNSET
    variant: str | UnsetType | None = UNSET
    parameters: Mapping[str, Any] | UnsetType = UNSET
    inputs: Mapping[str, Any] | UnsetType = UNSET
    metadata: Mapping[str, Any] | UnsetType = UNSET


def create_thread(
    db: Connection, project: str, thread: NewThread, messages: Sequence[Message] = (), *, origin: NodeOrigin = "client"
) -> Thread:
    """Create a thread, with messages as its current branch."""
    insert_thread(db, project, thread)
    if messages:
        append_messages(db, project, thread.id, None, messages, origin=origin, at=thread.at)
    else:
        update_thread_row(db, project, thread.id, **branch_previews(db, project, thread.id, None))
    return require_thread(db, project, thread.id)


def insert_thread(db: Connection, project: str, thread: NewThread) -> None:
    """Insert a thread without messages."""
    fields = msgspec.structs.asdict(thread)
    at, title = fields.pop("at"), fields.pop("title")
    fields["inputs"] = redaction.redact_inputs(db, project, thread.workflow, thread.inputs)
    title = redaction.redact_title(db, project, thread.workflow, title or "")
    title_by: TitleBy = "auto" if thread.title is None else "user"
    initial = {"title_by": title_by, "messages": 0, "created_at": at, "updated_at": at}
    db.execute(insert(threads).values(project=project, **fields, **initial, **title_columns(title)))


def update_thread(db: Connection, project: str, thread: str, changes: ThreadChanges) -> Thread:
    """Change a thread without moving it in the list."""
    row = lock_thread_row(db, project, thread)
    values = {name: value for name, value in msgspec.structs.asdict(changes).items() if value is not UNSET}
    if changes.inputs is not UNSET:
        values["inputs"] = redaction.redact_inputs(db, project, values.get("workflow", row.workflow), changes.inputs)
    if "title" in values:
        title = values.pop("title")
        values["title_by"] = "auto" if title is None else "user"
        title = _first_question_title(db, project, thread) if title is None else title
        values |= title_columns(redaction.redact_title(db, project, row.workflow, title))
    if values:
        update_thread_row(db, project, thread, **values)
    return require_thread(db, project, thread)


def delete_thread(db: Connection, project: str, thread: str) -> list[str]:
    """Delete a thread with its messages, runs, feedback, and files that nothing else references.

    Returns the ids of the runs, so that the caller can delete their traces.
    """
    row = lock_thread_row(db, project, thread)
    if row.run is not None:
        raise StillRunning("This thread has an active run. Cancel it, or wait until it has finished.")
    query = select(runs_table.c.id).where(runs_table.c.project == project, runs_table.c.thread == thread)
    ids = list(db.scalars(query))
    for batch in split_batches(ids, _MAX_IDS):
        db.execute(delete(feedback_table).where(feedback_table.c.project == project, feedback_table.c.run.in_(batch)))
        runs.delete_runs(db, project, batch)
    if row.board is not None:
        cells = update(cells_table).where(cells_table.c.project == project, cells_table.c.board == row.board)
        db.execute(cells.where(cells_table.c.thread == thread).values(thread=None))
        mark_changed(db, Change(project, "board", row.board))
    files.remove_references(db, project, [thread])
    db.execute(delete(threads).where(threads.c.project == project, threads.c.id == thread))
    mark_changed(db, Change(project, "thread", thread))
    return ids


# Messages


def get_branch(db: Connection, project: str, thread: str, at: str | None = "head") -> list[Node]:
    """Return the messages up to a node, by default the current branch, oldest first."""
    return message_tree.load_branch(
        db, project, thread, require_thread(db, project, thread).head if at == "head" else at
    )


def append_messages(
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
    """Append a chain of messages below a node; `"head"` is the end of the current branch.

    A message keeps its id if that is free in this thread; otherwise it gets a new one and keeps the old one as
    `metadata.client_id`. The head moves to the last message, unless `head` is "stays".
    """
    row = lock_thread_row(db, project, thread)
    parent = row.head if parent == "head" else parent
    if row.messages + len(messages) > MAX_NODES:
        raise TooLarge(f"This thread would exceed the limit of {MAX_NODES:,} messages. Start a new thread.")
    message_tree.check_parent(db, project, thread, parent)
    new_nodes = message_tree.append_nodes(
        db, project, thread, parent, messages, NodeDraft(origin=origin, run=run, status=status, at=at)
    )
    if not new_nodes:
        return []
    new_head = new_nodes[-1].id if head == "moves" and status != "failed" else row.head
    _update_after_append(db, project, row, new_nodes, head=new_head, at=at)
    return new_nodes


def move_head(db: Connection, project: str, thread: str, node: str | None, *, through: bool = False) -> Thread:
    """Make the branch that ends at a node current or, with `through`, the last current branch below it."""
    lock_thread_row(db, project, thread)
    if node is not None:
        tree = message_tree.load_tree(db, project, thread)
        if node not in tree:
            raise ItemNotFound(node, pointer="/head")
        if tree[node].status == "failed":
            raise InvalidValue("The current branch can't end at a message from a failed run.", pointer="/head")
        node = tree.leaf(node) if through else node
        message_tree.make_current(db, project, thread, node)
    update_thread_row(db, project, thread, head=node, **branch_previews(db, project, thread, node))
    return require_thread(db, project, thread)


def delete_message(
    db: Connection, project: str, thread: str, node: str, *, below: Literal["delete", "keep"] = "delete", at: datetime
) -> Thread:
    """Delete a message with everything below it; with below="keep", its children move up to its parent."""
    row = lock_thread_row(db, project, thread)
    tree = message_tree.load_tree(db, project, thread)
    if node not in tree:
        raise ItemNotFound(node)
    if row.run is not None and node in _nodes_in_use(db, project, row, tree):
        raise StillRunning(
            "This message or one below it is being answered by an active run. Cancel it, or wait until it has finished."
        )
    parent, children = tree[node].parent, tree.children(node)
    deleted = tree.descendants(node) if below == "delete" else [node]
    if below == "keep":
        if len(tree.children(parent)) - 1 + len(children) > MAX_CHILDREN:
            raise TooLarge(
                f"The replies can't be moved up: the parent would exceed the limit of {MAX_CHILDREN} replies."
            )
        statement = update(nodes).where(message_tree.in_thread(project, thread), nodes.c.parent == node)
        db.execute(statement.values(parent=parent))
    for batch in split_batches(deleted, _MAX_IDS):
        db.execute(delete(nodes).where(message_tree.in_thread(project, thread), nodes.c.id.in_(batch)))
    files.remove_node_references(db, project, thread, deleted)
    if parent is not None and tree[parent].last_child == node:
        message_tree.set_last_children(
            db, project, thread, {parent: tree[node].last_child if below == "keep" else None}
        )
    head = parent if row.head in set(deleted) else row.head
    run_head = head if row.run_head in set(deleted) else row.run_head
    count, previews = row.messages - len(deleted), branch_previews(db, project, thread, head)
    update_thread_row(db, project, thread, head=head, run_head=run_head, messages=count, updated_at=at, **previews)
    return require_thread(db, project, thread)


# Runs in threads


def claim_thread(db: Connection, project: str, thread: str, run: str) -> bool:
    """Make a run the active one of a thread; False while another is active."""
    statement = update(threads).where(threads.c.project == project, threads.c.id == thread, threads.c.run.is_(None))
    if db.execute(statement.values(run=run, run_head=threads.c.head)).rowcount:
        mark_changed(db, Change(project, "thread", thread, run))
        return True
    require_thread(db, project, thread)
    return False


def release_thread(db: Connection, project: str, thread: str, run: str) -> None:
    """Release a thread, if the run is its active one."""
    statement = update(threads).where(threads.c.project == project, threads.c.id == thread, threads.c.run == run)
    if db.execute(statement.values(run=None, run_head=None)).rowcount:
        mark_changed(db, Change(project, "thread", thread, run))


def list_stale_claims(db: Connection) -> list[tuple[str, str, str]]:
    """List (project, thread, run) of threads whose active run does not exist or has ended."""
    query = select(threads.c.project, threads.c.id, threads.c.run).where(
        threads.c.run.is_not(None),
        ~exists().where(
            runs_table.c.project == threads.c.project, runs_table.c.id == threads.c.run, runs_table.c.ended_at.is_(None)
        ),
    )
    return [(project, thread, run) for project, thread, run in db.execute(query)]


def append_run_output(
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
    at: datetime,
) -> None:
    """Append the output of a run below what it answers, in the transaction that ends it, and release the thread.

    The head moves to the last message if it is at the answered message, or where it was when the run started; otherwise
    the user has switched to another branch. Output of a failed run never becomes the head. Problems of the thread, such
    as its deletion, do not prevent the run from ending.
    """
    try:
        row = lock_thread_row(db, project, thread)
    except ThreadNotFound:
        return
    if answers is not None and message_tree.get_node(db, project, thread, answers) is None:
        answers = None
    if status == "failed" and not messages:
        messages = [Message.assistant()]  # Shows that there was an attempt.
    draft = NodeDraft(origin="run", run=run, status=status, error=error, usage=usage, at=at)
    new_nodes = message_tree.append_nodes(db, project, thread, answers, messages, draft)
    start_head = row.run_head if row.run == run else answers
    head = row.head
    if head in (answers, start_head) and status != "failed":
        head = new_nodes[-1].id if new_nodes else answers
    _update_after_append(db, project, row, new_nodes, head=head, at=at, release=row.run == run)
    mark_changed(db, Change(project, "thread", thread, run))


# Helpers


def _update_after_append(
    db: Connection,
    project: str,
    row: Any,
    new_nodes: Sequence[Node],
    *,
    head: str | None,
    at: datetime,
    release: bool = False,
) -> None:
    """Update the row after messages were added; `release` ends the claim of the active run."""
    values: dict[str, Any] = {"messages": row.messages + len(new_nodes), "updated_at": at}
    if release:
        values |= {"run": None, "run_head": None}
    if row.title_by == "auto" and not row.title:
        values |= title_columns(auto_title([node.message for node in new_nodes]))
    if head != row.head:
        if new_nodes and new_nodes[0].parent == row.head and head == new_nodes[-1].id:
            # The usual case: the path above is current already.
            message_tree.set_last_children(
                db, project, row.id, {row.head: new_nodes[0].id} if row.head is not None else {}
            )
        elif head is not None:
            message_tree.make_current(db, project, row.id, head)
        values |= {"head": head, **branch_previews(db, project, row.id, head)}
    update_thread_row(db, project, row.id, **values)


def _first_question_title(db: Connection, project: str, thread: str) -> str:
    query = select(nodes.c.id).where(message_tree.in_thread(project, thread), nodes.c.role == "user")
    first = db.scalar(query.order_by(nodes.c.place).limit(1))
    node = message_tree.get_node(db, project, thread, first) if first is not None else None
    return "" if node is None else auto_title([node.message])


def _nodes_in_use(db: Connection, project: str, row: Any, tree: ThreadTree) -> list[str]:
    """Return the nodes that the active run was given; the current branch if the run is not recorded yet."""
    query = select(runs_table.c.answers).where(runs_table.c.project == project, runs_table.c.id == row.run)
    answers = db.scalar(query)
    return tree.path(answers if answers in tree else row.head)
