"""The plan of an evaluation, fixed when it begins and stored with it: variants, evaluators, rows and cells."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from palaver.core.descriptions import IsChatSource
from palaver.errors import NotFound
from palaver.evaluation.plan.request import FailedAs, Limits, RowSelection
from palaver.storage.evaluations.repository import NewEvaluation, NewSlice
from palaver.storage.evaluations.slices import NO_CALL_WORKFLOW, SLICES_PER_WORKFLOW, Slice


class ColumnMap(msgspec.Struct, frozen=True, kw_only=True):
    """Which column of a row has which role, for one variant. Rows may lack a column."""

    messages: str | None = None
    history: str | None = None
    """Column with the messages before `messages`."""
    script: str | None = None
    spoken: str | None = None
    """Column with the user's text, used in rows that have neither messages nor a script."""
    expected: str | None = None
    expected_fallbacks: tuple[str, ...] = ()
    """Columns with the expected answer in rows where `expected` is empty, in order of preference."""
    inputs: Mapping[str, str] = {}
    """Column by input name."""

    def expected_column(self, row: Mapping[str, Any]) -> str | None:
        """Return the first column in which the row has an expected answer; `expected` if it has none."""
        names = () if self.expected is None else (self.expected, *self.expected_fallbacks)
        return next((name for name in names if row.get(name) not in (None, "")), self.expected)


class PlannedVariant(msgspec.Struct, frozen=True, kw_only=True):
    """One variant, as of the start of the evaluation."""

    name: str
    workflow: str | None = None
    """Null if the answers are in `column`."""
    variant: str | None = None
    """Reference to a version of the variant, such as `short:3`."""
    parameters: Mapping[str, Any] = {}
    """Parameters of every call: the variant's, overridden by the request's."""
    column: str | None = None
    is_chat: bool = False
    is_chat_source: IsChatSource = "declared"
    map: ColumnMap = msgspec.field(default_factory=ColumnMap)


class PlannedEvaluator(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    name: str
    """Unique in the evaluation; identifies results and figures."""
    parameters: Mapping[str, Any] = {}


class PlannedTestset(msgspec.Struct, frozen=True, kw_only=True):
    """The revision, and how its rows were chosen."""

    id: str
    name: str
    revision: int
    digest: str = ""
    rows: RowSelection | None = None
    """None for all."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a run needs but the rows, which are stored in a separate column: ROW_BYTES each."""

    name: str
    testset: PlannedTestset
    variants: Sequence[PlannedVariant]
    evaluators: Sequence[PlannedEvaluator]
    repeats: int = 1
    limits: Limits = Limits()
    failed_as: FailedAs = "not_passed"


ROW_BYTES = 32
"""Packed id and content hash of a row in `PlannedEvaluation.rows`."""


class PlannedEvaluation(msgspec.Struct, frozen=True):
    plan: Plan
    rows: bytes
    """ROW_BYTES for each row, in the order of the set."""

    @property
    def total(self) -> int:
        return len(self.rows) // ROW_BYTES * len(self.plan.variants) * self.plan.repeats


# Cells


class CellPosition(msgspec.Struct, frozen=True):
    """Row, variant and repeat of a cell, all from 0."""

    row: int
    variant: int
    repeat: int


def cell_position(plan: Plan, cell: int) -> CellPosition:
    row_and_variant, repeat = divmod(cell, plan.repeats)
    row, variant = divmod(row_and_variant, len(plan.variants))
    return CellPosition(row, variant, repeat)


def cell_number(plan: Plan, position: CellPosition) -> int:
    return (position.row * len(plan.variants) + position.variant) * plan.repeats + position.repeat


def format_cell_id(cell: int) -> str:
    """The external id of a cell, `cell_42`, unique within its evaluation."""
    return f"cell_{cell}"


def parse_cell_id(text: str) -> int:
    """Parse the external id of a cell. Raises NotFound if it is malformed."""
    digits = text.removeprefix("cell_")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 9 or (digits != "0" and digits[0] == "0"):
        raise NotFound(f"Result {text[:80]!r} not found.")
    return int(digits)


MAX_SLICE_CELLS = 50


def make_slices(plan: Plan, row_count: int) -> list[NewSlice]:
    """All slices of a plan. Those of several workflows alternate, so that all start at once."""
    ranked: list[tuple[int, NewSlice]] = []
    for workflow in dict.fromkeys(variant.workflow or NO_CALL_WORKFLOW for variant in plan.variants):
        total = row_count * len(_variants_of_workflow(plan, workflow)) * plan.repeats
        size = _slice_size(total, plan.limits.concurrency)
        slices = [NewSlice(workflow, first, min(size, total - first)) for first in range(0, total, size)]
        ranked += enumerate(slices)
    return [slice_ for _, slice_ in sorted(ranked, key=lambda pair: pair[0])]


def slice_cells(plan: Plan, slice_: Slice) -> list[int]:
    variants = _variants_of_workflow(plan, slice_.workflow)
    cells: list[int] = []
    for index in range(slice_.first, slice_.first + slice_.count):
        row_and_variant, repeat = divmod(index, plan.repeats)
        row, variant = divmod(row_and_variant, len(variants))
        cells.append(cell_number(plan, CellPosition(row, variants[variant], repeat)))
    return cells


def _slice_size(total: int, concurrency: int) -> int:
    """Return the number of cells in a slice: few for a small evaluation, so that its concurrency is used to the end."""
    min_size = -(-concurrency // SLICES_PER_WORKFLOW)
    return max(1, min(MAX_SLICE_CELLS, max(min_size, total // (SLICES_PER_WORKFLOW * 4))))


def _variants_of_workflow(plan: Plan, workflow: str) -> list[int]:
    return [index for index, variant in enumerate(plan.variants) if (variant.workflow or NO_CALL_WORKFLOW) == workflow]


def new_evaluation(id: str, planned: PlannedEvaluation, *, key: str | None = None) -> NewEvaluation:
    plan = planned.plan
    return NewEvaluation(
        id=id,
        name=plan.name,
        testset=plan.testset.id,
        revision=plan.testset.revision,
        total=planned.total,
        plan=plan,
        rows=planned.rows,
        concurrency=plan.limits.concurrency,
        slices=make_slices(plan, len(planned.rows) // ROW_BYTES),
        key=key,
    )
