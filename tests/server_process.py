"""A server process for tests, on a free port of loopback."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx

START_TIMEOUT_S = 120.0
"""Starting takes a second or two, up to half a minute on a busy machine."""

WORKFLOWS = """
from palaver import chat
from palaver.demo import calculator, eliza, headline
from palaver.testing import echo, scripted
"""


@dataclass
class ServerProcess:
    """A running `palaver serve`."""

    url: str
    process: "subprocess.Popen[str]"
    lines: list[str] = field(default_factory=list[str])
    """Lines of standard error so far."""

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 80

    def stop(self, signal_number: int = signal.SIGTERM) -> int:
        self.process.send_signal(signal_number)
        return self.process.wait(60)


@contextmanager
def server_process(folder: Path, source: str = WORKFLOWS, *arguments: str, **settings: str) -> Iterator[ServerProcess]:
    """Serve the workflows of a Python file in that folder, with `PALAVER_…` settings by keyword."""
    target = folder / "served_app.py"
    target.write_text(source, encoding="utf-8")
    command = ["serve", str(target), "--port", "0", *arguments]
    with _run_process(
        command, folder, {f"PALAVER_{name.upper()}": value for name, value in settings.items()}
    ) as server:
        yield server


@contextmanager
def demo_process(folder: Path, *arguments: str) -> Iterator[ServerProcess]:
    """Run `palaver demo` with its data in `folder`; yield the server once the demo data is loaded."""
    command = ["demo", "--no-browser", "--port", "0", *arguments]
    with _run_process(command, folder, {"XDG_DATA_HOME": str(folder), "PALAVER_DB": ""}) as server:
        assert not any("sample data is missing" in line for line in server.lines), server.lines
        yield server


@contextmanager
def _run_process(command: list[str], folder: Path, environment: dict[str, str]) -> Iterator[ServerProcess]:
    process = subprocess.Popen(
        [sys.executable, "-m", "palaver.cli", *command],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        cwd=folder,
    )
    server = ServerProcess("", process)
    ready = threading.Event()

    def read() -> None:
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:
                server.lines.append(line.rstrip("\n"))
                if match := re.search(r"Serving at (\S+)", line):
                    server.url = match[1]
                    ready.set()
        ready.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        assert ready.wait(START_TIMEOUT_S), "the server did not start"
        assert server.url, server.lines
        _wait_ready(server.url)
        yield server
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait(30)
        reader.join(10)


def _wait_ready(url: str) -> None:
    transport = httpx.HTTPTransport(retries=20)
    with httpx.Client(transport=transport, trust_env=False, timeout=30) as client:
        end = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < end:
            with suppress(httpx.TransportError):  # Between two polls the server may have closed the idle connection.
                if client.get(f"{url}/ready").status_code == 200:
                    return
            threading.Event().wait(0.05)
    raise AssertionError("the server never became ready")


def free_port() -> int:
    """Return a port of loopback that no program listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def send_raw(port: int, request: bytes, *, seconds: float = 10) -> bytes:
    """Send bytes and read until the response is complete, the server closes, or nothing arrives for `seconds`."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(request)
        received = b""
        with suppress(TimeoutError, ConnectionError):
            while piece := connection.recv(65536):
                received += piece
                if b"\r\n\r\n" in received and _is_complete(received):
                    break
        return received


def is_closed_by_server(connection: socket.socket, *, seconds: float = 20) -> bool:
    """Whether the server closes the connection of a client that keeps sending."""
    until = time.monotonic() + seconds
    with suppress(ConnectionError):
        while time.monotonic() < until:
            connection.sendall(b"x")
            time.sleep(0.05)
        return False
    return True


def _is_complete(received: bytes) -> bool:
    head, _, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    return len(body) >= int(length[1]) if length else received.endswith(b"0\r\n\r\n")


def raw_status(answer: bytes) -> int:
    """The status of a raw response; 0 without one."""
    match = re.match(rb"HTTP/1\.1 (\d+)", answer)
    return int(match[1]) if match else 0
