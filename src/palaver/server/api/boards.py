"""/api/boards: saved grids of the playground. Their cells are filled by the routes of threads and runs."""

from typing import Annotated, Any

import msgspec
from litestar import Response, delete, get, post, put
from litestar.params import FromPath
from msgspec import UNSET, UnsetType
from sqlalchemy import Connection

from palaver.core.boards import BoardColumn, BoardRow, Cell, FromTestset, Grid, Mode, check_board
from palaver.protocols.base import HttpResponse
from palaver.server.api.conventions import (
    After,
    Asked,
    Limit,
    Page,
    Time,
    Window,
    answer,
    caller_of,
    new_id,
    raw_body,
    read_as,
    read_body,
    shown_as,
    takes,
    told_time,
    unless_stale,
    utc_now,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.api.idempotency import once
from palaver.server.settings import Settings
from palaver.storage import boards
from palaver.storage.boards import Board, BoardSummary
from palaver.storage.database import Database


class Kept(msgspec.Struct, frozen=True):
    """A cell that is to stay."""

    row: str
    column: str


class GivenBoard(Grid, frozen=True, kw_only=True):
    """A board, whole, as a person wants it."""

    cells: tuple[Kept, ...] | UnsetType = UNSET
    """Those that are to stay; absent: all of them. Nothing else of cells is read."""


class Copied(msgspec.Struct, frozen=True):
    """What a copy is called."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[^\x00]*$", max_length=200)] | UnsetType = UNSET


class BoardListed(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the list."""

    id: str
    name: str
    mode: Mode
    created_at: Time
    updated_at: Time


class BoardView(BoardListed, frozen=True, kw_only=True):
    """All of one board."""

    columns: tuple[BoardColumn, ...]
    rows: tuple[BoardRow, ...]
    cells: tuple[Cell, ...]
    testset: FromTestset | None
    layout: dict[str, Any]


def row(board: BoardSummary) -> BoardListed:
    """A board as a row."""
    return BoardListed(
        id=board.id,
        name=board.name,
        mode=board.mode,
        created_at=told_time(board.created_at),
        updated_at=told_time(board.updated_at),
    )


def view(board: Board) -> BoardView:
    """A board as a whole."""
    grid = board.grid
    return BoardView(
        id=board.id,
        name=grid.name,
        mode=grid.mode,
        columns=grid.columns,
        rows=grid.rows,
        cells=board.cells,
        testset=grid.testset,
        layout=grid.layout,
        created_at=told_time(board.created_at),
        updated_at=told_time(board.updated_at),
    )


def mark(board: Board) -> str:
    """What of its ETag a person's own changes make: cells that are filled meanwhile do not make theirs stale."""
    return str(board.version)


class BoardController(ApiController):
    path = "/api/boards"

    database: Database
    settings: Settings

    @get(operation_id="list_boards", summary="Boards, last saved first")
    async def list_boards(self, request: Asked, limit: Limit = 50, after: After = None) -> Page[BoardListed]:
        found = await self.database.read(boards.list_boards, caller_of(request).project, Window(limit, after))
        return found.map(row)

    @post(operation_id="create_board", summary="A new board", operation_class=takes(GivenBoard))
    async def create_board(self, request: Asked) -> Response[BoardView]:
        raw, body = await read_body(request, self.settings, GivenBoard)
        return await self._make(request, raw, check_board(_grid(body)))

    @get("/{board:str}", operation_id="get_board", summary="One board, with its cells")
    async def get_board(self, request: Asked, board: FromPath[str]) -> Response[BoardView]:
        found = await self.database.read(boards.get_board, caller_of(request).project, board)
        return answer(request, view(found), mark=mark(found))

    @put(
        "/{board:str}",
        operation_id="replace_board",
        summary="The board, whole; cells can be dropped but not filled",
        operation_class=takes(GivenBoard),
    )
    async def replace_board(self, request: Asked, board: FromPath[str]) -> Response[BoardView]:
        _, body = await read_body(request, self.settings, GivenBoard)
        grid, project, fresh = check_board(_grid(body)), caller_of(request).project, unless_stale(request, view, mark)
        keep = None if body.cells is UNSET else {(cell.row, cell.column) for cell in body.cells}
        put = await self.database.write(
            boards.replace_board, project, board, grid, keep=keep, at=utc_now(), check=fresh
        )
        return answer(request, view(put), mark=mark(put))

    @delete("/{board:str}", operation_id="delete_board", summary="Delete it; its threads stay")
    async def delete_board(self, request: Asked, board: FromPath[str]) -> None:
        fresh = unless_stale(request, view, mark)
        await self.database.write(boards.delete_board, caller_of(request).project, board, check=fresh)

    @post(
        "/{board:str}/duplicate",
        operation_id="duplicate_board",
        summary="A copy of its columns and rows, with empty cells",
        operation_class=takes(Copied),
    )
    async def duplicate_board(self, request: Asked, board: FromPath[str]) -> Response[BoardView]:
        raw = await raw_body(request, self.settings)
        body = read_as(raw or b"{}", Copied, self.settings)
        found = await self.database.read(boards.get_board, caller_of(request).project, board)
        name = f"{found.grid.name[:193]} (copy)" if body.name is UNSET else body.name
        return await self._make(request, raw, msgspec.structs.replace(found.grid, name=name))

    async def _make(self, request: Asked, raw: bytes, grid: Grid) -> Response[BoardView]:
        project, now = caller_of(request).project, utc_now()
        made = Board(id=new_id("brd"), grid=grid, created_at=now, updated_at=now)

        def work(db: Connection) -> HttpResponse:
            boards.create_board(db, project, made)
            place = f"{self.settings.root_path}/api/boards/{made.id}"
            return shown_as(view(made), status=201, location=place, mark=mark(made))

        return await once(request, self.database, raw, work)


def _grid(body: GivenBoard) -> Grid:
    return Grid(**{name: getattr(body, name) for name in Grid.__struct_fields__})
