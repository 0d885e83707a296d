"""Copies and forks of threads, made inside the database."""

from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET
from sqlalchemy import ColumnElement, Connection, func, insert, literal, select

from palaver.errors import InvalidValue, ItemNotFound
from palaver.storage import files
from palaver.storage.schema import split_batches
from palaver.storage.tables import nodes
from palaver.storage.threads import message_tree as tree
from palaver.storage.threads.message_tree import in_thread, iter_ancestors, make_current
from palaver.storage.threads.repository import (
    NewThread,
    Thread,
    ThreadChanges,
    branch_previews,
    insert_thread,
    lock_thread_row,
    require_thread,
    title_columns,
    update_thread_row,
)

Branches = Literal["current", "all"]

_MAX_PLACES = 2_000
"""Maximum number of places in one statement."""


def duplicate_thread(
    db: Connection,
    project: str,
    thread: str,
    *,
    id: str,
    at: datetime,
    upto: str | None = None,
    branches: Branches = "current",
    changes: ThreadChanges = ThreadChanges(),  # noqa: B008  # It is frozen.
) -> Thread:
    """Copy a thread, or fork it at the message `upto`: one branch, or all with that one current."""
    lock_thread_row(db, project, thread)
    source = require_thread(db, project, thread)
    head = source.head
    if upto is not None:
        end = tree.get_node(db, project, thread, upto)
        if end is None:
            raise ItemNotFound(upto, pointer="/upto")
        if end.status == "failed":
            raise InvalidValue("Cannot fork at a message from a failed run. Use its parent instead.", pointer="/upto")
        head = upto
    insert_thread(db, project, _new_thread(source, changes, id, at))
    if source.title_by == "auto" and changes.title is UNSET:
        update_thread_row(db, project, id, **title_columns(source.title))
    if branches == "all":
        _copy_nodes(db, id, in_thread(project, thread))
    elif head is not None:
        places = [step.link.place for step in iter_ancestors(db, project, thread, head)]
        for batch in split_batches(places, _MAX_PLACES):
            _copy_nodes(db, id, in_thread(project, thread) & nodes.c.place.in_(batch))
    files.copy_references(db, project, thread, id)
    count = db.scalar(select(func.count()).select_from(nodes).where(in_thread(project, id)))
    if head is not None:
        make_current(db, project, id, head)
    update_thread_row(db, project, id, head=head, messages=count, **branch_previews(db, project, id, head))
    return require_thread(db, project, id)


def _new_thread(source: Thread, changes: ThreadChanges, id: str, at: datetime) -> NewThread:
    fields: dict[str, Any] = {"title": source.title if source.title_by == "user" else None}
    fields |= {name: getattr(source, name) for name in ("workflow", "variant", "parameters", "inputs", "metadata")}
    fields |= {name: value for name, value in msgspec.structs.asdict(changes).items() if value is not UNSET}
    return NewThread(id=id, at=at, **fields)


def _copy_nodes(db: Connection, copy: str, condition: ColumnElement[bool]) -> None:
    names = [column.name for column in nodes.columns]
    replaced: dict[str, ColumnElement[Any]] = {"thread": literal(copy), "origin": literal("copy")}
    query = select(*(replaced.get(name, nodes.c[name]) for name in names)).where(condition)
    db.execute(insert(nodes).from_select(names, query))
