"""The messages of threads: a tree of nodes, each one message that is never changed.

`add` makes nodes, `get`, `siblings` and `tree` find them; a path through them is for branches.py, the thread's own row
for thread_rows.py, and what happens in a thread for threads.py.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    LargeBinary,
    bindparam,
    func,
    insert,
    select,
    type_coerce,
    update,
)
from sqlalchemy.engine import Row

from palaver.core import jsons
from palaver.core.extraction import words
from palaver.core.ids import LONGEST, sortable
from palaver.core.messages import Message
from palaver.core.parts import Refusal, Text
from palaver.core.trees import Link, NodeStatus, Tree
from palaver.errors import InvalidValue, ItemNotFound, TooLarge
from palaver.storage import cleaning, file_uses
from palaver.storage.pages import START, Page, Window, page
from palaver.storage.tables import nodes, threads

MOST_NODES = 20_000
"""Of one thread."""
MOST_CHILDREN = 200
"""Of one node."""
LINE = 80
"""Characters of a node in a tree."""

NodeOrigin = Literal["run", "client", "copy", "import"]
"""Who put it there: a run that said it, somebody who posted it, or a copy or file that held it."""

_ID = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._:~-]{{0,{LONGEST - 1}}}")
_RESERVED = frozenset({"head"})  # Where a node may be named, this means another.
read_message = msgspec.json.Decoder(Message).decode


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a thread, and where it stands."""

    id: str
    parent: str | None
    place: int
    message: Message
    origin: NodeOrigin
    run: str | None = None
    status: NodeStatus = "done"
    error: Mapping[str, Any] | None = None
    usage: Mapping[str, Any] | None = None
    """What its run cost, on the last message of that run."""
    created_at: datetime


class Leaf(msgspec.Struct, frozen=True, kw_only=True):
    """A node as a tree shows it: without its message."""

    id: str
    parent: str | None
    role: str
    run: str | None
    status: NodeStatus
    line: str


MESSAGE = type_coerce(nodes.c.message, LargeBinary).label("message")
"""As bytes: they are read as a message in one go."""
FIELDS: list[ColumnElement[Any]] = [MESSAGE if name == "message" else nodes.c[name] for name in Node.__struct_fields__]
_LEAF = [nodes.c[name] for name in Leaf.__struct_fields__]
LINK = [nodes.c[name] for name in Link._fields]


# Looking


def get(db: Connection, project: str, thread: str, node: str) -> Node | None:
    """One node; None where there is none."""
    if not is_id(node):
        return None
    row = db.execute(select(*FIELDS).where(is_node(project, thread, node))).one_or_none()
    return None if row is None else node_of(row)


def everything(db: Connection, project: str, thread: str) -> list[Node]:
    """All nodes, on all branches, in order of making."""
    asked = select(*FIELDS).where(of_thread(project, thread)).order_by(nodes.c.place)
    return [node_of(row) for row in db.execute(asked)]


def siblings(db: Connection, project: str, thread: str, parents: Iterable[str | None]) -> dict[str | None, list[str]]:
    """The children of each of these nodes in order of making; of None the roots."""
    wanted = set(parents)
    named = [parent for parent in wanted if parent is not None]
    found: dict[str | None, list[str]] = {parent: [] for parent in wanted}
    rows: list[tuple[int, str | None, str]] = []
    asked = select(nodes.c.place, nodes.c.parent, nodes.c.id).where(of_thread(project, thread))
    # Two questions, and unsorted: each is then answered by the index of what stands below a node.
    for which in (
        *([nodes.c.parent.in_(named)] if named else []),
        *([nodes.c.parent.is_(None)] if None in wanted else []),
    ):
        rows += [(place, parent, node) for place, parent, node in db.execute(asked.where(which))]
    for _, parent, node in sorted(rows, key=lambda row: row[0]):
        found[parent].append(node)
    return found


def leaves(db: Connection, project: str, thread: str, window: Window = START) -> Page[Leaf]:
    """A page of all branches, in order of making."""
    asked = select(*_LEAF).where(of_thread(project, thread))
    filters = {"thread": thread, "list": "tree"}
    return page(
        db,
        asked,
        _leaf,
        project=project,
        by=[nodes.c.place],
        window=window,
        filters=filters,
        order="oldest",
    )


def tree(db: Connection, project: str, thread: str) -> Tree:
    """How its nodes hang together."""
    return Tree(Link(*row) for row in db.execute(select(*LINK).where(of_thread(project, thread))))


# Making


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """What nodes are made of, beside their messages."""

    origin: NodeOrigin
    run: str | None = None
    status: NodeStatus = "done"
    error: Mapping[str, Any] | None = None
    """Told on the last of them; so is the usage."""
    usage: Any = None
    at: datetime


def check_parent(db: Connection, project: str, thread: str, parent: str | None) -> None:
    """Raise where nothing may be put below a node: it is not there, or failed, or has too many below it already."""
    if parent is not None:
        asked = select(nodes.c.status).where(is_node(project, thread, parent))
        status = db.scalar(asked) if is_id(parent) else None
        if status is None:
            raise ItemNotFound(parent, pointer="/parent")
        if status == "failed":
            raise InvalidValue("What a failed run said is not gone on from: name its parent.", pointer="/parent")
    below = nodes.c.parent.is_(None) if parent is None else nodes.c.parent == parent
    count = db.scalar(select(func.count()).select_from(nodes).where(of_thread(project, thread), below))
    if (count or 0) >= MOST_CHILDREN:
        raise TooLarge(f"There are {count} answers to this message; there is room for {MOST_CHILDREN}.")


def add(
    db: Connection, project: str, thread: str, parent: str | None, messages: Sequence[Message], draft: Draft
) -> list[Node]:
    """Make a chain of nodes below a parent. The thread's row is locked, and it is its owner who moves the head."""
    if not messages:
        return []
    first = (db.scalar(select(func.max(nodes.c.place)).where(of_thread(project, thread))) or 0) + 1
    ids = _ids(db, project, thread, first, messages, draft.at)
    last = len(messages) - 1
    made = [
        Node(
            id=ids[index],
            parent=ids[index - 1] if index else parent,
            place=first + index,
            message=named(message, ids[index]),
            origin=draft.origin,
            run=draft.run,
            status=draft.status,
            error=draft.error if index == last else None,
            usage=draft.usage if index == last else None,
            created_at=draft.at,
        )
        for index, message in enumerate(messages)
    ]
    return put(db, project, thread, made)


def put(db: Connection, project: str, thread: str, made: Sequence[Node]) -> list[Node]:
    """Keep nodes; each is taken to lead to the next where that is below it. As they are kept they are given back."""
    made = _cleaned(db, project, thread, made)
    followers = {node.parent: node.id for node in made if node.status != "failed"}
    rows = [row_of(node) | {"last_child": followers.get(node.id)} for node in made]
    db.execute(insert(nodes), [row | {"project": project, "thread": thread} for row in rows])
    file_uses.note(db, project, thread, [(node.id, node.message) for node in made])
    return made


def _cleaned(db: Connection, project: str, thread: str, made: Sequence[Node]) -> list[Node]:
    if cleaning.of(db) is None:
        return list(made)
    workflow = db.scalar(select(threads.c.workflow).where(threads.c.project == project, threads.c.id == thread))
    said = cleaning.messages(db, project, workflow, [node.message for node in made])
    return [msgspec.structs.replace(node, message=message) for node, message in zip(made, said, strict=True)]


def row_of(node: Node) -> dict[str, Any]:
    """A node as its row, without whose it is."""
    fields = {name: getattr(node, name) for name in Node.__struct_fields__}
    said = "".join([part.text for part in node.message.parts if isinstance(part, Text | Refusal)])
    return fields | {
        "role": node.message.role,
        "line": words.line(node.message, LINE),
        "folded": folded(said),
        "message": _written(node.message),
        "last_child": None,
    }


def point(db: Connection, project: str, thread: str, to: Mapping[str, str | None]) -> None:
    """Say of nodes which of their children was last on the current branch."""
    if to:
        change = update(nodes).where(is_node(project, thread, bindparam("upper"))).values(last_child=bindparam("lower"))
        db.execute(change, [{"upper": upper, "lower": lower} for upper, lower in to.items()])


def folded(text: str) -> str:
    """A text as a search compares it: the same on every database, which has its own idea of upper case."""
    return held(text).casefold()


def held(text: str) -> str:
    """A text as a database holds it: PostgreSQL has no NUL."""
    return jsons.whole_text(text).replace("\0", "\ufffd")


def is_id(text: str) -> bool:
    """May a node have this id? No other is looked for."""
    return text not in _RESERVED and _ID.fullmatch(text) is not None


# Pieces


def of_thread(project: str, thread: str) -> ColumnElement[bool]:
    """Is it of that thread?"""
    return (nodes.c.project == project) & (nodes.c.thread == thread)


def is_node(project: str, thread: str, node: Any) -> ColumnElement[bool]:
    """Is it that one?"""
    return of_thread(project, thread) & (nodes.c.id == node)


def node_of(row: Row[Any]) -> Node:
    """The node of a row of FIELDS; what follows them is left alone."""
    fields: dict[str, Any] = dict(zip(Node.__struct_fields__, row, strict=False))
    fields["message"] = read_message(fields["message"])
    return Node(**fields)


def _leaf(row: Row[Any]) -> Leaf:
    fields: dict[str, Any] = dict(zip(Leaf.__struct_fields__, row, strict=False))
    return Leaf(**fields)


def _ids(db: Connection, project: str, thread: str, first: int, messages: Sequence[Message], at: datetime) -> list[str]:
    """For each message the id that it brings, if it may be had, else a new one."""
    asked = [message.id for message in messages if message.id is not None and is_id(message.id)]
    taken = set(
        db.scalars(select(nodes.c.id).where(of_thread(project, thread), nodes.c.id.in_(asked))) if asked else ()
    )
    ids: list[str] = []
    for place, message in enumerate(messages, first):
        own = message.id
        if own is None or own in taken or not is_id(own):
            own = _new_id(thread, place, at)
        taken.add(own)
        ids.append(own)
    return ids


def _new_id(thread: str, place: int, at: datetime) -> str:
    """An id that no other node of the thread has, for no two have one place at one time; the same if done again."""
    digest = hashlib.blake2b(f"{thread}/{place}/{at.timestamp()}".encode(), digest_size=10).digest()
    return f"msg_{sortable(int(at.astimezone(UTC).timestamp() * 1000), int.from_bytes(digest))}"


def named(message: Message, name: str) -> Message:
    """The message under its node's id; an id of the client's that could not be had is noted."""
    if message.id == name:
        return message
    noted = message.metadata if message.id is None else {**message.metadata, "client_id": message.id}
    return msgspec.structs.replace(message, id=name, metadata=noted)


def _written(message: Message) -> bytes:
    try:
        return jsons.encode(message)
    except (UnicodeEncodeError, TypeError):  # An author may give anything that looks like text.
        return jsons.encode(jsons.as_read(message))
