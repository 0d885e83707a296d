"""Copies of threads, made inside the database: no message leaves it."""

from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET
from sqlalchemy import ColumnElement, Connection, func, insert, literal, select

from palaver.errors import InvalidValue, ItemNotFound
from palaver.storage import file_uses
from palaver.storage.tables import nodes
from palaver.storage.threads import nodes as tree
from palaver.storage.threads.branches import turn, upwards
from palaver.storage.threads.keeping import Changes, NewThread, insert_row
from palaver.storage.threads.nodes import of_thread
from palaver.storage.threads.rows import Thread, held_row, previews, set_row, sure, title_of

Branches = Literal["current", "all"]

_AT_ONCE = 2_000
"""Nodes that are named in one statement."""


def duplicate(
    db: Connection,
    project: str,
    thread: str,
    *,
    id: str,
    at: datetime,
    upto: str | None = None,
    branches: Branches = "current",
    changes: Changes = Changes(),  # noqa: B008  # It is frozen.
) -> Thread:
    """A copy, or a fork at a message: of the branch that ends there, or of all of them with that one current."""
    held_row(db, project, thread)
    source = sure(db, project, thread)
    head = source.head
    if upto is not None:
        end = tree.get(db, project, thread, upto)
        if end is None:
            raise ItemNotFound(upto, pointer="/upto")
        if end.status == "failed":
            raise InvalidValue("What a failed run said is not gone on from.", pointer="/upto")
        head = upto
    insert_row(db, project, _copied(source, changes, id, at))
    if source.title_by == "auto" and changes.title is UNSET:
        set_row(db, project, id, **title_of(source.title))
    if branches == "all":
        _copy_nodes(db, project, thread, id)
    elif head is not None:
        _copy_branch(db, project, thread, id, head)
    file_uses.copy(db, project, thread, id)
    count = db.scalar(select(func.count()).select_from(nodes).where(of_thread(project, id)))
    if head is not None:
        turn(db, project, id, head)
    set_row(db, project, id, head=head, messages=count, **previews(db, project, id, head))
    return sure(db, project, id)


def _copied(source: Thread, changes: Changes, id: str, at: datetime) -> NewThread:
    fields: dict[str, Any] = {"title": source.title if source.title_by == "user" else None}
    fields |= {name: getattr(source, name) for name in ("workflow", "variant", "parameters", "inputs", "metadata")}
    fields |= {name: value for name, value in msgspec.structs.asdict(changes).items() if value is not UNSET}
    return NewThread(id=id, at=at, **fields)


def _copy_nodes(db: Connection, project: str, thread: str, copy: str) -> None:
    """All of them."""
    _copy(db, copy, of_thread(project, thread))


def _copy_branch(db: Connection, project: str, thread: str, copy: str, head: str) -> None:
    places = [step.link.place for step in upwards(db, project, thread, head)]
    for start in range(0, len(places), _AT_ONCE):
        _copy(db, copy, of_thread(project, thread) & nodes.c.place.in_(places[start : start + _AT_ONCE]))


def _copy(db: Connection, copy: str, which: ColumnElement[bool]) -> None:
    names = [column.name for column in nodes.columns]
    made: dict[str, ColumnElement[Any]] = {"thread": literal(copy), "origin": literal("copy")}
    asked = select(*(made.get(name, nodes.c[name]) for name in names)).where(which)
    db.execute(insert(nodes).from_select(names, asked))
