"""kill -9 while 200 streams are open: after a restart every run has ended, with its logged output.

Events are sent before they are logged, so up to a tenth of a second of output may be missing, for which a busy machine
is allowed a second here. Runs whose end was sent are complete.
"""

import asyncio
import random
import sqlite3
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.faults.rounds import round_count
from tests.faults.stream_clients import StreamClient, counting_script, make_clients, read_streams
from tests.server_process import ServerProcess, server_process

SOURCE = """
import asyncio
from palaver import chat
from palaver.testing import scripted

async def counting():
    for number in range(20):
        yield f"{number} "
        await asyncio.sleep(0.05)

@chat(idempotent=True)
def again(messages):
    return counting()

@chat
def once(messages):
    return counting()
"""

STREAM_COUNT = 200
PAUSE_S = 0.1
MAX_LOSS_S = 1.0
"""Seconds of output before the kill that may be lost: a tenth of one, and a margin for a busy machine."""
BACKGROUND_WORKFLOWS = ["again", "once", "once", "again", "once", "again", "once", "again"]


@pytest.fixture(params=["file", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "palaver.db") if request.param == "file" else request.getfixturevalue("postgres_url")


@dataclass
class ServerActivity:
    """The activity when the server was killed."""

    readers: list[StreamClient]
    wanted: list[str]
    """The complete text of each reader's run."""
    talks: list[tuple[str, StreamClient]]
    """Conversations, each with the client that was reading an answer."""
    waiting: list[tuple[str, str]]
    """Background runs: workflow and response id."""
    at: float = 0.0


def test_runs_survive_a_kill_of_the_server(url: str, tmp_path: Path) -> None:
    chance = random.Random(time.time_ns())
    before: ServerActivity | None = None
    lost, ended, started_count = [0.0], 0, 0
    for _ in range(round_count(2, 50) + 1):
        with server_process(
            tmp_path, SOURCE, "--db", url, heartbeat_seconds="0.2", background_runs="4", rate_per_minute="0"
        ) as server:
            if before is not None:
                lost += check_after_restart(server, before)
                ended += sum(reader.ended for reader in before.readers)
                started_count += sum(bool(reader.run) for reader in before.readers)
            before = start_activity(server, chance)
            asyncio.run(
                kill_while_reading(server, before, chance.uniform(0.1 if lost[1:] else 1.5, 2.5))
            )  # First round: some ended.
    if Path(url).is_file():
        with closing(sqlite3.connect(url)) as file:
            assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

    sys.stdout.write(
        f"{started_count} runs, {ended} told to their end; of the others the last {max(lost):.3f} s were lost.\n"
    )
    assert 0 < ended < started_count  # Otherwise the rounds prove nothing.


def start_activity(server: ServerProcess, chance: random.Random) -> ServerActivity:
    """Start conversations and background runs, and prepare the streaming clients."""
    counts = [chance.randrange(1, 40) for _ in range(STREAM_COUNT)]
    with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http:
        talks = [_conversation_client(http.post("/v1/conversations", json={}).json()["id"]) for _ in range(4)]
        waiting = [(name, _start_background_run(http, name)) for name in BACKGROUND_WORKFLOWS]
    return ServerActivity(
        make_clients([counting_script(count, PAUSE_S) for count in counts]),
        list(map(_counted_text, counts)),
        talks,
        waiting,
    )


async def kill_while_reading(server: ServerProcess, activity: ServerActivity, delay: float) -> None:
    """Let all clients read, and kill the server after `delay` seconds."""
    async with read_streams(server, [*activity.readers, *(reader for _, reader in activity.talks)]):
        await asyncio.sleep(delay)
        server.process.kill()
        activity.at = asyncio.get_running_loop().time()


def _counted_text(word_count: int) -> str:
    return "".join(f"{number} " for number in range(word_count))


def _conversation_client(conversation: str) -> tuple[str, StreamClient]:
    body = {"model": "scripted", "input": counting_script(50, PAUSE_S), "stream": True, "conversation": conversation}
    return conversation, StreamClient("responses", body)


def _start_background_run(http: httpx.Client, name: str) -> str:
    response = http.post(f"/{name}/v1/responses", json={"input": "Count.", "background": True}).json()
    assert response["status"] in ("queued", "in_progress")
    return response["id"]


def check_after_restart(server: ServerProcess, before: ServerActivity) -> list[float]:
    """Check all runs on the restarted server; return the age in seconds of missing output."""
    lost: list[float] = []
    with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http:
        for name, response in before.waiting:
            _check_background_run(http, name, response)
        _await_idle(http)
        for number, (reader, wanted) in enumerate(zip(before.readers, before.wanted, strict=True)):
            lost.append(_check_stream(http, reader, wanted, before.at))
            if reader.protocol == "ui_stream":
                assert http.get(f"/scripted/api/chat/chat-{number}/stream").status_code == 204
        for conversation, reader in before.talks:
            lost.append(_check_stream(http, reader, _counted_text(50), before.at))
            body = {"model": "scripted", "input": "Once more.", "conversation": conversation}
            end = time.monotonic() + 30  # One claimed for a run that never started is released after a while.
            while (answer := http.post("/v1/responses", json=body)).status_code == 409 and time.monotonic() < end:
                time.sleep(0.1)
            assert (answer.status_code, answer.json().get("status")) == (200, "completed"), answer.text
    return lost


def _await_idle(http: httpx.Client) -> None:
    for status in ("queued", "running"):
        end = time.monotonic() + 30
        while active_runs := http.get("/api/runs", params={"status": status}).json()["data"]:
            assert time.monotonic() < end, active_runs
            time.sleep(0.1)


def _check_background_run(http: httpx.Client, name: str, response: str) -> None:
    """Check that it finished if it is idempotent; otherwise it may be incomplete, with its partial output."""
    end = time.monotonic() + 30
    while (current := http.get(f"/v1/responses/{response}").json())["status"] in ("queued", "in_progress"):
        assert time.monotonic() < end, current
        time.sleep(0.1)
    text = "".join(part["text"] for item in current["output"] for part in item["content"])
    if name == "again":
        assert (current["status"], text) == ("completed", _counted_text(20))
    elif current["status"] == "completed":
        assert text == _counted_text(20)
    else:
        assert (current["status"], current["incomplete_details"]) == ("incomplete", {"reason": "interrupted"})
        assert _counted_text(20).startswith(text)


def _check_stream(http: httpx.Client, reader: StreamClient, expected_text: str, killed_at: float) -> float:
    """Check that a run has ended with what its reader received; return the age in seconds of missing output."""
    if not reader.run:
        return 0.0  # Killed before it had an id.
    answer = http.get(f"/api/runs/{reader.run}", params={"include": "reply"})
    text = ""
    if answer.status_code == 200:
        run: Any = answer.json()
        text = "".join(part["text"] for message in run["reply"]["messages"] for part in message["parts"])
        assert (run["status"], text) == ("finished", expected_text) or (
            run["status"] == "interrupted" and expected_text.startswith(text) and not reader.ended
        ), (run, reader.text)
        assert run["ended_at"] is not None
        if reader.protocol == "responses":
            _check_replay(http, reader, run["status"], text)
    else:
        assert (answer.status_code, reader.ended) == (404, False)
    received, missing = 0, 0.0
    for at, piece in reader.pieces:
        received += len(piece)
        if received > len(text):
            missing = max(missing, killed_at - at)
    assert missing < MAX_LOSS_S, f"{reader.protocol}: {missing:.2f} s are lost of {reader.text!r}, kept: {text!r}"
    return missing


def _check_replay(http: httpx.Client, reader: StreamClient, status: str, text: str) -> None:
    """Check that the replayed stream ends with the same text, in the frames that the reader received."""
    name = reader.run.replace("run_", "resp_")
    replayed = StreamClient("responses", {}, status=200)
    for line in http.get(f"/v1/responses/{name}", params={"stream": "true"}).content.splitlines():
        replayed.take(line)
    stored_response = http.get(f"/v1/responses/{name}").json()
    assert (replayed.text, replayed.ended) == (text, True)
    assert stored_response["status"] == ("completed" if status == "finished" else "incomplete")
    assert msgspec.json.encode(stored_response["output"]) == msgspec.json.encode(
        replayed.frames[-1]["response"]["output"]
    )
    received, stored_count = (
        [frame for frame in client.frames if frame["type"] == "response.output_text.delta"]
        for client in (reader, replayed)
    )
    assert received[: len(stored_count)] == stored_count[: len(received)]
