"""Erasure of everything labelled with a user or a session: counted first, then deleted in batches."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, LargeBinary, Select, delete, func, literal, select, type_coerce

from palaver.core.ids import sortable_id
from palaver.storage import runs
from palaver.storage.spans import retention as span_retention
from palaver.storage.spans.retention import Label
from palaver.storage.spans.tables import spans
from palaver.storage.tables import feedback as feedback_table
from palaver.storage.tables import file_uses
from palaver.storage.tables import nodes as nodes_table
from palaver.storage.tables import runs as runs_table
from palaver.storage.testsets.tables import testset_meta
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
    count_stored, count_active = (
        func.count().filter(condition) for condition in (runs_table.c.stored, runs_table.c.ended_at.is_(None))
    )
    query = select(func.count(), count_stored, count_active).where(*_labelled_runs(project, label, value))
    run_count, response_count, active_count = db.execute(query).one()
    feedback_count = db.scalar(
        select(func.count()).select_from(feedback_table).where(*_labelled_feedback(project, label, value))
    )
    thread_count = db.scalar(select(func.count()).select_from(_labelled_threads(project, label, value).subquery()))
    file_count = db.scalar(_count_files(project, label, value))
    return ErasureCounts(
        threads=thread_count or 0,
        runs=run_count,
        responses=response_count,
        files=file_count or 0,
        spans=span_retention.count_labelled(db, project, label, value),
        feedback=feedback_count or 0,
        running=active_count,
    )


def erase_labelled_data(db: Connection, project: str, label: Label, value: str, at: datetime) -> int:
    """Delete a batch; returns the number of deleted threads, runs and spans. Active runs stay."""
    # Spans first, because many of them are found through their runs.
    deleted = span_retention.delete_labelled(db, project, label, value)
    if deleted:
        return deleted
    thread_ids = list(db.scalars(_labelled_threads(project, label, value).limit(ERASE_BATCH)))
    for thread in thread_ids:
        threads.delete_thread(db, project, thread)
    ended = (*_labelled_runs(project, label, value), runs_table.c.ended_at.is_not(None))
    query = select(runs_table.c.id, runs_table.c.thread).where(*ended).limit(ERASE_BATCH)
    labelled: Sequence[Any] = [] if thread_ids else db.execute(query).all()
    for run, thread in labelled:
        if thread is not None:
            _delete_run_messages(db, project, thread, run, at)
    if labelled:
        runs.delete_runs(db, project, [run for run, _ in labelled])
    if not thread_ids and not labelled:
        db.execute(delete(feedback_table).where(*_labelled_feedback(project, label, value)))
    return len(thread_ids) + len(labelled)


def _delete_run_messages(db: Connection, project: str, thread: str, run: str, at: datetime) -> None:
    query = select(nodes_table.c.id).where(
        nodes_table.c.project == project, nodes_table.c.thread == thread, nodes_table.c.run == run
    )
    for node in list(db.scalars(query)):
        threads.delete_message(db, project, thread, node, below="keep", at=at)


def _labelled_runs(project: str, label: Label, value: str) -> list[ColumnElement[bool]]:
    return [runs_table.c.project == project, runs_table.c[label] == value]


def _labelled_feedback(project: str, label: Label, value: str) -> list[ColumnElement[bool]]:
    run_ids = select(runs_table.c.id).where(*_labelled_runs(project, label, value))
    matches = feedback_table.c.user == value if label == "user" else feedback_table.c.run.in_(run_ids)
    return [feedback_table.c.project == project, matches]


def _count_files(project: str, label: Label, value: str) -> Select[Any]:
    """Count files that only deleted messages and runs reference."""
    run_ids = select(runs_table.c.id).where(*_labelled_runs(project, label, value))
    thread_ids = _labelled_threads(project, label, value)

    def is_deleted(uses: Any) -> ColumnElement[bool]:
        node = select(nodes_table.c.id).where(
            nodes_table.c.project == project,
            nodes_table.c.thread == uses.c.holder,
            nodes_table.c.id == uses.c.node,
            nodes_table.c.run.in_(run_ids),
        )
        return uses.c.holder.in_(run_ids) | uses.c.holder.in_(thread_ids) | node.exists()

    other = file_uses.alias()
    remaining = select(other.c.file).where(
        other.c.project == project, other.c.file == file_uses.c.file, ~is_deleted(other)
    )
    query = select(func.count(file_uses.c.file.distinct())).where(file_uses.c.project == project, is_deleted(file_uses))
    return query.where(~remaining.exists())


def _labelled_threads(project: str, label: Label, value: str) -> Select[Any]:
    """Select threads all of whose runs are labelled and have ended."""
    sibling = runs_table.alias()
    unlabelled = select(sibling.c.id).where(
        sibling.c.project == project,
        sibling.c.thread == runs_table.c.thread,
        (sibling.c[label] != value) | sibling.c[label].is_(None) | sibling.c.ended_at.is_(None),
    )
    query = select(runs_table.c.thread).where(*_labelled_runs(project, label, value), runs_table.c.thread.is_not(None))
    return query.where(~unlabelled.exists()).distinct()


_SOURCE_PREFIX, _SOURCE_PREFIX_END = b'{"source":', b'{"source;'
"""Bounds of the encoded metadata that starts with a source."""


def find_copied_rows(db: Connection, project: str, label: Label, value: str) -> list[dict[str, str]]:
    """List test set rows copied from labelled threads or traces. They are not deleted."""
    labelled = _labelled_runs(project, label, value)
    thread_ids = {value, *db.scalars(select(runs_table.c.thread).where(*labelled).distinct())}
    trace_ids = set(db.scalars(select(runs_table.c.trace_id).where(*labelled).distinct()))
    trace_ids.update(db.scalars(select(spans.c.trace_id).where(spans.c.project == project, spans.c[label] == value)))
    meta = type_coerce(testset_meta.c.meta, LargeBinary)
    has_source = meta >= literal(_SOURCE_PREFIX, LargeBinary), meta < literal(_SOURCE_PREFIX_END, LargeBinary)
    columns = (testset_meta.c.testset, testset_meta.c.row, testset_meta.c.meta)
    rows = db.execute(select(*columns).where(testset_meta.c.project == project, *has_source))
    return [_row_reference(row) for row in rows if _is_copied_from(row.meta["source"], thread_ids, trace_ids)]


def _is_copied_from(source: Any, thread_ids: set[str | None], trace_ids: set[str | None]) -> bool:
    return source.get("id") in thread_ids or (source.get("trace_id") or "").lower() in trace_ids


def _row_reference(row: Any) -> dict[str, str]:
    number = int.from_bytes(row.row)
    return {"kind": "row", "id": f"row_{sortable_id(number >> 80, number)}", "testset": row.testset}
