"""Erasure of everything labelled with a user or a session: counted first, then deleted in batches."""

from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, LargeBinary, Select, delete, func, literal, select, type_coerce

from palaver.core.ids import sortable_id
from palaver.storage import runs
from palaver.storage.spans import retention as span_erasing
from palaver.storage.spans.retention import Label
from palaver.storage.spans.tables import spans
from palaver.storage.tables import feedback as feedback_table
from palaver.storage.tables import file_uses
from palaver.storage.tables import nodes as nodes_table
from palaver.storage.tables import runs as runs_table
from palaver.storage.testsets.tables import testset_meta as table
from palaver.storage.threads import repository as threads

ERASE_BATCH = 50


class ErasureCounts(msgspec.Struct, frozen=True, kw_only=True):
    threads: int = 0
    runs: int = 0
    responses: int = 0
    """How many of the runs are stored responses."""
    files: int = 0
    """Files that nothing else references."""
    spans: int = 0
    feedback: int = 0
    running: int = 0
    """Active runs, which are not deleted before they end."""


def count_labelled_data(db: Connection, project: str, label: Label, value: str) -> ErasureCounts:
    """Count labelled runs, threads all of whose runs are labelled, and what belongs to them."""
    theirs = _labelled_runs(project, label, value)
    counted = select(func.count(), func.count().filter(runs_table.c.stored), func.count().filter(_is_active())).where(
        *theirs
    )
    found, stored, running = db.execute(counted).one()
    said = db.scalar(select(func.count()).select_from(feedback_table).where(*_labelled_feedback(project, label, value)))
    whole = db.scalar(select(func.count()).select_from(_labelled_threads(project, label, value).subquery()))
    named = db.scalar(_count_files(project, label, value))
    return ErasureCounts(
        threads=whole or 0,
        runs=found,
        responses=stored,
        files=named or 0,
        spans=span_erasing.count_labelled(db, project, label, value),
        feedback=said or 0,
        running=running,
    )


def erase_labelled_data(db: Connection, project: str, label: Label, value: str, at: datetime) -> int:
    """Delete a batch; returns the number of deleted threads, runs and spans. Active runs stay."""
    gone = span_erasing.delete_labelled(db, project, label, value)  # First: many spans are found through their runs.
    if gone:
        return gone
    ended = runs_table.c.ended_at.is_not(None)
    whole = list(db.scalars(_labelled_threads(project, label, value).limit(ERASE_BATCH)))
    for thread in whole:
        threads.delete_thread(db, project, thread)
    theirs = (
        select(runs_table.c.id, runs_table.c.thread)
        .where(*_labelled_runs(project, label, value), ended)
        .limit(ERASE_BATCH)
    )
    some = [] if whole else [(row.id, row.thread) for row in db.execute(theirs)]
    for run, thread in some:
        if thread is not None:
            _delete_run_messages(db, project, thread, run, at)
    if some:
        runs.delete_runs(db, project, [run for run, _ in some])
    if not whole and not some:
        db.execute(delete(feedback_table).where(*_labelled_feedback(project, label, value)))
    return len(whole) + len(some)


def _delete_run_messages(db: Connection, project: str, thread: str, run: str, at: datetime) -> None:
    """Delete the messages of a run from a thread that it shares with other runs."""
    said = select(nodes_table.c.id).where(
        nodes_table.c.project == project, nodes_table.c.thread == thread, nodes_table.c.run == run
    )
    for node in list(db.scalars(said)):
        threads.delete_message(db, project, thread, node, below="keep", at=at)


def _is_active() -> ColumnElement[bool]:
    return runs_table.c.ended_at.is_(None)


def _labelled_runs(project: str, label: Label, value: str) -> list[ColumnElement[bool]]:
    return [runs_table.c.project == project, runs_table.c[label] == value]


def _labelled_feedback(project: str, label: Label, value: str) -> list[ColumnElement[bool]]:
    theirs = select(runs_table.c.id).where(*_labelled_runs(project, label, value))
    meant = feedback_table.c.user == value if label == "user" else feedback_table.c.run.in_(theirs)
    return [feedback_table.c.project == project, meant]


def _count_files(project: str, label: Label, value: str) -> Select[Any]:
    """Count files that are referenced only by what is deleted."""
    theirs = select(runs_table.c.id).where(*_labelled_runs(project, label, value))
    whole = _labelled_threads(project, label, value)

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


def _labelled_threads(project: str, label: Label, value: str) -> Select[Any]:
    """Select threads all of whose runs are labelled and have ended."""
    own = runs_table.alias()
    others = select(own.c.id).where(
        own.c.project == project,
        own.c.thread == runs_table.c.thread,
        (own.c[label] != value) | own.c[label].is_(None) | own.c.ended_at.is_(None),
    )
    asked = select(runs_table.c.thread).where(*_labelled_runs(project, label, value), runs_table.c.thread.is_not(None))
    return asked.where(~others.exists()).distinct()


_SOURCE_PREFIX, _SOURCE_PREFIX_END = b'{"source":', b'{"source;'
"""The range of metadata that starts with a source."""


def find_copied_rows(db: Connection, project: str, label: Label, value: str) -> list[dict[str, str]]:
    """List test set rows copied from labelled threads or traces. They are not deleted."""
    theirs = runs_table.c.project == project, runs_table.c[label] == value
    threads = {value, *db.scalars(select(runs_table.c.thread).where(*theirs).distinct())}
    traces = set(db.scalars(select(runs_table.c.trace_id).where(*theirs).distinct()))
    traces.update(db.scalars(select(spans.c.trace_id).where(spans.c.project == project, spans.c[label] == value)))
    written = type_coerce(table.c.meta, LargeBinary)
    begins = written >= literal(_SOURCE_PREFIX, LargeBinary), written < literal(_SOURCE_PREFIX_END, LargeBinary)
    rows = db.execute(select(table.c.testset, table.c.row, table.c.meta).where(table.c.project == project, *begins))
    return [_row_reference(row) for row in rows if _is_from(row.meta["source"], threads, traces)]


def _is_from(source: Any, threads: set[str | None], traces: set[str | None]) -> bool:
    return source.get("id") in threads or (source.get("trace_id") or "").lower() in traces


def _row_reference(row: Any) -> dict[str, str]:
    number = int.from_bytes(row.row)
    return {"kind": "row", "id": f"row_{sortable_id(number >> 80, number)}", "testset": row.testset}
