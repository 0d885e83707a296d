"""Erasing spans: all that carries a label, with what hangs below it, and all that runs left. A piece at a time.

Most spans carry no user, and many no session: one that carries none goes with those of its trace that do, unless it
belongs to a run that is somebody else's.
"""

from collections.abc import Collection
from typing import Literal

from sqlalchemy import ColumnElement, Connection, Select, func, or_, select

from palaver.storage.spans.retention import erase
from palaver.storage.spans.tables import spans
from palaver.storage.tables import runs

Label = Literal["user", "session"]
PIECE = 500


def count_labelled(db: Connection, project: str, label: Label, value: str) -> int:
    """How many spans carry a label, or hang below one that does."""
    either = or_(_below(project, label, value), _of_runs(project, label, value), spans.c[label] == value)
    return db.scalar(select(func.count()).select_from(spans).where(spans.c.project == project, either)) or 0


def erase_labelled(db: Connection, project: str, label: Label, value: str) -> int:
    """Forget a piece of them; how many. What others are known by goes last."""
    for which in (_below(project, label, value), _of_runs(project, label, value), spans.c[label] == value):
        if gone := erase(db, project, PIECE, which):
            return gone
    return 0


def erase_runs(db: Connection, project: str, of: Collection[str]) -> int:
    """Forget a piece of what these runs left; how many spans."""
    return erase(db, project, PIECE, spans.c.run_id.in_(of))


def _of_runs(project: str, label: Label, value: str) -> ColumnElement[bool]:
    """Of a run that carries the label, whatever was removed from its spans before they were stored."""
    return spans.c.run_id.in_(select(runs.c.id).where(runs.c.project == project, runs.c[label] == value))


def _below(project: str, label: Label, value: str) -> ColumnElement[bool]:
    """Without a label, in a trace that has it, and not of another run."""
    own = spans.alias("labelled")

    def theirs(column: ColumnElement[str]) -> Select[str]:
        return select(column).where(own.c.project == project, own.c[label] == value, column.is_not(None))

    is_theirs = spans.c.run_id.is_(None) | spans.c.run_id.in_(theirs(own.c.run_id))
    return spans.c[label].is_(None) & spans.c.trace_id.in_(theirs(own.c.trace_id)) & is_theirs
