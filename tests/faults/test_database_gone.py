"""A database outage: runs are refused, streams end with valid framing, and the server recovers by itself."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from palaver.errors import Overloaded
from palaver.storage import background_runs, sqlite
from palaver.storage.database import open_database
from tests.faults.rounds import IS_FULL_RUN, round_count
from tests.faults.stream_clients import PROTOCOLS, StreamClient, counting_script, make_clients, read_streams
from tests.postgres import Postgres
from tests.server_process import ServerProcess, server_process

WORDS_PER_RUN = {"short": 100, "long": 500}
"""Words per run, 10 ms each: short runs end while the database is down, long ones after it is back."""


def counted_text(word_count: int) -> str:
    return "".join(f"{number} " for number in range(word_count))


def make_run_clients() -> list[StreamClient]:
    """Make clients of every protocol, for short and for long runs, and one of a background run."""
    body = {
        "model": "scripted",
        "input": counting_script(WORDS_PER_RUN["long"], 0.01),
        "stream": True,
        "background": True,
    }
    short, long = ([counting_script(WORDS_PER_RUN[length], 0.01)] * 4 for length in WORDS_PER_RUN)
    return [*make_clients([*short, *long]), StreamClient("responses", body)]


async def read_during_outage(
    server: ServerProcess, readers: list[StreamClient], cause_outage: Callable[[threading.Event], None]
) -> list[Any]:
    """Take the database down while the clients read, check that runs are refused, and bring it back."""
    started = threading.Event()
    async with read_streams(server, readers):
        while not all(reader.pieces for reader in readers):  # noqa: ASYNC110 - there is no event to await
            await asyncio.sleep(0.01)
        outage = asyncio.create_task(asyncio.to_thread(cause_outage, started))
        try:
            answers = [await await_refusal(server, name) for name in PROTOCOLS]
        finally:
            started.set()
            await outage
    return answers


async def await_refusal(server: ServerProcess, name: str) -> tuple[int, str | None]:
    """Return how a call is refused; the first may succeed, as only a write notices the outage."""
    protocol = PROTOCOLS[name]
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as http:
        answer = await http.post(protocol.path, json=protocol.body("Hi."))
        for _ in range(500):
            if answer.status_code != 200:
                break
            await asyncio.sleep(0.02)
            answer = await http.post(protocol.path, json=protocol.body("Hi."))
        assert (await http.get("/health")).status_code == 200
    return answer.status_code, answer.headers.get("retry-after")


def await_recovery(http: httpx.Client) -> None:
    end = time.monotonic() + 30
    body = {"model": "scripted", "input": "Again."}
    while (answer := http.post("/v1/responses", json=body)).status_code != 200:
        assert (answer.status_code, time.monotonic() < end) == (503, True), answer.text
        time.sleep(0.1)
    stored_response = http.get(f"/v1/responses/{answer.json()['id']}").json()
    assert (stored_response["status"], stored_response["output"][0]["content"][0]["text"]) == ("completed", "Again.")
    while running := http.get("/api/runs", params={"status": "running"}).json()["data"]:
        assert time.monotonic() < end, running
        time.sleep(0.1)


def check_stored_runs(http: httpx.Client, readers: list[StreamClient]) -> list[str]:
    """Check that each run is stored as its client received it; return how the runs ended."""
    statuses: list[str] = []
    for reader in readers:
        run = http.get(f"/api/runs/{reader.run}", params={"include": "reply"}).json()
        text = "".join(part["text"] for message in run["reply"]["messages"] for part in message["parts"])
        assert (reader.ended, text) == (True, reader.text)
        if "its outcome could not be stored" in str(reader.frames[-3:]):
            assert (run["status"], run["error"]["code"]) == ("failed", "overloaded")
        else:
            assert run["status"] == "finished"
        statuses.append(run["status"])
    return statuses


@pytest.mark.parametrize("how", ["stop", "kill"] if IS_FULL_RUN else ["kill"])
def test_a_postgresql_restart_refuses_new_runs_and_long_runs_finish(
    postgres: Postgres, postgres_url: str, how: str, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()

    def cause_outage(_: threading.Event) -> None:
        getattr(postgres, how)()
        time.sleep(2)  # Twice as long as a process without a heartbeat counts as alive.
        postgres.start()

    with (
        server_process(tmp_path, db=postgres_url, heartbeat_seconds="0.2", rate_per_minute="0") as server,
        server_process(tmp_path / "other", db=postgres_url, heartbeat_seconds="0.2", rate_per_minute="0") as other,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http,
    ):
        for _ in range(round_count(1, 10)):
            readers = make_run_clients()

            answers = asyncio.run(read_during_outage(server, readers, cause_outage))

            assert answers == [(503, "1")] * 4
            await_recovery(http)
            statuses = check_stored_runs(http, readers)
            assert "failed" in statuses[:4]
            assert statuses[4:] == ["finished"] * 5  # None was taken for dead.
            assert {reader.text for reader in readers[4:]} == {counted_text(WORDS_PER_RUN["long"])}
        assert (other.stop(), server.stop()) == (0, 0)


def test_a_locked_sqlite_file_refuses_runs_until_it_is_unlocked(tmp_path: Path) -> None:
    path = tmp_path / "palaver.db"

    def cause_outage(started: threading.Event) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as file:
            file.execute("BEGIN IMMEDIATE")
            started.wait(60)  # Several writers may time out in turn: no fixed time is surely long enough.
            file.execute("ROLLBACK")

    with (
        server_process(tmp_path, db=str(path), rate_per_minute="0") as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http,
    ):
        stored = http.post("/v1/responses", json={"model": "scripted", "input": "Kept."}).json()
        for _ in range(round_count(1, 5)):
            readers = make_run_clients()

            answers = asyncio.run(read_during_outage(server, readers, cause_outage))

            assert answers == [(503, "1")] * 4
            assert http.get(f"/v1/responses/{stored['id']}").json() == stored
            await_recovery(http)
            check_stored_runs(http, readers)
        assert server.stop() == 0


@pytest.mark.anyio
async def test_concurrent_writes_to_a_locked_file_time_out_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 1)
    path = tmp_path / "palaver.db"
    database = open_database(str(path))
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("BEGIN IMMEDIATE")
        start = time.monotonic()
        writing = (database.write(background_runs.remove_processes, ["nobody"]) for _ in range(20))
        results = await asyncio.gather(*writing, return_exceptions=True)
        seconds = time.monotonic() - start
        file.execute("ROLLBACK")
    await database.write(background_runs.remove_processes, ["nobody"])
    await database.close()

    assert {type(error) for error in results} == {Overloaded}
    assert seconds < 10  # The first write, then all others together; one after the other they would take 20 s.
