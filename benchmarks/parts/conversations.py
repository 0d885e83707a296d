"""Ten thousand stored conversations: the time to list the latest and to open one."""

import asyncio
import http.client
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

from sqlalchemy import Connection

from benchmarks import servers
from benchmarks.context import BenchmarkContext
from benchmarks.figures import Figure, at_most, half_range
from palaver.core.messages import Message
from palaver.storage.database import open_database
from palaver.storage.threads import repository as threads
from palaver.storage.threads.repository import NewThread

_FIRST_START = datetime(2026, 1, 1, tzinfo=UTC)
_TURNS = 10
_ANSWER = "Take the tram to the square, change there, and follow the river for about ten minutes. "
_BATCH_THREADS = 500


def measure(context: BenchmarkContext) -> Iterator[Figure]:
    count = context.choose(full=10_000, quick=200)
    path = context.folder / "conversations.db"
    asyncio.run(_fill(path, count))
    with servers.run_palaver(context, db=path) as server:
        paths = {
            "listing the latest 50 of {} conversations": lambda _: "/api/threads?limit=50",
            "opening one of {} conversations": lambda number: f"/api/threads/{_thread_id(number)}/messages",
            "items of one of {} conversations, over /v1/conversations": lambda number: (
                f"/v1/conversations/{_thread_id(number)}/items?limit=100"
            ),
        }
        for name, make_path in paths.items():
            milliseconds = _response_times_ms(server.port, make_path, count, context.choose(full=300, quick=20))
            yield Figure(
                name=name.format(f"{count:,}"),
                value=median(milliseconds),
                spread=half_range(milliseconds[: len(milliseconds) * 95 // 100]),
                unit="ms",
                goal=at_most(10),
                how=f"over HTTP, SQLite, {2 * _TURNS} messages each; median of {len(milliseconds)} requests, "
                f"p95 {milliseconds[len(milliseconds) * 95 // 100]:.1f} ms",
            )


def _response_times_ms(port: int, make_path: Callable[[int], str], count: int, times: int) -> list[float]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    milliseconds: list[float] = []
    for number in range(times):
        path = make_path(number * 7919 % count)
        since = time.perf_counter()
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        milliseconds.append((time.perf_counter() - since) * 1000)
        assert answer.status == 200, path
    connection.close()
    return sorted(milliseconds[len(milliseconds) // 10 :])


async def _fill(path: Path, count: int) -> None:
    database = open_database(str(path))
    for first in range(0, count, _BATCH_THREADS):
        await database.write(_add, first, min(first + _BATCH_THREADS, count))
    await database.close()


def _add(db: Connection, first: int, end: int) -> None:
    for number in range(first, end):
        messages = [
            message
            for turn in range(_TURNS)
            for message in (Message.user(f"Question {turn} of {number}?"), Message.assistant(_ANSWER * 3))
        ]
        new = NewThread(id=_thread_id(number), at=_FIRST_START + timedelta(seconds=number), workflow="tokens")
        threads.create_thread(db, "default", new, messages)


def _thread_id(number: int) -> str:
    return f"conv_{number:026}"
