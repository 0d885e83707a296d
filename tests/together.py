"""Run all tests, with coverage, as two sessions of pytest side by side: `python -m tests.together [pytest's options]`.

Tests that start servers and browsers mostly wait; those of pure functions only count. One after the other, they leave
one of two cores idle half of the time. So the pure ones run beside the others, at a lower priority, so that nothing
that looks at the clock has to wait for them. Both orders are random, as everywhere.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parent

WAITING = "benchmarks cli conformance e2e engine faults packaging security".split()
"""The folders whose tests start processes, or look at the clock; all other tests are the pure ones."""

POLITE = 10
"""By how much the pure ones step back."""


def folders() -> tuple[list[str], list[str]]:
    """What has tests, as paths that pytest takes: those that wait, and those that count."""
    having = sorted({TESTS / path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")})
    waiting = [entry for entry in having if entry.name in WAITING]
    return [str(entry) for entry in waiting], [str(entry) for entry in having if entry not in waiting]


def pytest(paths: list[str], *options: str) -> list[str]:
    return [sys.executable, "-m", "coverage", "run", "--parallel-mode", "-m", "pytest", *options, *paths]


def main() -> int:
    options = sys.argv[1:]
    waiting, counting = folders()
    with tempfile.TemporaryFile() as told:
        beside = subprocess.Popen(
            ["nice", f"--adjustment={POLITE}", *pytest(counting, *options)], stdout=told, stderr=subprocess.STDOUT
        )
        try:
            first = subprocess.run(pytest(waiting, *options), check=False).returncode
            second = beside.wait()
        finally:
            beside.kill()
        told.seek(0)
        sys.stdout.flush()
        sys.stdout.buffer.write(told.read())
        sys.stdout.flush()
    return first or second


if __name__ == "__main__":
    sys.exit(main())
