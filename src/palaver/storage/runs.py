"""Runs and their event logs: insert, update, look up, list, delete."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    Select,
    Text,
    bindparam,
    case,
    cast,
    delete,
    false,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from palaver.core.events import Event, pack_events, unpack_events
from palaver.core.ids import sortable_id
from palaver.core.runs import Call, EventBatch, Reply, RunStatus
from palaver.storage import files, notifications
from palaver.storage.pagination import FIRST_PAGE, Page, Window, fetch_page
from palaver.storage.schema import row_converter, storable_text
from palaver.storage.tables import IS_UNUSUAL, events, processes, runs


def _upsert_events(insert: sqlite.Insert | postgresql.Insert) -> Executable:
    new_values = {"count": insert.excluded.count, "data": insert.excluded.data}
    return insert.on_conflict_do_update(index_elements=["project", "run", "first"], set_=new_values)


_insert_events = {
    "sqlite": _upsert_events(sqlite.insert(events)),
    "postgresql": _upsert_events(postgresql.insert(events)),
}


def append_events(db: Connection, batches: Sequence[EventBatch]) -> None:
    """Append batches to the event logs. A batch with the same first seq is a retry of an unconfirmed write."""
    db.execute(_insert_events[db.dialect.name], [_events_row(batch) for batch in batches])


def _events_row(batch: EventBatch) -> dict[str, Any]:
    events = batch.events
    return {
        "project": batch.project,
        "run": batch.run,
        "first": events[0].seq,
        "count": len(events),
        "data": pack_events(events),
    }


def read_events(db: Connection, project: str, run: str, seq: int = -1) -> list[Event]:
    """Return the events of a run after `seq`."""
    query = (
        select(events.c.first, events.c.data)
        .where(events.c.project == project, events.c.run == run, events.c.first + events.c.count > seq + 1)
        .order_by(events.c.first)
    )
    found = [event for _, data in db.execute(query) for event in unpack_events(data)]
    return [event for event in found if event.seq > seq]


def delete_events(db: Connection, project: str, runs: Sequence[str]) -> None:
    db.execute(delete(events).where(events.c.project == project, events.c.run.in_(runs)))


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run without its call and reply."""

    project: str
    id: str
    workflow: str
    variant: str | None = None
    status: RunStatus = "running"
    finish: str | None = None
    error: Mapping[str, Any] | None = None
    protocol: str = ""
    background: bool = False
    stored: bool = False
    thread: str | None = None
    answers: str | None = None
    previous: str | None = None
    board: str | None = None
    session: str = ""
    user: str | None = None
    key: str | None = None
    trace_id: str | None = None
    seq: int = -1
    """The seq of its last event in the log."""
    usage: Mapping[str, Any] | None = None
    preview_in: Any = None
    preview_out: Any = None
    process: str | None = None
    idempotent: bool = False
    attempts: int = 0
    """How often it was started in the background."""
    cancel_asked_at: datetime | None = None
    created_at: datetime
    started_at: datetime | None = None
    first_output_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def is_alive(self) -> bool:
        return self.ended_at is None


_COLUMNS = [runs.c[name] for name in RunRow.__struct_fields__]


class StoredRun(msgspec.Struct, frozen=True):
    """A run with its call, the protocol's note on how to answer (`reading`), and its reply."""

    row: RunRow
    call: Any
    """A Call as JSON, with the messages that are stored with the run."""
    reading: Any
    reply: Reply | None


class RunEnding(msgspec.Struct, frozen=True, kw_only=True):
    project: str
    id: str
    status: RunStatus
    finish: str | None
    error: Mapping[str, Any] | None
    seq: int
    usage: Any
    reply: Reply | None
    preview_out: Any
    first_output_at: datetime | None
    ended_at: datetime


_ENDING_FIELDS = [name for name in RunEnding.__struct_fields__ if name not in ("project", "id")]
_update_by_id = update(runs).where(runs.c.project == bindparam("of_project"), runs.c.id == bindparam("of_id"))
_update_ending = _update_by_id.values({name: bindparam(name) for name in _ENDING_FIELDS})
_update_first_output = _update_by_id.values(first_output_at=bindparam("at"))


def _upsert_run(insert: sqlite.Insert | postgresql.Insert) -> Executable:
    ending = {name: insert.excluded[name] for name in _ENDING_FIELDS}
    return insert.on_conflict_do_update(index_elements=["project", "id"], set_=ending)


_insert_runs = {"sqlite": _upsert_run(sqlite.insert(runs)), "postgresql": _upsert_run(postgresql.insert(runs))}


def insert_runs(db: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert runs; each row has the fields of RunRow, and `call`, `reading` and `reply`.

    A row that exists is a retry of an unconfirmed write; the run may have ended since.
    """
    db.execute(_insert_runs[db.dialect.name], list(rows))


def end_runs(db: Connection, endings: Sequence[RunEnding]) -> None:
    rows = [
        {"of_project": ending.project, "of_id": ending.id} | {name: getattr(ending, name) for name in _ENDING_FIELDS}
        for ending in endings
    ]
    db.execute(_update_ending, rows)


def update_run(db: Connection, project: str, run: str, **values: Any) -> None:
    db.execute(update(runs).where(runs.c.project == project, runs.c.id == run).values(**values))


def set_first_output(db: Connection, batches: Sequence[EventBatch]) -> None:
    if batches:
        rows = [{"of_project": batch.project, "of_id": batch.run, "at": batch.first_output_at} for batch in batches]
        db.execute(_update_first_output, rows)


def get_run(db: Connection, project: str, run: str) -> RunRow | None:
    """Return a run; None for an unknown one, or one of another project."""
    row = db.execute(_where_run(select(*_COLUMNS), project, run)).mappings().one_or_none()
    return None if row is None else RunRow(**row)


def get_stored_run(db: Connection, project: str, run: str) -> StoredRun | None:
    query = select(*_COLUMNS, runs.c.call, runs.c.reading, runs.c.reply)
    row = db.execute(_where_run(query, project, run)).mappings().one_or_none()
    if row is None:
        return None
    fields = dict(row)
    call, reading, reply = fields.pop("call"), fields.pop("reading"), fields.pop("reply")
    return StoredRun(RunRow(**fields), call, reading, None if reply is None else msgspec.convert(reply, Reply))


def decode_call(stored: StoredRun) -> Call | None:
    """Return the call of a run; None if it was not recorded."""
    return None if stored.call is None else msgspec.convert(stored.call, Call)


def list_active_in_session(db: Connection, project: str, workflow: str, session: str) -> list[RunRow]:
    """List the active runs of a session, in any process."""
    query = select(*_COLUMNS).where(
        runs.c.project == project, runs.c.session == session, runs.c.workflow == workflow, runs.c.ended_at.is_(None)
    )
    return _fetch_rows(db, query.order_by(runs.c.id))


def request_cancel(db: Connection, project: str, run: str, at: datetime) -> None:
    query = update(runs).where(runs.c.project == project, runs.c.id == run, runs.c.ended_at.is_(None))
    db.execute(query.where(runs.c.cancel_asked_at.is_(None)).values(cancel_asked_at=at))
    notifications.notify(db, "cancel", [run])


def list_cancel_requests(db: Connection, process: str) -> list[str]:
    query = select(runs.c.id).where(runs.c.ended_at.is_(None), runs.c.process == process)
    return list(db.scalars(query.where(runs.c.cancel_asked_at.is_not(None))))


def set_read_at(db: Connection, project: str, run: str, at: datetime) -> None:
    """Tell the process of a run that another process reads it."""
    query = update(runs).where(runs.c.project == project, runs.c.id == run, runs.c.ended_at.is_(None))
    db.execute(query.values(read_at=at))
    notifications.notify(db, "followed", [run])


def get_read_at(db: Connection, project: str, run: str) -> datetime | None:
    """Return when another process last read the run."""
    return db.scalar(_where_run(select(runs.c.read_at), project, run))


def run_durations(db: Connection, project: str, ids: Collection[str]) -> dict[str, float]:
    """Return the durations of ended runs in seconds, by id."""
    query = select(runs.c.id, runs.c.started_at, runs.c.ended_at).where(runs.c.project == project, runs.c.id.in_(ids))
    rows = ((row.id, row.started_at, row.ended_at) for row in db.execute(query))
    return {run: (end - start).total_seconds() for run, start, end in rows if start is not None and end is not None}


def list_unfinished_runs(db: Connection, process_ids: Sequence[str]) -> list[RunRow]:
    return _fetch_rows(db, select(*_COLUMNS).where(runs.c.ended_at.is_(None), runs.c.process.in_(process_ids)))


def list_orphaned_runs(db: Connection) -> list[RunRow]:
    """List the active runs of processes that are no longer registered."""
    registered = select(processes.c.id)
    return _fetch_rows(db, select(*_COLUMNS).where(runs.c.ended_at.is_(None), runs.c.process.not_in(registered)))


def find_lost_runs(db: Connection, process: str, ids: Collection[str]) -> set[str]:
    """Return the runs among `ids` that another process has ended or restarted."""
    if not ids:
        return set()
    query = select(runs.c.id).where(runs.c.id.in_(ids), runs.c.process == process, runs.c.status != "interrupted")
    return set(ids) - set(db.scalars(query.with_for_update()))


def lock_active_run(db: Connection, project: str, run: str) -> bool:
    """Lock an active run until the transaction ends; False if the run has ended."""
    query = _where_run(select(runs.c.id), project, run).where(runs.c.ended_at.is_(None)).with_for_update()
    return db.execute(query).one_or_none() is not None


def delete_runs(db: Connection, project: str, ids: Sequence[str]) -> int:
    """Delete runs, their logs, and files that nothing else references; returns the number of runs."""
    delete_events(db, project, ids)
    files.remove_references(db, project, ids)
    return db.execute(delete(runs).where(runs.c.project == project, runs.c.id.in_(ids))).rowcount


def _fetch_rows(db: Connection, query: Select[Any]) -> list[RunRow]:
    return [RunRow(**row) for row in db.execute(query).mappings()]


def _where_run(query: Select[Any], project: str, run: str) -> Select[Any]:
    return query.where(runs.c.project == project, runs.c.id == run)


_EXACT_FILTERS = ("workflow", "variant", "status", "protocol", "thread", "board", "key", "user")
_START_SLACK_MS = 24 * 60 * 60 * 1000
"""How long a run may have its id before it is created: its turn may have to wait."""


class RunFilters(msgspec.Struct, frozen=True, kw_only=True):
    workflow: str | None = None
    variant: str | None = None
    """`short:3`, or `short` for all versions of it."""
    status: RunStatus | None = None
    protocol: str | None = None
    thread: str | None = None
    board: str | None = None
    evaluation: str | None = None
    key: str | None = None
    user: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    """Created at or after `since`, and before `until`."""
    search: str | None = None
    """Text in the previews of input or output; ASCII case is ignored."""


ALL_RUNS = RunFilters()


def list_runs(
    db: Connection, project: str, filters: RunFilters = ALL_RUNS, window: Window = FIRST_PAGE
) -> Page[RunRow]:
    """List runs, newest first. The `seq` of active runs is read from the log."""
    query = _filtered_runs(db, project, filters)
    scope = {name: f"{value}" for name, value in msgspec.structs.asdict(filters).items() if value is not None}
    page = fetch_page(db, query, row_converter(RunRow), project=project, by=[runs.c.id], window=window, filters=scope)
    active = [row.id for row in page.data if row.is_alive]
    seqs = last_event_seqs(db, project, active) if active else {}
    return page.map(lambda row: msgspec.structs.replace(row, seq=seqs[row.id]) if row.id in seqs else row)


def list_active_ids(db: Connection, project: str, limit: int) -> list[str]:
    """List the ids of active runs, newest first."""
    query = select(runs.c.id).where(runs.c.ended_at.is_(None), runs.c.status.in_(["queued", "running"]))
    return list(db.scalars(query.where(runs.c.project == project).order_by(runs.c.id.desc()).limit(limit)))


def last_event_seqs(db: Connection, project: str, ids: list[str]) -> dict[str, int]:
    """Return the seq of the last event in the log of active runs."""
    last = func.max(events.c.first + events.c.count) - 1
    query = select(events.c.run, last).where(events.c.project == project, events.c.run.in_(ids))
    return {row[0]: row[1] for row in db.execute(query.group_by(events.c.run))}


def _filtered_runs(db: Connection, project: str, filters: RunFilters) -> Select[Any]:
    query = select(*_COLUMNS).where(runs.c.project == project)
    for name in _EXACT_FILTERS:
        value: str | None = getattr(filters, name)
        if value is None:
            continue
        if name == "variant" and ":" not in value:
            query = query.where(runs.c.variant.startswith(f"{storable_text(value)}:", autoescape=True))
        else:
            query = query.where(runs.c[name] == storable_text(value))
    if filters.status in ("queued", "running"):
        # Active runs have a small partial index, which a direct condition would not use.
        active = runs.alias("active")
        active_ids = select(active.c.id).where(active.c.ended_at.is_(None), active.c.status == filters.status)
        query = query.where(runs.c.id.in_(active_ids))
    if filters.status in ("failed", "cancelled", "interrupted"):
        query = query.where(IS_UNUSUAL)
    if filters.evaluation is not None:
        query = query.where(false())  # No run belongs to an evaluation.
    # The list is ordered by id, and ids sort by time: limiting the ids avoids a scan from the start.
    if filters.since is not None:
        query = query.where(runs.c.created_at >= filters.since, runs.c.id >= _first_id(filters.since, -_START_SLACK_MS))
    if filters.until is not None:
        query = query.where(runs.c.created_at < filters.until, runs.c.id < _first_id(filters.until, 1))
    if filters.search:
        query = query.where(
            or_(*(_preview_contains(db, column, filters.search) for column in (runs.c.preview_in, runs.c.preview_out)))
        )
    return query


def _first_id(moment: datetime, offset_ms: int) -> str:
    """Return the first id `offset_ms` milliseconds after `moment`."""
    return f"run_{sortable_id(max(int(moment.timestamp() * 1000) + offset_ms, 0), 0)[:10]}"


def _preview_contains(db: Connection, column: ColumnElement[Any], text: str) -> ColumnElement[bool]:
    """Whether a preview contains the text. Previews are stored as JSON, so the encoded text is searched."""
    needle = msgspec.json.encode(storable_text(text)).decode()[1:-1]
    raw = func.convert_from(column, "UTF8").collate("C") if db.dialect.name == "postgresql" else cast(column, Text)
    contains = func.lower(raw).contains(_ascii_lower(needle), autoescape=True)
    return case((column.is_(None), false()), else_=contains)


def _ascii_lower(text: str) -> str:
    """Lower ASCII letters only: databases differ on others."""
    return "".join([letter.lower() if letter.isascii() else letter for letter in text])
