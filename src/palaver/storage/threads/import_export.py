"""Export of threads as JSON lines (complete, or branches as test cases), and import of complete threads."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from sqlalchemy import Connection

from palaver.core import dialects, json
from palaver.core.json import decode_struct
from palaver.core.messages import NO_METADATA, Message, Part, Role
from palaver.core.thread_tree import NodeStatus, ThreadNode, ThreadTree
from palaver.errors import InvalidValue
from palaver.storage.threads import message_tree as tree
from palaver.storage.threads.copies import Branches
from palaver.storage.threads.message_tree import Node, is_node_id, make_current
from palaver.storage.threads.repository import (
    MAX_TITLE_LENGTH,
    NewThread,
    Thread,
    TitleBy,
    branch_previews,
    get_thread,
    insert_thread,
    require_thread,
    update_thread_row,
)

FORMAT: Literal["thread/1"] = "thread/1"
ExportFormat = Literal["jsonl", "messages"]
"""`jsonl`: one line per thread, complete; `messages`: one line per branch."""

_COPIED_NODE_FIELDS = ("id", "parent", "run", "status", "error", "usage", "created_at")
_NO_NUL = r"^[^\x00]*$"
_Time = Annotated[datetime, Meta(tz=True)]
_Name = Annotated[str, Meta(max_length=64, pattern=_NO_NUL)]


class NodeFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    parent: str | None
    role: Role
    parts: tuple[Part, ...]
    name: str | None = None
    metadata: dict[str, Any] = NO_METADATA
    run: _Name | None = None
    status: NodeStatus = "done"
    error: Mapping[str, Any] | None = None
    usage: Mapping[str, Any] | None = None
    created_at: _Time


class ThreadFile(msgspec.Struct, frozen=True, kw_only=True):
    """A thread with all its branches, in which each message comes after its parent."""

    palaver: Literal["thread/1"]
    id: str
    title: Annotated[str, Meta(max_length=MAX_TITLE_LENGTH)]
    title_by: TitleBy
    workflow: _Name | None
    variant: Annotated[str, Meta(max_length=80, pattern=_NO_NUL)] | None = None
    parameters: dict[str, Any] = {}
    inputs: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    pinned: bool = False
    origin: Annotated[str, Meta(pattern="^[a-z]{1,16}$")] = "import"
    head: str | None = None
    created_at: _Time
    updated_at: _Time
    messages: list[NodeFile]


# Export


def export_thread(
    db: Connection, project: str, thread: str, form: ExportFormat = "jsonl", branches: Branches = "current"
) -> bytes:
    """Return a thread as one complete line, or one line per branch."""
    row, nodes = require_thread(db, project, thread), tree.list_nodes(db, project, thread)
    if form == "jsonl":
        return encode_thread(row, nodes)
    ends = [row.head] if branches == "current" else _branch_ends(nodes)
    return b"".join([_encode_case(row, path) for path in branch_paths(nodes, ends) if path])


def encode_thread(thread: Thread, nodes: list[Node]) -> bytes:
    copied_fields = [name for name in ThreadFile.__struct_fields__ if name not in ("palaver", "messages")]
    fields: dict[str, Any] = {name: getattr(thread, name) for name in copied_fields}
    file = ThreadFile(palaver=FORMAT, messages=[_node_file(node) for node in nodes], **fields)
    return json.encode(file) + b"\n"


def _encode_case(thread: Thread, branch: Sequence[Node]) -> bytes:
    messages = dialects.write([node.message for node in branch], "chat-completions")
    return json.encode({"messages": messages, "inputs": thread.inputs}) + b"\n"


def _branch_ends(nodes: Sequence[Node]) -> list[str | None]:
    """Return the ids of the last nodes of branches, without failed ones."""
    not_failed = [node for node in nodes if node.status != "failed"]
    parent_ids = {node.parent for node in not_failed}
    return [node.id for node in not_failed if node.id not in parent_ids]


def branch_paths(nodes: Sequence[Node], ends: Sequence[str | None]) -> list[list[Node]]:
    thread_tree = ThreadTree(ThreadNode(node.id, node.parent, node.place) for node in nodes)
    by_id = {node.id: node for node in nodes}
    return [[by_id[node] for node in thread_tree.path(end)] for end in ends]


# Import


def parse_thread_file(value: object) -> ThreadFile:
    """Parse a line of a file. Raises an error with a JSON pointer to the invalid value."""
    file = decode_struct(value, ThreadFile)
    _check_tree(file)
    return file


def import_thread(db: Connection, project: str, file: ThreadFile, *, id: str) -> Thread | None:
    """Create the thread of a file under its own id, or under `id` if its own is invalid or taken.

    Returns None if the project has the same thread already.
    """
    thread_id = file.id if file.id.startswith("conv_") and is_node_id(file.id) else id
    if thread_id == file.id and get_thread(db, project, thread_id) is not None:
        if [_node_file(node) for node in tree.list_nodes(db, project, thread_id)] == file.messages:
            return None
        thread_id = id
    insert_thread(db, project, _new_thread(file, thread_id))
    nodes = [_node(node, place) for place, node in enumerate(file.messages, 1)]
    if nodes:
        tree.insert_nodes(db, project, thread_id, nodes)
    if file.head is not None:
        make_current(db, project, thread_id, file.head)
    previews = branch_previews(db, project, thread_id, file.head)
    columns = {"title_by": file.title_by, "messages": len(nodes), "head": file.head, "updated_at": file.updated_at}
    update_thread_row(db, project, thread_id, **columns, **previews)
    return require_thread(db, project, thread_id)


def _new_thread(file: ThreadFile, thread_id: str) -> NewThread:
    copied_fields = ("workflow", "variant", "parameters", "inputs", "metadata", "pinned", "origin", "title")
    fields: dict[str, Any] = {field: getattr(file, field) for field in copied_fields}
    return NewThread(id=thread_id, at=file.created_at, **fields)


def _check_tree(file: ThreadFile) -> None:
    """Raise InvalidValue if the messages are not a tree."""
    statuses: dict[str, NodeStatus] = {}
    for index, node in enumerate(file.messages):
        pointer = f"/messages/{index}"
        if not is_node_id(node.id) or node.id in statuses:
            raise InvalidValue(f"Invalid or duplicate message id {node.id[:80]!r}.", pointer=f"{pointer}/id")
        if node.parent is not None and node.parent not in statuses:
            raise InvalidValue(
                f"Parent {node.parent[:80]!r} must appear before its children.", pointer=f"{pointer}/parent"
            )
        if node.status == "streaming":
            raise InvalidValue("status 'streaming' is not allowed in an imported thread.", pointer=f"{pointer}/status")
        if node.parent is not None and statuses[node.parent] == "failed" != node.status:
            raise InvalidValue("Messages from a failed run can't have replies.", pointer=f"{pointer}/parent")
        statuses[node.id] = node.status
    if file.head is not None and statuses.get(file.head, "failed") == "failed":
        raise InvalidValue("head must be a message of this thread that is not from a failed run.", pointer="/head")


def _node_file(node: Node) -> NodeFile:
    message = node.message
    fields: dict[str, Any] = {name: getattr(node, name) for name in _COPIED_NODE_FIELDS}
    return NodeFile(role=message.role, parts=message.parts, name=message.name, metadata=message.metadata, **fields)


def _node(file: NodeFile, place: int) -> Node:
    fields: dict[str, Any] = {name: getattr(file, name) for name in _COPIED_NODE_FIELDS}
    message = Message(file.role, file.parts, file.id, file.name, file.metadata)
    return Node(place=place, message=message, origin="import", **fields)
