"""Streams that wait: what one that has said something and is silent now costs in memory."""

import time
from collections.abc import Iterator
from statistics import mean

from benchmarks import load, machine, servers
from benchmarks.context import BenchmarkContext
from benchmarks.figures import Figure, at_most, half_range
from benchmarks.load import CHAT_BODY, SSE
from benchmarks.servers import Server

_PATH = "/idle/invoke"
_OPENED_PER_SECOND = 1500


def measure(stand: BenchmarkContext) -> Iterator[Figure]:
    streams = stand.choose(full=5000, quick=200)
    machine.raise_file_limit(streams + 200)
    bare: list[float] = []
    ours: list[float] = []
    for _ in range(stand.choose(full=2, quick=1)):
        with servers.run_bare_app(stand) as server:
            bare.append(_kib_per_stream(stand, server, streams))
        with servers.run_palaver(stand) as server:
            ours.append(_kib_per_stream(stand, server, streams))
    yield Figure(
        name="idle stream",
        value=mean(ours),
        spread=half_range(ours),
        unit="KiB",
        goal=at_most(20),
        how=f"growth of RSS / {streams:,} open streams of one process, each after its first event; "
        f"mean of {len(ours)}; bare {mean(bare):.1f} KiB",
    )


def _kib_per_stream(stand: BenchmarkContext, server: Server, streams: int) -> float:
    words = {"accept": SSE, "body": CHAT_BODY, "opened_per_second": _OPENED_PER_SECOND}
    with load.hold_streams(stand, server, _PATH, connections=20, **words):
        pass  # What is made once, at the first request, is not the streams'.
    before = machine.memory(server.pid).resident
    with load.hold_streams(stand, server, _PATH, connections=streams, **words):
        time.sleep(1)  # Let what was only needed to begin be given back.
        return (machine.memory(server.pid).resident - before) / streams
