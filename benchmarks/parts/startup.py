"""The start time of `palaver serve`, and its memory when idle."""

from collections.abc import Iterator
from statistics import median

from benchmarks import machine, servers
from benchmarks.context import BenchmarkContext
from benchmarks.figures import Figure, at_most, half_range


def measure(context: BenchmarkContext) -> Iterator[Figure]:
    with servers.run_palaver(context):
        pass  # Compile bytecode.
    seconds: list[float] = []
    memories: list[machine.Memory] = []
    for _ in range(context.choose(full=5, quick=2)):
        with servers.run_palaver(context) as server:
            seconds.append(server.seconds)
            memories.append(machine.memory(server.pid))
    yield Figure(
        name="start to the first response",
        value=median(seconds),
        spread=half_range(seconds),
        unit="s",
        goal=at_most(1.5),
        how=f"from starting `palaver serve FILE` until /health returns 200; median of {len(seconds)} starts",
    )
    resident = [memory.resident * 1024 / 1e6 for memory in memories]
    proportional = median(memory.proportional for memory in memories) * 1024 / 1e6
    yield Figure(
        name="memory of an idle server",
        value=median(resident),
        spread=half_range(resident),
        unit="MB",
        goal=at_most(110),
        how="resident memory (RSS) once /ready returns 200, in the same starts; "
        f"proportional (PSS) {proportional:.1f} MB",
    )
