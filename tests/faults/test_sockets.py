"""WebSockets under load: many idle ones, slow ones and broken ones use little memory, and no run hangs."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from tests.faults.rounds import round_count
from tests.server_process import ServerProcess, server_process
from tests.tab_client import joined_text, tab_client

SOURCE = """
import asyncio
from palaver import chat, workflow
from palaver.testing import echo, scripted

ended = []

async def _long(messages):
    try:
        for number in range(20_000):
            yield "x" * 1000
            await asyncio.sleep(0)
    finally:
        ended.append("flood")

flood = chat(_long, name="flood", on_disconnect="cancel")

@chat(on_disconnect="cancel")
async def patient(messages):
    try:
        yield "begin "
        await asyncio.sleep(600)
    finally:
        ended.append("patient")

@workflow
def tally() -> list[str]:
    return ended
"""
STREAM_BODY = {"input": "go", "stream": True}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with server_process(
        tmp_path, SOURCE, stream_stall="2", shutdown_seconds="2", db=str(tmp_path / "palaver.db")
    ) as running:
        yield running


@pytest.fixture
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as client:
        yield client


def resident_kib(server: ServerProcess) -> int:
    """Resident memory in KiB."""
    text = Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
    return int(re.findall(r"VmRSS:\s+(\d+)", text)[0])


def open_file_count(server: ServerProcess) -> int:
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


def await_ended_runs(http: httpx.Client, name: str, count: int, seconds: float) -> float:
    """Return how long it takes until `count` of those runs have ended."""
    since = time.monotonic()
    while http.post("/tally/invoke", json={}).text.count(name) < count:
        assert time.monotonic() - since < seconds
        time.sleep(0.02)
    return time.monotonic() - since


def test_many_idle_sockets_use_little_memory(server: ServerProcess, http: httpx.Client) -> None:
    count = round_count(200, 500)
    http.get("/api/about")
    with tab_client(server.url) as page:  # What the first connection loads is not counted.
        page.send(1, "/health")
        page.read_until(1)
    before, open_files = resident_kib(server), open_file_count(server)
    with ExitStack() as stack:
        tabs = [stack.enter_context(tab_client(server.url)) for _ in range(count)]
        for number, page in enumerate(tabs):
            page.send(number, "/health")
        for number, page in enumerate(tabs):
            assert joined_text(page.read_until(number)) == '{"status":"ok"}'
        growth_kib = resident_kib(server) - before
        thread = http.post("/api/threads", json={"workflow": "echo"}).json()["id"]
        for page in tabs:
            page.wait_for_change({"changed": "thread", "ref": thread})
    deadline = time.monotonic() + 20
    while open_file_count(server) > open_files + 2 and time.monotonic() < deadline:
        time.sleep(0.05)

    assert growth_kib / count < 100
    assert open_file_count(server) <= open_files + 2


def test_a_tab_that_reads_nothing_is_disconnected_without_delaying_others(
    server: ServerProcess, http: httpx.Client
) -> None:
    count = round_count(10, 50)
    before = resident_kib(server)
    with ExitStack() as stack, tab_client(server.url) as page:
        for _ in range(count):
            stack.enter_context(stalled_socket(server.port, 4))
        latencies: list[float] = []
        for number in range(50):
            since = time.monotonic()
            page.send(number, "/echo/invoke", {"inputs": {}})
            page.read_until(number)
            latencies.append(time.monotonic() - since)
        growth_kib = resident_kib(server) - before
        await_ended_runs(http, "flood", 4 * count, 60)

    assert sorted(latencies)[25] < 10  # A watchdog: an answer takes a few milliseconds.
    assert growth_kib / count < 8 * 1024  # KiB: four event logs, and their unread output.


def stalled_socket(port: int, streams: int) -> socket.socket:
    """A socket that starts streams and reads nothing."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.sendall(
        b"GET /api/socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    assert connection.recv(4096).startswith(b"HTTP/1.1 101")
    for number in range(streams):
        headers = {"content-type": "application/json"}
        request = {
            "id": number,
            "method": "POST",
            "path": "/flood/invocations",
            "headers": headers,
            "body": json.dumps(STREAM_BODY),
        }
        text = json.dumps(request).encode()
        connection.sendall(b"\x81\xfe" + len(text).to_bytes(2, "big") + bytes(4) + text)
    return connection


def test_aborted_streams_end_soon(server: ServerProcess, http: httpx.Client) -> None:
    with tab_client(server.url) as page:
        for number in range(6):
            page.send(number, "/patient/invocations", STREAM_BODY)
        for number in range(6):
            page.read_until(number, "begin")
        page.connection.send('{"id": 2, "abort": true}')
        await_ended_runs(http, "patient", 1, 30)  # One second is promised; the runs would take ten minutes.
        page.send(2, "/health")
        page.read_until(2)
    await_ended_runs(http, "patient", 6, 30)


def test_runs_end_when_their_page_is_killed(server: ServerProcess, http: httpx.Client, tmp_path: Path) -> None:
    program = tmp_path / "page.py"
    program.write_text(
        "import sys, time\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from tests.tab_client import tab_client\n"
        f"with tab_client({server.url!r}) as page:\n"
        "    for number in range(5):\n"
        f"        page.send(number, '/patient/invocations', {STREAM_BODY!r})\n"
        "    for number in range(5):\n"
        "        page.read_until(number, 'begin')\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(600)\n",
        encoding="utf-8",
    )
    page = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True)
    try:
        assert page.stdout is not None
        with page.stdout:
            assert page.stdout.readline() == "ready\n"
            page.send_signal(signal.SIGKILL)
            page.wait(60)
        await_ended_runs(http, "patient", 5, 10)
    finally:
        page.kill()
        page.wait(60)


def test_a_stopping_server_lets_answers_finish_and_refuses_new_requests(server: ServerProcess) -> None:
    script = {"script": [{"text": "begin "}, {"sleep": 1}, {"text": "end"}]}
    with tab_client(server.url) as page, tab_client(server.url) as idle:
        page.send(1, "/scripted/invocations", STREAM_BODY | {"custom_inputs": script})
        page.read_until(1, "begin")
        server.process.send_signal(signal.SIGTERM)
        with pytest.raises(ConnectionClosed) as at_once:
            idle.read_until(1)
        page.send(2, "/health")
        refused = page.read_until(2)
        full_text = joined_text(page.read_until(1))
        with pytest.raises(ConnectionClosed) as closed:
            page.read_until(3)
        code = server.process.wait(60)

    assert [one.value.rcvd.code for one in (at_once, closed) if one.value.rcvd] == [1012, 1012]
    assert refused[-1]["error"]["code"] == "shutting_down"
    assert '"delta":"end"' in full_text
    assert "response.completed" in full_text
    assert code == 0


def test_an_answer_that_takes_too_long_is_ended_with_an_end_frame(server: ServerProcess) -> None:
    with tab_client(server.url) as page:
        page.send(1, "/patient/invocations", STREAM_BODY)
        page.read_until(1, "begin")
        server.process.send_signal(signal.SIGTERM)
        frames = page.read_until(1)
        code = server.process.wait(60)

    assert frames[-1] == {"id": 1, "end": True}
    assert "shutting_down" in joined_text(frames)
    assert code == 0


def test_a_killed_server_closes_the_socket_and_its_runs_are_interrupted(tmp_path: Path) -> None:
    db = str(tmp_path / "palaver.db")
    with server_process(tmp_path, SOURCE, db=db) as first, tab_client(first.url) as page:
        page.send(1, "/patient/v1/responses", STREAM_BODY | {"stream": True})
        run = page.read_until(1, "begin")[0]["headers"]["x-palaver-run-id"]
        time.sleep(0.3)
        first.process.kill()
        with pytest.raises(ConnectionClosed):
            page.read_until(1)
    with server_process(tmp_path, SOURCE, db=db) as second, tab_client(second.url) as page:
        page.send(1, f"/api/runs/{run}?include=reply")
        stored_run = json.loads(joined_text(page.read_until(1)))

    assert stored_run["status"] == "interrupted"
    assert stored_run["reply"]["messages"][0]["parts"] == [{"type": "text", "text": "begin "}]
