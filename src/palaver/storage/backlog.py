"""Runs in the background that wait: kept like any other, taken by one process each, given back when that one dies."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace
from sqlalchemy import Connection, delete, or_, select, tuple_, update

from palaver.core.calls import Call
from palaver.core.records import NewRun
from palaver.storage import board_runs, histories, notices, recording, runs
from palaver.storage.runs import RunRow, Whole
from palaver.storage.tables import events as events_table
from palaver.storage.tables import runs as table

MOST_ATTEMPTS = 3
"""How often a run may take its process with it."""


class Waiting(NamedTuple):
    """A run that a process has taken."""

    whole: Whole
    call: Call
    """As it was made: with the history that it goes on from."""


def put(db: Connection, run: NewRun, at: datetime) -> None:
    """Keep a run that is to begin later, in whichever process is free."""
    put_all(db, [run], at)


def put_all(db: Connection, new: Sequence[NewRun], at: datetime) -> None:
    """The same of many."""
    recording.record(db, new, (), (), at)
    notices.tell(db, "waiting", sorted({run.workflow for run in new}))


def take(db: Connection, process: str, workflows: Collection[str], limit: int, at: datetime) -> list[Waiting]:
    """Let a process begin the oldest runs that wait for workflows that it serves; no two get the same."""
    full = board_runs.full(db)
    waiting = (
        select(table.c.project, table.c.id, table.c.board, table.c.protocol)
        .where(table.c.ended_at.is_(None), table.c.status == "queued", table.c.workflow.in_(workflows))
        .order_by(table.c.id)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    if full:
        board = tuple_(table.c.project, table.c.board)
        waiting = waiting.where(or_(table.c.protocol != board_runs.PROTOCOL, board.not_in(full)))
    rows = db.execute(waiting).all()
    passed_over = board_runs.too_many(db, rows)
    taken: list[Waiting] = []
    for project, run, *_ in rows:
        if (project, run) in passed_over:
            continue
        theirs = update(table).where(table.c.project == project, table.c.id == run)
        db.execute(theirs.values(status="running", process=process, started_at=at, attempts=table.c.attempts + 1))
        found = runs.whole(db, project, run)
        assert found is not None
        taken.append(Waiting(found, _call(db, found)))
    return taken


def _call(db: Connection, found: Whole) -> Call:
    kept = runs.call_of(found)
    assert kept is not None  # What waits is kept whole, whatever its author says.
    before = kept.messages[: kept.preface]
    seen = histories.seen(db, found.row.project, found) or []
    return replace(kept, messages=(*before, *seen), session=found.row.session)


def give_back(db: Connection, row: RunRow) -> bool:
    """Let a run of a process that died begin anew, if it may: what it had said is forgotten."""
    if not row.idempotent or row.attempts >= MOST_ATTEMPTS or not runs.take(db, row.project, row.id):
        return False
    db.execute(delete(events_table).where(events_table.c.project == row.project, events_table.c.run == row.id))
    theirs = update(table).where(table.c.project == row.project, table.c.id == row.id)
    db.execute(theirs.values(status="queued", process=None, started_at=None, seq=-1))
    notices.tell(db, "waiting", [row.workflow])
    return True


def leave(db: Connection, row: RunRow) -> None:
    """Let another process begin a run that was taken and has not begun: it does not count as an attempt."""
    if runs.take(db, row.project, row.id):
        theirs = update(table).where(table.c.project == row.project, table.c.id == row.id)
        attempts = table.c.attempts - 1
        db.execute(theirs.values(status="queued", process=None, started_at=None, attempts=attempts))
        notices.tell(db, "waiting", [row.workflow])
