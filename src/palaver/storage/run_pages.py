"""Runs as a list: newest first, a page at a time, by what is asked for."""

from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, Text, case, cast, false, func, or_, select
from sqlalchemy.engine import Row

from palaver.core.ids import sortable
from palaver.core.origins import RunStatus
from palaver.storage.pages import START, Page, Window, page
from palaver.storage.runs import RunRow
from palaver.storage.tables import IS_UNUSUAL, events, runs
from palaver.storage.threads.nodes import held

_COLUMNS = [runs.c[name] for name in RunRow.__struct_fields__]
_EXACT = ("workflow", "variant", "status", "protocol", "thread", "board", "key", "user")
_SLACK = 24 * 60 * 60 * 1000
"""Milliseconds for which a run may have its name before it starts: its turn has to come."""


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs are asked for."""

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
    """Made at that time or later, and before this one."""
    search: str | None = None
    """A text in what its cells show of what was asked and answered; upper case of plain letters does not matter."""


ANY = Filters()


def listed(db: Connection, project: str, filters: Filters = ANY, window: Window = START) -> Page[RunRow]:
    """A page of runs; of those that go on, `seq` is that of the last event in the log."""
    asked = _asked(db, project, filters)
    bound = {name: f"{value}" for name, value in msgspec.structs.asdict(filters).items() if value is not None}
    found = page(db, asked, _row, project=project, by=[runs.c.id], window=window, filters=bound)
    going = [row.id for row in found.data if row.is_alive]
    said = last_seqs(db, project, going) if going else {}
    return found.of(lambda row: msgspec.structs.replace(row, seq=said[row.id]) if row.id in said else row)


def going(db: Connection, project: str, limit: int) -> list[str]:
    """Those that have not ended, newest first."""
    asked = select(runs.c.id).where(runs.c.ended_at.is_(None), runs.c.status.in_(["queued", "running"]))
    return list(db.scalars(asked.where(runs.c.project == project).order_by(runs.c.id.desc()).limit(limit)))


def last_seqs(db: Connection, project: str, names: list[str]) -> dict[str, int]:
    """Of runs that go on, the number of the last event in the log."""
    last = func.max(events.c.first + events.c.count) - 1
    asked = select(events.c.run, last).where(events.c.project == project, events.c.run.in_(names))
    return {row[0]: row[1] for row in db.execute(asked.group_by(events.c.run))}


def _asked(db: Connection, project: str, filters: Filters) -> Select[Any]:
    asked = select(*_COLUMNS).where(runs.c.project == project)
    for name in _EXACT:
        wanted: str | None = getattr(filters, name)
        if wanted is None:
            continue
        if name == "variant" and ":" not in wanted:
            asked = asked.where(runs.c.variant.startswith(f"{held(wanted)}:", autoescape=True))
        else:
            asked = asked.where(runs.c[name] == held(wanted))
    if filters.status in ("queued", "running"):
        # They are few among many, and have an index of their own; asked for directly, it is passed over.
        going = runs.alias("going")
        alive = select(going.c.id).where(going.c.ended_at.is_(None), going.c.status == filters.status)
        asked = asked.where(runs.c.id.in_(alive))
    if filters.status in ("failed", "cancelled", "interrupted"):
        asked = asked.where(IS_UNUSUAL)
    if filters.evaluation is not None:
        asked = asked.where(false())  # No run is part of one yet.
    # Ids sort by time, and are what the list is read by: the times need not be looked for from its start.
    if filters.since is not None:
        asked = asked.where(runs.c.created_at >= filters.since, runs.c.id >= _first_id(filters.since, -_SLACK))
    if filters.until is not None:
        asked = asked.where(runs.c.created_at < filters.until, runs.c.id < _first_id(filters.until, 1))
    if filters.search:
        asked = asked.where(
            or_(*(_shows(db, cell, filters.search) for cell in (runs.c.preview_in, runs.c.preview_out)))
        )
    return asked


def _first_id(moment: datetime, later: int) -> str:
    """The first id of so many milliseconds later."""
    return f"run_{sortable(max(int(moment.timestamp() * 1000) + later, 0), 0)[:10]}"


def _shows(db: Connection, cell: ColumnElement[Any], text: str) -> ColumnElement[bool]:
    """Is the text in a cell? It is kept as JSON, so that is what is looked for."""
    needle = msgspec.json.encode(held(text)).decode()[1:-1]
    raw = func.convert_from(cell, "UTF8").collate("C") if db.dialect.name == "postgresql" else cast(cell, Text)
    is_there = func.lower(raw).contains(_lowered(needle), autoescape=True)
    return case((cell.is_(None), false()), else_=is_there)


def _lowered(text: str) -> str:
    """Plain letters only: what else is upper case, databases do not agree on."""
    return "".join([letter.lower() if letter.isascii() else letter for letter in text])


def _row(row: Row[Any]) -> RunRow:
    return RunRow(**dict(zip(RunRow.__struct_fields__, row, strict=False)))
