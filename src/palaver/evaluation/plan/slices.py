"""Split the cells of a plan into slices that workers take.

A slice belongs to one workflow and names its cells by their position among those of the workflow (row by row, variant
by variant, repeat by repeat), so that the table of slices stays small.
"""

from collections.abc import Sequence

from palaver.evaluation.plan.plan import ROW_BYTES, CellPosition, Plan, PlannedEvaluation, cell_number
from palaver.storage.evaluations.repository import NewEvaluation, NewSlice
from palaver.storage.evaluations.slices import NO_CALL_WORKFLOW, SLICES_PER_WORKFLOW, Slice

MAX_SLICE_CELLS = 50


def make_slices(plan: Plan, rows: int) -> list[NewSlice]:
    """All slices of a plan. Those of several workflows alternate, so that all start at once."""
    numbered: list[tuple[int, NewSlice]] = []
    for workflow in dict.fromkeys(variant.workflow or NO_CALL_WORKFLOW for variant in plan.variants):
        total = rows * len(_variants_of_workflow(plan, workflow)) * plan.repeats
        size = _slice_size(total, plan.limits.concurrency)
        some = [NewSlice(workflow, first, min(size, total - first)) for first in range(0, total, size)]
        numbered += enumerate(some)
    return [one for _, one in sorted(numbered, key=lambda placed: placed[0])]


def slice_cells(plan: Plan, one: Slice) -> list[int]:
    variants = _variants_of_workflow(plan, one.workflow)
    return [_cell_in_slice(plan, variants, place) for place in range(one.first, one.first + one.count)]


def _cell_in_slice(plan: Plan, variants: Sequence[int], place: int) -> int:
    rest, repeat = divmod(place, plan.repeats)
    row, variant = divmod(rest, len(variants))
    return cell_number(plan, CellPosition(row, variants[variant], repeat))


def _slice_size(total: int, concurrency: int) -> int:
    """Cells of a slice: few for a small evaluation, so that all lanes are busy to the end."""
    width = -(-concurrency // SLICES_PER_WORKFLOW)
    return max(1, min(MAX_SLICE_CELLS, max(width, total // (SLICES_PER_WORKFLOW * 4))))


def _variants_of_workflow(plan: Plan, workflow: str) -> list[int]:
    return [place for place, variant in enumerate(plan.variants) if (variant.workflow or NO_CALL_WORKFLOW) == workflow]


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
