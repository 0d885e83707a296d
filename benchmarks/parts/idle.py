"""Streams that wait: what one that has said something and is silent now costs in memory."""

import time
from collections.abc import Iterator
from statistics import mean

from benchmarks import load, machine, servers
from benchmarks.figures import Figure, at_most, half_range
from benchmarks.load import ASKED, SSE
from benchmarks.servers import Server
from benchmarks.stand import Stand

_PATH = "/idle/invoke"
_OPENED_PER_SECOND = 1500


def measure(stand: Stand) -> Iterator[Figure]:
    streams = stand.choose(full=5000, quick=200)
    machine.allow_files(streams + 200)
    bare: list[float] = []
    ours: list[float] = []
    for _ in range(stand.choose(full=2, quick=1)):
        with servers.bare(stand) as server:
            bare.append(_kib_per_stream(stand, server, streams))
        with servers.palaver(stand) as server:
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


def _kib_per_stream(stand: Stand, server: Server, streams: int) -> float:
    words = {"accept": SSE, "body": ASKED, "opened_per_second": _OPENED_PER_SECOND}
    with load.hold(stand, server, _PATH, connections=20, **words):
        pass  # What is made once, at the first request, is not the streams'.
    before = machine.memory(server.pid).resident
    with load.hold(stand, server, _PATH, connections=streams, **words):
        time.sleep(1)  # Let what was only needed to begin be given back.
        return (machine.memory(server.pid).resident - before) / streams
