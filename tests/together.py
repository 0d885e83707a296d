"""Run all tests, with coverage, as three sessions of pytest side by side: `python -m tests.together [options of it]`.

Tests that start servers and browsers mostly wait; those of pure functions only count. One after the other, they leave
one of two cores idle half of the time. So browsers, servers and pure functions each have a session, the last of them at
a lower priority, so that nothing that looks at the clock has to wait for it. All orders are random, as everywhere.
"""

import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import IO

TESTS = Path(__file__).parent

BROWSING = ["e2e"]
WAITING = "benchmarks cli conformance engine examples faults packaging security".split()
"""The folders whose tests start processes, or look at the clock; all that is in neither are the pure ones."""

COVERED = [sys.executable, "-m", "coverage", "run", "--parallel-mode"]
POLITE = 10
"""By how much the pure ones step back."""


def folders() -> tuple[list[str], list[str], list[str]]:
    """What has tests, as paths that pytest takes: those with servers, those with browsers, and those that count."""
    having = sorted({TESTS / path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")})
    waiting = [str(entry) for entry in having if entry.name in WAITING]
    browsing = [str(entry) for entry in having if entry.name in BROWSING]
    return waiting, browsing, [str(entry) for entry in having if str(entry) not in (*waiting, *browsing)]


def pytest(paths: list[str], *options: str) -> list[str]:
    return ["-m", "pytest", *options, *paths]


def main() -> int:
    options = sys.argv[1:]
    waiting, browsing, counting = folders()
    with ExitStack() as stack:

        def beside(command: list[str]) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
            """Begin a session whose words are kept until its turn has come."""
            told = stack.enter_context(tempfile.TemporaryFile())
            begun = subprocess.Popen(command, stdout=told, stderr=subprocess.STDOUT)
            stack.callback(begun.kill)
            return begun, told

        others = [
            beside([sys.executable, *pytest(browsing, *options)]),  # What it drives runs in other processes.
            beside(["nice", f"--adjustment={POLITE}", *COVERED, *pytest(counting, *options)]),
        ]
        codes = [subprocess.run([*COVERED, *pytest(waiting, *options)], check=False).returncode]
        for begun, told in others:
            codes.append(begun.wait())
            told.seek(0)
            sys.stdout.flush()
            sys.stdout.buffer.write(told.read())
            sys.stdout.flush()
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main())
