"""Run a command of the Makefile, showing its title and how long it takes: `python step.py TITLE COMMAND...`.

The command's output is shown only if it fails, or always with V=1. Needs only the standard library of any Python 3,
because it also creates the virtual environment.
"""

import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence


def run_step(title: str, command: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    if os.environ.get("V"):
        _write(f"{title}: {shlex.join(command)}\n")
        return subprocess.call(command)
    start = time.monotonic()
    done = threading.Event()
    is_terminal = sys.stdout.isatty()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        ticker = threading.Thread(target=_tick, args=(title, start, done), daemon=True)
        _write(f"{title}…")
        if is_terminal:
            ticker.start()
        try:
            code = process.wait()
        except KeyboardInterrupt:
            process.wait()
            code = 130
        finally:
            done.set()
            if is_terminal:
                ticker.join()
        verb = "" if code == 0 else "stopped after " if code == 130 else "failed after "
        _write(f"{_line_start(title)} {verb}{time.monotonic() - start:.0f} s\n")
        if code not in (0, 130):
            output.seek(0)
            text = output.read().decode("utf-8", "replace").rstrip()
            _write(f"\n{text}\n\nThe command was:\n  {shlex.join(command)}\n")
    return code


def _tick(title: str, start: float, done: threading.Event) -> None:
    """Update the time in a terminal every second."""
    while not done.wait(1):
        _write(f"{_line_start(title)} {time.monotonic() - start:.0f} s")


def _line_start(title: str) -> str:
    """Return the text before the time: in a terminal, the line is written again."""
    return f"\r{title}…" if sys.stdout.isatty() else ""


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(run_step(sys.argv[1], sys.argv[2:]))
