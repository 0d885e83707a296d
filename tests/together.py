"""Run all tests, four pytest sessions at a time: `python -m tests.together [options of pytest]`.

Tests that start servers or browsers mostly wait; other tests use the processor. Four sessions at a time keep both cores
of a small machine busy: three of the former, and one folder of the others after another. Those run at a lower priority,
so that tests with timeouts don't have to wait for them. The order within a session is random.

Coverage is measured in the folders that test `core`, `workflows` and `protocols`, the packages with a minimum:
elsewhere it would only slow the tests down.
"""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

TESTS = Path(__file__).parent

SESSIONS = 4
PROCESS_TESTS = [
    ["faults", "engine", "security"],
    ["conformance", "cli", "packaging", "examples", "benchmarks"],
    ["e2e"],
]
"""Folders whose tests start servers, commands or browsers, or depend on the clock; a session for each list."""
LONG_TESTS = "server evaluation storage traces jobchat".split()
"""Folders that start before the other ones, longest first, so that no session is left running alone at the end."""
COVERAGE_TESTS = "conform core frameworks protocols workflows".split()

PYTEST = [sys.executable, "-m", "pytest"]
COVERAGE_PYTEST = [sys.executable, "-m", "coverage", "run", "--parallel-mode", "-m", "pytest"]
LOW_PRIORITY = ["nice", "--adjustment=10"]


def commands(options: list[str]) -> list[list[str]]:
    """Return the pytest commands, in the order in which they start."""
    names = {path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py") if "node_modules" not in path.parts}
    process_tests = {name for folders in PROCESS_TESTS for name in folders}
    others = sorted(names - {*process_tests, *LONG_TESTS, *COVERAGE_TESTS})
    sessions = [(PYTEST, folders) for folders in PROCESS_TESTS]
    sessions += [([*LOW_PRIORITY, *PYTEST], [name]) for name in LONG_TESTS]
    sessions += [([*LOW_PRIORITY, *COVERAGE_PYTEST], [name]) for name in COVERAGE_TESTS]
    sessions += [([*LOW_PRIORITY, *PYTEST], others)]
    return [[*pytest, *options, *(str(TESTS / name) for name in folders)] for pytest, folders in sessions]


def main() -> int:
    codes: list[int] = []
    with ThreadPoolExecutor(SESSIONS) as threads:
        futures = [
            threads.submit(subprocess.run, command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            for command in commands(sys.argv[1:])
        ]
        for future in as_completed(futures):
            session = future.result()
            codes.append(session.returncode)
            sys.stdout.buffer.write(session.stdout)
            sys.stdout.flush()
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main())
