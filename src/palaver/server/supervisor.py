"""Parent processes: several workers on one socket, and --reload.

Each worker is a new process that imports the workflows itself and shares only the socket, so that a workflow that
crashes its process affects no other. A socket pair between each worker and the parent tells one that the other ended.
"""

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NamedTuple, Self

from palaver.errors import SettingsError
from palaver.server.settings import Settings

log = logging.getLogger("palaver.server")

_POLL_INTERVAL_S = 0.1
_RESTART_DELAYS_S = (0.1, 5.0)
"""The first and the longest delay before a worker that died soon after its start is replaced."""
_EARLY_EXIT_S = 5.0
_READY_BYTE = b"r"


def check_worker_count(settings: Settings, url: str) -> None:
    """Raise SettingsError where only one process can serve."""
    if not url.startswith("postgres"):
        raise SettingsError(
            f"--workers {settings.workers} requires PostgreSQL. Pass --db postgresql://… or use a single worker."
        )
    if os.name != "posix":  # pragma: no cover - sockets cannot be inherited
        raise SettingsError("This platform supports only a single worker.")


@contextmanager
def on_stop_signal(callback: Callable[[], object]) -> Generator[None]:
    """Call `callback` for each SIGINT and SIGTERM within the block, as a signal handler."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        callback()

    previous_handlers = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


class InheritedSockets(NamedTuple):
    """The number and the sockets that a worker inherits from its parent."""

    number: int
    is_announcer: bool
    """Whether it prints the served workflows, for all workers."""
    listening: socket.socket
    parent_socket: socket.socket

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the argument of --inherit: two numbers and two file descriptors."""
        number, is_announcer, *descriptors = map(int, text.split(":"))
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)  # A subprocess of a workflow must not hold the port.
        listening, parent_socket = (socket.socket(fileno=descriptor) for descriptor in descriptors)
        listening.setblocking(False)
        parent_socket.setblocking(False)
        return cls(number, bool(is_announcer), listening, parent_socket)

    def report_ready(self) -> None:
        """Tell the parent that this worker serves."""
        with suppress(OSError):
            self.parent_socket.send(_READY_BYTE)


@dataclass
class _WorkerProcess:
    number: int
    process: "subprocess.Popen[bytes]"
    socket: socket.socket
    started_at: float
    forwarded_stops: int = 0
    has_reported: bool = False

    @property
    def is_ready(self) -> bool:
        if not self.has_reported:
            with suppress(OSError):
                self.has_reported = self.socket.recv(1) == _READY_BYTE
        return self.has_reported

    def forward_stops(self, stops: int) -> None:
        """Pass on signals to stop; a second one makes the worker end at once."""
        for _ in range(stops - self.forwarded_stops):
            self.process.send_signal(signal.SIGTERM)
        self.forwarded_stops = stops


class WorkerSupervisor:
    """Starts workers, replaces dead ones, and stops them all."""

    def __init__(
        self,
        command: Sequence[str],
        listening: socket.socket,
        count: int,
        *,
        seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command = command
        self._listening = listening
        self._stop_timeout_s = seconds
        self._monotonic = monotonic
        self._workers: dict[int, _WorkerProcess] = {}
        self._start_at = dict.fromkeys(range(2, count + 1), 0.0)
        """When to start each missing worker."""
        self._restart_delays: dict[int, float] = {}
        self._stop_count = 0
        self._has_served = False

    def run(self) -> int:
        """Serve until a signal, and return 0; if the first worker cannot start, return its exit code."""
        with on_stop_signal(self._count_stop):
            try:
                self._start(1)
                while not self._stop_count:
                    time.sleep(_POLL_INTERVAL_S)
                    for worker in self._ended_workers():
                        if not self._has_served and not worker.is_ready:
                            return worker.process.returncode  # It printed why; all others would fail too.
                        self._replace(worker)
                    if self._has_served or self._workers[1].is_ready:
                        self._has_served = True
                        self._start_due()
                return 0
            finally:
                self._stop()

    def _start(self, number: int) -> None:
        our_end, their_end = socket.socketpair()
        our_end.setblocking(False)
        descriptors = (self._listening.fileno(), their_end.fileno())
        is_announcer = not self._workers and not self._has_served
        argument = f"{number}:{is_announcer:d}:{descriptors[0]}:{descriptors[1]}"
        with their_end:
            # In its own process group: the parent gets Ctrl+C and passes it on.
            process = subprocess.Popen([*self._command, "--inherit", argument], pass_fds=descriptors, process_group=0)
        self._workers[number] = _WorkerProcess(number, process, our_end, self._monotonic())

    def _start_due(self) -> None:
        now = self._monotonic()
        for number in [number for number, due in self._start_at.items() if due <= now]:
            del self._start_at[number]
            self._start(number)

    def _ended_workers(self) -> list[_WorkerProcess]:
        return [worker for worker in self._workers.values() if worker.process.poll() is not None]

    def _replace(self, worker: _WorkerProcess) -> None:
        log.warning(
            "Worker %d (process %d) %s; restarting it.",
            worker.number,
            worker.process.pid,
            _describe_exit(worker.process.returncode),
        )
        worker.socket.close()
        del self._workers[worker.number]
        now, previous_delay = self._monotonic(), self._restart_delays.get(worker.number, _RESTART_DELAYS_S[0] / 2)
        delay = min(previous_delay * 2, _RESTART_DELAYS_S[1]) if now - worker.started_at < _EARLY_EXIT_S else 0.0
        self._restart_delays[worker.number] = max(delay, _RESTART_DELAYS_S[0] / 2)
        self._start_at[worker.number] = now + delay

    def _stop(self) -> None:
        """Stop all workers; kill the ones that don't end in time."""
        self._stop_count = max(self._stop_count, 1)
        deadline = self._monotonic() + self._stop_timeout_s
        while len(self._ended_workers()) < len(self._workers):
            for worker in self._workers.values():
                worker.forward_stops(self._stop_count)
            if self._monotonic() > deadline:
                for worker in self._workers.values():
                    worker.process.kill()
            time.sleep(_POLL_INTERVAL_S)
        for worker in self._workers.values():
            worker.socket.close()
        self._workers.clear()

    def _count_stop(self) -> None:
        self._stop_count += 1


def _describe_exit(code: int) -> str:
    return f"exited with code {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"


_RELOAD_POLL_INTERVAL_S = 0.3
_IGNORED_FOLDERS = frozenset({".venv", "venv", "node_modules", "__pycache__", ".git"})


def run_with_reload(command: Sequence[str], folders: Iterable[Path]) -> int:
    """Run the command until interrupted; restart it when a Python file below the folders changes."""
    roots = sorted({folder.resolve() for folder in folders})
    known_times = _modification_times(roots)
    child = subprocess.Popen(command)
    for number in (signal.SIGINT, signal.SIGTERM):  # A shell's background jobs ignore SIGINT.
        signal.signal(number, signal.default_int_handler)
    try:
        while True:
            time.sleep(_RELOAD_POLL_INTERVAL_S)
            times = _modification_times(roots)
            if times == known_times:
                continue
            changed = sorted(
                str(path.name) for path in times.keys() | known_times.keys() if times.get(path) != known_times.get(path)
            )
            sys.stderr.write(f"{', '.join(changed[:3])} changed; reloading\n")
            known_times = times
            _stop_child(child)
            child = subprocess.Popen(command)
    except KeyboardInterrupt:
        return 0
    finally:
        _stop_child(child)


def _stop_child(child: "subprocess.Popen[bytes]") -> None:
    child.terminate()
    try:
        child.wait(5)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _modification_times(roots: Iterable[Path]) -> dict[Path, float]:
    times: dict[Path, float] = {}
    for root in roots:
        for path in root.rglob("*.py"):
            if _IGNORED_FOLDERS.isdisjoint(path.relative_to(root).parts):
                try:
                    times[path] = path.stat().st_mtime
                except OSError:
                    continue  # Deleted meanwhile.
    return times
