"""Evaluations: 10,000 cells with three cheap evaluators, as anyone runs them, and a bare loop that keeps as many rows.

The test set is uploaded, the evaluation begun and its figures asked for over HTTP. What is counted is the whole server:
its runs, their traces, scores and results, in a SQLite file.
"""

import asyncio
import http.client
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import machine, servers, workflows
from benchmarks.figures import Figure, at_most
from benchmarks.servers import Server
from benchmarks.stand import CannotMeasure, Stand

CELLS, SETTLED = 10_000, 1_000
"""Cells of the evaluation, and those after which memory is first looked at."""
_BATCH = 50
_PATIENCE = 600.0
_EVALUATORS = [
    {"key": key, "parameters": {"target": "value.question"}} for key in ("exact_match", "contains", "levenshtein")
]


class Ran(msgspec.Struct, frozen=True):
    """How an evaluation went."""

    id: str
    seconds: float
    processor: float
    """Seconds of processor time, of the whole server."""
    settled: int
    """KiB that were resident when a tenth was done,"""
    last: int
    """and at the end."""


def measure(stand: Stand) -> Iterator[Figure]:
    cells = stand.choose(full=CELLS, quick=200)
    bare = asyncio.run(_bare(stand.folder / "bare.db", cells))
    with servers.palaver(
        stand, db=stand.folder / "evaluated.db", record="full", core=None, PALAVER_RATE_PER_MINUTE="0"
    ) as server:
        testset = _import(server, _rows(cells))
        first = _run(server, testset, cells)
        yield from _cost(first, cells, bare)
        second = _run(server, testset, cells)
        loading = _timed(server, f"/api/evaluations/{second.id}/summary")
        summary = _asked(server, f"/api/evaluations/{first.id}/summary", f"summary of {cells:,} × 3", 300)
        yield msgspec.structs.replace(summary, how=f"{summary.how}; {loading:.0f} ms where numpy has to be loaded")
        compared = f"/api/evaluations/compare?base={first.id}&candidate={second.id}"
        yield _asked(server, compared, f"two evaluations of {cells:,} compared", 1_000)
        yield _cancelled(server, testset)


def _cost(ran: Ran, cells: int, bare: float) -> Iterator[Figure]:
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


def _asked(server: Server, path: str, name: str, most: float) -> Figure:
    first, then = _timed(server, path), _timed(server, path)  # Figures of what has ended are kept.
    how = f"over HTTP, computed; then {then:.1f} ms"
    return Figure(name=name, value=first, unit="ms", goal=at_most(most), how=how)


def _timed(server: Server, path: str) -> float:
    since = time.perf_counter()
    _json(server, "GET", path)
    return (time.perf_counter() - since) * 1000


def _cancelled(server: Server, testset: str) -> Figure:
    """An evaluation of a chat that never ends, ended."""
    asked = {
        "testset": {"id": testset, "rows": {"sample": 10}},
        "variants": [{"workflow": "idle"}],
        "evaluators": [{"key": "exact_match"}],
        "map": {"messages": "question"},
    }
    made = _json(server, "POST", "/api/evaluations", asked)["id"]
    while _json(server, "GET", f"/api/evaluations/{made}")["state"] != "running":
        time.sleep(0.02)
    time.sleep(0.5)
    since = time.perf_counter()
    _json(server, "POST", f"/api/evaluations/{made}/cancel", {})
    while _json(server, "GET", f"/api/evaluations/{made}")["state"] != "cancelled":
        time.sleep(0.01)
    return Figure(
        name="evaluation, cancelled",
        value=time.perf_counter() - since,
        unit="s",
        goal=at_most(1),
        how="from asking until ten calls that would never end have ended, and the evaluation with them",
    )


def _run(server: Server, testset: str, cells: int) -> Ran:
    asked = {
        "testset": {"id": testset},
        "variants": [{"workflow": "echo"}],
        "evaluators": _EVALUATORS,
        "map": {"inputs": {"question": "question"}},
    }
    processor, since = machine.processor_seconds(server.pid), time.perf_counter()
    made = _json(server, "POST", "/api/evaluations", asked)["id"]
    settled = 0
    while (found := _json(server, "GET", f"/api/evaluations/{made}"))["ended_at"] is None:
        if not settled and found["done"] >= cells // 10:
            settled = machine.memory(server.pid).resident
        if time.perf_counter() - since > _PATIENCE:
            raise CannotMeasure(f"the evaluation did not end: {found}")
        time.sleep(0.1)
    seconds = time.perf_counter() - since
    if found["state"] != "succeeded":
        raise CannotMeasure(f"the evaluation ended as {found['state']}")
    time.sleep(1)  # Traces are kept a moment later, and count.
    last = machine.memory(server.pid).resident
    return Ran(made, seconds, machine.processor_seconds(server.pid) - processor, settled or last, last)


def _import(server: Server, rows: list[dict[str, Any]]) -> str:
    lines = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    return _json(server, "POST", "/api/testsets/import?name=Many", lines, "application/x-ndjson")["testset"]["id"]


def _rows(cells: int) -> list[dict[str, Any]]:
    return [
        {"question": f"What is {number} and {number}?", "expected": f"What is {number} and {number + number % 3}?"}
        for number in range(cells)
    ]


async def _bare(place: Path, cells: int) -> float:
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


def _json(server: Server, method: str, path: str, body: Any = None, media: str = "application/json") -> Any:
    raw = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)) as connection:
        connection.request(method, path, raw, {} if raw is None else {"content-type": media})
        answer = connection.getresponse()
        read = answer.read()
    if answer.status >= 300:
        raise CannotMeasure(f"{method} {path} answered {answer.status}: {read[:300]!r}")
    return msgspec.json.decode(read)
