"""Days: what spans are filed under, and how much each of them holds.

On PostgreSQL a day is a partition of each table, made ahead. A day that was let go of takes no more: what comes late is
filed under today.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta

import msgspec
from sqlalchemy import Connection, func, select, text, update
from sqlalchemy.dialects import postgresql, sqlite

from palaver.storage.spans import parts as span_parts
from palaver.storage.spans.parts import EPOCH
from palaver.storage.spans.tables import PARTITIONED, span_days, spans

EVERY = ""
"""The project of what was let go of in all projects."""
BACK, AHEAD = 30, 1
"""Days that the start of a span may be away from the day on which it comes."""
MADE_AHEAD = 2
_LOCK = 6_157_842_605
_DAY = timedelta(days=1)


class Held(msgspec.Struct, frozen=True):
    """What a day holds."""

    project: str
    day: date
    spans: int
    bytes: int


def number(day: date) -> int:
    """How a day is kept: the days since 1970."""
    return (day - EPOCH).days


def named(day: int) -> date:
    """And back."""
    return EPOCH + day * _DAY


# Filing


def filed(db: Connection, project: str, starts: Sequence[datetime], today: date) -> list[int]:
    """The days that spans of these starts are filed under; from now on they are there."""
    now, last = number(today), last_dropped(db, project)
    earliest, latest = max(now - BACK, last + 1), now + AHEAD
    days = [number(start.astimezone(UTC).date()) for start in starts]
    filed_under = [day if earliest <= day <= latest else now for day in days]
    _make(db, sorted(set(filed_under)))
    return filed_under


def last_dropped(db: Connection, project: str) -> int:
    """The last day, as a number, that takes no more spans of a project; -1 where there is none."""
    asked = select(func.max(span_days.c.day)).where(span_days.c.project.in_([project, EVERY]), span_days.c.dropped)
    found = db.scalar(asked)
    return -1 if found is None else found


def count(db: Connection, project: str, changes: Iterable[tuple[int, int, int]]) -> None:
    """Note what days hold more, or less: day, spans, bytes."""
    sums: dict[int, tuple[int, int]] = {}
    for day, more, size in changes:
        before = sums.get(day, (0, 0))
        sums[day] = (before[0] + more, before[1] + size)
    put = _upsert(db)
    added = put.on_conflict_do_update(
        index_elements=["project", "day"],
        set_={name: span_days.c[name] + put.excluded[name] for name in ("spans", "bytes")},
    )
    rows = [
        {"project": project, "day": day, "spans": more, "bytes": size, "dropped": False}
        for day, (more, size) in sorted(sums.items())
    ]
    db.execute(added, rows)


# Partitions


def make_ahead(db: Connection, today: date) -> None:
    """See to it that the coming days have their partitions."""
    _make(db, range(number(today), number(today) + MADE_AHEAD + 1))


def _make(db: Connection, days: Iterable[int]) -> None:
    if db.dialect.name != "postgresql" or not (missing := _missing(db, days)):
        return
    db.execute(select(func.pg_advisory_xact_lock(_LOCK)))
    for day in _missing(db, missing):  # Another process may have been quicker.
        for table in PARTITIONED:
            # Made apart and then joined to the rest: so nobody who reads or writes meanwhile is waited for, or waits.
            db.execute(span_parts.Made(table, day))
            db.execute(span_parts.Joined(table, day))


def _missing(db: Connection, days: Iterable[int]) -> list[int]:
    wanted = {day: span_parts.name_of(spans, day) for day in days}
    known = text("SELECT relname FROM pg_class WHERE relname = ANY(:names) AND pg_table_is_visible(oid)")
    there = set(db.scalars(known, {"names": [*wanted.values()]}))
    return [day for day, name in wanted.items() if name not in there]


# What they hold


def held(db: Connection, project: str | None = None) -> list[Held]:
    """What each day holds, the oldest first."""
    asked = select(span_days.c.project, span_days.c.day, span_days.c.spans, span_days.c.bytes)
    if project is not None:
        asked = asked.where(span_days.c.project == project)
    rows = db.execute(asked.where(span_days.c.spans > 0).order_by(span_days.c.day, span_days.c.project))
    return [Held(row.project, named(row.day), row.spans, row.bytes) for row in rows]


def over(db: Connection, most_bytes: int) -> date | None:
    """The day before which all days have to go for the rest to fit; None if they do. The last one always stays."""
    left = held(db)
    days = sorted({one.day for one in left})
    total = sum(one.bytes for one in left)
    first = 0
    while total > most_bytes and first < len(days) - 1:
        total -= sum(one.bytes for one in left if one.day == days[first])
        first += 1
    return days[first] if first else None


def mark_dropped(db: Connection, project: str, day: int) -> None:
    """From here on that day, and all before it, take no more."""
    put = _upsert(db)
    row = {"project": project, "day": day, "spans": 0, "bytes": 0, "dropped": True}
    db.execute(put.on_conflict_do_update(index_elements=["project", "day"], set_={"dropped": True}), [row])


def empty(db: Connection, day: int, project: str | None = None) -> None:
    """Note that a day holds nothing any more."""
    emptied = update(span_days).where(span_days.c.day == day)
    if project is not None:
        emptied = emptied.where(span_days.c.project == project)
    db.execute(emptied.values(spans=0, bytes=0))


def _upsert(db: Connection) -> sqlite.Insert | postgresql.Insert:
    return postgresql.insert(span_days) if db.dialect.name == "postgresql" else sqlite.insert(span_days)
