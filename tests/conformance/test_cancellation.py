"""A client that disconnects cancels its run within a second, except on the UI stream."""

import re
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.conformance.node_drivers import Driver
from tests.conformance.scenarios import LONG_RUN
from tests.conformance.test_parity import CLIENTS, run_client
from tests.server_process import ServerProcess

PAUSE = threading.Event()
STREAMING_CLIENTS = [name for name in CLIENTS if "stream" in name]
UI_CLIENTS = [name for name in CLIENTS if name.startswith("useChat")]


@pytest.mark.parametrize("client", STREAMING_CLIENTS)
def test_a_client_that_disconnects_cancels_its_run(
    client: str, server: ServerProcess, http: httpx.Client, drivers: Callable[[str], Driver]
) -> None:
    kind, way, _ = CLIENTS[client]

    record = run_client(kind, way, LONG_RUN, server.url, drivers, cancel=True)

    assert record["finish"] == "hung up"
    assert active_runs(http, until=0) == 0


@pytest.mark.parametrize("client", UI_CLIENTS)
def test_a_use_chat_run_continues_after_a_disconnect_until_it_is_stopped(
    client: str, server: ServerProcess, http: httpx.Client, drivers: Callable[[str], Driver]
) -> None:
    kind, way, _ = CLIENTS[client]
    chat = f"chat-{way}"

    record = drivers(kind).ask(
        way=way, url=server.url, workflow="scripted", prompt=LONG_RUN.prompt, cancel=True, chat=chat
    )

    assert record["text"] == ["One."]
    run = run_after_disconnect(http, chat)
    assert run["status"] == "running"
    assert http.post(f"/scripted/api/chat/{chat}/stop").status_code == 204
    assert active_runs(http, until=0) == 0
    assert http.get(f"/api/runs/{run['id']}").json()["status"] == "cancelled"


def run_after_disconnect(http: httpx.Client, session: str) -> dict[str, Any]:
    """Return the run of a session, once the server has noticed that its client disconnected."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        for run in http.get("/api/runs").json()["data"]:
            if run["session"] == session and run["readers"] == 0:
                return run
        PAUSE.wait(0.01)
    raise AssertionError(f"the server did not notice that the client of {session!r} disconnected")


def active_runs(http: httpx.Client, *, until: int) -> int:
    """Return the number of running runs, polling until it equals `until`, for at most a second."""
    end = time.monotonic() + 1
    while True:
        match = re.search(r"^palaver_runs_alive (\d+)", http.get("/metrics").text, re.MULTILINE)
        assert match
        if int(match[1]) == until or time.monotonic() > end:
            return int(match[1])
        PAUSE.wait(0.01)
