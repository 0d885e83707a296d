"""The log of runs: one row for each batch of a run's events, as they were, so that a replay gives the same bytes."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Executable, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from palaver.core.events import Event
from palaver.core.packing import pack, unpack
from palaver.core.records import Batch
from palaver.storage.tables import events


def _put(insert: sqlite.Insert | postgresql.Insert) -> Executable:
    grown = {"count": insert.excluded.count, "data": insert.excluded.data}
    return insert.on_conflict_do_update(index_elements=["project", "run", "first"], set_=grown)


_append = {"sqlite": _put(sqlite.insert(events)), "postgresql": _put(postgresql.insert(events))}


def append(db: Connection, batches: Sequence[Batch]) -> None:
    """Add to the logs of runs. What begins at the same place was sent before, when nobody told us that it was kept."""
    db.execute(_append[db.dialect.name], [_row(batch) for batch in batches])


def _row(batch: Batch) -> dict[str, Any]:
    said = batch.events
    return {
        "project": batch.project,
        "run": batch.run,
        "first": said[0].seq,
        "count": len(said),
        "data": pack(said),
    }


def after(db: Connection, project: str, run: str, seq: int = -1) -> list[Event]:
    """The events of a run after one of them, from the log."""
    asked = (
        select(events.c.first, events.c.data)
        .where(events.c.project == project, events.c.run == run, events.c.first + events.c.count > seq + 1)
        .order_by(events.c.first)
    )
    found = [event for _, data in db.execute(asked) for event in unpack(data)]
    return [event for event in found if event.seq > seq]


def erase(db: Connection, project: str, runs: Sequence[str]) -> None:
    """Forget the logs of runs."""
    db.execute(delete(events).where(events.c.project == project, events.c.run.in_(runs)))
