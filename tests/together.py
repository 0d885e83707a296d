"""Run all tests, with coverage, in three lanes side by side: `python -m tests.together [options of pytest]`.

Tests that start servers and browsers mostly wait; those of pure functions only count. One after the other, they leave
one of two cores idle half of the time. So servers, browsers and pure functions each have a lane. The pure ones step
back, so that nothing that looks at the clock has to wait for them, and some of them come after the browsers. All orders
are random, as everywhere.
"""

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import IO

TESTS = Path(__file__).parent

SERVER_TESTS = "benchmarks cli conformance engine examples faults packaging security".split()
"""The folders whose tests start processes, or look at the clock;"""
BROWSER_TESTS = ["e2e"]
"""those whose tests drive a browser;"""
DEFERRED_TESTS = "evaluation storage testsets traces".split()
"""and of all others, which are pure ones, those that come after the browsers."""

COVERAGE_PYTEST = [sys.executable, "-m", "coverage", "run", "--parallel-mode", "-m", "pytest"]
LOW_PRIORITY_PYTEST = ["nice", "--adjustment=10", *COVERAGE_PYTEST]

Command = list[str]


def lanes(options: list[str]) -> list[list[Command]]:
    """The sessions, lane by lane; what comes first in its lane begins at once."""
    having = sorted({TESTS / path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")})

    def those(*names: str) -> list[str]:
        return [*options, *(str(entry) for entry in having if entry.name in names)]

    counting = {entry.name for entry in having} - {*SERVER_TESTS, *BROWSER_TESTS, *DEFERRED_TESTS}
    browsing = [sys.executable, "-m", "pytest", *those(*BROWSER_TESTS)]  # What it drives runs in other processes.
    return [
        [[*COVERAGE_PYTEST, *those(*SERVER_TESTS)]],
        [browsing, [*LOW_PRIORITY_PYTEST, *those(*DEFERRED_TESTS)]],
        [[*LOW_PRIORITY_PYTEST, *those(*counting)]],
    ]


def run_lane(lane: list[Command], told: IO[bytes] | None) -> int:
    """Run a lane to its end, whatever happens on the way; its words are kept where they are given a place."""
    codes = [subprocess.run(command, stdout=told, stderr=told, check=False).returncode for command in lane]
    return next((code for code in codes if code), 0)


def main() -> int:
    first, *others = lanes(sys.argv[1:])
    with ThreadPoolExecutor() as threads, ExitStack() as stack:
        keeping = [stack.enter_context(tempfile.TemporaryFile()) for _ in others]
        going = [threads.submit(run_lane, lane, told) for lane, told in zip(others, keeping, strict=True)]
        codes = [run_lane(first, None)]
        for lane, told in zip(going, keeping, strict=True):
            codes.append(lane.result())
            told.seek(0)
            sys.stdout.flush()
            sys.stdout.buffer.write(told.read())
            sys.stdout.flush()
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main())
