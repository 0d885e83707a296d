"""Thousands of recorded runs, cancellations and errors: files, threads, tasks and memory level off."""

import asyncio
import random
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.faults.rounds import round_count
from tests.faults.stream_clients import PROTOCOLS, StreamClient, counting_script
from tests.server_process import ServerProcess, server_process

WORKFLOWS_SOURCE = """
import asyncio
import gc
import os
import threading
from pathlib import Path
from palaver import workflow
from palaver.testing import scripted

@workflow
async def left_behind():
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "tasks": len(asyncio.all_tasks()),
        "threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")),
        "kib": pages * os.sysconf("SC_PAGE_SIZE") // 1024,
    }
"""

CONCURRENCY = 16
SHORT_SCRIPT = counting_script(3, 0)
LONG_SCRIPT = counting_script(1000, 0.05)


def test_resources_do_not_grow_with_the_number_of_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    settings = {"rate_per_minute": "0", "db": str(tmp_path / "palaver.db")}
    with server_process(tmp_path, WORKFLOWS_SOURCE, **settings) as server:
        samples = asyncio.run(sample_resources(server, round_count(1_000, 10_000)))
        assert server.stop() == 0
    sys.stdout.write(f"{samples}\n")

    first, *_, last = samples[1:]  # Before that, caches fill.
    assert last["files"] <= first["files"] + CONCURRENCY  # Some are connections that stay open.
    assert last["threads"] <= first["threads"] + 2
    assert last["tasks"] <= first["tasks"] + 2
    assert last["kib"] - first["kib"] < 0.15 * first["kib"]
    assert list(temporary.iterdir()) == []


async def sample_resources(server: ServerProcess, runs: int) -> list[dict[str, int]]:
    """Return the resources of the server before, and after each quarter of the runs."""
    chance = random.Random(runs)
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as http:
        samples = [await idle_resources(http)]
        for _ in range(4):
            remaining = iter(range(runs // 4))
            await asyncio.gather(*(run_random_actions(server, http, remaining, chance) for _ in range(CONCURRENCY)))
            samples.append(await idle_resources(http))
    return samples


async def idle_resources(http: httpx.AsyncClient) -> dict[str, int]:
    """Return the resources once every run has ended: abandoned ones end a moment later."""
    async with asyncio.timeout(60):
        while "palaver_runs_alive 0.0" not in (await http.get("/metrics")).text:  # noqa: ASYNC110 - it is polled
            await asyncio.sleep(0.1)
        await asyncio.sleep(1.5)  # The stream monitor runs once more before it stops.
    return (await http.post("/left_behind/invoke", json={})).json()


async def run_random_actions(
    server: ServerProcess, http: httpx.AsyncClient, remaining: Any, chance: random.Random
) -> None:
    actions = [read_response, read_stream, run_failing_script, disconnect_midway, cancel_run, send_invalid]
    for _ in remaining:
        await chance.choice(actions)(server, http, chance)


async def read_response(_: ServerProcess, http: httpx.AsyncClient, __: random.Random) -> None:
    answer = await http.post("/scripted/v1/responses", json={"model": "scripted", "input": SHORT_SCRIPT})
    assert answer.json()["status"] == "completed"


async def read_stream(server: ServerProcess, _: httpx.AsyncClient, chance: random.Random) -> None:
    name = chance.choice(list(PROTOCOLS))
    reader = StreamClient(name, PROTOCOLS[name].body(SHORT_SCRIPT))
    await reader.read(server.port)
    assert (reader.text, reader.ended) == ("0 1 2 ", True)


async def run_failing_script(_: ServerProcess, http: httpx.AsyncClient, __: random.Random) -> None:
    body = {"messages": [{"role": "user", "content": '[{"text":"one"},{"raise":"broken"}]'}]}
    assert (await http.post("/scripted/invoke", json=body)).status_code == 500


async def disconnect_midway(server: ServerProcess, _: httpx.AsyncClient, chance: random.Random) -> None:
    """Disconnect in the middle of a stream."""
    name = chance.choice(["responses", "chat_completions", "invoke"])
    reader = StreamClient(name, PROTOCOLS[name].body(LONG_SCRIPT))
    with suppress(TimeoutError):
        async with asyncio.timeout(chance.uniform(0.02, 0.2)):
            await reader.read(server.port)


async def cancel_run(_: ServerProcess, http: httpx.AsyncClient, __: random.Random) -> None:
    body = {"model": "scripted", "input": LONG_SCRIPT, "background": True}
    response = (await http.post("/v1/responses", json=body)).json()
    answer = await http.post(f"/v1/responses/{response['id']}/cancel")
    assert answer.json()["status"] == "cancelled"


async def send_invalid(_: ServerProcess, http: httpx.AsyncClient, chance: random.Random) -> None:
    body = msgspec.json.encode({"model": "nobody", "input": SHORT_SCRIPT})[: chance.randrange(5, 200)]
    answer = await http.post("/v1/responses", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 404)
