"""The retention task: which old runs and spans are deleted, on every database."""

import asyncio
from datetime import timedelta

import pytest

from palaver.core.boards import BoardColumn, BoardRow, Cell, Grid
from palaver.core.messages import Message
from palaver.core.runs import Origin, RetentionPolicy
from palaver.engine.engine import Engine
from palaver.engine.recorder import Recorder
from palaver.engine.retention_task import RetentionTask
from palaver.storage import boards, retention, runs
from palaver.storage.boards import Board
from palaver.storage.database import Database, open_database
from palaver.storage.spans import partitions as span_days
from palaver.storage.spans import queries as span_pages
from palaver.storage.spans import retention as span_retention
from palaver.storage.threads import repository as threads
from palaver.storage.threads.repository import NewThread
from palaver.workflows.decorators import chat
from tests.engine.run_factory import NOW, call
from tests.storage.span_factory import NOON, TODAY, insert_rows, span_row


@chat
async def short(messages: list[Message]) -> str:
    return "Hello."


async def record_run(database: Database, **origin: object) -> str:
    engine = Engine(store=Recorder(database, process="p", now=lambda: NOW), now=lambda: NOW)
    run = engine.start(short, call(Message.user("Hi.")), origin=Origin(**origin))  # type: ignore[arg-type]
    await run.wait_ended()
    return run.id


async def test_old_runs_without_a_thread_that_are_not_stored_are_deleted(database: Database) -> None:
    await database.write(threads.create_thread, "default", NewThread(id="conv_1", at=NOW))
    loose, stored, in_thread = (
        await record_run(database),
        await record_run(database, stored=True),
        await record_run(database, thread="conv_1"),
    )
    task = RetentionTask(database, run_days=30, now=lambda: NOW + timedelta(days=29))
    await task.run_once()
    recent = await database.read(runs.get_run, "default", loose)
    await RetentionTask(database, run_days=0, now=lambda: NOW + timedelta(days=31)).run_once()
    run_without_retention = await database.read(runs.get_run, "default", loose)
    await RetentionTask(database, run_days=30, now=lambda: NOW + timedelta(days=31)).run_once()

    assert recent is not None
    assert run_without_retention == recent
    assert [await database.read(runs.get_run, "default", run) is None for run in (loose, stored, in_thread)] == [
        True,
        False,
        False,
    ]
    assert await database.read(runs.read_events, "default", loose) == []


async def test_earlier_runs_of_a_board_cell_are_deleted_but_not_the_last(database: Database) -> None:
    grid = Grid(mode="single", columns=(BoardColumn(id="c1", workflow="short"),), rows=(BoardRow(id="r1"),))
    await database.write(boards.create_board, "default", Board(id="brd_1", grid=grid, created_at=NOW, updated_at=NOW))
    ids = [await record_run(database, board="brd_1") for _ in range(2)]
    for run in ids:
        await database.write(boards.fill_cells, "default", "brd_1", [Cell(row="r1", column="c1", run=run)])
    await RetentionTask(database, run_days=30, now=lambda: NOW + timedelta(days=31)).run_once()

    assert [await database.read(runs.get_run, "default", run) is None for run in ids] == [True, False]


async def test_delete_all_but_newest_deletes_the_oldest_runs(database: Database) -> None:
    ids = [await record_run(database) for _ in range(4)]
    deleted = await database.write(retention.delete_all_but_newest, 2)

    assert deleted == 2
    assert [await database.read(runs.get_run, "default", run) is None for run in sorted(ids)] == [
        True,
        True,
        False,
        False,
    ]


# Spans

DAY_S = 24 * 60 * 60


async def remaining_spans(database: Database, spans: RetentionPolicy, *, days: int = 0) -> list[str]:
    """Run the task `days` later and return the remaining spans of each project and day."""
    later = NOON + timedelta(days=days)
    await RetentionTask(database, run_days=0, spans=spans, now=lambda: later).run_once()
    usage = await database.read(span_days.list_day_usage)
    return [f"{day_usage.project} {(day_usage.day - TODAY).days} {day_usage.spans}" for day_usage in usage]


async def insert_three_days(database: Database) -> None:
    for project in ("mine", "theirs"):
        rows = [span_row(f"{number}", -number * DAY_S, trace=f"{number}", project=project) for number in range(3)]
        await insert_rows(database, *rows)


ALL_SPANS = ["mine -2 1", "theirs -2 1", "mine -1 1", "theirs -1 1", "mine 0 1", "theirs 0 1"]


async def test_spans_older_than_the_retention_days_are_deleted(database: Database) -> None:
    await insert_three_days(database)

    assert await remaining_spans(database, RetentionPolicy()) == ALL_SPANS
    assert await remaining_spans(database, RetentionPolicy(), days=1000) == ALL_SPANS
    assert await remaining_spans(database, RetentionPolicy(days=2)) == ALL_SPANS
    assert await remaining_spans(database, RetentionPolicy(days=2), days=1) == ALL_SPANS[2:]
    assert await remaining_spans(database, RetentionPolicy(days=2), days=2) == ALL_SPANS[4:]
    assert await remaining_spans(database, RetentionPolicy(days=2), days=100) == []


async def test_a_project_can_override_the_retention_days_of_spans(database: Database) -> None:
    await insert_three_days(database)

    assert await remaining_spans(database, RetentionPolicy(days=1, days_by_project={"mine": 30})) == [
        ALL_SPANS[0],
        *ALL_SPANS[2:],
    ]
    assert await remaining_spans(database, RetentionPolicy(days=1, days_by_project={"mine": 0}), days=1) == [
        ALL_SPANS[0],
        ALL_SPANS[2],
        *ALL_SPANS[4:],
    ]
    assert await remaining_spans(database, RetentionPolicy(days_by_project={"mine": 1}), days=2) == [ALL_SPANS[5]]


async def test_the_oldest_days_of_spans_are_deleted_above_the_size_limit(database: Database) -> None:
    await insert_three_days(database)
    usage = await database.read(span_days.list_day_usage)
    day_bytes = sum(day_usage.bytes for day_usage in usage) // 3

    assert await remaining_spans(database, RetentionPolicy(bytes=3 * day_bytes)) == ALL_SPANS
    assert await remaining_spans(database, RetentionPolicy(bytes=2 * day_bytes)) == ALL_SPANS[2:]
    assert await remaining_spans(database, RetentionPolicy(bytes=1)) == ALL_SPANS[4:]


async def test_upcoming_partitions_are_created(database: Database) -> None:
    writes: list[object] = []

    class Watched:
        kind, path = "postgresql", None

        async def read(self, work: object, *args: object) -> object:
            return await database.read(work, *args)  # type: ignore[arg-type]

        async def write(self, work: object, *args: object) -> object:
            writes.append(work)
            return await database.write(work, *args)  # type: ignore[arg-type]

    await RetentionTask(Watched(), run_days=0, now=lambda: NOON).run_once()  # type: ignore[arg-type]

    assert span_days.create_upcoming_partitions in writes


async def test_only_one_process_at_a_time_deletes_spans(postgres_url: str) -> None:
    first, second = open_database(postgres_url), open_database(postgres_url)
    await insert_three_days(first)
    started, done = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(db: object) -> int:
        deleted = span_retention.delete_before(db, TODAY)  # type: ignore[arg-type]
        loop.call_soon_threadsafe(started.set)
        asyncio.run_coroutine_threadsafe(done.wait(), loop).result()
        return deleted

    deletion = asyncio.create_task(first.write(slow))
    await started.wait()
    deleted_meanwhile = await second.write(span_retention.delete_before, TODAY)
    done.set()

    assert (deleted_meanwhile, await deletion) == (0, 2)
    assert await second.write(span_retention.delete_before, TODAY) == 2
    await first.close()
    await second.close()


async def test_delete_oldest_deletes_the_first_stored_spans_in_batches(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_retention, "DELETE_BATCH", 3)
    await insert_three_days(database)
    deleted = [await database.write(span_retention.delete_oldest, 2) for _ in range(3)]
    remaining = await database.read(span_pages.list_spans, "theirs")

    assert deleted == [3, 1, 0]
    assert [one.name for one in remaining.data] == ["1", "2"]


async def test_inserts_do_not_wait_for_the_whole_deletion(tmp_path: object) -> None:
    database = open_database(f"{tmp_path}/palaver.db")
    for first in range(0, 3_000, 1_000):
        rows = [span_row(f"{first + number}", -DAY_S, trace=f"{first + number}") for number in range(1_000)]
        await insert_rows(database, *rows)
    deletion = asyncio.create_task(remaining_spans(database, RetentionPolicy(days=1), days=1))
    old_counts: list[int] = []  # After each insert.
    while not deletion.done():
        await insert_rows(database, span_row(f"new {len(old_counts)}", len(old_counts)))
        usage = await database.read(span_days.list_day_usage)
        old_counts.append(sum(one.spans for one in usage if one.day < TODAY))
    remaining = await deletion
    await database.close()

    assert [line.rpartition(" ")[0] for line in remaining] == ["mine 0"]
    assert len({count for count in old_counts if 0 < count < 3_000}) > 3  # Inserts during the deletion.
