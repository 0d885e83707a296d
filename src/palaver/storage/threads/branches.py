"""Branches: the path from a root of a thread's tree to one of its messages.

A parent was made before its children. So one look back through the thread, from a node on, comes by all that stand
above it, in order. A database that is asked to climb by itself may go through the whole thread for each step: what is
new to it, it takes to be small.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from sqlalchemy import Connection, select

from palaver.core.messages import Message
from palaver.core.trees import Link, turned
from palaver.errors import ItemNotFound
from palaver.storage.pages import START, Page, Window, page
from palaver.storage.tables import nodes
from palaver.storage.threads.nodes import (
    FIELDS,
    LINK,
    MESSAGE,
    Node,
    is_id,
    is_node,
    node_of,
    of_thread,
    point,
    read_message,
)

_FIRST, _MOST = 64, 4096
"""Nodes that are looked at in one go: few at first, as the end of a branch is asked for most."""
_AT_ONCE = 500
"""Nodes that are named in one statement."""


class Step(NamedTuple):
    """A node on the way up."""

    link: Link
    role: str


def upwards(db: Connection, project: str, thread: str, at: str) -> Iterator[Step]:
    """The node, its parent, and so on to the root; nothing where there is no such node."""
    start = db.scalar(select(nodes.c.place).where(is_node(project, thread, at))) if is_id(at) else None
    wanted: str | None = at
    below, size = (start or 0) + 1, _FIRST
    asked = select(*LINK, nodes.c.role).where(of_thread(project, thread)).order_by(nodes.c.place.desc())
    while start is not None:
        rows = db.execute(asked.where(nodes.c.place < below).limit(size)).all()
        for row in rows:
            if row.id == wanted:
                yield Step(Link(*row[: len(LINK)]), row.role)
                wanted = row.parent
        if wanted is None:
            return
        below, size = rows[-1].place, min(4 * size, _MOST)


def branch(db: Connection, project: str, thread: str, at: str | None) -> list[Node]:
    """The messages up to that node, oldest first; nothing for None."""
    if at is None:
        return []
    places = [step.link.place for step in upwards(db, project, thread, at)]
    if not places:
        raise ItemNotFound(at)
    return _at(db, project, thread, places[::-1])


def _at(db: Connection, project: str, thread: str, places: Sequence[int]) -> list[Node]:
    asked = select(*FIELDS).where(of_thread(project, thread))
    first, last = places[0], places[-1]
    if last - first < 2 * len(places):  # Hardly anything stands between them.
        rows = db.execute(asked.where(nodes.c.place.between(first, last)).order_by(nodes.c.place))
        wanted = set(places)
        return [node_of(row) for row in rows if row.place in wanted]
    found: list[Node] = []
    for start in range(0, len(places), _AT_ONCE):
        some = nodes.c.place.in_(places[start : start + _AT_ONCE])
        found += [node_of(row) for row in db.execute(asked.where(some).order_by(nodes.c.place))]
    return found


def branch_page(
    db: Connection, project: str, thread: str, at: str | None, *, asked: str, window: Window = START
) -> Page[Node]:
    """A page of a branch: the end of it first, oldest first inside a page. `asked` is how the end was named."""
    if at is None:
        return Page([])
    reach = window.limit + 1 if window.after is None else None  # The end is found without a look at the rest.
    places = [step.link.place for step in islice(upwards(db, project, thread, at), reach)]
    if not places:
        raise ItemNotFound(at)
    query = select(*FIELDS).where(of_thread(project, thread), nodes.c.place.in_(places))
    filters = {"thread": thread, "at": asked}
    found = page(db, query, node_of, project=project, by=[nodes.c.place], window=window, filters=filters)
    return Page(found.data[::-1], found.next)


def last_turn(db: Connection, project: str, thread: str, head: str, *, reach: int, answer: int) -> list[Message]:
    """The last question of a branch and, after it, the end of its answer: so many messages at most."""
    chosen: list[int] = []
    for link, role in islice(upwards(db, project, thread, head), reach):
        if role == "user" or len(chosen) < answer:
            chosen.append(link.place)
        if role == "user":
            break
    asked = select(MESSAGE).where(of_thread(project, thread), nodes.c.place.in_(chosen)).order_by(nodes.c.place)
    return [read_message(message) for message in db.scalars(asked)]


def turn(db: Connection, project: str, thread: str, head: str) -> None:
    """Let the path to a node be the one that is gone when somebody comes by: it is the current branch now."""
    path = [step.link for step in upwards(db, project, thread, head)]
    point(db, project, thread, turned(path[::-1]))
