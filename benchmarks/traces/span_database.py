"""Databases with many spans: filled over HTTP while the server's memory is measured, or copied from another one."""

import asyncio
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from sqlalchemy import ColumnElement, Connection, LargeBinary, and_, select, type_coerce

from benchmarks import machine
from benchmarks.servers import Server
from benchmarks.traces import chats
from benchmarks.traces.chats import SpanTimes
from benchmarks.traces.otlp_sender import SendResult, send_spans
from palaver.storage.database import open_database
from palaver.storage.spans import writes as span_writes
from palaver.storage.spans.tables import span_bodies, spans
from palaver.storage.spans.writes import SpanRow

DAYS = 20
"""The spans are spread over this many days."""
LONG_TRACE_SPANS = 30_000
"""Spans of the one long trace."""
_BATCH_ROWS = 2_000


class IngestResult(msgspec.Struct, frozen=True):
    """Memory of a server while spans arrived, in KiB above its idle memory."""

    half: int
    """Peak during the first half."""
    whole: int
    """Peak overall."""
    send: SendResult


def span_times(count: int, now: datetime) -> SpanTimes:
    """Spread the start times of `count` spans over the days before `now`."""
    return SpanTimes(now - timedelta(days=DAYS), timedelta(days=DAYS) / count)


def fill_over_http(server: Server, count: int, now: datetime) -> IngestResult:
    """Send `count` spans and the long trace to a server."""
    before = _resident_kib(server)
    memory: list[int] = []
    bodies = (chats.encode_protobuf(batch) for batch in chats.chat_requests(0, count, span_times(count, now)))
    send_result = send_spans(server, bodies, on_sent=lambda: memory.append(_resident_kib(server) - before))
    send_spans(
        server,
        map(
            chats.encode_protobuf,
            chats.long_trace(min(LONG_TRACE_SPANS, count), SpanTimes(now, timedelta(microseconds=500))),
        ),
    )
    return IngestResult(max(memory[: len(memory) // 2 + 1]), max(memory), send_result)


def _resident_kib(server: Server) -> int:
    """Resident memory of all processes of the server."""
    return sum(machine.memory(pid).resident for pid in machine.process_tree(server.pid))


def copy_to_postgres(path: Path, url: str) -> None:
    """Copy an SQLite file to PostgreSQL, and run ANALYZE, as autovacuum would within minutes."""
    asyncio.run(copy_spans(path, url, today=datetime.now(UTC).date()))
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("ANALYZE")


async def copy_spans(path: Path, url: str, *, today: date) -> None:
    """Copy all spans of a file into another database."""
    source, target = open_database(str(path)), open_database(url)
    last = 0
    while batch := await source.read(_rows_after, last):
        last = batch[-1][0]
        await target.write(span_writes.insert_spans, [row for _, row in batch], today=today)
    await source.close()
    await target.close()


def _rows_after(db: Connection, last: int) -> list[tuple[int, SpanRow]]:
    """The next batch of rows, each with its id."""
    join_conditions = [spans.c[name] == span_bodies.c[name] for name in ("project", "trace_id", "span_id", "day")]
    query = select(spans.c.id, *(_column(name) for name in SpanRow.__struct_fields__)).join_from(
        spans, span_bodies, and_(*join_conditions)
    )
    rows = db.execute(query.where(spans.c.id > last).order_by(spans.c.id).limit(_BATCH_ROWS))
    return [(number, _row(values)) for number, *values in rows]


def _column(name: str) -> ColumnElement[Any]:
    column = (span_bodies if name in ("labels", "body") else spans).c[name]
    return type_coerce(column, LargeBinary) if name.startswith("preview") else column


def _row(values: list[Any]) -> SpanRow:
    return SpanRow(**dict(zip(SpanRow.__struct_fields__, values, strict=True)))
