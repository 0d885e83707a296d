"""Databases with many spans: one is sent them over HTTP while its server is watched, another gets what that one has."""

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
from palaver.storage.spans import writes as kept
from palaver.storage.spans.tables import span_bodies, spans
from palaver.storage.spans.writes import SpanRow

DAYS = 20
"""The spans are spread over so many."""
LONG_TRACE_SPANS = 30_000
"""Spans of the one long trace."""
_BATCH_ROWS = 2_000


class IngestResult(msgspec.Struct, frozen=True):
    """What a server held while spans arrived, in KiB above what it held before."""

    half: int
    """The most until half of them were there,"""
    whole: int
    """and until all were."""
    sent: SendResult


def span_times(count: int, now: datetime) -> SpanTimes:
    """When so many spans begin: the last of them now."""
    return SpanTimes(now - timedelta(days=DAYS), timedelta(days=DAYS) / count)


def fill_over_http(server: Server, count: int, now: datetime) -> IngestResult:
    """Send a server so many spans, and the long trace."""
    before = _resident_kib(server)
    held: list[int] = []
    wanted = (chats.encode_protobuf(some) for some in chats.chat_requests(0, count, span_times(count, now)))
    sent = send_spans(server, wanted, seen=lambda: held.append(_resident_kib(server) - before))
    send_spans(
        server,
        map(
            chats.encode_protobuf,
            chats.long_trace(min(LONG_TRACE_SPANS, count), SpanTimes(now, timedelta(microseconds=500))),
        ),
    )
    return IngestResult(max(held[: len(held) // 2 + 1]), max(held), sent)


def _resident_kib(server: Server) -> int:
    """By all of its processes."""
    return sum(machine.memory(pid).resident for pid in machine.process_tree(server.pid))


def copy_to_postgres(place: Path, url: str) -> None:
    """All that is in that file. PostgreSQL looks at it once, as it does by itself within minutes."""
    asyncio.run(copy_spans(place, url, today=datetime.now(UTC).date()))
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("ANALYZE")


async def copy_spans(place: Path, url: str, *, today: date) -> None:
    """All spans of a file into another database."""
    source, target = open_database(str(place)), open_database(url)
    last = 0
    while some := await source.read(_rows_after, last):
        last = some[-1][0]
        await target.write(kept.insert_spans, [row for _, row in some], today=today)
    await source.close()
    await target.close()


def _rows_after(db: Connection, last: int) -> list[tuple[int, SpanRow]]:
    """The next of them, each with its number."""
    same = [spans.c[name] == span_bodies.c[name] for name in ("project", "trace_id", "span_id", "day")]
    asked = select(spans.c.id, *(_column(name) for name in SpanRow.__struct_fields__)).join_from(
        spans, span_bodies, and_(*same)
    )
    rows = db.execute(asked.where(spans.c.id > last).order_by(spans.c.id).limit(_BATCH_ROWS))
    return [(number, _row(values)) for number, *values in rows]


def _column(name: str) -> ColumnElement[Any]:
    column = (span_bodies if name in ("labels", "body") else spans).c[name]
    return type_coerce(column, LargeBinary) if name.startswith("preview") else column


def _row(values: list[Any]) -> SpanRow:
    return SpanRow(**dict(zip(SpanRow.__struct_fields__, values, strict=True)))
