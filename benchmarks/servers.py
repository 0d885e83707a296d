"""Servers under measurement: Palaver and the bare application, each in a process of its own, on loopback.

Palaver runs as anyone runs it, with its access log on; the lines go to /dev/null. The bare application has no log.
"""

import http.client
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, Literal

import msgspec

from benchmarks import machine, workflows
from benchmarks.context import BenchmarkContext, MeasurementError

_UVICORN_OPTIONS = (
    "--loop uvloop --http httptools --ws none --no-access-log --log-level warning --no-proxy-headers --no-server-header"
).split()
_START_TIMEOUT_S = 20  # Seconds that a server may take to start,
_REQUEST_TIMEOUT_S = 900  # and to answer one question.
_BLOCK_BYTES = 64 * 1024


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A server that answers."""

    name: str
    pid: int
    port: int
    seconds: float
    """From starting its command to its first good answer."""


@contextmanager
def run_palaver(
    stand: BenchmarkContext,
    *,
    ready: bool = True,
    record: Literal["full", "off"] = "off",
    db: Path | str | None = None,
    file: str = workflows.__file__,
    core: int | None = machine.SERVER_CORE,
    **environment: str,
) -> Iterator[Server]:
    """`palaver serve`; `ready` waits until everything is loaded too. What is recorded goes to a file of its own."""
    port = machine.free_port()
    command = [str(Path(sys.executable).with_name("palaver")), "serve", file, "--port", str(port)]
    command += ["--db", str(db or stand.folder / f"{port}.db")]
    kept = {"PALAVER_RECORD": record, **environment}
    with run_server(stand, f"palaver, {record}", command, port, kept, core=core) as server:
        if ready:
            _wait_until_ok(port, "/ready")
        yield server


@contextmanager
def run_bare_app(stand: BenchmarkContext) -> Iterator[Server]:
    """The bare application on the same uvicorn, with the same loop and parser."""
    port = machine.free_port()
    command = [sys.executable, "-m", "uvicorn", "benchmarks.bare_app:app", "--port", str(port), *_UVICORN_OPTIONS]
    with run_server(stand, "bare", [*command, "--app-dir", str(Path(__file__).parent.parent)], port) as server:
        yield server


@contextmanager
def run_server(
    stand: BenchmarkContext,
    name: str,
    command: Sequence[str],
    port: int,
    environment: Mapping[str, str] = {},
    *,
    health: str = "/health",
    patience: float = _START_TIMEOUT_S,
    core: int | None = machine.SERVER_CORE,
) -> Iterator[Server]:
    """That command, until it answers and as long as it is needed; on that core, or on all of them."""
    with machine.pin_to_core(core):
        since = time.perf_counter()
        process = subprocess.Popen(  # In a folder of ours: no palaver.toml may be found.
            command,
            cwd=stand.folder,
            env={**stand.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    try:
        _wait_until_ok(port, health, process, patience=patience)
        yield Server(name=name, pid=process.pid, port=port, seconds=time.perf_counter() - since)
    finally:
        process.kill()  # It holds nothing worth keeping, and a graceful end waits for runs that never end.
        process.wait()


def _wait_until_ok(
    port: int, path: str, process: subprocess.Popen[bytes] | None = None, *, patience: float = _START_TIMEOUT_S
) -> None:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if process is not None and process.poll() is not None:
            raise MeasurementError(f"{' '.join(map(str, process.args))} ended with code {process.returncode}")  # pyright: ignore[reportArgumentType]  # a list, as we gave it
        if get(port, path)[0] == 200:
            return
        time.sleep(0.005)
    raise MeasurementError(f"no good answer of {path} within {patience:g} seconds")


def get(port: int, path: str) -> tuple[int, bytes]:
    """Status and body; 0 where nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except OSError:
        return 0, b""
    finally:
        connection.close()


def request_json(server: Server, method: str, path: str, body: Any = None, media: str = "application/json") -> Any:
    """What it answers, as JSON. The body is a value, ready bytes, or an open file, which is sent as it is read."""
    raw = body if body is None or isinstance(body, bytes | BufferedReader) else msgspec.json.encode(body)
    with closing(
        http.client.HTTPConnection("127.0.0.1", server.port, timeout=_REQUEST_TIMEOUT_S, blocksize=_BLOCK_BYTES)
    ) as connection:
        connection.request(method, path, raw, {} if raw is None else {"content-type": media})
        answer = connection.getresponse()
        told = answer.read()
    if answer.status >= 300:
        raise MeasurementError(f"{method} {path} answered {answer.status}: {told[:300]!r}")
    return msgspec.json.decode(told)
