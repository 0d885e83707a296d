"""--reload: the server in a child process, started again whenever a Python file of the author's changes."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

_INTERVAL = 0.3
_IGNORED = frozenset({".venv", "venv", "node_modules", "__pycache__", ".git"})


def watch(command: Sequence[str], folders: Iterable[Path]) -> int:
    """Run the command until it is interrupted; end and start it anew on every change below the folders."""
    roots = sorted({folder.resolve() for folder in folders})
    seen = _stamps(roots)
    child = subprocess.Popen(command)
    for sign in (signal.SIGINT, signal.SIGTERM):  # A shell's background job is born deaf to the first.
        signal.signal(sign, signal.default_int_handler)
    try:
        while True:
            time.sleep(_INTERVAL)
            now = _stamps(roots)
            if now == seen:
                continue
            changed = sorted(str(path.name) for path in now.keys() | seen.keys() if now.get(path) != seen.get(path))
            sys.stderr.write(f"{', '.join(changed[:3])} changed: starting again\n")
            seen = now
            _end(child)
            child = subprocess.Popen(command)
    except KeyboardInterrupt:
        return 0
    finally:
        _end(child)


def _end(child: "subprocess.Popen[bytes]") -> None:
    child.terminate()
    try:
        child.wait(5)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _stamps(roots: Iterable[Path]) -> dict[Path, float]:
    """Every Python file below the folders, and when it was last written."""
    stamps: dict[Path, float] = {}
    for root in roots:
        for path in root.rglob("*.py"):
            if _IGNORED.isdisjoint(path.relative_to(root).parts):
                try:
                    stamps[path] = path.stat().st_mtime
                except OSError:
                    continue  # Gone between listing and looking.
    return stamps
