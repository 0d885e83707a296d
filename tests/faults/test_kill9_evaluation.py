"""kill -9 of a server or worker during an evaluation: the rest is run, and no recorded cell runs again.

The workflow counts its calls in a file for each cell. Cells that were recorded when a process is killed must not be
called again. Others may be, but only those that were in flight.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from palaver.evaluation.plan.plan import PlannedEvaluator
from palaver.storage.database import Database, open_database
from palaver.storage.evaluations import repository as evaluations
from tests.evaluation.runner.local_server import plan, store_evaluation, variant
from tests.faults.rounds import IS_FULL_RUN, round_count
from tests.storage.evaluation_factory import load_cell_rows, load_score_rows

SOURCE = """
import asyncio, os
from pathlib import Path
from palaver import chat

CALLS = Path(os.environ["CALLS"])

@chat
async def counted(messages):
    text = messages[-1]["content"]
    with (CALLS / text).open("ab") as file:
        file.write(b"x")
    await asyncio.sleep(0.06)
    return text
"""

CASE_COUNT = 2_000 if IS_FULL_RUN else 300
CONCURRENCY = 10
EVALUATORS = [PlannedEvaluator(key=key, name=key) for key in ("exact_match", "contains")]
ENVIRONMENT = {"PALAVER_TRACE_CONTENT": "off", "PALAVER_HEARTBEAT_SECONDS": "0.2"}
MAX_REPEATS_PER_KILL = 5 * CONCURRENCY
"""Cells that a kill may repeat: those being called, and those whose result waits to be recorded."""


@pytest.fixture(params=["file", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "palaver.db") if request.param == "file" else request.getfixturevalue("postgres_url")


class Process:
    """A server or a worker, which can be killed and started again."""

    def __init__(self, kind: str, folder: Path, url: str) -> None:
        self.kind = kind
        options = ["--port", "0"] if kind == "serve" else []
        self._command = [sys.executable, "-m", "palaver.cli", kind, "served_app.py", "--db", url, *options]
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environment = {**os.environ, **ENVIRONMENT, "CALLS": str(self._folder / "calls")}
        log_path = self._folder / f"{self.kind}.log"
        with log_path.open("w") as log:
            self._process = subprocess.Popen(self._command, stderr=log, env=environment, cwd=self._folder)
        end = time.monotonic() + 30
        while not any(
            line.startswith(("Serving at", "Processing")) for line in log_path.read_text("utf-8").splitlines()
        ):
            assert time.monotonic() < end, log_path.read_text("utf-8")
            time.sleep(0.02)

    def kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)
            self._process.wait(60)
            self._process = None


@contextmanager
def running_processes(folder: Path, url: str) -> Iterator[Sequence[Process]]:
    (folder / "served_app.py").write_text(SOURCE, encoding="utf-8")
    (folder / "calls").mkdir()
    processes = [Process("serve", folder, url), Process("worker", folder, url)]
    try:
        for process in processes:
            process.start()
        yield processes
    finally:
        for process in processes:
            process.kill()


def rows() -> list[dict[str, Any]]:
    """Return cases, of which every third expects another answer than it gets."""
    return [
        {"messages": f"case-{number}", "expected": f"case-{number}" if number % 3 else "another"}
        for number in range(CASE_COUNT)
    ]


def count_calls(folder: Path) -> dict[int, int]:
    """Return how often each cell was called."""
    return {int(file.name.removeprefix("case-")): file.stat().st_size for file in (folder / "calls").iterdir()}


async def recorded_cells(database: Database) -> set[int]:
    return {row[0] for row in await database.read(load_cell_rows, "default", "ev_1")}


async def await_recorded_cells(database: Database, count: int, *, within: float) -> set[int]:
    """Return the recorded cells once there are `count` of them."""
    end = time.monotonic() + within
    while len(results := await recorded_cells(database)) < count:
        assert time.monotonic() < end, f"{len(results)} cells are recorded, {count} were waited for"
        await asyncio.sleep(0.02)
    return results


async def test_no_recorded_cell_runs_again_after_a_kill(url: str, tmp_path: Path) -> None:
    chance = random.Random(time.time_ns())
    kills = round_count(2, 10)
    database = open_database(url)
    await database.write(
        store_evaluation, "ev_1", plan(variant("counted"), evaluators=EVALUATORS, concurrency=CONCURRENCY), rows()
    )
    observations: list[tuple[set[int], dict[int, int]]] = []
    try:
        with running_processes(tmp_path, url) as processes:
            for number in range(kills):
                share = (number + chance.uniform(0.2, 0.8)) / (kills + 1)
                await await_recorded_cells(database, int(CASE_COUNT * share), within=60)
                killed = processes[number % 2]
                killed.kill()
                stored = await recorded_cells(database)
                observations.append((stored, count_calls(tmp_path)))
                killed.start()
                await await_recorded_cells(database, min(CASE_COUNT, len(stored) + 1), within=10)
            await await_recorded_cells(database, CASE_COUNT, within=120)
            await asyncio.sleep(0.5)  # Time for cells that would wrongly run again.
        evaluation = await database.read(evaluations.get_evaluation, "default", "ev_1")
        scores = await database.read(load_score_rows, "default", "ev_1")
    finally:
        await database.close()

    final_calls = count_calls(tmp_path)
    for stored, call_counts in observations:
        assert {cell: final_calls[cell] for cell in stored} == {cell: call_counts[cell] for cell in stored}
    repeated_calls = sum(final_calls.values()) - CASE_COUNT
    sys.stdout.write(f"{CASE_COUNT} cells, {kills} kills, {repeated_calls} calls were made again.\n")
    assert 0 <= repeated_calls <= kills * MAX_REPEATS_PER_KILL
    assert (evaluation.state, evaluation.done, evaluation.failed, evaluation.errors) == ("succeeded", CASE_COUNT, 0, 0)
    passed = [(evaluator, cell, cell % 3 != 0) for cell in range(CASE_COUNT) for evaluator in range(2)]
    assert [(row[0], row[2], row[4]) for row in scores] == passed
    assert sorted(final_calls) == list(range(CASE_COUNT))
