"""Evaluations: 10,000 cells with three cheap evaluators, and a bare loop that stores as many rows.

The test set is uploaded, the evaluation started and its figures fetched over HTTP. The cost is that of the whole
server: runs, traces, scores and results, in an SQLite file. Finally the server is killed and restarted.
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
"""Cells of the evaluation, and those after which memory is first measured."""
_BATCH = 50
_TIMEOUT_S = 600.0
_EVALUATORS = [
    {"key": key, "parameters": {"target": "value.question"}} for key in ("exact_match", "contains", "levenshtein")
]


class EvaluationCost(msgspec.Struct, frozen=True):
    """Time and memory of an evaluation."""

    id: str
    seconds: float
    processor: float
    """Seconds of processor time of the whole server."""
    early: int
    """Resident KiB after a tenth of the cells."""
    last: int
    """Resident KiB at the end."""


def measure(context: BenchmarkContext) -> Iterator[Figure]:
    cells = context.choose(full=CELLS, quick=200)
    baseline = asyncio.run(_measure_bare_loop(context.folder / "bare.db", cells))
    with _run_server(context) as server:
        testset = _import_testset(server, _rows(cells))
        first = _run_evaluation(server, testset, cells)
        yield from _cost_figures(first, cells, baseline)
        second = _run_evaluation(server, testset, cells)
        first_ms = _request_ms(server, f"/api/evaluations/{second.id}/summary")
        summary = _response_figure(server, f"/api/evaluations/{first.id}/summary", f"summary of {cells:,} cells", 300)
        yield msgspec.structs.replace(summary, how=f"{summary.how}; {first_ms:.0f} ms for the server's first summary")
        yield _cancel_figure(server, testset)
        interrupted = _start_slow_evaluation(server, testset)
    since = time.perf_counter()  # The server was killed.
    with _run_server(context) as server:
        yield _resume_figure(server, interrupted, since)
        compare_path = f"/api/evaluations/compare?base={first.id}&candidate={second.id}"
        comparison = _response_figure(server, compare_path, f"comparison of two evaluations of {cells:,} cells", 1_000)
        cached_ms = _request_ms(server, f"{compare_path}&margin=0.05")
        yield msgspec.structs.replace(
            comparison, how=f"{comparison.how}; {cached_ms:.0f} ms if only their scores are cached"
        )


def _run_server(context: BenchmarkContext) -> AbstractContextManager[Server]:
    path = context.folder / "evaluated.db"
    return servers.run_palaver(context, db=path, record="full", core=None, PALAVER_RATE_PER_MINUTE="0")


def _cost_figures(cost: EvaluationCost, cells: int, baseline: float) -> Iterator[Figure]:
    cell_ms = cost.processor / cells * 1000
    yield Figure(
        name=f"evaluation of {cells:,} cells",
        value=cost.seconds,
        unit="s",
        goal=at_most(60),
        how=f"workflow `echo`, 3 evaluators, concurrency 10, SQLite: "
        f"{cells / cost.seconds:,.0f} cells/s from the request to the end",
    )
    yield Figure(
        name="evaluation: CPU time per cell",
        value=cell_ms - baseline,
        unit="ms",
        goal=at_most(5),
        how=f"{cell_ms:.2f} ms for the whole server, with runs and traces, less {baseline:.3f} ms for a bare loop that "
        f"calls the function and inserts {_BATCH} rows at a time",
    )
    yield Figure(
        name=f"evaluation: memory growth from cell {cells // 10:,} to {cells:,}",
        value=(cost.last - cost.early) / 1024,
        unit="MB",
        goal=at_most(20),
        how=f"resident memory: {cost.early / 1024:.0f} MB, then {cost.last / 1024:.0f} MB",
    )


def _response_figure(server: Server, path: str, name: str, limit_ms: float) -> Figure:
    processor = machine.processor_seconds(server.pid)
    first = _request_ms(server, path)
    processor_ms = (machine.processor_seconds(server.pid) - processor) * 1000
    cached_ms = _request_ms(server, path)  # Summaries of finished evaluations are cached.
    how = f"over HTTP, not cached, with {processor_ms:.0f} ms of CPU time; {cached_ms:.1f} ms if cached"
    return Figure(name=name, value=first, unit="ms", goal=at_most(limit_ms), how=how)


def _request_ms(server: Server, path: str) -> float:
    since = time.perf_counter()
    servers.request_json(server, "GET", path)
    return (time.perf_counter() - since) * 1000


def _cancel_figure(server: Server, testset: str) -> Figure:
    """Cancel an evaluation of a chat that never ends."""
    request = {
        "testset": {"id": testset, "rows": {"sample": 10}},
        "variants": [{"workflow": "idle"}],
        "evaluators": [{"key": "exact_match"}],
        "map": {"messages": "question"},
    }
    evaluation = servers.request_json(server, "POST", "/api/evaluations", request)["id"]
    while servers.request_json(server, "GET", f"/api/evaluations/{evaluation}")["state"] != "running":
        time.sleep(0.02)
    time.sleep(0.5)
    since = time.perf_counter()
    servers.request_json(server, "POST", f"/api/evaluations/{evaluation}/cancel", {})
    while servers.request_json(server, "GET", f"/api/evaluations/{evaluation}")["state"] != "cancelled":
        time.sleep(0.01)
    return Figure(
        name="evaluation: time to cancel",
        value=time.perf_counter() - since,
        unit="s",
        goal=at_most(1),
        how="from the request until the evaluation and its ten calls, which would never end by themselves, have ended",
    )


def _start_slow_evaluation(server: Server, testset: str) -> str:
    """Start an evaluation with a rate limit and wait for its first results."""
    request = _evaluation_request(testset) | {"limits": {"rate": {"calls": 50, "seconds": 1}}}
    evaluation = servers.request_json(server, "POST", "/api/evaluations", request)["id"]
    while servers.request_json(server, "GET", f"/api/evaluations/{evaluation}")["done"] < _BATCH:
        time.sleep(0.02)
    return evaluation


def _resume_figure(server: Server, interrupted: str, since: float) -> Figure:
    """Time until an evaluation continues after its server was killed and restarted."""
    before = servers.request_json(server, "GET", f"/api/evaluations/{interrupted}")["done"]
    while servers.request_json(server, "GET", f"/api/evaluations/{interrupted}")["done"] <= before:
        if time.perf_counter() - since > _TIMEOUT_S:
            raise MeasurementError("the evaluation did not go on after its server was killed")
        time.sleep(0.02)
    seconds = time.perf_counter() - since
    servers.request_json(server, "POST", f"/api/evaluations/{interrupted}/cancel", {})
    while servers.request_json(server, "GET", f"/api/evaluations/{interrupted}")["ended_at"] is None:
        time.sleep(0.02)
    return Figure(
        name="evaluation: time to resume after kill -9",
        value=seconds,
        unit="s",
        goal=at_most(5),
        how=f"from restarting the server, which responded after {server.seconds:.1f} s, to the next result",
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
    evaluation = servers.request_json(server, "POST", "/api/evaluations", _evaluation_request(testset))["id"]
    early = 0
    while (state := servers.request_json(server, "GET", f"/api/evaluations/{evaluation}"))["ended_at"] is None:
        if not early and state["done"] >= cells // 10:
            early = machine.memory(server.pid).resident
        if time.perf_counter() - since > _TIMEOUT_S:
            raise MeasurementError(f"the evaluation did not end: {state}")
        time.sleep(0.1)
    seconds = time.perf_counter() - since
    if state["state"] != "succeeded":
        raise MeasurementError(f"the evaluation ended as {state['state']}")
    time.sleep(1)  # Traces are stored a moment later, and count.
    last = machine.memory(server.pid).resident
    return EvaluationCost(evaluation, seconds, machine.processor_seconds(server.pid) - processor, early or last, last)


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


async def _measure_bare_loop(path: Path, cells: int) -> float:
    """Milliseconds of processor time per cell of the minimal loop."""
    rows = _rows(cells)
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE results (cell INTEGER PRIMARY KEY, answer BLOB, passed INTEGER)")
        since = time.process_time()
        for first in range(0, cells, _BATCH):
            results: list[tuple[int, bytes, bool]] = []
            for number, row in enumerate(rows[first : first + _BATCH], first):
                answer = await workflows.echo(question=row["question"])
                results.append((number, msgspec.json.encode(answer), answer["question"] == row["expected"]))
            file.executemany("INSERT INTO results VALUES (?, ?, ?)", results)
            file.commit()
        return (time.process_time() - since) / cells * 1000
