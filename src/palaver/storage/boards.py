"""Playground boards, their cells, and the runs of those cells."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Row, delete, func, insert, select, tuple_, update

from palaver.core.boards import Cell, Grid, Mode
from palaver.core.runs import RunStatus
from palaver.errors import NotFound
from palaver.storage import run_log
from palaver.storage.notifications import Change, mark_changed
from palaver.storage.pagination import FIRST_PAGE, Page, Window, fetch_page
from palaver.storage.schema import require_row, row_converter, split_batches
from palaver.storage.tables import board_cells as cells_table
from palaver.storage.tables import boards as table
from palaver.storage.tables import runs as runs_table
from palaver.storage.tables import threads as threads_table

_MAX_CELLS = 200
"""Maximum number of cells in one statement."""
_MIN_CELL_BYTES = 40
"""Minimum size of a stored cell."""


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """A saved grid, with its cells."""

    id: str
    grid: Grid
    cells: tuple[Cell, ...] = ()
    version: int = 1
    """How often it was saved."""
    created_at: datetime
    updated_at: datetime


class BoardSummary(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    mode: Mode
    created_at: datetime
    updated_at: datetime


class LastBoard(NamedTuple):
    id: str | None = None
    board: Board | None = None
    """None if no board exists, or it is too large."""


def get_board(db: Connection, project: str, board: str, *, lock: bool = False) -> Board:
    """Return a board with its cells; with `lock`, locked until the transaction ends. Raises NotFound."""
    query = select(table).with_for_update() if lock else select(table)
    row = require_row(db, query, table, project, board, "Board")
    return Board(
        id=row.id,
        grid=msgspec.convert(row.body, Grid),
        cells=list_cells(db, project, board),
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def list_boards(db: Connection, project: str, window: Window = FIRST_PAGE) -> Page[BoardSummary]:
    """List boards, last saved first."""
    columns = [table.c[name] for name in BoardSummary.__struct_fields__]
    query = select(*columns).where(table.c.project == project)
    return fetch_page(
        db, query, row_converter(BoardSummary), project=project, by=(table.c.updated_at, table.c.id), window=window
    )


def get_last_saved(db: Connection, project: str, *, max_bytes: int) -> LastBoard:
    """Return the board that was saved last, without its content if it has more than `max_bytes` bytes."""
    query = select(table.c.id, func.length(table.c.body)).where(table.c.project == project)
    row = db.execute(query.order_by(table.c.updated_at.desc(), table.c.id.desc()).limit(1)).one_or_none()
    if row is None:
        return LastBoard()
    board, size = row
    cells = select(cells_table.c.row).where(cells_table.c.project == project, cells_table.c.board == board)
    max_cells = max_bytes // _MIN_CELL_BYTES
    if size > max_bytes or len(db.execute(cells.limit(max_cells + 1)).all()) > max_cells:
        return LastBoard(board)
    return LastBoard(board, get_board(db, project, board))


def list_cells(db: Connection, project: str, board: str) -> tuple[Cell, ...]:
    columns = cells_table.c
    query = select(columns.row, columns.column, columns.thread, columns.run)
    query = query.where(columns.project == project, columns.board == board).order_by(columns.row, columns.column)
    return tuple(Cell(row=row, column=column, thread=thread, run=run) for row, column, thread, run in db.execute(query))


def create_board(db: Connection, project: str, board: Board) -> None:
    """Insert a board without cells."""
    db.execute(
        insert(table).values(
            project=project,
            id=board.id,
            version=board.version,
            created_at=board.created_at,
            updated_at=board.updated_at,
            **_grid_columns(board.grid),
        )
    )
    mark_changed(db, Change(project, "board", board.id))


def replace_board(
    db: Connection,
    project: str,
    board: str,
    grid: Grid,
    *,
    keep: Collection[tuple[str, str]] | None,
    at: datetime,
    check: Callable[[Board], None],
) -> Board:
    """Replace the grid of a board.

    Cells whose row and column still exist stay if they are in `keep` (None: all). `check` may raise to refuse.
    """
    current = get_board(db, project, board, lock=True)
    check(current)
    rows, columns = {row.id for row in grid.rows}, {column.id for column in grid.columns}
    remaining: list[Cell] = []
    removed: list[Cell] = []
    for cell in current.cells:
        exists = cell.row in rows and cell.column in columns
        (remaining if exists and (keep is None or (cell.row, cell.column) in keep) else removed).append(cell)
    _delete_cells(db, project, board, removed)
    version = current.version + 1
    values = {"version": version, "updated_at": at, **_grid_columns(grid)}
    db.execute(update(table).where(table.c.project == project, table.c.id == board).values(values))
    mark_changed(db, Change(project, "board", board))
    return msgspec.structs.replace(current, grid=grid, cells=tuple(remaining), version=version, updated_at=at)


def delete_board(db: Connection, project: str, board: str, *, check: Callable[[Board], None]) -> None:
    """Delete a board. Its threads and runs stay, without a board."""
    check(get_board(db, project, board, lock=True))
    db.execute(delete(table).where(table.c.project == project, table.c.id == board))
    in_board = (threads_table.c.project == project, threads_table.c.board == board)
    for thread in db.scalars(select(threads_table.c.id).where(*in_board)).all():
        mark_changed(db, Change(project, "thread", thread))
    db.execute(update(threads_table).where(*in_board).values(board=None))
    mark_changed(db, Change(project, "board", board))


def fill_cells(db: Connection, project: str, board: str, cells: Sequence[Cell]) -> None:
    """Set threads or runs of cells. Raises NotFound for a cell that does not exist."""
    current = get_board(db, project, board, lock=True)
    rows, columns = {row.id for row in current.grid.rows}, {column.id for column in current.grid.columns}
    before = {(cell.row, cell.column): cell for cell in current.cells}
    values: dict[tuple[str, str], dict[str, Any]] = {}
    for cell in cells:
        if cell.row not in rows or cell.column not in columns:
            raise NotFound(f"Cell {f'{cell.row}.{cell.column}'[:80]!r} not found in board {board!r}.")
        old = before.get((cell.row, cell.column), cell)
        key = {"project": project, "board": board, "row": cell.row, "column": cell.column}
        values[cell.row, cell.column] = {**key, "thread": cell.thread or old.thread, "run": cell.run or old.run}
    _delete_cells(db, project, board, cells)
    if values:
        db.execute(insert(cells_table), list(values.values()))
        mark_changed(db, Change(project, "board", board))


def _delete_cells(db: Connection, project: str, board: str, cells: Sequence[Cell]) -> None:
    columns = cells_table.c
    in_board = (columns.project == project, columns.board == board)
    for batch in split_batches(cells, _MAX_CELLS):
        keys = [(cell.row, cell.column) for cell in batch]
        db.execute(delete(cells_table).where(*in_board, tuple_(columns.row, columns.column).in_(keys)))


# Database rows


def _grid_columns(grid: Grid) -> dict[str, Any]:
    return {"name": grid.name, "mode": grid.mode, "body": grid}


_IS_BOARD_RUN = runs_table.c.board.is_not(None)
_MAX_IDS = 500

ProjectKey = tuple[str, str]
"""A project and the id of something in it."""


def board_run_note(concurrency: int) -> dict[str, int]:
    return {"concurrency": concurrency}


# Concurrency limits


def find_full_boards(db: Connection) -> list[ProjectKey]:
    """Return the boards that have reached their number of concurrent runs."""
    queued = (runs_table.c.ended_at.is_(None), runs_table.c.status == "queued", _IS_BOARD_RUN)
    if db.execute(select(runs_table.c.id).where(*queued).limit(1)).first() is None:
        return []  # The usual case.
    return [board for board, limits in _active_limits(db).items() if len(limits) >= min(limits)]


def find_runs_over_limit(db: Connection, queued: Sequence[Row[Any, Any, Any]]) -> set[ProjectKey]:
    """Return the keys of (project, id, board) rows that would exceed the concurrency of their board.

    The boards are locked, so that no two processes count at the same time.
    """
    board_rows = [row for row in queued if row.board is not None]
    if not board_rows:
        return set()
    board_keys = sorted({(row.project, row.board) for row in board_rows})
    key = tuple_(table.c.project, table.c.id)
    db.execute(select(table.c.id).where(key.in_(board_keys)).order_by(*key).with_for_update()).all()
    active = {board: len(limits) for board, limits in _active_limits(db).items()}
    limits = _requested_limits(db, [(row.project, row.id) for row in board_rows])
    over_limit: set[ProjectKey] = set()
    for row in board_rows:
        board, run = (row.project, row.board), (row.project, row.id)
        if active.get(board, 0) >= limits[run]:
            over_limit.add(run)
        else:
            active[board] = active.get(board, 0) + 1
    return over_limit


def _active_limits(db: Connection) -> dict[ProjectKey, list[int]]:
    """Return, for each board, the concurrency limit of each active run."""
    query = select(runs_table.c.project, runs_table.c.board, runs_table.c.reading).where(
        runs_table.c.ended_at.is_(None), runs_table.c.status == "running", _IS_BOARD_RUN
    )
    limits: dict[ProjectKey, list[int]] = {}
    for project, board, note in db.execute(query):
        limits.setdefault((project, board), []).append(note["concurrency"])
    return limits


def _requested_limits(db: Connection, keys: Sequence[ProjectKey]) -> dict[ProjectKey, int]:
    query = select(runs_table.c.project, runs_table.c.id, runs_table.c.reading)
    rows = db.execute(query.where(tuple_(runs_table.c.project, runs_table.c.id).in_(keys)))
    return {(project, run): note["concurrency"] for project, run, note in rows}


# Status


def run_statuses(db: Connection, project: str, ids: Sequence[str]) -> dict[str, RunStatus]:
    """Return the status of runs by id; deleted runs are omitted."""
    statuses: dict[str, RunStatus] = {}
    for batch in split_batches(ids, _MAX_IDS):
        query = select(runs_table.c.id, runs_table.c.status).where(
            runs_table.c.project == project, runs_table.c.id.in_(batch)
        )
        statuses |= {row.id: row.status for row in db.execute(query)}
    return statuses


def list_board_runs(db: Connection, project: str, board: str, status: RunStatus, limit: int = 1 << 30) -> list[str]:
    """List the queued or running runs of a board, oldest first."""
    query = select(runs_table.c.id).where(
        runs_table.c.ended_at.is_(None),
        runs_table.c.status == status,
        runs_table.c.project == project,
        runs_table.c.board == board,
    )
    return list(db.scalars(query.order_by(runs_table.c.id).limit(limit)))


def cancel_queued_board_runs(db: Connection, project: str, board: str, limit: int, at: datetime) -> list[str]:
    """Cancel up to `limit` queued runs; returns their ids."""
    queued = list_board_runs(db, project, board, "queued", limit)
    return [run for run in queued if run_log.cancel_queued_run(db, project, run, at)]
