"""Threads as rows: finding one, listing them, and keeping what a row shows of its messages."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, Select, exists, func, select, update
from sqlalchemy.engine import Row

from palaver.core import jsons
from palaver.core.extraction import preview
from palaver.core.extraction.cutting import one_line
from palaver.core.messages import Message
from palaver.errors import ThreadNotFound
from palaver.storage.notices import Change, touch
from palaver.storage.pages import START, Page, Window, page
from palaver.storage.tables import nodes, threads
from palaver.storage.threads.branches import last_turn
from palaver.storage.threads.nodes import folded, held

TitleBy = Literal["auto", "user"]
"""Who gave a thread its title: we, from what was asked first, or somebody."""

LONGEST_TITLE = 200
_AUTO_TITLE = 80
_TURN = 64
"""Nodes above the head among which the last question is looked for."""
_ANSWER = 8
"""Messages of an answer that a row shows at most."""
_BEFORE, _MATCH = 40, 160
"""Characters before what was searched for, and of all that is shown of it."""


class ThreadRow(msgspec.Struct, frozen=True, kw_only=True):
    """A thread in a list: without what its runs are given."""

    id: str
    title: str
    title_by: TitleBy
    workflow: str | None
    variant: str | None
    head: str | None
    """The node where the current branch ends."""
    run: str | None
    """The run that is answering in it."""
    pinned: bool
    origin: str
    """Where it was made: `playground`, `api`, `import`."""
    board: str | None
    messages: int
    """On all branches."""
    preview_in: Any
    preview_out: Any
    """What was asked last on the current branch, and what was answered to that."""
    created_at: datetime
    updated_at: datetime
    """When something was last said in it, or taken away."""


class Thread(ThreadRow, frozen=True, kw_only=True):
    """All of a thread but its messages."""

    parameters: Mapping[str, Any]
    inputs: Mapping[str, Any]
    metadata: Mapping[str, Any]


class Match(msgspec.Struct, frozen=True):
    """Where a search found its text: in a message, or in the title."""

    message: str | None
    text: str


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """Which threads are asked for."""

    search: str | None = None
    """A text in the title or in any message, taken literally; upper case does not matter."""
    workflow: str | None = None
    pinned: bool | None = None
    origin: str | None = None


class Found(msgspec.Struct, frozen=True):
    """A thread of a list, and why it is there where one searched."""

    thread: ThreadRow
    match: Match | None = None


_ROW = [threads.c[name] for name in ThreadRow.__struct_fields__]
_THREAD = [threads.c[name] for name in Thread.__struct_fields__]
_HELD = [
    threads.c[name] for name in ("id", "workflow", "head", "run", "run_head", "title", "title_by", "messages", "board")
]
ANY = Filters()


def get(db: Connection, project: str, thread: str) -> Thread | None:
    """One thread; None for an unknown one, or another project's."""
    found = db.execute(_one(select(*_THREAD), project, thread)).mappings().one_or_none()
    return None if found is None else Thread(**found)


def sure(db: Connection, project: str, thread: str) -> Thread:
    """One thread, or ThreadNotFound."""
    found = get(db, project, thread)
    if found is None:
        raise ThreadNotFound(thread)
    return found


def held_row(db: Connection, project: str, thread: str) -> Row[Any]:
    """A thread's row, which nobody else changes until this transaction ends: its tree grows in one order."""
    row = db.execute(_one(select(*_HELD), project, thread).with_for_update()).one_or_none()
    if row is None:
        raise ThreadNotFound(thread)
    return row


def set_row(db: Connection, project: str, thread: str, **values: Any) -> None:
    """Change a thread's row."""
    db.execute(update(threads).where(threads.c.project == project, threads.c.id == thread).values(**values))
    touch(db, Change(project, "thread", thread))


def _one(asked: Select[Any], project: str, thread: str) -> Select[Any]:
    return asked.where(threads.c.project == project, threads.c.id == held(thread))


# Lists


def list_page(db: Connection, project: str, filters: Filters = ANY, window: Window = START) -> Page[Found]:
    """A page of threads, those in which something was said last first."""
    asked = select(*_ROW).where(threads.c.project == project)
    if filters.workflow is not None:
        asked = asked.where(threads.c.workflow == held(filters.workflow))
    if filters.origin is not None:
        asked = asked.where(threads.c.origin == held(filters.origin))
    if filters.pinned is not None:
        asked = asked.where(threads.c.pinned == filters.pinned)
    needle = folded(filters.search or "")
    if needle:
        said = exists().where(
            nodes.c.project == project, nodes.c.thread == threads.c.id, nodes.c.folded.contains(needle, autoescape=True)
        )
        asked = asked.where(threads.c.title_folded.contains(needle, autoescape=True) | said)
    found = page(
        db,
        asked,
        _row,
        project=project,
        by=[threads.c.updated_at, threads.c.id],
        window=window,
        filters=msgspec.structs.asdict(filters),
    )
    matches = _matches(db, project, found.data, needle) if needle and found.data else {}
    return found.of(lambda row: Found(row, matches.get(row.id)))


def _row(row: Row[Any]) -> ThreadRow:
    fields: dict[str, Any] = dict(zip(ThreadRow.__struct_fields__, row, strict=False))
    return ThreadRow(**fields)


def _matches(db: Connection, project: str, rows: list[ThreadRow], needle: str) -> dict[str, Match]:
    """For each thread its first message with that text, else its title."""
    matches = {row.id: Match(None, row.title) for row in rows}
    first = (
        select(nodes.c.thread, func.min(nodes.c.place).label("place"))
        .where(nodes.c.project == project, nodes.c.thread.in_(list(matches)))
        .where(nodes.c.folded.contains(needle, autoescape=True))
        .group_by(nodes.c.thread)
        .subquery()
    )
    here = (nodes.c.project == project) & (nodes.c.thread == first.c.thread) & (nodes.c.place == first.c.place)
    for thread, node, message in db.execute(select(nodes.c.thread, nodes.c.id, nodes.c.message).join(first, here)):
        text = msgspec.convert(message, Message).text
        start = max(0, folded(text).find(needle) - _BEFORE)
        matches[thread] = Match(node, one_line(text[start:], _MATCH))
    return matches


# What a row shows of its messages


def previews(db: Connection, project: str, thread: str, head: str | None) -> dict[str, Any]:
    """The last question of the branch that ends there, and its answer, as cells show them."""
    turn: list[Message] = []
    if head is not None:
        turn = last_turn(db, project, thread, head, reach=_TURN, answer=_ANSWER)
    asked, answered = [m for m in turn if m.role == "user"], [m for m in turn if m.role != "user"]
    return {
        "preview_in": preview(jsons.plain(asked) or None, "input"),
        "preview_out": preview(jsons.plain(answered) or None, "output"),
    }


def title_of(text: str) -> dict[str, Any]:
    """A title, as its columns have it."""
    return {"title": held(text), "title_folded": folded(text)}


def auto_title(messages: Sequence[Message]) -> str:
    """The first that a user says, on one line."""
    for message in messages:
        if message.role == "user" and (said := one_line(message.text, _AUTO_TITLE)):
            return said
    return ""
