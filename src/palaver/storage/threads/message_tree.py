"""The messages of a thread: a tree of immutable nodes, and the branches through it.

A parent is created before its children. So one pass backwards through the thread, starting at a node, meets all its
ancestors in order. A recursive query might scan the whole thread for each step, as its planner underestimates new data.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, LargeBinary, bindparam, func, insert, select, type_coerce, update
from sqlalchemy.engine import Row

from palaver.core import json
from palaver.core.extraction import truncation
from palaver.core.ids import MAX_ID_LENGTH, sortable_id
from palaver.core.messages import Message, Refusal, Text
from palaver.core.thread_tree import NodeStatus, ThreadNode, ThreadTree, changed_last_children
from palaver.errors import InvalidValue, ItemNotFound, TooLarge
from palaver.storage import files, redaction
from palaver.storage.pagination import FIRST_PAGE, Page, Window, fetch_page
from palaver.storage.schema import folded_text, row_converter, split_batches
from palaver.storage.tables import nodes, threads

MAX_NODES = 20_000
"""Maximum number of nodes per thread."""
MAX_CHILDREN = 200
"""Maximum number of children per node."""
LINE_LENGTH = 80
"""Length of the preview of a node in the tree."""

NodeOrigin = Literal["run", "client", "copy", "import"]
"""Source of a node: a run, a client that posted it, a copy of a thread, or an imported file."""

_ID_PATTERN = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._:~-]{{0,{MAX_ID_LENGTH - 1}}}")
_RESERVED_IDS = frozenset({"head"})  # Refers to the current head.
decode_message = msgspec.json.Decoder(Message).decode


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a thread and its position."""

    id: str
    parent: str | None
    place: int
    message: Message
    origin: NodeOrigin
    run: str | None = None
    status: NodeStatus = "done"
    error: Mapping[str, Any] | None = None
    usage: Mapping[str, Any] | None = None
    """The usage of its run, on the last message of that run."""
    created_at: datetime


class TreeNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node without its message, as listed in a tree."""

    id: str
    parent: str | None
    role: str
    run: str | None
    status: NodeStatus
    line: str


MESSAGE_COLUMN = type_coerce(nodes.c.message, LargeBinary).label("message")
"""The message as bytes, which are decoded directly to a Message."""
NODE_COLUMNS: list[ColumnElement[Any]] = [
    MESSAGE_COLUMN if name == "message" else nodes.c[name] for name in Node.__struct_fields__
]
_LEAF_COLUMNS = [nodes.c[name] for name in TreeNode.__struct_fields__]
LINK_COLUMNS = [nodes.c[name] for name in ThreadNode._fields]


# Queries


def get_node(db: Connection, project: str, thread: str, node: str) -> Node | None:
    if not is_node_id(node):
        return None
    row = db.execute(select(*NODE_COLUMNS).where(is_node(project, thread, node))).one_or_none()
    return None if row is None else row_to_node(row)


def list_nodes(db: Connection, project: str, thread: str) -> list[Node]:
    """Return all nodes of all branches in order of creation."""
    query = select(*NODE_COLUMNS).where(in_thread(project, thread)).order_by(nodes.c.place)
    return [row_to_node(row) for row in db.execute(query)]


def list_children_ids(
    db: Connection, project: str, thread: str, parents: Iterable[str | None]
) -> dict[str | None, list[str]]:
    """Return the ids of the children of these nodes, in order of creation; for None the roots."""
    parent_ids = set(parents)
    ids = [parent for parent in parent_ids if parent is not None]
    children: dict[str | None, list[str]] = {parent: [] for parent in parent_ids}
    rows: list[tuple[int, str | None, str]] = []
    query = select(nodes.c.place, nodes.c.parent, nodes.c.id).where(in_thread(project, thread))
    # Two unsorted queries: each can then use the index on parents.
    for condition in (
        *([nodes.c.parent.in_(ids)] if ids else []),
        *([nodes.c.parent.is_(None)] if None in parent_ids else []),
    ):
        rows += [(place, parent, node) for place, parent, node in db.execute(query.where(condition))]
    for _, parent, node in sorted(rows, key=lambda row: row[0]):
        children[parent].append(node)
    return children


def list_leaves(db: Connection, project: str, thread: str, window: Window = FIRST_PAGE) -> Page[TreeNode]:
    """List the nodes of all branches in order of creation, without messages."""
    query = select(*_LEAF_COLUMNS).where(in_thread(project, thread))
    convert, by, filters = row_converter(TreeNode), [nodes.c.place], {"thread": thread, "list": "tree"}
    return fetch_page(db, query, convert, project=project, by=by, window=window, filters=filters, order="oldest")


def load_tree(db: Connection, project: str, thread: str) -> ThreadTree:
    return ThreadTree(ThreadNode(*row) for row in db.execute(select(*LINK_COLUMNS).where(in_thread(project, thread))))


# Writes


class NodeDraft(msgspec.Struct, frozen=True, kw_only=True):
    origin: NodeOrigin
    run: str | None = None
    status: NodeStatus = "done"
    error: Mapping[str, Any] | None = None
    """Stored on the last node, like the usage."""
    usage: Any = None
    at: datetime


def check_parent(db: Connection, project: str, thread: str, parent: str | None) -> None:
    """Raise if a node cannot get another child: it does not exist, failed, or has too many children."""
    if parent is not None:
        query = select(nodes.c.status).where(is_node(project, thread, parent))
        status = db.scalar(query) if is_node_id(parent) else None
        if status is None:
            raise ItemNotFound(parent, pointer="/parent")
        if status == "failed":
            raise InvalidValue(
                "Cannot continue from a failed run's message. Use its parent instead.", pointer="/parent"
            )
    below = nodes.c.parent.is_(None) if parent is None else nodes.c.parent == parent
    count = db.scalar(select(func.count()).select_from(nodes).where(in_thread(project, thread), below))
    if (count or 0) >= MAX_CHILDREN:
        raise TooLarge(f"This message already has {count} replies, the maximum.")


def append_nodes(
    db: Connection, project: str, thread: str, parent: str | None, messages: Sequence[Message], draft: NodeDraft
) -> list[Node]:
    """Insert a chain of nodes below a parent. The caller has locked the thread and moves its head."""
    if not messages:
        return []
    first = (db.scalar(select(func.max(nodes.c.place)).where(in_thread(project, thread))) or 0) + 1
    ids = _choose_ids(db, project, thread, first, messages, draft.at)
    last = len(messages) - 1
    drafts = [
        Node(
            id=ids[index],
            parent=ids[index - 1] if index else parent,
            place=first + index,
            message=assign_node_id(message, ids[index]),
            origin=draft.origin,
            run=draft.run,
            status=draft.status,
            error=draft.error if index == last else None,
            usage=draft.usage if index == last else None,
            created_at=draft.at,
        )
        for index, message in enumerate(messages)
    ]
    return insert_nodes(db, project, thread, drafts)


def insert_nodes(db: Connection, project: str, thread: str, new_nodes: Sequence[Node]) -> list[Node]:
    """Insert nodes; returns them as they are stored, which may be redacted."""
    new_nodes = _redact_nodes(db, project, thread, new_nodes)
    followers = {node.parent: node.id for node in new_nodes if node.status != "failed"}
    rows = [node_row(node) | {"last_child": followers.get(node.id)} for node in new_nodes]
    db.execute(insert(nodes), [row | {"project": project, "thread": thread} for row in rows])
    files.add_references(db, project, thread, [(node.id, node.message) for node in new_nodes])
    return new_nodes


def _redact_nodes(db: Connection, project: str, thread: str, new_nodes: Sequence[Node]) -> list[Node]:
    if redaction.get_redactor(db) is None:
        return list(new_nodes)
    workflow = db.scalar(select(threads.c.workflow).where(threads.c.project == project, threads.c.id == thread))
    messages = redaction.redact_messages(db, project, workflow, [node.message for node in new_nodes])
    return [msgspec.structs.replace(node, message=message) for node, message in zip(new_nodes, messages, strict=True)]


def node_row(node: Node) -> dict[str, Any]:
    """Return the columns of a node, without project and thread."""
    fields = {name: getattr(node, name) for name in Node.__struct_fields__}
    text = "".join([part.text for part in node.message.parts if isinstance(part, Text | Refusal)])
    return fields | {
        "role": node.message.role,
        "line": truncation.message_line(node.message, LINE_LENGTH),
        "folded": folded_text(text),
        "message": _encode_message(node.message),
        "last_child": None,
    }


def set_last_children(db: Connection, project: str, thread: str, last_children: Mapping[str, str | None]) -> None:
    """Set which child of a node is on the branch that was last current."""
    if last_children:
        change = update(nodes).where(is_node(project, thread, bindparam("upper"))).values(last_child=bindparam("lower"))
        db.execute(change, [{"upper": upper, "lower": lower} for upper, lower in last_children.items()])


def is_node_id(text: str) -> bool:
    return text not in _RESERVED_IDS and _ID_PATTERN.fullmatch(text) is not None


# Helpers


def in_thread(project: str, thread: str) -> ColumnElement[bool]:
    return (nodes.c.project == project) & (nodes.c.thread == thread)


def is_node(project: str, thread: str, node: Any) -> ColumnElement[bool]:
    return in_thread(project, thread) & (nodes.c.id == node)


def row_to_node(row: Row[Any]) -> Node:
    """Build a node from a row that starts with NODE_COLUMNS."""
    fields: dict[str, Any] = dict(zip(Node.__struct_fields__, row, strict=False))
    fields["message"] = decode_message(fields["message"])
    return Node(**fields)


def _choose_ids(
    db: Connection, project: str, thread: str, first: int, messages: Sequence[Message], at: datetime
) -> list[str]:
    """Return for each message its own id if that is valid and free, else a new one."""
    client_ids = [message.id for message in messages if message.id is not None and is_node_id(message.id)]
    used = set(
        db.scalars(select(nodes.c.id).where(in_thread(project, thread), nodes.c.id.in_(client_ids)))
        if client_ids
        else ()
    )
    ids: list[str] = []
    for place, message in enumerate(messages, first):
        node_id = message.id
        if node_id is None or node_id in used or not is_node_id(node_id):
            node_id = _new_id(thread, place, at)
        used.add(node_id)
        ids.append(node_id)
    return ids


def _new_id(thread: str, place: int, at: datetime) -> str:
    """Return a new id, the same when the transaction is retried."""
    digest = hashlib.blake2b(f"{thread}/{place}/{at.timestamp()}".encode(), digest_size=10).digest()
    return f"msg_{sortable_id(int(at.astimezone(UTC).timestamp() * 1000), int.from_bytes(digest))}"


def assign_node_id(message: Message, node_id: str) -> Message:
    """Return the message with its node id; an id of the client that was not accepted becomes `client_id`."""
    if message.id == node_id:
        return message
    metadata = message.metadata if message.id is None else {**message.metadata, "client_id": message.id}
    return msgspec.structs.replace(message, id=node_id, metadata=metadata)


def _encode_message(message: Message) -> bytes:
    try:
        return json.encode(message)
    except (UnicodeEncodeError, TypeError):  # A workflow may return anything that looks like text.
        return json.encode(json.round_trip(message))


_FIRST_BATCH, _MAX_BATCH = 64, 4096
"""Nodes per query: few at first, since the end of a branch is requested most often."""
_MAX_PLACES = 500
"""Maximum number of places in one statement."""


class PathStep(NamedTuple):
    link: ThreadNode
    role: str


def iter_ancestors(db: Connection, project: str, thread: str, node: str) -> Iterator[PathStep]:
    """Yield the node, its parent and so on up to the root; nothing for an unknown node."""
    start = db.scalar(select(nodes.c.place).where(is_node(project, thread, node))) if is_node_id(node) else None
    next_id: str | None = node
    upper_place, size = (start or 0) + 1, _FIRST_BATCH
    query = select(*LINK_COLUMNS, nodes.c.role).where(in_thread(project, thread)).order_by(nodes.c.place.desc())
    while start is not None:
        rows = db.execute(query.where(nodes.c.place < upper_place).limit(size)).all()
        for row in rows:
            if row.id == next_id:
                yield PathStep(ThreadNode(*row[: len(LINK_COLUMNS)]), row.role)
                next_id = row.parent
        if next_id is None:
            return
        upper_place, size = rows[-1].place, min(4 * size, _MAX_BATCH)


def load_branch(db: Connection, project: str, thread: str, node: str | None) -> list[Node]:
    """Return the messages up to a node, oldest first. Raises ItemNotFound."""
    if node is None:
        return []
    places = [step.link.place for step in iter_ancestors(db, project, thread, node)]
    if not places:
        raise ItemNotFound(node)
    return _load_places(db, project, thread, places[::-1])


def _load_places(db: Connection, project: str, thread: str, places: Sequence[int]) -> list[Node]:
    query = select(*NODE_COLUMNS).where(in_thread(project, thread))
    first, last = places[0], places[-1]
    if last - first < 2 * len(places):  # Few other nodes lie in between.
        rows = db.execute(query.where(nodes.c.place.between(first, last)).order_by(nodes.c.place))
        selected = set(places)
        return [row_to_node(row) for row in rows if row.place in selected]
    result: list[Node] = []
    for batch in split_batches(places, _MAX_PLACES):
        rows = db.execute(query.where(nodes.c.place.in_(batch)).order_by(nodes.c.place))
        result += [row_to_node(row) for row in rows]
    return result


def list_branch(
    db: Connection, project: str, thread: str, node: str | None, *, requested: str, window: Window = FIRST_PAGE
) -> Page[Node]:
    """List a branch from its end, each page oldest first; `requested` is the end as the caller named it."""
    if node is None:
        return Page([])
    max_nodes = window.limit + 1 if window.after is None else None  # The first page needs the end of the path only.
    places = [step.link.place for step in islice(iter_ancestors(db, project, thread, node), max_nodes)]
    if not places:
        raise ItemNotFound(node)
    query = select(*NODE_COLUMNS).where(in_thread(project, thread), nodes.c.place.in_(places))
    filters = {"thread": thread, "at": requested}
    page = fetch_page(db, query, row_to_node, project=project, by=[nodes.c.place], window=window, filters=filters)
    return Page(page.data[::-1], page.next)


def load_last_turn(
    db: Connection, project: str, thread: str, head: str, *, max_nodes: int, max_answer_messages: int
) -> list[Message]:
    """Return the last question of a branch and up to `max_answer_messages` messages of the end of its answer."""
    places: list[int] = []
    for link, role in islice(iter_ancestors(db, project, thread, head), max_nodes):
        if role == "user" or len(places) < max_answer_messages:
            places.append(link.place)
        if role == "user":
            break
    query = select(MESSAGE_COLUMN).where(in_thread(project, thread), nodes.c.place.in_(places)).order_by(nodes.c.place)
    return [decode_message(message) for message in db.scalars(query)]


def make_current(db: Connection, project: str, thread: str, head: str) -> None:
    """Make the path to `head` the current branch."""
    path = [step.link for step in iter_ancestors(db, project, thread, head)]
    set_last_children(db, project, thread, changed_last_children(path[::-1]))
