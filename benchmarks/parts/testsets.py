"""Test sets: importing a file of very many rows, reading the first page, and changing a few rows.

The baseline parses and hashes every line, and inserts as many rows into the same table with the driver alone, in
batches of the same size and with the same durability.
"""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import msgspec

from benchmarks import machine, servers
from benchmarks.context import BenchmarkContext
from benchmarks.figures import Figure, at_most, half_range
from benchmarks.servers import Server
from palaver.storage.database import open_database

IMPORT_ROWS, CHANGED_SET_ROWS = 1_000_000, 100_000
BATCH_ROWS = 1_000
"""Rows per insert, in Palaver and in the baseline."""
_WORDS = (
    "the parcel came back from an old address so that the money is to be paid back within ten days said shop".split()
)
_QUESTION_WORDS, _EXPECTED_WORDS = 18, 12  # Together they make a line of 200 bytes.
_MEMORY_INTERVAL_S = 0.1


class ImportCost(msgspec.Struct, frozen=True):
    """Time and memory of an import."""

    testset: str
    seconds: float
    processor: float
    """Seconds of processor time of the whole server."""
    memory: int
    """Peak resident KiB above idle."""


def measure(context: BenchmarkContext) -> Iterator[Figure]:
    count, changed_count = (
        context.choose(full=IMPORT_ROWS, quick=5_000),
        context.choose(full=CHANGED_SET_ROWS, quick=2_000),
    )
    file = context.folder / "many.jsonl"
    write_rows(file, count)
    bare = measure_inserts(file, context.folder / "bare-rows.db")
    with servers.run_palaver(
        context, db=context.folder / "testsets.db", core=None, PALAVER_RATE_PER_MINUTE="0"
    ) as server:
        servers.request_json(server, "GET", "/api/testsets")  # Load the handlers.
        machine.wait_until_idle(server.pid)
        imported = _measure_import(server, "Many", file)
        yield from _cost_figures(imported, file, count, bare)
        yield _first_page_figure(server, imported.testset, count, context.choose(full=50, quick=5))
        write_rows(file, changed_count)
        yield _delta_figure(
            server, _measure_import(server, "Fewer", file).testset, changed_count, context.choose(full=9, quick=3)
        )


def _cost_figures(imported: ImportCost, file: Path, count: int, bare: float) -> Iterator[Figure]:
    yield Figure(
        name=f"test set of {count:,} rows: import",
        value=imported.seconds,
        unit="s",
        goal=at_most(120),
        how=f"JSONL, {file.stat().st_size / count:.0f} bytes per row, over HTTP into SQLite, until the revision "
        f"exists: {count / imported.seconds:,.0f} rows/s, {imported.processor:.1f} s of CPU time; only "
        f"parsing, hashing and inserting the rows, in batches of {BATCH_ROWS:,}, takes {bare:.1f} s",
    )
    yield Figure(
        name=f"test set of {count:,} rows: memory",
        value=imported.memory / 1024,
        unit="MB",
        goal=at_most(150),
        how="peak of resident memory above idle during the import",
    )


def _first_page_figure(server: Server, testset: str, count: int, times: int) -> Figure:
    path = f"/api/testsets/{testset}/revisions/head/rows"
    first, *later = [_request_ms(server, "GET", path) for _ in range(times)]
    return Figure(
        name=f"test set of {count:,} rows: first page",
        value=median(later),
        spread=half_range(later),
        unit="ms",
        goal=at_most(50),
        how=f"100 rows over HTTP; median of {len(later)} requests, after a first one of {first:.1f} ms",
    )


def _delta_figure(server: Server, testset: str, rows: int, times: int) -> Figure:
    page = servers.request_json(server, "GET", f"/api/testsets/{testset}/revisions/head/rows")["data"]
    ids = [row["id"] for row in page]
    before = machine.processor_seconds(server.pid)
    seconds = [
        _request_ms(server, "POST", f"/api/testsets/{testset}/revisions", _delta(base, ids)) / 1000
        for base in range(1, times + 1)
    ]
    processor_s = (machine.processor_seconds(server.pid) - before) / times
    return Figure(
        name=f"test set of {rows:,} rows: change of four rows",
        value=median(seconds),
        spread=half_range(seconds),
        unit="s",
        goal=at_most(1),
        how="over HTTP: one row removed, one replaced, one patched and one added; "
        f"median of {times} changes, {processor_s:.2f} s of CPU time each",
    )


def _delta(base: int, ids: list[str]) -> dict[str, Any]:
    """A delta of rows that no earlier delta has changed."""
    removed, replaced, patched = ids[base * 3 : base * 3 + 3]
    delta = {
        "remove": [removed],
        "replace": [{"id": replaced, "data": make_row(-base)}],
        "patch": [{"id": patched, "set": {"note": f"seen {base}"}}],
        "add": [{"data": make_row(-1000 - base)}],
    }
    return {"base": base, "message": f"change {base}", "delta": delta}


def _request_ms(server: Server, method: str, path: str, body: Any = None) -> float:
    since = time.perf_counter()
    servers.request_json(server, method, path, body)
    return (time.perf_counter() - since) * 1000


def _measure_import(server: Server, name: str, file: Path) -> ImportCost:
    idle = machine.memory(server.pid).resident
    processor, since = machine.processor_seconds(server.pid), time.perf_counter()
    with ThreadPoolExecutor(1) as pool:
        upload = pool.submit(_upload, server, name, file)
        memory = [idle]
        while wait([upload], _MEMORY_INTERVAL_S).not_done:
            memory.append(machine.memory(server.pid).resident)
        testset = upload.result()
    seconds = time.perf_counter() - since
    return ImportCost(testset, seconds, machine.processor_seconds(server.pid) - processor, max(memory) - idle)


def _upload(server: Server, name: str, file: Path) -> str:
    with file.open("rb") as stream:
        path = f"/api/testsets/import?name={name}"
        return servers.request_json(server, "POST", path, stream, "application/x-ndjson")["testset"]["id"]


# The rows


def write_rows(file: Path, rows: int) -> None:
    with file.open("wb") as stream:
        stream.writelines(msgspec.json.encode(make_row(number)) + b"\n" for number in range(rows))


def make_row(number: int) -> dict[str, Any]:
    """A unique row of about 200 bytes, determined by its number."""
    rng = Random(number)
    question, expected = (" ".join(rng.choices(_WORDS, k=words)) for words in (_QUESTION_WORDS, _EXPECTED_WORDS))
    return {"number": number, "question": f"{question}?", "expected": expected, "topic": rng.choice(_WORDS)}


# Baseline


def measure_inserts(file: Path, path: Path) -> float:
    """Seconds to insert all lines of a file into a new database."""
    asyncio.run(open_database(str(path)).close())  # Create the tables.
    with file.open("rb") as lines, closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = FULL")  # As Palaver sets it. WAL mode is stored in the file.
        since = time.perf_counter()
        while batch := list(islice(lines, BATCH_ROWS)):
            rows = [(blake2b(line, digest_size=16).digest(), _parse_line(line)) for line in batch]
            db.execute("BEGIN IMMEDIATE")
            db.executemany(
                "INSERT INTO testset_contents (project, testset, hash, added, data) "
                "VALUES ('default', 'ts_bare', ?, 0, ?)",
                sorted(rows),  # In index order, as Palaver does.
            )
            db.execute("COMMIT")
        return time.perf_counter() - since


def _parse_line(line: bytes) -> bytes:
    msgspec.json.decode(line)
    return line
