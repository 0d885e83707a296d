"""What is let go of by itself: old runs that belong to nothing, answers kept for repetitions, files nobody names.

Each function does a bounded piece of the work, and says how much: whoever calls it goes on until there is nothing left.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, exists, select

from palaver.storage import files, idempotency, runs
from palaver.storage.tables import board_cells as cells
from palaver.storage.tables import runs as runs_table

PIECE = 200


def forget_old_runs(db: Connection, before: datetime) -> int:
    """Erase runs that ended before that time and belong to no thread, no cell of a board and no stored response."""
    cell = exists().where(
        cells.c.project == runs_table.c.project, cells.c.board == runs_table.c.board, cells.c.run == runs_table.c.id
    )
    free = (runs_table.c.thread.is_(None), runs_table.c.stored.is_(False), ~cell)
    return _erase(db, select(runs_table.c.project, runs_table.c.id).where(runs_table.c.ended_at < before, *free))


def forget_all_but(db: Connection, most: int) -> int:
    """Erase the oldest runs that belong to no thread, of more than so many: for a database in memory."""
    ended = select(runs_table.c.project, runs_table.c.id).where(
        runs_table.c.ended_at.is_not(None), runs_table.c.thread.is_(None)
    )
    return _erase(db, ended.order_by(runs_table.c.id.desc()).offset(most))


def _erase(db: Connection, asked: Select[Any, Any]) -> int:
    found = [(row.project, row.id) for row in db.execute(asked.limit(PIECE))]
    for project in sorted({project for project, _ in found}):  # In one order, whoever else does the same.
        runs.erase(db, project, [run for of, run in found if of == project])
    return len(found)


def forget_answers(db: Connection, now: datetime) -> int:
    """Let go of answers that are no longer kept for a repetition."""
    idempotency.forget(db, now)
    return 0


def forget_files(db: Connection, now: datetime) -> int:
    """Erase files that nothing has named for a day."""
    return files.forget_unused(db, now - files.KEPT)
