"""Runs: what was asked, by whom, how it went, and what came of it."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Executable, Select, bindparam, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite

from palaver.core.calls import Call, Reply
from palaver.core.origins import RunStatus
from palaver.core.records import Batch
from palaver.storage import events, file_uses, notices
from palaver.storage.tables import processes, runs


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run, without what it was asked and what it said."""

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
    """That of its last event in the log."""
    usage: Mapping[str, Any] | None = None
    preview_in: Any = None
    preview_out: Any = None
    process: str | None = None
    idempotent: bool = False
    attempts: int = 0
    """How often it was begun in the background."""
    cancel_asked_at: datetime | None = None
    created_at: datetime
    started_at: datetime | None = None
    first_output_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def is_alive(self) -> bool:
        """Has it not ended?"""
        return self.ended_at is None


_COLUMNS = [runs.c[name] for name in RunRow.__struct_fields__]
_COLUMN = runs.c


class Whole(msgspec.Struct, frozen=True):
    """A run, with what it was asked, the protocol's note of how to answer, and what it said."""

    row: RunRow
    call: Any
    """A Call as JSON; its messages are those that are kept with the run."""
    reading: Any
    reply: Reply | None


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended."""

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


_ENDING = [name for name in Ending.__struct_fields__ if name not in ("project", "id")]
_named = update(runs).where(_COLUMN.project == bindparam("of_project"), _COLUMN.id == bindparam("of_id"))
_end = _named.values({name: bindparam(name) for name in _ENDING})
_note_output = _named.values(first_output_at=bindparam("at"))


def _put(insert: sqlite.Insert | postgresql.Insert) -> Executable:
    ending = {name: insert.excluded[name] for name in _ENDING}
    return insert.on_conflict_do_update(index_elements=["project", "id"], set_=ending)


_add = {"sqlite": _put(sqlite.insert(runs)), "postgresql": _put(postgresql.insert(runs))}


def add(db: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Keep new runs; each row has the fields of RunRow, and `call`, `reading` and `reply`.

    One that is there was sent before, when nobody told us that it was kept: it may have ended since.
    """
    db.execute(_add[db.dialect.name], list(rows))


def end(db: Connection, endings: Sequence[Ending]) -> None:
    """Note how runs ended."""
    named = [
        {"of_project": one.project, "of_id": one.id} | {name: getattr(one, name) for name in _ENDING} for one in endings
    ]
    db.execute(_end, named)


def rewrite(db: Connection, project: str, run: str, **values: Any) -> None:
    """Let a run say less of what it was asked."""
    db.execute(update(runs).where(_COLUMN.project == project, _COLUMN.id == run).values(**values))


def note_output(db: Connection, batches: Sequence[Batch]) -> None:
    """Note when runs first said something."""
    if batches:
        named = [{"of_project": one.project, "of_id": one.run, "at": one.first_output_at} for one in batches]
        db.execute(_note_output, named)


def get(db: Connection, project: str, run: str) -> RunRow | None:
    """One run; None for an unknown one, or another project's."""
    found = db.execute(_one(select(*_COLUMNS), project, run)).mappings().one_or_none()
    return None if found is None else RunRow(**found)


def whole(db: Connection, project: str, run: str) -> Whole | None:
    """One run, with all that is kept of it."""
    asked = select(*_COLUMNS, _COLUMN.call, _COLUMN.reading, _COLUMN.reply)
    found = db.execute(_one(asked, project, run)).mappings().one_or_none()
    if found is None:
        return None
    fields = dict(found)
    call, reading, reply = fields.pop("call"), fields.pop("reading"), fields.pop("reply")
    return Whole(RunRow(**fields), call, reading, None if reply is None else msgspec.convert(reply, Reply))


def call_of(found: Whole) -> Call | None:
    """What it was asked; None where that is not kept."""
    return None if found.call is None else msgspec.convert(found.call, Call)


def alive_in(db: Connection, project: str, workflow: str, session: str) -> list[RunRow]:
    """The runs of a session that have not ended, in any process."""
    asked = select(*_COLUMNS).where(
        _COLUMN.project == project,
        _COLUMN.session == session,
        _COLUMN.workflow == workflow,
        _COLUMN.ended_at.is_(None),
    )
    return _rows(db, asked.order_by(_COLUMN.id))


def ask_to_cancel(db: Connection, project: str, run: str, at: datetime) -> None:
    """Tell the process that it runs in."""
    asked = update(runs).where(_COLUMN.project == project, _COLUMN.id == run, _COLUMN.ended_at.is_(None))
    db.execute(asked.where(_COLUMN.cancel_asked_at.is_(None)).values(cancel_asked_at=at))
    notices.tell(db, "cancel", [run])


def asked_to_cancel(db: Connection, process: str) -> list[str]:
    """The runs of a process that it is to end."""
    asked = select(_COLUMN.id).where(_COLUMN.ended_at.is_(None), _COLUMN.process == process)
    return list(db.scalars(asked.where(_COLUMN.cancel_asked_at.is_not(None))))


def note_read(db: Connection, project: str, run: str, at: datetime) -> None:
    """Tell the process that it runs in that somebody reads it here."""
    asked = update(runs).where(_COLUMN.project == project, _COLUMN.id == run, _COLUMN.ended_at.is_(None))
    db.execute(asked.values(read_at=at))
    notices.tell(db, "followed", [run])


def read_at(db: Connection, project: str, run: str) -> datetime | None:
    """When somebody last read it in another process than its own."""
    return db.scalar(_one(select(_COLUMN.read_at), project, run))


def seconds(db: Connection, project: str, ids: Collection[str]) -> dict[str, float]:
    """How long each of these runs took; those that have not ended are left out."""
    asked = select(runs.c.id, runs.c.started_at, runs.c.ended_at).where(runs.c.project == project, runs.c.id.in_(ids))
    known = ((row.id, row.started_at, row.ended_at) for row in db.execute(asked))
    return {run: (end - start).total_seconds() for run, start, end in known if start is not None and end is not None}


def left_by(db: Connection, names: Sequence[str]) -> list[RunRow]:
    """The runs of these processes that have not ended."""
    return _rows(db, select(*_COLUMNS).where(_COLUMN.ended_at.is_(None), _COLUMN.process.in_(names)))


def left_by_nobody(db: Connection) -> list[RunRow]:
    """The runs that have begun and not ended, of processes that nobody knows any more."""
    known = select(processes.c.id)
    return _rows(db, select(*_COLUMNS).where(_COLUMN.ended_at.is_(None), _COLUMN.process.not_in(known)))


def not_held(db: Connection, process: str, ids: Collection[str]) -> set[str]:
    """Which of these runs are no longer a process's: another one ended them for it, or has begun them anew."""
    if not ids:
        return set()
    held = select(_COLUMN.id).where(_COLUMN.id.in_(ids), _COLUMN.process == process, _COLUMN.status != "interrupted")
    return set(ids) - set(db.scalars(held.with_for_update()))


def take(db: Connection, project: str, run: str) -> bool:
    """Hold a run that has not ended against others who would end it; False if it has."""
    asked = _one(select(_COLUMN.id), project, run).where(_COLUMN.ended_at.is_(None)).with_for_update()
    return db.execute(asked).one_or_none() is not None


def erase(db: Connection, project: str, ids: Sequence[str]) -> int:
    """Forget runs and their logs, and files that nothing else names; how many there were."""
    events.erase(db, project, ids)
    file_uses.drop(db, project, ids)
    return db.execute(delete(runs).where(_COLUMN.project == project, _COLUMN.id.in_(ids))).rowcount


def _rows(db: Connection, asked: Select[Any]) -> list[RunRow]:
    return [RunRow(**found) for found in db.execute(asked).mappings()]


def _one(asked: Select[Any], project: str, run: str) -> Select[Any]:
    return asked.where(_COLUMN.project == project, _COLUMN.id == run)
