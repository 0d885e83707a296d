"""The queue of background runs, and the processes that work on it."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, delete, insert, or_, select, tuple_, update

from palaver.core.runs import Call, NewRun
from palaver.storage import boards, files, notifications, run_log, runs
from palaver.storage.notifications import Change
from palaver.storage.runs import RunRow, StoredRun
from palaver.storage.tables import processes
from palaver.storage.tables import runs as table

MAX_ATTEMPTS = 3
"""Maximum attempts before a run that crashes its process is ended."""


class QueuedRun(NamedTuple):
    stored: StoredRun
    call: Call
    """The complete call, including the history."""


def enqueue_runs(db: Connection, new_runs: Sequence[NewRun], at: datetime) -> None:
    run_log.record_runs(db, new_runs, (), (), at)
    notifications.notify(db, "waiting", sorted({run.workflow for run in new_runs}))


def dequeue_runs(db: Connection, process: str, workflows: Collection[str], limit: int, at: datetime) -> list[QueuedRun]:
    """Claim the oldest queued runs of the given workflows for a process."""
    full_boards = boards.find_full_boards(db)
    query = (
        select(table.c.project, table.c.id, table.c.board)
        .where(table.c.ended_at.is_(None), table.c.status == "queued", table.c.workflow.in_(workflows))
        .order_by(table.c.id)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    if full_boards:
        board = tuple_(table.c.project, table.c.board)
        query = query.where(or_(table.c.board.is_(None), board.not_in(full_boards)))
    rows = db.execute(query).all()
    passed_over = boards.find_runs_over_limit(db, rows)
    claimed: list[QueuedRun] = []
    for project, run, _ in rows:
        if (project, run) in passed_over:
            continue
        claim = update(table).where(table.c.project == project, table.c.id == run)
        db.execute(claim.values(status="running", process=process, started_at=at, attempts=table.c.attempts + 1))
        notifications.mark_changed(db, Change(project, "run", run))
        stored = runs.get_stored_run(db, project, run)
        assert stored is not None
        claimed.append(QueuedRun(stored, _load_call(db, stored)))
    return claimed


def _load_call(db: Connection, stored: StoredRun) -> Call:
    call = runs.decode_call(stored)
    assert call is not None  # Queued runs are always stored in full.
    preface = call.messages[: call.preface]
    messages = files.replace_missing_files(
        db, stored.row.project, run_log.messages_seen_by(db, stored.row.project, stored) or []
    )
    return replace(call, messages=(*preface, *messages), session=stored.row.session)


def requeue_run(db: Connection, row: RunRow) -> bool:
    """Requeue a run of a dead process if it may be repeated; its events are deleted."""
    if not row.idempotent or row.attempts >= MAX_ATTEMPTS or not runs.lock_active_run(db, row.project, row.id):
        return False
    runs.delete_events(db, row.project, [row.id])
    _requeue(db, row)
    return True


def unclaim_run(db: Connection, row: RunRow) -> None:
    """Return a claimed run that was not started to the queue, without counting an attempt."""
    if runs.lock_active_run(db, row.project, row.id):
        _requeue(db, row, attempts=table.c.attempts - 1)


def hand_over_run(db: Connection, project: str, run: str, process: str) -> bool:
    """Requeue a run of a process that shuts down, without counting an attempt; False if it may not be repeated."""
    row = runs.get_run(db, project, run)
    if row is None or not row.idempotent or row.process != process or not runs.lock_active_run(db, project, run):
        return False
    runs.delete_events(db, row.project, [row.id])
    _requeue(db, row, attempts=table.c.attempts - 1)
    return True


def _requeue(db: Connection, row: RunRow, **changes: Any) -> None:
    statement = update(table).where(table.c.project == row.project, table.c.id == row.id)
    values = {"status": "queued", "process": None, "started_at": None, "first_output_at": None, "seq": -1}
    db.execute(statement.values(**values, **changes))
    notifications.notify(db, "waiting", [row.workflow])


def fail_queued_runs(db: Connection, workflow: str, error: tuple[str, str], at: datetime, *, limit: int = 100) -> bool:
    """Fail a batch of queued runs of a workflow that is no longer served; returns whether there may be more."""
    query = (
        select(table.c.project, table.c.id)
        .where(table.c.ended_at.is_(None), table.c.status == "queued", table.c.workflow == workflow)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    rows = db.execute(query).all()
    for project, run in rows:
        run_log.fail_queued_run(db, project, run, error, at)
    return len(rows) == limit


ProcessKind = Literal["server", "worker"]


class Process(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    kind: ProcessKind
    host: str
    pid: int
    version: str
    started_at: datetime
    seen_at: datetime


def register_process(db: Connection, process: Process) -> None:
    db.execute(insert(processes), msgspec.structs.asdict(process))


def record_heartbeat(db: Connection, process: Process, at: datetime) -> None:
    """Write a heartbeat. A process that was removed as dead is registered again."""
    updated = db.execute(update(processes).where(processes.c.id == process.id).values(seen_at=at))
    if not updated.rowcount:
        register_process(db, msgspec.structs.replace(process, seen_at=at))


def list_processes(db: Connection) -> list[Process]:
    return [Process(**row) for row in db.execute(select(processes).order_by(processes.c.id)).mappings()]


def remove_processes(db: Connection, ids: Sequence[str]) -> None:
    db.execute(delete(processes).where(processes.c.id.in_(ids)))
