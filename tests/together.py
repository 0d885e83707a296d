"""Run all tests, with coverage, as four sessions of pytest side by side: `python -m tests.together [options of it]`.

Tests that start servers and browsers mostly wait; those of pure functions only count. One after the other, they leave
one of two cores idle half of the time. So browsers and servers each have a session; what only counts has two, at a
lower priority, so that nothing that looks at the clock has to wait for it. All orders are random, as everywhere.
"""

import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import IO

TESTS = Path(__file__).parent

BROWSING = ["e2e"]
WAITING = "benchmarks cli conformance engine faults packaging security".split()
"""The folders whose tests start processes, or look at the clock."""
STORING = "evaluation server storage testsets".split()
"""Half of those that only count; the other half is whatever is left."""

COVERED = [sys.executable, "-m", "coverage", "run", "--parallel-mode"]
POLITE = ["nice", "--adjustment=10"]


def folders() -> tuple[list[str], list[str], list[str], list[str]]:
    """What has tests, as paths that pytest takes: with servers, with browsers, and both halves of the rest."""
    having = sorted({path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")})
    named = [[name for name in having if name in names] for names in (WAITING, BROWSING, STORING)]
    rest = [name for name in having if name not in (*WAITING, *BROWSING, *STORING)]
    waiting, browsing, storing, rest = ([str(TESTS / name) for name in names] for names in (*named, rest))
    return waiting, browsing, storing, rest


def main() -> int:
    options = ["-m", "pytest", *sys.argv[1:]]
    waiting, browsing, *counting = folders()
    with ExitStack() as stack:

        def beside(*command: str) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
            """Begin a session whose words are kept until its turn has come."""
            told = stack.enter_context(tempfile.TemporaryFile())
            begun = subprocess.Popen(command, stdout=told, stderr=subprocess.STDOUT)
            stack.callback(begun.kill)
            return begun, told

        others = [beside(sys.executable, *options, *browsing)]  # What it drives runs in other processes.
        others += [beside(*POLITE, *COVERED, *options, *half) for half in counting]
        codes = [subprocess.run([*COVERED, *options, *waiting], check=False).returncode]
        for begun, told in others:
            codes.append(begun.wait())
            told.seek(0)
            sys.stdout.flush()
            sys.stdout.buffer.write(told.read())
            sys.stdout.flush()
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main())
