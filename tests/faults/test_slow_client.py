"""A client that reads nothing costs a socket and a bounded buffer, delays no other, and is disconnected."""

import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.faults.rounds import round_count
from tests.server_process import ServerProcess, server_process

WORKFLOWS_SOURCE = """
import asyncio
from palaver import chat
from palaver.testing import echo

said = {"cancelled": 0, "finished": 0}

@chat
async def flood(messages):
    try:
        for _ in range(20_000):
            yield "x" * 1000
            await asyncio.sleep(0)
        said["finished"] += 1
    except (asyncio.CancelledError, GeneratorExit):  # In the middle of something, or waiting for its reader.
        said["cancelled"] += 1
        raise

@chat(on_disconnect="finish")
async def patient(messages):
    for _ in range(2_000):
        yield "x" * 1000
        await asyncio.sleep(0)
    said["finished"] += 1

@chat
async def tally(messages):
    yield f"{said['cancelled']} {said['finished']}"
"""

BODY = b'{"messages":[],"flags":{"stream":true}}'


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with server_process(tmp_path, WORKFLOWS_SOURCE, stream_stall="2", db=str(tmp_path / "palaver.db")) as running:
        yield running


def test_stalled_clients_are_disconnected_without_delaying_others(server: ServerProcess) -> None:
    client_count = round_count(40, 200)
    before = resident_kib(server)
    with ExitStack() as stack, httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http:
        for _ in range(client_count):
            stack.enter_context(stalled_connection(server.port, "flood"))
        latencies: list[float] = []
        for _ in range(50):
            since = time.monotonic()
            assert http.post("/echo/invoke", json={"inputs": {}}).status_code == 200
            latencies.append(time.monotonic() - since)
        growth_kib = resident_kib(server) - before
        assert tally_becomes(http, f"{client_count} 0")

    assert sorted(latencies)[25] < 10  # A watchdog: an answer takes a few milliseconds.
    # A run is stopped once the system's buffer and ours are full; its log has what they hold. It would be 20 MB.
    assert growth_kib < client_count * (max_send_buffer_kib() + 1024)


def test_a_run_with_on_disconnect_finish_completes_without_its_client(server: ServerProcess) -> None:
    with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http:
        with stalled_connection(server.port, "patient"):
            pass  # Disconnects at once.

        assert tally_becomes(http, "0 1")


def stalled_connection(port: int, name: str) -> socket.socket:
    """A connection that sends a request and reads nothing; its small receive buffer lets the server notice soon."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", port))
    head = f"POST /{name}/invoke HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY)
    return connection


def tally_becomes(http: httpx.Client, expected: str) -> bool:
    for _ in range(300):
        if http.post("/tally/invoke", json={"messages": []}).json()["content"] == expected:
            return True
        time.sleep(0.1)
    return False


def max_send_buffer_kib() -> int:
    """The size up to which Linux grows the send buffer of a connection; how far it does depends on the load."""
    return int(Path("/proc/sys/net/ipv4/tcp_wmem").read_text().split()[2]) // 1024


def resident_kib(server: ServerProcess) -> int:
    """Resident memory in KiB."""
    match = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{server.process.pid}/status").read_text())
    assert match
    return int(match[1])
