"""Turns in a thread: where what is said goes, and which messages are answered. Each looks at the thread as it is now.

What is stored is the history, whatever a client sends beside it.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from palaver.core.messages import Message
from palaver.errors import HistoryConflict, InvalidValue, ItemNotFound
from palaver.protocols import response_history
from palaver.protocols.approvals import Waiting
from palaver.protocols.ui_client import Client
from palaver.storage import redaction
from palaver.storage.threads import message_tree
from palaver.storage.threads import repository as threads
from palaver.storage.threads.message_tree import Node

THREAD = "conv_"
"""What the id of every thread begins with."""
HEAD = "head"


class Turn(NamedTuple):
    """What is said, and what it follows."""

    parent: str | None
    """The message that what is said follows; with nothing said, the one that is answered as it stands."""
    stored: tuple[Message, ...]
    """The branch that ends there."""
    said: tuple[Message, ...] = ()


Look = Callable[[Connection, str, str], Turn]
"""`look(db, project, thread)`: the turn, as the thread is now."""


def saying(parent: str | None, messages: Sequence[Message]) -> Look:
    """Say these below a message, `head` or none, and answer them; or answer that message as it stands."""

    def look(db: Connection, project: str, thread: str) -> Turn:
        at = threads.require_thread(db, project, thread).head if parent == HEAD else parent
        message_tree.check_parent(db, project, thread, at)
        stored = _up_to(db, project, thread, at)
        Waiting(stored).check(messages)
        return Turn(at, stored, tuple(messages))

    return look


def again(message: str) -> Look:
    """Answer once more what that message answered."""

    def look(db: Connection, project: str, thread: str) -> Turn:
        _checked(db, project, thread, message, "/again")
        branch = threads.get_branch(db, project, thread, message)
        if branch[-1].message.role not in ("assistant", "tool"):
            raise InvalidValue("Only an answer can be given again: name parent to answer this one.", pointer="/again")
        return _below(db, project, thread, _answered(branch))

    return look


def answering(message: str, sent: Sequence[Message]) -> Look:
    """Answer that message as it stands; what a client sent beside it must ask the same."""

    def look(db: Connection, project: str, thread: str) -> Turn:
        message_tree.check_parent(db, project, thread, message)
        stored = _up_to(db, project, thread, message)
        workflow = threads.require_thread(db, project, thread).workflow
        asked = _last_asked(redaction.redact_messages(db, project, workflow, sent))  # As it would have been kept.
        if asked is not None and asked != _last_asked(stored):
            raise HistoryConflict("The last message of the body is not what the thread's message says.")
        return Turn(message, stored)

    return look


def chatting(sent: Sequence[Message], client: Client) -> Look:
    """What a UI client wants that sends its whole list each time: only what is new in it counts."""

    def look(db: Connection, project: str, thread: str) -> Turn:
        branch = threads.get_branch(db, project, thread)
        named = message_tree.get_node(db, project, thread, client.about) if client.about is not None else None
        if client.regenerates:
            return _below(db, project, thread, _answered(_branch_to(db, project, thread, named) or branch))
        new = _after_answers(sent)
        if named is not None and named.message.role == "user":
            return Turn(named.parent, _up_to(db, project, thread, named.parent), tuple(new[-1:]))
        noted = {node.message.metadata.get("client_id") for node in branch}
        stored = tuple(node.message for node in branch)
        Waiting(stored).check(_from_last_answer(sent))  # There its user saw what they approve.
        said = response_history.new(stored, [message for message in new if message.id not in noted or not message.id])
        return Turn(branch[-1].id if branch else None, stored, tuple(said.values()))

    return look


# Pieces


def _up_to(db: Connection, project: str, thread: str, node: str | None) -> tuple[Message, ...]:
    return tuple(found.message for found in threads.get_branch(db, project, thread, node))


def _branch_to(db: Connection, project: str, thread: str, node: Node | None) -> list[Node]:
    return [] if node is None else threads.get_branch(db, project, thread, node.id)


def _below(db: Connection, project: str, thread: str, branch: Sequence[Node]) -> Turn:
    """Answer the end of a branch."""
    at = branch[-1].id if branch else None
    message_tree.check_parent(db, project, thread, at)
    return Turn(at, tuple(node.message for node in branch))


def _checked(db: Connection, project: str, thread: str, node: str, pointer: str) -> Node:
    found = message_tree.get_node(db, project, thread, node)
    if found is None:
        raise ItemNotFound(node, pointer=pointer)
    return found


def _answered(branch: Sequence[Node]) -> Sequence[Node]:
    """The branch without the answer at its end, all of which one run said; without a run, all that is no question."""
    end = len(branch)
    last = branch[-1] if branch else None
    while last is not None and end and _is_of_answer(branch[end - 1], last.run):
        end -= 1
    return branch[:end]


def _is_of_answer(node: Node, run: str | None) -> bool:
    return node.run == run and node.message.role in ("assistant", "tool")


def _last_asked(messages: Sequence[Message]) -> str | None:
    return next((message.text for message in reversed(messages) if message.role == "user"), None)


def _after_answers(messages: Sequence[Message]) -> Sequence[Message]:
    """What follows the last that the assistant said: results and approvals too, which stand in its own message."""
    return [message for message in _from_last_answer(messages) if message.role != "assistant"]


def _from_last_answer(messages: Sequence[Message]) -> Sequence[Message]:
    """The last message of the assistant and what follows it; all, where it said nothing."""
    last = max((place for place, message in enumerate(messages) if message.role == "assistant"), default=0)
    return messages[last:]
