"""Boards: what a person made of each, and the cells, which are ours to fill."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Row, delete, func, insert, select, tuple_, update

from palaver.core.boards import Cell, Grid, Mode
from palaver.errors import NotFound
from palaver.storage.notices import Change, touch
from palaver.storage.pages import START, Page, Window, page
from palaver.storage.tables import board_cells as cells_table
from palaver.storage.tables import boards as table
from palaver.storage.tables import threads as threads_table

_AT_ONCE = 200
"""Cells that are named in one statement."""
_CELL = 40
"""Bytes that a cell has at least."""


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """A saved grid, with its cells."""

    id: str
    grid: Grid
    cells: tuple[Cell, ...] = ()
    version: int = 1
    """How often a person has saved it."""
    created_at: datetime
    updated_at: datetime


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A board in a list."""

    id: str
    name: str
    mode: Mode
    created_at: datetime
    updated_at: datetime


class Last(NamedTuple):
    """The board that was saved last."""

    id: str | None = None
    board: Board | None = None
    """None where there is none, or where it is too large."""


def get(db: Connection, project: str, board: str) -> Board:
    """One, with its cells."""
    return _got(db, project, board)


def held(db: Connection, project: str, board: str) -> Board:
    """The same, and nobody else changes it meanwhile."""
    return _got(db, project, board, lock=True)


def _got(db: Connection, project: str, board: str, *, lock: bool = False) -> Board:
    query = select(table).where(table.c.project == project, table.c.id == board)
    row = db.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise NotFound(f"There is no board {board[:80]!r}.")
    return _board(row, cells(db, project, board))


def listed(db: Connection, project: str, window: Window = START) -> Page[Listed]:
    """All of them, last saved first."""
    columns = [table.c[name] for name in Listed.__struct_fields__]
    query = select(*columns).where(table.c.project == project)
    return page(db, query, _listed, project=project, by=(table.c.updated_at, table.c.id), window=window)


def last_saved(db: Connection, project: str, *, largest: int) -> Last:
    """The one that was saved last, unless it has more bytes than that."""
    query = select(table.c.id, func.length(table.c.body)).where(table.c.project == project)
    row = db.execute(query.order_by(table.c.updated_at.desc(), table.c.id.desc()).limit(1)).one_or_none()
    if row is None:
        return Last()
    board, size = row
    filled = select(cells_table.c.row).where(cells_table.c.project == project, cells_table.c.board == board)
    few = largest // _CELL
    if size > largest or len(db.execute(filled.limit(few + 1)).all()) > few:
        return Last(board)
    return Last(board, _got(db, project, board))


def cells(db: Connection, project: str, board: str) -> tuple[Cell, ...]:
    """What is in a board's cells."""
    columns = cells_table.c
    query = select(columns.row, columns.column, columns.thread, columns.run)
    query = query.where(columns.project == project, columns.board == board).order_by(columns.row, columns.column)
    return tuple(Cell(row=row, column=column, thread=thread, run=run) for row, column, thread, run in db.execute(query))


def create(db: Connection, project: str, board: Board) -> None:
    """Keep a new one; it has no cells yet."""
    db.execute(
        insert(table).values(
            project=project,
            id=board.id,
            version=board.version,
            created_at=board.created_at,
            updated_at=board.updated_at,
            **_columns(board.grid),
        )
    )
    touch(db, Change(project, "board", board.id))


def replace(
    db: Connection,
    project: str,
    board: str,
    grid: Grid,
    *,
    keep: Collection[tuple[str, str]] | None,
    at: datetime,
    check: Callable[[Board], None],
) -> Board:
    """Put another grid in its place.

    Cells stay where their row and column do, if they are among those to `keep` (None: all of them). `check` may refuse
    to change what it is given.
    """
    found = _got(db, project, board, lock=True)
    check(found)
    rows, columns = {row.id for row in grid.rows}, {column.id for column in grid.columns}
    stays: list[Cell] = []
    goes: list[Cell] = []
    for cell in found.cells:
        has_place = cell.row in rows and cell.column in columns
        (stays if has_place and (keep is None or (cell.row, cell.column) in keep) else goes).append(cell)
    _drop(db, project, board, goes)
    version = found.version + 1
    values = {"version": version, "updated_at": at, **_columns(grid)}
    db.execute(update(table).where(table.c.project == project, table.c.id == board).values(values))
    touch(db, Change(project, "board", board))
    return msgspec.structs.replace(found, grid=grid, cells=tuple(stays), version=version, updated_at=at)


def remove(db: Connection, project: str, board: str, *, check: Callable[[Board], None]) -> None:
    """Let go of it. Its threads and runs stay; the threads are of no board then."""
    check(_got(db, project, board, lock=True))
    db.execute(delete(table).where(table.c.project == project, table.c.id == board))
    its = (threads_table.c.project == project, threads_table.c.board == board)
    for thread in db.scalars(select(threads_table.c.id).where(*its)).all():
        touch(db, Change(project, "thread", thread))
    db.execute(update(threads_table).where(*its).values(board=None))
    touch(db, Change(project, "board", board))


def fill(db: Connection, project: str, board: str, filled: Sequence[Cell]) -> None:
    """Put threads or runs into cells; what a cell has of the other kind stays. NotFound for one that is not there."""
    found = _got(db, project, board, lock=True)
    rows, columns = {row.id for row in found.grid.rows}, {column.id for column in found.grid.columns}
    before = {(cell.row, cell.column): cell for cell in found.cells}
    values: dict[tuple[str, str], dict[str, Any]] = {}
    for cell in filled:
        if cell.row not in rows or cell.column not in columns:
            raise NotFound(f"The board {board!r} has no cell {f'{cell.row}.{cell.column}'[:80]!r}.")
        old = before.get((cell.row, cell.column), cell)
        kept = {"row": cell.row, "column": cell.column, "thread": cell.thread or old.thread, "run": cell.run or old.run}
        values[cell.row, cell.column] = {"project": project, "board": board, **kept}
    _drop(db, project, board, filled)
    if values:
        db.execute(insert(cells_table), list(values.values()))
        touch(db, Change(project, "board", board))


def _drop(db: Connection, project: str, board: str, gone: Sequence[Cell]) -> None:
    columns = cells_table.c
    here = (columns.project == project, columns.board == board)
    for start in range(0, len(gone), _AT_ONCE):
        named = [(cell.row, cell.column) for cell in gone[start : start + _AT_ONCE]]
        db.execute(delete(cells_table).where(*here, tuple_(columns.row, columns.column).in_(named)))


# Rows


def _columns(grid: Grid) -> dict[str, Any]:
    return {"name": grid.name, "mode": grid.mode, "body": grid}


def _board(row: Row[Any], filled: tuple[Cell, ...]) -> Board:
    return Board(
        id=row.id,
        grid=msgspec.convert(row.body, Grid),
        cells=filled,
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _listed(row: Row[Any]) -> Listed:
    return Listed(**{name: getattr(row, name) for name in Listed.__struct_fields__})
