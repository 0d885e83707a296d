"""Concurrency limits of boards, on every database and over all processes."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Connection

from palaver.core.boards import BoardColumn, BoardRow, Grid
from palaver.core.events import RunStarted
from palaver.core.ids import sortable_id
from palaver.core.runs import Call, NewRun, Origin, RunStatus
from palaver.storage import background_runs, boards, run_log
from palaver.storage.boards import Board
from palaver.storage.database import Database

NOW = datetime(2026, 11, 15, tzinfo=UTC)
GRID = Grid(mode="single", columns=(BoardColumn(id="c1", workflow="w"),), rows=(BoardRow(id="r1"),))


async def enqueue(database: Database, board: str, *numbers: int, concurrency: int = 2) -> list[str]:
    """Create a board with queued runs and return their IDs."""
    created = Board(id=board, grid=GRID, created_at=NOW, updated_at=NOW)
    await database.write(boards.create_board, "p", created)
    new = [queued_run(number, board, concurrency) for number in numbers]
    await database.write(background_runs.enqueue_runs, new, NOW)
    return [run.started.run_id for run in new]


def queued_run(number: int, board: str | None, concurrency: int) -> NewRun:
    note = boards.board_run_note(concurrency) if board else None
    return NewRun(
        started=RunStarted(0, f"run_{sortable_id(number, 0)}", "s", NOW + timedelta(seconds=number), "t"),
        workflow="w",
        call=Call(workflow="w"),
        origin=Origin(project="p", protocol="any", reading=note, board=board, background=True),
        process=None,
        status="queued",
    )


async def dequeue(database: Database, limit: int = 16, process: str = "p1") -> list[str]:
    claimed = await database.write(background_runs.dequeue_runs, process, ["w"], limit, NOW)
    return [one.stored.row.id for one in claimed]


async def test_board_runs_are_dequeued_up_to_the_concurrency_limit(database: Database) -> None:
    runs = await enqueue(database, "brd_1", 1, 2, 3, 4, concurrency=2)

    assert await dequeue(database) == runs[:2]
    assert await dequeue(database) == []
    await database.write(fail_run, runs[0])
    assert await dequeue(database) == [runs[2]]


async def test_full_board_does_not_block_runs_of_other_boards_or_without_a_board(database: Database) -> None:
    full_board = await enqueue(database, "brd_1", *range(1, 30), concurrency=1)
    other = await enqueue(database, "brd_2", 40, concurrency=1)
    single = queued_run(50, None, 0)
    await database.write(background_runs.enqueue_runs, [single], NOW)

    assert await dequeue(database, 4) == full_board[:1]
    assert await dequeue(database, 4) == [*other, single.started.run_id]


async def test_concurrent_processes_do_not_exceed_the_concurrency_limit(database: Database) -> None:
    await enqueue(database, "brd_1", *range(1, 41), concurrency=3)

    claimed = await asyncio.gather(*(dequeue(database, 2, f"p{number}") for number in range(8)))

    active = await database.read(boards.list_board_runs, "p", "brd_1", "running")
    assert sorted(run for batch in claimed for run in batch) == active
    assert len(active) == 3


async def test_run_of_a_deleted_board_is_dequeued(database: Database) -> None:
    runs = await enqueue(database, "brd_1", 1)
    await database.write(boards.delete_board, "p", "brd_1", check=lambda _: None)

    assert await dequeue(database) == runs


async def test_queued_runs_of_a_board_are_cancelled_in_batches(database: Database) -> None:
    runs = await enqueue(database, "brd_1", 1, 2, 3)
    await enqueue(database, "brd_2", 4)

    first = await database.write(boards.cancel_queued_board_runs, "p", "brd_1", 2, NOW)
    second = await database.write(boards.cancel_queued_board_runs, "p", "brd_1", 2, NOW)
    third = await database.write(boards.cancel_queued_board_runs, "p", "brd_1", 2, NOW)

    assert (first, second, third) == (runs[:2], runs[2:], [])
    assert await database.read(boards.run_statuses, "p", [*runs, "run_gone"]) == dict.fromkeys(runs, "cancelled")
    assert await database.read(boards.run_statuses, "q", runs) == {}


def fail_run(db: Connection, run: str) -> None:
    run_log.fail_queued_run(db, "p", run, ("failed", "It failed."), NOW)


@pytest.mark.parametrize(("status", "index"), [("running", 0), ("queued", 1)])
async def test_board_runs_of_another_project_are_not_listed(database: Database, status: RunStatus, index: int) -> None:
    runs = await enqueue(database, "brd_1", 1, 2, concurrency=1)
    await dequeue(database)

    assert await database.read(boards.list_board_runs, "p", "brd_1", status) == [runs[index]]
    assert await database.read(boards.list_board_runs, "q", "brd_1", status) == []
