"""Sync code that blocks, misbehaves or never returns does not stall other runs."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from tests.faults.rounds import round_count
from tests.server_process import server_process

HOSTILE_WORKFLOWS = """
import os
import sys
import threading
import time
from palaver import chat, workflow
from palaver.testing import echo

@workflow
def sleeper(seconds: float) -> str:
    time.sleep(seconds)
    return "slept"

@workflow
def quitter() -> str:
    sys.exit(3)

@workflow
def waiter(gate: str) -> str:
    while not os.path.exists(gate):
        time.sleep(0.01)
    return "waited"

@workflow
def spinner(gate: str) -> int:
    turns = 0
    while turns % 100_000 or not os.path.exists(gate):
        turns += 1
    return turns

@workflow
def leaver() -> str:
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    return "left a thread behind"

@chat
def shouter(messages, ctx):
    while not ctx.cancelled:
        yield "x" * 1000
"""


def test_a_blocking_workflow_does_not_delay_another_one(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with (
        server_process(tmp_path, HOSTILE_WORKFLOWS) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http,
        ThreadPoolExecutor(4) as pool,
    ):
        slow = [pool.submit(_call, server.url, "waiter", {"gate": str(gate)}) for _ in range(4)]
        while "palaver_runs_alive 4.0" not in http.get("/metrics").text:
            time.sleep(0.01)
        for _ in range(round_count(50, 500)):  # If a call had to wait for a blocked one, its client would time out.
            assert http.post("/echo/invoke", json={"inputs": {"a": 1}}).json() == {"a": 1}
        gate.touch()
        answers = [future.result() for future in slow]

    assert answers == ["waited"] * 4


def test_misbehaving_workflows_do_not_affect_the_server(tmp_path: Path) -> None:
    with (
        server_process(tmp_path, HOSTILE_WORKFLOWS) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http,
    ):
        quit_ = http.post("/quitter/invoke", json={"inputs": {}})
        response = http.post("/leaver/invoke", json={"inputs": {}})
        with ThreadPoolExecutor(1) as pool:
            spinning = pool.submit(_call, server.url, "spinner", {"gate": str(tmp_path / "gate")})
            while "palaver_runs_alive 1.0" not in http.get("/metrics").text:
                time.sleep(0.01)
            assert http.get("/health").status_code == 200
            (tmp_path / "gate").touch()
            assert spinning.result() > 0

    assert (quit_.status_code, quit_.json()["status"]["type"]) == (500, "workflow_failed")
    assert response.json() == "left a thread behind"


def test_a_disconnecting_client_ends_a_sync_generator_and_frees_its_thread(tmp_path: Path) -> None:
    body = {"messages": [], "flags": {"stream": True}}
    with server_process(tmp_path, HOSTILE_WORKFLOWS, threads="2") as server:
        with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http:
            for _ in range(round_count(6, 50)):
                with http.stream("POST", "/shouter/invoke", json=body) as answer:
                    assert next(answer.iter_lines())
        assert _call(server.url, "sleeper", {"seconds": 0}) == "slept"  # A thread is free again.
        assert server.stop() == 0


def _call(url: str, name: str, inputs: dict[str, Any]) -> Any:
    return httpx.post(f"{url}/{name}/invoke", json={"inputs": inputs}, timeout=120, trust_env=False).json()
