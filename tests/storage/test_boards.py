"""Boards and their cells, on every database."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from palaver.core.boards import BoardColumn, BoardRow, BoardTestset, Cell, Grid
from palaver.errors import NotFound, StaleBase
from palaver.storage import boards
from palaver.storage.boards import Board, BoardSummary
from palaver.storage.database import Database
from palaver.storage.pagination import Page
from palaver.storage.threads import repository as threads
from palaver.storage.threads.repository import NewThread

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)
GRID = Grid(
    name="prompt v3",
    mode="chat",
    columns=(BoardColumn(id="c1", workflow="tutor", variant="short:3"), BoardColumn(id="c2", workflow="tutor")),
    rows=(BoardRow(id="r1", inputs={"subject": "ä\0"}), BoardRow(id="r2")),
    testset=BoardTestset("ts_1", 4),
    layout={"widths": {"c1": 420}},
)
BOARD = Board(id="brd_1", grid=GRID, created_at=NOON, updated_at=NOON)
A, B = Cell(row="r1", column="c1", thread="conv_1"), Cell(row="r2", column="c2", run="run_1")


def allow(_: object) -> None:
    pass


async def test_board_is_stored_and_listed(database: Database) -> None:
    await database.write(boards.create_board, "default", BOARD)

    assert await database.read(boards.get_board, "default", "brd_1") == BOARD
    assert await database.read(boards.list_boards, "default") == Page(
        [BoardSummary(id="brd_1", name="prompt v3", mode="chat", created_at=NOON, updated_at=NOON)]
    )


async def test_filling_a_cell_with_a_run_keeps_its_thread(database: Database) -> None:
    await database.write(boards.create_board, "default", BOARD)
    await database.write(boards.fill_cells, "default", "brd_1", [A, B])
    await database.write(boards.fill_cells, "default", "brd_1", [Cell(row="r1", column="c1", run="run_2")])
    await database.write(boards.fill_cells, "default", "brd_1", [])

    both = Cell(row="r1", column="c1", thread="conv_1", run="run_2")
    assert await database.read(boards.list_cells, "default", "brd_1") == (both, B)


@pytest.mark.parametrize("cell", [Cell(row="r9", column="c1"), Cell(row="r1", column="r1")])
async def test_filling_an_unknown_cell_is_rejected(database: Database, cell: Cell) -> None:
    await database.write(boards.create_board, "default", BOARD)

    with pytest.raises(NotFound, match=f"Cell '{cell.row}.{cell.column}' not found in board 'brd_1'"):
        await database.write(boards.fill_cells, "default", "brd_1", [A, cell])
    assert await database.read(boards.list_cells, "default", "brd_1") == ()


async def test_replacing_a_board_stores_the_new_grid_and_drops_lost_cells(database: Database) -> None:
    await database.write(boards.create_board, "default", BOARD)
    await database.write(boards.fill_cells, "default", "brd_1", [A, B])
    smaller = Grid(name="new", mode="single", columns=GRID.columns[:1], rows=GRID.rows)

    replaced = await database.write(boards.replace_board, "default", "brd_1", smaller, keep=None, at=LATER, check=allow)

    assert replaced == Board(id="brd_1", grid=smaller, cells=(A,), version=2, created_at=NOON, updated_at=LATER)
    assert await database.read(boards.get_board, "default", "brd_1") == replaced


async def test_replacing_a_board_deletes_cells_outside_keep(database: Database) -> None:
    await database.write(boards.create_board, "default", BOARD)
    await database.write(boards.fill_cells, "default", "brd_1", [A, B])
    replaced = await database.write(
        boards.replace_board, "default", "brd_1", GRID, keep={("r2", "c2")}, at=LATER, check=allow
    )

    assert replaced.cells == (B,)


async def test_only_one_of_several_concurrent_replacements_succeeds(database: Database) -> None:
    await database.write(boards.create_board, "default", BOARD)

    def first_only(board: Board) -> None:
        if board.version != 1:
            raise StaleBase("no", by="etag")

    attempts = [
        database.write(boards.replace_board, "default", "brd_1", GRID, keep=None, at=LATER, check=first_only)
        for _ in range(5)
    ]
    results = await asyncio.gather(*attempts, return_exceptions=True)

    assert sorted(type(result).__name__ for result in results) == ["Board", *["StaleBase"] * 4]


async def test_deleting_a_board_deletes_its_cells(database: Database) -> None:
    await database.write(boards.create_board, "default", BOARD)
    await database.write(boards.fill_cells, "default", "brd_1", [A])
    await database.write(boards.delete_board, "default", "brd_1", check=allow)

    assert await database.read(boards.list_cells, "default", "brd_1") == ()
    with pytest.raises(NotFound, match="Board 'brd_1' not found"):
        await database.read(boards.get_board, "default", "brd_1")


async def test_threads_of_a_deleted_board_stay_without_a_board(database: Database) -> None:
    await database.write(boards.create_board, "default", BOARD)
    for name, board in (("conv_1", "brd_1"), ("conv_2", "brd_2")):
        await database.write(
            threads.create_thread, "default", NewThread(id=name, at=NOON, workflow="tutor", board=board), []
        )
    await database.write(boards.delete_board, "default", "brd_1", check=allow)

    thread_boards = [
        (await database.read(threads.require_thread, "default", name)).board for name in ("conv_1", "conv_2")
    ]
    assert thread_boards == [None, "brd_2"]


async def test_board_of_another_project_is_not_found(database: Database) -> None:
    await database.write(boards.create_board, "default", BOARD)
    await database.write(boards.fill_cells, "default", "brd_1", [A])

    for attempt in (
        database.read(boards.get_board, "team", "brd_1"),
        database.write(boards.fill_cells, "team", "brd_1", [B]),
        database.write(boards.replace_board, "team", "brd_1", GRID, keep=None, at=LATER, check=allow),
        database.write(boards.delete_board, "team", "brd_1", check=allow),
    ):
        with pytest.raises(NotFound):
            await attempt
    assert await database.read(boards.list_cells, "team", "brd_1") == ()
    assert await database.read(boards.list_boards, "team") == Page([])
    assert (await database.read(boards.get_board, "default", "brd_1")).cells == (A,)
