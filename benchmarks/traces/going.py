"""Letting go of a day: how long PostgreSQL takes, and how long those who send to SQLite wait meanwhile."""

import asyncio
import sqlite3
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from benchmarks import servers
from benchmarks.figures import Figure, at_most
from benchmarks.stand import CannotMeasure, Stand
from benchmarks.traces import chats
from benchmarks.traces.chats import Times
from benchmarks.traces.sending import send
from palaver.storage.database import open_database
from palaver.storage.spans import partitions as span_days
from palaver.storage.spans import retention as span_retention
from palaver.storage.spans.partitions import DayUsage

_PAUSE = 0.02
_PATIENCE = 900  # Seconds; it begins a minute after the server.


def in_postgres(url: str) -> Figure:
    """One day, dropped."""
    held, seconds = asyncio.run(_dropped(url))
    return Figure(
        name="dropping a day, PostgreSQL",
        value=seconds,
        unit="s",
        goal=at_most(1),
        how=f"a day of {held.spans:,} spans, as housekeeping does it",
    )


async def _dropped(url: str) -> tuple[DayUsage, float]:
    database = open_database(url)
    oldest = (await database.read(span_days.list_day_usage))[0]
    since = time.perf_counter()
    gone = await database.write(span_retention.delete_before, oldest.day + timedelta(days=1))
    seconds = time.perf_counter() - since
    await database.close()
    if gone != oldest.spans:
        raise CannotMeasure(f"{gone} of {oldest.spans} spans went")
    return oldest, seconds


class _Left(NamedTuple):
    day: date
    spans: int


def in_sqlite(stand: Stand, place: Path) -> Figure:
    """One day, let go of by the server's own housekeeping, while a trace of 20 spans is sent every now and then."""
    oldest = _oldest(place)
    days = (datetime.now(UTC).date() - oldest.day).days - 1
    before: list[float] = []
    meanwhile: list[float] = []
    with servers.palaver(
        stand, db=place, PALAVER_TRACE_RETENTION_DAYS=str(days), PALAVER_RATE_PER_MINUTE="0"
    ) as server:
        since, number = time.monotonic(), 0
        first = 0.0
        while (left := _oldest(place)).day == oldest.day:
            if time.monotonic() - since > _PATIENCE:
                raise CannotMeasure(f"the oldest day still has {left.spans} spans")
            if left.spans < oldest.spans and not first:
                first = time.monotonic()
            times = Times(datetime.now(UTC), timedelta(milliseconds=1))
            body = chats.as_protobuf(chats.chats(1_000_000_000 + number * chats.TRACE, chats.TRACE, times))
            (meanwhile if first else before).extend(send(server, [body], connections=1).waits)
            number += 1
            time.sleep(_PAUSE)
        took = time.monotonic() - first
    if not meanwhile:
        raise CannotMeasure("the day was gone before anything could be sent")
    return Figure(
        name="dropping a day, SQLite: longest request meanwhile",
        value=max(meanwhile),
        unit="ms",
        goal=at_most(100),
        how=f"the longest of {len(meanwhile)} requests of {chats.TRACE} spans while a day of {oldest.spans:,} spans "
        f"went in {took:.1f} s; before that the longest of {len(before)} took {max(before, default=0):.1f} ms",
    )


def _oldest(place: Path) -> _Left:
    db = sqlite3.connect(f"file:{place}?mode=ro", uri=True, timeout=30)
    try:
        found = db.execute("SELECT day, sum(spans) FROM span_days WHERE spans > 0 GROUP BY day ORDER BY day").fetchone()
    finally:
        db.close()
    return _Left(span_days.day_date(found[0]), found[1])
