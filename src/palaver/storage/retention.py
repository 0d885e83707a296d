"""Deletion of expired runs, in batches: callers repeat each function until it returns 0."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, exists, select

from palaver.storage import runs
from palaver.storage.tables import board_cells as cells
from palaver.storage.tables import runs as runs_table

DELETE_BATCH = 200


def delete_old_runs(db: Connection, before: datetime) -> int:
    """Delete runs that ended before a time, except runs of threads and board cells, and stored responses."""
    in_cell = exists().where(
        cells.c.project == runs_table.c.project, cells.c.board == runs_table.c.board, cells.c.run == runs_table.c.id
    )
    conditions = (runs_table.c.thread.is_(None), runs_table.c.stored.is_(False), ~in_cell)
    return _delete_batch(
        db, select(runs_table.c.project, runs_table.c.id).where(runs_table.c.ended_at < before, *conditions)
    )


def delete_all_but_newest(db: Connection, count: int) -> int:
    """Delete all but the newest `count` runs without a thread, for an in-memory database."""
    ended = select(runs_table.c.project, runs_table.c.id).where(
        runs_table.c.ended_at.is_not(None), runs_table.c.thread.is_(None)
    )
    return _delete_batch(db, ended.order_by(runs_table.c.id.desc()).offset(count))


def _delete_batch(db: Connection, query: Select[Any, Any]) -> int:
    keys = [(row.project, row.id) for row in db.execute(query.limit(DELETE_BATCH))]
    for project in sorted({project for project, _ in keys}):  # The same order in all processes avoids deadlocks.
        runs.delete_runs(db, project, [run for run_project, run in keys if run_project == project])
    return len(keys)
