"""Load on a server: runs the generator in its own process on its own core, and reads its result."""

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
_GRACE_S = 20  # After its time, before a generator counts as failed.


class LoadResult(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a generator in its time window; `events_all` and `busy` cover its whole run."""

    requests: int
    events: int
    seconds: float
    events_all: int
    failed: int
    wrong: int
    """Answers with an unexpected number of events."""
    held: int
    first_event_ms: float
    """Median time from the request to the first event."""
    latency_ms: float
    """Median time from the request to the end of the answer."""
    reads: int
    busy: float
    """The share of time in which the generator was busy; near 1 the generator is the limit."""

    @property
    def events_per_second(self) -> float:
        return self.events / self.seconds

    @property
    def requests_per_second(self) -> float:
        return self.requests / self.seconds


def run_load(
    context: BenchmarkContext, server: Server, path: str, *, seconds: float, warm_up: float = 0.3, **options: object
) -> LoadResult:
    """Send requests for a time; every answer must be successful and complete."""
    arguments = {"port": server.port, "path": path, "seconds": seconds, "warm_up": warm_up, **options}
    with _start_generator(context, arguments) as process:
        try:
            output, _ = process.communicate(timeout=seconds + warm_up + _GRACE_S)
        except subprocess.TimeoutExpired:
            raise MeasurementError(f"the load on {server.name} did not end in time") from None
    return _parse_result(output, server)


@contextmanager
def hold_streams(
    context: BenchmarkContext, server: Server, path: str, *, connections: int, opened_per_second: int, **options: object
) -> Iterator[LoadResult]:
    """Keep that many streams open inside the block, each after its first event."""
    seconds = 2 * connections / opened_per_second + 5
    arguments = {"port": server.port, "path": path, "seconds": seconds, "connections": connections, **options}
    with _start_generator(context, {**arguments, "hold": 1, "opened_per_second": opened_per_second}) as process:
        assert process.stdout is not None
        counted = _parse_result(process.stdout.readline(), server)  # The generator has a deadline.
        if counted.held < connections:
            raise MeasurementError(f"{server.name} held {counted.held} of {connections} streams")
        yield counted


@cache
def compile_generator(folder: Path) -> Path | None:
    """Compile the C generator; None if that is not possible."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    built = folder / "generator"
    result = subprocess.run([compiler, "-O2", "-o", built, _SOURCE], capture_output=True, timeout=60, check=False)
    return built if result.returncode == 0 else None


def describe_generator(context: BenchmarkContext) -> str:
    """Describe the generator in use."""
    if compile_generator(context.folder):
        return "a generator in C"
    return "a generator in Python (no C compiler that knows epoll), which may itself be the limit"


@contextmanager
def _start_generator(context: BenchmarkContext, options: dict[str, object]) -> Iterator[subprocess.Popen[bytes]]:
    built = compile_generator(context.folder)
    command: Sequence[str | Path] = [built] if built else [sys.executable, Path(__file__).with_name("generator.py")]
    with machine.pin_to_core(machine.LOAD_CORE):
        process = subprocess.Popen(
            [*command, *(f"{name}={value}" for name, value in options.items())],
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


def _parse_result(output: bytes, server: Server) -> LoadResult:
    try:
        counted = msgspec.json.decode(output, type=LoadResult)
    except msgspec.MsgspecError:
        raise MeasurementError(f"the load on {server.name} counted nothing") from None
    if counted.failed or counted.wrong:
        raise MeasurementError(
            f"of the answers of {server.name} {counted.failed} failed and {counted.wrong} were wrong"
        )
    return counted
