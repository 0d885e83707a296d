"""Days of spans: which day a span belongs to, how much a day holds, and its PostgreSQL partitions.

Partitions are created in advance. A dropped day accepts no more spans: late ones are stored under today. Partition
names are built from a table name and a number, and quoted, since DDL takes no parameters.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import Connection, DDLElement, Table, func, select, text, update
from sqlalchemy.ext.compiler import compiles

from palaver.storage.schema import dialect_insert
from palaver.storage.spans.tables import PARTITIONED_TABLES, span_days, spans

EPOCH = date(1970, 1, 1)


class _PartitionStatement(DDLElement):
    """DDL for the partition of a table that holds one day."""

    def __init__(self, table: Table, day: int) -> None:
        self.table = table
        self.day = int(day)


class CreatePartition(_PartitionStatement):
    """Create the partition as a separate table."""


class AttachPartition(_PartitionStatement):
    """Attach the partition."""


class DropPartition(_PartitionStatement):
    """Drop the partition."""


def partition_name(table: Table, day: int) -> str:
    return f"{table.name}_{EPOCH + timedelta(days=day):%Y%m%d}"


@compiles(CreatePartition, "postgresql")
def _compile_create(statement: CreatePartition, compiler: Any, **_: Any) -> str:
    partition, parent = _quoted_names(statement, compiler)
    return f"CREATE TABLE {partition} (LIKE {parent} INCLUDING ALL)"


@compiles(AttachPartition, "postgresql")
def _compile_attach(statement: AttachPartition, compiler: Any, **_: Any) -> str:
    partition, parent = _quoted_names(statement, compiler)
    day = statement.day
    return f"ALTER TABLE {parent} ATTACH PARTITION {partition} FOR VALUES FROM ({day:d}) TO ({day + 1:d})"


@compiles(DropPartition, "postgresql")
def _compile_drop(statement: DropPartition, compiler: Any, **_: Any) -> str:
    return f"DROP TABLE IF EXISTS {_quoted_names(statement, compiler)[0]}"


def _quoted_names(statement: _PartitionStatement, compiler: Any) -> tuple[str, str]:
    quote = compiler.preparer.quote
    return quote(partition_name(statement.table, statement.day)), quote(statement.table.name)


EVERY_PROJECT = ""
"""The project of days that were dropped for all projects."""
MAX_DAYS_BACK, MAX_DAYS_AHEAD = 30, 1
"""How far the start of a span may be from the day of its arrival."""
PARTITIONS_AHEAD = 2
_PARTITION_LOCK_ID = 6_157_842_605
_DAY = timedelta(days=1)


class DayUsage(msgspec.Struct, frozen=True):
    project: str
    day: date
    spans: int
    bytes: int


def day_number(day: date) -> int:
    """Return the number of days since 1970."""
    return (day - EPOCH).days


def day_date(day: int) -> date:
    return EPOCH + day * _DAY


# Assignment


def assign_days(db: Connection, project: str, starts: Sequence[datetime], today: date) -> list[int]:
    """Return the days for spans with these start times, and create missing partitions."""
    today_number, last_dropped = day_number(today), last_dropped_day(db, project)
    earliest, latest = max(today_number - MAX_DAYS_BACK, last_dropped + 1), today_number + MAX_DAYS_AHEAD
    days = [day_number(start.astimezone(UTC).date()) for start in starts]
    assigned = [day if earliest <= day <= latest else today_number for day in days]
    _create_partitions(db, sorted(set(assigned)))
    return assigned


def last_dropped_day(db: Connection, project: str) -> int:
    """Return the number of the last dropped day of a project; -1 if no day was dropped."""
    query = select(func.max(span_days.c.day)).where(
        span_days.c.project.in_([project, EVERY_PROJECT]), span_days.c.dropped
    )
    day = db.scalar(query)
    return -1 if day is None else day


def add_day_usage(db: Connection, project: str, changes: Iterable[tuple[int, int, int]]) -> None:
    """Add to the usage of days: (day, spans, bytes), which may be negative."""
    sums: dict[int, tuple[int, int]] = {}
    for day, span_delta, byte_delta in changes:
        before = sums.get(day, (0, 0))
        sums[day] = (before[0] + span_delta, before[1] + byte_delta)
    insert = dialect_insert(db, span_days)
    upsert = insert.on_conflict_do_update(
        index_elements=["project", "day"],
        set_={name: span_days.c[name] + insert.excluded[name] for name in ("spans", "bytes")},
    )
    rows = [
        {"project": project, "day": day, "spans": span_delta, "bytes": byte_delta, "dropped": False}
        for day, (span_delta, byte_delta) in sorted(sums.items())
    ]
    db.execute(upsert, rows)


# Partitions


def create_upcoming_partitions(db: Connection, today: date) -> None:
    _create_partitions(db, range(day_number(today), day_number(today) + PARTITIONS_AHEAD + 1))


def _create_partitions(db: Connection, days: Iterable[int]) -> None:
    if db.dialect.name != "postgresql" or not (missing := _missing_days(db, days)):
        return
    db.execute(select(func.pg_advisory_xact_lock(_PARTITION_LOCK_ID)))
    for day in _missing_days(db, missing):  # Another process may have created it.
        for table in PARTITIONED_TABLES:
            # Created separately and then attached, so that concurrent reads and writes are not blocked.
            db.execute(CreatePartition(table, day))
            db.execute(AttachPartition(table, day))


def drop_partitions(db: Connection, day: int) -> None:
    for table in PARTITIONED_TABLES:
        db.execute(DropPartition(table, day))


def _missing_days(db: Connection, days: Iterable[int]) -> list[int]:
    names = {day: partition_name(spans, day) for day in days}
    query = text("SELECT relname FROM pg_class WHERE relname = ANY(:names) AND pg_table_is_visible(oid)")
    existing = set(db.scalars(query, {"names": [*names.values()]}))
    return [day for day, name in names.items() if name not in existing]


# Usage


def list_day_usage(db: Connection) -> list[DayUsage]:
    """List the usage of days, oldest first."""
    query = select(span_days.c.project, span_days.c.day, span_days.c.spans, span_days.c.bytes)
    rows = db.execute(query.where(span_days.c.spans > 0).order_by(span_days.c.day, span_days.c.project))
    return [DayUsage(row.project, day_date(row.day), row.spans, row.bytes) for row in rows]


def first_day_within(db: Connection, max_bytes: int) -> date | None:
    """Return the first day to keep so that all kept days fit; None if all fit. The last day always stays."""
    usage = list_day_usage(db)
    days = sorted({entry.day for entry in usage})
    total = sum(entry.bytes for entry in usage)
    first = 0
    while total > max_bytes and first < len(days) - 1:
        total -= sum(entry.bytes for entry in usage if entry.day == days[first])
        first += 1
    return days[first] if first else None


def mark_day_dropped(db: Connection, project: str, day: int) -> None:
    """Mark a day and all earlier ones as dropped."""
    insert = dialect_insert(db, span_days)
    row = {"project": project, "day": day, "spans": 0, "bytes": 0, "dropped": True}
    db.execute(insert.on_conflict_do_update(index_elements=["project", "day"], set_={"dropped": True}), [row])


def clear_day_usage(db: Connection, day: int, project: str | None = None) -> None:
    statement = update(span_days).where(span_days.c.day == day)
    if project is not None:
        statement = statement.where(span_days.c.project == project)
    db.execute(statement.values(spans=0, bytes=0))
