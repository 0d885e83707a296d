"""/api/boards: saved grids of the playground, and background runs of their cells in single mode."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, assert_never

import msgspec
from litestar import Response, delete, get, post, put
from litestar.params import FromPath
from msgspec import UNSET, UnsetType
from sqlalchemy import Connection

from palaver.core import dialects
from palaver.core.boards import BoardColumn, BoardRow, Cell, FromTestset, Grid, Mode, check_board
from palaver.core.messages import has_files
from palaver.core.runs import Call, NewRun, Origin, RunStatus
from palaver.discovery.registry import Registry
from palaver.engine.engine import Engine
from palaver.engine.queue import RunQueue
from palaver.engine.run_reader import RunReader
from palaver.errors import InvalidValue, PalaverError, StaleBase
from palaver.protocols.base import HttpResponse
from palaver.server import file_references
from palaver.server.api.conventions import (
    After,
    ApiRequest,
    Limit,
    Timestamp,
    caller_of,
    decode_body,
    encode_object,
    format_timestamp,
    if_match_check,
    new_id,
    object_response,
    operation_with_body,
    raw_body,
    read_body,
    run_idempotent,
    utc_now,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.auth import Caller
from palaver.server.conversation_resolver import merge_parameters, resolve_variant
from palaver.server.settings import Settings
from palaver.storage import boards
from palaver.storage import queue as waiting
from palaver.storage.boards import Board, BoardSummary
from palaver.storage.database import Database
from palaver.storage.pagination import Page, Window
from palaver.storage.variants import ResolvedVariant
from palaver.workflows.workflow import Workflow


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
    created_at: Timestamp
    updated_at: Timestamp


class BoardView(BoardListed, frozen=True, kw_only=True):
    """All of one board."""

    columns: tuple[BoardColumn, ...]
    rows: tuple[BoardRow, ...]
    cells: tuple[Cell, ...]
    testset: FromTestset | None
    layout: dict[str, Any]


def board_row(board: BoardSummary) -> BoardListed:
    return BoardListed(
        id=board.id,
        name=board.name,
        mode=board.mode,
        created_at=format_timestamp(board.created_at),
        updated_at=format_timestamp(board.updated_at),
    )


def board_view(board: Board) -> BoardView:
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
        created_at=format_timestamp(board.created_at),
        updated_at=format_timestamp(board.updated_at),
    )


def board_etag_mark(board: Board) -> str:
    """What of its ETag a person's own changes make: cells that are filled meanwhile do not make theirs stale."""
    return str(board.version)


class BoardController(ApiController):
    path = "/api/boards"

    database: Database
    settings: Settings

    @get(operation_id="list_boards", summary="Boards, last saved first")
    async def list_boards(self, request: ApiRequest, limit: Limit = 50, after: After = None) -> Page[BoardListed]:
        page = await self.database.read(boards.list_boards, caller_of(request).project, Window(limit, after))
        return page.map(board_row)

    @post(operation_id="create_board", summary="A new board", operation_class=operation_with_body(GivenBoard))
    async def create_board(self, request: ApiRequest) -> Response[BoardView]:
        raw, body = await read_body(request, self.settings, GivenBoard)
        return await self._make(request, raw, check_board(_grid(body)))

    @get("/{board:str}", operation_id="get_board", summary="One board, with its cells")
    async def get_board(self, request: ApiRequest, board: FromPath[str]) -> Response[BoardView]:
        stored_board = await self.database.read(boards.get_board, caller_of(request).project, board)
        return object_response(request, board_view(stored_board), mark=board_etag_mark(stored_board))

    @put(
        "/{board:str}",
        operation_id="replace_board",
        summary="The board, whole; cells can be dropped but not filled",
        operation_class=operation_with_body(GivenBoard),
    )
    async def replace_board(self, request: ApiRequest, board: FromPath[str]) -> Response[BoardView]:
        _, body = await read_body(request, self.settings, GivenBoard)
        grid, project, fresh = (
            check_board(_grid(body)),
            caller_of(request).project,
            if_match_check(request, board_view, board_etag_mark),
        )
        keep = None if body.cells is UNSET else {(cell.row, cell.column) for cell in body.cells}
        replaced = await self.database.write(
            boards.replace_board, project, board, grid, keep=keep, at=utc_now(), check=fresh
        )
        return object_response(request, board_view(replaced), mark=board_etag_mark(replaced))

    @delete("/{board:str}", operation_id="delete_board", summary="Delete it; its threads stay")
    async def delete_board(self, request: ApiRequest, board: FromPath[str]) -> None:
        fresh = if_match_check(request, board_view, board_etag_mark)
        await self.database.write(boards.delete_board, caller_of(request).project, board, check=fresh)

    @post(
        "/{board:str}/duplicate",
        operation_id="duplicate_board",
        summary="A copy of its columns and rows, with empty cells",
        operation_class=operation_with_body(Copied),
    )
    async def duplicate_board(self, request: ApiRequest, board: FromPath[str]) -> Response[BoardView]:
        raw = await raw_body(request, self.settings)
        body = decode_body(raw or b"{}", Copied, self.settings)
        stored_board = await self.database.read(boards.get_board, caller_of(request).project, board)
        name = f"{stored_board.grid.name[:193]} (copy)" if body.name is UNSET else body.name
        return await self._make(request, raw, msgspec.structs.replace(stored_board.grid, name=name))

    async def _make(self, request: ApiRequest, raw: bytes, grid: Grid) -> Response[BoardView]:
        project, now = caller_of(request).project, utc_now()
        made = Board(id=new_id("brd"), grid=grid, created_at=now, updated_at=now)

        def work(db: Connection) -> HttpResponse:
            boards.create_board(db, project, made)
            place = f"{self.settings.root_path}/api/boards/{made.id}"
            return encode_object(board_view(made), status=201, location=place, mark=board_etag_mark(made))

        return await run_idempotent(request, self.database, raw, work)


def _grid(body: GivenBoard) -> Grid:
    return Grid(**{name: getattr(body, name) for name in Grid.__struct_fields__})


_PROTOCOL = "board"
"""What such runs say that they were begun by."""
_CANCEL_BATCH_SIZE = 100
"""Runs that are ended in one transaction: others want to write, too."""

Which = Literal["all", "empty", "failed"]
"""All cells; those without a run; those whose run ended otherwise than by itself."""


class RunBoard(msgspec.Struct, frozen=True, kw_only=True):
    """Which cells are to be run."""

    cells: Which | list[tuple[str, str]] = "all"
    """Or these, each by its row and its column."""
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=16)] = 4
    """How many go on at once."""


class CellRun(msgspec.Struct, frozen=True):
    """The run of a cell."""

    row: str
    column: str
    run: str


class Begun(msgspec.Struct, frozen=True):
    """What was begun. A cell whose run still goes on is left as it is."""

    runs: list[CellRun]


class Ended(msgspec.Struct, frozen=True):
    """The runs that were ended."""

    runs: list[str]


class _Column(msgspec.Struct, frozen=True):
    """What answers in a column, as it is now."""

    workflow: Workflow
    resolved: ResolvedVariant
    parameters: Mapping[str, Any]


class BoardRunController(ApiController):
    path = "/api/boards"

    registry: Registry
    settings: Settings
    database: Database
    engine: Engine
    run_reader: RunReader
    run_queue: RunQueue

    @post(
        "/{board:str}/run",
        operation_id="run_board",
        summary="Run cells of a board in single mode, in the background; those that go on already are left alone",
        operation_class=operation_with_body(RunBoard),
        status_code=202,
    )
    async def run_board(self, request: ApiRequest, board: FromPath[str]) -> Response[Begun]:
        raw = await raw_body(request, self.settings)
        body, caller = decode_body(raw or b"{}", RunBoard, self.settings), caller_of(request)
        stored_board = await self.database.read(boards.get_board, caller.project, board)
        if stored_board.grid.mode != "single":
            raise InvalidValue("Only a board in single mode is run: in a chat, say something in its threads.")
        named = _requested_cells(stored_board, body.cells)
        columns = {
            column.id: await self._column(caller, column)
            for column in stored_board.grid.columns
            if any(cell.column == column.id for cell in named)
        }
        note = boards.board_run_note(body.concurrency)
        origin = Origin(
            project=caller.project,
            key=caller.key,
            protocol=_PROTOCOL,
            reading=note,
            background=True,
            board=board,
        )
        rows = {row.id: row for row in stored_board.grid.rows}
        made = {
            (cell.row, cell.column): _new_run(self.engine, columns[cell.column], rows[cell.row], origin, name)
            for cell, name in zip(named, self.engine.new_run_ids(len(named)), strict=True)
        }

        def work(db: Connection) -> HttpResponse:
            now = boards.lock_board(db, caller.project, board)
            if now.version != stored_board.version:
                raise StaleBase("The board was changed at this moment: try again.")
            chosen = _cells_to_run(db, caller.project, now, body.cells, named)
            runs = [_require_files(db, made[cell.row, cell.column]) for cell in chosen]
            filled = [
                Cell(row=cell.row, column=cell.column, run=run.started.run_id)
                for cell, run in zip(chosen, runs, strict=True)
            ]
            if runs:
                waiting.enqueue_runs(db, runs, utc_now())
                boards.fill_cells(db, caller.project, board, filled)
            return encode_object(
                Begun([CellRun(cell.row, cell.column, cell.run or "") for cell in filled]),
                status=202,
                location=f"{self.settings.root_path}/api/runs?board={board}",
            )

        answered = await run_idempotent(request, self.database, raw, work)
        self.run_queue.start()  # Where nobody told us that we start.
        self.run_queue.wake()
        return answered

    @post(
        "/{board:str}/cancel",
        operation_id="cancel_board",
        summary="End the runs of its cells that wait or go on",
        status_code=200,
    )
    async def cancel_board(self, request: ApiRequest, board: FromPath[str]) -> Response[Ended]:
        project = caller_of(request).project
        await self.database.read(boards.get_board, project, board)
        ended: list[str] = []
        while some := await self.database.write(
            boards.cancel_queued_board_runs, project, board, _CANCEL_BATCH_SIZE, utc_now()
        ):
            ended += some
        going = await self.database.read(boards.list_board_runs, project, board, "running")
        await asyncio.gather(*(self.run_reader.cancel(project, run) for run in going))
        return object_response(request, Ended([*ended, *going]))

    async def _column(self, caller: Caller, column: BoardColumn) -> _Column:
        workflow = self.registry.workflow(column.workflow)
        if workflow.options.record != "full" or self.settings.record != "full":
            raise InvalidValue(
                f"What {column.workflow!r} is asked is not recorded: so it cannot wait in the background."
            )
        resolved = await resolve_variant(self.database, caller.project, workflow, column.variant)
        return _Column(workflow, resolved, merge_parameters(resolved, column.parameters))


# Which cells


def _requested_cells(board: Board, wanted: Which | list[tuple[str, str]]) -> list[Cell]:
    """The cells that were asked for, by name or all of them; each once."""
    rows, columns = [row.id for row in board.grid.rows], [column.id for column in board.grid.columns]
    if isinstance(wanted, str):
        return [Cell(row=row, column=column) for row in rows for column in columns]
    known = {(row, column) for row in rows for column in columns}
    for place, cell in enumerate(wanted):
        if cell not in known:
            raise InvalidValue(f"The board has no cell {'.'.join(cell)[:80]!r}.", pointer=f"/cells/{place}")
    return [Cell(row=row, column=column) for row, column in dict.fromkeys(wanted)]


def _cells_to_run(
    db: Connection, project: str, board: Board, wanted: Which | list[tuple[str, str]], named: Sequence[Cell]
) -> list[Cell]:
    runs = {(cell.row, cell.column): cell.run for cell in board.cells if cell.run is not None}
    known = boards.run_statuses(db, project, list(runs.values()))

    def is_wanted(cell: Cell) -> bool:
        status: RunStatus | None = known.get(runs.get((cell.row, cell.column), ""))
        match status:
            case "queued" | "running":
                return False
            case None:
                return wanted != "failed"
            case "finished":
                return wanted not in ("failed", "empty")
            case "failed" | "cancelled" | "interrupted":
                return wanted != "empty"
            case _:
                assert_never(status)

    return [cell for cell in named if is_wanted(cell)]


# Their runs


def _cell_call(column: _Column, row: BoardRow) -> Call:
    """What a cell asks; what is wrong with it, its run will say."""
    inputs, said = dict(row.inputs), ()
    if column.workflow.description.is_chat and "messages" in inputs:
        try:
            said = file_references.resolve_file_urls(dialects.read(inputs["messages"]), host="", root_path="")
            del inputs["messages"]
        except PalaverError:
            pass  # As an input it is none that the workflow can take.
    return Call(
        workflow=column.workflow.description.name,
        messages=said,
        inputs=inputs,
        parameters=column.parameters,
        background=True,
    )


def _require_files(db: Connection, run: NewRun) -> NewRun:
    """The run with the files that its row names, which must be there."""
    if not has_files(run.call.messages):
        return run
    messages = file_references.require_files(db, run.origin.project, run.call.messages)
    return msgspec.structs.replace(run, call=msgspec.structs.replace(run.call, messages=messages))


def _new_run(engine: Engine, column: _Column, row: BoardRow, origin: Origin, name: str) -> NewRun:
    call = _cell_call(column, row)
    return NewRun(
        started=engine.promise_run(call, name),
        workflow=call.workflow,
        call=call,
        origin=msgspec.structs.replace(origin, variant=column.resolved.reference),
        process=None,
        status="queued",
        idempotent=column.workflow.options.idempotent,
    )
