"""SIGTERM: no new runs, all open streams end framed, a second signal ends them at once; exit code 0."""

import asyncio
import signal
import time
from contextlib import suppress
from pathlib import Path

import httpx
import msgspec
import pytest

from tests.faults.stream_clients import StreamClient, counting_script, make_clients, read_streams
from tests.server_process import ServerProcess, server_process

SLOW_BODY = {
    "messages": [],
    "flags": {"stream": True},
    "inputs": {"script": [{"text": "one "}, {"sleep": 60}, {"text": "two"}]},
}
SHORT_BODY = {
    "messages": [],
    "flags": {"stream": True},
    "inputs": {"script": [{"text": "one "}, {"sleep": 1}, {"text": "two"}]},
}


def stop_during_stream(
    server: ServerProcess, body: object, *signals: int
) -> tuple[list[dict[str, object]], int, float]:
    """Stop the server during a stream; return the stream's records, the exit code, and the seconds it took."""
    with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http:
        with http.stream("POST", "/scripted/invoke", json=body) as answer:
            lines = answer.iter_lines()
            received = [next(lines)]
            start = time.monotonic()
            for sign in signals:
                server.process.send_signal(sign)
                time.sleep(0.3)
            with suppress(httpx.HTTPError):
                received += list(lines)
        code = server.process.wait(60)
        return [msgspec.json.decode(line) for line in received], code, time.monotonic() - start


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_nearly_done_finishes_before_the_server_stops(tmp_path: Path, sign: int) -> None:
    with server_process(tmp_path) as server:
        received, code, _ = stop_during_stream(server, SHORT_BODY, sign)

    assert [record["type"] for record in received][-1] == "done"
    assert received[-1]["data"]["stopReason"] == "stop"  # type: ignore[index]
    assert code == 0


def test_a_run_that_takes_too_long_is_ended_with_a_terminal_record(tmp_path: Path) -> None:
    with server_process(tmp_path, shutdown_seconds="1") as server:
        received, code, seconds = stop_during_stream(server, SLOW_BODY, signal.SIGTERM)

    assert received[-2] == {
        "type": "error",
        "data": {"code": "shutting_down", "message": "The server is shutting down."},
    }
    assert received[-1]["type"] == "done"
    assert (code, seconds < 20) == (0, True)


def test_a_second_signal_ends_streams_and_server_at_once(tmp_path: Path) -> None:
    with server_process(tmp_path) as server:
        received, code, seconds = stop_during_stream(server, SLOW_BODY, signal.SIGTERM, signal.SIGTERM)

    assert [record["type"] for record in received] == ["message_start", "message_delta", "message_end", "error", "done"]
    assert (code, seconds < 20) == (0, True)


UNWILLING = """
import asyncio
import time
from palaver import chat, workflow

@workflow
async def slow(text: str) -> str:
    await asyncio.sleep(600)
    return text

@chat
async def polite(messages):
    yield "Wait."
    await asyncio.sleep(600)

@chat
async def stubborn(messages):
    yield "Wait."
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass

@chat
def blocked(messages):
    yield "Wait."
    time.sleep(600)

@chat
async def flood(messages):
    while True:
        yield "x" * 10_000
        await asyncio.sleep(0)
"""
STREAMS = {
    "/polite/v1/responses": {"input": "Hi.", "stream": True},
    "/stubborn/v1/responses": {"input": "Hi.", "stream": True},
    "/blocked/v1/responses": {"input": "Hi.", "stream": True},
    "/polite/api/chat": {"messages": []},
    "/polite/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi."}], "stream": True},
}


@pytest.mark.parametrize("signals", [1, 2])
def test_every_open_stream_ends_framed_whatever_its_workflow_does(tmp_path: Path, signals: int) -> None:
    grace = "1" if signals == 1 else "300"
    with server_process(tmp_path, UNWILLING, shutdown_seconds=grace, background_runs="1") as server:
        lines = asyncio.run(stop_during_streams(server, signals))
        start = time.monotonic()
        code = server.process.wait(60)

    last_lines = {path: received[-1] for path, received in lines.items()}
    running, queued, progress = last_lines.popitem(), last_lines.popitem(), last_lines.popitem()
    assert last_lines == dict.fromkeys(STREAMS, "data: [DONE]")
    assert '"code":"shutting_down"' in lines["/stubborn/v1/responses"][-2]
    assert (running[1], queued[1]) == ("data: [DONE]", "data: [DONE]")
    assert progress[1].startswith('data: {"type":"progress","done":0,')
    assert (code, time.monotonic() - start < 30) == (0, True)
    assert [line for line in server.lines if "Traceback" in line or '"error"' in line] == []


async def stop_during_streams(server: ServerProcess, signals: int) -> dict[str, list[str]]:
    """Stop the server during streams of several kinds, one of them not read; return the lines of the others by path.

    The last ones: the events of an evaluation, a queued background run, and one that is running.
    """
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as http:
        testset = (await http.post("/api/testsets", json={"name": "One", "rows": [{"data": {"text": "Hi."}}]})).json()
        evaluation = {
            "name": "Slow",
            "testset": {"id": testset["id"]},
            "variants": [{"name": "slow", "workflow": "slow"}],
            "evaluators": [{"key": "latency_budget", "parameters": {"max_seconds": 2}}],
        }
        evaluation = (await http.post("/api/evaluations", json=evaluation)).json()
        background = {"input": "Hi.", "background": True}
        responses = [(await http.post("/polite/v1/responses", json=background)).json()["id"] for _ in range(2)]
        followed = [f"/v1/responses/{response}?stream=true" for response in responses]
        paths = [*STREAMS, f"/api/evaluations/{evaluation['id']}/events", *reversed(followed)]
        lines: dict[str, list[str]] = {path: [] for path in paths}

        async def read(path: str) -> None:
            body = STREAMS.get(path)
            async with http.stream("POST" if body else "GET", path, json=body) as response:
                async for line in response.aiter_lines():
                    if line:
                        lines[path].append(line)

        async with http.stream("POST", "/flood/v1/responses", json={"input": "Hi.", "stream": True}):
            readers = [asyncio.ensure_future(read(path)) for path in paths]
            # The stream of the queued run begins with the run.
            while not all(lines[path] for path in paths if path != followed[1]):  # noqa: ASYNC110 - no event to await
                await asyncio.sleep(0.01)
            for _ in range(signals):
                server.process.send_signal(signal.SIGTERM)
                await asyncio.sleep(0.3)
            await asyncio.gather(*readers)
        return lines


def test_an_idle_server_stops_at_once(tmp_path: Path) -> None:
    with server_process(tmp_path) as server:
        start = time.monotonic()
        code = server.stop()

    assert (code, time.monotonic() - start < 10) == (0, True)


# Stored runs


def test_new_runs_are_refused_and_running_ones_finish_and_are_stored(tmp_path: Path) -> None:
    database = str(tmp_path / "palaver.db")
    readers = make_clients([counting_script(150, 0.02)] * 8)
    with server_process(tmp_path, db=database) as server:
        refused = asyncio.run(stop_while_reading(server, readers))
        assert server.process.wait(60) == 0
    with server_process(tmp_path, db=database) as server, httpx.Client(base_url=server.url, trust_env=False) as http:
        stored = [stored_outcome(http, reader) for reader in readers]

    full_text = "".join(f"{number} " for number in range(150))
    assert set(refused) <= {(503, "1"), (0, None)}  # Or the connection is not accepted.
    assert [reader.ended for reader in readers] == [True] * 8
    assert [reader.text for reader in readers] == [full_text] * 8
    assert stored == [("finished", None, full_text)] * 8


def test_a_run_that_took_too_long_is_stored_as_it_was_streamed(tmp_path: Path) -> None:
    database = str(tmp_path / "palaver.db")
    readers = make_clients([counting_script(3000, 0.02)] * 8)
    with server_process(tmp_path, db=database, shutdown_seconds="1") as server:
        asyncio.run(stop_while_reading(server, readers))
        assert server.process.wait(60) == 0
    with server_process(tmp_path, db=database) as server, httpx.Client(base_url=server.url, trust_env=False) as http:
        stored = [stored_outcome(http, reader) for reader in readers]

    assert [reader.ended for reader in readers] == [True] * 8
    assert stored == [("failed", "shutting_down", reader.text) for reader in readers]


@pytest.mark.parametrize("where", ["file", "postgresql"])
def test_runs_ended_by_a_second_signal_are_stored_as_they_were_streamed(
    tmp_path: Path, where: str, request: pytest.FixtureRequest
) -> None:
    database = str(tmp_path / "palaver.db") if where == "file" else request.getfixturevalue("postgres_url")
    readers = make_clients([counting_script(3000, 0.02)] * 8)
    with server_process(tmp_path, db=database) as server:
        background_id = start_background_run(server)
        start = time.monotonic()
        asyncio.run(stop_while_reading(server, readers, again=True))
        assert server.process.wait(60) == 0
        seconds = time.monotonic() - start
    with server_process(tmp_path, db=database) as server, httpx.Client(base_url=server.url, trust_env=False) as http:
        stored = [stored_outcome(http, reader) for reader in readers]
        background = http.get(f"/v1/responses/{background_id}").json()

    assert seconds < 15
    assert [reader.ended for reader in readers] == [True] * 8
    assert stored == [("failed", "shutting_down", reader.text) for reader in readers]
    assert (background["status"], background["incomplete_details"]) == ("incomplete", {"reason": "interrupted"})


SOURCE = """
import asyncio
from palaver import chat

async def counting():
    for number in range(30):
        yield f"{number} "
        await asyncio.sleep(0.1)

@chat(idempotent=True)
def again(messages):
    return counting()

@chat
def once(messages):
    return counting()
"""


def test_slow_background_runs_restart_if_idempotent_and_are_interrupted_otherwise(tmp_path: Path) -> None:
    database, full_text = str(tmp_path / "palaver.db"), "".join(f"{number} " for number in range(30))
    with (
        server_process(tmp_path, SOURCE, db=database, shutdown_seconds="0.2") as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http,
    ):
        body = {"input": "Count.", "background": True}
        response_ids = [http.post(f"/{name}/v1/responses", json=body).json()["id"] for name in ("again", "once")]
        start = time.monotonic()
        while not all(run_text(http, name) for name in response_ids):
            assert time.monotonic() - start < 60
            time.sleep(0.05)
        assert server.stop() == 0
    with (
        server_process(tmp_path, SOURCE, db=database) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http,
    ):
        while (background := [http.get(f"/v1/responses/{name}").json() for name in response_ids])[0][
            "status"
        ] != "completed":
            assert (background[0]["status"] in ("queued", "in_progress"), time.monotonic() - start < 60) == (True, True)
            time.sleep(0.05)
        texts = [run_text(http, name) for name in response_ids]

    assert [(one["status"], one["incomplete_details"]) for one in background] == [
        ("completed", None),
        ("incomplete", {"reason": "interrupted"}),
    ]
    assert texts[0] == full_text
    assert (full_text.startswith(texts[1]), texts[1] in ("", full_text)) == (True, False)


def run_text(http: httpx.Client, response: str) -> str:
    run = http.get(f"/api/runs/{response.replace('resp_', 'run_')}", params={"include": "reply"}).json()
    return "".join(part["text"] for message in run["reply"]["messages"] for part in message["parts"])


async def stop_while_reading(
    server: ServerProcess, readers: list[StreamClient], *, again: bool = False
) -> list[tuple[int, str | None]]:
    """Stop the server once all clients read; return how it answers new requests from then on."""
    answers: list[tuple[int, str | None]] = []
    body = {"model": "scripted", "input": "Hi."}
    async with (
        httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as http,
        read_streams(server, readers),
    ):
        (
            await http.post("/v1/responses", json=body)
        ).raise_for_status()  # A connection that is open when the signal comes.
        while not all(reader.pieces for reader in readers):  # noqa: ASYNC110 - there is no event to await
            await asyncio.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.3)
        if again:
            server.process.send_signal(signal.SIGTERM)
        for _ in range(4):
            try:
                answer = await http.post("/v1/responses", json=body)
                answers.append((answer.status_code, answer.headers.get("retry-after")))
            except httpx.HTTPError:
                answers.append((0, None))
    return answers


def start_background_run(server: ServerProcess) -> str:
    body = {"model": "scripted", "input": counting_script(3000, 0.02), "background": True}
    return httpx.post(f"{server.url}/v1/responses", json=body, trust_env=False, timeout=60).json()["id"]


def stored_outcome(http: httpx.Client, reader: StreamClient) -> tuple[str, str | None, str]:
    """Return the status, error code and text of its stored run."""
    run = http.get(f"/api/runs/{reader.run}", params={"include": "reply"}).json()
    text = "".join(part["text"] for message in run["reply"]["messages"] for part in message["parts"])
    return run["status"], (run["error"] or {}).get("code"), text
