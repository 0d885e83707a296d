"""The time of `import palaver`, for programs that only declare workflows."""

import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median

from benchmarks.context import BenchmarkContext
from benchmarks.figures import Figure, at_most


def measure(context: BenchmarkContext) -> Iterator[Figure]:
    _milliseconds(context, "import palaver")  # Compile bytecode.
    bare: list[float] = []
    ours: list[float] = []
    for _ in range(context.choose(full=21, quick=3)):
        bare.append(_milliseconds(context, "pass"))
        ours.append(_milliseconds(context, "import palaver"))
    start = median(bare)
    middle = sorted(ours)[len(ours) // 4 : -len(ours) // 4 or None]
    yield Figure(
        name="import palaver",
        value=median(ours) - start,
        spread=(max(middle) - min(middle)) / 2,
        unit="ms",
        goal=at_most(150),
        how=f"median of {len(ours)} new interpreters (± half the interquartile range), with compiled modules, "
        f"less {start:.0f} ms for starting Python itself",
    )


def _milliseconds(context: BenchmarkContext, code: str) -> float:
    since = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], cwd=context.folder, env=context.environment, check=True, timeout=60)
    return (time.perf_counter() - since) * 1e3
