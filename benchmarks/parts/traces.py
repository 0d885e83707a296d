"""Traces: spans come in over OTLP, many of them are asked for, days of them go, and runs of our own leave some.

The load is that of the contract: chats of 2 KiB, 20 to a trace, 500 to a request. Into PostgreSQL goes what SQLite was
sent, so that both are asked about the same spans.
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
"""Spans that are stored when questions are asked, by the room there is."""
_SPAN_BYTES = 10_000
"""Of a span in a database, with all that finds it."""


def measure(stand: BenchmarkContext) -> Iterator[Figure]:
    yield from run_overhead.measure_overhead(stand)
    load = SpanLoad(stand.choose(full=10_000, quick=1_000))
    files = (stand.folder / f"taken-{number}.db" for number in counter())
    file = SpanStore(
        name="SQLite", new=lambda: next(files), stored=lambda place: driver_baseline.read_sqlite(Path(place))
    )
    rounds = ingestion.measure_rounds(stand, file, load)
    yield from ingestion.ingest_figures(file, rounds)
    with _postgres() as postgres:
        server = SpanStore(
            name="PostgreSQL", new=postgres.create, stored=lambda place: driver_baseline.read_postgres(str(place))
        )
        yield from ingestion.ingest_figures(server, ingestion.measure_rounds(stand, server, load))
        yield from _measure_queries(stand, postgres)
    yield ingestion.compare_phoenix(stand, load, rounds)  # Last: where it cannot be had, all else is known.


def _postgres() -> Postgres:
    try:
        return Postgres()
    except Unavailable as error:
        raise MeasurementError(str(error)) from None


def _measure_queries(stand: BenchmarkContext, postgres: Postgres) -> Iterator[Figure]:
    many, times = stand.choose(full=_span_count(stand), quick=10_000), stand.choose(full=100, quick=8)
    place, url, now = stand.folder / "many.db", postgres.create(), datetime.now(UTC)
    long = min(span_database.LONG_TRACE_SPANS, many)
    with servers.run_palaver(stand, db=place, core=None, PALAVER_TRACE_RETENTION_DAYS="0") as server:
        yield _memory_figure(span_database.fill_over_http(server, many, now), many)
        yield from queries.measure_queries(server, count=many, long=long, times=times, now=now, of="SQLite")
    yield retention.measure_sqlite(stand, place)
    span_database.copy_to_postgres(place, url)
    with servers.run_palaver(stand, db=url, PALAVER_TRACE_RETENTION_DAYS="0") as server:
        yield from queries.measure_queries(server, count=many, long=long, times=times, now=now, of="PostgreSQL")
    yield retention.measure_postgres(url)


def _span_count(stand: BenchmarkContext) -> int:
    """A million; fewer where there is no room for so many twice. PostgreSQL is in memory here, if there is plenty."""
    free = shutil.disk_usage(stand.folder).free
    if SHARED_MEMORY.is_dir():
        free = min(free, shutil.disk_usage(SHARED_MEMORY).free)
    return MAX_SPANS if free > 2 * MAX_SPANS * _SPAN_BYTES else MIN_SPANS


def _memory_figure(watched: IngestResult, many: int) -> Figure:
    return Figure(
        name=f"memory while {many:,} spans arrive",
        value=watched.whole / 1024,
        unit="MB",
        goal=at_most(250),
        how="the most that was resident above idle in all processes, into SQLite; until half were there "
        f"{watched.half / 1024:.0f} MB; "
        f"{many / watched.sent.seconds:,.0f} spans/s, {watched.sent.refused} requests told to come back",
    )
