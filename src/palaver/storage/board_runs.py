"""The runs of boards, one for each cell: how they stand, and how many of a board may go on at once."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, select, tuple_

from palaver.core.origins import RunStatus
from palaver.storage import recording
from palaver.storage.tables import boards as boards_table
from palaver.storage.tables import runs as runs_table

_IS_OURS = runs_table.c.board.is_not(None)
_AT_ONCE = 500

Key = tuple[str, str]
"""A project, and something of its own."""


def reading(concurrency: int) -> dict[str, int]:
    """What such a run keeps of how it was asked for."""
    return {"concurrency": concurrency}


# For those who begin what waits


def full(db: Connection) -> list[Key]:
    """The boards of which as many runs go on as may."""
    mine = (runs_table.c.ended_at.is_(None), runs_table.c.status == "queued", _IS_OURS)
    if db.execute(select(runs_table.c.id).where(*mine).limit(1)).first() is None:
        return []  # Mostly: nothing of them waits.
    return [board for board, most in _going(db).items() if len(most) >= min(most)]


def too_many(db: Connection, waiting: Sequence[Row[Any, Any, Any]]) -> set[Key]:
    """Which of these (project, id, board) would be more than may go on at once: they wait on.

    The boards are held, so that no two processes count at the same time.
    """
    ours = [row for row in waiting if row.board is not None]
    if not ours:
        return set()
    named = sorted({(row.project, row.board) for row in ours})
    key = tuple_(boards_table.c.project, boards_table.c.id)
    db.execute(select(boards_table.c.id).where(key.in_(named)).order_by(*key).with_for_update()).all()
    going = {board: len(most) for board, most in _going(db).items()}
    most = _asked(db, [(row.project, row.id) for row in ours])
    passed: set[Key] = set()
    for row in ours:
        board, run = (row.project, row.board), (row.project, row.id)
        if going.get(board, 0) >= most[run]:
            passed.add(run)
        else:
            going[board] = going.get(board, 0) + 1
    return passed


def _going(db: Connection) -> dict[Key, list[int]]:
    """By board, of each run that goes on, how many may."""
    asked = select(runs_table.c.project, runs_table.c.board, runs_table.c.reading).where(
        runs_table.c.ended_at.is_(None), runs_table.c.status == "running", _IS_OURS
    )
    found: dict[Key, list[int]] = {}
    for project, board, note in db.execute(asked):
        found.setdefault((project, board), []).append(note["concurrency"])
    return found


def _asked(db: Connection, named: Sequence[Key]) -> dict[Key, int]:
    asked = select(runs_table.c.project, runs_table.c.id, runs_table.c.reading)
    rows = db.execute(asked.where(tuple_(runs_table.c.project, runs_table.c.id).in_(named)))
    return {(project, run): note["concurrency"] for project, run, note in rows}


# For those who look at a board


def statuses(db: Connection, project: str, names: Sequence[str]) -> dict[str, RunStatus]:
    """How runs stand, by their ids; those that are gone are left out."""
    found: dict[str, RunStatus] = {}
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        asked = select(runs_table.c.id, runs_table.c.status).where(
            runs_table.c.project == project, runs_table.c.id.in_(some)
        )
        found |= {row.id: row.status for row in db.execute(asked)}
    return found


def alive(db: Connection, project: str, board: str, status: RunStatus, limit: int = 1 << 30) -> list[str]:
    """The runs of a board that wait, or that go on; oldest first."""
    asked = select(runs_table.c.id).where(
        runs_table.c.ended_at.is_(None),
        runs_table.c.status == status,
        runs_table.c.project == project,
        runs_table.c.board == board,
    )
    return list(db.scalars(asked.order_by(runs_table.c.id).limit(limit)))


def cancel_waiting(db: Connection, project: str, board: str, limit: int, at: datetime) -> list[str]:
    """End some of those that wait; empty when none does."""
    waiting = alive(db, project, board, "queued", limit)
    return [run for run in waiting if recording.cancel_waiting(db, project, run, at)]
