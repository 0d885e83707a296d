"""Memory of an idle stream, after its first event."""

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


def measure(context: BenchmarkContext) -> Iterator[Figure]:
    streams = context.choose(full=5000, quick=200)
    machine.raise_file_limit(streams + 200)
    bare: list[float] = []
    ours: list[float] = []
    for _ in range(context.choose(full=2, quick=1)):
        with servers.run_bare_app(context) as server:
            bare.append(_kib_per_stream(context, server, streams))
        with servers.run_palaver(context) as server:
            ours.append(_kib_per_stream(context, server, streams))
    yield Figure(
        name="memory per idle stream",
        value=mean(ours),
        spread=half_range(ours),
        unit="KiB",
        goal=at_most(20),
        how=f"growth of resident memory with {streams:,} open streams in one process, each after its first event; "
        f"mean of {len(ours)} rounds; bare ASGI app {mean(bare):.1f} KiB",
    )


def _kib_per_stream(context: BenchmarkContext, server: Server, streams: int) -> float:
    options = {"accept": SSE, "body": CHAT_BODY, "opened_per_second": _OPENED_PER_SECOND}
    with load.hold_streams(context, server, _PATH, connections=20, **options):
        pass  # Exclude what the first request allocates once.
    before = machine.memory(server.pid).resident
    with load.hold_streams(context, server, _PATH, connections=streams, **options):
        time.sleep(1)  # Let memory of the start be freed.
        return (machine.memory(server.pid).resident - before) / streams
