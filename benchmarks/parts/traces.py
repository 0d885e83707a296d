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
from benchmarks.figures import Figure, at_most
from benchmarks.stand import CannotMeasure, Stand
from benchmarks.traces import asking, bare, filling, going, own, taking
from benchmarks.traces.filling import Watched
from benchmarks.traces.taking import Kept, Load
from tests.postgres import MEMORY, Postgres, Unavailable

MANY, FEWER = 1_000_000, 200_000
"""Spans that are stored when questions are asked, by the room there is."""
_BYTES = 10_000
"""Of a span in a database, with all that finds it."""


def measure(stand: Stand) -> Iterator[Figure]:
    yield from own.measured(stand)
    load = Load(stand.choose(full=10_000, quick=1_000))
    files = (stand.folder / f"taken-{number}.db" for number in counter())
    file = Kept(name="SQLite", new=lambda: next(files), stored=lambda place: bare.of_sqlite(Path(place)))
    rounds = taking.measured(stand, file, load)
    yield from taking.figures(file, rounds)
    with _postgres() as postgres:
        server = Kept(name="PostgreSQL", new=postgres.create, stored=lambda place: bare.of_postgres(str(place)))
        yield from taking.figures(server, taking.measured(stand, server, load))
        yield from _asked(stand, postgres)
    yield taking.beside_phoenix(stand, load, rounds)  # Last: where it cannot be had, all else is known.


def _postgres() -> Postgres:
    try:
        return Postgres()
    except Unavailable as error:
        raise CannotMeasure(str(error)) from None


def _asked(stand: Stand, postgres: Postgres) -> Iterator[Figure]:
    many, times = stand.choose(full=_as_fits(stand), quick=10_000), stand.choose(full=100, quick=8)
    place, url, now = stand.folder / "many.db", postgres.create(), datetime.now(UTC)
    long = min(filling.LONG, many)
    with servers.palaver(stand, db=place, core=None, PALAVER_TRACE_RETENTION_DAYS="0") as server:
        yield _memory(filling.over_http(server, many, now), many)
        yield from asking.asked(server, count=many, long=long, times=times, now=now, of="SQLite")
    yield going.in_sqlite(stand, place)
    filling.into_postgres(place, url)
    with servers.palaver(stand, db=url, PALAVER_TRACE_RETENTION_DAYS="0") as server:
        yield from asking.asked(server, count=many, long=long, times=times, now=now, of="PostgreSQL")
    yield going.in_postgres(url)


def _as_fits(stand: Stand) -> int:
    """A million; fewer where there is no room for so many twice. PostgreSQL is in memory here, if there is plenty."""
    free = shutil.disk_usage(stand.folder).free
    if MEMORY.is_dir():
        free = min(free, shutil.disk_usage(MEMORY).free)
    return MANY if free > 2 * MANY * _BYTES else FEWER


def _memory(watched: Watched, many: int) -> Figure:
    return Figure(
        name=f"memory while {many:,} spans arrive",
        value=watched.whole / 1024,
        unit="MB",
        goal=at_most(250),
        how="the most that was resident above idle in all processes, into SQLite; until half were there "
        f"{watched.half / 1024:.0f} MB; "
        f"{many / watched.sent.seconds:,.0f} spans/s, {watched.sent.refused} requests told to come back",
    )
