"""Threads and their messages as the REST API shows them."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core.extraction import excerpts
from palaver.core.messages import Message, Part, Role
from palaver.core.thread_tree import NodeStatus
from palaver.server.api.conventions import Time, told_time
from palaver.storage.feedback import Counts
from palaver.storage.threads.message_tree import LINE_LENGTH, Leaf, Node
from palaver.storage.threads.repository import Match, Thread, ThreadListItem, ThreadRow, TitleBy


class Answering(msgspec.Struct, frozen=True):
    """What a run that has not ended has said so far in its thread."""

    answers: str | None
    """The node below which it will stand."""
    messages: Sequence[Message]
    since: datetime


Running = Callable[[str, str], Awaitable[Answering | None]]
"""`running(project, run)`: what a run is saying; None of one that has ended."""


class ThreadSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the list of threads."""

    id: str
    title: str
    title_by: TitleBy
    workflow: str | None
    variant: str | None
    head: str | None
    run: str | None
    pinned: bool
    origin: str
    board: str | None
    messages: int
    asked: Any = msgspec.field(name="in")
    answered: Any = msgspec.field(name="out")
    created_at: Time
    updated_at: Time
    match: Match | UnsetType = UNSET
    """Where the text that was searched for stands."""


class ThreadView(ThreadSummary, frozen=True, kw_only=True):
    """All of a thread but its messages."""

    parameters: Mapping[str, Any]
    inputs: Mapping[str, Any]
    metadata: Mapping[str, Any]


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a thread, and what stands beside it."""

    id: str
    parent: str | None
    role: Role
    parts: Sequence[Part]
    name: str | None
    metadata: Mapping[str, Any]
    origin: str
    run: str | None
    status: NodeStatus
    error: Mapping[str, Any] | None
    siblings: Sequence[str]
    """It and the others below its parent, in order of making."""
    feedback: Counts
    usage: Mapping[str, Any] | None
    seconds: float | None
    """How long its run took; null where there was none, or it goes on."""
    created_at: Time


class Said(msgspec.Struct, frozen=True):
    """Messages that were just put into a thread."""

    messages: list[NodeView]


def summary(found: ThreadListItem) -> ThreadSummary:
    """A thread as a row."""
    return ThreadSummary(**_common(found.thread), match=UNSET if found.match is None else found.match)


def view(thread: Thread) -> ThreadView:
    """A thread as a whole."""
    return ThreadView(**_common(thread), parameters=thread.parameters, inputs=thread.inputs, metadata=thread.metadata)


def _common(thread: ThreadRow) -> dict[str, Any]:
    fields: dict[str, Any] = {name: getattr(thread, name) for name in ThreadRow.__struct_fields__}
    fields["asked"], fields["answered"] = fields.pop("preview_in"), fields.pop("preview_out")
    times = {"created_at": told_time(thread.created_at), "updated_at": told_time(thread.updated_at)}
    return fields | times


def node_view(
    node: Node,
    siblings: Mapping[str | None, Sequence[str]],
    feedback: Mapping[tuple[str, str], Counts],
    seconds: Mapping[str, float] = MappingProxyType({}),
) -> NodeView:
    """A node as it is shown."""
    message = node.message
    return NodeView(
        id=node.id,
        parent=node.parent,
        role=message.role,
        parts=message.parts,
        name=message.name,
        metadata=message.metadata,
        origin=node.origin,
        run=node.run,
        status=node.status,
        error=node.error,
        siblings=siblings.get(node.parent, [node.id]),
        feedback=feedback.get((node.run or "", node.id), Counts()),
        usage=node.usage,
        seconds=seconds.get(node.run or ""),
        created_at=told_time(node.created_at),
    )


# What is being said


def streaming(answering: Answering, run: str, place: int = 0) -> list[Node]:
    """The nodes that a run is writing, below what it answers. Those without an id are not to be named yet."""
    made: list[Node] = []
    for message in answering.messages:
        if message.id is None:
            break
        parent = made[-1].id if made else answering.answers
        made.append(
            Node(
                id=message.id,
                parent=parent,
                place=place,
                message=message,
                origin="run",
                run=run,
                status="streaming",
                created_at=answering.since,
            )
        )
    return made


def leaf(node: Node) -> Leaf:
    """A node as a tree shows it."""
    return Leaf(
        id=node.id,
        parent=node.parent,
        role=node.message.role,
        run=node.run,
        status=node.status,
        line=excerpts.message_line(node.message, LINE_LENGTH),
    )


def with_siblings(
    siblings: Mapping[str | None, Collection[str]], made: Sequence[Node]
) -> dict[str | None, Sequence[str]]:
    """The siblings, with those that are being written."""
    known: dict[str | None, Sequence[str]] = {parent: list(children) for parent, children in siblings.items()}
    for node in made:
        beside = known.get(node.parent, ())
        known[node.parent] = beside if node.id in beside else [*beside, node.id]
    return known
