"""Validation of boards."""

import pytest

from palaver.core.boards import BoardColumn, BoardRow, Grid, check_board
from palaver.errors import InvalidParameter, InvalidValue, TooLarge


def rows(count: int, size: int = 0) -> tuple[BoardRow, ...]:
    return tuple(BoardRow(id=f"r{number}", inputs={"x": "x" * size}) for number in range(count))


def columns(count: int) -> tuple[BoardColumn, ...]:
    return tuple(BoardColumn(id=f"c{number}", workflow="tutor") for number in range(count))


@pytest.mark.parametrize(
    "grid",
    [
        Grid(),
        Grid(rows=rows(50), columns=columns(8)),
        Grid(mode="single", rows=rows(1_000), columns=columns(8)),
        Grid(layout={"x": "x" * (16_384 - 8)}),
        Grid(rows=rows(7, 1_000_000)),
    ],
)
def test_a_board_within_its_limits_is_accepted(grid: Grid) -> None:
    assert check_board(grid) is grid


@pytest.mark.parametrize(
    ("grid", "error", "pointer"),
    [
        (Grid(columns=columns(9)), TooLarge, "/columns"),
        (Grid(rows=rows(51)), TooLarge, "/rows"),
        (Grid(mode="single", rows=rows(1_001)), TooLarge, "/rows"),
        (Grid(layout={"x": "x" * 16_384}), TooLarge, "/layout"),
        (Grid(rows=rows(9, 1_000_000)), TooLarge, None),
        (Grid(rows=rows(1) * 2), InvalidValue, "/rows/1/id"),
        (Grid(columns=columns(2) + columns(1)), InvalidValue, "/columns/2/id"),
        (Grid(columns=(BoardColumn(id="a", workflow="w", variant="x:0"),)), InvalidParameter, "/columns/0/variant"),
    ],
)
def test_an_invalid_board_is_rejected(grid: Grid, error: type[TooLarge | InvalidValue], pointer: str | None) -> None:
    with pytest.raises(error) as caught:
        check_board(grid)
    assert caught.value.pointer == pointer
