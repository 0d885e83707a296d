"""Test sets: a file of very many rows sent as anyone sends it, the first page of them, and a few of many changed.

Beside it stands the least that has to be done: every line parsed and hashed, and as many rows inserted into the same
table by nothing but the driver, as many at once, with the same promise of a commit.
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
"""Rows of the file that is imported, and of the set that is changed."""
BATCH_ROWS = 1_000
"""Rows that are inserted at once, here and there."""
_WORDS = (
    "the parcel came back from an old address so that the money is to be paid back within ten days said shop".split()
)
_QUESTION_WORDS, _EXPECTED_WORDS = 18, 12  # Words; with them a line has 200 bytes.
_MEMORY_INTERVAL_S = 0.1  # Seconds from one look at memory to the next.


class ImportCost(msgspec.Struct, frozen=True):
    """How an import went."""

    testset: str
    seconds: float
    processor: float
    """Seconds of processor time, of the whole server."""
    memory: int
    """The most KiB that were resident, above what was so before."""


def measure(stand: BenchmarkContext) -> Iterator[Figure]:
    many, fewer = stand.choose(full=IMPORT_ROWS, quick=5_000), stand.choose(full=CHANGED_SET_ROWS, quick=2_000)
    file = stand.folder / "many.jsonl"
    write_rows(file, many)
    bare = measure_inserts(file, stand.folder / "bare-rows.db")
    with servers.run_palaver(stand, db=stand.folder / "testsets.db", core=None, PALAVER_RATE_PER_MINUTE="0") as server:
        servers.request_json(server, "GET", "/api/testsets")  # All that answers is there.
        machine.wait_until_idle(server.pid)
        imported = _measure_import(server, "Many", file)
        yield from _cost(imported, file, many, bare)
        yield _first_page_figure(server, imported.testset, many, stand.choose(full=50, quick=5))
        write_rows(file, fewer)
        yield _delta_figure(
            server, _measure_import(server, "Fewer", file).testset, fewer, stand.choose(full=9, quick=3)
        )


def _cost(imported: ImportCost, file: Path, many: int, bare: float) -> Iterator[Figure]:
    yield Figure(
        name=f"test set of {many:,} rows, import",
        value=imported.seconds,
        unit="s",
        goal=at_most(120),
        how=f"JSONL, {file.stat().st_size / many:.0f} bytes a row, over HTTP into SQLite, until the revision is there: "
        f"{many / imported.seconds:,.0f} rows/s, {imported.processor:.1f} s of processor time; to parse, hash and "
        f"insert them, {BATCH_ROWS:,} at once, takes {bare:.1f} s",
    )
    yield Figure(
        name=f"test set of {many:,} rows, memory",
        value=imported.memory / 1024,
        unit="MB",
        goal=at_most(150),
        how="the most that was resident above idle while they were imported",
    )


def _first_page_figure(server: Server, testset: str, many: int, times: int) -> Figure:
    path = f"/api/testsets/{testset}/revisions/head/rows"
    first, *then = [_request_ms(server, "GET", path) for _ in range(times)]
    return Figure(
        name=f"test set of {many:,} rows, first page",
        value=median(then),
        spread=half_range(then),
        unit="ms",
        goal=at_most(50),
        how=f"100 rows over HTTP; median of {len(then)}, {first:.1f} ms where it was never asked for before",
    )


def _delta_figure(server: Server, testset: str, rows: int, times: int) -> Figure:
    page = servers.request_json(server, "GET", f"/api/testsets/{testset}/revisions/head/rows")["data"]
    ids = [row["id"] for row in page]
    before = machine.processor_seconds(server.pid)
    taken = [
        _request_ms(server, "POST", f"/api/testsets/{testset}/revisions", _delta(base, ids)) / 1000
        for base in range(1, times + 1)
    ]
    used = (machine.processor_seconds(server.pid) - before) / times
    return Figure(
        name=f"test set of {rows:,} rows, delta",
        value=median(taken),
        spread=half_range(taken),
        unit="s",
        goal=at_most(1),
        how="over HTTP: a row removed, one replaced, one patched and one added; "
        f"{used:.2f} s of processor time each, median of {times}",
    )


def _delta(base: int, ids: list[str]) -> dict[str, Any]:
    """Changes of rows that no delta before it has changed."""
    gone, replaced, patched = ids[base * 3 : base * 3 + 3]
    delta = {
        "remove": [gone],
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
        sending = pool.submit(_upload, server, name, file)
        held = [idle]
        while wait([sending], _MEMORY_INTERVAL_S).not_done:
            held.append(machine.memory(server.pid).resident)
        testset = sending.result()
    seconds = time.perf_counter() - since
    return ImportCost(testset, seconds, machine.processor_seconds(server.pid) - processor, max(held) - idle)


def _upload(server: Server, name: str, file: Path) -> str:
    with file.open("rb") as opened:
        path = f"/api/testsets/import?name={name}"
        return servers.request_json(server, "POST", path, opened, "application/x-ndjson")["testset"]["id"]


# The rows


def write_rows(file: Path, rows: int) -> None:
    """A file of so many."""
    with file.open("wb") as opened:
        opened.writelines(msgspec.json.encode(make_row(number)) + b"\n" for number in range(rows))


def make_row(number: int) -> dict[str, Any]:
    """The same for the same number, of about 200 bytes, and like no other."""
    chance = Random(number)
    asked, expected = (" ".join(chance.choices(_WORDS, k=words)) for words in (_QUESTION_WORDS, _EXPECTED_WORDS))
    return {"number": number, "question": f"{asked}?", "expected": expected, "topic": chance.choice(_WORDS)}


# Bare


def measure_inserts(file: Path, place: Path) -> float:
    """Seconds for all lines of a file, into a new database there."""
    asyncio.run(open_database(str(place)).close())  # The tables.
    with file.open("rb") as lines, closing(sqlite3.connect(place, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = FULL")  # As ours has it; it is the file that remembers to be a WAL.
        since = time.perf_counter()
        while batch := list(islice(lines, BATCH_ROWS)):
            kept = [(blake2b(line, digest_size=16).digest(), _parse_line(line)) for line in batch]
            db.execute("BEGIN IMMEDIATE")
            db.executemany(
                "INSERT INTO testset_contents (project, testset, hash, added, data) "
                "VALUES ('default', 'ts_bare', ?, 0, ?)",
                sorted(kept),  # As the index is, and as ours does.
            )
            db.execute("COMMIT")
        return time.perf_counter() - since


def _parse_line(line: bytes) -> bytes:
    msgspec.json.decode(line)
    return line
