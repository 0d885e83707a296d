"""What is let go of by itself: old runs that belong to nothing, answers kept for repetitions, files nobody names.

Each function does a bounded piece of the work, and says how much: whoever calls it goes on until there is nothing left.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, exists, select

from palaver.storage import files, idempotency, runs
from palaver.storage.tables import board_cells as cells
from palaver.storage.tables import runs as runs_table

DELETE_BATCH = 200


def delete_old_runs(db: Connection, before: datetime) -> int:
    """Erase runs that ended before that time and belong to no thread, no cell of a board and no stored response."""
    cell = exists().where(
        cells.c.project == runs_table.c.project, cells.c.board == runs_table.c.board, cells.c.run == runs_table.c.id
    )
    free = (runs_table.c.thread.is_(None), runs_table.c.stored.is_(False), ~cell)
    return _delete_batch(db, select(runs_table.c.project, runs_table.c.id).where(runs_table.c.ended_at < before, *free))


def delete_all_but_newest(db: Connection, most: int) -> int:
    """Erase the oldest runs that belong to no thread, of more than so many: for a database in memory."""
    ended = select(runs_table.c.project, runs_table.c.id).where(
        runs_table.c.ended_at.is_not(None), runs_table.c.thread.is_(None)
    )
    return _delete_batch(db, ended.order_by(runs_table.c.id.desc()).offset(most))


def _delete_batch(db: Connection, asked: Select[Any, Any]) -> int:
    found = [(row.project, row.id) for row in db.execute(asked.limit(DELETE_BATCH))]
    for project in sorted({project for project, _ in found}):  # In one order, whoever else does the same.
        runs.delete_runs(db, project, [run for of, run in found if of == project])
    return len(found)


def delete_old_responses(db: Connection, now: datetime) -> int:
    """Let go of answers that are no longer kept for a repetition."""
    idempotency.delete_expired_responses(db, now)
    return 0


def delete_old_files(db: Connection, now: datetime) -> int:
    """Erase files that nothing has named for a day."""
    return files.delete_unused_files(db, now - files.UNUSED_FILE_TTL)
