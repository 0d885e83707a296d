"""The measured servers: Palaver and the bare application, each in its own process on loopback.

Palaver runs with its default settings, with the access log going to /dev/null. The bare application has no log.
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
_START_TIMEOUT_S = 20
_REQUEST_TIMEOUT_S = 900
_BLOCK_BYTES = 64 * 1024


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A running server."""

    name: str
    pid: int
    port: int
    seconds: float
    """From starting the command to the first successful answer."""


@contextmanager
def run_palaver(
    context: BenchmarkContext,
    *,
    ready: bool = True,
    record: Literal["full", "off"] = "off",
    db: Path | str | None = None,
    file: str = workflows.__file__,
    core: int | None = machine.SERVER_CORE,
    **environment: str,
) -> Iterator[Server]:
    """Run `palaver serve` with a new database; `ready` also waits until everything is loaded."""
    port = machine.free_port()
    command = [str(Path(sys.executable).with_name("palaver")), "serve", file, "--port", str(port)]
    command += ["--db", str(db or context.folder / f"{port}.db")]
    variables = {"PALAVER_RECORD": record, **environment}
    with run_server(context, f"palaver, {record}", command, port, variables, core=core) as server:
        if ready:
            _wait_until_ok(port, "/ready")
        yield server


@contextmanager
def run_bare_app(context: BenchmarkContext) -> Iterator[Server]:
    """Run the bare application on the same uvicorn, event loop and parser."""
    port = machine.free_port()
    command = [sys.executable, "-m", "uvicorn", "benchmarks.bare_app:app", "--port", str(port), *_UVICORN_OPTIONS]
    with run_server(context, "bare", [*command, "--app-dir", str(Path(__file__).parent.parent)], port) as server:
        yield server


@contextmanager
def run_server(
    context: BenchmarkContext,
    name: str,
    command: Sequence[str],
    port: int,
    environment: Mapping[str, str] = {},
    *,
    health: str = "/health",
    timeout: float = _START_TIMEOUT_S,
    core: int | None = machine.SERVER_CORE,
) -> Iterator[Server]:
    """Run a server on one core, or on all; the block starts when it answers."""
    with machine.pin_to_core(core):
        since = time.perf_counter()
        process = subprocess.Popen(  # Without a palaver.toml in the folder.
            command,
            cwd=context.folder,
            env={**context.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    try:
        _wait_until_ok(port, health, process, timeout=timeout)
        yield Server(name=name, pid=process.pid, port=port, seconds=time.perf_counter() - since)
    finally:
        process.kill()  # A graceful shutdown would wait for runs that never end.
        process.wait()


def _wait_until_ok(
    port: int, path: str, process: subprocess.Popen[bytes] | None = None, *, timeout: float = _START_TIMEOUT_S
) -> None:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if process is not None and process.poll() is not None:
            raise MeasurementError(f"{' '.join(map(str, process.args))} ended with code {process.returncode}")  # pyright: ignore[reportArgumentType]  # a list
        if get(port, path)[0] == 200:
            return
        time.sleep(0.005)
    raise MeasurementError(f"no successful response from {path} within {timeout:g} seconds")


def get(port: int, path: str) -> tuple[int, bytes]:
    """Return status and body; status 0 if the connection fails."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except OSError:
        return 0, b""
    finally:
        connection.close()


def request_json(
    server: Server, method: str, path: str, body: Any = None, content_type: str = "application/json"
) -> Any:
    """Send a request and return the parsed JSON. The body is a value, encoded bytes, or an open file to stream."""
    raw = body if body is None or isinstance(body, bytes | BufferedReader) else msgspec.json.encode(body)
    with closing(
        http.client.HTTPConnection("127.0.0.1", server.port, timeout=_REQUEST_TIMEOUT_S, blocksize=_BLOCK_BYTES)
    ) as connection:
        connection.request(method, path, raw, {} if raw is None else {"content-type": content_type})
        answer = connection.getresponse()
        content = answer.read()
    if answer.status >= 300:
        raise MeasurementError(f"{method} {path} responded with {answer.status}: {content[:300]!r}")
    return msgspec.json.decode(content)
