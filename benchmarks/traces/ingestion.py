"""Spans per second over /v1/traces into a database, beside what the driver alone does, and beside Arize Phoenix."""

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
"""Spans that a server gets before it is measured: by then, what reads them is there."""
_PHOENIX_TIMEOUT_S = 600  # Seconds that Phoenix may take to store what it was sent.


class SpanStore(msgspec.Struct, frozen=True, kw_only=True):
    """Where spans are kept in a benchmark."""

    name: str
    new: Callable[[], Path | str]
    """An empty database."""
    stored: Callable[[Path | str], StoredRows]


class IngestRound(msgspec.Struct, frozen=True, kw_only=True):
    """Spans per second."""

    protobuf: float
    json: float
    bare: float
    microseconds: float
    """Processor time of the server per span that came as protobuf."""


class SpanLoad:
    """What is sent: the same to everybody."""

    def __init__(self, count: int) -> None:
        times = SpanTimes(datetime.now(UTC) - timedelta(hours=1), timedelta(milliseconds=10))
        self.count = count
        self.warm = [chats.encode_protobuf(some) for some in chats.chat_requests(0, WARM_UP_SPANS, times)]
        self.protobuf = [chats.encode_protobuf(some) for some in chats.chat_requests(WARM_UP_SPANS, count, times)]
        self.json = [chats.encode_json(some) for some in chats.chat_requests(WARM_UP_SPANS + count, count, times)]


def measure_rounds(stand: BenchmarkContext, kept: SpanStore, load: SpanLoad) -> list[IngestRound]:
    """Rounds: ours, then bare."""
    return [_round(stand, kept, load) for _ in range(stand.choose(full=3, quick=1))]


def _round(stand: BenchmarkContext, kept: SpanStore, load: SpanLoad) -> IngestRound:
    place = kept.new()
    # On all cores: what reads spans is a process of its own.
    with servers.run_palaver(stand, db=place, core=None) as server:
        send_spans(server, load.warm)
        before = _processor_seconds(server)
        protobuf = send_spans(server, load.protobuf).seconds
        used = _processor_seconds(server) - before
        json = send_spans(server, load.json, form=JSON).seconds
    stored = kept.stored(place)
    if len(stored.rows) != WARM_UP_SPANS + 2 * load.count:
        raise MeasurementError(f"{len(stored.rows)} of {WARM_UP_SPANS + 2 * load.count} spans are in {kept.name}")
    return IngestRound(
        protobuf=load.count / protobuf,
        json=load.count / json,
        bare=len(stored.rows) / driver_baseline.measure_writes(stored, kept.new()),
        microseconds=used / load.count * 1e6,
    )


def _processor_seconds(server: Server) -> float:
    return sum(map(machine.processor_seconds, machine.process_tree(server.pid)))


def ingest_figures(kept: SpanStore, rounds: Sequence[IngestRound]) -> Iterator[Figure]:
    """What they come to."""
    rate, alone, json = (median(getattr(one, name) for one in rounds) for name in ("protobuf", "bare", "json"))
    yield Figure(
        name=f"spans into {kept.name} / bare",
        value=median(one.protobuf / one.bare for one in rounds),
        spread=half_range([one.protobuf / one.bare for one in rounds]),
        goal=at_least(0.35),
        how=f"/v1/traces as protobuf, {chats.SPANS_PER_REQUEST} spans of 2 KiB to a request, "
        f"{CONNECTIONS} connections, answered when all spans are committed; {rate:,.0f} of {alone:,.0f} spans/s, "
        f"which the driver alone writes of the same rows into the same tables in "
        f"batches of {chats.SPANS_PER_REQUEST}; median of {len(rounds)}",
    )
    yield Figure(
        name=f"spans into {kept.name}",
        value=rate,
        spread=half_range([one.protobuf for one in rounds]),
        unit="spans/s",
        goal=at_least(2_000),
        how=f"{median(one.microseconds for one in rounds):,.0f} µs of processor time per span of all that serves",
    )
    yield Figure(
        name=f"spans into {kept.name}: JSON / protobuf",
        value=median(one.json / one.protobuf for one in rounds),
        spread=half_range([one.json / one.protobuf for one in rounds]),
        goal=at_least(0.6),
        how=f"{json:,.0f} of {rate:,.0f} spans/s",
    )


# Arize Phoenix


def compare_phoenix(stand: BenchmarkContext, load: SpanLoad, rounds: Sequence[IngestRound]) -> Figure:
    """The same requests to Phoenix. It answers before it stores, so its file is looked at until it has all of them."""
    with peers.run_phoenix(stand, peers.install_peer("phoenix")) as (server, place):
        send_spans(server, load.warm)
        _wait_for_phoenix(place, WARM_UP_SPANS)
        since = time.perf_counter()
        send_spans(server, load.protobuf)
        answered = time.perf_counter() - since
        _wait_for_phoenix(place, WARM_UP_SPANS + load.count)
        stored = time.perf_counter() - since
    ours, theirs = median(one.protobuf for one in rounds), load.count / stored
    return Figure(
        name="spans into SQLite / Arize Phoenix",
        value=ours / theirs,
        goal=at_least(1),
        how=f"{ours:,.0f} of {theirs:,.0f} spans/s: the same requests until its SQLite file holds all {load.count:,}, "
        f"as it answers before that (the last answer came after {answered:.1f} s, the last span after {stored:.1f} s)",
    )


def _wait_for_phoenix(place: Path, count: int) -> None:
    deadline = time.monotonic() + _PHOENIX_TIMEOUT_S
    while (held := peers.count_phoenix_spans(place)) < count:
        if time.monotonic() > deadline:
            raise MeasurementError(f"Phoenix has stored {held} of {count} spans after {_PHOENIX_TIMEOUT_S} seconds")
        time.sleep(0.05)
