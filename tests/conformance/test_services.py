"""The services protocol on a real server, with the replayed WebSocket messages of the `openfn` command."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect
from websockets.sync.connection import Connection

from tests.server_process import ServerProcess, server_process

PAYLOAD = {"content": "Hello there, friend.", "history": [], "meta": {"session_id": "s-1"}}


@contextmanager
def open_socket(server: ServerProcess, path: str) -> Iterator[Connection]:
    with connect(f"ws://localhost:{server.port}{path}", proxy=None, open_timeout=30, max_size=None) as connection:
        yield connection


def call_socket(connection: Connection, payload: Any) -> list[dict[str, Any]]:
    """Start one call and return all its messages."""
    connection.send(json.dumps({"event": "start", "data": payload}))
    frames: list[dict[str, Any]] = []
    while not frames or frames[-1]["event"] != "complete":
        frames.append(json.loads(connection.recv(30)))
    return frames


def without_ids(text: str) -> str:
    return re.sub(r"run_\w{26}", "RUN", text)


def test_the_socket_sends_the_same_events_and_result_as_the_http_routes(
    server: ServerProcess, http: httpx.Client
) -> None:
    response = http.post("/services/scripted", json=PAYLOAD)
    streamed = http.post("/services/scripted/stream", json=PAYLOAD)
    with open_socket(server, "/services/scripted") as line:
        first, second = call_socket(line, PAYLOAD), call_socket(line, PAYLOAD)

    events = [message for message in first if message["event"] == "event"]
    in_stream = [
        {"event": "event", "type": name, "data": json.loads(data)}
        for name, data in re.findall(r"event: (\w+)\ndata: (.+)\n\n", streamed.text)
    ]
    assert first[-1] == {"event": "complete", "data": response.json()}
    assert without_ids(json.dumps(events)) == without_ids(json.dumps(in_stream[:-1]))
    assert second[-1] == first[-1]
    assert response.json()["response"] == "Hello there, friend."


def test_a_cancelled_call_completes_and_the_socket_stays_open(server: ServerProcess, http: httpx.Client) -> None:
    slow_payload = {**PAYLOAD, "script": [{"text": "Wait"}, {"sleep": 60}]}
    with open_socket(server, "/services/scripted") as line:
        line.send(json.dumps({"event": "start", "data": slow_payload}))
        run = json.loads(line.recv(30))["data"]["message"]["id"]
        line.send('{"event": "cancel"}')
        while (last := json.loads(line.recv(30)))["event"] != "complete":
            pass
        second_call = call_socket(line, PAYLOAD)

    assert last["data"]["type"] == "CANCELLED"
    assert second_call[-1]["data"]["response"] == "Hello there, friend."
    assert http.get(f"/api/runs/{run}").json()["status"] == "cancelled"


def test_closing_the_socket_cancels_its_run(server: ServerProcess, http: httpx.Client) -> None:
    slow_payload = {**PAYLOAD, "script": [{"text": "Wait"}, {"sleep": 60}]}
    with open_socket(server, "/services/scripted") as line:
        line.send(json.dumps({"event": "start", "data": slow_payload}))
        run = json.loads(line.recv(30))["data"]["message"]["id"]
    status = ""
    for _ in range(200):
        if (status := http.get(f"/api/runs/{run}").json()["status"]) != "running":
            break
        time.sleep(0.05)

    assert status == "cancelled"


def test_disconnecting_from_a_plain_call_cancels_its_run(server: ServerProcess, http: httpx.Client) -> None:
    slow_payload = {**PAYLOAD, "meta": {"session_id": "left"}, "script": [{"text": "Wait"}, {"sleep": 60}]}
    with (
        httpx.Client(base_url=server.url, trust_env=False, timeout=httpx.Timeout(30, read=0.5)) as client,
        pytest.raises(httpx.ReadTimeout),
    ):
        client.post("/services/scripted", json=slow_payload)
    matching: list[Any] = []
    for _ in range(200):
        runs = http.get("/api/runs", params={"workflow": "scripted"}).json()["data"]
        matching = [run for run in runs if run["session"] == "left"]
        if matching and matching[0]["status"] != "running":
            break
        time.sleep(0.05)

    assert [run["status"] for run in matching] == ["cancelled"]


def test_http_and_socket_responses_have_the_version_header(server: ServerProcess, http: httpx.Client) -> None:
    with open_socket(server, "/services/scripted") as line:
        assert line.response is not None
        header_value = line.response.headers["x-api-version"]

    assert header_value == http.get("/livez").json()["version"]
    assert http.head("/").headers["x-api-version"] == header_value


BLOCKED_WORKFLOW = """
import time
from pathlib import Path
from palaver import chat

@chat
def blocked(messages):
    while not Path("gate").exists():
        time.sleep(0.01)
    return "Done."
"""


def test_the_first_event_is_sent_before_the_workflow_does_its_work(tmp_path: Path) -> None:
    with (
        server_process(tmp_path, BLOCKED_WORKFLOW) as server,
        httpx.stream("POST", f"{server.url}/services/blocked/stream", json=PAYLOAD, timeout=30) as answer,
    ):
        pieces = answer.iter_bytes()
        first = next(pieces)
        (tmp_path / "gate").touch()
        rest = b"".join(pieces)

    assert first.startswith(b"event: message_start\n")
    assert b"Done." in rest


@pytest.fixture(scope="module")
def locked_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, str]]:
    """A server that requires an API key, and that key."""
    folder: Path = tmp_path_factory.mktemp("closed")
    command = [sys.executable, "-m", "palaver.cli", "key", "create", "--scope", "invoke"]
    settings = {**os.environ, "PALAVER_DB": str(folder / "palaver.db")}
    result = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
    with server_process(folder, db=str(folder / "palaver.db")) as running:
        yield running, result.stdout.strip()


def test_a_key_is_read_from_the_socket_url_or_the_start_message_which_wins(
    locked_server: tuple[ServerProcess, str],
) -> None:
    server, key = locked_server

    def call_outcome(path: str, **more: str) -> Any:
        with open_socket(server, path) as line:
            return call_socket(line, {**PAYLOAD, **more})[-1]["data"].get("type", "answered")

    assert call_outcome("/services/scripted") == "UNAUTHORIZED"
    assert call_outcome("/services/scripted", api_key="sk-ant-somebody") == "UNAUTHORIZED"
    assert call_outcome("/services/scripted", api_key=key) == "answered"
    assert call_outcome(f"/services/scripted?api_key={key}") == "answered"
    assert call_outcome(f"/services/scripted?api_key={key}", api_key="sk-ant-somebody") == "UNAUTHORIZED"
    assert not any("api_key" in line or key in line for line in server.lines)


def test_a_socket_accepts_payloads_up_to_the_body_limit(server: ServerProcess, http: httpx.Client) -> None:
    large = {**PAYLOAD, "content": "\u4e16" * 700_000, "script": [{"text": "Read."}]}  # As JSON it has 4.2 MB.
    too_large = {**PAYLOAD, "more": ["x" * (4 * 1024 * 1024)] * 2}
    with open_socket(server, "/services/scripted") as line:
        accepted, refused = call_socket(line, large)[-1]["data"], call_socket(line, too_large)[-1]["data"]

    assert accepted["response"] == "Read."
    assert accepted["history"][0]["content"] == large["content"]
    assert (refused["code"], refused["type"]) == (413, "TOO_LARGE")
    assert http.post("/services/scripted", json=too_large).json() == refused


def test_a_payload_far_over_the_body_limit_closes_the_socket(server: ServerProcess) -> None:
    too_large = {**PAYLOAD, "more": "x" * (8 * 1024 * 1024 + 2048)}
    with open_socket(server, "/services/scripted") as line, pytest.raises(ConnectionClosedError) as closed:
        call_socket(line, too_large)

    # A client that is still sending may be cut off before it can read the reason.
    assert closed.value.rcvd is None or closed.value.rcvd.code == 1009
