"""Spans per second over /v1/traces, compared with the database driver alone and with Arize Phoenix."""

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import msgspec

from benchmarks import machine, peers, servers
from benchmarks.context import BenchmarkContext, MeasurementError
from benchmarks.figures import Figure, at_least, half_range
from benchmarks.servers import Server
from benchmarks.traces import chats, driver_baseline
from benchmarks.traces.chats import SpanTimes
from benchmarks.traces.driver_baseline import StoredRows
from benchmarks.traces.otlp_sender import CONNECTIONS, JSON, send_spans

WARM_UP_SPANS = 5_000
"""Spans that warm up a server before it is measured."""
_PHOENIX_TIMEOUT_S = 600


class SpanStore(msgspec.Struct, frozen=True, kw_only=True):
    """A database that spans are written to."""

    name: str
    create: Callable[[], Path | str]
    """Creates an empty database."""
    read_rows: Callable[[Path | str], StoredRows]


class IngestRound(msgspec.Struct, frozen=True, kw_only=True):
    """Spans per second."""

    protobuf: float
    json: float
    bare: float
    microseconds: float
    """Processor time of the server per span sent as protobuf."""


class SpanLoad:
    """The requests, the same for every server."""

    def __init__(self, count: int) -> None:
        times = SpanTimes(datetime.now(UTC) - timedelta(hours=1), timedelta(milliseconds=10))
        self.count = count
        self.warm_up = [chats.encode_protobuf(spans) for spans in chats.chat_requests(0, WARM_UP_SPANS, times)]
        self.protobuf = [chats.encode_protobuf(spans) for spans in chats.chat_requests(WARM_UP_SPANS, count, times)]
        self.json = [chats.encode_json(spans) for spans in chats.chat_requests(WARM_UP_SPANS + count, count, times)]


def measure_rounds(context: BenchmarkContext, store: SpanStore, load: SpanLoad) -> list[IngestRound]:
    """Run rounds of Palaver and the baseline."""
    return [_round(context, store, load) for _ in range(context.choose(full=3, quick=1))]


def _round(context: BenchmarkContext, store: SpanStore, load: SpanLoad) -> IngestRound:
    database = store.create()
    # On all cores: spans are parsed in a separate process.
    with servers.run_palaver(context, db=database, core=None) as server:
        send_spans(server, load.warm_up)
        before = _processor_seconds(server)
        protobuf = send_spans(server, load.protobuf).seconds
        processor_s = _processor_seconds(server) - before
        json = send_spans(server, load.json, media_type=JSON).seconds
    stored = store.read_rows(database)
    if len(stored.rows) != WARM_UP_SPANS + 2 * load.count:
        raise MeasurementError(f"{len(stored.rows)} of {WARM_UP_SPANS + 2 * load.count} spans are in {store.name}")
    return IngestRound(
        protobuf=load.count / protobuf,
        json=load.count / json,
        bare=len(stored.rows) / driver_baseline.measure_writes(stored, store.create()),
        microseconds=processor_s / load.count * 1e6,
    )


def _processor_seconds(server: Server) -> float:
    return sum(map(machine.processor_seconds, machine.process_tree(server.pid)))


def ingest_figures(store: SpanStore, rounds: Sequence[IngestRound]) -> Iterator[Figure]:
    rate, baseline_rate, json = (
        median(getattr(round_, name) for round_ in rounds) for name in ("protobuf", "bare", "json")
    )
    yield Figure(
        name=f"spans/s into {store.name} relative to bare inserts",
        value=median(round_.protobuf / round_.bare for round_ in rounds),
        spread=half_range([round_.protobuf / round_.bare for round_ in rounds]),
        goal=at_least(0.35),
        how=f"/v1/traces as Protobuf, {chats.SPANS_PER_REQUEST} spans of 2 KiB per request, "
        f"{CONNECTIONS} connections, response after all spans are committed: {rate:,.0f} vs. "
        f"{baseline_rate:,.0f} spans/s with the driver alone, which writes the same rows into the same tables in "
        f"batches of {chats.SPANS_PER_REQUEST}; median of {len(rounds)} rounds",
    )
    yield Figure(
        name=f"spans/s into {store.name}",
        value=rate,
        spread=half_range([round_.protobuf for round_ in rounds]),
        unit="spans/s",
        goal=at_least(2_000),
        how=f"{median(round_.microseconds for round_ in rounds):,.0f} µs of CPU time per span, all server processes",
    )
    yield Figure(
        name=f"spans/s into {store.name}: JSON relative to Protobuf",
        value=median(round_.json / round_.protobuf for round_ in rounds),
        spread=half_range([round_.json / round_.protobuf for round_ in rounds]),
        goal=at_least(0.6),
        how=f"{json:,.0f} vs. {rate:,.0f} spans/s",
    )


# Arize Phoenix


def compare_phoenix(context: BenchmarkContext, load: SpanLoad, rounds: Sequence[IngestRound]) -> Figure:
    """Send the same requests to Phoenix. It answers before it stores, so poll its file until it holds all spans."""
    with peers.run_phoenix(context, peers.install_peer("phoenix")) as (server, database):
        send_spans(server, load.warm_up)
        _wait_for_phoenix(database, WARM_UP_SPANS)
        since = time.perf_counter()
        send_spans(server, load.protobuf)
        answered_after = time.perf_counter() - since
        _wait_for_phoenix(database, WARM_UP_SPANS + load.count)
        stored = time.perf_counter() - since
    ours, theirs = median(round_.protobuf for round_ in rounds), load.count / stored
    return Figure(
        name="spans/s into SQLite relative to Arize Phoenix",
        value=ours / theirs,
        goal=at_least(1),
        how=f"{ours:,.0f} vs. {theirs:,.0f} spans/s with the same requests; Phoenix is timed until its SQLite file "
        f"holds all {load.count:,} spans, because it responds before it stores them (last response after "
        f"{answered_after:.1f} s, last span after {stored:.1f} s)",
    )


def _wait_for_phoenix(database: Path, count: int) -> None:
    deadline = time.monotonic() + _PHOENIX_TIMEOUT_S
    while (stored := peers.count_phoenix_spans(database)) < count:
        if time.monotonic() > deadline:
            raise MeasurementError(f"Phoenix has stored {stored} of {count} spans after {_PHOENIX_TIMEOUT_S} seconds")
        time.sleep(0.05)
