"""Load from outside: starts the generator in a process of its own, on a core of its own, and reads what it counted."""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import msgspec

from benchmarks import machine
from benchmarks.context import BenchmarkContext, MeasurementError
from benchmarks.servers import Server

SSE = "text/event-stream"
CHAT_BODY = '{"messages":[{"role":"user","content":"Hello"}]}'
"""The body of a call to a chat."""

_SOURCE = Path(__file__).with_name("generator.c")
_GRACE_S = 20  # Seconds beyond its time after which a generator has failed.


class LoadResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a generator saw in its window of time; `events_all` and `busy` are of its whole life."""

    requests: int
    events: int
    seconds: float
    events_all: int
    failed: int
    wrong: int
    """Answers with another number of events than expected."""
    held: int
    first_event_ms: float
    """Median time from the request to the first event."""
    latency_ms: float
    """Median time from the request to the end of the answer."""
    reads: int
    busy: float
    """Share of its time in which the generator worked: near 1 it would be measuring itself."""

    @property
    def events_per_second(self) -> float:
        return self.events / self.seconds

    @property
    def requests_per_second(self) -> float:
        return self.requests / self.seconds


def run_load(
    stand: BenchmarkContext, server: Server, path: str, *, seconds: float, warm_up: float = 0.3, **words: object
) -> LoadResult:
    """Ask again and again for a time; every answer must be good and complete."""
    given = {"port": server.port, "path": path, "seconds": seconds, "warm_up": warm_up, **words}
    with _start_generator(stand, given) as process:
        try:
            printed, _ = process.communicate(timeout=seconds + warm_up + _GRACE_S)
        except subprocess.TimeoutExpired:
            raise MeasurementError(f"the load on {server.name} did not end in time") from None
    return _parse_result(printed, server)


@contextmanager
def hold_streams(
    stand: BenchmarkContext, server: Server, path: str, *, connections: int, opened_per_second: int, **words: object
) -> Iterator[LoadResult]:
    """Inside, that many answers have given their first event and are open."""
    seconds = 2 * connections / opened_per_second + 5
    given = {"port": server.port, "path": path, "seconds": seconds, "connections": connections, **words}
    with _start_generator(stand, {**given, "hold": 1, "opened_per_second": opened_per_second}) as process:
        assert process.stdout is not None  # It is a pipe, as we asked.
        counted = _parse_result(process.stdout.readline(), server)  # The generator's own deadline ends this.
        if counted.held < connections:
            raise MeasurementError(f"{server.name} held {counted.held} of {connections} streams")
        yield counted


@cache
def compile_generator(folder: Path) -> Path | None:
    """The C generator, built now; None where that cannot be done."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    built = folder / "generator"
    done = subprocess.run([compiler, "-O2", "-o", built, _SOURCE], capture_output=True, timeout=60, check=False)
    return built if done.returncode == 0 else None


def describe_generator(stand: BenchmarkContext) -> str:
    """Which generator it is, for people."""
    if compile_generator(stand.folder):
        return "a generator in C"
    return "a generator in Python (no C compiler that knows epoll), which may itself be the limit"


@contextmanager
def _start_generator(stand: BenchmarkContext, words: dict[str, object]) -> Iterator[subprocess.Popen[bytes]]:
    built = compile_generator(stand.folder)
    command: Sequence[str | Path] = [built] if built else [sys.executable, Path(__file__).with_name("generator.py")]
    with machine.pin_to_core(machine.LOAD_CORE):
        process = subprocess.Popen(
            [*command, *(f"{name}={value}" for name, value in words.items())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def _parse_result(printed: bytes, server: Server) -> LoadResult:
    try:
        counted = msgspec.json.decode(printed, type=LoadResult)
    except msgspec.MsgspecError:
        raise MeasurementError(f"the load on {server.name} counted nothing") from None
    if counted.failed or counted.wrong:
        raise MeasurementError(
            f"of the answers of {server.name} {counted.failed} failed and {counted.wrong} were wrong"
        )
    return counted
