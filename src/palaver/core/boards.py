"""Boards: saved grids with workflows as columns and inputs as rows; each cell is a thread or a run."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

import msgspec

from palaver.core import json
from palaver.core.variants import DEFAULT_VARIANT, parse_reference
from palaver.errors import InvalidValue, TooLarge

Mode = Literal["chat", "single"]
"""Each cell is a thread, or a single run."""

MAX_COLUMNS: Final = 8
MAX_ROWS: Final[dict[Mode, int]] = {"chat": 50, "single": 1_000}
MAX_BOARD_BYTES: Final = 8 * 1024 * 1024
"""JSON size of a board without its cells."""
MAX_LAYOUT_BYTES: Final = 16 * 1024

_Id = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$(?!\n)")]
_Line = Annotated[str, msgspec.Meta(pattern=r"^[^\x00]*$", max_length=200)]


class BoardColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow, a variant of it, and unsaved changes to its parameters."""

    id: _Id
    """Id that you choose, unique in the board."""
    workflow: _Line
    """Name of the workflow."""
    variant: _Line = DEFAULT_VARIANT
    """Name of the variant."""
    parameters: dict[str, Any] = {}
    """Unsaved changes to the parameters of the variant."""


class BoardRow(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of all cells in the row."""

    id: _Id
    """Id that you choose, unique in the board."""
    name: _Line = ""
    inputs: dict[str, Any] = {}
    """Inputs of the workflows, by name."""


class BoardTestset(msgspec.Struct, frozen=True):
    """The test set revision that the rows were loaded from."""

    id: Annotated[str, msgspec.Meta(max_length=64)]
    revision: int


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """The user-defined content of a board."""

    name: _Line = ""
    mode: Mode = "chat"
    """`chat` for conversations, `single` for single-turn runs."""
    columns: tuple[BoardColumn, ...] = ()
    rows: tuple[BoardRow, ...] = ()
    testset: BoardTestset | None = None
    layout: dict[str, Any] = {}
    """Layout state of the web interface, as any JSON object."""


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """A cell: its thread in chat mode, its last run in single mode."""

    row: str
    column: str
    thread: str | None = None
    run: str | None = None


def check_board(grid: Grid) -> Grid:
    """Return the grid. Raises a RequestError if it exceeds a limit or has duplicate ids."""
    if len(grid.columns) > MAX_COLUMNS:
        raise TooLarge(f"A board can have at most {MAX_COLUMNS} columns.", pointer="/columns")
    max_rows = MAX_ROWS[grid.mode]
    if len(grid.rows) > max_rows:
        raise TooLarge(f"A board in {grid.mode} mode can have at most {max_rows:,} rows.", pointer="/rows")
    if len(json.encode(grid.layout)) > MAX_LAYOUT_BYTES:
        raise TooLarge(f"The layout exceeds the limit of {MAX_LAYOUT_BYTES:,} bytes.", pointer="/layout")
    if len(json.encode(grid)) > MAX_BOARD_BYTES:
        raise TooLarge(f"The board exceeds the limit of {MAX_BOARD_BYTES:,} bytes.")
    _check_ids("columns", [column.id for column in grid.columns])
    _check_ids("rows", [row.id for row in grid.rows])
    for index, column in enumerate(grid.columns):
        parse_reference(column.variant, pointer=f"/columns/{index}/variant")
    return grid


def _check_ids(kind: str, ids: Sequence[str]) -> None:
    seen: set[str] = set()
    for index, identifier in enumerate(ids):
        if identifier in seen:
            raise InvalidValue(f"Duplicate id {identifier!r} in {kind}.", pointer=f"/{kind}/{index}/id")
        seen.add(identifier)
