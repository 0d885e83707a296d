"""POST /api/boards/{board}/run and …/cancel: the cells of a board in single mode, each by a run in the background."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, assert_never

import msgspec
from litestar import Response, post
from litestar.params import FromPath
from sqlalchemy import Connection

from palaver.core import dialects
from palaver.core.boards import BoardColumn, BoardRow, Cell
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
    Asked,
    answer,
    caller_of,
    raw_body,
    read_as,
    shown_as,
    takes,
    utc_now,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.api.idempotency import once
from palaver.server.auth import Caller
from palaver.server.conversations import merge_parameters, resolve_variant
from palaver.server.settings import Settings
from palaver.storage import boards
from palaver.storage import queue as waiting
from palaver.storage.boards import Board
from palaver.storage.database import Database
from palaver.storage.variants import ResolvedVariant
from palaver.workflows.workflow import Workflow

_PROTOCOL = "board"
"""What such runs say that they were begun by."""
_AT_ONCE = 100
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
        operation_class=takes(RunBoard),
        status_code=202,
    )
    async def run_board(self, request: Asked, board: FromPath[str]) -> Response[Begun]:
        raw = await raw_body(request, self.settings)
        body, caller = read_as(raw or b"{}", RunBoard, self.settings), caller_of(request)
        found = await self.database.read(boards.get_board, caller.project, board)
        if found.grid.mode != "single":
            raise InvalidValue("Only a board in single mode is run: in a chat, say something in its threads.")
        named = _named(found, body.cells)
        columns = {
            column.id: await self._column(caller, column)
            for column in found.grid.columns
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
        rows = {row.id: row for row in found.grid.rows}
        made = {
            (cell.row, cell.column): _new(self.engine, columns[cell.column], rows[cell.row], origin, name)
            for cell, name in zip(named, self.engine.new_run_ids(len(named)), strict=True)
        }

        def work(db: Connection) -> HttpResponse:
            now = boards.lock_board(db, caller.project, board)
            if now.version != found.version:
                raise StaleBase("The board was changed at this moment: try again.")
            chosen = _chosen(db, caller.project, now, body.cells, named)
            runs = [_with_files(db, made[cell.row, cell.column]) for cell in chosen]
            filled = [
                Cell(row=cell.row, column=cell.column, run=run.started.run_id)
                for cell, run in zip(chosen, runs, strict=True)
            ]
            if runs:
                waiting.enqueue_runs(db, runs, utc_now())
                boards.fill_cells(db, caller.project, board, filled)
            return shown_as(
                Begun([CellRun(cell.row, cell.column, cell.run or "") for cell in filled]),
                status=202,
                location=f"{self.settings.root_path}/api/runs?board={board}",
            )

        answered = await once(request, self.database, raw, work)
        self.run_queue.start()  # Where nobody told us that we start.
        self.run_queue.wake()
        return answered

    @post(
        "/{board:str}/cancel",
        operation_id="cancel_board",
        summary="End the runs of its cells that wait or go on",
        status_code=200,
    )
    async def cancel_board(self, request: Asked, board: FromPath[str]) -> Response[Ended]:
        project = caller_of(request).project
        await self.database.read(boards.get_board, project, board)
        ended: list[str] = []
        while some := await self.database.write(boards.cancel_queued_board_runs, project, board, _AT_ONCE, utc_now()):
            ended += some
        going = await self.database.read(boards.list_board_runs, project, board, "running")
        await asyncio.gather(*(self.run_reader.cancel(project, run) for run in going))
        return answer(request, Ended([*ended, *going]))

    async def _column(self, caller: Caller, column: BoardColumn) -> _Column:
        workflow = self.registry.workflow(column.workflow)
        if workflow.options.record != "full" or self.settings.record != "full":
            raise InvalidValue(
                f"What {column.workflow!r} is asked is not recorded: so it cannot wait in the background."
            )
        resolved = await resolve_variant(self.database, caller.project, workflow, column.variant)
        return _Column(workflow, resolved, merge_parameters(resolved, column.parameters))


# Which cells


def _named(board: Board, wanted: Which | list[tuple[str, str]]) -> list[Cell]:
    """The cells that were asked for, by name or all of them; each once."""
    rows, columns = [row.id for row in board.grid.rows], [column.id for column in board.grid.columns]
    if isinstance(wanted, str):
        return [Cell(row=row, column=column) for row in rows for column in columns]
    known = {(row, column) for row in rows for column in columns}
    for place, cell in enumerate(wanted):
        if cell not in known:
            raise InvalidValue(f"The board has no cell {'.'.join(cell)[:80]!r}.", pointer=f"/cells/{place}")
    return [Cell(row=row, column=column) for row, column in dict.fromkeys(wanted)]


def _chosen(
    db: Connection, project: str, board: Board, wanted: Which | list[tuple[str, str]], named: Sequence[Cell]
) -> list[Cell]:
    """Those of them that are to be run."""
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


def _call(column: _Column, row: BoardRow) -> Call:
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


def _with_files(db: Connection, run: NewRun) -> NewRun:
    """The run with the files that its row names, which must be there."""
    if not has_files(run.call.messages):
        return run
    messages = file_references.require_files(db, run.origin.project, run.call.messages)
    return msgspec.structs.replace(run, call=msgspec.structs.replace(run.call, messages=messages))


def _new(engine: Engine, column: _Column, row: BoardRow, origin: Origin, name: str) -> NewRun:
    call = _call(column, row)
    return NewRun(
        started=engine.promise_run(call, name),
        workflow=call.workflow,
        call=call,
        origin=msgspec.structs.replace(origin, variant=column.resolved.reference),
        process=None,
        status="queued",
        idempotent=column.workflow.options.idempotent,
    )
