"""step.py shows one line per step of the Makefile, and the output of a step only if it fails."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUCCESS = "print('installed 3 packages')"
FAILURE = "import sys; print('no such package'); sys.exit(3)"


def run_step(program: str, **environment: str) -> tuple[int, str]:
    run = subprocess.run(
        [sys.executable, str(ROOT / "step.py"), "[1/2] Installing", sys.executable, "-c", program],
        env={name: value for name, value in os.environ.items() if name != "V"} | environment,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    return run.returncode, re.sub(r"\b\d+ s\b", "0 s", run.stdout).replace(sys.executable, "python")


def test_a_successful_step_is_one_line() -> None:
    assert run_step(SUCCESS) == (0, "[1/2] Installing… 0 s\n")


def test_a_failed_step_shows_its_output_its_command_and_its_exit_code() -> None:
    command = f"python -c {shlex.quote(FAILURE)}"
    assert run_step(FAILURE) == (
        3,
        f"[1/2] Installing… failed after 0 s\n\nno such package\n\nThe command was:\n  {command}\n",
    )


def test_v_1_shows_the_command_and_its_output() -> None:
    code, output = run_step(SUCCESS, V="1")

    assert (code, output.splitlines()[1:]) == (0, ["installed 3 packages"])
    assert output.startswith("[1/2] Installing: python -c ")
