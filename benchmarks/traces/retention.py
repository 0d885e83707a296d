"""Deleting a day of spans: the time in PostgreSQL, and the latency of writers to SQLite meanwhile."""

import asyncio
import sqlite3
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from benchmarks import servers
from benchmarks.context import BenchmarkContext, MeasurementError
from benchmarks.figures import Figure, at_most
from benchmarks.traces import chats
from benchmarks.traces.chats import SpanTimes
from benchmarks.traces.otlp_sender import send_spans
from palaver.storage.database import open_database
from palaver.storage.spans import partitions as span_days
from palaver.storage.spans import retention as span_retention
from palaver.storage.spans.partitions import DayUsage

_PAUSE_S = 0.02
_TIMEOUT_S = 900  # Housekeeping starts a minute after the server.


def measure_postgres(url: str) -> Figure:
    day, seconds = asyncio.run(_drop_oldest_day(url))
    return Figure(
        name="deleting a day, PostgreSQL",
        value=seconds,
        unit="s",
        goal=at_most(1),
        how=f"a day of {day.spans:,} spans, deleted by the retention task",
    )


async def _drop_oldest_day(url: str) -> tuple[DayUsage, float]:
    database = open_database(url)
    oldest = (await database.read(span_days.list_day_usage))[0]
    since = time.perf_counter()
    deleted = await database.write(span_retention.delete_before, oldest.day + timedelta(days=1))
    seconds = time.perf_counter() - since
    await database.close()
    if deleted != oldest.spans:
        raise MeasurementError(f"{deleted} of {oldest.spans} spans were deleted")
    return oldest, seconds


class _Day(NamedTuple):
    day: date
    spans: int


def measure_sqlite(context: BenchmarkContext, path: Path) -> Figure:
    """Let the server's housekeeping delete a day while traces of 20 spans are sent."""
    oldest = _oldest_day(path)
    days = (datetime.now(UTC).date() - oldest.day).days - 1
    before: list[float] = []
    during: list[float] = []
    with servers.run_palaver(
        context, db=path, PALAVER_TRACE_RETENTION_DAYS=str(days), PALAVER_RATE_PER_MINUTE="0"
    ) as server:
        since, request_count = time.monotonic(), 0
        started_at = 0.0
        while (current := _oldest_day(path)).day == oldest.day:
            if time.monotonic() - since > _TIMEOUT_S:
                raise MeasurementError(f"the oldest day still has {current.spans} spans")
            if current.spans < oldest.spans and not started_at:
                started_at = time.monotonic()
            times = SpanTimes(datetime.now(UTC), timedelta(milliseconds=1))
            body = chats.encode_protobuf(
                chats.make_chats(1_000_000_000 + request_count * chats.SPANS_PER_TRACE, chats.SPANS_PER_TRACE, times)
            )
            (during if started_at else before).extend(send_spans(server, [body], connections=1).waits)
            request_count += 1
            time.sleep(_PAUSE_S)
        seconds = time.monotonic() - started_at
    if not during:
        raise MeasurementError("the day was deleted before anything could be sent")
    return Figure(
        name="deleting a day, SQLite: longest concurrent request",
        value=max(during),
        unit="ms",
        goal=at_most(100),
        how=f"longest of {len(during)} requests of {chats.SPANS_PER_TRACE} spans while a day of "
        f"{oldest.spans:,} spans was deleted in {seconds:.1f} s; before that, the longest of "
        f"{len(before):,} took {max(before, default=0):.1f} ms",
    )


def _oldest_day(path: Path) -> _Day:
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)
    try:
        row = db.execute("SELECT day, sum(spans) FROM span_days WHERE spans > 0 GROUP BY day ORDER BY day").fetchone()
    finally:
        db.close()
    return _Day(span_days.day_date(row[0]), row[1])
