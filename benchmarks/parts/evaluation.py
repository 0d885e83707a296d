"""Evaluations: 10,000 cells with three cheap evaluators, as anyone runs them, and a bare loop that keeps as many rows.

The test set is uploaded, the evaluation begun and its figures asked for over HTTP. What is counted is the whole server:
its runs, their traces, scores and results, in a SQLite file. In the end it is killed and started again.
"""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import machine, servers, workflows
from benchmarks.context import BenchmarkContext, MeasurementError
from benchmarks.figures import Figure, at_most
from benchmarks.servers import Server

CELLS, SETTLED_CELLS = 10_000, 1_000
"""Cells of the evaluation, and those after which memory is first looked at."""
_BATCH = 50
_TIMEOUT_S = 600.0
_EVALUATORS = [
    {"key": key, "parameters": {"target": "value.question"}} for key in ("exact_match", "contains", "levenshtein")
]


class EvaluationCost(msgspec.Struct, frozen=True):
    """How an evaluation went."""

    id: str
    seconds: float
    processor: float
    """Seconds of processor time, of the whole server."""
    settled: int
    """KiB that were resident when a tenth was done,"""
    last: int
    """and at the end."""


def measure(stand: BenchmarkContext) -> Iterator[Figure]:
    cells = stand.choose(full=CELLS, quick=200)
    bare = asyncio.run(_measure_bare_loop(stand.folder / "bare.db", cells))
    with _run_server(stand) as server:
        testset = _import_testset(server, _rows(cells))
        first = _run_evaluation(server, testset, cells)
        yield from _cost(first, cells, bare)
        second = _run_evaluation(server, testset, cells)
        once = _request_ms(server, f"/api/evaluations/{second.id}/summary")
        summary = _response_figure(server, f"/api/evaluations/{first.id}/summary", f"summary of {cells:,} × 3", 300)
        yield msgspec.structs.replace(summary, how=f"{summary.how}; {once:.0f} ms for the first one of a server")
        yield _cancel_figure(server, testset)
        left = _start_slow_evaluation(server, testset)
    since = time.perf_counter()  # It was killed.
    with _run_server(stand) as server:
        yield _resume_figure(server, left, since)
        compared = f"/api/evaluations/compare?base={first.id}&candidate={second.id}"
        told = _response_figure(server, compared, f"two evaluations of {cells:,} compared", 1_000)
        again = _request_ms(server, f"{compared}&margin=0.05")
        yield msgspec.structs.replace(told, how=f"{told.how}; {again:.0f} ms where only their scores were read before")


def _run_server(stand: BenchmarkContext) -> AbstractContextManager[Server]:
    place = stand.folder / "evaluated.db"
    return servers.run_palaver(stand, db=place, record="full", core=None, PALAVER_RATE_PER_MINUTE="0")


def _cost(ran: EvaluationCost, cells: int, bare: float) -> Iterator[Figure]:
    each = ran.processor / cells * 1000
    yield Figure(
        name=f"evaluation of {cells:,} cells",
        value=ran.seconds,
        unit="s",
        goal=at_most(60),
        how=f"echo, 3 evaluators, 10 at once, SQLite: {cells / ran.seconds:,.0f} cells/s from asking to the end",
    )
    yield Figure(
        name="evaluation, processor time of a cell",
        value=each - bare,
        unit="ms",
        goal=at_most(5),
        how=f"{each:.2f} ms of the whole server, with runs and traces, less {bare:.3f} ms of a bare loop that calls "
        f"the function and inserts {_BATCH} rows at a time",
    )
    yield Figure(
        name=f"evaluation, memory from cell {cells // 10:,} to {cells:,}",
        value=(ran.last - ran.settled) / 1024,
        unit="MB",
        goal=at_most(20),
        how=f"resident: {ran.settled / 1024:.0f} MB, then {ran.last / 1024:.0f} MB",
    )


def _response_figure(server: Server, path: str, name: str, most: float) -> Figure:
    processor = machine.processor_seconds(server.pid)
    first = _request_ms(server, path)
    spent = (machine.processor_seconds(server.pid) - processor) * 1000
    then = _request_ms(server, path)  # Figures of what has ended are kept.
    how = f"over HTTP, computed, {spent:.0f} ms of processor time; then {then:.1f} ms"
    return Figure(name=name, value=first, unit="ms", goal=at_most(most), how=how)


def _request_ms(server: Server, path: str) -> float:
    since = time.perf_counter()
    servers.request_json(server, "GET", path)
    return (time.perf_counter() - since) * 1000


def _cancel_figure(server: Server, testset: str) -> Figure:
    """An evaluation of a chat that never ends, ended."""
    asked = {
        "testset": {"id": testset, "rows": {"sample": 10}},
        "variants": [{"workflow": "idle"}],
        "evaluators": [{"key": "exact_match"}],
        "map": {"messages": "question"},
    }
    made = servers.request_json(server, "POST", "/api/evaluations", asked)["id"]
    while servers.request_json(server, "GET", f"/api/evaluations/{made}")["state"] != "running":
        time.sleep(0.02)
    time.sleep(0.5)
    since = time.perf_counter()
    servers.request_json(server, "POST", f"/api/evaluations/{made}/cancel", {})
    while servers.request_json(server, "GET", f"/api/evaluations/{made}")["state"] != "cancelled":
        time.sleep(0.01)
    return Figure(
        name="evaluation, cancelled",
        value=time.perf_counter() - since,
        unit="s",
        goal=at_most(1),
        how="from asking until ten calls that would never end have ended, and the evaluation with them",
    )


def _start_slow_evaluation(server: Server, testset: str) -> str:
    """One that takes its time, and is on its way."""
    asked = _evaluation_request(testset) | {"limits": {"rate": {"calls": 50, "seconds": 1}}}
    made = servers.request_json(server, "POST", "/api/evaluations", asked)["id"]
    while servers.request_json(server, "GET", f"/api/evaluations/{made}")["done"] < _BATCH:
        time.sleep(0.02)
    return made


def _resume_figure(server: Server, left: str, since: float) -> Figure:
    """How long it takes until one goes on whose server was killed and started again."""
    before = servers.request_json(server, "GET", f"/api/evaluations/{left}")["done"]
    while servers.request_json(server, "GET", f"/api/evaluations/{left}")["done"] <= before:
        if time.perf_counter() - since > _TIMEOUT_S:
            raise MeasurementError("the evaluation did not go on after its server was killed")
        time.sleep(0.02)
    seconds = time.perf_counter() - since
    servers.request_json(server, "POST", f"/api/evaluations/{left}/cancel", {})
    while servers.request_json(server, "GET", f"/api/evaluations/{left}")["ended_at"] is None:
        time.sleep(0.02)
    return Figure(
        name="evaluation, going on after kill -9",
        value=seconds,
        unit="s",
        goal=at_most(5),
        how=f"from starting the server again, which answered after {server.seconds:.1f} s, to the next result",
    )


def _evaluation_request(testset: str) -> dict[str, Any]:
    return {
        "testset": {"id": testset},
        "variants": [{"workflow": "echo"}],
        "evaluators": _EVALUATORS,
        "map": {"inputs": {"question": "question"}},
    }


def _run_evaluation(server: Server, testset: str, cells: int) -> EvaluationCost:
    processor, since = machine.processor_seconds(server.pid), time.perf_counter()
    made = servers.request_json(server, "POST", "/api/evaluations", _evaluation_request(testset))["id"]
    settled = 0
    while (found := servers.request_json(server, "GET", f"/api/evaluations/{made}"))["ended_at"] is None:
        if not settled and found["done"] >= cells // 10:
            settled = machine.memory(server.pid).resident
        if time.perf_counter() - since > _TIMEOUT_S:
            raise MeasurementError(f"the evaluation did not end: {found}")
        time.sleep(0.1)
    seconds = time.perf_counter() - since
    if found["state"] != "succeeded":
        raise MeasurementError(f"the evaluation ended as {found['state']}")
    time.sleep(1)  # Traces are kept a moment later, and count.
    last = machine.memory(server.pid).resident
    return EvaluationCost(made, seconds, machine.processor_seconds(server.pid) - processor, settled or last, last)


def _import_testset(server: Server, rows: list[dict[str, Any]]) -> str:
    lines = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    return servers.request_json(server, "POST", "/api/testsets/import?name=Many", lines, "application/x-ndjson")[
        "testset"
    ]["id"]


def _rows(cells: int) -> list[dict[str, Any]]:
    return [
        {"question": f"What is {number} and {number}?", "expected": f"What is {number} and {number + number % 3}?"}
        for number in range(cells)
    ]


async def _measure_bare_loop(place: Path, cells: int) -> float:
    """Milliseconds of processor time for each cell, where nothing is done but what has to be."""
    rows = _rows(cells)
    with closing(sqlite3.connect(place)) as file:
        file.execute("CREATE TABLE results (cell INTEGER PRIMARY KEY, answer BLOB, passed INTEGER)")
        since = time.process_time()
        for first in range(0, cells, _BATCH):
            kept: list[tuple[int, bytes, bool]] = []
            for number, row in enumerate(rows[first : first + _BATCH], first):
                answer = await workflows.echo(question=row["question"])
                kept.append((number, msgspec.json.encode(answer), answer["question"] == row["expected"]))
            file.executemany("INSERT INTO results VALUES (?, ?, ?)", kept)
            file.commit()
        return (time.process_time() - since) / cells * 1000
