"""Spans per second over /v1/traces into a database, beside what the driver alone does, and beside Arize Phoenix."""

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import msgspec

from benchmarks import machine, peers, servers
from benchmarks.figures import Figure, at_least, half_range
from benchmarks.servers import Server
from benchmarks.stand import CannotMeasure, Stand
from benchmarks.traces import bare, chats
from benchmarks.traces.bare import Stored
from benchmarks.traces.chats import Times
from benchmarks.traces.sending import CONNECTIONS, JSON, send

WARM = 5_000
"""Spans that a server gets before it is measured: by then, what reads them is there."""
_PATIENCE = 600  # Seconds that Phoenix may take to store what it was sent.


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Where spans are kept in a benchmark."""

    name: str
    new: Callable[[], Path | str]
    """An empty database."""
    stored: Callable[[Path | str], Stored]


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """Spans per second."""

    protobuf: float
    json: float
    bare: float
    microseconds: float
    """Processor time of the server per span that came as protobuf."""


class Load:
    """What is sent: the same to everybody."""

    def __init__(self, count: int) -> None:
        times = Times(datetime.now(UTC) - timedelta(hours=1), timedelta(milliseconds=10))
        self.count = count
        self.warm = [chats.as_protobuf(some) for some in chats.requests(0, WARM, times)]
        self.protobuf = [chats.as_protobuf(some) for some in chats.requests(WARM, count, times)]
        self.json = [chats.as_json(some) for some in chats.requests(WARM + count, count, times)]


def measured(stand: Stand, kept: Kept, load: Load) -> list[Round]:
    """Rounds: ours, then bare."""
    return [_round(stand, kept, load) for _ in range(stand.choose(full=3, quick=1))]


def _round(stand: Stand, kept: Kept, load: Load) -> Round:
    place = kept.new()
    # On all cores: what reads spans is a process of its own.
    with servers.palaver(stand, db=place, core=None) as server:
        send(server, load.warm)
        before = _used(server)
        protobuf = send(server, load.protobuf).seconds
        used = _used(server) - before
        json = send(server, load.json, form=JSON).seconds
    stored = kept.stored(place)
    if len(stored.rows) != WARM + 2 * load.count:
        raise CannotMeasure(f"{len(stored.rows)} of {WARM + 2 * load.count} spans are in {kept.name}")
    return Round(
        protobuf=load.count / protobuf,
        json=load.count / json,
        bare=len(stored.rows) / bare.seconds(stored, kept.new()),
        microseconds=used / load.count * 1e6,
    )


def _used(server: Server) -> float:
    return sum(map(machine.processor_seconds, machine.family(server.pid)))


def figures(kept: Kept, rounds: Sequence[Round]) -> Iterator[Figure]:
    """What they come to."""
    rate, alone, json = (median(getattr(one, name) for one in rounds) for name in ("protobuf", "bare", "json"))
    yield Figure(
        name=f"spans into {kept.name} / bare",
        value=median(one.protobuf / one.bare for one in rounds),
        spread=half_range([one.protobuf / one.bare for one in rounds]),
        goal=at_least(0.35),
        how=f"/v1/traces as protobuf, {chats.SPANS} spans of 2 KiB to a request, {CONNECTIONS} connections, answered "
        f"when all spans are committed; {rate:,.0f} of {alone:,.0f} spans/s, which the driver alone writes of the same "
        f"rows into the same tables in batches of {chats.SPANS}; median of {len(rounds)}",
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


def beside_phoenix(stand: Stand, load: Load, rounds: Sequence[Round]) -> Figure:
    """The same requests to Phoenix. It answers before it stores, so its file is looked at until it has all of them."""
    with peers.phoenix(stand, peers.installed("phoenix")) as (server, place):
        send(server, load.warm)
        _await(place, WARM)
        since = time.perf_counter()
        send(server, load.protobuf)
        answered = time.perf_counter() - since
        _await(place, WARM + load.count)
        stored = time.perf_counter() - since
    ours, theirs = median(one.protobuf for one in rounds), load.count / stored
    return Figure(
        name="spans into SQLite / Arize Phoenix",
        value=ours / theirs,
        goal=at_least(1),
        how=f"{ours:,.0f} of {theirs:,.0f} spans/s: the same requests until its SQLite file holds all {load.count:,}, "
        f"as it answers before that (the last answer came after {answered:.1f} s, the last span after {stored:.1f} s)",
    )


def _await(place: Path, count: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while (held := peers.phoenix_holds(place)) < count:
        if time.monotonic() > deadline:
            raise CannotMeasure(f"Phoenix has stored {held} of {count} spans after {_PATIENCE} seconds")
        time.sleep(0.05)
