"""Clients that disconnect at any moment leak no task, thread, open file or run."""

import random
import socket
import time
from contextlib import suppress
from pathlib import Path

import httpx

from tests.faults.rounds import round_count
from tests.server_process import server_process

WORKFLOWS_SOURCE = """
import asyncio
import os
import threading
from palaver import workflow
from palaver.testing import scripted

@workflow
async def left_behind():
    return {
        "tasks": len(asyncio.all_tasks()),
        "threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")),
    }
"""

SCRIPT = (
    b'{"messages":[],"flags":{"stream":true},"inputs":{"script":[{"repeat":{"times":50,"steps":'
    b'[{"text":"word "},{"sleep":0.005}]}}]}}'
)
REQUEST = (
    b"POST /scripted/invoke HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(SCRIPT), SCRIPT)
)


def await_trace(http: httpx.Client) -> None:
    """Wait until a run is seen among the traces."""
    for _ in range(100):
        if http.get("/api/traces").json()["data"]:
            return
        time.sleep(0.1)
    raise AssertionError("A run left no trace within ten seconds.")


def resources(http: httpx.Client) -> dict[str, int]:
    """Return the resources that the server holds, after a pause for writing the trace of the last request."""
    time.sleep(0.4)
    return http.post("/left_behind/invoke", json={}).raise_for_status().json()


def test_random_disconnects_leak_no_tasks_files_threads_or_runs(tmp_path: Path) -> None:
    chance = random.Random(7)
    with (
        server_process(tmp_path, WORKFLOWS_SOURCE) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=30) as http,
    ):
        http.post("/left_behind/invoke", json={}).raise_for_status()
        await_trace(http)  # The threads that create and store spans exist from the first run on.
        samples = [resources(http) for _ in range(4)]
        before = {name: min(sample[name] for sample in samples) for name in samples[0]}
        for _ in range(round_count(150, 1000)):
            with socket.create_connection(("127.0.0.1", server.port)) as connection:
                connection.sendall(REQUEST[: chance.choice([20, 120, len(REQUEST) - 5, *[len(REQUEST)] * 6])])
                if chance.random() < 0.7:
                    connection.settimeout(chance.random() * 0.05)
                    with suppress(TimeoutError):
                        connection.recv(chance.choice([1, 100, 4096]))
        after = before
        # Two tasks end later than the last run: the stream monitor (server/streaming.py), which sleeps for a second
        # between checks, and the span writer (traces/writer.py), which writes spans in batches.
        for _ in range(60):
            after = resources(http)
            if after["tasks"] <= before["tasks"] and after["files"] <= before["files"]:
                break
        runs = http.get("/metrics").text

    assert after["tasks"] <= before["tasks"]
    assert after["files"] <= before["files"]
    assert after["threads"] <= before["threads"] + 1
    assert "palaver_runs_alive 0.0" in runs
