"""Traces: ingestion over OTLP, queries, retention, and the overhead of tracing runs.

The load is chats of 2 KiB, 20 to a trace, 500 to a request. PostgreSQL gets a copy of the spans sent to SQLite, so that
both are queried for the same spans.
"""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count as counter
from pathlib import Path

from benchmarks import servers
from benchmarks.context import BenchmarkContext, MeasurementError
from benchmarks.figures import Figure, at_most
from benchmarks.traces import driver_baseline, ingestion, queries, retention, run_overhead, span_database
from benchmarks.traces.ingestion import SpanLoad, SpanStore
from benchmarks.traces.span_database import IngestResult
from tests.postgres import SHARED_MEMORY, Postgres, Unavailable

MAX_SPANS, MIN_SPANS = 1_000_000, 200_000
"""Spans stored for queries, depending on the free space."""
_SPAN_BYTES = 10_000
"""Bytes of a span in a database, with indexes."""


def measure(context: BenchmarkContext) -> Iterator[Figure]:
    yield from run_overhead.measure_overhead(context)
    load = SpanLoad(context.choose(full=10_000, quick=1_000))
    paths = (context.folder / f"taken-{number}.db" for number in counter())
    sqlite_store = SpanStore(
        name="SQLite", create=lambda: next(paths), read_rows=lambda path: driver_baseline.read_sqlite(Path(path))
    )
    rounds = ingestion.measure_rounds(context, sqlite_store, load)
    yield from ingestion.ingest_figures(sqlite_store, rounds)
    with _postgres() as postgres:
        postgres_store = SpanStore(
            name="PostgreSQL", create=postgres.create, read_rows=lambda path: driver_baseline.read_postgres(str(path))
        )
        yield from ingestion.ingest_figures(postgres_store, ingestion.measure_rounds(context, postgres_store, load))
        yield from _measure_queries(context, postgres)
    yield ingestion.compare_phoenix(context, load, rounds)  # Last, because Phoenix may be unavailable.


def _postgres() -> Postgres:
    try:
        return Postgres()
    except Unavailable as error:
        raise MeasurementError(str(error)) from None


def _measure_queries(context: BenchmarkContext, postgres: Postgres) -> Iterator[Figure]:
    count, times = context.choose(full=_span_count(context), quick=10_000), context.choose(full=100, quick=8)
    path, url, now = context.folder / "many.db", postgres.create(), datetime.now(UTC)
    long_trace_spans = min(span_database.LONG_TRACE_SPANS, count)
    with servers.run_palaver(context, db=path, core=None, PALAVER_TRACE_RETENTION_DAYS="0") as server:
        yield _memory_figure(span_database.fill_over_http(server, count, now), count)
        yield from queries.measure_queries(
            server, count=count, long_trace_spans=long_trace_spans, times=times, now=now, database_name="SQLite"
        )
    yield retention.measure_sqlite(context, path)
    span_database.copy_to_postgres(path, url)
    with servers.run_palaver(context, db=url, PALAVER_TRACE_RETENTION_DAYS="0") as server:
        yield from queries.measure_queries(
            server, count=count, long_trace_spans=long_trace_spans, times=times, now=now, database_name="PostgreSQL"
        )
    yield retention.measure_postgres(url)


def _span_count(context: BenchmarkContext) -> int:
    """A million, or fewer without space for two copies. PostgreSQL's data is in memory if there is enough."""
    free = shutil.disk_usage(context.folder).free
    if SHARED_MEMORY.is_dir():
        free = min(free, shutil.disk_usage(SHARED_MEMORY).free)
    return MAX_SPANS if free > 2 * MAX_SPANS * _SPAN_BYTES else MIN_SPANS


def _memory_figure(result: IngestResult, count: int) -> Figure:
    return Figure(
        name=f"memory while {count:,} spans are received",
        value=result.whole / 1024,
        unit="MB",
        goal=at_most(250),
        how="peak of resident memory above idle, all processes, SQLite; "
        f"{result.half / 1024:.0f} MB in the first half; "
        f"{count / result.send.seconds:,.0f} spans/s, {result.send.refused} requests had to be retried",
    )
