"""How long `import palaver` takes, for those who only declare workflows."""

import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median

from benchmarks.context import BenchmarkContext
from benchmarks.figures import Figure, at_most


def measure(stand: BenchmarkContext) -> Iterator[Figure]:
    _milliseconds(stand, "import palaver")  # Compiles what is not compiled yet.
    bare: list[float] = []
    ours: list[float] = []
    for _ in range(stand.choose(full=21, quick=3)):
        bare.append(_milliseconds(stand, "pass"))
        ours.append(_milliseconds(stand, "import palaver"))
    start = median(bare)
    middle = sorted(ours)[len(ours) // 4 : -len(ours) // 4 or None]
    yield Figure(
        name="import palaver",
        value=median(ours) - start,
        spread=(max(middle) - min(middle)) / 2,
        unit="ms",
        goal=at_most(150),
        how=f"{len(ours)} fresh interpreters, modules compiled; median (± quartiles) less a bare start, {start:.0f} ms",
    )


def _milliseconds(stand: BenchmarkContext, code: str) -> float:
    since = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], cwd=stand.folder, env=stand.environment, check=True, timeout=60)
    return (time.perf_counter() - since) * 1e3
