"""Erasing all that carries a label: a user's, or a session's. Found first, and shown; then let go of, in pieces."""

from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, delete, func, select

from palaver.storage import runs
from palaver.storage.spans import erasing as span_erasing
from palaver.storage.spans.erasing import Label
from palaver.storage.tables import feedback as feedback_table
from palaver.storage.tables import file_uses
from palaver.storage.tables import nodes as nodes_table
from palaver.storage.tables import runs as runs_table
from palaver.storage.threads import keeping as threads

PIECE = 50


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is."""

    threads: int = 0
    runs: int = 0
    responses: int = 0
    """Those of the runs that are stored responses."""
    files: int = 0
    """Those that nothing else names."""
    spans: int = 0
    feedback: int = 0
    running: int = 0
    """Those that have not ended: they stay until they have."""


def find(db: Connection, project: str, label: Label, value: str) -> Found:
    """What carries the label: runs, and threads all of whose runs do."""
    theirs = _theirs(project, label, value)
    counted = select(func.count(), func.count().filter(runs_table.c.stored), func.count().filter(_going())).where(
        *theirs
    )
    found, stored, running = db.execute(counted).one()
    said = db.scalar(select(func.count()).select_from(feedback_table).where(*_opinions(project, label, value)))
    whole = db.scalar(select(func.count()).select_from(_whole_threads(project, label, value).subquery()))
    named = db.scalar(_files(project, label, value))
    return Found(
        threads=whole or 0,
        runs=found,
        responses=stored,
        files=named or 0,
        spans=span_erasing.count_labelled(db, project, label, value),
        feedback=said or 0,
        running=running,
    )


def erase_some(db: Connection, project: str, label: Label, value: str, at: datetime) -> int:
    """Erase a piece of it; how many threads, runs and spans it was. What has not ended stays."""
    gone = span_erasing.erase_labelled(db, project, label, value)  # First: many are known by their runs alone.
    if gone:
        return gone
    ended = runs_table.c.ended_at.is_not(None)
    whole = list(db.scalars(_whole_threads(project, label, value).limit(PIECE)))
    for thread in whole:
        threads.delete(db, project, thread)
    theirs = select(runs_table.c.id, runs_table.c.thread).where(*_theirs(project, label, value), ended).limit(PIECE)
    some = [] if whole else [(row.id, row.thread) for row in db.execute(theirs)]
    for run, thread in some:
        if thread is not None:
            _unsay(db, project, thread, run, at)
    if some:
        runs.erase(db, project, [run for run, _ in some])
    if not whole and not some:
        db.execute(delete(feedback_table).where(*_opinions(project, label, value)))
    return len(whole) + len(some)


def _unsay(db: Connection, project: str, thread: str, run: str, at: datetime) -> None:
    """Take what a run said out of a thread that others share."""
    said = select(nodes_table.c.id).where(
        nodes_table.c.project == project, nodes_table.c.thread == thread, nodes_table.c.run == run
    )
    for node in list(db.scalars(said)):
        threads.remove(db, project, thread, node, below="keep", at=at)


def _going() -> ColumnElement[bool]:
    return runs_table.c.ended_at.is_(None)


def _theirs(project: str, label: Label, value: str) -> list[ColumnElement[bool]]:
    return [runs_table.c.project == project, runs_table.c[label] == value]


def _opinions(project: str, label: Label, value: str) -> list[ColumnElement[bool]]:
    theirs = select(runs_table.c.id).where(*_theirs(project, label, value))
    meant = feedback_table.c.user == value if label == "user" else feedback_table.c.run.in_(theirs)
    return [feedback_table.c.project == project, meant]


def _files(project: str, label: Label, value: str) -> Select[Any]:
    """How many files are named by what goes, and by nothing else."""
    theirs = select(runs_table.c.id).where(*_theirs(project, label, value))
    whole = _whole_threads(project, label, value)

    def goes(uses: Any) -> ColumnElement[bool]:
        said = select(nodes_table.c.id).where(
            nodes_table.c.project == project,
            nodes_table.c.thread == uses.c.holder,
            nodes_table.c.id == uses.c.node,
            nodes_table.c.run.in_(theirs),
        )
        return uses.c.holder.in_(theirs) | uses.c.holder.in_(whole) | said.exists()

    other = file_uses.alias()
    stays = select(other.c.file).where(other.c.project == project, other.c.file == file_uses.c.file, ~goes(other))
    named = select(func.count(file_uses.c.file.distinct())).where(file_uses.c.project == project, goes(file_uses))
    return named.where(~stays.exists())


def _whole_threads(project: str, label: Label, value: str) -> Select[Any]:
    """The threads of which every run carries the label, and has ended."""
    own = runs_table.alias()
    others = select(own.c.id).where(
        own.c.project == project,
        own.c.thread == runs_table.c.thread,
        (own.c[label] != value) | own.c[label].is_(None) | own.c.ended_at.is_(None),
    )
    asked = select(runs_table.c.thread).where(*_theirs(project, label, value), runs_table.c.thread.is_not(None))
    return asked.where(~others.exists()).distinct()
