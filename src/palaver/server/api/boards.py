"""/api/boards: saved boards of the playground, and background runs of their cells in single-turn mode."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, assert_never

import msgspec
from litestar import Response, delete, get, post, put
from litestar.params import FromPath
from msgspec import UNSET, UnsetType
from sqlalchemy import Connection

from palaver.core import dialects
from palaver.core.boards import BoardColumn, BoardRow, BoardTestset, Cell, Grid, Mode, check_board
from palaver.core.messages import has_files
from palaver.core.runs import Call, NewRun, Origin, RunStatus
from palaver.discovery.registry import Registry
from palaver.engine.background_runs import RunQueue
from palaver.engine.engine import Engine
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
    if_match_check,
    make_view,
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
from palaver.server.settings import Settings
from palaver.server.variant_resolver import merge_parameters, resolve_variant
from palaver.storage import background_runs, boards
from palaver.storage.boards import Board, BoardSummary
from palaver.storage.database import Database
from palaver.storage.pagination import Page, Window
from palaver.storage.variants import ResolvedVariant
from palaver.workflows.workflow import Workflow


class CellReference(msgspec.Struct, frozen=True):
    """A cell to keep."""

    row: str
    column: str


class BoardInput(Grid, frozen=True, kw_only=True):
    """The complete content of a board."""

    cells: tuple[CellReference, ...] | UnsetType = UNSET
    """The cells to keep; by default all. Their other fields are ignored."""


class DuplicateBoard(msgspec.Struct, frozen=True):
    """The name of the copy."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[^\x00]*$", max_length=200)] | UnsetType = UNSET


class BoardListItem(msgspec.Struct, frozen=True, kw_only=True):
    """A board in a list."""

    id: str
    name: str
    mode: Mode
    created_at: Timestamp
    updated_at: Timestamp


class BoardView(BoardListItem, frozen=True, kw_only=True):
    """A board with its columns, rows and cells."""

    columns: tuple[BoardColumn, ...]
    rows: tuple[BoardRow, ...]
    cells: tuple[Cell, ...]
    testset: BoardTestset | None
    layout: dict[str, Any]


def board_row(board: BoardSummary) -> BoardListItem:
    return make_view(BoardListItem, board)


def board_view(board: Board) -> BoardView:
    return make_view(BoardView, board, **msgspec.structs.asdict(board.grid))


def board_etag_prefix(board: Board) -> str:
    """Return the version that `If-Match` compares: filling cells does not change it."""
    return str(board.version)


class BoardController(ApiController):
    path = "/api/boards"

    database: Database
    settings: Settings

    @get(operation_id="list_boards", summary="List boards, most recently saved first")
    async def list_boards(self, request: ApiRequest, limit: Limit = 50, after: After = None) -> Page[BoardListItem]:
        page = await self.database.read(boards.list_boards, caller_of(request).project, Window(limit, after))
        return page.map(board_row)

    @post(operation_id="create_board", summary="Create a board", operation_class=operation_with_body(BoardInput))
    async def create_board(self, request: ApiRequest) -> Response[BoardView]:
        raw, body = await read_body(request, self.settings, BoardInput)
        return await self._create(request, raw, check_board(_grid(body)))

    @get("/{board:str}", operation_id="get_board", summary="Get a board with its cells")
    async def get_board(self, request: ApiRequest, board: FromPath[str]) -> Response[BoardView]:
        stored_board = await self.database.read(boards.get_board, caller_of(request).project, board)
        return object_response(request, board_view(stored_board), etag_prefix=board_etag_prefix(stored_board))

    @put(
        "/{board:str}",
        operation_id="replace_board",
        summary="Replace a board; cells can be removed but not filled",
        operation_class=operation_with_body(BoardInput),
    )
    async def replace_board(self, request: ApiRequest, board: FromPath[str]) -> Response[BoardView]:
        _, body = await read_body(request, self.settings, BoardInput)
        grid, project = check_board(_grid(body)), caller_of(request).project
        check = if_match_check(request, board_view, board_etag_prefix)
        keep = None if body.cells is UNSET else {(cell.row, cell.column) for cell in body.cells}
        replaced = await self.database.write(
            boards.replace_board, project, board, grid, keep=keep, at=utc_now(), check=check
        )
        return object_response(request, board_view(replaced), etag_prefix=board_etag_prefix(replaced))

    @delete("/{board:str}", operation_id="delete_board", summary="Delete a board; its threads are kept")
    async def delete_board(self, request: ApiRequest, board: FromPath[str]) -> None:
        check = if_match_check(request, board_view, board_etag_prefix)
        await self.database.write(boards.delete_board, caller_of(request).project, board, check=check)

    @post(
        "/{board:str}/duplicate",
        operation_id="duplicate_board",
        summary="Duplicate a board's columns and rows, with empty cells",
        operation_class=operation_with_body(DuplicateBoard),
    )
    async def duplicate_board(self, request: ApiRequest, board: FromPath[str]) -> Response[BoardView]:
        raw = await raw_body(request, self.settings)
        body = decode_body(raw or b"{}", DuplicateBoard, self.settings)
        stored_board = await self.database.read(boards.get_board, caller_of(request).project, board)
        name = f"{stored_board.grid.name[:193]} (copy)" if body.name is UNSET else body.name
        return await self._create(request, raw, msgspec.structs.replace(stored_board.grid, name=name))

    async def _create(self, request: ApiRequest, raw: bytes, grid: Grid) -> Response[BoardView]:
        project, now = caller_of(request).project, utc_now()
        new_board = Board(id=new_id("brd"), grid=grid, created_at=now, updated_at=now)

        def work(db: Connection) -> HttpResponse:
            boards.create_board(db, project, new_board)
            location = f"{self.settings.root_path}/api/boards/{new_board.id}"
            prefix = board_etag_prefix(new_board)
            return encode_object(board_view(new_board), status=201, location=location, etag_prefix=prefix)

        return await run_idempotent(request, self.database, raw, work)


def _grid(body: BoardInput) -> Grid:
    return Grid(**{name: getattr(body, name) for name in Grid.__struct_fields__})


_PROTOCOL = "board"
_CANCEL_BATCH_SIZE = 100  # Per transaction, so that other writers are not blocked for long.

Which = Literal["all", "empty", "failed"]
"""`empty`: cells without a run; `failed`: cells whose run failed, or was cancelled or interrupted."""


class RunBoard(msgspec.Struct, frozen=True, kw_only=True):
    """The cells to run."""

    cells: Which | list[tuple[str, str]] = "all"
    """A group of cells, or a list of pairs of a row and a column."""
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=16)] = 4
    """Maximum number of concurrent runs."""


class CellRun(msgspec.Struct, frozen=True):
    """The run of a cell."""

    row: str
    column: str
    run: str


class BoardRuns(msgspec.Struct, frozen=True):
    """The runs that were started. Cells with an active run are not included."""

    runs: list[CellRun]


class CancelledRuns(msgspec.Struct, frozen=True):
    """The runs that were cancelled."""

    runs: list[str]


class _ResolvedColumn(msgspec.Struct, frozen=True):
    """The workflow, variant and parameters of a column, resolved when its cells are run."""

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
        summary="Run cells of a single-turn board in the background; active cells are not restarted",
        operation_class=operation_with_body(RunBoard),
        status_code=202,
    )
    async def run_board(self, request: ApiRequest, board: FromPath[str]) -> Response[BoardRuns]:
        raw = await raw_body(request, self.settings)
        body, caller = decode_body(raw or b"{}", RunBoard, self.settings), caller_of(request)
        stored_board = await self.database.read(boards.get_board, caller.project, board)
        if stored_board.grid.mode != "single":
            raise InvalidValue(
                "Only boards in single-turn mode can be run. In a chat board, start turns in its threads."
            )
        requested = _requested_cells(stored_board, body.cells)
        columns = {
            column.id: await self._resolve_column(caller, column)
            for column in stored_board.grid.columns
            if any(cell.column == column.id for cell in requested)
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
        new_runs = {
            (cell.row, cell.column): _new_run(self.engine, columns[cell.column], rows[cell.row], origin, run_id)
            for cell, run_id in zip(requested, self.engine.new_run_ids(len(requested)), strict=True)
        }

        def work(db: Connection) -> HttpResponse:
            current = boards.get_board(db, caller.project, board, lock=True)
            if current.version != stored_board.version:
                raise StaleBase("The board was changed in the meantime. Try again.")
            to_run = _cells_to_run(db, caller.project, current, body.cells, requested)
            runs = [_require_files(db, new_runs[cell.row, cell.column]) for cell in to_run]
            filled = [
                Cell(row=cell.row, column=cell.column, run=run.started.run_id)
                for cell, run in zip(to_run, runs, strict=True)
            ]
            if runs:
                background_runs.enqueue_runs(db, runs, utc_now())
                boards.fill_cells(db, caller.project, board, filled)
            return encode_object(
                BoardRuns([CellRun(cell.row, cell.column, cell.run or "") for cell in filled]),
                status=202,
                location=f"{self.settings.root_path}/api/runs?board={board}",
            )

        response = await run_idempotent(request, self.database, raw, work)
        self.run_queue.start()  # The server may run without lifespan events.
        self.run_queue.wake()
        return response

    @post(
        "/{board:str}/cancel",
        operation_id="cancel_board",
        summary="Cancel a board's queued and active runs",
        status_code=200,
    )
    async def cancel_board(self, request: ApiRequest, board: FromPath[str]) -> Response[CancelledRuns]:
        project = caller_of(request).project
        await self.database.read(boards.get_board, project, board)
        cancelled: list[str] = []
        while batch := await self.database.write(
            boards.cancel_queued_board_runs, project, board, _CANCEL_BATCH_SIZE, utc_now()
        ):
            cancelled += batch
        running = await self.database.read(boards.list_board_runs, project, board, "running")
        await asyncio.gather(*(self.run_reader.cancel(project, run) for run in running))
        return object_response(request, CancelledRuns([*cancelled, *running]))

    async def _resolve_column(self, caller: Caller, column: BoardColumn) -> _ResolvedColumn:
        workflow = self.registry.workflow(column.workflow)
        if workflow.options.record != "full" or self.settings.record != "full":
            raise InvalidValue(
                f"Workflow {column.workflow!r} can't run in the background because its input is not recorded."
            )
        resolved = await resolve_variant(self.database, caller.project, workflow, column.variant)
        return _ResolvedColumn(workflow, resolved, merge_parameters(resolved, column.parameters))


def _requested_cells(board: Board, selection: Which | list[tuple[str, str]]) -> list[Cell]:
    rows, columns = [row.id for row in board.grid.rows], [column.id for column in board.grid.columns]
    if isinstance(selection, str):
        return [Cell(row=row, column=column) for row in rows for column in columns]
    cells = {(row, column) for row in rows for column in columns}
    for index, cell in enumerate(selection):
        if cell not in cells:
            raise InvalidValue(f"Cell {'.'.join(cell)[:80]!r} not found in this board.", pointer=f"/cells/{index}")
    return [Cell(row=row, column=column) for row, column in dict.fromkeys(selection)]


def _cells_to_run(
    db: Connection, project: str, board: Board, selection: Which | list[tuple[str, str]], requested: Sequence[Cell]
) -> list[Cell]:
    runs = {(cell.row, cell.column): cell.run for cell in board.cells if cell.run is not None}
    statuses = boards.run_statuses(db, project, list(runs.values()))

    def needs_run(cell: Cell) -> bool:
        status: RunStatus | None = statuses.get(runs.get((cell.row, cell.column), ""))
        match status:
            case "queued" | "running":
                return False
            case None:
                return selection != "failed"
            case "finished":
                return selection not in ("failed", "empty")
            case "failed" | "cancelled" | "interrupted":
                return selection != "empty"
            case _:
                assert_never(status)

    return [cell for cell in requested if needs_run(cell)]


def _cell_call(column: _ResolvedColumn, row: BoardRow) -> Call:
    """Build the call of a cell. Invalid messages remain an input, so that the run reports them."""
    inputs, messages = dict(row.inputs), ()
    if column.workflow.description.is_chat and "messages" in inputs:
        try:
            messages = file_references.resolve_file_urls(dialects.read(inputs["messages"]), host="", root_path="")
            del inputs["messages"]
        except PalaverError:
            pass
    return Call(
        workflow=column.workflow.description.name,
        messages=messages,
        inputs=inputs,
        parameters=column.parameters,
        background=True,
    )


def _require_files(db: Connection, run: NewRun) -> NewRun:
    """Return the run with its file references resolved; raises if a file is missing."""
    if not has_files(run.call.messages):
        return run
    messages = file_references.require_files(db, run.origin.project, run.call.messages)
    return msgspec.structs.replace(run, call=msgspec.structs.replace(run.call, messages=messages))


def _new_run(engine: Engine, column: _ResolvedColumn, row: BoardRow, origin: Origin, run_id: str) -> NewRun:
    call = _cell_call(column, row)
    return NewRun(
        started=engine.promise_run(call, run_id),
        workflow=call.workflow,
        call=call,
        origin=msgspec.structs.replace(origin, variant=column.resolved.reference),
        process=None,
        status="queued",
        idempotent=column.workflow.options.idempotent,
    )
