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

_GENERATOR_SOURCE = Path(__file__).with_name("generator.c")
_GRACE_S = 20  # A generator that runs longer than planned by this counts as failed.


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
    """Keep `connections` streams open inside the block, each after its first event."""
    seconds = 2 * connections / opened_per_second + 5
    arguments = {"port": server.port, "path": path, "seconds": seconds, "connections": connections, **options}
    with _start_generator(context, {**arguments, "hold": 1, "opened_per_second": opened_per_second}) as process:
        assert process.stdout is not None
        result = _parse_result(process.stdout.readline(), server)  # Returns, because the generator has a deadline.
        if result.held < connections:
            raise MeasurementError(f"{server.name} held {result.held} of {connections} streams")
        yield result


@cache
def compile_generator(folder: Path) -> Path | None:
    """Compile the C generator; None if that is not possible."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    executable = folder / "generator"
    process = subprocess.run(
        [compiler, "-O2", "-o", executable, _GENERATOR_SOURCE], capture_output=True, timeout=60, check=False
    )
    return executable if process.returncode == 0 else None


def describe_generator(context: BenchmarkContext) -> str:
    """Describe the generator in use."""
    if compile_generator(context.folder):
        return "load generator in C"
    return "load generator in Python (no C compiler with epoll), which may itself be the bottleneck"


@contextmanager
def _start_generator(context: BenchmarkContext, options: dict[str, object]) -> Iterator[subprocess.Popen[bytes]]:
    executable = compile_generator(context.folder)
    command: Sequence[str | Path] = (
        [executable] if executable else [sys.executable, Path(__file__).with_name("generator.py")]
    )
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
        result = msgspec.json.decode(output, type=LoadResult)
    except msgspec.MsgspecError:
        raise MeasurementError(f"the load generator counted no responses from {server.name}") from None
    if result.failed or result.wrong:
        raise MeasurementError(f"{server.name}: {result.failed} responses failed and {result.wrong} were wrong")
    return result
