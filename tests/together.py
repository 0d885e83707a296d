"""Run all tests with coverage in three parallel lanes: `python -m tests.together [options of pytest]`.

Tests that start servers or browsers mostly wait; tests of pure functions use the processor. So servers, browsers and
pure functions get a lane each, which keeps both cores of a small machine busy. The pure tests run at a lower priority,
so that tests with timeouts don't have to wait for them, and some of them follow the browser tests. The order is random.
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
"""Folders whose tests start processes or depend on the clock."""
BROWSER_TESTS = ["e2e"]
DEFERRED_TESTS = "evaluation storage testsets traces".split()
"""Folders of pure tests that run after the browser tests."""

COVERAGE_PYTEST = [sys.executable, "-m", "coverage", "run", "--parallel-mode", "-m", "pytest"]
LOW_PRIORITY_PYTEST = ["nice", "--adjustment=10", *COVERAGE_PYTEST]

Command = list[str]


def lanes(options: list[str]) -> list[list[Command]]:
    """Return the pytest commands of each lane, in order."""
    entries = sorted({TESTS / path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")})

    def arguments(*names: str) -> list[str]:
        return [*options, *(str(entry) for entry in entries if entry.name in names)]

    pure_tests = {entry.name for entry in entries} - {*SERVER_TESTS, *BROWSER_TESTS, *DEFERRED_TESTS}
    # Without coverage: the code under test runs in other processes.
    browser_command = [sys.executable, "-m", "pytest", *arguments(*BROWSER_TESTS)]
    return [
        [[*COVERAGE_PYTEST, *arguments(*SERVER_TESTS)]],
        [browser_command, [*LOW_PRIORITY_PYTEST, *arguments(*DEFERRED_TESTS)]],
        [[*LOW_PRIORITY_PYTEST, *arguments(*pure_tests)]],
    ]


def run_lane(lane: list[Command], output: IO[bytes] | None) -> int:
    """Run all commands of a lane, even after a failure; return the first exit code that is not 0."""
    codes = [subprocess.run(command, stdout=output, stderr=output, check=False).returncode for command in lane]
    return next((code for code in codes if code), 0)


def main() -> int:
    first, *background = lanes(sys.argv[1:])
    with ThreadPoolExecutor() as threads, ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.TemporaryFile()) for _ in background]
        futures = [threads.submit(run_lane, lane, output) for lane, output in zip(background, outputs, strict=True)]
        codes = [run_lane(first, None)]
        for future, output in zip(futures, outputs, strict=True):
            codes.append(future.result())
            output.seek(0)
            sys.stdout.flush()
            sys.stdout.buffer.write(output.read())
            sys.stdout.flush()
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main())
