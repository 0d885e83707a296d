"""The fixed plan of an evaluation: variants, evaluators, rows and cells."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from palaver.core.descriptions import IsChatSource
from palaver.errors import NotFound
from palaver.evaluation.plan.request import FailedAs, Limits, WantedRows

# What will be done


class ColumnMap(msgspec.Struct, frozen=True, kw_only=True):
    """Which column of a row goes where, for one variant. A row that has not got the column has nothing there."""

    messages: str | None = None
    history: str | None = None
    """What was said before those."""
    script: str | None = None
    spoken: str | None = None
    """What the user says in a row that has neither messages nor a script: a column of texts."""
    expected: str | None = None
    inputs: Mapping[str, str] = {}
    """By the input's name, its column."""


class PlannedVariant(msgspec.Struct, frozen=True, kw_only=True):
    """One variant, as it was when the evaluation began."""

    name: str
    workflow: str | None = None
    """None: `column` has the answers."""
    variant: str | None = None
    """The reference, fixed to a version: `short:3`."""
    parameters: Mapping[str, Any] = {}
    """What every call of it is given: the variant's and those over it."""
    column: str | None = None
    is_chat: bool = False
    is_chat_source: IsChatSource = "declared"
    map: ColumnMap = msgspec.field(default_factory=ColumnMap)


class PlannedEvaluator(msgspec.Struct, frozen=True, kw_only=True):
    """One evaluator, with parameters that it takes."""

    key: str
    name: str
    """Not twice in one evaluation; results and figures are told apart by it."""
    parameters: Mapping[str, Any] = {}


class PlannedTestset(msgspec.Struct, frozen=True, kw_only=True):
    """The revision, and how its rows were chosen."""

    id: str
    name: str
    revision: int
    digest: str = ""
    rows: WantedRows | None = None
    """None: all of them."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All that a run of it needs, beside the rows, which are stored in a column of their own: 32 bytes for each."""

    name: str
    testset: PlannedTestset
    variants: Sequence[PlannedVariant]
    evaluators: Sequence[PlannedEvaluator]
    repeats: int = 1
    limits: Limits = Limits()
    failed_as: FailedAs = "not_passed"


ROW_BYTES = 32
"""Of a row in `Planned.rows`: its packed id, then the hash of its content."""


class PlannedEvaluation(msgspec.Struct, frozen=True):
    """A plan, and the rows it is for."""

    plan: Plan
    rows: bytes
    """For each row 16 bytes of its id and 16 of its hash, in the order of the set."""

    @property
    def total(self) -> int:
        """How many cells: rows × variants × repeats."""
        return len(self.rows) // ROW_BYTES * len(self.plan.variants) * self.plan.repeats


# Cells


class CellPosition(msgspec.Struct, frozen=True):
    """Where a cell is: which row of the plan's rows, which of its variants, which repeat. All from 0."""

    row: int
    variant: int
    repeat: int


def cell_position(plan: Plan, cell: int) -> CellPosition:
    """The place of a cell by its number."""
    rest, repeat = divmod(cell, plan.repeats)
    row, variant = divmod(rest, len(plan.variants))
    return CellPosition(row, variant, repeat)


def cell_number(plan: Plan, place: CellPosition) -> int:
    """The number of the cell at a place."""
    return (place.row * len(plan.variants) + place.variant) * plan.repeats + place.repeat


def format_cell_id(cell: int) -> str:
    """A cell's number as others write it: `cell_42`. It is one of its evaluation, not of all."""
    return f"cell_{cell}"


def parse_cell_id(text: str) -> int:
    """The number again; NotFound for what is none."""
    digits = text.removeprefix("cell_")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 9 or (digits != "0" and digits[0] == "0"):
        raise NotFound(f"There is no result {text[:80]!r}.")
    return int(digits)
